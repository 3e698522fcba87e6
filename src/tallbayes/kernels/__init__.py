"""Kernels: one Markov transition each."""

from tallbayes.kernels.base import Kernel
from tallbayes.kernels.factorised_mh import FactorisedMH
from tallbayes.kernels.firefly import Firefly
from tallbayes.kernels.metropolis_hastings import MetropolisHastings
from tallbayes.kernels.scalable_mh import ScalableMH
from tallbayes.kernels.zigzag import ZigZag

__all__ = ["FactorisedMH", "Firefly", "Kernel", "MetropolisHastings", "ScalableMH", "ZigZag"]
