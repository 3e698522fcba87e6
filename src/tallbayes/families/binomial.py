"""Successes out of a known number of trials: grouped logistic regression."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.errors import InputError
from tallbayes.families import bernoulli
from tallbayes.families.base import Family, Vector
from tallbayes.families.curve import CurveFunctions, register_curve


class ProportionCurve(NamedTuple):
    """softplus(eta) - share eta: the potential of one trial, of which a share succeeded."""

    reach: float = math.pi


def coefficients(curve: Any, y: Any) -> Any:
    """g(eta) - y eta; the number of trials is in the row's weight."""
    return 1.0, 1.0, 0.0, -y, 0.0


register_curve(ProportionCurve, CurveFunctions(bernoulli.potential, bernoulli.jet, coefficients))


@dataclass(frozen=True, eq=False)
class Binomial(Family):
    """Successes out of known trials, each with probability 1 / (1 + exp(-eta)).

    The response is the number of successes of each row: trials softplus(eta) - y eta. (Groups whose probability
    itself varies are overdispersed: not this family.)

    Parameters
    ----------
    trials : int or array_like
        Number of trials: one for all rows, or one for each. A row of 0 trials says nothing.
    """

    trials: ArrayLike = 1
    convex = True

    def __post_init__(self) -> None:
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
    def curve(self) -> ProportionCurve:
        """The softplus."""
        return ProportionCurve()

    def critical_points(self, m: int) -> Vector:
        """Return those of the softplus."""
        return np.array(bernoulli.SOFTPLUS_CRITICAL[m], dtype=np.float64)

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
        """Return the logit of the share shrunk half-way to 1/2."""
        return np.log((0.5 + y) / (1.5 - y))

    def __repr__(self) -> str:
        """Name the trials if there is one number of them."""
        trials = np.asarray(self.trials)
        return f"Binomial(trials={float(trials):g})" if trials.ndim == 0 else "Binomial(trials of each row)"
