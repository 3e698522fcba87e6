"""Firefly Monte Carlo: rows that a lower bound explains well are left in the dark."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import instance_or_none, is_number
from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.families.bernoulli import Softplus
from tallbayes.families.gaussian import Parabola
from tallbayes.families.negative_binomial import DispersedCurve
from tallbayes.families.pseudo_huber import PseudoHuberCurve
from tallbayes.families.student_t import StudentTCurve
from tallbayes.kernels import brightness
from tallbayes.kernels.base import Kernel, Prepared
from tallbayes.models import Model
from tallbayes.proposals import PreconditionedWalk, Proposal
from tallbayes.surrogate.basis import Basis, find_basis
from tallbayes.surrogate.exact_prior import exact_prior
from tallbayes.surrogate.expansion import Whitening
from tallbayes.surrogate.polynomial import polynomial, subtract

Matrix = NDArray[np.float64]

SLOPES: dict[type, float] = {
    Softplus: 0.5,
    DispersedCurve: 0.5,
    StudentTCurve: 0.0,
    PseudoHuberCurve: 0.0,
    Parabola: 0.0,
}
"""Curves g for which g(t) - slope * t is a concave function of t^2: log(2 cosh(t / 2)) for the softplus
(Jaakkola and Jordan), the even g itself for the others. They have a parabola above them that touches at any t."""


@dataclass(frozen=True)
class Firefly(Kernel):
    r"""Firefly Monte Carlo (Maclaurin and Adams 2014), its lower bounds tuned at the mode.

    Each row has a lower bound B_i on its likelihood L_i, the exponential of a parabola in the predictor that
    touches at the mode, and a mark that says whether it is bright. The joint density

    .. math:: p(\theta) \prod_i B_i(\theta) \prod_{i\ \mathrm{bright}} (L_i(\theta) - B_i(\theta)) / B_i(\theta)

    has the posterior as its marginal, and the product of all B_i is one parabola: a step looks at bright rows
    only. A draw is one sweep over the marks (implicit resampling: Metropolis-Hastings for each, dark rows as
    candidates with probability q_db) and one Metropolis-Hastings step of theta given them.

    For logistic and negative binomial regression (the bound of Jaakkola and Jordan) and for Student-t,
    pseudo-Huber and normal responses.

    Parameters
    ----------
    q_db : float or None
        Probability that a dark row is a candidate in a sweep, 0 < q_db <= 1; the paper takes 0.001. None takes the
        share of rows that is expected to be bright.
    proposal : Proposal or None
        Where theta goes given the bright set, which leaves it less room than the posterior; None takes the
        preconditioned walk with scale 1.5 / sqrt(d).
    """

    q_db: float | None = None
    proposal: Proposal | None = None

    def __post_init__(self) -> None:
        if self.q_db is not None and not (is_number(self.q_db) and 0.0 < self.q_db <= 1.0):
            raise InputError(f"Firefly: q_db={self.q_db!r} must satisfy 0 < q_db <= 1, or None to have it chosen.")
        instance_or_none("Firefly", "proposal", self.proposal, (Proposal,), "tb.proposals.PreconditionedWalk()")

    def prepare(self, model: Model, *, threads: int | None = None, basis: Basis | None = None) -> Prepared:
        """Find the mode, fit every row's parabola there, and add them up."""
        slope = parabola_slope(model.family)  # refuses rows that are not functions of one predictor, too
        mode, whitening = basis or find_basis(model, threads=threads)
        tangents, curvature = _parabolas(model, whitening, slope, threads)
        chosen = self.proposal or PreconditionedWalk(1.5 / math.sqrt(model.d))
        move, reference = chosen.plan(whitening, model.n)
        gradient = whitening.gradient - whitening.stand_in_gradient
        collapsed = polynomial(gradient, quadratic=whitening.prior_hessian + curvature)
        # The mean of all e_i under the Gaussian approximation, where the whole Hessian is the identity.
        expected = 0.5 * (float(np.trace(collapsed.quadratic + whitening.stand_in_hessian)) - model.d)
        q_db = min(1.0, max(expected, 1.0) / model.n) if self.q_db is None else float(self.q_db)
        target = brightness.make_target(
            model.source.rows,
            model.family.curve,
            whitening.centre,
            whitening.matrix,
            tangents,
            subtract(collapsed, reference),
            exact_prior(model.coefficient_priors, whitening.centre, whitening.matrix),
            q_db,
        )
        plan: dict[str, Any] = {
            "kernel": "Firefly",
            "q_db": q_db,
            "proposal": repr(chosen),
            "mode_passes": mode.passes,
        }
        run = brightness.run_chunk
        return Prepared(mode, whitening, target, move, brightness.initial_state, run, 1000, plan)


def parabola_slope(family: Family) -> float:
    """Return the slope that makes g(t) - slope * t a concave function of t^2, or say that there is none."""
    slope = SLOPES.get(type(family.curve))
    if slope is None:
        raise InputError(
            f"Firefly: {family} has no lower bound that is the exponential of a parabola; Bernoulli with a logit "
            "link, NegativeBinomial, StudentT, PseudoHuber and Gaussian have. Use tb.kernels.ScalableMH(), or no "
            "kernel: one is chosen then."
        )
    return slope


def _parabolas(model: Model, whitening: Whitening, slope: float, threads: int | None) -> tuple[Matrix, Matrix]:
    """Return every row's tangent point and curvature, and the Hessian of all parabolas in z."""
    tangents = np.empty((model.n, 2))

    def part(first: int, last: int) -> Matrix:
        hessian = np.zeros((model.d, model.d))
        brightness.fill_tangents(
            model.source.rows,
            model.family.curve,
            slope,
            whitening.centre,
            whitening.inverse_root,
            first,
            last,
            tangents,
            hessian,
        )
        return hessian

    lower = sum(model.source.map_parts(part, threads), np.zeros((model.d, model.d)))
    return tangents, lower + np.tril(lower, -1).T
