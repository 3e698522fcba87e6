"""Matrix products over the rows of a block: narrow designs by a compiled loop, wide ones by BLAS.

Both add rows in a fixed order, and BLAS has one thread here, so that results are the same in every run.
"""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_sum

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NARROW = 24
"""Columns up to which the compiled loop is faster than BLAS, which computes both triangles."""
PANEL = 32
"""Columns that BLAS takes at a time: of a triangular product it then computes little more than half."""
TILE = 128
"""Rows that the compiled loop copies at a time, transposed, so that its inner loops have unit stride."""


def weighted_gram(rows: Matrix, weight: Vector) -> Matrix:
    """Return the sum over rows of weight x x', for weights of any sign."""
    d = rows.shape[1]
    total = np.zeros((d, d))
    if d <= NARROW:
        _add_gram(rows, weight, total)
    else:
        scaled = rows * weight[:, None]
        for first in range(0, d, PANEL):
            last = min(first + PANEL, d)
            total[first:last, :last] = scaled[:, first:last].T @ rows[:, :last]
    return np.tril(total) + np.tril(total, -1).T


def times_lower_transposed(rows: Matrix, lower: Matrix) -> Matrix:
    """Return rows @ lower.T for a lower triangular matrix."""
    d = lower.shape[0]
    if d <= 2 * PANEL:
        return np.asarray(rows @ lower.T)
    out = np.empty(rows.shape)
    for first in range(0, d, PANEL):
        last = min(first + PANEL, d)
        out[:, first:last] = rows[:, :last] @ lower[first:last, :last].T
    return out


@compiled_sum
def _add_gram(rows: Matrix, weight: Vector, total: Matrix) -> None:
    """Add the lower triangle of the weighted Gram matrix."""
    n, d = rows.shape
    tile, scaled = np.empty((d, TILE)), np.empty(TILE)
    for first in range(0, n, TILE):
        count = min(TILE, n - first)
        for r in range(count):
            for j in range(d):
                tile[j, r] = rows[first + r, j]
        for i in range(d):
            for r in range(count):
                scaled[r] = weight[first + r] * tile[i, r]
            j = 0
            while j + 4 <= i + 1:  # four at a time: what is scaled is read once for four products
                t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
                for r in range(count):
                    t0 += scaled[r] * tile[j, r]
                    t1 += scaled[r] * tile[j + 1, r]
                    t2 += scaled[r] * tile[j + 2, r]
                    t3 += scaled[r] * tile[j + 3, r]
                total[i, j] += t0
                total[i, j + 1] += t1
                total[i, j + 2] += t2
                total[i, j + 3] += t3
                j += 4
            while j <= i:
                t0 = 0.0
                for r in range(count):
                    t0 += scaled[r] * tile[j, r]
                total[i, j] += t0
                j += 1
