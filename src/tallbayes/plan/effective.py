"""How many effective draws a chain makes of a draw, with the uncertainty that a short run leaves."""

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels.mixing import FEWEST
from tallbayes.quantiles import normal_quantile

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

WINDOW = 5.0
"""Autocorrelations are summed up to so many autocorrelation times (Sokal's rule)."""
SHORTEST = 1.0
"""Autocorrelation time that the window is made for at least."""
SURE = 0.95
"""Probability, about, that the truth is on the right side of either end."""


def effective_range(draws: Matrix) -> tuple[float, float] | None:
    """Return low and high of the effective draws per draw of the coefficient that mixes worst.

    Every coefficient's estimate is as uncertain as its window and the length of the run say; the least of many is too
    low where all mix alike. If it is so low that they do not, the range is its own. Otherwise they may all be alike,
    or one be slower than it seems: the range is from the least to what their mean says.

    Parameters
    ----------
    draws : array
        Draws x coefficients, of one chain.

    Returns
    -------
    tuple of float or None
        The range; more than 1 if draws are better than independent ones. None if there are too few draws to say.
    """
    length, d = draws.shape
    if length < FEWEST:
        return None
    found, errors = np.array([_per_draw(column) for column in draws.T]).T
    logs, sure = np.log(found), normal_quantile(SURE)
    worst = int(np.argmin(logs))
    least, error, mean = logs[worst], errors[worst], np.mean(logs)
    by_chance = normal_quantile(SURE ** (1.0 / d)) * error  # how far the least of d is below the truth of all
    if mean - least > by_chance:
        low, high = least - sure * error, least + sure * error
    else:
        low = min(least, mean - sure * error)
        high = min(least + by_chance, mean + sure * np.mean(errors) / np.sqrt(d))
    return float(np.exp(low)), float(np.exp(high))


def _per_draw(values: Vector) -> tuple[float, float]:
    """Return the effective draws per draw of one coefficient, and the standard error of their logarithm."""
    length = values.size
    spectrum = np.abs(np.fft.rfft(values - values.mean(), 2 * length)) ** 2
    covariance = np.fft.irfft(spectrum)[:length]
    if not covariance[0] > 0.0:  # it never moved
        return 1.0 / length, 1.0
    times = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    wide = np.arange(length) >= WINDOW * np.maximum(times, SHORTEST)
    window = int(np.argmax(wide)) if wide.any() else length - 1
    # Of a time that is summed up to a window (Madras and Sokal 1988).
    error = np.sqrt(2.0 * (2.0 * window + 1.0) / length)
    return float(1.0 / max(times[window], 1.0 / length)), float(error)
