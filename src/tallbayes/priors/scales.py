"""Priors of scales, sizes and shapes: positive numbers, whose logarithm is sampled."""

import math
from dataclasses import dataclass

from tallbayes.checks import is_number, positive
from tallbayes.errors import InputError
from tallbayes.priors.base import SMALLEST_SCALE, ScalePrior
from tallbayes.priors.resolved import HALF_STUDENT, NORMAL, POWER, CoefficientPriors, resolved


def _positive(owner: str, **values: float) -> None:
    """Raise unless the parameters of a scale's prior are positive, and neither tiny nor infinite."""
    for name, value in values.items():
        positive(f"{owner} prior", name, value)
        if not SMALLEST_SCALE < value < 1.0 / SMALLEST_SCALE:
            raise InputError(f"{owner} prior: {name}={value!r} must be between {SMALLEST_SCALE:g} and its inverse.")


@dataclass(frozen=True)
class HalfNormal(ScalePrior):
    """The positive half of a normal around zero, for a scale.

    Parameters
    ----------
    scale : float
        Standard deviation of that normal; positive.
    """

    scale: float

    def __post_init__(self) -> None:
        _positive("HalfNormal", scale=self.scale)

    def of_scale(self) -> CoefficientPriors:
        """Return exp(2 t) / (2 scale^2) - t."""
        return resolved(POWER, 0.5 / float(self.scale) ** 2, 2.0, 1.0, 1)


@dataclass(frozen=True)
class HalfStudentT(ScalePrior):
    """The positive half of a Student's t around zero, for a scale.

    Parameters
    ----------
    df : float
        Degrees of freedom; positive.
    scale : float
        Scale of that Student's t; positive.
    """

    df: float
    scale: float

    def __post_init__(self) -> None:
        _positive("HalfStudentT", df=self.df, scale=self.scale)

    def of_scale(self) -> CoefficientPriors:
        """Return (df + 1) / 2 log(1 + exp(2 t) / (df scale^2)) - t."""
        return resolved(HALF_STUDENT, math.log(self.scale), 1.0, self.df, 1)


@dataclass(frozen=True)
class HalfCauchy(ScalePrior):
    """The positive half of a Cauchy around zero, for a scale: half a Student's t with one degree of freedom.

    Parameters
    ----------
    scale : float
        Scale of that Cauchy; positive.
    """

    scale: float

    def __post_init__(self) -> None:
        _positive("HalfCauchy", scale=self.scale)

    def of_scale(self) -> CoefficientPriors:
        """Return that of half a Student's t."""
        return HalfStudentT(1.0, self.scale).of_scale()


@dataclass(frozen=True)
class Exponential(ScalePrior):
    """An exponential distribution, for a scale.

    Parameters
    ----------
    rate : float
        One over its mean; positive.
    """

    rate: float

    def __post_init__(self) -> None:
        _positive("Exponential", rate=self.rate)

    def of_scale(self) -> CoefficientPriors:
        """Return rate exp(t) - t."""
        return resolved(POWER, float(self.rate), 1.0, 1.0, 1)


@dataclass(frozen=True)
class LogNormal(ScalePrior):
    """A scale whose logarithm is normal.

    Parameters
    ----------
    mean : float
        Mean of the logarithm.
    sd : float
        Standard deviation of the logarithm; positive.
    """

    mean: float
    sd: float

    def __post_init__(self) -> None:
        _positive("LogNormal", sd=self.sd)
        if not (is_number(self.mean) and math.isfinite(self.mean)):
            raise InputError(f"LogNormal prior: mean={self.mean!r} must be a finite number, of the logarithm.")

    def of_scale(self) -> CoefficientPriors:
        """Return a normal."""
        return resolved(NORMAL, float(self.mean), float(self.sd), 0.0, 1)


@dataclass(frozen=True)
class InverseGamma(ScalePrior):
    """An inverse gamma distribution, for the square of a scale (a variance) or for the scale itself.

    Parameters
    ----------
    shape : float
        Shape a of the density x^(-a - 1) exp(-b / x); positive.
    scale : float
        Scale b; positive.
    of : str
        What has that density: "square", or "value".
    """

    shape: float
    scale: float
    of: str = "square"

    def __post_init__(self) -> None:
        _positive("InverseGamma", shape=self.shape, scale=self.scale)
        if self.of not in ("square", "value"):
            raise InputError(f"InverseGamma prior: of={self.of!r} was given; expected 'square' or 'value'.")

    def of_scale(self) -> CoefficientPriors:
        """Return b exp(-k t) + k a t, k = 2 for the square."""
        k = 2.0 if self.of == "square" else 1.0
        return resolved(POWER, float(self.scale), -k, -k * float(self.shape), 1)
