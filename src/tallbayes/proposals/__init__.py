"""Proposals: where a chain may go next."""

from tallbayes.proposals.base import Proposal
from tallbayes.proposals.crank_nicolson import CrankNicolson
from tallbayes.proposals.first_order import FirstOrderReversible
from tallbayes.proposals.preconditioned_walk import PreconditionedWalk
from tallbayes.proposals.random_walk import RandomWalk
from tallbayes.proposals.surrogate_steps import SurrogateSteps

__all__ = [
    "CrankNicolson",
    "FirstOrderReversible",
    "PreconditionedWalk",
    "Proposal",
    "RandomWalk",
    "SurrogateSteps",
]
