"""Walker's alias table: rows drawn with probability proportional to their bound, in constant time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

WHOLE = np.ones((1, 2), dtype=np.float32)
"""Shares of a bound that does not tell a rise from a fall."""


def alias_table(psi: Vector) -> Matrix:
    """Return for each row the probability of keeping it, and the row taken otherwise; fewer than 2^31 rows.

    Choosing a row uniformly, and then it or the other, draws rows with probability proportional to psi, which is
    not negative.
    """
    table = np.empty((psi.size, 2))
    total = float(np.sum(psi))
    _fill_table(psi, psi.size / total if total > 0.0 else 0.0, table)
    return table


@compiled
def _fill_table(psi: Vector, scale: float, table: Matrix) -> None:
    n = psi.size
    order = np.empty(n, dtype=np.int32)  # the poor from the front, the rich from the back
    n_poor, n_rich, largest = 0, 0, 0
    for i in range(n):
        table[i, 0] = psi[i] * scale
        table[i, 1] = i
        if psi[i] > psi[largest]:
            largest = i
        if scale == 0.0:
            table[i, 0] = 1.0
        elif table[i, 0] < 1.0:
            order[n_poor] = i
            n_poor += 1
        else:
            n_rich += 1
            order[n - n_rich] = i
    while n_poor > 0 and n_rich > 0:
        n_poor -= 1
        small, large = order[n_poor], order[n - n_rich]
        table[small, 1] = large
        table[large, 0] -= 1.0 - table[small, 0]
        if table[large, 0] < 1.0:
            n_rich -= 1
            order[n_poor] = large
            n_poor += 1
    # What is left differs from 1 by rounding only, unless its weight is zero: that is never kept.
    for r in range(n_rich):
        table[order[n - 1 - r], 0] = 1.0
    for r in range(n_poor):
        i = order[r]
        table[i, 0] = 1.0
        if psi[i] == 0.0:
            table[i, 0] = 0.0
            table[i, 1] = largest


@compiled
def uniform_index(n: int, rng: np.random.Generator) -> Any:
    """Return an integer in [0, n), each with exactly the same probability, for n < 2^32 (Lemire's method)."""
    while True:
        bits = np.int64(rng.random() * 4294967296.0)
        product = bits * n
        low = product & 0xFFFFFFFF
        if low >= n or low >= (4294967296 - n) % n:
            return product >> 32


@compiled
def draw_row(table: Matrix, rng: np.random.Generator) -> Any:
    """Draw a row; two separate random numbers, so that no bit decides two things."""
    i = uniform_index(table.shape[0], rng)
    if rng.random() < table[i, 0]:
        return i
    return np.int64(table[i, 1])


@compiled
def share_of(shares: NDArray[np.float32], kind: int, i: Any) -> float:
    """Return how much of psi_i events of a kind can use: 0 for a rise, 1 for a fall; all of it for a whole step."""
    if kind > 1:
        return 1.0
    return np.float64(shares[min(i, shares.shape[0] - 1), kind])
