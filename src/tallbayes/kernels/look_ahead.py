"""What can be done before a step needs data: noise by the block, and with it proposals that depend on no state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.state import BLOCK
from tallbayes.kernels.target import Target
from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.exact_prior import add_exact
from tallbayes.setup.polynomial import add_cubic

Matrix = NDArray[np.float64]


@compiled
def draw_noise(root: Matrix, ahead: Matrix, d: int, rng: Any) -> None:
    """Draw the noise of the next block of steps, a column for each, correlated by the root if it is not empty."""
    for b in range(BLOCK):
        for j in range(d):
            ahead[j, b] = rng.standard_normal()
    if root.size > 0:
        plain = ahead[:d].copy()
        for i in range(d):
            for b in range(BLOCK):
                ahead[i, b] = 0.0
            for j in range(d):
                if root[i, j] != 0.0:
                    for b in range(BLOCK):
                        ahead[i, b] += root[i, j] * plain[j, b]


@compiled
def look_ahead(target: Target, move: AffineProposal, ahead: Matrix, rng: Any) -> None:
    """Draw a block of noise; where proposals do not depend on the state, make them, with value and distance."""
    drift, scale = move.drift, move.scale
    d = drift.size
    draw_noise(move.root, ahead, d, rng)
    if move.keep != 0.0:
        return
    linear, isotropic, quadratic, cubic, _ = target.surrogate
    whitening, local = target.whitening, target.bound.local
    values, distances, inner = ahead[d], ahead[d + 1], np.empty(BLOCK)
    for b in range(BLOCK):
        values[b] = 0.0
        distances[b] = 0.0
    for j in range(d):
        for b in range(BLOCK):
            x = drift[j] + scale * ahead[j, b]
            ahead[j, b] = x
            values[b] += linear[j] * x + 0.5 * isotropic * x * x
    if quadratic.size > 0:
        for i in range(d):
            for b in range(BLOCK):
                inner[b] = 0.0
            for j in range(d):
                for b in range(BLOCK):
                    inner[b] += quadratic[i, j] * ahead[j, b]
            for b in range(BLOCK):
                values[b] += 0.5 * ahead[i, b] * inner[b]
    if cubic.size > 0:
        add_cubic(cubic, ahead[:d], inner, values)
    facts, rows, constant, _ = target.exact
    add_exact(facts, rows, constant, ahead, values)
    for i in range(d):
        if local:
            for b in range(BLOCK):
                distances[b] += ahead[i, b] * ahead[i, b]
        else:
            for b in range(BLOCK):
                inner[b] = 0.0
            for j in range(i, d):
                for b in range(BLOCK):
                    inner[b] += whitening[i, j] * ahead[j, b]
            for b in range(BLOCK):
                distances[b] += abs(inner[b])
    if local:
        for b in range(BLOCK):
            distances[b] = np.sqrt(distances[b])
