"""Steps that look at a few rows: the paper's Algorithm 1, compiled in chunks.

A step from z to z' is accepted with probability a0 * exp(-sum_i lambda_i). a0 is one Bernoulli trial on the
surrogate; the product over rows is thinned from a Poisson process of rate bar lambda >= sum_i lambda_i: an
event draws row i with probability psi_i / Psi and rejects with probability lambda_i / bar lambda_i.

The events come from one exponential clock per chain. A step consumes bar lambda of it; while the clock has
less left than the step has still to consume, an event falls into the step and the clock is drawn anew. By
memorylessness that is the same Poisson process, also after an early rejection, and a step without an event
costs no random number.
"""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.state import BLOCK, IDLE, Draws, State, refill
from tallbayes.kernels.target import Target, full_log_ratio, rounding_floor, row_intensity
from tallbayes.proposals.affine import AffineProposal, propose
from tallbayes.surrogate.alias import draw_row
from tallbayes.surrogate.bounds import distance_from_centre, distances_of_columns, shift, state_factor
from tallbayes.surrogate.polynomial import evaluate, evaluate_columns, evaluate_parts

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def initial_state(target: Target, z: Vector, rng: np.random.Generator) -> State:
    """Return the state of a chain that starts at z; draws the first clock."""
    return State(
        z=z.copy(),
        value=evaluate(target.surrogate, z),
        distance=distance_from_centre(target.bound, target.whitening, z),
        clock=rng.standard_exponential(),
        noise=np.empty((z.size, BLOCK)),
        values=np.empty(BLOCK),
        distances=np.empty(BLOCK),
        used=BLOCK,
        proposed=np.empty(z.size),
        proposed_value=0.0,
        proposed_distance=0.0,
        pending=IDLE,
        looked=0,
        violations=0,
    )


@compiled
def run_chunk(
    target: Target,
    proposal: AffineProposal,
    state: State,
    rng: np.random.Generator,
    draws: Draws,
    budget: int,
) -> tuple[State, int]:
    """Make steps until the draws are full or about `budget` rows were looked at, even within a step.

    Returns the new state and the number of steps finished. Where a chunk ends changes nothing: the step under
    way goes on in the next chunk.
    """
    # Arrays are taken out of their tuples once: in the loop each would cost a reference count, which chains in
    # other threads share.
    X, y, weight, offset = target.rows
    curve, centre, whitening, bound = target.curve, target.centre, target.whitening, target.bound
    linear, isotropic, quadratic, cubic, has_linear, has_quadratic, has_cubic, no_surrogate = target.surrogate
    psi, row_keep, row_alias = target.sampler
    keep, drift, scale, root, has_root = proposal
    out_z, out_accepted, out_rows, out_full = draws
    z, proposed, noise, values, distances = (
        state.z,
        state.proposed,
        state.noise,
        state.values,
        state.distances,
    )
    value, distance, clock, used = state.value, state.distance, state.clock, state.used
    proposed_value, proposed_distance = state.proposed_value, state.proposed_distance
    pending, looked, violations = state.pending, state.looked, state.violations
    n, d = X.shape
    independent = keep == 0.0 and not has_root
    move, other, scratch = np.empty(d), np.empty(d), np.empty(d)
    done = 0
    work = 0
    while done < out_accepted.size and work < budget:
        accept = True
        full = False
        if pending == IDLE:
            work += 1
            looked = 0
            if used == BLOCK:
                refill(noise, rng)
                used = 0
                if independent:
                    look_ahead(target, drift, scale, noise, values, distances)
            if independent:
                for j in range(d):
                    proposed[j] = noise[j, used]
                proposed_value, proposed_distance = values[used], distances[used]
            else:
                propose(keep, drift, scale, root, has_root, z, noise, used, proposed)
                proposed_distance = distance_from_centre(bound, whitening, proposed)
                if not no_surrogate:
                    proposed_value = evaluate_parts(
                        linear,
                        isotropic,
                        quadratic,
                        cubic,
                        has_linear,
                        has_quadratic,
                        has_cubic,
                        proposed,
                        scratch,
                    )
            used += 1
            rate = bound.total * state_factor(bound, whitening, z, distance, proposed, proposed_distance)
            if not rate < bound.truncation or not np.isfinite(rate):
                # Truncation, (P) eq:tfmh-acc-prob; a rate that is not a number ends here as well.
                full = True
                looked = n
                work += n
                accept = rng.standard_exponential() > -full_log_ratio(target, z, proposed)
            else:
                log_ratio = value - proposed_value
                if not log_ratio >= 0.0:
                    accept = rng.standard_exponential() > -log_ratio
                if accept:
                    pending = rate
        if pending != IDLE and clock < pending:
            shift(whitening, z, move)
            shift(whitening, proposed, other)
            factor = state_factor(bound, whitening, z, distance, proposed, proposed_distance)
            while accept and clock < pending and work < budget:
                pending -= clock
                clock = rng.standard_exponential()
                i = draw_row(row_keep, row_alias, rng)
                looked += 1
                work += 1
                limit = factor * psi[i]
                intensity = row_intensity(curve, bound.order, X, y, weight, offset, centre, i, move, other)
                if intensity > limit:
                    far = max(distance, proposed_distance)
                    if intensity > limit + rounding_floor(target, i, far, move, other, limit):
                        violations += 1
                accept = not rng.random() * limit < intensity
            if accept and clock < pending:
                break  # out of budget within the step
        if pending != IDLE and accept:
            clock -= pending
        pending = IDLE
        if accept:
            for j in range(d):
                z[j] = proposed[j]
            value, distance = proposed_value, proposed_distance
        for j in range(d):
            out_z[done, j] = z[j]
        out_accepted[done] = accept
        out_rows[done] = looked
        out_full[done] = full
        done += 1
    after = State(
        z,
        value,
        distance,
        clock,
        noise,
        values,
        distances,
        used,
        proposed,
        proposed_value,
        proposed_distance,
        pending,
        looked,
        violations,
    )
    return after, done


@compiled
def look_ahead(
    target: Target, drift: Vector, scale: float, noise: Matrix, values: Vector, distances: Vector
) -> None:
    """Turn a block of noise into proposals that do not depend on the state, with value and distance of each."""
    for j in range(noise.shape[0]):
        for b in range(noise.shape[1]):
            noise[j, b] = drift[j] + scale * noise[j, b]
    evaluate_columns(target.surrogate, noise, values)
    distances_of_columns(target.bound, target.whitening, noise, distances)
