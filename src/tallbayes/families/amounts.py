r"""Positive amounts of unknown shape: rows with the log mean eta and the log shape tau.

With a = e^tau, s = eta - log(y), k = s + e^-s - 1 and Binet's function
:math:`\theta(a) = \log\Gamma(a) - (a - 1/2) \log a + a - \log(2 \pi) / 2`, up to a constant

.. math:: U = a k - \tau / 2 + \theta(a), \qquad
          \partial_\eta U = a v, \quad \partial_\tau U = a k - 1/2 - A_1,

where v = 1 - e^-s and A_m is :math:`(-a)^m \theta^{(m)}(a)`. By Binet's formula A_m is the integral of
:math:`\varphi(u / a) u^{m-1} e^{-u}` over u > 0, and :math:`\varphi(t) = 1 / (e^t - 1) - 1 / t + 1/2` rises from 0
to 1/2: A_m is positive and falls with a, from (m - 1)! / 2 to 0. Its derivative by tau is m A_m - A_(m+1), so
derivatives are polynomials in a, k, v, e^-s and A_1 to A_4. All are monotone in the predictors but k, which has its
least value, 0, at s = 0 (`families/atoms.py`).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled
from tallbayes.families.atoms import AtomRows, along, expansion, node, node_count, put_bounds, put_jets, table_of
from tallbayes.families.base import Vector
from tallbayes.families.elementary import exp
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, RowFunctions

LOG_ROOT = 0.9189385332046728
"""Of 2 pi."""
COUNT = 8
BINET = 4
"""The first of the atoms that are derivatives of Binet's function."""
TABLE = table_of(
    "a k v e A1 A2 A3 A4",
    ("a v", "a k - 0.5 - A1"),
    {
        "a": ("0", "a"),
        "k": ("v", "0"),
        "v": ("e", "0"),
        "e": ("-1 e", "0"),
        "A1": ("0", "A1 - A2"),
        "A2": ("0", "2 A2 - A3"),
        "A3": ("0", "3 A3 - A4"),
    },
)

FAR = 12.0
"""From here on Stirling's series is used; smaller shapes go there in steps of 1."""
STIRLING = np.array(
    [
        *(1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400),
        *(43867 / 244188, -174611 / 125400, 77683 / 5796, -236364091 / 1506960),
    ]
)
"""Coefficients of 1 / a, 1 / a^3, ... in Binet's function."""


@compiled
def excess(s: float) -> float:
    """Return s + e^-s - 1, by its power series where that would cancel."""
    if abs(s) > 0.5:
        return s + exp(-s) - 1.0
    total = 0.0
    for n in range(17, 1, -1):
        total = 1.0 - s / (n + 1) * total
    return 0.5 * s * s * total


@compiled
def put_binet(a: float, out: Vector) -> None:
    """Put Binet's function and A_1 to A_4 into out.

    What theta loses from x to x + 1 is (x + 1/2) log(1 + 1/x) - 1, a series in w = 1 / (2 x + 1) whose terms are
    positive; so are those of its derivatives, the second of which is 1 / (2 x^2 (x + 1)^2).
    """
    out[:5] = 0.0
    x = a
    while x < FAR:
        share = a / x
        if x < 1.0:
            log = math.log1p(1.0 / max(x, 1e-300))
            out[0] += (x + 0.5) * log - 1.0
            out[1] += share * (0.5 + 0.5 * x / (x + 1.0) - x * log)
        else:
            w = 1.0 / (2.0 * x + 1.0)
            step, slope = 0.0, 0.0
            for j in range(20, 0, -1):
                step = w * w * (1.0 / (2 * j + 1) + step)
                slope = w * w * (2 * j / (2 * j + 1.0) + slope)
            out[0] += step
            out[1] += a * 2.0 * w * slope
        y = x + 1.0
        out[2] += 0.5 * (share / y) ** 2
        out[3] += share * share * share * (x + y) / (y * y * y)
        out[4] += share * share * share * share * (10.0 * x * y + 3.0) / (y * y * y * y)
        x = y
    ratio, inverse = a / x if x < math.inf else 1.0, 1.0 / x
    for m in range(5):
        total = 0.0
        for n in range(STIRLING.size - 1, -1, -1):
            term = STIRLING[n]
            for j in range(m):
                term *= 2 * n + 1 + j
            total = total * inverse * inverse + term
        factor = inverse
        for _ in range(m):
            factor *= ratio
        out[m] += factor * total


@compiled
def put_atoms_of(s: float, a: float, binet: Vector, out: Vector) -> None:
    """Put the atoms at a point into out, given Binet's function of the shape a."""
    out[0] = a
    out[1] = excess(s)
    out[2] = -math.expm1(-s) if s > -700.0 else -math.inf
    out[3] = exp(-s)
    out[BINET:] = binet[1:]


