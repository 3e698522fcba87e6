"""Sums over the rows of a block: what every pass of a set-up and every step on all rows is made of.

Functions of a block and plain arguments, at the top level of the module: a source applies them to its blocks, here or
elsewhere, and adds up what they return.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_borrowing
from tallbayes.models.predictors import Linear, Predictors
from tallbayes.sources.alias import WHOLE
from tallbayes.sources.base import Block
from tallbayes.sources.supply import RowBounds

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROUNDED_UP = 1.000001
"""Factor that makes a share safe in single precision."""
SMALLEST = 1e-300
"""Powers of lengths below this have lost digits."""


def weighted(values: Matrix, weight: Vector) -> Matrix:
    """Multiply the columns of an array by the rows' weights, in place; rows of weight 0 count as 0, always."""
    if weight.size == 1 and weight[0] == 1.0:
        return values
    values *= weight
    if weight.size > 1 and not np.all(weight):
        values[:, weight == 0.0] = 0.0
    return values


def potential(block: Block, rows: Any, predictors: Predictors, theta: Vector) -> float:
    """Return the negative log-likelihood at theta."""
    return float(np.sum(weighted(rows.jets(block.responses, predictors.at(block, theta), 0), block.weight)))


def potential_change(
    block: Block, rows: Any, predictors: Predictors, theta: Vector, other: Vector
) -> tuple[float, float]:
    """Return the change of the negative log-likelihood from theta to other, row by row, and its value at other."""
    after = weighted(rows.jets(block.responses, predictors.at(block, other), 0), block.weight)
    before = weighted(rows.jets(block.responses, predictors.at(block, theta), 0), block.weight)
    with np.errstate(invalid="ignore"):  # infinity less infinity is noticed by whoever asked
        return float(np.sum(after - before)), float(np.sum(after))


def slopes(block: Block, rows: Any, predictors: Predictors, theta: Vector) -> Vector:
    """Return the gradient of the negative log-likelihood at theta."""
    eta = predictors.at(block, theta)
    return predictors.gradient(block, weighted(rows.jets(block.responses, eta, 1, first=1), block.weight))


def slopes_and_diagonal(block: Block, rows: Any, predictors: Linear, theta: Vector) -> tuple[Vector, Vector]:
    """Return the gradient, and the diagonal of the Hessian."""
    jets = weighted(rows.jets(block.responses, predictors.at(block, theta), 2, first=1), block.weight)
    return predictors.gradient(block, jets[:1]), np.dot(jets[1], block.X * block.X)


def derivatives(
    block: Block, rows: Any, predictors: Predictors, theta: Vector, majorise: bool = False, valued: bool = True
) -> tuple[float, Vector, Matrix]:
    """Return the negative log-likelihood, or NaN if it is not asked for, its gradient and its Hessian at theta."""
    eta = predictors.at(block, theta)
    first = 0 if valued else 1
    jets = weighted(rows.jets(block.responses, eta, 2, first=first, majorise=majorise), block.weight)
    slopes_from, second = 1 - first, 1 - first + eta.shape[0]
    return (
        float(np.sum(jets[0])) if valued else math.nan,
        predictors.gradient(block, jets[slopes_from:second]),
        predictors.hessian(block, jets[second:]),
    )


def whitened_hessian(
    block: Block, rows: Any, predictors: Predictors, centre: Vector, inverse_root: Matrix
) -> Matrix:
    """Return the Hessian in whitened coordinates, from whitened rows."""
    eta = predictors.at(block, centre)
    curvatures = weighted(rows.jets(block.responses, eta, 2, first=2), block.weight)
    return predictors.hessian(block, curvatures, inverse_root)


def third_derivatives(
    block: Block,
    rows: Any,
    predictors: Predictors,
    centre: Vector,
    inverse_root: Matrix,
    white: Matrix | None = None,
) -> Any:
    """Return what the third derivatives in whitened coordinates are made of (`Predictors.third`).

    Whitened rows of a single predictor are computed unless they are given.
    """
    thirds = weighted(rows.jets(block.responses, predictors.at(block, centre), 3, first=3), block.weight)
    return predictors.third(block, thirds, inverse_root, white)


def third_along_columns(
    block: Block, rows: Any, predictors: Linear, theta: Vector, columns: NDArray[np.int64]
) -> tuple[Vector, Vector]:
    """Return the third derivative along some coefficients, and in how many rows each of them appears."""
    third = weighted(rows.jets(block.responses, predictors.at(block, theta), 3, first=3), block.weight)[0]
    x = block.X[:, columns]
    return np.dot(third, x**3), np.count_nonzero(x, axis=0).astype(np.float64)


class Ball(NamedTuple):
    """Where local bounds hold: in whitened coordinates, at most a radius from the centre."""

    centre: Vector
    inverse_root: Matrix
    radius: float
    core: NDArray[np.int64]
    """Rows in which one of these columns is not zero have no bound: a surrogate has them exactly."""


