"""Priors on the coefficients."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.errors import InputError

__all__ = ["Flat", "Normal", "Prior", "WeaklyInformative"]

Vector = NDArray[np.float64]

SMALLEST_SCALE = 1e-100
"""Smaller prior scales have precisions too large to compute with."""


class Gaussian(NamedTuple):
    """Independent normal priors in the form the sampler uses; precision 0 is flat."""

    mean: Vector
    precision: Vector

    def potential(self, theta: Vector) -> float:
        """Return minus the log density at theta, up to a constant."""
        return float(0.5 * np.sum(self.precision * (theta - self.mean) ** 2))

    def gradient(self, theta: Vector) -> Vector:
        """Return the gradient of the potential at theta."""
        return self.precision * (theta - self.mean)


class Prior(ABC):
    """What is known of the coefficients before the data."""

    @abstractmethod
    def resolve(self, X: NDArray[Any], response_scale: float) -> Gaussian:
        """Return the prior of each of the columns' coefficients."""


@dataclass(frozen=True)
class Flat(Prior):
    """Constant density: the posterior is the normalised likelihood, which must be integrable."""

    def resolve(self, X: NDArray[Any], response_scale: float) -> Gaussian:
        """Return precision zero for every coefficient."""
        d = X.shape[1]
        return Gaussian(np.zeros(d), np.zeros(d))


@dataclass(frozen=True)
class Normal(Prior):
    """Independent normal priors.

    Parameters
    ----------
    mean : array_like
        One mean for all coefficients, or one for each.
    scale : array_like
        One standard deviation for all coefficients, or one for each; positive.
    """

    mean: ArrayLike = 0.0
    scale: ArrayLike = 1.0

    def resolve(self, X: NDArray[Any], response_scale: float) -> Gaussian:
        """Return the prior of each coefficient, after checking shapes and signs."""
        d = X.shape[1]
        parts = {}
        for name, value in (("mean", self.mean), ("scale", self.scale)):
            try:
                array = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError(f"Normal prior: {name}={value!r} must be a number, or numbers.") from None
            if array.shape not in {(), (1,), (d,)}:
                raise InputError(
                    f"Normal prior: {name} has shape {array.shape}; expected one number, or one for each of "
                    f"the {d} coefficients."
                )
            parts[name] = np.broadcast_to(array, d).astype(np.float64)
            if not np.all(np.isfinite(parts[name])):
                raise InputError(f"Normal prior: {name}={value!r} must be finite.")
        if np.any(parts["scale"] <= SMALLEST_SCALE):
            raise InputError(
                f"Normal prior: scale={self.scale!r} must be positive (above {SMALLEST_SCALE:g}); use Flat() "
                "for no prior."
            )
        return Gaussian(parts["mean"], parts["scale"] ** -2.0)


@dataclass(frozen=True)
class WeaklyInformative(Prior):
    """Normal priors scaled to the data: the default.

    A coefficient has mean 0 and standard deviation ``strength * response_scale / sd(column)``: a change of a
    column by one standard deviation moves the predictor by about ``strength`` units of the response at most.
    The coefficient of a constant column (an intercept) is free to move as far as the other columns' means
    and priors can push it, and ten units more.

    Parameters
    ----------
    strength : float
        Prior standard deviation, in units of the response, of the effect of one standard deviation.
    """

    strength: float = 2.5

    def __post_init__(self) -> None:
        if not (isinstance(self.strength, Real) and math.isfinite(self.strength) and self.strength > 0.0):
            raise InputError(f"WeaklyInformative: strength={self.strength!r} must be a positive, finite number.")

    def resolve(self, X: NDArray[Any], response_scale: float) -> Gaussian:
        """Return scales from the columns' means and standard deviations."""
        mean, sd = _column_moments(X)
        constant = sd <= 1e-12 * np.abs(mean)
        scale = np.empty(X.shape[1])
        scale[~constant] = self.strength * response_scale / sd[~constant]
        push = float(np.sum((mean[~constant] * scale[~constant]) ** 2))
        widest = math.sqrt((10.0 * response_scale) ** 2 + push)
        scale[constant] = widest / np.abs(mean[constant])
        return Gaussian(np.zeros(X.shape[1]), scale**-2.0)


def _column_moments(X: NDArray[Any]) -> tuple[Vector, Vector]:
    """Return means and standard deviations of the columns, the same for every memory order."""
    n, d = X.shape
    total, square = np.zeros(d), np.zeros(d)
    for block in _blocks(X):
        total += block.sum(axis=0)
    mean = total / n
    for block in _blocks(X):
        square += np.sum((block - mean) ** 2, axis=0)
    return mean, np.sqrt(square / n)


def _blocks(X: NDArray[Any], size: int = 65536) -> Iterator[NDArray[np.float64]]:
    for first in range(0, X.shape[0], size):
        yield np.ascontiguousarray(X[first : first + size], dtype=np.float64)
