"""Successes out of a known number of trials: grouped logistic, probit and complementary log-log regression."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.compiled import compiled_within
from tallbayes.errors import InputError
from tallbayes.families import bernoulli, cloglog, probit
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.links import RATIOS, probability


class ProportionCurve(NamedTuple):
    """softplus(eta) - share eta: the potential of one trial, of which a share succeeded."""

    reach: float = math.pi


def coefficients(curve: Any, y: Any) -> Any:
    """g(eta) - y eta; the number of trials is in the row's weight."""
    return 1.0, 1.0, 0.0, -y, 0.0


register_curve(ProportionCurve, CurveFunctions(bernoulli.potential, bernoulli.jet, coefficients))


class ProbitProportionCurve(NamedTuple):
    """-share log Phi(eta) - (1 - share) log Phi(-eta): a mixture of the curves of successes and failures."""

    reach: float = probit.ProbitCurve().reach


class CloglogProportionCurve(NamedTuple):
    """-share log(1 - exp(-e^eta)) + (1 - share) e^eta: a mixture of the curves of successes and failures."""

    reach: float = cloglog.CloglogCurve().reach


def shares_of_pieces(curve: Any, y: Any) -> Any:
    """Return t = eta, with the share of successes as the piece: 0 are failures only, 1 successes only."""
    return 1.0, 1.0, 0.0, 0.0, y


def always(curve: Any) -> Any:
    """Say that a row's g is a mixture."""
    return True


def _mixture(potential: Callable[..., Any], jet: Callable[..., Any], side: float) -> CurveFunctions:
    """Return the functions of a share of g_1(side t) and the rest of g_0(t), where g_p is a curve's piece p.

    What there is nothing of is left out, as it may be infinite.
    """
    part, derivatives = compiled_within(potential), compiled_within(jet)

    def mixed_potential(curve: Any, t: Any, piece: Any) -> Any:
        total = 0.0
        if piece > 0.0:
            total += piece * part(curve, side * t, 1.0)
        if piece < 1.0:
            total += (1.0 - piece) * part(curve, t, 0.0)
        return total

    def mixed_jet(curve: Any, t: Any, piece: Any) -> Any:
        g1, g2, g3, g4 = 0.0, 0.0, 0.0, 0.0
        if piece > 0.0:
            a1, a2, a3, a4 = derivatives(curve, side * t, 1.0)
            g1, g2, g3, g4 = side * piece * a1, piece * a2, side * piece * a3, piece * a4
        if piece < 1.0:
            rest = 1.0 - piece
            b1, b2, b3, b4 = derivatives(curve, t, 0.0)
            g1, g2, g3, g4 = g1 + rest * b1, g2 + rest * b2, g3 + rest * b3, g4 + rest * b4
        return g1, g2, g3, g4

    return CurveFunctions(mixed_potential, mixed_jet, shares_of_pieces, mixes=always)


register_curve(ProbitProportionCurve, _mixture(probit.potential, probit.jet, -1.0))
register_curve(CloglogProportionCurve, _mixture(cloglog.potential, cloglog.jet, 1.0))

_LINKS: dict[str, tuple[Any, dict[int, list[float]], tuple[float, ...]]] = {
    "logit": (ProportionCurve(), bernoulli.SOFTPLUS_CRITICAL, (0.0,)),
    "probit": (
        ProbitProportionCurve(),
        {m: sorted([*points, *(-t for t in points)]) for m, points in probit.CRITICAL.items()},
        (0.0, 1.0),
    ),
    "cloglog": (CloglogProportionCurve(), cloglog.CRITICAL, (0.0, 1.0)),
}
"""Curve, critical points of both pieces, and pieces of each link."""


