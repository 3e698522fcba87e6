"""The proposal that is reversible for the first-order surrogate, (P) eq:scaled-first-order-prop."""

import math
from dataclasses import dataclass

import numpy as np

from tallbayes.checks import positive
from tallbayes.proposals.affine import AffineProposal
from tallbayes.proposals.base import Plan, Proposal
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import polynomial


@dataclass(frozen=True)
class FirstOrderReversible(Proposal):
    r""":math:`\theta' \sim N(\theta - \frac{\sigma}{2n} \nabla U(\hat\theta), \frac{\sigma}{n} I)`.

    Reversible for :math:`\exp(-\nabla U(\hat\theta) \cdot \theta)`: G is linear, and equals the surrogate of
    order 1 under a flat prior. At a mode the gradient vanishes and this is the scaled random walk.

    Parameters
    ----------
    scale : float
        sigma, positive.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        positive("FirstOrderReversible", "scale", self.scale)

    def plan(self, metric: Metric, n: int) -> Plan:
        """Return the proposal in z: drift L' b and noise with root sqrt(sigma / n) L'."""
        to_z = metric.root.T
        gradient = metric.root @ metric.gradient
        drift = to_z @ (-self.scale / (2.0 * n) * gradient)
        root = np.ascontiguousarray(math.sqrt(self.scale / n) * to_z)
        return Plan(AffineProposal(1.0, drift, 1.0, root), polynomial(metric.gradient))
