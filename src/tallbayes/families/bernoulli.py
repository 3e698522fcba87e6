"""Binary responses: logistic, probit and complementary log-log regression."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.families import cloglog, probit
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.links import RATIOS, probability
from tallbayes.families.straight_line import exp, log1p


class Softplus(NamedTuple):
    """g(t) = log(1 + e^t), with t = -eta for y = 1 and t = eta for y = 0."""

    reach: float = math.pi
    """Distance from the real line to the nearest singularity of g."""


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """log(1 + e^t), without overflow."""
    return (t if t > 0.0 else 0.0) + log1p(exp(-abs(t)))


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return the derivatives: polynomials in its first, sigma; accurate in both tails."""
    e = exp(-abs(t))
    upper = 1.0 / (1.0 + e)  # sigma(|t|)
    lower = e * upper  # sigma(-|t|), kept apart because 1 - upper loses it
    g2 = upper * lower
    # Choices of values, not of branches: which side of 0 a row is on, no processor foresees.
    positive = t >= 0.0
    g1 = upper if positive else lower
    slope = lower - upper
    return g1, g2, g2 * (slope if positive else -slope), g2 * (1.0 - 6.0 * g2)


def coefficients(curve: Any, y: Any) -> Any:
    """S = 1 - 2 y: the two classes are mirror images, so no linear term is left over."""
    return 1.0, 1.0 - 2.0 * y, 0.0, 0.0, 0.0


register_curve(Softplus, CurveFunctions(potential, jet, coefficients))

# Roots of the next derivative: g''' = 0 at t = 0; g'''' = 0 where g'' = 1/6; g''''' = 0 at 0 and g'' = 1/12.
_FLAT = {1: [], 2: [0.0], 3: [1.0 / 6.0], 4: [0.0, 1.0 / 12.0]}


def _softplus_critical(m: int) -> list[float]:
    """Return t = 0 and the two points with g'' = 1/6 or 1/12, from sigma (1 - sigma) = g''."""
    points = []
    for value in _FLAT[m]:
        if value == 0.0:
            points.append(0.0)
        else:
            root = math.sqrt(1.0 - 4.0 * value)
            t = math.log((1.0 + root) / (1.0 - root))
            points += [-t, t]
    return points


SOFTPLUS_CRITICAL = {m: _softplus_critical(m) for m in range(1, 5)}

_LINKS: dict[str, tuple[Any, dict[int, list[float]], tuple[float, ...]]] = {
    "logit": (Softplus(), SOFTPLUS_CRITICAL, (0.0,)),
    "probit": (probit.ProbitCurve(), probit.CRITICAL, (0.0,)),
    "cloglog": (cloglog.CloglogCurve(), cloglog.CRITICAL, (0.0, 1.0)),
}
"""Curve, critical points and pieces of each link."""


@dataclass(frozen=True)
class Bernoulli(CurveFamily):
    """Binary responses, 0 or 1.

    Parameters
    ----------
    link : str
        "logit": P(y = 1) = 1 / (1 + exp(-eta)); "probit": P(y = 1) = Phi(eta), the standard normal's
        distribution function; "cloglog": P(y = 1) = 1 - exp(-exp(eta)), which has local bounds only.
    """

    link: str = "logit"
    convex = True

    @property
    def ratio(self) -> str:
        """Odds ratios, or hazard ratios."""
        return RATIOS[self.link]

    def __post_init__(self) -> None:
        if self.link not in _LINKS:
            known = ", ".join(repr(link) for link in _LINKS)
            raise InputError(f"Bernoulli: link={self.link!r} is not known; use one of {known}.")

    @property
    def curve(self) -> Any:
        """The link's curve."""
        return _LINKS[self.link][0]

    @property
    def parabola_slope(self) -> float | None:  # type: ignore[override]
        """Known for the logit link."""
        return 0.5 if self.link == "logit" else None

    @property
    def pieces(self) -> tuple[float, ...]:  # type: ignore[override]
        """One for each class with the complementary log-log, which is not symmetric."""
        return _LINKS[self.link][2]

    def critical_points(self, m: int) -> Vector:
        """Return the roots of the next derivative."""
        return np.array(_LINKS[self.link][1][m], dtype=np.float64)

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are neither 0 nor 1."""
        return (y != 0.0) & (y != 1.0)

    @property
    def support(self) -> str:
        """0 or 1."""
        return "0 or 1"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the logit of a response shrunk half-way to 1/2: rough for other links too."""
        return math.log(3.0) * (2.0 * y - 1.0)

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that a response is 1."""
        return probability(self.link, eta[0])

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 0 or 1."""
        return (rng.random(eta.shape[1:]) < self.expected(eta)).astype(np.float64)

    def log_constant(self, y: Vector) -> Vector:
        """Return zeros: the potential is minus the log of a probability."""
        return np.zeros(y.shape)