@compiled
def put_atoms(s: float, tau: float, binet: Vector, out: Vector) -> None:
    """Put the atoms at a point into out, and Binet's function of the shape into binet."""
    a = exp(tau)
    put_binet(a, binet)
    put_atoms_of(s, a, binet, out)


@compiled
def potential_of(s: float, tau: float, a: float, binet: Vector) -> float:
    """Return U, up to a constant, given Binet's function of the shape a = e^tau."""
    return a * excess(s) - 0.5 * tau + binet[0]


@compiled
def potential_at(s: float, tau: float, binet: Vector) -> float:
    """Return U, up to a constant, and put Binet's function of the shape into binet."""
    a = exp(tau)
    put_binet(a, binet)
    return potential_of(s, tau, a, binet)


@compiled
def left_over(y: float, eta: Vector, move: Vector, k: int, binet: Vector, atoms: Vector) -> float:
    """Return what the expansion of order k leaves of a row, for a move of its predictors."""
    s = eta[0] - math.log(y)
    # Singularities: where e^tau is 0, -1, -2, ...; growth of e^-s on the way there.
    nodes = node_count((abs(move[0]) + abs(move[1])) / math.pi)
    if nodes == 0:
        total = potential_at(s + move[0], eta[1] + move[1], binet) - potential_at(s, eta[1], binet)
        put_atoms(s, eta[1], binet, atoms)
        return total - expansion(TABLE, atoms, move, k)
    total = 0.0
    for q in range(nodes):
        at, weight = node(k, q, nodes)
        put_atoms(s + at * move[0], eta[1] + at * move[1], binet, atoms)
        total += weight * along(TABLE, atoms, move, k + 1)
    return total


def _jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
    binet, atoms = np.empty(5), np.empty(COUNT)
    a = known = math.nan  # rows share a shape, unless it has columns: Binet's function takes longer than all else
    for r in range(eta.shape[1]):
        s = eta[0, r] - math.log(responses[r, 0])
        if eta[1, r] != known:
            known = eta[1, r]
            a = exp(known)
            put_binet(a, binet)
        if first == 0:
            out[0, r] = potential_of(s, known, a, binet)
        if last == 0:
            continue
        put_atoms_of(s, a, binet, atoms)
        put_jets(TABLE, atoms, first, last, r, out)
        if majorise:  # the mixed term left out; every curvature is positive
            at = 3 if first == 0 else 0
            out[at, r] = max(out[at, r], atoms[0])
            out[at + 1, r] = 0.0
            out[at + 2, r] += 0.1


def _bounds(
    parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
) -> None:
    binet, low, high = np.empty(5), np.empty(COUNT), np.empty(COUNT)
    for r in range(eta.shape[1]):
        s, wide, turn = eta[0, r] - math.log(responses[r, 0]), radius * norms[0, r], radius * norms[1, r]
        put_atoms(s - wide, eta[1, r] - turn, binet, low)
        put_atoms(s + wide, eta[1, r] + turn, binet, high)
        low[1], high[1] = min(low[1], high[1]), max(low[1], high[1])
        if abs(s) <= wide:
            low[1] = 0.0
        for j in range(3, COUNT):  # these fall
            low[j], high[j] = high[j], low[j]
        put_bounds(TABLE, low, high, norms, m, r, out)


def _remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
    binet, atoms = np.empty(5), np.empty(COUNT)
    out[0] = left_over(response[0], eta, old, order, binet, atoms)
    out[1] = left_over(response[0], eta, new, order, binet, atoms)


FUNCTIONS = RowFunctions(ByAddress(JETS, _jets), ByAddress(BOUNDS, _bounds), ByAddress(REMAINDERS, _remainders))


@dataclass(frozen=True, eq=False)
class AmountRows(AtomRows):
    """Rows of positive amounts with an unknown shape."""

    @property
    def functions(self) -> RowFunctions:
        """The functions."""
        return FUNCTIONS

    def terms(self, response: Vector, eta: Vector, step: float, turn: float, order: int) -> float:
        """Return the size of what a remainder is the sum of, where predictors move by so much."""
        log = math.log(float(response[0]))
        a, largest = exp(float(eta[1]) + turn), exp(abs(float(eta[0]) - log) + step)
        reach = 2.0 + abs(float(eta[0])) + abs(log) + abs(float(eta[1])) + step + turn
        powers = sum((1.0 + a * largest) * (step + turn) ** m for m in range(1, order + 1))
        return (1.0 + a) * largest * reach + powers
