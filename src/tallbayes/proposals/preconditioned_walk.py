"""The preconditioned random walk, (P) proposalpreconditionedRW."""

from dataclasses import dataclass

import numpy as np

from tallbayes.checks import positive
from tallbayes.proposals.affine import AffineProposal
from tallbayes.proposals.base import Plan, Proposal
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import polynomial


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

    def plan(self, metric: Metric, n: int) -> Plan:
        """Return the walk in z."""
        zero = np.zeros(metric.d)
        move = AffineProposal(1.0, zero, float(self.scale))
        return Plan(move, polynomial(zero))


def walk_scale(d: int) -> float:
    """Return a scale at which walks are accepted often enough in d dimensions.

    2.4 / sqrt(d) is best for a Gaussian (Roberts, Gelman and Gilks 1997); a little less suits skewed posteriors,
    for which walks are there.
    """
    return 2.0 / d**0.5
