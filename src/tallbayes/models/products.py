"""Matrix products over the rows of a block, by BLAS.

BLAS has one thread here and blocks are fixed, so that results are the same in every run. Of symmetric and triangular
products little more than half is computed.

Passes call `np.dot` rather than the operator ``@``, which keeps the lock of the interpreter for some shapes (NumPy 2.4:
vector times matrix, and products of few columns): other threads would wait.
"""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_sum
from tallbayes.sources.threads import room

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TILE = 2**16
"""Numbers of a tile: half a megabyte, which stays in the cache."""
FEWEST_ROWS = 1024
"""Of a tile whose product is to be fast."""
PANEL = 32
"""Columns that are taken at a time: fewer make products slow, more compute much that is known already."""


def weighted_gram(rows: Matrix, weight: Vector) -> Matrix:
    """Return the sum over rows of weight x x', for weights of any sign.

    Of A' A NumPy has BLAS compute one half. Rows of negative weight, which are few, are taken off twice.
    A tile at a time, so that scaled rows stay in the cache.
    """
    n, d = rows.shape
    total = np.zeros((d, d))
    tile = min(max(TILE // max(d, 1), FEWEST_ROWS), n)
    root, room = (
        np.sqrt(np.abs(weight)),
        np.empty((tile, d)),
    )  # fresh memory for every tile costs as much as products
    for first in range(0, n, tile):
        last = min(first + tile, n)
        scaled = np.multiply(rows[first:last], root[first:last, None], out=room[: last - first])
        total += np.dot(scaled.T, scaled)
    negative = np.flatnonzero(weight < 0.0)
    if negative.size:
        away = rows[negative] * root[negative, None]
        total -= 2.0 * np.dot(away.T, away)
    return total


def weighted_triples(rows: Matrix, weight: Vector) -> Vector:
    """Return the sum over rows of weight x_a x_b x_c for a >= b >= c, packed.

    For each middle index b one matrix product has every a >= b and c <= b: no entry is computed twice. Columns become
    lines, a tile of rows at a time: products of lines stay in the cache.
    """
    n, d = rows.shape
    packed = np.zeros(d * (d + 1) * (d + 2) // 6)
    start = np.array([a * (a + 1) * (a + 2) // 6 for a in range(d)])  # where the entries (a, ., .) begin
    at = [start[b:, None] + b * (b + 1) // 2 + np.arange(b + 1) for b in range(d)]
    tile = max(TILE // d, 256)
    lines, pair = np.empty((d, tile)), np.empty((d, tile))
    for first in range(0, n, tile):
        count = min(tile, n - first)
        x, products = lines[:, :count], pair[:, :count]
        x[:] = rows[first : first + count].T
        w = weight[first : first + count]
        for b in range(d):
            np.multiply(x[b:], w * x[b], out=products[b:])
            packed[at[b]] += np.dot(products[b:], x[: b + 1].T)
    return packed


def times_transposed(rows: Matrix, lower: Matrix) -> Matrix:
    """Return rows @ lower.T for a square matrix, the faster if it is lower triangular.

    The result is in memory that the next call in the same thread may use again (`sources/threads.py`).
    """
    d = lower.shape[0]
    out = room(rows.shape[0], d)
    if d <= PANEL or np.any(np.triu(lower, 1)):
        return np.asarray(np.matmul(rows, lower.T, out=out))
    for first in range(0, d, PANEL):
        last = min(first + PANEL, d)
        np.matmul(rows[:, :last], lower[first:last, :last].T, out=out[:, first:last])
    return out


def row_lengths(rows: Matrix) -> Vector:
    """Return the Euclidean length of each row."""
    out = np.empty(rows.shape[0])
    _put_lengths(rows, out)
    return out


@compiled_sum
def _put_lengths(rows: Matrix, out: Vector) -> None:
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * rows[i, j]
        out[i] = np.sqrt(total)


def mixed_moments(a: Matrix, b: Matrix, c: Matrix, weight: Vector) -> NDArray[np.float64]:
    """Return the sum over rows of weight a b c, all entries: a matrix product for each column of the narrowest."""
    parts = [a, b, c]
    narrow = int(np.argmin([part.shape[1] for part in parts]))
    one, other = (k for k in range(3) if k != narrow)
    out = np.empty([part.shape[1] for part in parts])
    view = np.moveaxis(out, narrow, 0)
    for k in range(parts[narrow].shape[1]):
        view[k] = np.dot((parts[one] * (weight * parts[narrow][:, k])[:, None]).T, parts[other])
    return out


def packed_indices(d: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return a, b and c of all packed entries, a >= b >= c."""
    some = [(np.full(b + 1, a), np.full(b + 1, b), np.arange(b + 1)) for a in range(d) for b in range(a + 1)]
    first, second, third = (np.concatenate(index) for index in zip(*some, strict=True))
    return first, second, third
