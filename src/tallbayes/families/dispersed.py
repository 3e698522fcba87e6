r"""Counts of unknown overdispersion: rows with the log mean eta and the log size tau.

With f = e^tau, t = eta - tau, L = log(1 + e^t), s = 1 / (1 + e^-t) and r_j = j / (f + j),

.. math:: U = (y + f) L - y \eta - \sum_{j < y} \log(1 + j / f), \qquad
          \partial_\eta U = (y + f) s - y, \quad \partial_\tau U = A_1 + f L - (y + f) s,

where A_k is the sum of r_j^k over j < y: the log-gamma functions of a count are finite sums. Derivatives are
polynomials in y, f, L, s and A_1 to A_4, which are monotone in both predictors (`families/atoms.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled
from tallbayes.families.atoms import along, node, node_count, put_bounds, put_jets, table_of
from tallbayes.families.base import Vector
from tallbayes.families.elementary import expit, softplus
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, RowFunctions, RowsByAddress

COUNT = 8
TABLE = table_of(
    "y f L s A1 A2 A3 A4",
    ("y s + f s - y", "A1 + f L - y s - f s"),
    {
        "f": ("0", "f"),
        "L": ("s", "-1 s"),
        "s": ("s - s s", "-1 s + s s"),
        "A1": ("0", "-1 A1 + A2"),
        "A2": ("0", "-2 A2 + 2 A3"),
        "A3": ("0", "-3 A3 + 3 A4"),
    },
)


@compiled
def put_atoms(y: float, eta: float, tau: float, size: float, out: Vector) -> None:
    """Put the atoms into out: L and s at (eta, tau), the others at a log size of their own."""
    f = math.exp(size)
    out[0] = y
    out[1] = f
    out[2] = softplus(eta - tau)
    out[3] = expit(eta - tau)
    for k in range(4):
        out[4 + k] = 0.0
    for j in range(1, int(y)):
        r = j / (f + j)
        power = 1.0
        for k in range(4):
            power *= r
            out[4 + k] += power


@compiled
def potential_of(y: float, eta: float, tau: float) -> float:
    """Return U, up to a constant."""
    f = math.exp(tau)
    total = (y + f) * softplus(eta - tau) - y * eta
    for j in range(1, int(y)):
        total -= math.log1p(j / f)
    return total


@compiled
def left_over(y: float, eta: Vector, move: Vector, k: int, atoms: Vector) -> float:
    """Return what the expansion of order k leaves of a row, for a move of its predictors."""
    # Singularities: where e^t or e^tau / j is -1.
    size = (abs(move[0]) + 2.0 * abs(move[1])) / math.pi
    nodes = node_count(size)
    if nodes == 0:
        total = potential_of(y, eta[0] + move[0], eta[1] + move[1]) - potential_of(y, eta[0], eta[1])
        put_atoms(y, eta[0], eta[1], eta[1], atoms)
        factorial = 1.0
        for m in range(1, k + 1):
            factorial *= m
            total -= along(TABLE, atoms, move, m) / factorial
        return total
    total = 0.0
    for q in range(nodes):
        at, weight = node(k, q, nodes)
        tau = eta[1] + at * move[1]
        put_atoms(y, eta[0] + at * move[0], tau, tau, atoms)
        total += weight * along(TABLE, atoms, move, k + 1)
    return total


def _jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
    atoms = np.empty(COUNT)
    for r in range(eta.shape[1]):
        y = responses[r, 0]
        if first == 0:
            out[0, r] = potential_of(y, eta[0, r], eta[1, r])
        put_atoms(y, eta[0, r], eta[1, r], eta[1, r], atoms)
        put_jets(TABLE, atoms, first, last, r, out)
        if majorise:  # the mixed term left out, and no negative curvature in the size
            at = 3 if first == 0 else 0
            out[at + 1, r] = 0.0
            out[at + 2, r] = abs(out[at + 2, r]) + 0.1


def _bounds(
    parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
) -> None:
    low, high = np.empty(COUNT), np.empty(COUNT)
    for r in range(eta.shape[1]):
        y, wide, turn = responses[r, 0], radius * norms[0, r], radius * norms[1, r]
        least, most = eta[1, r] - turn, eta[1, r] + turn
        put_atoms(y, eta[0, r] - wide, most, least, low)  # L and s rise with eta and fall with tau, f rises
        put_atoms(y, eta[0, r] + wide, least, most, high)
        for j in range(4, COUNT):  # these fall
            low[j], high[j] = high[j], low[j]
        put_bounds(TABLE, low, high, norms, m, r, out)


def _remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
    atoms = np.empty(COUNT)
    out[0] = left_over(response[0], eta, old, order, atoms)
    out[1] = left_over(response[0], eta, new, order, atoms)


FUNCTIONS = RowFunctions(ByAddress(JETS, _jets), ByAddress(BOUNDS, _bounds), ByAddress(REMAINDERS, _remainders))


@dataclass(frozen=True, eq=False)
class DispersedRows(RowsByAddress):
    """Rows of counts with an unknown size."""

    @property
    def functions(self) -> RowFunctions:
        """The functions."""
        return FUNCTIONS

    @property
    def parameters(self) -> Vector:
        """None."""
        return np.zeros(1)

    def extremes(self, m: int) -> Any:
        """Return nothing: ranges are those of the atoms."""
        return np.zeros((1, 1))

    def rounding(
        self, response: Vector, eta: Vector, old: Vector, new: Vector, order: int
    ) -> tuple[float, Callable[[Vector], float]]:
        """Return how far rounding can be off in a row's two remainders, and how errors of its predictors count."""
        y, size = float(response[0]), 0.0
        for move in (old, new):
            step, turn = abs(float(move[0])), abs(float(move[1]))
            f = math.exp(float(eta[1]) + turn)
            reach = 2.0 + abs(float(eta[0])) + abs(float(eta[1])) + step + turn
            size += (2.0 * y + f) * reach * (2.0 + math.log1p(y))
            size += sum((2.0 * y + f) * reach * (step + turn) ** m for m in range(1, order + 1))

        def per_predictor(products: Vector) -> float:
            return 2.0 * (order + 2) * float(np.sum(products))

        return 64.0 * float(np.finfo(np.float64).eps) * size, per_predictor
