"""Sums and bounds in whitened coordinates: the compiled passes over rows that follow the mode."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import by_curve, coefficients, covers, jet
from tallbayes.sources.rows import Rows, dot_row, entry
from tallbayes.sources.sums import TILE, add_products, load_tile, tile_predictor
from tallbayes.surrogate.remainder import derivative

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@compiled
def whiten_tile(tile: Matrix, count: int, inverse_root: Matrix, white: Matrix) -> None:
    """Put L^-1 x of the tile's rows into white; L is lower triangular."""
    for a in range(tile.shape[0]):
        white[a, :count] = 0.0
        for b in range(a + 1):
            for r in range(count):
                white[a, r] += inverse_root[a, b] * tile[b, r]


@by_curve
@compiled
def sum_whitened_hessian(
    rows: Rows, curve: Any, centre: Vector, inverse_root: Matrix, first: int, last: int, hessian: Matrix
) -> None:
    """Add the likelihood's Hessian in whitened coordinates (lower triangle) over rows first .. last - 1."""
    X, y, weight, offset = rows
    d = centre.size
    tile, white = np.empty((d, TILE)), np.empty((d, TILE))
    eta, scaled, curvature = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        load_tile(X, start, count, tile)
        tile_predictor(tile, count, centre, eta)
        whiten_tile(tile, count, inverse_root, white)
        for r in range(count):
            i = start + r
            m, s, c, _, piece = coefficients(curve, y[i])
            g2 = jet(curve, s * (eta[r] + entry(offset, i)) + c, piece)[1]
            curvature[r] = entry(weight, i) * s * s * g2 * m
        for a in range(d):
            for r in range(count):
                scaled[r] = curvature[r] * white[a, r]
            add_products(scaled, white, a + 1, count, hessian[a], 0)


@compiled
def sum_cubic(
    rows: Rows, curve: Any, centre: Vector, inverse_root: Matrix, first: int, last: int, packed: Vector
) -> None:
    """Add the third derivative's sums over rows, entry (a, b, c) with a >= b >= c, to packed."""
    X, y, weight, offset = rows
    d = centre.size
    tile, white = np.empty((d, TILE)), np.empty((d, TILE))
    eta, third, single, pair = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        load_tile(X, start, count, tile)
        tile_predictor(tile, count, centre, eta)
        whiten_tile(tile, count, inverse_root, white)
        for r in range(count):
            i = start + r
            m, s, c, _, piece = coefficients(curve, y[i])
            g3 = jet(curve, s * (eta[r] + entry(offset, i)) + c, piece)[2]
            third[r] = entry(weight, i) * s * s * s * g3 * m
        at = 0
        for a in range(d):
            for r in range(count):
                single[r] = third[r] * white[a, r]
            for b in range(a + 1):
                for r in range(count):
                    pair[r] = single[r] * white[b, r]
                add_products(pair, white, b + 1, count, packed, at)
                at += b + 1


@compiled
def derivative_range(
    curve: Any, m: int, low: float, high: float, critical: Vector, piece: float
) -> tuple[float, float]:
    """Return the least and largest m-th derivative of g on an interval: end points and critical points.

    Where the curve's critical points are not proved, nothing is known.
    """
    if not covers(curve, low, high):
        return -np.inf, np.inf
    at_low = derivative(curve, low, m, piece)
    at_high = derivative(curve, high, m, piece)
    least = min(at_low, at_high)
    largest = max(at_low, at_high)
    for t in critical:
        if low < t < high:
            value = derivative(curve, t, m, piece)
            least = min(least, value)
            largest = max(largest, value)
    return least, largest


@compiled
def steepest(multiple: float, s: float, l: float, m: int, least: float, largest: float) -> float:
    """Return the largest |m-th derivative| in eta of multiple g(s eta + c) + l eta, from the range of g's."""
    power = multiple * s**m
    if m == 1:
        return max(abs(power * least + l), abs(power * largest + l))
    return abs(power) * max(abs(least), abs(largest))


@compiled
def fill_local_bounds(
    rows: Rows,
    curve: Any,
    centre: Vector,
    inverse_root: Matrix,
    m: int,
    radius: float,
    critical: Vector,
    first: int,
    last: int,
    psi: Vector,
    shares: NDArray[np.float32],
) -> None:
    """Put w_i sup |U_i^(m)| a_i^m / m! into psi, a_i = |L^-1 x_i|, sup over eta_i +- radius a_i.

    If there is a line of shares for each row, m is even, and a remainder has the sign of U_i^(m): what it can
    use of psi_i by rising and by falling are the suprema of the positive and of the negative part.
    """
    X, y, weight, offset = rows
    d = centre.size
    tile, white = np.empty((d, TILE)), np.empty((d, TILE))
    eta, norm = np.empty(TILE), np.empty(TILE)
    factorial = 1.0
    for j in range(2, m + 1):
        factorial *= j
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        load_tile(X, start, count, tile)
        tile_predictor(tile, count, centre, eta)
        whiten_tile(tile, count, inverse_root, white)
        norm[:count] = 0.0
        for a in range(d):
            for r in range(count):
                norm[r] += white[a, r] * white[a, r]
        for r in range(count):
            i = start + r
            a_i = np.sqrt(norm[r])
            multiple, s, c, l, piece = coefficients(curve, y[i])
            t = s * (eta[r] + entry(offset, i)) + c
            half = abs(s) * radius * a_i
            least, largest = derivative_range(curve, m, t - half, t + half, critical, piece)
            psi[i] = entry(weight, i) * steepest(multiple, s, l, m, least, largest) * a_i**m / factorial
            if shares.shape[0] > 1:
                size = max(abs(least), abs(largest))
                if 0.0 < size < np.inf:
                    # Single precision, rounded up.
                    shares[i, 0] = min(1.0, max(0.0, largest) / size * 1.000001)
                    shares[i, 1] = min(1.0, max(0.0, -least) / size * 1.000001)


@compiled
def fill_global_bounds(
    rows: Rows, curve: Any, m: int, critical: Vector, first: int, last: int, psi: Vector
) -> None:
    """Put the paper's constants into psi: supremum over the whole line, largest |x_ij| (|x_i| for m = 1)."""
    X, y, weight, _ = rows
    least, largest, known = 0.0, 0.0, np.nan
    factorial = 1.0
    for j in range(2, m + 1):
        factorial *= j
    for i in range(first, last):
        size = 0.0
        if m == 1:
            for j in range(X.shape[1]):
                size += np.float64(X[i, j]) ** 2
            size = np.sqrt(size)
        else:
            for j in range(X.shape[1]):
                size = max(size, abs(np.float64(X[i, j])))
        multiple, s, _, l, piece = coefficients(curve, y[i])
        if piece != known:
            least, largest = derivative_range(curve, m, -np.inf, np.inf, critical, piece)
            known = piece
        psi[i] = entry(weight, i) * steepest(multiple, s, l, m, least, largest) * size**m / factorial


@compiled
def predictor_at(rows: Rows, i: int, theta: Vector) -> float:
    """Return the linear predictor of row i."""
    return dot_row(rows.X, i, theta) + entry(rows.offset, i)
