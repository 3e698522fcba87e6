"""What can be done before a step looks at data: noise by the block, and trials on the surrogate alone."""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.state import BLOCK
from tallbayes.kernels.target import Target
from tallbayes.proposals.affine import AffineProposal, refill
from tallbayes.surrogate.bounds import distance_from_centre, distances_of_columns
from tallbayes.surrogate.exact_prior import add_exact, evaluate_exact
from tallbayes.surrogate.polynomial import evaluate_columns, evaluate_parts

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@compiled
def look_ahead(
    target: Target,
    proposal: AffineProposal,
    noise: Matrix,
    values: Vector,
    distances: Vector,
    rng: np.random.Generator,
) -> None:
    """Draw a block of noise; where proposals do not depend on the state, make them, with value and distance."""
    refill(proposal, noise, rng)
    if proposal.keep != 0.0:
        return
    drift, scale = proposal.drift, proposal.scale
    for j in range(noise.shape[0]):
        for b in range(noise.shape[1]):
            noise[j, b] = drift[j] + scale * noise[j, b]
    evaluate_columns(target.surrogate, noise, values)
    add_exact(target.exact, noise, values)
    distances_of_columns(target.bound, target.whitening, noise, distances)


@compiled
def surrogate_trials(
    target: Target,
    proposal: AffineProposal,
    linear: Vector,
    isotropic: float,
    quadratic: Matrix,
    padded: Vector,
    has_linear: bool,
    has_quadratic: bool,
    has_cubic: bool,
    has_exact: bool,
    whitening: Matrix,
    middle: Vector,
    z: Vector,
    value: float,
    distance: float,
    noise: Matrix,
    values: Vector,
    distances: Vector,
    used: int,
    proposed: Vector,
    candidate: Vector,
    scratch: Vector,
    rng: np.random.Generator,
) -> tuple[bool, float, float, int]:
    """Make an odd number of trials on the surrogate alone, of two kinds in turn, from z to proposed.

    A sequence that reads the same backwards is reversible for the surrogate. Trials stay in the ball, and where the
    surrogate is not too far below its Gaussian part; a start outside that region stays where it is. Returns whether
    anything was accepted, value and distance of the proposal, and the columns of noise used.
    """
    d = z.size
    bound, keep, floor, slack = target.bound, proposal.inner_keep, -proposal.inner_floor, target.exact.slack
    spread = np.sqrt(1.0 - keep * keep)
    inside = distance <= bound.radius and value >= floor * distance * distance - slack
    moved = False
    for j in range(d):
        proposed[j] = z[j]
    for trial in range(proposal.inner):
        if used == BLOCK:
            look_ahead(target, proposal, noise, values, distances, rng)
            used = 0
        if trial % 2 == 0:
            for j in range(d):
                candidate[j] = noise[j, used]
            next_value, next_distance = values[used], distances[used]
        else:
            for j in range(d):
                fresh = spread * (noise[j, used] - middle[j])
                candidate[j] = middle[j] + keep * (proposed[j] - middle[j]) + fresh
            next_value = evaluate_parts(
                linear, isotropic, quadratic, padded, has_linear, has_quadratic, has_cubic, candidate, scratch
            )
            if has_exact:
                next_value += evaluate_exact(target.exact, candidate)
            next_distance = distance_from_centre(bound, whitening, candidate)
        used += 1
        allowed = next_distance <= bound.radius and next_value >= floor * next_distance * next_distance - slack
        if inside and allowed and (next_value <= value or rng.standard_exponential() > next_value - value):
            for j in range(d):
                proposed[j] = candidate[j]
            value, distance = next_value, next_distance
            moved = True
    return moved, value, distance, used
