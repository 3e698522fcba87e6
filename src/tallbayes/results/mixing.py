"""A quick look at how well chains have mixed, made after every run: arviz-stats' tables come when asked for."""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import SlowMixingWarning

PER_CHAIN, SHARE = 100, 0.1
"""Fewer effective draws for each chain than this, and than this share of all draws, are worth a warning."""
FEWEST = 100
"""Draws of a chain below which nothing can be said."""


def effective_draws(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about how many effective draws of each coefficient there are, by the means of batches.

    Batches of all chains are compared with the mean of all draws, so chains that disagree count as slow mixing too.

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
    batches = draws[:, : count * size].reshape(chains * count, size, d).mean(axis=1)
    between = batches.var(axis=0, ddof=1)
    spread = draws.reshape(-1, d).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0.0, chains * count * spread / between, 0.0)


def warn_of_slow_mixing(draws: NDArray[np.float64], names: list[str]) -> None:
    """Warn if some coefficient has few effective draws, and few of those that were made.

    Parameters
    ----------
    draws : array
        Chains x draws x coefficients.
    names : list of str
        The coefficients.
    """
    chains, length, _ = draws.shape
    if length < FEWEST:
        return
    found = effective_draws(draws)
    worst = int(np.argmin(found))
    if found[worst] < min(PER_CHAIN * chains, SHARE * chains * length):
        warnings.warn(
            f"Chains mixed slowly: about {found[worst]:.0f} effective draws of {chains * length:,} for "
            f"{names[worst]!r}. Means and intervals are unsafe: draw more, look at tb.explain(model), or give a "
            "prior that holds what the data leave open.",
            SlowMixingWarning,
            stacklevel=3,
        )
