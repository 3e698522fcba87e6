"""Walker's alias table: rows drawn with probability proportional to their bound, in constant time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_within
from tallbayes.sources.threads import in_threads

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

WHOLE = np.ones((1, 2), dtype=np.float32)
"""Shares of a bound that does not tell a rise from a fall."""


SLICE = 2**16
"""Rows among which a thread finds partners first: half a megabyte of bounds."""


def alias_table(psi: Vector, *, threads: int | None = None) -> Matrix:
    """Return for each row the probability of keeping it, and the row taken otherwise; fewer than 2^31 rows.

    Choosing a row uniformly, and then it or the other, draws rows with probability proportional to psi, which is
    not negative. Rows find partners within fixed slices, in threads; those that are left, among each other.
    """
    table = np.empty((psi.size, 2))
    total = float(np.sum(psi))
    if not total > 0.0:
        table[:] = np.column_stack([np.ones(psi.size), np.arange(psi.size)])
        return table
    scale = psi.size / total

    def within(first: int) -> tuple[NDArray[np.int64], Vector]:
        rows = np.arange(first, min(first + SLICE, psi.size))
        return _find_partners(psi[rows[0] : rows[-1] + 1] * scale, rows, table)

    slices = range(0, psi.size, SLICE)
    left = in_threads(within, slices, threads)
    rows, weights = (np.concatenate(parts) for parts in zip(*left, strict=True))
    if len(slices) > 1:
        rows, weights = _find_partners(weights, rows, table)
    # What is left differs from 1 by rounding only, unless its weight is zero: that is never kept.
    nothing = rows[psi[rows] == 0.0]
    table[nothing, 0] = 0.0
    table[nothing, 1] = int(np.argmax(psi))
    return table


@compiled
def _find_partners(weight: Vector, rows: NDArray[np.int64], table: Matrix) -> tuple[NDArray[np.int64], Vector]:
    """Give every poor row a rich one that makes up for what it lacks.

    A row is rich if its weight is above 1, the mean over all. What a rich row lacks when it is no longer rich is made
    up by the next one. Poor and rich rows are listed first, without a branch: which a row is, no processor foresees.

    Returns
    -------
    rows : ndarray
        Rows that found no partner, because all others were as poor, or as rich: they are kept, so far.
    weight : ndarray
        What is left of their weights.
    """
    n = weight.size
    poor, rich = np.empty(n + 1, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
    poors, riches = 0, 0
    for i in range(n):
        table[rows[i], 0] = 1.0
        table[rows[i], 1] = rows[i]
        poor[poors] = i
        rich[riches] = i
        is_rich = weight[i] > 1.0
        poors += not is_rich
        riches += is_rich
    at, taken, left = 0, 0, weight[rich[0]] if riches > 0 else 0.0
    while taken < riches:
        giver = rows[rich[taken]]
        while left > 1.0 and at < poors:
            lacks = poor[at]
            table[rows[lacks], 0] = weight[lacks]
            table[rows[lacks], 1] = giver
            left -= 1.0 - weight[lacks]
            at += 1
        if left > 1.0 or taken + 1 == riches:
            break  # no poor row is left, or no rich one
        taken += 1
        table[giver, 0] = left
        table[giver, 1] = rows[rich[taken]]
        left += weight[rich[taken]] - 1.0
    alone, lacking = np.empty(n, dtype=np.int64), np.empty(n)
    count = 0
    for k in range(at, poors):
        alone[count], lacking[count] = rows[poor[k]], weight[poor[k]]
        count += 1
    for k in range(taken, riches):
        alone[count], lacking[count] = rows[rich[k]], left if k == taken else weight[rich[k]]
        count += 1
    return alone[:count], lacking[:count]


@compiled_within
def uniform_index(n: int, rng: np.random.Generator) -> Any:
    """Return an integer in [0, n), each with exactly the same probability, for n < 2^32 (Lemire's method)."""
    while True:
        bits = np.int64(rng.random() * 4294967296.0)
        product = bits * n
        low = product & 0xFFFFFFFF
        if low >= n or low >= (4294967296 - n) % n:
            return product >> 32


@compiled_within
def draw_row(table: Matrix, rng: np.random.Generator) -> Any:
    """Draw a row; two separate random numbers, so that no bit decides two things."""
    i = uniform_index(table.shape[0], rng)
    return row_or_other(table, i, rng.random())


@compiled_within
def row_or_other(table: Matrix, i: Any, uniform: float) -> Any:
    """Return row i, which was chosen uniformly, or the one taken otherwise."""
    return i if uniform < table[i, 0] else np.int64(table[i, 1])


@compiled_within
def share_of(shares: NDArray[np.float32], kind: int, i: Any) -> float:
    """Return how much of psi_i events of a kind can use: 0 for a rise, 1 for a fall; all of it for a whole step."""
    if kind > 1:
        return 1.0
    return np.float64(shares[min(i, shares.shape[0] - 1), kind])
