"""Matrix products over the rows of a block, by BLAS.

BLAS has one thread here and blocks are fixed, so that results are the same in every run. Of symmetric and triangular
products little more than half is computed.
"""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_sum

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PANEL = 32
"""Columns that are taken at a time: fewer make products slow, more compute much that is known already."""


def weighted_gram(rows: Matrix, weight: Vector) -> Matrix:
    """Return the sum over rows of weight x x', for weights of any sign.

    Of A' A NumPy has BLAS compute one half. Rows of negative weight, which are few, are taken off twice.
    """
    scaled = rows * np.sqrt(np.abs(weight))[:, None]
    total = scaled.T @ scaled
    negative = np.flatnonzero(weight < 0.0)
    if negative.size:
        away = scaled[negative]
        total -= 2.0 * (away.T @ away)
    return np.asarray(total)


def times_transposed(rows: Matrix, lower: Matrix) -> Matrix:
    """Return rows @ lower.T for a square matrix, the faster if it is lower triangular."""
    d = lower.shape[0]
    if d <= PANEL or np.any(np.triu(lower, 1)):
        return np.asarray(rows @ lower.T)
    out = np.empty(rows.shape)
    for first in range(0, d, PANEL):
        last = min(first + PANEL, d)
        np.matmul(rows[:, :last], lower[first:last, :last].T, out=out[:, first:last])
    return out


@compiled_sum
def row_lengths(rows: Matrix) -> Vector:
    """Return the Euclidean length of each row."""
    out = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * rows[i, j]
        out[i] = np.sqrt(total)
    return out


def third_moments(rows: Matrix, weight: Vector) -> Vector:
    """Return the sum over rows of weight x x x, entry (a, b, c) with a >= b >= c packed.

    For each middle index b one matrix product has every a >= b and c <= b: no entry is computed twice.
    """
    d = rows.shape[1]
    packed = np.empty(d * (d + 1) * (d + 2) // 6)
    start = np.array([a * (a + 1) * (a + 2) // 6 for a in range(d)])  # where the entries (a, ., .) begin
    pair = np.empty_like(rows)
    for b in range(d):
        np.multiply(rows[:, b:], (weight * rows[:, b])[:, None], out=pair[:, b:])
        products = pair[:, b:].T @ rows[:, : b + 1]
        at = start[b:, None] + b * (b + 1) // 2 + np.arange(b + 1)
        packed[at] = products
    return packed


def mixed_moments(a: Matrix, b: Matrix, c: Matrix, weight: Vector) -> NDArray[np.float64]:
    """Return the sum over rows of weight a b c, all entries: a matrix product for each column of the narrowest."""
    parts = [a, b, c]
    narrow = int(np.argmin([part.shape[1] for part in parts]))
    one, other = (k for k in range(3) if k != narrow)
    out = np.empty([part.shape[1] for part in parts])
    view = np.moveaxis(out, narrow, 0)
    for k in range(parts[narrow].shape[1]):
        view[k] = (parts[one] * (weight * parts[narrow][:, k])[:, None]).T @ parts[other]
    return out


def packed_indices(d: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return a, b and c of all packed entries, a >= b >= c."""
    some = [(np.full(b + 1, a), np.full(b + 1, b), np.arange(b + 1)) for a in range(d) for b in range(a + 1)]
    first, second, third = (np.concatenate(index) for index in zip(*some, strict=True))
    return first, second, third
