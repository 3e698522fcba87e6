"""Steps that look at a few rows: the paper's Algorithm 1, compiled in chunks.

A step from z to z' is accepted with probability a0 * exp(-sum_i lambda_i). a0 is one Bernoulli trial on the
surrogate; the product over rows is thinned from a Poisson process of rate bar lambda >= sum_i lambda_i, whose events
come from one exponential clock per chain. A step consumes bar lambda of it; while the clock has less left than the
step has still to consume, an event falls into the step and the clock is drawn anew. By memorylessness that is the
same Poisson process, also after an early rejection, and a step without an event costs no random number.

The chain knows neither the family nor where rows are. Where it needs all of them, or more of those drawn at random,
the chunk ends with a request, within the step; what was asked for is put into the state, and the step goes on.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_borrowing, compiled_within
from tallbayes.kernels.addressed import AddressedSurrogate, AddressedTarget
from tallbayes.kernels.state import (
    ALL_ROWS,
    BETWEEN,
    BLOCK,
    MORE_ROWS,
    NOTHING,
    THINNING,
    WAITING,
    Draws,
    State,
    new_state,
)
from tallbayes.kernels.target import Target, inside_support, surrogate_at
from tallbayes.kernels.thinning import ACCEPTED, OUT_OF_ROWS, UNFINISHED
from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.bounds import distance_from_centre, event_factors

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def initial_state(target: Target, z: Vector, rng: np.random.Generator) -> State:
    """Return the state of a chain that starts at z; draws the first clock."""
    state = new_state(inside_support(target, z), target.likelihood.layout.shape[0])
    state.numbers["value"] = surrogate_at(target, state.z)
    bound = target.bound
    state.numbers["distance"] = distance_from_centre(bound.local, bound.free, target.whitening, state.z)
    state.numbers["clock"] = rng.standard_exponential()
    return state


@compiled_within
def propose(
    move: AffineProposal,
    surrogate: AddressedSurrogate,
    z: Vector,
    noise: Matrix,
    used: int,
    walks: bool,
    proposed: Vector,
    rng: Any,
) -> float:
    """Put a proposal from z, made with one column of noise, into proposed; return a walk's correction.

    A walk is symmetric: the correction puts back the G that the surrogate's terms had taken off, |z - middle|^2 / 2 or
    a table's.
    """
    keep, drift, scale, _, _, walk_scale, _, _, _ = move
    correction = 0.0
    for j in range(z.size):
        xi = noise[j, used]
        if walks:
            middle = drift[j] / (1.0 - keep) if keep != 1.0 else drift[j]
            proposed[j] = z[j] + walk_scale * (xi - middle if keep == 0.0 else xi)
            correction += 0.5 * (z[j] - middle) ** 2 - 0.5 * (proposed[j] - middle) ** 2
        else:
            proposed[j] = keep * z[j] + drift[j] + scale * xi
    if walks:
        correction += surrogate.walk_along_tables(surrogate.terms, drift, walk_scale, z, proposed, rng)
    return correction


@compiled_borrowing
def run_chunk(
    target: AddressedTarget,
    move: AffineProposal,
    state: State,
    rng: Any,
    draws: Draws,
    budget: int,
    surrogate_trials: Any,
    thin: Any,
) -> tuple[int, int]:
    """Make steps until the draws are full, about `budget` rows were tried, or the chain needs an answer.

    Returns the number of steps finished and what the chain asks for. Where a chunk ends changes nothing: the step
    under way goes on in the next one.
    """
    whitening, bound, _, _, surrogate, bundles = target
    terms, core_rows, value, look_ahead, _ = surrogate
    z, proposed, numbers, ahead, _, scratch = state
    noise, values, distances = ahead
    out_z, out_accepted, out_rows, out_full = draws
    keep, _, _, _, walk_every, _, trials, _, _ = move
    now, d, sketched = numbers[0], z.size, bundles.rows.size > 0
    evaluated = core_rows * trials
    done = 0
    while done < out_accepted.size and (now.work < budget or now.stage == WAITING):
        accept = True
        full = now.stage == WAITING
        if now.stage == BETWEEN:
            now.work += 1 + evaluated
            now.exposure += evaluated
            now.rows = evaluated
            walks = walk_every > 0 and now.turn == 0
            if walk_every > 0:
                now.turn = (now.turn + 1) % walk_every
            if trials > 1 and not walks:
                # Reversible for the surrogate, so its factor of the acceptance is dropped.
                accept = surrogate_trials(target, move, state, rng)
                now.correction = now.proposed_value - now.value
                log_ratio = 0.0
            else:
                if now.used == BLOCK:
                    look_ahead(terms, whitening, bound, move, ahead, rng)
                    now.used = 0
                if keep == 0.0 and not walks:  # made ahead; handing on tuples of arrays would count references
                    for j in range(d):
                        proposed[j] = noise[j, now.used]
                    now.correction = 0.0
                    now.proposed_value = values[now.used]
                    now.proposed_distance = distances[now.used]
                else:
                    now.correction = propose(move, surrogate, z, noise, now.used, walks, proposed, rng)
                    now.proposed_value = value(terms, proposed, scratch)
                    now.proposed_distance = distance_from_centre(bound.local, bound.free, whitening, proposed)
                now.used += 1
                log_ratio = now.value - now.proposed_value + now.correction
            if accept:
                before, after, between = event_factors(
                    bound, whitening, z, now.distance, proposed, now.proposed_distance
                )
                rate = bound.total * (before + after + between)
                if not rate < bound.truncation or not np.isfinite(rate):
                    # Truncation, (P) eq:tfmh-acc-prob; a rate that is not a number ends here as well.
                    now.stage = WAITING
                    return done, ALL_ROWS
                accept = log_ratio >= 0.0 or rng.standard_exponential() > -log_ratio
                if accept:
                    now.stage = THINNING
                    now.pending = rate
                    if not sketched:
                        now.exposure += bound.rising * after + bound.falling * before + bound.total * between
        elif full:
            accept = rng.standard_exponential() > -(now.answer + now.correction)
        if now.stage == THINNING:
            if now.clock < now.pending:
                end = thin(target, state, budget, rng)
                if end == UNFINISHED:
                    return done, NOTHING
                if end == OUT_OF_ROWS:
                    return done, MORE_ROWS
                accept = end == ACCEPTED
            if accept:
                now.clock -= now.pending
        now.stage = BETWEEN
        if accept:
            for j in range(d):
                z[j] = proposed[j]
            now.value, now.distance = now.proposed_value, now.proposed_distance
            now.potential = now.proposed_potential if full else np.nan
        for j in range(d):
            out_z[done, j] = z[j]
        out_accepted[done] = accept
        out_rows[done] = now.rows
        out_full[done] = full
        done += 1
    return done, NOTHING
