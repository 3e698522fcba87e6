"""Overdispersed counts."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import bernoulli
from tallbayes.families.base import Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.dispersed import DispersedRows
from tallbayes.families.responses import CountResponse, LogMean, poisson


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


MOST = 1e11
"""Larger counts of an unknown size are refused: rounding hides what they say of it."""


@dataclass(frozen=True)
class NegativeBinomial(CountResponse, LogMean):
    """Counts with mean exp(eta) and variance mean + mean^2 / size.

    Parameters
    ----------
    size : float or prior or None
        Size (inverse overdispersion): a number if it is known. Unknown by default, with the prior
        ``InverseGamma(0.4, 0.3, of="value")``; or unknown with a prior, e.g. ``tb.priors.Exponential(1)``. Counts of
        an unknown size may be up to 1e11.
    """

    size: Any = None
    second = "size"
    endless = ("size", "towards infinity counts are Poisson")
    parabola_slope = 0.5

    def __post_init__(self) -> None:
        self.check_second()

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are not counts, or are too large for an unknown size."""
        return super().unsupported(y, first) | (y > (math.inf if self.known else MOST))

    @property
    def support(self) -> str:
        """Counts, of an unknown size not too large ones."""
        if self.known:
            return super().support
        return (
            f"{super().support}, up to {MOST:g} if the size is unknown (of larger ones rounding hides it: give it, or "
            "use tb.families.Gamma(), which such counts follow to many digits)"
        )

    @property
    def joint_rows(self) -> DispersedRows:
        """Rows of a log mean and a log size."""
        return DispersedRows()

    def starting_second(self, y: Vector) -> float:
        """Return the log of the size that mean and variance of the counts give."""
        mean, variance = float(np.mean(y)), float(np.var(y))
        return math.log(min(max(mean**2 / max(variance - mean, 1e-3 * mean + 1e-9), 0.05), 50.0))

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
        return poisson(rng, self.expected(eta) * self.gamma_of_mean_one(rng, eta))

    def log_constant(self, y: Vector) -> Vector:
        """Return what depends on the count alone: the potential has (y + size) log(1 + e^eta / size) - y eta."""
        from scipy.special import gammaln

        if not self.known:  # those of a count y are in the potential, but for (y - 1)!
            return np.asarray(-np.log(np.maximum(y, 1.0)))
        ways = gammaln(y + self.size) - gammaln(self.size) - gammaln(y + 1.0)
        # Of large counts the potential is that of the mirror image, which differs by a constant.
        mirrored = np.where(y > self.size, self.size, -y)
        return np.asarray(ways + mirrored * math.log(self.size))
