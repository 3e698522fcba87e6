"""Firefly Monte Carlo: rows that a lower bound explains well are left in the dark."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import instance_or_none, is_number
from tallbayes.errors import InputError
from tallbayes.families.parabola import call_curvatures, parabolas_of
from tallbayes.kernels import costs
from tallbayes.kernels.base import ONE_PREDICTOR, Behaviour, Kernel, Prepared
from tallbayes.kernels.factorised_mh import refuse_surrogate_steps
from tallbayes.kernels.firefly_steps import FireflyTarget, excess_is_broken, initial_state, run_chunk
from tallbayes.models.base import Model
from tallbayes.models.passes import weighted
from tallbayes.models.predictors import Linear
from tallbayes.proposals import PreconditionedWalk, Proposal
from tallbayes.setup.exact_prior import exact_prior
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import polynomial, subtract
from tallbayes.setup.setup import Setup
from tallbayes.sources.base import RANDOM_ACCESS, Block
from tallbayes.sources.supply import all_rows

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Firefly(Kernel):
    r"""Firefly Monte Carlo (Maclaurin and Adams 2014), its lower bounds tuned at the mode.

    Each row has a lower bound B_i on its likelihood L_i, the exponential of a parabola in the predictor that
    touches at the mode, and a mark that says whether it is bright. The joint density

    .. math:: p(\theta) \prod_i B_i(\theta) \prod_{i\ \mathrm{bright}} (L_i(\theta) - B_i(\theta)) / B_i(\theta)

    has the posterior as its marginal, and the product of all B_i is one parabola: a step evaluates bright rows
    only. A draw is one sweep over the marks (implicit resampling: Metropolis-Hastings for each, dark rows as
    candidates with probability q_db) and one Metropolis-Hastings step of theta given them.

    For logistic, binomial (logit) and negative binomial regression (the bound of Jaakkola and Jordan) and for
    Student-t, pseudo-Huber and normal responses.

    Parameters
    ----------
    q_db : float or None
        Probability that a dark row is a candidate in a sweep, 0 < q_db <= 1; the paper takes 0.001. Defaults to the
        share of rows that is expected to be bright.
    proposal : Proposal or None
        Where theta goes given the bright set, which leaves it less room than the posterior; defaults to the
        preconditioned walk with scale 1.5 / sqrt(d).
    """

    q_db: float | None = None
    proposal: Proposal | None = None
    needs = frozenset({RANDOM_ACCESS, ONE_PREDICTOR})

    def __post_init__(self) -> None:
        if self.q_db is not None and not (is_number(self.q_db) and 0.0 < self.q_db <= 1.0):
            raise InputError(f"Firefly: q_db={self.q_db!r} must satisfy 0 < q_db <= 1, or None to have it chosen.")
        instance_or_none("Firefly", "proposal", self.proposal, (Proposal,), "tb.proposals.PreconditionedWalk()")
        refuse_surrogate_steps("Firefly", self.proposal)

    def refuse_mismatch(self, model: Model) -> None:
        """Raise if the family has no parabola above its potential."""
        super().refuse_mismatch(model)
        if model.family.parabola_slope is None:
            raise InputError(
                f"Firefly: {model.family} has no lower bound that is the exponential of a parabola; Bernoulli and "
                "Binomial with a logit link, NegativeBinomial, StudentT, PseudoHuber and Gaussian have. Use "
                "tb.kernels.ScalableMH(), or no kernel: one is chosen then."
            )

    def _prepare(self, model: Model, setup: Setup) -> Prepared:
        metric = setup.metric
        kind: Any = type(model.rows.curve)
        functions = parabolas_of(kind)
        tangents, curvature = setup.once("parabolas", lambda: _all_parabolas(model, setup))
        chosen = self.proposal or PreconditionedWalk(1.5 / math.sqrt(model.d))
        move, reference = chosen.plan(metric, model.n)
        collapsed = polynomial(
            metric.gradient - metric.stand_in_gradient, quadratic=metric.prior_hessian + curvature
        )
        # The mean of all e_i under the Gaussian approximation, where the whole Hessian is the identity.
        whole = metric.prior_hessian + curvature + metric.stand_in_hessian
        expected = 0.5 * (float(np.trace(whole)) - model.d)
        q_db = min(1.0, max(expected, 1.0) / model.n) if self.q_db is None else float(self.q_db)
        target = FireflyTarget(
            metric.centre,
            metric.matrix,
            subtract(collapsed, reference),
            exact_prior(model.coefficient_priors, metric.centre, metric.matrix),
            all_rows(model.source),  # type: ignore[arg-type]
            tangents,
            functions.excess.pointer,
            model.rows.parameters,
            q_db,
        )
        plan: dict[str, Any] = {
            "kernel": "Firefly",
            "q_db": q_db,
            "proposal": repr(chosen),
            "mode_passes": setup.mode.passes,
        }
        return Prepared(
            model,
            metric,
            target,
            move,
            initial_state,
            run_chunk,
            1000,
            plan,
            partial(_step_cost, model.n, model.d),
            exceeds=partial(excess_is_broken, model.rows),
            table_bytes=tangents.nbytes,
            chain_bytes=24 * model.n,
        )


def _step_cost(n: int, d: int, seen: Behaviour) -> float:
    return costs.step(d, 1) + seen.rows * costs.random_row(n, d)


def _all_parabolas(model: Model, setup: Setup) -> tuple[Matrix, Matrix]:
    """Return predictor and curvature of every row's parabola, and the Hessian of all in z, in one pass."""
    tangents = np.empty((model.n, 2))
    given = model.rows, model.predictors, model.family.parabola_slope, setup.metric, tangents
    return tangents, model.source.reduce(_parabolas, *given, threads=setup.threads)


def _parabolas(
    block: Block, rows: Any, predictors: Linear, slope: float, metric: Metric, tangents: Matrix
) -> Matrix:
    """Put predictor and curvature of each row's parabola into tangents; return the Hessian of all in z."""
    eta = predictors.at(block, metric.centre)
    curvature = np.empty(block.count)
    kind: Any = type(rows.curve)
    pointer = parabolas_of(kind).curvatures.pointer
    call_curvatures(pointer, rows.parameters, slope, block.responses, eta, curvature)
    here = slice(block.first, block.first + block.count)
    tangents[here, 0], tangents[here, 1] = eta[0], curvature
    return predictors.hessian(block, weighted(curvature[None].copy(), block.weight), metric.inverse_root)
