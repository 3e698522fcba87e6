"""A quick look at how well chains have mixed, made after every run: arviz-stats' tables come when asked for."""

import warnings

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import SlowMixingWarning
from tallbayes.kernels.mixing import FEWEST, effective_draws

PER_CHAIN, SHARE = 100, 0.1
"""Fewer effective draws for each chain than this, and than this share of all draws, are worth a warning."""


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
