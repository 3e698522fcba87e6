"""Plain Metropolis-Hastings steps, each a pass over all rows, compiled in chunks."""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.state import BLOCK, IDLE, Draws, State
from tallbayes.kernels.target import Target, inside_support, prior_at, theta_at
from tallbayes.proposals.affine import AffineProposal, propose_in_turn, refill
from tallbayes.sources.sums import sum_potential

Vector = NDArray[np.float64]


@compiled
def potential_at(target: Target, z: Vector, theta: Vector) -> float:
    """Return likelihood and prior potential at z, less the proposal's G; theta is scratch space."""
    theta_at(target, z, theta)
    n = target.rows.X.shape[0]
    return sum_potential(target.rows, target.curve, theta, 0, n) + prior_at(target, z)


def initial_state(target: Target, z: Vector, rng: np.random.Generator) -> State:
    """Return the state of a chain that starts at z."""
    d = z.size
    z = inside_support(target, z)
    value = potential_at(target, z, np.empty(d))
    return State(
        z,
        value,
        0.0,
        0.0,
        np.empty((d, BLOCK)),
        np.empty(0),
        np.empty(0),
        BLOCK,
        np.empty(d),
        0.0,
        0.0,
        IDLE,
        0,
        0,
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
    """Make steps until the draws are full or about `budget` rows were looked at.

    Returns the new state and the number of steps made.
    """
    d = state.z.size
    n = target.rows.X.shape[0]
    z, proposed, noise, used, value = state.z, state.proposed, state.noise, state.used, state.value
    keep, drift, turn = proposal.keep, proposal.drift, state.turn
    middle = drift / (1.0 - keep) if keep != 1.0 else drift  # where G = |z - middle|^2 / 2 is least
    theta = np.empty(d)
    done = 0
    work = 0
    while done < draws.accepted.size and work < budget:
        if used == BLOCK:
            refill(proposal, noise, rng)
            used = 0
        correction, turn = propose_in_turn(proposal, middle, turn, z, noise, used, proposed)
        used += 1
        work += n
        proposed_value = potential_at(target, proposed, theta)
        accept = rng.standard_exponential() > proposed_value - value - correction
        if accept:
            value = proposed_value
            for j in range(d):
                z[j] = proposed[j]
        for j in range(d):
            draws.z[done, j] = z[j]
        draws.accepted[done] = accept
        draws.rows_touched[done] = n
        draws.full_pass[done] = True
        done += 1
    after = State(
        z,
        value,
        0.0,
        0.0,
        noise,
        state.values,
        state.distances,
        used,
        proposed,
        0.0,
        0.0,
        IDLE,
        0,
        0,
        turn,
        state.exposure + done * float(n),
    )
    return after, done
