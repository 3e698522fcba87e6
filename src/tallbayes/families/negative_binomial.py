"""Overdispersed counts."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_number, positive
from tallbayes.families import bernoulli
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.dispersed import DispersedRows
from tallbayes.families.responses import CountResponse, poisson
from tallbayes.families.structure import Structure, location_and_second


class DispersedCurve(NamedTuple):
    """(y + size) softplus(eta - log(size)) - y eta; or, which is the same, with softplus(t) = t + softplus(-t)."""

    log_size: float
    size: float
    reach: float = math.pi


def coefficients(curve: Any, y: Any) -> Any:
    """(y + size) g(eta - log size) - y eta; of large counts the mirror image, whose slope loses no digits."""
    large = 1.0 * (y > curve.size)
    side = 1.0 - 2.0 * large
    return y + curve.size, side, -side * curve.log_size, large * curve.size - (1.0 - large) * y, 0.0


register_curve(DispersedCurve, CurveFunctions(bernoulli.potential, bernoulli.jet, coefficients))


@dataclass(frozen=True)
class NegativeBinomial(CountResponse, CurveFamily):
    """Counts with mean exp(eta) and variance mean + mean^2 / size.

    Parameters
    ----------
    size : float or prior or None
        Size (inverse overdispersion): a number if it is known. Unknown by default, with the prior
        ``InverseGamma(0.4, 0.3, of="value")``; or unknown with a prior, e.g. ``tb.priors.Exponential(1)``.
    """

    size: Any = None
    parabola_slope = 0.5

    def __post_init__(self) -> None:
        if self.size is not None and not hasattr(self.size, "of_scale"):
            positive("NegativeBinomial", "size", self.size)

    @property
    def known(self) -> bool:
        """Whether the size is a number."""
        return is_number(self.size)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Not in the log size."""
        return self.known

    @property
    def rows(self) -> Any:
        """Rows of one predictor, or of a log mean and a log size."""
        return super().rows if self.known else DispersedRows()

    def structure(self, names: list[str], further: list[str]) -> Structure:
        """Return the coefficients of the log mean, and the log size if it is not known."""
        if self.known or further:
            return super().structure(names, further)
        return location_and_second(names, further, "size", log=True)

    def starting_second(self, y: Vector) -> float:
        """Return the log of the size that mean and variance of the counts give."""
        mean, variance = float(np.mean(y)), float(np.var(y))
        return math.log(min(max(mean**2 / max(variance - mean, 1e-3 * mean + 1e-9), 0.05), 50.0))

    @property
    def predictor_labels(self) -> tuple[str, ...]:
        """The log of the mean, and that of the size."""
        return ("log(mean)", "log(size)")

    @property
    def curve(self) -> DispersedCurve:
        """The softplus."""
        size = float(self.size) if self.known else 1.0
        return DispersedCurve(math.log(size), size)

    def critical_points(self, m: int) -> Vector:
        """Return those of the softplus."""
        return np.array(bernoulli.SOFTPLUS_CRITICAL[m], dtype=np.float64)

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Poisson counts whose means are gamma."""
        with np.errstate(over="ignore"):
            size = self.size if self.known else np.exp(eta[1])
        return poisson(rng, self.expected(eta) * rng.standard_gamma(size, eta.shape[1:]) / size)

    def log_constant(self, y: Vector) -> Vector:
        """Return what depends on the count alone: the potential has (y + size) log(1 + e^eta / size) - y eta."""
        from scipy.special import gammaln

        if not self.known:
            return np.asarray(-gammaln(y + 1.0))
        ways = gammaln(y + self.size) - gammaln(self.size) - gammaln(y + 1.0)
        # Of large counts the potential is that of the mirror image, which differs by a constant.
        mirrored = np.where(y > self.size, self.size, -y)
        return np.asarray(ways + mirrored * math.log(self.size))
