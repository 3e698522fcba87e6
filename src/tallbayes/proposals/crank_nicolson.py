"""The preconditioned Crank-Nicolson proposal, (P) section 3.2."""

import math
from dataclasses import dataclass

from tallbayes.checks import is_count, is_number
from tallbayes.errors import InputError
from tallbayes.proposals.affine import AffineProposal
from tallbayes.proposals.base import Plan, Proposal
from tallbayes.proposals.preconditioned_walk import walk_scale
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import polynomial


@dataclass(frozen=True)
class CrankNicolson(Proposal):
    r"""z' - m = sqrt(rho) (z - m) + sqrt(1 - rho) xi, around the Newton point m of the Gaussian surrogate.

    Reversible for the surrogate of order 2 under a flat or normal prior: G(z) = |z - m|^2 / 2. With rho = 0 the
    proposal does not depend on the state. With ``antithetic`` the square root is taken negative, which
    satisfies the same conditions ((P), prop:reversible-prop-conds) and proposes to the other side of m.

    Parameters
    ----------
    rho : float
        Share of the variance that is kept, 0 <= rho < 1.
    antithetic : bool
        Whether to step to the other side of m.
    walk_every : int
        Make every so many steps a symmetric walk instead, which does not stick in tails that the Gaussian
        surrogate makes too light; 0 for none.
    tabulated : bool
        Whether to draw coordinates in which the posterior has long tails, if there are any, from tables of their own
        density instead; with rho = 0 only.
    """

    rho: float = 0.0
    antithetic: bool = False
    walk_every: int = 0
    tabulated: bool = False

    def __post_init__(self) -> None:
        if not (is_number(self.rho) and 0.0 <= self.rho < 1.0):
            raise InputError(f"CrankNicolson: rho={self.rho!r} must satisfy 0 <= rho < 1.")
        if self.tabulated and self.rho != 0.0:
            raise InputError(
                f"CrankNicolson: tabulated=True needs rho=0, independent draws; rho={self.rho!r} was given."
            )
        if not is_count(self.walk_every, 0):
            raise InputError(f"CrankNicolson: walk_every={self.walk_every!r} must be a whole number, 0 or more.")

    def plan(self, metric: Metric, n: int) -> Plan:
        """Return the proposal in z, where the surrogate is gradient . z + |z|^2 / 2 and m = -gradient."""
        keep = math.sqrt(self.rho) * (-1.0 if self.antithetic else 1.0)
        drift = -(1.0 - keep) * metric.gradient
        move = AffineProposal(
            keep,
            drift,
            math.sqrt(1.0 - self.rho),
            walk_every=int(self.walk_every),
            walk_scale=walk_scale(metric.d),
        )
        return Plan(move, polynomial(metric.gradient, isotropic=1.0))
