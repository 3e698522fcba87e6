"""Factorised Metropolis-Hastings on the plain factorisation: one factor for each row, no surrogate."""

from dataclasses import dataclass

from tallbayes.kernels.base import Kernel, Prepared
from tallbayes.kernels.scalable_mh import check_parts, prepare_thinning
from tallbayes.models import Model
from tallbayes.proposals import PreconditionedWalk, Proposal
from tallbayes.surrogate.basis import Basis
from tallbayes.surrogate.bounds import Global, Local


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
        Where to go; None takes the preconditioned walk with scale 1 / (n^(1/2) d), short enough to be accepted.
    bound : Global or Local or None
        None takes the paper's log-Lipschitz bound.
    truncation : float or None
        R; ``math.inf`` never truncates, None takes the number of rows.
    """

    proposal: Proposal | None = None
    bound: Global | Local | None = None
    truncation: float | None = None

    def __post_init__(self) -> None:
        check_parts("FactorisedMH", self.bound, self.proposal, self.truncation)

    def prepare(self, model: Model, *, threads: int | None = None, basis: Basis | None = None) -> Prepared:
        """Find the mode, for starting points and preconditioning, and bound the slopes of all rows."""
        proposal = self.proposal or PreconditionedWalk(1.0 / (model.n**0.5 * model.d))
        return prepare_thinning(
            model, "FactorisedMH", 0, self.bound or Global(), proposal, self.truncation, threads, basis
        )
