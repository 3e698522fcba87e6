"""What can be done before a step needs data: noise by the block, and with it proposals that depend on no state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_within, compiled_within_with_arrays
from tallbayes.kernels.state import BLOCK, Ahead
from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.bounds import FARTHEST_FREE, Bound

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@compiled_within_with_arrays
def draw_noise(root: Matrix, noise: Matrix, rng: Any) -> None:
    """Draw the noise of the next block of steps, a column for each, correlated by the root if it is not empty."""
    d = noise.shape[0]
    for b in range(BLOCK):
        for j in range(d):
            noise[j, b] = rng.standard_normal()
    if root.size > 0:
        plain = noise.copy()
        for i in range(d):
            for b in range(BLOCK):
                total = 0.0
                for j in range(d):
                    total += root[i, j] * plain[j, b]
                noise[i, b] = total


@compiled_within
def propose_block(move: AffineProposal, ahead: Ahead, rng: Any) -> bool:
    """Draw a block of noise; where proposals do not depend on the state, make them. Return whether they are made."""
    keep, drift, scale, root, _, _, _, _, _ = move
    noise, _, _ = ahead
    draw_noise(root, noise, rng)
    if keep != 0.0:
        return False
    for j in range(drift.size):
        for b in range(BLOCK):
            noise[j, b] = drift[j] + scale * noise[j, b]
    return True


@compiled_within
def put_distances(whitening: Matrix, bound: Bound, ahead: Ahead) -> None:
    """Put the distances of a block of proposals from the centre beside them."""
    noise, _, distances = ahead
    d = noise.shape[0]
    for b in range(BLOCK):
        distances[b] = 0.0
    if bound.local:
        for j in range(bound.free):
            for b in range(BLOCK):
                if abs(noise[j, b]) > FARTHEST_FREE:
                    distances[b] = np.inf
        for j in range(bound.free, d):
            for b in range(BLOCK):
                distances[b] += noise[j, b] * noise[j, b]
        for b in range(BLOCK):
            distances[b] = np.sqrt(distances[b])
        return
    for i in range(d):
        for b in range(BLOCK):
            component = 0.0
            for j in range(d):
                component += whitening[i, j] * noise[j, b]
            distances[b] += abs(component)
