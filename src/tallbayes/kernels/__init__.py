"""Kernels: one Markov transition each."""

from typing import TYPE_CHECKING

from tallbayes.on_demand import on_demand

if TYPE_CHECKING:
    from tallbayes.kernels.base import Kernel
    from tallbayes.kernels.factorised_mh import FactorisedMH
    from tallbayes.kernels.firefly import Firefly
    from tallbayes.kernels.metropolis_hastings import MetropolisHastings
    from tallbayes.kernels.scalable_mh import ScalableMH
    from tallbayes.kernels.zigzag import ZigZag

__all__ = ["FactorisedMH", "Firefly", "Kernel", "MetropolisHastings", "ScalableMH", "ZigZag"]

_HOMES = {
    "Kernel": "base",
    "FactorisedMH": "factorised_mh",
    "Firefly": "firefly",
    "MetropolisHastings": "metropolis_hastings",
    "ScalableMH": "scalable_mh",
    "ZigZag": "zigzag",
}
__getattr__, __dir__ = on_demand(__name__, _HOMES)
