"""Plain Metropolis-Hastings: the reference, exact and slow."""

import math
from dataclasses import dataclass

from tallbayes.checks import instance_or_none
from tallbayes.kernels import costs
from tallbayes.kernels.all_rows import answer_from, rows_are_at_hand
from tallbayes.kernels.base import Behaviour, Kernel, Prepared
from tallbayes.kernels.chunks import chunks
from tallbayes.kernels.factorised_mh import refuse_surrogate_steps
from tallbayes.kernels.scalable_mh import ScalableMH
from tallbayes.kernels.scalable_mh_steps import initial_state
from tallbayes.kernels.surrogate_values import evaluators
from tallbayes.kernels.target import Surrogate, Target, Terms, likelihood_of, prior_at
from tallbayes.models.base import Model
from tallbayes.proposals import PreconditionedWalk, Proposal
from tallbayes.setup.bounds import Bound
from tallbayes.setup.bundles import no_bundles
from tallbayes.setup.core import no_core
from tallbayes.setup.polynomial import subtract
from tallbayes.setup.setup import Setup
from tallbayes.setup.tables import no_tables
from tallbayes.sources.supply import all_rows, empty_rows


@dataclass(frozen=True)
class MetropolisHastings(Kernel):
    r"""Accept with probability min(1, pi(theta') q(theta', theta) / pi(theta) q(theta, theta')).

    Every step is a pass over all rows. In the code it is a thinning kernel whose steps are all truncated.

    Parameters
    ----------
    proposal : Proposal or None
        Where to go; defaults to the preconditioned walk with scale 2.4 / sqrt(d).
    """

    proposal: Proposal | None = None

    def __post_init__(self) -> None:
        instance_or_none("MetropolisHastings", "proposal", self.proposal, (Proposal,), "tb.proposals.RandomWalk()")
        refuse_surrogate_steps("MetropolisHastings", self.proposal)

    def into_tails(self, model: Model, setup: Setup) -> Kernel | None:
        """Return a kernel whose proposals follow a skewed posterior; steps are on all rows as here."""
        return ScalableMH(core=False).into_tails(model, setup) if model.predictors.linear else None

    def _prepare(self, model: Model, setup: Setup) -> Prepared:
        metric = setup.metric
        chosen = self.proposal or PreconditionedWalk(2.4 / math.sqrt(model.d))
        move, reference = chosen.plan(metric, model.n)
        expansion = setup.expansion(0)
        excess = subtract(expansion.prior, reference)
        terms = Terms(excess, expansion.exact, no_core(model), no_tables())
        target = Target(
            metric.matrix,
            Bound(True, 0, 0.0, 0.0, 0.0, math.inf, math.inf, 0.0, 0),
            all_rows(model.source) if rows_are_at_hand(model) else empty_rows(),  # type: ignore[arg-type]
            likelihood_of(model, metric),
            Surrogate(terms, *evaluators(terms)),
            excess,
            no_bundles(),
        )
        plan = {"kernel": "MetropolisHastings", "proposal": repr(chosen), "mode_passes": setup.mode.passes}

        def nanoseconds(seen: Behaviour) -> float:
            return model.n * costs.full_row(model.d)

        return Prepared(
            model,
            metric,
            target,
            move,
            initial_state,
            chunks(model, move),
            500,
            plan,
            nanoseconds,
            answer=answer_from(model, metric, prior_at),
        )
