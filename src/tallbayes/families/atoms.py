r"""Rows with two predictors whose derivatives are polynomials in a few *atoms*, each monotone over a box.

An atom is a quantity of a row such as e^eta or a probability. Its derivatives by the two predictors are polynomials in
the atoms, so every mixed derivative of the potential is one: found here exactly, by the rules of differentiation. Over
a box each atom lies between two numbers (it is monotone in both predictors), and interval arithmetic on the polynomial
gives numbers between which the derivative lies. These are wider than its range by about the size of the box.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.remainder import (
    FAR,
    FEW,
    FEW_NODES,
    FEW_WEIGHTS,
    MANY,
    MANY_NODES,
    MANY_WEIGHTS,
    NEAR,
)
from tallbayes.families.rows import RowsByAddress

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

Polynomial = dict[tuple[int, ...], float]
"""Coefficients by the exponents of the atoms."""

ROUNDED = 1e-13
"""Of the sum of absolute terms: what a range is widened by, far beyond the rounding of its few operations."""


def polynomial(text: str, atoms: tuple[str, ...]) -> Polynomial:
    """Read a sum of products such as ``"l c - y + 2 c c"``: a number and names, with spaces between them."""
    found: Polynomial = {}
    for term in text.replace("- ", "+ -").split("+ "):
        factor, exponents = 1.0, [0] * len(atoms)
        for word in term.split():
            sign, name = (-1.0, word[1:]) if word.startswith("-") else (1.0, word)
            factor *= sign
            if name in atoms:
                exponents[atoms.index(name)] += 1
            else:
                factor *= float(name)
        key = tuple(exponents)
        found[key] = found.get(key, 0.0) + factor
    return {key: value for key, value in found.items() if value != 0.0}


def derivative(p: Polynomial, rules: list[Polynomial]) -> Polynomial:
    """Return the derivative by a predictor, from that of each atom."""
    found: Polynomial = {}
    for exponents, factor in p.items():
        for k, power in enumerate(exponents):
            if power:
                for others, value in rules[k].items():
                    key = tuple(e + o - (j == k) for j, (e, o) in enumerate(zip(exponents, others, strict=True)))
                    found[key] = found.get(key, 0.0) + factor * power * value
    return {key: value for key, value in found.items() if value != 0.0}


class Table(NamedTuple):
    """All mixed derivatives of order 1 to 4, as compiled code reads them."""

    starts: NDArray[np.int64]
    """Where the terms of each derivative begin, in the order of `algebraic.index_of`; and where the last ones end."""
    factors: Vector
    exponents: NDArray[np.int64]


def table_of(atoms: str, slopes: tuple[str, str], rules: dict[str, tuple[str, str]]) -> Table:
    """Return the derivatives of a potential, from its two slopes and the two slopes of each atom."""
    names = tuple(atoms.split())
    by = [[polynomial(rules[name][j], names) if name in rules else {} for name in names] for j in (0, 1)]
    found = {(1, 0): polynomial(slopes[0], names), (0, 1): polynomial(slopes[1], names)}
    for m in range(1, 4):
        for b in range(m + 1):
            found[m - b + 1, b] = derivative(found[m - b, b], by[0])
        found[0, m + 1] = derivative(found[0, m], by[1])
    ordered = [found[m - b, b] for m in range(1, 5) for b in range(m + 1)]
    starts = np.cumsum([0, *(len(p) for p in ordered)]).astype(np.int64)
    every = [(key, value) for p in ordered for key, value in p.items()]
    exponents = np.array([key for key, _ in every], dtype=np.int64)
    return Table(starts, np.array([value for _, value in every], dtype=np.float64), exponents)


@compiled
def mixed_value(table: Table, atoms: Vector, m: int, b: int) -> float:
    """Return the mixed derivative of order m, b times by the second predictor."""
    starts, factors, exponents = table
    line = m * (m + 1) // 2 - 1 + b
    total = 0.0
    for k in range(starts[line], starts[line + 1]):
        term = factors[k]
        for j in range(atoms.size):
            for _ in range(exponents[k, j]):
                term *= atoms[j]
        total += term
    return total


@compiled
def mixed_range(table: Table, low: Vector, high: Vector, m: int, b: int) -> tuple[float, float]:
    """Return numbers between which that derivative lies, where each atom lies between low and high."""
    starts, factors, exponents = table
    line = m * (m + 1) // 2 - 1 + b
    least, largest, size = 0.0, 0.0, 0.0
    for k in range(starts[line], starts[line + 1]):
        one, other = factors[k], factors[k]
        for j in range(low.size):
            for _ in range(exponents[k, j]):
                a, c, d, e = one * low[j], one * high[j], other * low[j], other * high[j]
                one, other = min(a, c, d, e), max(a, c, d, e)
        least += one
        largest += other
        size += max(abs(one), abs(other))
    return least - ROUNDED * size, largest + ROUNDED * size


@compiled
def put_jets(table: Table, atoms: Vector, first: int, last: int, r: int, out: Matrix) -> None:
    """Put the derivatives of orders max(first, 1) to last of row r into out."""
    line = 1 if first == 0 else 0
    for m in range(max(first, 1), last + 1):
        for b in range(m + 1):
            out[line, r] = mixed_value(table, atoms, m, b)
            line += 1


@compiled
def put_bounds(table: Table, low: Vector, high: Vector, norms: Matrix, m: int, r: int, out: Matrix) -> None:
    """Put the largest rise, fall and absolute value of the m-th derivative along unit moves into out."""
    rise, fall, whole, choose = 0.0, 0.0, 0.0, 1.0
    for b in range(m + 1):
        least, largest = mixed_range(table, low, high, m, b)
        length = choose
        for _ in range(m - b):
            length *= norms[0, r]
        for _ in range(b):
            length *= norms[1, r]
        up, down = max(0.0, largest), max(0.0, -least)
        both = math.nan if math.isnan(least + largest) else max(up, down)
        even = b % 2 == 0 and (m - b) % 2 == 0
        rise += length * (up if even else both)
        fall += length * (down if even else both)
        whole += length * both
        choose = choose * (m - b) / (b + 1)
    out[0, r], out[1, r], out[2, r] = rise, fall, whole


@compiled
def along(table: Table, atoms: Vector, move: Vector, m: int) -> float:
    """Return the m-th derivative along a move of the two predictors."""
    total, choose = 0.0, 1.0
    for b in range(m + 1):
        term = choose * mixed_value(table, atoms, m, b)
        for _ in range(m - b):
            term *= move[0]
        for _ in range(b):
            term *= move[1]
        total += term
        choose = choose * (m - b) / (b + 1)
    return total


@compiled
def expansion(table: Table, atoms: Vector, move: Vector, k: int) -> float:
    """Return the Taylor polynomial of order k for a move, without its constant."""
    total, factorial = 0.0, 1.0
    for m in range(1, k + 1):
        factorial *= m
        total += along(table, atoms, move, m) / factorial
    return total


@compiled
def node_count(size: float) -> int:
    """Return how many nodes a remainder takes, for a step of some share of the distance to a singularity; 0: none."""
    return 0 if size >= FAR else FEW if size < NEAR else MANY


@compiled
def node(k: int, q: int, nodes: int) -> tuple[float, float]:
    """Return a node of the rule for order k, and its weight."""
    if nodes == FEW:
        return FEW_NODES[k, q], FEW_WEIGHTS[k, q]
    return MANY_NODES[k, q], MANY_WEIGHTS[k, q]


class AtomRows(RowsByAddress):
    """Rows of two predictors whose derivatives are made of atoms: ranges need no extremes, and rounding is of terms."""

    @property
    def parameters(self) -> Vector:
        """None."""
        return np.zeros(1)

    def extremes(self, m: int) -> Matrix:
        """Return nothing: ranges are those of the atoms."""
        return np.zeros((1, 1))

    @abstractmethod
    def terms(self, response: Vector, eta: Vector, step: float, turn: float, order: int) -> float:
        """Return the size of what a remainder is the sum of, where predictors move by so much."""

    def steepness(self, eta: Vector) -> float:
        """Return how fast derivatives change with the predictors, relative to themselves."""
        return 2.0

    def rounding(
        self, response: Vector, eta: Vector, old: Vector, new: Vector, order: int
    ) -> tuple[float, Callable[[Vector], float]]:
        """Return how far rounding can be off in a row's two remainders, and how errors of its predictors count."""
        steps = [(abs(float(move[0])), abs(float(move[1]))) for move in (old, new)]
        size = sum(self.terms(response, eta, step, turn, order) for step, turn in steps)

        def per_predictor(products: Vector) -> float:
            return (order + 2) * float(np.sum(products)) * self.steepness(eta)

        return 64.0 * float(np.finfo(np.float64).eps) * size, per_predictor
