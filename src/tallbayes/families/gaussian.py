"""Real responses with normal noise of known scale: linear regression."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import positive
from tallbayes.families.base import Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.responses import RealResponse


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


register_curve(Parabola, CurveFunctions(potential, jet, coefficients))


@dataclass(frozen=True)
class Gaussian(RealResponse):
    """Real responses, y = eta + scale * noise, with standard normal noise.

    Parameters
    ----------
    scale : float
        Standard deviation of the noise, positive, known.
    """

    scale: float = 1.0
    convex = True
    parabola_slope = 0.0

    def __post_init__(self) -> None:
        positive("Gaussian", "scale", self.scale)

    @property
    def curve(self) -> Parabola:
        """Half a square."""
        return Parabola(float(self.scale))

    def critical_points(self, m: int) -> Vector:
        """Return nothing: every derivative is monotone or constant."""
        return np.zeros(0)

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the response itself."""
        return y

    def predictor_scale(self, y: Vector, weights: Vector) -> float:
        """Return the spread of the responses."""
        w = np.broadcast_to(weights, y.shape)
        mean = np.average(y, weights=w)
        return max(float(np.sqrt(np.average((y - mean) ** 2, weights=w))), self.scale)

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the predictor plus normal noise."""
        return np.asarray(eta[0] + self.scale * rng.standard_normal(eta.shape[1:]))

    def log_constant(self, y: Vector) -> Vector:
        """Return minus the log of scale sqrt(2 pi)."""
        return np.full(y.shape, -math.log(self.scale) - 0.5 * math.log(2.0 * math.pi))
