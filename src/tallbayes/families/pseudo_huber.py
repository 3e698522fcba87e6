"""Real responses under a loss that is square for small residuals and linear for large ones."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import positive
from tallbayes.families.algebraic import Term, mixed_term, table_of, terms
from tallbayes.families.base import Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.responses import RealResponse


class PseudoHuberCurve(NamedTuple):
    """g(t) = reach^2 (sqrt(1 + (t / reach)^2) - 1), with t = (y - eta) / scale."""

    scale: float
    reach: float
    """Where the loss turns from square to linear, and the distance to g's nearest singularity."""


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """reach^2 (sqrt(1 + u^2) - 1), u = t / reach, without cancellation or overflow."""
    u = abs(t) / curve.reach
    if u > 1e8:
        return curve.reach * curve.reach * (u - 1.0)
    return curve.reach * curve.reach * u * u / (math.sqrt(1.0 + u * u) + 1.0)


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return the derivatives: with p = (1 + u^2)^(-1/2), reach u p, p^3, -3 u p^5 / reach, 3 (4 u^2 - 1) p^7."""
    u = t / curve.reach
    if abs(u) > 1.0:
        v = 1.0 / u
        q = 1.0 / math.sqrt(1.0 + v * v)  # |u| p
        p = abs(v) * q
        up = math.copysign(q, u)
    else:
        p = 1.0 / math.sqrt(1.0 + u * u)
        up = u * p
    p2 = p * p
    fourth = 3.0 * (4.0 * up * up - p2) * p2 * p2 * p / (curve.reach * curve.reach)
    return curve.reach * up, p2 * p, -3.0 * up * p2 * p2 / curve.reach, fourth


def coefficients(curve: Any, y: Any) -> Any:
    """Return t = (y - eta) / scale as coefficients."""
    return 1.0, -1.0 / curve.scale, y / curve.scale, 0.0, 0.0


_TERMS = terms(1)
_TABLE = table_of(_TERMS)


def mixed(curve: Any, u: Any, a: Any, b: Any) -> Any:
    """Return h_ab: the slope is reach^2 v / sqrt(1 + v^2) / reach of v = u / reach."""
    return mixed_term(_TABLE, a, b, u, curve.reach * curve.reach, curve.reach)


register_curve(PseudoHuberCurve, CurveFunctions(potential, jet, coefficients, mixed=mixed))

# Roots u of the next derivative.
_CRITICAL = {1: [], 2: [0.0], 3: [-0.5, 0.5], 4: [-math.sqrt(0.75), 0.0, math.sqrt(0.75)]}


@dataclass(frozen=True)
class PseudoHuber(RealResponse):
    """Real responses with a smooth robust loss: square up to about ``delta`` scales, linear beyond.

    Parameters
    ----------
    delta : float
        Where the loss turns from square to linear, in units of scale; positive.
    scale : float or prior or None
        Scale of the residuals: a number if it is known. Unknown by default, with a weakly informative prior scaled to
        the data; or unknown with a prior, stated for the scale itself, e.g. ``tb.priors.HalfNormal(10)``.
    """

    delta: float = 1.0
    scale: Any = None
    parabola_slope = 0.0

    def __post_init__(self) -> None:
        positive("PseudoHuber", "delta", self.delta)
        self.check_scale()

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Not in the log scale."""
        return self.known

    @property
    def terms(self) -> dict[tuple[int, int], Term]:
        """Mixed derivatives in location and log-scale."""
        return _TERMS

    @property
    def curve(self) -> PseudoHuberCurve:
        """A hyperbola."""
        return PseudoHuberCurve(self.unit, float(self.delta))

    def critical_points(self, m: int) -> Vector:
        """Return the roots of the next derivative."""
        return self.delta * np.array(_CRITICAL[m], dtype=np.float64)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return hyperbolic noise: a normal whose variance is generalised inverse Gaussian."""
        from scipy.stats import geninvgauss

        a = self.delta**2
        variance = geninvgauss.rvs(1.0, a, size=shape, random_state=rng) / a
        return np.asarray(self.delta * np.sqrt(variance) * rng.standard_normal(shape))

    @property
    def log_height(self) -> float:
        """Minus the log of the integral, 2 delta e^a K_1(a) with a = delta^2."""
        from scipy.special import k1e

        return -math.log(2.0 * self.delta * float(k1e(self.delta**2)))
