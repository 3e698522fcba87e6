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
from tallbayes.families.responses import CountResponse, poisson


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


@dataclass(frozen=True, repr=False)
class Poisson(_Exponential, CountResponse):
    """Counts with mean exp(eta); give log exposure as the offset.

    Derivatives have no bound on the whole line, so only local bounds work.

    Parameters
    ----------
    rates : bool
        Whether responses may be fractions: counts divided by an exposure that is the row's weight. The posterior is
        then that of the counts, with log exposure as the offset.
    """

    rates: bool = False

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are not counts, or, of rates, which are negative."""
        return y < 0.0 if self.rates else super().unsupported(y, first)

    @property
    def support(self) -> str:
        """Counts or rates."""
        return "numbers, 0 or more" if self.rates else super().support

    def __repr__(self) -> str:
        """Return what makes the family."""
        return f"Poisson({'rates=True' if self.rates else ''})"

    @property
    def curve(self) -> CountCurve:
        """The exponential."""
        return CountCurve()

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Poisson counts."""
        return poisson(rng, self.expected(eta))

    def log_constant(self, y: Vector) -> Vector:
        """Return minus log(y!)."""
        if self.rates:
            self._not_known("normalising constant")
        from scipy.special import gammaln

        return np.asarray(-gammaln(y + 1.0))


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

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the exponential of the predictor."""
        with np.errstate(over="ignore"):
            return np.exp(eta[0])

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return gamma amounts."""
        return np.asarray(self.expected(eta) * rng.standard_gamma(self.shape, eta.shape[1:]) / self.shape)

    def log_constant(self, y: Vector) -> Vector:
        """Return what depends on the amount alone: the potential has shape (y e^-eta + eta)."""
        return np.asarray(
            self.shape * math.log(self.shape) - math.lgamma(self.shape) + (self.shape - 1.0) * np.log(y)
        )
