"""Plain Metropolis-Hastings: the reference, exact and slow."""

import math
from dataclasses import dataclass

from tallbayes.checks import instance_or_none
from tallbayes.kernels import full
from tallbayes.kernels.base import Kernel, Prepared, no_rows
from tallbayes.kernels.target import Target
from tallbayes.models import Model
from tallbayes.proposals import PreconditionedWalk, Proposal
from tallbayes.surrogate.basis import Basis, find_basis
from tallbayes.surrogate.expansion import expand
from tallbayes.surrogate.polynomial import subtract


@dataclass(frozen=True)
class MetropolisHastings(Kernel):
    r"""Accept with probability min(1, pi(theta') q(theta', theta) / pi(theta) q(theta, theta')).

    Every step is a pass over all rows.

    Parameters
    ----------
    proposal : Proposal or None
        Where to go; None takes the preconditioned walk with scale 2.4 / sqrt(d).
    """

    proposal: Proposal | None = None

    def __post_init__(self) -> None:
        instance_or_none("MetropolisHastings", "proposal", self.proposal, (Proposal,), "tb.proposals.RandomWalk()")

    def prepare(self, model: Model, *, threads: int | None = None, basis: Basis | None = None) -> Prepared:
        """Find the mode, for starting points and preconditioning."""
        mode, whitening = basis or find_basis(model, threads=threads)
        chosen = self.proposal or PreconditionedWalk(2.4 / math.sqrt(model.d))
        move, reference = chosen.plan(whitening, model.n)
        expansion = expand(model, whitening, 0)
        excess = subtract(expansion.prior, reference)
        bound, sampler = no_rows()
        target = Target(
            model.source.rows,
            model.family.curve,
            whitening.centre,
            whitening.matrix,
            excess,
            excess,
            bound,
            expansion.exact,
            sampler,
        )
        plan = {"kernel": "MetropolisHastings", "proposal": repr(chosen), "mode_passes": mode.passes}
        return Prepared(mode, whitening, target, move, full.initial_state, full.run_chunk, 500, plan)
