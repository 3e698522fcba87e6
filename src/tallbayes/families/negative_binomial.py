"""Overdispersed counts with known size."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import positive
from tallbayes.families import bernoulli
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.responses import CountResponse, poisson


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
    """Counts with mean exp(eta) and variance mean + mean^2 / size, with known size.

    Parameters
    ----------
    size : float
        Size (inverse overdispersion), positive.
    """

    size: float = 1.0
    convex = True
    parabola_slope = 0.5

    def __post_init__(self) -> None:
        positive("NegativeBinomial", "size", self.size)

    @property
    def curve(self) -> DispersedCurve:
        """The softplus."""
        return DispersedCurve(math.log(self.size), float(self.size))

    def critical_points(self, m: int) -> Vector:
        """Return those of the softplus."""
        return np.array(bernoulli.SOFTPLUS_CRITICAL[m], dtype=np.float64)

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Poisson counts whose means are gamma."""
        means = self.expected(eta) * rng.standard_gamma(self.size, eta.shape[1:]) / self.size
        return poisson(rng, means)

    def log_constant(self, y: Vector) -> Vector:
        """Return what depends on the count alone: the potential has (y + size) log(1 + e^eta / size) - y eta."""
        from scipy.special import gammaln

        ways = gammaln(y + self.size) - gammaln(self.size) - gammaln(y + 1.0)
        # Of large counts the potential is that of the mirror image, which differs by a constant.
        mirrored = np.where(y > self.size, self.size, -y)
        return np.asarray(ways + mirrored * math.log(self.size))
