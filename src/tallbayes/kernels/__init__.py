"""Kernels: one Markov transition each."""

from tallbayes.kernels.base import Kernel
from tallbayes.kernels.factorised_mh import FactorisedMH
from tallbayes.kernels.metropolis_hastings import MetropolisHastings
from tallbayes.kernels.scalable_mh import ScalableMH

__all__ = ["FactorisedMH", "Kernel", "MetropolisHastings", "ScalableMH"]
