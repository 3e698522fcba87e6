"""Matrix products over the rows of a block, by BLAS.

BLAS has one thread here and blocks are fixed, so that results are the same in every run. Of symmetric and triangular
products little more than half is computed.

Passes call `np.dot` rather than the operator ``@``, which keeps the lock of the interpreter for some shapes (NumPy 2.4:
vector times matrix, and products of few columns): other threads would wait.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_borrowing, compiled_sum
from tallbayes.sources.threads import room

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TILE = 2**16
"""Numbers of a tile: half a megabyte, which stays in the cache."""
SCALED = 2**18
"""Numbers that are scaled before a Gram product of them: fewer of them make products slow, more leave the cache."""
PANELS = 32, 64
"""Columns that are taken at a time, of up to 64 and of more: fewer make products slow, more compute what is known."""
FEW_COLUMNS = 15
"""Products of so many are fast in float64."""
UNIT_ROUNDOFF = 2.0**-24
"""Of single precision."""
SLACK = 1e-3
"""By how much a length may be larger than it should be: bounds, and rows per step, by at most four times as much."""
EXTREME = 1e-30, 1e30
"""Rows are neither so small nor so large in single precision."""


def weighted_gram(rows: Matrix, weight: Vector) -> Matrix:
    """Return the sum over rows of weight x x', for weights of any sign.

    Of A' A NumPy has BLAS compute one half. Rows of negative weight, which are few, are taken off twice.
    A tile at a time, so that scaled rows stay in the cache.
    """
    n, d = rows.shape
    total, root = np.zeros((d, d)), np.sqrt(np.abs(weight))
    tile = -(-n // max(1, -(-n * d // SCALED))) or 1
    scaled = np.empty((tile, d))  # fresh memory for every tile costs as much as products
    for first in range(0, n, tile):
        some = slice(first, min(first + tile, n))
        here = scaled[: some.stop - first]
        if rows.flags.c_contiguous:
            _put_multiples(rows[some], root[some], here)
        else:
            np.multiply(rows[some], root[some, None], out=here)
        total += np.dot(here.T, here)
    negative = np.flatnonzero(weight < 0.0)
    if negative.size:
        away = rows[negative] * root[negative, None]
        total -= 2.0 * np.dot(away.T, away)
    return total


@compiled_borrowing
def _put_multiples(rows: Matrix, factor: Vector, out: Matrix) -> None:
    """Multiply each row by a factor: NumPy takes its time with lines as short as these."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = factor[i] * rows[i, j]


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
    out = room(*rows.shape)
    _put_product(rows, lower, out)
    return out


def _put_product(rows: NDArray[Any], lower: NDArray[Any], out: NDArray[Any]) -> None:
    d = lower.shape[0]
    panel = PANELS[d > PANELS[1]]
    if d <= panel or np.any(np.triu(lower, 1)):
        np.matmul(rows, lower.T, out=out)
        return
    for first in range(0, d, panel):
        last = min(first + panel, d)
        np.matmul(rows[:, :last], lower[first:last, :last].T, out=out[:, first:last])


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


@compiled_borrowing
def in_single_precision(d: int) -> bool:
    """Return whether products with d columns are computed in single precision where that may be."""
    return d > FEW_COLUMNS


class RoughProducts(NamedTuple):
    """Products of rows, perhaps in single precision."""

    lines: NDArray[Any]
    """In memory that the next call in the same thread may use again."""
    lengths: Vector
    """The length of each; with many columns, numbers that are larger by at most SLACK."""
    lost: Vector
    """The length of what each line may be off by; infinite where a line is of no use, though its length is known."""


def rough_products(rows: Matrix, lower: Matrix) -> RoughProducts:
    r"""Return rows @ lower.T, with many columns in single precision, and the lengths of its lines.

    That takes half the time, and what may be lost in it is added to lengths. Let
    u be the unit roundoff, and c_k the length of column k of the matrix A. Then A x = B x' with x'_k = c_k x_k, where
    column B_k = A_k / c_k has length 1. With every number rounded once, and each term in at most d roundings as it is
    added up, in whatever order, the result is off by a vector of length at most

    .. math:: \left((1 + u)^{d + 2} - 1\right) \sum_k |x'_k| \, |B_k| < \left(e^{(d + 2) u} - 1\right) \sum_k |x'_k| .

    Rounding of float64, and numbers that are too small for single precision, are within another u of that sum. Rows of
    which all this is more than SLACK of the length, or whose sum is extreme, have lengths computed in float64.
    """
    n, d = rows.shape
    if not in_single_precision(d):
        lines = times_transposed(rows, lower)
        return RoughProducts(lines, row_lengths(lines), np.zeros(1))
    scaled, white = room(n, d).reshape(-1).view(np.float32).reshape(2, n, d)
    lost, lengths = np.empty(n), np.empty(n)
    with np.errstate(all="ignore"):  # of extreme rows
        columns = np.sqrt(np.sum(lower * lower, axis=0))
        _put_scaled(rows, columns, scaled, lost)
        _put_product(scaled, (lower / columns).astype(np.float32), white)
    _put_longer(white, share_lost(d), lost, lengths)
    unsure = np.flatnonzero(np.isinf(lost))
    if unsure.size:
        lengths[unsure] = row_lengths(np.dot(rows[unsure], lower.T))
    return RoughProducts(white, lengths, lost)


@compiled_borrowing
def share_lost(d: int) -> float:
    """Return what single precision may lose of a product with d columns, as a share of the sum in `rough_products`."""
    return math.expm1((d + 2) * UNIT_ROUNDOFF) + UNIT_ROUNDOFF


@compiled_sum
def _put_scaled(rows: Matrix, columns: Vector, scaled: NDArray[np.float32], sums: Vector) -> None:
    """Put rows with scaled columns into single precision, and the sums of their absolute values."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            value = rows[i, j] * columns[j]
            scaled[i, j] = value
            total += abs(value)
        sums[i] = total


@compiled_sum
def _put_longer(white: NDArray[np.float32], share: float, sums: Vector, out: Vector) -> None:
    """Put the length of each row, with a share of its sum added, into out, and the share of the sum into its place.

    That is infinite where it is not small beside the length, or not safe.
    """
    for i in range(white.shape[0]):
        total = 0.0
        for j in range(white.shape[1]):
            value = np.float64(white[i, j])
            total += value * value
        length, lost = np.sqrt(total), share * sums[i]
        close = lost <= SLACK * length and EXTREME[0] < sums[i] < EXTREME[1]
        out[i] = length + lost
        sums[i] = lost if close else np.inf


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
