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
from tallbayes.surrogate.bounds import distance_from_centre, shift, state_factor
from tallbayes.surrogate.polynomial import evaluate

Vector = NDArray[np.float64]


def initial_state(target: Target, z: Vector, rng: np.random.Generator) -> State:
    """Return the state of a chain that starts at z; draws the first clock."""
    value = evaluate(target.surrogate, z)
    distance = distance_from_centre(target.bound, target.whitening, z)
    noise = np.empty((BLOCK, z.size))
    clock = rng.standard_exponential()
    return State(
        z.copy(), value, distance, clock, noise, BLOCK, np.empty(z.size), 0.0, 0.0, IDLE, 0, 0
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
    d = state.z.size
    bound = target.bound
    z, proposed, noise = state.z, state.proposed, state.noise
    value, distance, clock, used = state.value, state.distance, state.clock, state.used
    proposed_value, proposed_distance = state.proposed_value, state.proposed_distance
    pending, looked, violations = state.pending, state.looked, state.violations
    n = target.rows.X.shape[0]
    move, other = np.empty(d), np.empty(d)
    done = 0
    work = 0
    while done < draws.accepted.size and work < budget:
        accept = True
        full = False
        if pending == IDLE:
            work += 1
            if used == BLOCK:
                refill(noise, rng)
                used = 0
            propose(proposal, z, noise[used], proposed)
            used += 1
            looked = 0
            proposed_value = evaluate(target.surrogate, proposed)
            proposed_distance = distance_from_centre(bound, target.whitening, proposed)
            rate = bound.total * state_factor(
                bound, target.whitening, z, distance, proposed, proposed_distance
            )
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
            shift(target.whitening, z, move)
            shift(target.whitening, proposed, other)
            factor = state_factor(
                bound, target.whitening, z, distance, proposed, proposed_distance
            )
            while accept and clock < pending and work < budget:
                pending -= clock
                clock = rng.standard_exponential()
                i = draw_row(target.sampler, rng)
                looked += 1
                work += 1
                limit = factor * target.sampler.psi[i]
                intensity = row_intensity(target, i, move, other)
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
            draws.z[done, j] = z[j]
        draws.accepted[done] = accept
        draws.rows_touched[done] = looked
        draws.full_pass[done] = full
        done += 1
    after = State(
        z,
        value,
        distance,
        clock,
        noise,
        used,
        proposed,
        proposed_value,
        proposed_distance,
        pending,
        looked,
        violations,
    )
    return after, done
