"""About how many effective draws a chain has made: quick enough for rehearsals."""

import math

import numpy as np
from numpy.typing import NDArray

FEWEST = 100
"""Draws of a chain below which nothing can be said."""
AT_ONCE = 65536
"""Draws whose squares are in memory at a time."""
MOST, LEAST_USED = 1_000_000, 1000
"""Numbers of a result that are used when it is judged; draws of each chain that are used in any case."""
TOGETHER = 2**16
"""Numbers that are transformed at once then: what is computed of them stays in the cache."""
JUDGED_BYTES = 80
"""For each of them: ranks, scores and Fourier transforms."""


def used_draws(chains: int, length: int, d: int, most: int = MOST) -> int:
    """Return of how many draws of a chain one is used, when it is judged how well chains have mixed."""
    return max(1, min(-(-chains * length * d // max(most, 1)), length // LEAST_USED))


def judged_together(numbers: int, d: int, workers: int) -> int:
    """Return how many coefficients a thread judges at once, if so many numbers of each are used."""
    return max(1, min(TOGETHER // max(numbers, 1), -(-d // workers)))


def judged_bytes(chains: int, length: int, d: int, workers: int) -> int:
    """Return the memory that it takes to judge how well chains have mixed."""
    numbers = chains * (length // used_draws(chains, length, d))
    some = judged_together(numbers, d, workers)
    return min(workers, -(-d // some)) * some * numbers * JUDGED_BYTES


def effective_draws(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about how many effective draws of each coefficient there are, by the means of batches.

    Batches of all chains are compared with the mean of all draws, so chains that disagree count as slow mixing too.
    Where batches that follow each other are alike, they count as fewer.

    Parameters
    ----------
    draws : array
        Chains x draws x coefficients.

    Returns
    -------
    array
        One number for each coefficient.
    """
    chains, length, d = draws.shape
    size = math.isqrt(length)
    count = length // size
    batches = np.empty((chains, count, d))
    middle, square = np.zeros(d), np.zeros(d)
    for chain in range(chains):  # one chain at a time: no copy of all draws
        batches[chain] = draws[chain, : count * size].reshape(count, size, d).mean(axis=1)
        middle += draws[chain].mean(axis=0) / chains
    for chain in range(chains):
        for first in range(0, length, AT_ONCE):
            square += np.sum((draws[chain, first : first + AT_ONCE] - middle) ** 2, axis=0)
    between = batches.reshape(-1, d).var(axis=0, ddof=1)
    spread = square / max(chains * length - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(spread > 0.0, chains * count * spread / between, 0.0)
        return found * _independent_share(batches - middle)


def _independent_share(batches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return which share of batches counts, from how alike neighbours are: (1 - r) / (1 + r), as of first order.

    Two standard errors of r are taken off, so that batches longer than the correlation count in full.
    """
    chains, count, _ = batches.shape
    products = np.sum(batches[:, 1:] * batches[:, :-1], axis=(0, 1))
    r = products / np.sum(batches**2, axis=(0, 1)) - 2.0 / math.sqrt(chains * count)
    r = np.clip(np.nan_to_num(r), 0.0, 1.0)
    return (1.0 - r) / (1.0 + r)
