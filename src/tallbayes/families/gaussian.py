"""Real responses with normal noise: linear regression."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.algebraic import Term, mixed_term, table_of, terms
from tallbayes.families.base import Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.responses import RealResponse, spread


class Parabola(NamedTuple):
    """g(t) = t^2 / 2, with t = (y - eta) / scale."""

    scale: float
    reach: float = 1.0


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """t^2 / 2."""
    return 0.5 * t * t


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return t, 1, 0, 0."""
    return t, 1.0, 0.0, 0.0


def coefficients(curve: Any, y: Any) -> Any:
    """Return t = (y - eta) / scale as coefficients."""
    return 1.0, -1.0 / curve.scale, y / curve.scale, 0.0, 0.0


_TERMS = terms(0)
_TABLE = table_of(_TERMS)


def mixed(curve: Any, u: Any, a: Any, b: Any) -> Any:
    """Return h_ab of u^2 / 2."""
    return mixed_term(_TABLE, a, b, u, 1.0, 1.0)


register_curve(Parabola, CurveFunctions(potential, jet, coefficients, mixed=mixed))


@dataclass(frozen=True)
class Gaussian(RealResponse):
    """Real responses, y = eta + scale * noise, with standard normal noise.

    Parameters
    ----------
    scale : float or prior or None
        Standard deviation of the noise: a number if it is known. Unknown by default, with a weakly informative prior
        scaled to the data; or unknown with a prior, stated for the standard deviation, e.g.
        ``tb.priors.HalfNormal(10)``.
    """

    scale: Any = None
    parabola_slope = 0.0

    def __post_init__(self) -> None:
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
    def curve(self) -> Parabola:
        """Half a square."""
        return Parabola(self.unit)

    def critical_points(self, m: int) -> Vector:
        """Return nothing: every derivative is monotone or constant."""
        return np.zeros(0)

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the response itself."""
        return y

    def predictor_scale(self, y: Vector, weights: Vector) -> float:
        """Return the spread of the responses."""
        found = spread(y, weights)
        return max(found, self.unit) if self.known else found

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return standard normal numbers."""
        return rng.standard_normal(shape)

    @property
    def log_height(self) -> float:
        """Minus the log of sqrt(2 pi)."""
        return -0.5 * math.log(2.0 * math.pi)
