"""Factorised Metropolis-Hastings on the plain factorisation: one factor for each row, no surrogate."""

from dataclasses import dataclass

from tallbayes.errors import InputError
from tallbayes.kernels.base import Kernel, Prepared
from tallbayes.kernels.scalable_mh import check_parts, prepare_thinning
from tallbayes.models.base import Model
from tallbayes.proposals import PreconditionedWalk, Proposal
from tallbayes.setup.bounds import Global, Local
from tallbayes.setup.setup import Setup
from tallbayes.sources.base import SUPPLY


@dataclass(frozen=True)
class FactorisedMH(Kernel):
    r"""The paper's FMH, one factor for each row, truncated at R ((P), eq:fmh_acc_prob, eq:lipschitz-bounds).

    .. math:: \alpha = \left(1 \wedge \frac{p(\theta') q(\theta', \theta)}{p(\theta) q(\theta, \theta')}\right)
              \prod_i 1 \wedge \frac{p(y_i | \theta')}{p(y_i | \theta)}

    In the code this is the expansion of order 0. It is exact, but its acceptance falls as rows are added (the
    paper's section 4): choose `ScalableMH` for work.

    Parameters
    ----------
    proposal : Proposal or None
        Where to go; defaults to the preconditioned walk with scale 1 / (n^(1/2) d), short enough to be accepted.
    bound : Global or Local or None
        Defaults to the paper's log-Lipschitz bound.
    truncation : float or None
        R; ``math.inf`` never truncates. Defaults to the number of rows.
    """

    proposal: Proposal | None = None
    bound: Global | Local | None = None
    truncation: float | None = None
    needs = frozenset({SUPPLY})

    def __post_init__(self) -> None:
        check_parts("FactorisedMH", self.bound, self.proposal, self.truncation)
        refuse_surrogate_steps("FactorisedMH", self.proposal)

    def _prepare(self, model: Model, setup: Setup) -> Prepared:
        proposal = self.proposal or PreconditionedWalk(1.0 / (model.n**0.5 * model.d))
        return prepare_thinning(self, model, setup, 0, self.bound or Global(), proposal, self.truncation)


def refuse_surrogate_steps(owner: str, proposal: Proposal | None) -> None:
    """Raise if a proposal needs a surrogate, which the kernel does not have."""
    if proposal is not None and proposal.on_surrogate:
        raise InputError(
            f"{owner}: proposal={proposal!r} is made of steps on a surrogate, which this kernel does not have. Use it "
            "with tb.kernels.ScalableMH, or choose another, e.g. tb.proposals.PreconditionedWalk()."
        )
    if proposal is not None and proposal.tabulated:
        raise InputError(
            f"{owner}: proposal={proposal!r} draws from tables of the surrogate, which this kernel does not have. Use "
            "it with tb.kernels.ScalableMH, or leave out tabulated=True."
        )
