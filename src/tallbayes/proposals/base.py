"""The contract of a proposal."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import Polynomial


class Plan(NamedTuple):
    """A proposal, ready to run in the whitened coordinates of one model."""

    move: AffineProposal
    reference: Polynomial
    r"""G, such that the proposal is reversible for the density exp(-G).

    The proposal's log ratio is therefore log q(z', z) - log q(z, z') = G(z') - G(z).
    """


class Proposal(ABC):
    r"""How a chain proposes to move: z' ~ Normal(A z + b, C).

    Every proposal here is reversible for a density exp(-G) that is known in closed form, so its log ratio is

    .. math:: \log \frac{q(z', z)}{q(z, z')} = G(z') - G(z).

    Where G equals the surrogate the two cancel, and that factor of the acceptance is dropped.
    """

    on_surrogate: ClassVar[bool] = False
    """Whether it is made of trials on a surrogate, which a kernel must then have."""

    tabulated: bool = False
    """Whether coordinates with long tails are drawn from tables in place of normal densities."""

    @abstractmethod
    def plan(self, metric: Metric, n: int) -> Plan:
        """Return the proposal in whitened coordinates for a model with n rows."""
