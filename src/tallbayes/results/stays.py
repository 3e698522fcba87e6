"""How long chains stood still."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CHANCE, CLUSTERS = 1e-4, 2.0
"""A stay is long if it takes more than twice the steps that chance exceeds in one of ten thousand runs. Twice, because
rejections come in clusters where a posterior is skewed: up to 1.5 times in runs that were fine, 4 to 60 times where
chains stuck (Poisson and logistic regressions, these with 0 to 20 events in a level; 1,000 to 100,000 draws)."""
FEWEST_STEPS, SHARE, HALF = 30, 0.01, 0.5
"""Shorter stays, in steps and as a share of the chain, are not long: of four chains, one hundredth of one is a tenth of
the draws beyond a 97.5 % quantile. One of half a chain is long, however seldom steps are accepted: it would excuse
itself."""

AT_ONCE = 2**18
"""Draws whose numbers are in memory at a time."""


class Stays(NamedTuple):
    """The longest stay of each chain."""

    steps: NDArray[np.int64]
    """Consecutive steps that were rejected: the draw before them appears once more often than this."""
    first: NDArray[np.int64]
    """The draw that the first of these steps gave."""


def longest_stays(accepted: NDArray[np.bool_]) -> Stays:
    """Return the longest stay of each chain.

    Parameters
    ----------
    accepted : array
        Chains x draws: whether a step was accepted.

    Returns
    -------
    Stays
        Zeros for a chain that moved in every step.
    """
    chains, length = accepted.shape
    steps, first = np.zeros(chains, dtype=np.int64), np.zeros(chains, dtype=np.int64)
    for chain, line in enumerate(accepted):
        last, longest = -1, -1
        for start in range(0, length, AT_ONCE):
            moves = start + np.flatnonzero(line[start : start + AT_ONCE])
            end = [length] if start + AT_ONCE >= length else []
            moves = np.concatenate(([last], moves, end))
            waits = np.diff(moves) - 1
            at = int(np.argmax(waits)) if waits.size else 0
            if waits.size and waits[at] > longest:
                longest, first[chain] = int(waits[at]), moves[at] + 1
            last = int(moves[-1])
        steps[chain] = max(longest, 0)
    return Stays(steps, first)


def longest_usual_stay(accepted: NDArray[np.bool_]) -> float:
    """Return how long a stay may be without being remarkable, from how often steps are accepted.

    Parameters
    ----------
    accepted : array
        Chains x draws: whether a step was accepted.

    Returns
    -------
    float
        Steps: at least 30 and 1 % of a chain, at most half a chain.
    """
    length, moves = accepted.shape[1], int(np.count_nonzero(accepted))
    rate = min(moves / max(accepted.size, 1), 0.999)
    # After each move, a stay of so many steps or more begins with probability (1 - rate)^steps.
    by_chance = math.log(moves / CHANCE) / -math.log1p(-rate) if moves else 0.0
    return min(max(CLUSTERS * by_chance, FEWEST_STEPS, SHARE * length), HALF * length)
