"""The preconditioned random walk, (P) proposalpreconditionedRW."""

from dataclasses import dataclass

import numpy as np

from tallbayes.checks import positive
from tallbayes.proposals.affine import AffineProposal
from tallbayes.proposals.base import Plan, Proposal
from tallbayes.surrogate.expansion import Whitening
from tallbayes.surrogate.polynomial import polynomial


@dataclass(frozen=True)
class PreconditionedWalk(Proposal):
    r""":math:`\theta' \sim N(\theta, \sigma^2 H^{-1})`, in whitened coordinates z' = z + sigma xi: G = 0.

    Parameters
    ----------
    scale : float
        sigma, positive; 2.4 / sqrt(d) suits plain Metropolis-Hastings.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        positive("PreconditionedWalk", "scale", self.scale)

    def plan(self, whitening: Whitening, n: int) -> Plan:
        """Return the walk in z."""
        zero = np.zeros(whitening.centre.size)
        move = AffineProposal(1.0, zero, float(self.scale), np.zeros((0, 0)), False)
        return Plan(move, polynomial(zero))


def walk_scale(d: int) -> float:
    """Return a scale at which walks are accepted often enough in d dimensions."""
    return 2.0 / d**0.5
