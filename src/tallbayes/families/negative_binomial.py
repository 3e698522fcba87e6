"""Overdispersed counts with known size."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tallbayes.checks import positive
from tallbayes.families import bernoulli
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.responses import CountResponse


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
