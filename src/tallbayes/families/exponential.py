"""Families whose curve is the exponential: counts and positive amounts with a log link."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.amounts import LOG_ROOT, AmountRows
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.responses import CountResponse, LogMean, poisson
from tallbayes.families.straight_line import exp


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
    return exp(t)


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return e^t four times."""
    e = exp(t)
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
    convex = True

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
class Gamma(LogMean, _Exponential):
    """Positive amounts with mean exp(eta); the variance is mean^2 / shape.

    Derivatives have no bound on the whole line, so only local bounds work.

    Parameters
    ----------
    shape : float or prior or None
        Shape of the gamma distribution: a positive number if it is known. Unknown by default, with the prior
        ``InverseGamma(0.4, 0.3, of="value")``; or unknown with a prior, e.g. ``tb.priors.Exponential(1)``.
    """

    shape: Any = None
    second = "shape"

    def __post_init__(self) -> None:
        self.check_second()

    @property
    def joint_rows(self) -> AmountRows:
        """Rows of a log mean and a log shape."""
        return AmountRows()

    def starting_second(self, y: Vector) -> float:
        """Return the log of the shape that the spread of log amounts gives, if all had the same mean."""
        logs = np.log(y)
        apart = float(np.log(np.mean(np.exp(logs - np.max(logs)))) + np.max(logs) - np.mean(logs))
        return math.log(min(max(0.5 / max(apart, 1e-12), 0.05), 1e6))

    @property
    def curve(self) -> AmountCurve:
        """The exponential."""
        return AmountCurve(float(self.shape) if self.known else 1.0)

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

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return gamma amounts."""
        return np.asarray(self.expected(eta) * self.gamma_of_mean_one(rng, eta))

    def log_constant(self, y: Vector) -> Vector:
        """Return what depends on the amount alone; of a known shape the potential is shape (y e^-eta + eta)."""
        if not self.known:
            return np.asarray(-np.log(y) - LOG_ROOT)
        return np.asarray(
            self.shape * math.log(self.shape) - math.lgamma(self.shape) + (self.shape - 1.0) * np.log(y)
        )
