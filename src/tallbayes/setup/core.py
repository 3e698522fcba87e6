r"""Core rows: those whose potential the surrogate has exactly, so that they leave nothing to be thinned.

A coefficient of which few rows speak has a posterior with long tails, where their expansion fails. The surrogate of
order k is the Taylor expansion of all rows, and for core rows also what the expansion leaves out:

.. math:: S = U_0 + \sum_i T_i + \sum_{i \in C} r_i = U_0 + \sum_{i \in C} U_i + \sum_{i \notin C} T_i .

Any fixed set C will do for exactness. Here it is made of all rows in which one of some chosen columns is not zero.
Rows that are equal are kept once, with the sum of their weights.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.rows import jets_by_address
from tallbayes.models.base import Model
from tallbayes.setup.metric import Metric
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TOGETHER = 2**16
"""Rows at so many points are evaluated in one call."""
PREDICTOR, WEIGHT, RESPONSE, TAYLOR = range(4)
"""Columns of `Core.rows` after the whitened row; from the last on, the coefficients of 1, Delta, Delta^2, Delta^3."""
FACTS = TAYLOR + 4


class Core(NamedTuple):
    """The rows that a surrogate evaluates, as compiled code sees them."""

    rows: Matrix
    """A line for each: the whitened row, its predictor at the centre, its weight, its response, and its expansion,
    which is taken off. What is left is a difference, fit for the surrogate; bounds ask for more digits of it."""
    jets: Any
    """The rows' potentials, by address (`families/rows.py`)."""
    parameters: Vector
    """Of that function."""

    @property
    def size(self) -> int:
        """How many rows."""
        return int(self.rows.shape[0])


class DistinctRows(NamedTuple):
    """Different rows among some, with the sum of weights of equal ones: a partial result, which merges."""

    table: Matrix
    """A line for each: the row of the design, offset and response; none if they were too many."""
    weight: Vector
    most: int
    """How many are wanted at most."""
    too_many: bool = False

    def merged(self, other: "DistinctRows") -> "DistinctRows":
        """Return those of both."""
        if self.too_many or other.too_many:
            return self._none()
        return distinct(np.vstack([self.table, other.table]), np.append(self.weight, other.weight), self.most)

    def with_any(self, columns: NDArray[np.int64]) -> "DistinctRows":
        """Return those in which any of some columns of the design is not zero."""
        some = np.any(self.table[:, columns] != 0.0, axis=1)
        return DistinctRows(self.table[some], self.weight[some], self.most)

    def _none(self) -> "DistinctRows":
        return DistinctRows(self.table[:0], self.weight[:0], self.most, too_many=True)


def distinct(table: Matrix, weight: Vector, most: int) -> DistinctRows:
    """Return the different lines of a table, in a fixed order, with the sums of their weights."""
    kept, sums = _equal_in_one_number(table, weight)
    if kept.shape[0] > most:
        return DistinctRows(table, weight, most)._none()
    # Lines that are equal but for rounding of that number, and the order.
    kept, at = np.unique(kept, axis=0, return_inverse=True)
    return DistinctRows(kept, np.bincount(at.ravel(), sums, minlength=kept.shape[0]).astype(np.float64), most)


def _equal_in_one_number(table: Matrix, weight: Vector) -> tuple[Matrix, Vector]:
    """Put equal lines together by a random combination of their numbers: sorting whole lines takes far longer.

    Lines with the same number that are not equal, which chance all but rules out, are all kept.
    """
    key = table @ np.random.default_rng(0).standard_normal(table.shape[1])
    _, first, at = np.unique(key, return_index=True, return_inverse=True)
    if not np.array_equal(table[first][at], table):
        return table, weight
    return table[first], np.bincount(at, weight, minlength=first.size).astype(np.float64)


def rows_with(block: Block, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return in which rows of a block any of some columns is not zero."""
    return np.asarray(np.any(block.X[:, columns] != 0.0, axis=1))


def gather(block: Block, columns: NDArray[np.int64], most: int) -> DistinctRows:
    """Return the different rows of a block in which any of some columns is not zero."""
    chosen = np.flatnonzero(rows_with(block, columns) & (np.broadcast_to(block.weight, block.count) > 0.0))
    offset, weight = (np.broadcast_to(part, block.count)[chosen] for part in (block.offset, block.weight))
    return distinct(np.column_stack([block.X[chosen], offset, block.responses[chosen, 0]]), weight, most)


def core_of(model: Model, metric: Metric, found: DistinctRows, order: int) -> Core:
    """Return gathered rows in the coordinates of a metric, for an expansion of some order."""
    d = model.d
    x, offset, response = found.table[:, :d], found.table[:, d], found.table[:, d + 1]
    at_centre = x @ metric.centre + offset
    taylor = np.zeros((len(x), FACTS - TAYLOR))
    jets = model.rows.jets(np.ascontiguousarray(response[:, None]), at_centre[None], order)
    for k, derivative in enumerate(jets):
        taylor[:, k] = derivative / math.factorial(k)
    facts = np.column_stack([x @ metric.inverse_root.T, at_centre, found.weight, response, taylor])
    return Core(np.ascontiguousarray(facts), model.rows.functions.jets.pointer, model.rows.parameters)


def no_core(model: Model) -> Core:
    """Return no rows at all."""
    return Core(np.empty((0, model.d + FACTS)), model.rows.functions.jets.pointer, model.rows.parameters)


def core_at(core: Core, z: Matrix) -> Vector:
    """Return what the expansion leaves of all core rows, at the points in the lines of z."""
    d = z.shape[1]
    facts = core.rows[:, d:]
    total = np.zeros(z.shape[0])
    together = max(1, TOGETHER // max(core.size, 1))
    for first in range(0, z.shape[0] if core.size else 0, together):
        some = z[first : first + together]
        moves = some @ core.rows[:, :d].T
        responses = np.ascontiguousarray(np.tile(facts[:, RESPONSE], len(some))[:, None])
        values = np.empty((1, moves.size))
        eta = np.ascontiguousarray((facts[:, PREDICTOR] + moves).reshape(1, -1))
        jets_by_address(core.jets, core.parameters, responses, eta, 0, 0, False, values)
        u0, u1, u2, u3 = facts[:, TAYLOR:].T
        left = values.reshape(moves.shape) - (u0 + moves * (u1 + moves * (u2 + moves * u3)))
        total[first : first + together] = left @ facts[:, WEIGHT]
    return total
