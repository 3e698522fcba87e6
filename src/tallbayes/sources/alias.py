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
    """Give every poor row a rich one that makes up for what it lacks, in one sweep over both.

    A row is rich if it has more than its share of the total. What it lacks when it is no longer rich is made up by the
    next rich one. So two places and one number are all that the sweep needs beside the table.
    """
    n = psi.size
    largest, poor, rich, left = 0, 0, -1, 0.0
    for i in range(n):
        table[i, 0] = 1.0
        table[i, 1] = i
        if psi[i] > psi[largest]:
            largest = i
    while scale > 0.0:
        while poor < n and psi[poor] * scale > 1.0:
            poor += 1
        if left > 1.0:
            if poor == n:
                break
            table[poor, 0] = psi[poor] * scale
            table[poor, 1] = rich
            left -= 1.0 - table[poor, 0]
            poor += 1
            continue
        following = rich + 1
        while following < n and not psi[following] * scale > 1.0:
            following += 1
        if following == n:
            break
        if rich >= 0:
            table[rich, 0] = left
            table[rich, 1] = following
            left -= 1.0
        left += psi[following] * scale
        rich = following
    # What is left differs from 1 by rounding only, unless its weight is zero: that is never kept.
    while poor < n:
        if psi[poor] == 0.0 and scale > 0.0:
            table[poor, 0] = 0.0
            table[poor, 1] = largest
        poor += 1


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
