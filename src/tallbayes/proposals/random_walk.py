"""The scaled random walk, (P) eq:scaled-random-walk-prop."""

import math
from dataclasses import dataclass

import numpy as np

from tallbayes.checks import positive
from tallbayes.proposals.affine import AffineProposal
from tallbayes.proposals.base import Plan, Proposal
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import polynomial


@dataclass(frozen=True)
class RandomWalk(Proposal):
    r""":math:`\theta' \sim N(\theta, \sigma^2 I / n)`: symmetric, so G = 0.

    Parameters
    ----------
    scale : float
        sigma, positive.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        positive("RandomWalk", "scale", self.scale)

    def plan(self, metric: Metric, n: int) -> Plan:
        """Return the walk in z, where its noise has root sigma L' / sqrt(n)."""
        zero = np.zeros(metric.d)
        root = np.ascontiguousarray(self.scale / math.sqrt(n) * metric.root.T)
        return Plan(AffineProposal(1.0, zero, 1.0, root), polynomial(zero))
