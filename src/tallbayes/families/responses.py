"""What families with the same kind of response have in common: which values there are, and where to start."""

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_number, positive
from tallbayes.errors import InputError
from tallbayes.families.algebraic import Term, extremes_of
from tallbayes.families.base import CurveFamily, Family, Vector
from tallbayes.families.location_scale import LocationScaleRows
from tallbayes.families.structure import Structure, location_and_second, one_predictor

LARGEST_MEAN = 1e15
"""Means from which on counts are drawn from a normal: their relative error is below 1e-7 of a standard deviation."""


class RealResponse(CurveFamily):
    """Real responses around the predictor, with outliers perhaps, on a scale that is known or not."""

    scale: Any

    @property
    def ratio(self) -> str:
        """None: coefficients are differences of responses."""
        return ""

    @property
    def known(self) -> bool:
        """Whether the scale is a number."""
        return is_number(self.scale)

    @property
    def unit(self) -> float:
        """The scale, if it is known, else 1: what the curve is made with."""
        return float(self.scale) if self.known else 1.0

    @property
    def terms(self) -> dict[tuple[int, int], Term]:
        """Mixed derivatives in location and log-scale; none if their critical points are found in another way."""
        return {}

    def mixed_critical_points(self, m: int) -> list[Vector]:
        """Return, for b = 0 to m, every point where h_ab of `families/algebraic.py`, a = m - b, has a local extreme."""
        return extremes_of(self.terms, m, self.curve.reach)

    @property
    def rows(self) -> Any:
        """Rows of one predictor, or of a location and a log-scale."""
        if self.known:
            return super().rows
        return LocationScaleRows(self.curve, self.mixed_critical_points)

    def structure(self, names: list[str], further: list[str]) -> Structure:
        """Return the location's coefficients, and the log scale or its coefficients, if it is not known."""
        if self.known and further:
            raise InputError(
                f"scale_design: it was given with {self!r}, whose scale is known; expected scale=None, or a prior of "
                "the coefficients of the log scale."
            )
        return one_predictor(names) if self.known else location_and_second(names, further, "scale", log=True)

    def check_scale(self) -> None:
        """Raise unless the scale is a positive number, a prior or None."""
        if is_number(self.scale) or isinstance(self.scale, bool):
            positive(self.title, "scale", self.scale)
        elif self.scale is not None and not hasattr(self.scale, "resolve") and not hasattr(self.scale, "of_scale"):
            raise InputError(
                f"{self.title}: scale={self.scale!r} must be a positive, finite number if it is known, a "
                "prior, e.g. tb.priors.HalfNormal(10), or None for the default prior."
            )

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return nothing: every real response is possible."""
        return np.zeros(y.shape, dtype=np.bool_)

    @property
    def support(self) -> str:
        """Any real number."""
        return "any real number"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the responses, outliers drawn in."""
        return without_outliers(y, self.unit if self.known else 0.0)

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the predictor: the centre of responses, their mean where they have one, and their median."""
        return np.asarray(eta[0])

    @property
    def predictor_labels(self) -> tuple[str, ...]:
        """Location and log scale."""
        return ("location", "log(scale)")

    @abstractmethod
    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return random noise of scale 1."""

    @property
    @abstractmethod
    def log_height(self) -> float:
        """What minus the potential of noise of scale 1 lacks of its log density."""

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the location plus noise, on the scale that is known or that of the second predictor's exponential."""
        with np.errstate(over="ignore"):
            scale = self.unit if self.known else np.exp(eta[1])
        return np.asarray(eta[0] + scale * self.noise(rng, eta.shape[1:]))

    def log_constant(self, y: Vector) -> Vector:
        """Return that of noise of scale 1, and minus the log of a known scale; an unknown one is in the potential."""
        return np.full(y.shape, self.log_height - math.log(self.unit))

    def predictor_level(self, y: Vector) -> float:
        """Return the distance of the responses' median from 0."""
        return abs(float(np.median(y)))

    def predictor_scale(self, y: Vector, weights: Vector) -> float:
        """Return the spread of the responses: their median absolute deviation, scaled as for a normal."""
        found = robust_spread(y, weights)
        if self.known:
            return max(found, self.unit)
        return found if found > 0.0 else spread(y, weights)


class LogMean(CurveFamily):
    """Responses with the log of their mean as the predictor, and a positive number more that is known or not."""

    second: ClassVar[str]
    """What that number is called."""

    @property
    def ratio(self) -> str:
        """Ratios of means."""
        return "ratio of means"

    @property
    def known(self) -> bool:
        """Whether the number is given."""
        return is_number(getattr(self, self.second))

    def check_second(self) -> None:
        """Raise unless the number is positive, a prior of one or None."""
        given = getattr(self, self.second)
        if given is not None and not hasattr(given, "of_scale"):
            positive(type(self).__name__, self.second, given)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Not in the logarithm of the number."""
        return self.known

    @property
    @abstractmethod
    def joint_rows(self) -> Any:
        """Rows of the log mean and the log of the number."""

    @property
    def rows(self) -> Any:
        """Rows of one predictor, or of two."""
        return super().rows if self.known else self.joint_rows

    def structure(self, names: list[str], further: list[str]) -> Structure:
        """Return the coefficients of the log mean, and the log of the number if it is not known."""
        if self.known or further:
            return super().structure(names, further)
        return location_and_second(names, further, self.second, log=True)

    @property
    def predictor_labels(self) -> tuple[str, ...]:
        """The log of the mean, and that of the number."""
        return ("log(mean)", f"log({self.second})")

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the exponential of the predictor."""
        with np.errstate(over="ignore"):
            return np.exp(eta[0])

    def gamma_of_mean_one(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return gamma amounts of mean 1, whose shape is the number."""
        with np.errstate(over="ignore"):
            shape = getattr(self, self.second) if self.known else np.exp(eta[1])
        return np.asarray(rng.standard_gamma(shape, eta.shape[1:]) / shape)


class CountResponse(Family):
    """Counts with the log of their mean as the predictor."""

    @property
    def ratio(self) -> str:
        """Rate ratios."""
        return "rate ratio"

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


def spread(y: Vector, weights: Vector) -> float:
    """Return the standard deviation."""
    w = np.broadcast_to(weights, y.shape)
    mean = np.average(y, weights=w)
    return float(np.sqrt(np.average((y - mean) ** 2, weights=w)))


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


def drawn_class(rng: np.random.Generator, below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return random numbers of classes, from the probability of each class or one before it, without the last."""
    uniform = rng.random(below.shape[1:])
    return np.asarray(np.sum(uniform >= below, axis=0), dtype=np.float64)
