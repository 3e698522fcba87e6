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
def propose(
    keep: float,
    drift: Vector,
    scale: float,
    root: Matrix,
    has_root: bool,
    z: Vector,
    noise: Matrix,
    column: int,
    out: Vector,
) -> None:
    """Put a proposal from z, made with one column of noise, into out."""
    d = z.size
    if not has_root:
        for j in range(d):
            out[j] = keep * z[j] + drift[j] + scale * noise[j, column]
        return
    for i in range(d):
        total = keep * z[i] + drift[i]
        for j in range(d):
            total += root[i, j] * noise[j, column]
        out[i] = total