def local_bounds(
    block: Block, rows: Any, predictors: Predictors, ball: Ball, m: int, norms: Matrix | None = None
) -> RowBounds:
    r"""Return :math:`w_i \sup |U_i^{(m)}| a_i^m / m!`, the supremum over a ball, and what rises and falls use of it.

    Of several predictors it is the sum over all multi-indices of that order, over the box around the ball
    (docs/mathematics.md).

    If m is even a remainder has the sign of the derivative, so it can use the supremum of the positive part by
    rising, and that of the negative part by falling. Lengths of whitened rows are computed unless they are given.
    """
    eta = predictors.at(block, ball.centre)
    if norms is None:
        norms = predictors.norms(block, ball.inverse_root, rows.sums)
    suprema = rows.bounds(block.responses, eta, norms, ball.radius, m)
    psi, shares = np.empty(block.count), WHOLE if m % 2 == 1 else np.empty((block.count, 2), dtype=np.float32)
    lengths = norms[0] if predictors.linear else np.empty(0)
    largest = _psi_and_shares(suprema, lengths, block.weight, m, float(math.factorial(m)), psi, shares)
    if ball.core.size:
        psi[np.any(block.X[:, ball.core] != 0.0, axis=1)] = 0.0
    return RowBounds(psi, shares, largest)


@compiled_borrowing
def _psi_and_shares(
    suprema: Matrix,
    lengths: Vector,
    weight: Vector,
    m: int,
    factorial: float,
    psi: Vector,
    shares: NDArray[np.float32],
) -> float:
    """Put the bounds of rows into psi, and for even m what rises and falls can use of them into shares.

    Return the largest psi_i / a_i^m, or infinity if lengths a_i are not given. A bound that is infinite or not a number
    is noticed by whoever adds them up.
    """
    largest = 0.0 if lengths.size > 0 else math.inf
    for i in range(psi.size):
        rise, fall, size = suprema[0, i], suprema[1, i], suprema[2, i]
        psi[i] = (weight[i] if weight.size > 1 else weight[0]) * size / factorial
        if m % 2 == 0:
            usable = 0.0 < size < math.inf
            shares[i, 0] = min(1.0, rise / size * ROUNDED_UP) if usable else 1.0
            shares[i, 1] = min(1.0, fall / size * ROUNDED_UP) if usable else 1.0
        if lengths.size > 0 and psi[i] > 0.0:
            power = lengths[i]
            for _ in range(m - 1):
                power *= lengths[i]
            largest = max(largest, psi[i] / power if power > SMALLEST else math.inf)
    return largest


def global_bounds(block: Block, rows: Any, m: int) -> RowBounds:
    """Return the paper's constants of a block's rows."""
    return RowBounds(rows.global_bounds(block.X, block.responses, block.weight, m), WHOLE)


class BoundSums(NamedTuple):
    """Sums of bounds over rows, and the steepest of them."""

    total: float
    """Psi, the sum of psi_i."""
    rising: float
    """Of Psi, what remainders can use by rising."""
    falling: float
    """Of Psi, what remainders can use by falling."""
    steepest: float
    """The largest psi_i / a_i^(k+1), or infinity (`RowBounds`)."""

    def merged(self, other: "BoundSums") -> "BoundSums":
        """Return those of both."""
        return BoundSums(
            self.total + other.total,
            self.rising + other.rising,
            self.falling + other.falling,
            max(self.steepest, other.steepest),
        )


class BoundTables(NamedTuple):
    """Where the bounds of all rows are kept, for sources whose rows can be drawn at any time."""

    psi: Vector
    shares: NDArray[np.float32]


def sum_bounds(
    block: Block, part: Callable[..., RowBounds], arguments: tuple[Any, ...], tables: BoundTables | None
) -> BoundSums:
    """Return the sums of a block's bounds, after putting them into the tables, if there are any."""
    bounds = part(block, *arguments)
    if tables is not None:
        rows = slice(block.first, block.first + block.count)
        tables.psi[rows] = bounds.psi
        if tables.shares.shape[0] > 1:
            tables.shares[rows] = bounds.shares
    return sums_of(bounds)


def sums_of(bounds: RowBounds) -> BoundSums:
    """Return the sum of bounds, what rises and falls use of it, and the steepest."""
    psi, shares, steepest = bounds
    used = np.dot(psi, shares) if shares.shape[0] > 1 else np.sum(psi) * shares[0]
    return BoundSums(float(np.sum(psi)), float(used[0]), float(used[1]), float(steepest))


def steepest_row(block: Block, rows: Any, predictors: Linear, theta: Vector) -> "Steepest":
    """Return the row with the steepest potential at theta, one that is not a number counting as steepest."""
    eta = predictors.at(block, theta)
    pull = np.abs(weighted(rows.jets(block.responses, eta, 1, first=1), block.weight)[0])
    at = int(np.argmax(np.where(np.isnan(pull), math.inf, pull)))
    offset, weight = (float(v[min(at, v.size - 1)]) for v in (block.offset, block.weight))
    size = math.inf if math.isnan(pull[at]) else float(pull[at])
    return Steepest(size, block.first + at, float(block.responses[at, 0]), float(eta[0, at]), offset, weight)


class Steepest(NamedTuple):
    """The row that pulls hardest among some."""

    pull: float
    row: int
    response: float
    predictor: float
    offset: float
    weight: float

    def merged(self, other: "Steepest") -> "Steepest":
        """Return the one that pulls harder, the first of equals."""
        return other if other.pull > self.pull else self
