"""What families with the same kind of response have in common: which values there are, and where to start."""

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.base import Family, Vector

LARGEST_MEAN = 1e15
"""Means from which on counts are drawn from a normal: their relative error is below 1e-7 of a standard deviation."""


class RealResponse(Family):
    """Real responses around the predictor, with outliers perhaps, on a known scale."""

    scale: float

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return nothing: every real response is possible."""
        return np.zeros(y.shape, dtype=np.bool_)

    @property
    def support(self) -> str:
        """Any real number."""
        return "any real number"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the responses, outliers drawn in."""
        return without_outliers(y, self.scale)

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the predictor: the centre of responses, their mean where they have one, and their median."""
        return np.asarray(eta[0])

    def predictor_scale(self, y: Vector, weights: Vector) -> float:
        """Return the spread of the responses: their median absolute deviation, scaled as for a normal."""
        return max(robust_spread(y, weights), self.scale)


class CountResponse(Family):
    """Counts with the log of their mean as the predictor."""

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are not whole numbers, 0 or more."""
        return (y < 0.0) | (y != np.floor(y))

    @property
    def support(self) -> str:
        """Counts."""
        return "whole numbers, 0 or more"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the log of the count plus a half."""
        return np.log(y + 0.5)

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the exponential of the predictor."""
        with np.errstate(over="ignore"):
            return np.exp(eta[0])


def without_outliers(values: Vector, scale: float) -> Vector:
    """Return values, those beyond ten spreads (or scales, if larger) from the median put there."""
    middle, reach = float(np.median(values)), 10.0 * max(robust_spread(values, np.ones(1)), scale)
    return np.clip(values, middle - reach, middle + reach) if reach > 0.0 else values


def robust_spread(y: Vector, weights: Vector) -> float:
    """Return the median absolute deviation, scaled as for a normal; a row of weight 3 counts as three."""
    middle = _weighted_median(y, weights)
    return 1.4826 * _weighted_median(np.abs(y - middle), weights)


def _weighted_median(values: Vector, weights: Vector) -> float:
    if weights.size == 1:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    values, passed = values[order], np.cumsum(weights[order])
    half = 0.5 * passed[-1]
    low, high = np.searchsorted(passed, half, side="left"), np.searchsorted(passed, half, side="right")
    return 0.5 * float(values[min(low, values.size - 1)] + values[min(high, values.size - 1)])


def poisson(rng: np.random.Generator, means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Poisson counts; of means beyond what NumPy draws, normal ones, which are as good there."""
    large = means > LARGEST_MEAN
    if not np.any(large):
        return rng.poisson(means).astype(np.float64)
    counts = rng.poisson(np.where(large, 0.0, means)).astype(np.float64)
    near = np.round(means + np.sqrt(means) * rng.standard_normal(means.shape))
    return np.where(large, near, counts)
