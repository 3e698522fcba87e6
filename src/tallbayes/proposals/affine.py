"""The compiled form that all Gaussian proposals share: z' = keep z + drift + noise."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class AffineProposal(NamedTuple):
    """z' = keep z + drift + scale xi, or + root xi, with xi standard normal.

    Steps may be mixed with walks, and a proposal that does not depend on the state (keep = 0) may be made of
    several trials, in a fixed order that no state changes.
    """

    keep: float
    drift: Vector
    scale: float
    root: Matrix
    has_root: bool
    walk_every: int = 0
    """Every so many steps, a symmetric walk z' = z + walk_scale xi instead; 0 for never."""
    walk_scale: float = 0.0
    inner: int = 1
    """Trials on the surrogate alone that make up the proposal of a step that is not a walk; an odd number."""
    inner_keep: float = 0.0
    """Every second inner trial keeps this much of the state's distance from the drift."""
    inner_floor: float = 0.0
    """Inner trials stay where the surrogate less G is at least -inner_floor |z|^2."""


@compiled
def correlate(root: Matrix, noise: Matrix) -> None:
    """Replace every column of standard normal noise by root times it."""
    d, count = noise.shape
    plain = noise.copy()
    for i in range(d):
        noise[i, :] = 0.0
        for j in range(d):
            if root[i, j] != 0.0:
                for b in range(count):
                    noise[i, b] += root[i, j] * plain[j, b]


@compiled
def refill(proposal: AffineProposal, noise: Matrix, rng: np.random.Generator) -> None:
    """Draw the noise of the next block of steps, a column for each, correlated as the proposal wants it."""
    for b in range(noise.shape[1]):
        for j in range(noise.shape[0]):
            noise[j, b] = rng.standard_normal()
    if proposal.has_root:
        correlate(proposal.root, noise)


@compiled
def propose_in_turn(
    proposal: AffineProposal, middle: Vector, turn: int, z: Vector, noise: Matrix, column: int, out: Vector
) -> tuple[float, int]:
    """Put a proposal from z into out, or a walk if it is its turn; return the walk's correction and the next turn.

    A walk is symmetric: the correction puts back the G = |z - middle|^2 / 2 that potentials have taken off.
    """
    correction = 0.0
    if proposal.walk_every > 0 and turn == 0:
        for j in range(z.size):
            out[j] = z[j] + proposal.walk_scale * noise[j, column]
            correction += 0.5 * (z[j] - middle[j]) ** 2 - 0.5 * (out[j] - middle[j]) ** 2
    else:
        propose(proposal.keep, proposal.drift, proposal.scale, z, noise, column, out)
    return correction, (turn + 1) % max(proposal.walk_every, 1)


@compiled
def propose(keep: float, drift: Vector, scale: float, z: Vector, noise: Matrix, column: int, out: Vector) -> None:
    """Put a proposal from z, made with one column of (correlated) noise, into out."""
    for j in range(z.size):
        out[j] = keep * z[j] + drift[j] + scale * noise[j, column]
