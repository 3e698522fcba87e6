"""Walker's alias table: rows drawn with probability proportional to their bound, in constant time."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Vector = NDArray[np.float64]

WHOLE = np.ones((1, 2), dtype=np.float32)
"""Shares of a bound that does not tell a rise from a fall."""


class RowSampler(NamedTuple):
    """Draws row i with probability psi_i / sum(psi)."""

    psi: Vector
    keep: Vector
    """Probability of keeping row i once it was chosen uniformly."""
    alias: Vector
    """The row taken otherwise; a floating-point number, so that it lies beside `keep`: one wait for memory."""
    shares: NDArray[np.float32]
    """How much of psi_i a remainder can use by rising, and by falling; one line for all rows, or one for each."""


def row_sampler(psi: Vector, shares: NDArray[np.float32] = WHOLE) -> RowSampler:
    """Return a sampler of rows with probability proportional to psi, non-negative; fewer than 2^31 rows."""
    keep, alias = _alias_table(psi, float(np.sum(psi)))
    table = np.stack([keep, alias.astype(np.float64)], axis=1)
    return RowSampler(psi, table[:, 0], table[:, 1], shares)


@compiled
def _alias_table(psi: Vector, total: float) -> tuple[Vector, NDArray[np.int64]]:
    n = psi.size
    keep = np.ones(n)
    alias = np.arange(n)
    if not total > 0.0:
        return keep, alias
    largest = np.argmax(psi)
    scale = n / total
    poor = np.empty(n, dtype=np.int64)
    rich = np.empty(n, dtype=np.int64)
    n_poor = 0
    n_rich = 0
    for i in range(n):
        keep[i] = psi[i] * scale
        if keep[i] < 1.0:
            poor[n_poor] = i
            n_poor += 1
        else:
            rich[n_rich] = i
            n_rich += 1
    while n_poor > 0 and n_rich > 0:
        n_poor -= 1
        small = poor[n_poor]
        large = rich[n_rich - 1]
        alias[small] = large
        keep[large] -= 1.0 - keep[small]
        if keep[large] < 1.0:
            n_rich -= 1
            poor[n_poor] = large
            n_poor += 1
    # What is left differs from 1 by rounding only, unless its weight is zero: that is never kept.
    for r in range(n_rich):
        keep[rich[r]] = 1.0
    for r in range(n_poor):
        i = poor[r]
        if psi[i] > 0.0:
            keep[i] = 1.0
        else:
            keep[i] = 0.0
            alias[i] = largest
    return keep, alias


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
def draw_row(keep: Vector, alias: Vector, rng: np.random.Generator) -> Any:
    """Draw a row; two separate random numbers, so that no bit decides two things."""
    i = uniform_index(keep.size, rng)
    if rng.random() < keep[i]:
        return i
    return np.int64(alias[i])


@compiled
def share_of(shares: NDArray[np.float32], kind: int, i: Any) -> float:
    """Return how much of psi_i events of a kind can use: 0 for a rise, 1 for a fall; all of it for a whole step."""
    if kind > 1:
        return 1.0
    return np.float64(shares[min(i, shares.shape[0] - 1), kind])
