"""The compiled form that all Gaussian proposals share: z' = keep z + drift + noise."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class AffineProposal(NamedTuple):
    """z' = keep z + drift + scale xi, or + root xi, with xi standard normal."""

    keep: float
    drift: Vector
    scale: float
    root: Matrix
    has_root: bool


@compiled
def propose(proposal: AffineProposal, z: Vector, noise: Vector, out: Vector) -> None:
    """Put a proposal from z into out."""
    d = z.size
    if not proposal.has_root:
        for j in range(d):
            out[j] = proposal.keep * z[j] + proposal.drift[j] + proposal.scale * noise[j]
        return
    for i in range(d):
        total = proposal.keep * z[i] + proposal.drift[i]
        for j in range(d):
            total += proposal.root[i, j] * noise[j]
        out[i] = total
