"""Real responses with heavy-tailed noise: robust regression."""

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
from tallbayes.families.straight_line import log1p


class StudentTCurve(NamedTuple):
    """g(t) = (df + 1) / 2 log(1 + t^2 / df), with t = (y - eta) / scale."""

    df: float
    scale: float
    reach: float
    """Distance from the real line to the nearest singularity of g: sqrt(df)."""


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """(df + 1) / 2 log(1 + t^2 / df), without overflow."""
    u = abs(t) / curve.reach
    huge = u > 1e17  # log(1 + u^2) = 2 log(1 + u) there, to rounding
    return (1.0 if huge else 0.5) * (curve.df + 1.0) * log1p(u if huge else u * u)


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return Im w, Re w^2, -2 Im w^3, -6 Re w^4 of w = 1 / (1 - i u), u = t / sqrt(df), scaled."""
    u = t / curve.reach
    # The square of a large u may overflow: then in terms of 1 / u. Choices of values, which cost less than branches.
    large = abs(u) > 1.0
    v = 1.0 / u if large else u
    share = 1.0 / (1.0 + v * v)
    q = v * share
    p = v * q if large else share
    re2 = (p - q) * (p + q)
    im2 = 2.0 * p * q
    im3 = re2 * q + im2 * p
    re4 = (re2 - im2) * (re2 + im2)
    c1 = (curve.df + 1.0) / curve.reach
    c2 = c1 / curve.reach
    c3 = c2 / curve.reach
    return c1 * q, c2 * re2, -2.0 * c3 * im3, -6.0 * c3 / curve.reach * re4


def coefficients(curve: Any, y: Any) -> Any:
    """T = (y - eta) / scale."""
    return 1.0, -1.0 / curve.scale, y / curve.scale, 0.0, 0.0


_TERMS = terms(2)
_TABLE = table_of(_TERMS)


def mixed(curve: Any, u: Any, a: Any, b: Any) -> Any:
    """Return h_ab: the slope is (df + 1) v / (1 + v^2) / reach of v = u / reach."""
    return mixed_term(_TABLE, a, b, u, curve.df + 1.0, curve.reach)


register_curve(StudentTCurve, CurveFunctions(potential, jet, coefficients, mixed=mixed))


@dataclass(frozen=True)
class StudentT(RealResponse):
    """Real responses, y = eta + scale * noise, with Student-t noise.

    Parameters
    ----------
    df : float
        Degrees of freedom of the noise, positive.
    scale : float or prior or None
        Scale of the noise: a number if it is known. Unknown by default, with a weakly informative prior scaled to the
        data; or unknown with a prior, stated for the scale itself, e.g. ``tb.priors.HalfNormal(10)``.
    """

    df: float = 4.0
    scale: Any = None
    convex = False
    parabola_slope = 0.0

    def __post_init__(self) -> None:
        positive("StudentT", "df", self.df)
        self.check_scale()

    @property
    def terms(self) -> dict[tuple[int, int], Term]:
        """Mixed derivatives in location and log-scale."""
        return _TERMS

    @property
    def curve(self) -> StudentTCurve:
        """The log of one plus a square."""
        return StudentTCurve(float(self.df), self.unit, math.sqrt(self.df))

    def critical_points(self, m: int) -> Vector:
        """Return the roots of the next derivative: Re or Im of w^(m+1), where (m + 1) atan(u) is a multiple.

        Of pi / 2 that is odd for an even m + 1 and even for an odd one.
        """
        power = m + 1
        odd = power % 2 == 0
        angles = [(j + 0.5 if odd else j) * math.pi / power for j in range(-power, power + 1)]
        inside = [a for a in angles if abs(a) < math.pi / 2 - 1e-9]
        return math.sqrt(self.df) * np.tan(np.array(inside, dtype=np.float64))

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return Student-t numbers."""
        return rng.standard_t(self.df, shape)

    @property
    def log_height(self) -> float:
        """The log of the density's largest value."""
        ratio = math.lgamma(0.5 * (self.df + 1.0)) - math.lgamma(0.5 * self.df)
        return ratio - 0.5 * math.log(self.df * math.pi)
