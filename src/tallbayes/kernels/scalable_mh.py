"""Scalable Metropolis-Hastings: a surrogate for all rows together, and thinning of what it leaves out."""

from dataclasses import dataclass

import numpy as np

from tallbayes.errors import InputError
from tallbayes.kernels import thinning
from tallbayes.kernels.base import Kernel, Prepared
from tallbayes.kernels.target import Target
from tallbayes.models import Regression
from tallbayes.proposals import CrankNicolson, PreconditionedWalk, Proposal
from tallbayes.surrogate.alias import row_sampler
from tallbayes.surrogate.basis import Basis, find_basis
from tallbayes.surrogate.bounds import Bound, Global, Local
from tallbayes.surrogate.expansion import expand
from tallbayes.surrogate.polynomial import subtract


@dataclass(frozen=True)
class ScalableMH(Kernel):
    r"""The paper's SMH-k, truncated at R ((P), eq:afmh and eq:tfmh-acc-prob).

    .. math:: \alpha = \left(1 \wedge \frac{\hat\pi_k(\theta') q(\theta', \theta)}
              {\hat\pi_k(\theta) q(\theta, \theta')}\right)
              \prod_i 1 \wedge \exp(r_i(\theta) - r_i(\theta'))

    with r_i the remainder of row i's potential after its Taylor expansion of order k; the prior is exact,
    inside the first factor. Where the rate of the thinning reaches R, or the bound does not hold, the step is
    a plain Metropolis-Hastings step on all rows.

    Parameters
    ----------
    order : int or None
        Order of the expansion, 1, 2 or 3.
    bound : Global or Local or None
        Bound of the remainders.
    proposal : Proposal or None
        Where to go.
    truncation : float or None
        R; ``math.inf`` never truncates, None takes the number of rows.
    """

    order: int | None = None
    bound: Global | Local | None = None
    proposal: Proposal | None = None
    truncation: float | None = None

    def __post_init__(self) -> None:
        if self.order not in (None, 1, 2, 3):
            raise InputError(f"ScalableMH: order={self.order!r} must be 1, 2 or 3 (or None).")
        check_truncation("ScalableMH", self.truncation)

    def prepare(self, model: Regression, *, threads: int | None = None, basis: Basis | None = None) -> Prepared:
        """Find the mode, expand around it, bound the remainders, and build the alias table."""
        order = self.order or 2
        bound = self.bound or Local()
        default = CrankNicolson(rho=0.0) if order > 1 else PreconditionedWalk(1.0)
        return prepare_thinning(
            model, "ScalableMH", order, bound, self.proposal or default, self.truncation, threads, basis
        )


def check_truncation(owner: str, truncation: float | None) -> None:
    """Raise unless R is None or a non-negative number."""
    if truncation is not None and not truncation >= 0.0:
        raise InputError(f"{owner}: truncation={truncation!r} must be a number >= 0, math.inf, or None.")


def prepare_thinning(
    model: Regression,
    name: str,
    order: int,
    bound: Global | Local,
    proposal: Proposal,
    truncation: float | None,
    threads: int | None,
    basis: Basis | None,
) -> Prepared:
    """Return what every thinning kernel needs, for an expansion of the given order."""
    mode, whitening = basis or find_basis(model, threads=threads)
    move, reference = proposal.plan(whitening, model.n)
    expansion = expand(model, whitening, order, threads=threads)
    psi, radius = bound.row_bounds(model, whitening, order, threads=threads)
    limit = float(model.n) if truncation is None else float(truncation)
    target = Target(
        model.source.rows,
        model.family.curve,
        whitening.centre,
        whitening.matrix,
        subtract(expansion.surrogate, reference),
        subtract(expansion.prior, reference),
        Bound(bound.local, order, float(np.sum(psi)), radius, limit),
        row_sampler(psi),
    )
    plan = {
        "kernel": name,
        "order": order,
        "bound": repr(bound),
        "radius": radius,
        "truncation": limit,
        "proposal": repr(proposal),
        "mode_passes": mode.passes,
    }
    return Prepared(mode, whitening, target, move, thinning.initial_state, thinning.run_chunk, 200, plan)
