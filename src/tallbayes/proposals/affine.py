"""The compiled form that all Gaussian proposals share: z' = keep z + drift + noise."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NO_ROOT = np.zeros((0, 0))


class AffineProposal(NamedTuple):
    """z' = keep z + drift + scale xi, or + root xi, with xi standard normal.

    Steps may be mixed with walks, and a proposal that does not depend on the state (keep = 0) may be made of
    several trials, in a fixed order that no state changes.
    """

    keep: float
    drift: Vector
    scale: float
    root: Matrix = NO_ROOT
    """Empty if noise is not correlated."""
    walk_every: int = 0
    """Every so many steps, a symmetric walk z' = z + walk_scale xi instead; 0 for never."""
    walk_scale: float = 0.0
    inner: int = 1
    """Trials on the surrogate alone that make up the proposal of a step that is not a walk; an odd number."""
    inner_keep: float = 0.0
    """Every second inner trial keeps this much of the state's distance from the drift."""
    inner_floor: float = 0.0
    """Inner trials stay where the surrogate less G is at least -inner_floor |z|^2."""
