"""Matrix products over the rows of a block, by BLAS.

BLAS has one thread here and blocks are fixed, so that results are the same in every run. Of symmetric and triangular
products little more than half is computed.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PANEL = 32
"""Columns that are taken at a time: fewer make products slow, more compute much that is known already."""


def weighted_gram(rows: Matrix, weight: Vector) -> Matrix:
    """Return the sum over rows of weight x x', for weights of any sign."""
    d = rows.shape[1]
    total = np.zeros((d, d))
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
