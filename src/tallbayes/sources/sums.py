"""Sums over a range of rows: the compiled half of a source's first service.

Rows are copied a tile at a time into a small transposed float64 buffer, so that every memory order and
precision takes the same path and the inner loops run along rows with unit stride. Compiled loops read arrays
from local names: taking one out of a NamedTuple costs a reference count each time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_sum
from tallbayes.families.curve import by_curve, coefficients, jet, potential
from tallbayes.sources.rows import Rows, dot_row, entry

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TILE = 256
"""Rows per tile: a transposed tile of 20 columns about fills the first-level cache."""


@compiled
def load_tile(X: NDArray[Any], first: int, count: int, tile: Matrix) -> None:
    """Copy rows first .. first + count - 1 into the columns of tile."""
    for r in range(count):
        for j in range(X.shape[1]):
            tile[j, r] = X[first + r, j]


@compiled
def tile_predictor(tile: Matrix, count: int, theta: Vector, eta: Vector) -> None:
    """Put x . theta of the tile's rows into eta."""
    eta[:count] = 0.0
    for j in range(theta.size):
        for r in range(count):
            eta[r] += tile[j, r] * theta[j]


@compiled_sum
def dot(a: Vector, rows: Matrix, row: int, count: int) -> float:
    """Return a . rows[row] over the first `count` entries."""
    total = 0.0
    for r in range(count):
        total += a[r] * rows[row, r]
    return total


@compiled_sum
def dot_four(a: Vector, rows: Matrix, first: int, count: int) -> tuple[float, float, float, float]:
    """Return a . rows[first .. first + 3] at once: a is read once for four products."""
    t0 = 0.0
    t1 = 0.0
    t2 = 0.0
    t3 = 0.0
    for r in range(count):
        t0 += a[r] * rows[first, r]
        t1 += a[r] * rows[first + 1, r]
        t2 += a[r] * rows[first + 2, r]
        t3 += a[r] * rows[first + 3, r]
    return t0, t1, t2, t3


@compiled
def add_products(a: Vector, rows: Matrix, last: int, count: int, out: Vector, at: int) -> None:
    """Add a . rows[j] to out[at + j] for j = 0 .. last - 1."""
    j = 0
    while j + 4 <= last:
        t0, t1, t2, t3 = dot_four(a, rows, j, count)
        out[at + j] += t0
        out[at + j + 1] += t1
        out[at + j + 2] += t2
        out[at + j + 3] += t3
        j += 4
    while j < last:
        out[at + j] += dot(a, rows, j, count)
        j += 1


@by_curve
@compiled
def sum_potential(rows: Rows, curve: Any, theta: Vector, first: int, last: int) -> float:
    """Sum the potential at theta over rows first .. last - 1."""
    X, y, weight, offset = rows
    total = 0.0
    for i in range(first, last):
        m, s, c, l, piece = coefficients(curve, y[i])
        eta = dot_row(X, i, theta) + entry(offset, i)
        total += entry(weight, i) * (m * potential(curve, s * eta + c, piece) + l * eta)
    return total


@by_curve
@compiled
def sum_potential_difference(rows: Rows, curve: Any, theta: Vector, other: Vector, first: int, last: int) -> float:
    """Sum the potential at other minus that at theta, row by row, over rows first .. last - 1."""
    X, y, weight, offset = rows
    total = 0.0
    for i in range(first, last):
        m, s, c, l, piece = coefficients(curve, y[i])
        known = entry(offset, i)
        old = dot_row(X, i, theta) + known
        new = dot_row(X, i, other) + known
        change = m * (potential(curve, s * new + c, piece) - potential(curve, s * old + c, piece))
        total += entry(weight, i) * (change + l * (new - old))
    return total


@by_curve
@compiled
def sum_derivatives(
    rows: Rows,
    curve: Any,
    theta: Vector,
    majorise: bool,
    first: int,
    last: int,
    gradient: Vector,
    hessian: Matrix,
) -> float:
    """Add gradient and Hessian (lower triangle) at theta over rows first .. last - 1; return the potential.

    With ``majorise`` the second derivative g'' is replaced by g'(t) / t, the curvature of the parabola that
    touches an even g at +-t and lies above it: the Hessian is then positive whatever the residuals.
    """
    X, y, weight, offset = rows
    d = theta.size
    tile = np.empty((d, TILE))
    eta = np.empty(TILE)
    slope = np.empty(TILE)
    curvature = np.empty(TILE)
    scaled = np.empty(TILE)
    total = 0.0
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        load_tile(X, start, count, tile)
        tile_predictor(tile, count, theta, eta)
        for r in range(count):
            i = start + r
            m, s, c, l, piece = coefficients(curve, y[i])
            w = entry(weight, i)
            predictor = eta[r] + entry(offset, i)
            t = s * predictor + c
            g1, g2, _, _ = jet(curve, t, piece)
            if majorise and abs(t) > 1e-8:
                g2 = g1 / t
            total += w * (m * potential(curve, t, piece) + l * predictor)
            slope[r] = w * (m * s * g1 + l)
            curvature[r] = w * m * s * s * g2
        add_products(slope, tile, d, count, gradient, 0)
        for a in range(d):
            for r in range(count):
                scaled[r] = curvature[r] * tile[a, r]
            add_products(scaled, tile, a + 1, count, hessian[a], 0)
    return total
