"""Families whose curve is the exponential: counts and positive amounts with a log link."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import positive
from tallbayes.errors import InputError
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.responses import CountResponse


class CountCurve(NamedTuple):
    """g(t) = e^t with t = eta: a Poisson count's potential is e^eta - y eta."""

    reach: float = 4.0
    """An entire function: steps up to a quarter of this are integrated to rounding with six nodes."""


class AmountCurve(NamedTuple):
    """g(t) = e^t with t = log(y) - eta: a gamma amount's potential is shape (y e^-eta + eta)."""

    shape: float
    reach: float = 4.0


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """e^t; infinite, without a warning, where that is too large for a number."""
    return math.exp(min(t, 709.0)) if t <= 709.0 else math.inf


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return e^t four times."""
    e = math.exp(min(t, 709.0)) if t <= 709.0 else math.inf
    return e, e, e, e


def count_coefficients(curve: Any, y: Any) -> Any:
    """g(eta) - y eta."""
    return 1.0, 1.0, 0.0, -y, 0.0


def amount_coefficients(curve: Any, y: Any) -> Any:
    """Shape times g(log y - eta), plus shape times eta."""
    return curve.shape, -1.0, np.log(y), curve.shape, 0.0


register_curve(CountCurve, CurveFunctions(potential, jet, count_coefficients))
register_curve(AmountCurve, CurveFunctions(potential, jet, amount_coefficients))


class _Exponential(CurveFamily):
    convex = True

    def critical_points(self, m: int) -> Vector:
        """Return nothing: every derivative of the exponential is increasing."""
        return np.zeros(0)


@dataclass(frozen=True)
class Poisson(_Exponential, CountResponse):
    """Counts with mean exp(eta); give log exposure as the offset.

    Derivatives have no bound on the whole line, so only local bounds work.
    """

    @property
    def curve(self) -> CountCurve:
        """The exponential."""
        return CountCurve()


@dataclass(frozen=True)
class Gamma(_Exponential):
    """Positive amounts with mean exp(eta) and known shape; the variance is mean^2 / shape.

    Derivatives have no bound on the whole line, so only local bounds work. The shape must be given: in its logarithm
    the potential has polygamma functions, whose combinations are not monotone, and no range of them is proved here.

    Parameters
    ----------
    shape : float
        Shape of the gamma distribution, positive.
    """

    shape: float

    def __post_init__(self) -> None:
        if self.shape is None or hasattr(self.shape, "of_scale"):
            raise InputError(
                f"Gamma: shape={self.shape!r} was given; an unknown shape is not supported, since ranges of the "
                "polygamma functions in its derivatives are not proved, so shape must be a positive, finite number. "
                "Estimate it first (e.g. 1 / the residual variance of log y), or use tb.families.Gaussian() of log y."
            )
        positive("Gamma", "shape", self.shape)

    @property
    def curve(self) -> AmountCurve:
        """The exponential."""
        return AmountCurve(float(self.shape))

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are not positive."""
        return y <= 0.0

    @property
    def support(self) -> str:
        """Positive numbers."""
        return "positive numbers"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the log of the amount."""
        return np.log(y)