@dataclass(frozen=True, eq=False)
class Binomial(CurveFamily):
    """Successes out of known trials, all of a row with the same probability.

    The response is the number of successes of each row. (Groups whose probability itself varies are overdispersed:
    not this family.)

    Parameters
    ----------
    trials : int or array_like
        Number of trials: one for all rows, or one for each. A row of 0 trials says nothing.
    link : str
        How the probability depends on eta: "logit", "probit" or "cloglog", as for `Bernoulli`.
    """

    trials: ArrayLike = 1
    link: str = "logit"
    convex = True

    @property
    def ratio(self) -> str:
        """Odds ratios, or hazard ratios."""
        return RATIOS[self.link]

    def __post_init__(self) -> None:
        if self.link not in _LINKS:
            known = ", ".join(repr(link) for link in _LINKS)
            raise InputError(f"Binomial: link={self.link!r} is not known; use one of {known}.")
        trials = np.asarray(self.trials)
        if trials.ndim > 1 or trials.dtype.kind not in "uif" or (trials.ndim == 1 and trials.size == 0):
            raise InputError(
                f"Binomial: trials of shape {trials.shape} and dtype {trials.dtype} were given; expected a whole "
                "number, or one for each row."
            )
        trials = trials.astype(np.float64)
        bad = np.flatnonzero(~(np.isfinite(trials) & (trials >= 0.0) & (trials == np.floor(trials))))
        if bad.size:
            value = float(np.atleast_1d(trials)[bad[0]])
            where = "" if trials.ndim == 0 else f" in row {int(bad[0])}"
            raise InputError(f"Binomial: trials={value:g}{where} is not a whole number, 0 or more.")
        object.__setattr__(self, "trials", trials)

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
        """Failures and successes, of which rows are mixtures; one with the logit link."""
        return _LINKS[self.link][2]

    def critical_points(self, m: int) -> Vector:
        """Return the roots of the next derivative, of both pieces."""
        return np.array(_LINKS[self.link][1][m], dtype=np.float64)

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are not whole numbers from 0 to the row's trials."""
        trials = np.asarray(self.trials)
        if trials.ndim == 1:
            trials = trials[first : first + y.size]
        return (y < 0.0) | (y > trials) | (y != np.floor(y))

    @property
    def support(self) -> str:
        """Counts."""
        return "whole numbers from 0 to the row's trials"

    def check_rows(self, n: int) -> None:
        """Raise unless there is one number of trials, or one for each row."""
        trials = np.asarray(self.trials)
        if trials.ndim == 1 and trials.size != n:
            raise InputError(
                f"Binomial: {trials.size} numbers of trials were given for {n} rows; expected one for each "
                "row, or one for all."
            )

    def encode(self, y: Vector, weight: Vector, first: int | None = None) -> tuple[Vector, Vector]:
        """Return the share of successes, with the trials as a factor of the weight."""
        trials = np.asarray(self.trials)
        if first is not None and trials.ndim == 1:
            trials = trials[first : first + y.size]
        if first is None and not np.any(weight * trials):
            raise InputError("Binomial: no row with a positive weight has any trials, so the data say nothing.")
        share = np.divide(y, trials, out=np.zeros_like(y), where=np.broadcast_to(trials > 0.0, y.shape))
        return share, weight * trials

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the logit of the share shrunk half-way to 1/2: rough for other links too."""
        return np.log((0.5 + y) / (1.5 - y))

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of a success: what to expect of the share of successes."""
        return probability(self.link, eta[0])

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return shares of successes; 0 of no trials. Trials are those of the rows, which come last."""
        trials = np.asarray(self.trials)
        if trials.ndim == 1 and trials.size not in {1, eta.shape[-1]}:
            raise InputError(
                f"Binomial: {trials.size} numbers of trials were given for {eta.shape[-1]} rows; responses of other "
                "rows than the model's own can be drawn with one number of trials for all."
            )
        return rng.binomial(trials.astype(np.int64), self.expected(eta)) / np.maximum(trials, 1.0)

    def log_constant(self, y: Vector) -> Vector:
        """Return the log of the binomial coefficient, per trial, as weights have the trials as a factor."""
        from scipy.special import gammaln

        trials = np.broadcast_to(np.asarray(self.trials), y.shape)
        successes = np.round(y * trials)
        ways = gammaln(trials + 1.0) - gammaln(successes + 1.0) - gammaln(trials - successes + 1.0)
        return np.asarray(ways / np.maximum(trials, 1.0))

    def of_rows(self, rows: slice | NDArray[np.int64]) -> "Binomial":
        """Return the family with the trials of some rows."""
        trials = np.asarray(self.trials)
        return self if trials.ndim == 0 else Binomial(trials[rows], self.link)

    def __repr__(self) -> str:
        """Name the trials if there is one number of them, and a link that is not the logit."""
        trials = np.asarray(self.trials)
        text = f"trials={float(trials):g}" if trials.ndim == 0 else "trials of each row"
        return f"Binomial({text})" if self.link == "logit" else f"Binomial({text}, link={self.link!r})"
