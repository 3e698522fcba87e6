"""Tails and quantiles that every run needs a few of, without SciPy: to load it takes longer than many a run."""

import math
import sys
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

normal_quantile = NormalDist().inv_cdf
"""Of the standard normal distribution, at a probability."""

MANY = 200_000
"""Quantiles that SciPy finds sooner even if it must be loaded."""


def normal_quantiles(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the quantiles of the standard normal distribution at many probabilities between 0 and 1."""
    if probabilities.size <= MANY and "scipy.special" not in sys.modules:
        return np.array(list(map(normal_quantile, probabilities.tolist())))
    from scipy.special import ndtri

    return np.asarray(ndtri(probabilities))


def chi_square_tail(d: int, x: float) -> float:
    r"""Return the probability that a chi-square variable with d degrees of freedom is above x.

    With y = x / 2 it is :math:`\sum_a y^a e^{-y} / \Gamma(a + 1)` over a = 0, 1, ..., d / 2 - 1 for even d, and
    :math:`\operatorname{erfc} \sqrt y` and the same sum over a = 1/2, 3/2, ..., d / 2 - 1 for odd d.
    """
    if x <= 0.0:
        return 1.0
    y, half = 0.5 * x, 0.5 * (d % 2)
    terms = (math.exp((k + half) * math.log(y) - y - math.lgamma(k + half + 1.0)) for k in range(d // 2))
    return math.fsum(terms) + (math.erfc(math.sqrt(y)) if half else 0.0)


def chi_square_quantile(d: int, above: float) -> float:
    """Return what a chi-square variable with d degrees of freedom is above with the given probability."""
    t = -math.log(above)
    low, high = 0.0, d + 2.0 * math.sqrt(d * t) + 2.0 * t  # Laurent and Massart (2000): less is above that
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if chi_square_tail(d, middle) > above else (low, middle)
    return high
