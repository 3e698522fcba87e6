"""Steps that look at a few rows: the paper's Algorithm 1, compiled in chunks.

A step from z to z' is accepted with probability a0 * exp(-sum_i lambda_i). a0 is one Bernoulli trial on the
surrogate; the product over rows is thinned from a Poisson process of rate bar lambda >= sum_i lambda_i: an
event draws row i with probability psi_i / Psi and rejects with probability lambda_i / bar lambda_i. Events come in
kinds (`RISE`, `FALL`, `STEP`): a part of the rate each, with its part of lambda_i.

The events come from one exponential clock per chain. A step consumes bar lambda of it; while the clock has
less left than the step has still to consume, an event falls into the step and the clock is drawn anew. By
memorylessness that is the same Poisson process, also after an early rejection, and a step without an event
costs no random number.
"""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.ahead import look_ahead, surrogate_trials
from tallbayes.kernels.state import BLOCK, IDLE, Draws, State
from tallbayes.kernels.target import Target, full_log_ratio, inside_support, surrogate_at
from tallbayes.kernels.trials import BATCH, thin, thin_by_sketch
from tallbayes.proposals.affine import AffineProposal, propose
from tallbayes.surrogate.bounds import distance_from_centre, event_factors, shift, state_factor
from tallbayes.surrogate.exact_prior import evaluate_exact
from tallbayes.surrogate.polynomial import LANES, evaluate_parts

Vector = NDArray[np.float64]


def initial_state(target: Target, z: Vector, rng: np.random.Generator) -> State:
    """Return the state of a chain that starts at z; draws the first clock."""
    z = inside_support(target, z)
    return State(
        z=z,
        value=surrogate_at(target, z),
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
    linear, isotropic, quadratic, _, padded, has_linear, has_quadratic, has_cubic, no_surrogate = target.surrogate
    has_exact = target.exact.kind.size > 0
    psi, row_keep, row_alias, shares = target.sampler
    codes, facts = target.sketch
    keep, drift, scale, _, _, walk_every, walk_scale, inner, _, _ = proposal
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
    pending, looked, violations, turn = state.pending, state.looked, state.violations, state.turn
    exposure = state.exposure
    n, d = X.shape[0], z.size
    independent = keep == 0.0
    middle = drift / (1.0 - keep) if keep != 1.0 else drift  # where G = |z - middle|^2 / 2 is least
    move, other, scratch, candidate = np.empty(d), np.empty(d), np.zeros(d + LANES), np.empty(d)
    single = np.zeros(codes.shape[1], dtype=np.float32)
    other_single = np.zeros(codes.shape[1], dtype=np.float32)
    change_single = np.zeros(codes.shape[1], dtype=np.float32)
    batch, kinds = np.empty(BATCH, dtype=np.int64), np.empty(BATCH, dtype=np.int64)
    uniforms, chances = np.empty(BATCH), np.empty(BATCH)
    done = 0
    work = 0
    while done < out_accepted.size and work < budget:
        accept = True
        full = False
        if pending == IDLE:
            work += 1
            looked = 0
            walks = walk_every > 0 and turn == 0
            trials = 1 if walks else inner
            log_ratio = 0.0
            correction = 0.0
            if trials > 1:
                # Reversible for the surrogate, so its factor of the acceptance is dropped.
                accept, proposed_value, proposed_distance, used = surrogate_trials(
                    target,
                    proposal,
                    linear,
                    isotropic,
                    quadratic,
                    padded,
                    has_linear,
                    has_quadratic,
                    has_cubic,
                    has_exact,
                    whitening,
                    middle,
                    z,
                    value,
                    distance,
                    noise,
                    values,
                    distances,
                    used,
                    proposed,
                    candidate,
                    scratch,
                    rng,
                )
                correction = proposed_value - value
            else:
                if used == BLOCK:
                    look_ahead(target, proposal, noise, values, distances, rng)
                    used = 0
                if independent and not walks:
                    for j in range(d):
                        proposed[j] = noise[j, used]
                    proposed_value, proposed_distance = values[used], distances[used]
                else:
                    if walks:
                        for j in range(d):
                            xi = noise[j, used] - middle[j] if independent else noise[j, used]
                            proposed[j] = z[j] + walk_scale * xi
                    else:
                        propose(keep, drift, scale, z, noise, used, proposed)
                    proposed_distance = distance_from_centre(bound, whitening, proposed)
                    if has_exact or not no_surrogate:
                        proposed_value = evaluate_parts(
                            linear,
                            isotropic,
                            quadratic,
                            padded,
                            has_linear,
                            has_quadratic,
                            has_cubic,
                            proposed,
                            scratch,
                        )
                    if has_exact:
                        proposed_value += evaluate_exact(target.exact, proposed)
                if walks:
                    # A walk is symmetric: put back the G that both polynomials had taken off.
                    for j in range(d):
                        correction += 0.5 * (z[j] - middle[j]) ** 2 - 0.5 * (proposed[j] - middle[j]) ** 2
                used += 1
                log_ratio = value - proposed_value + correction
            if walk_every > 0:
                turn += 1
                if turn == walk_every:
                    turn = 0
            if accept:
                rate = bound.total * state_factor(bound, whitening, z, distance, proposed, proposed_distance)
                if not rate < bound.truncation or not np.isfinite(rate):
                    # Truncation, (P) eq:tfmh-acc-prob; a rate that is not a number ends here as well.
                    full = True
                    looked = n
                    work += n
                    exposure += n
                    whole = full_log_ratio(target, z, proposed) + correction
                    accept = rng.standard_exponential() > -whole
                else:
                    if not log_ratio >= 0.0:
                        accept = rng.standard_exponential() > -log_ratio
                    if accept:
                        pending = rate
                        if facts.size == 0:
                            before, after, between = event_factors(
                                bound, whitening, z, distance, proposed, proposed_distance
                            )
                            exposure += bound.rising * after + bound.falling * before + bound.total * between
        if pending != IDLE and clock < pending:
            before, after, between = event_factors(bound, whitening, z, distance, proposed, proposed_distance)
            far = max(distance, proposed_distance)
            if facts.size == 0:
                shift(whitening, z, move)
                shift(whitening, proposed, other)
                accept, clock, pending, rows, broken, events = thin(
                    target,
                    curve,
                    bound.order,
                    X,
                    y,
                    weight,
                    offset,
                    centre,
                    psi,
                    row_keep,
                    row_alias,
                    shares,
                    bound.total,
                    before,
                    after,
                    between,
                    far,
                    move,
                    other,
                    clock,
                    pending,
                    budget - work,
                    rng,
                )
                work += events
            else:
                accept, clock, pending, rows, broken, events, expected = thin_by_sketch(
                    target,
                    curve,
                    bound.order,
                    X,
                    y,
                    weight,
                    offset,
                    centre,
                    psi,
                    row_keep,
                    row_alias,
                    codes,
                    facts,
                    whitening,
                    bound.total,
                    before,
                    after,
                    between,
                    far,
                    z,
                    proposed,
                    move,
                    other,
                    single,
                    other_single,
                    change_single,
                    batch,
                    kinds,
                    uniforms,
                    chances,
                    clock,
                    pending,
                    budget - work,
                    rng,
                )
                work += events
                exposure += expected
            looked += rows
            violations += broken
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
    end = State(
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
        turn,
        exposure,
    )
    return end, done
