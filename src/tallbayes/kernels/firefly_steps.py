r"""Firefly steps, compiled in chunks: a bright set of rows is resampled, then theta moves given that set.

Row i's potential has an upper bound with a parabola in the place of g (`families/parabola.py`). With the excess
e_i = w_i (parabola - potential) >= 0 the likelihood is the lower bound times exp(e_i), and
exp(e_i) = 1 + (exp(e_i) - 1): a dark row gives the factor 1, a bright one exp(e_i) - 1, and summing over both
gives the likelihood back. Lower bounds of all rows together are one parabola in z.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import coefficients
from tallbayes.families.remainder import remainder_rounding
from tallbayes.kernels.look_ahead import draw_noise
from tallbayes.kernels.state import BLOCK, NOTHING, NUMBERS, SUSPECTS, Draws
from tallbayes.kernels.target import inside_support
from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.bounds import shift
from tallbayes.setup.exact_prior import ExactPrior, evaluate_exact, exact_at
from tallbayes.setup.polynomial import LANES, Polynomial, evaluate, evaluate_one
from tallbayes.sources.memory import load_row
from tallbayes.sources.supply import SuppliedRows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int64]

EPSILON = 2.220446049250313e-16
SUSPECT_ROW, SUSPECT_EXCESS, SUSPECT_STEP = range(3)


class FireflyTarget(NamedTuple):
    """What the compiled steps read."""

    centre: Vector
    whitening: Matrix
    collapsed: Polynomial
    """Product of all lower bounds and normal priors, as a potential in z, less the proposal's G."""
    exact: ExactPrior
    """Other priors."""
    rows: SuppliedRows
    tangents: Matrix
    """Predictor at the centre and curvature of its parabola, for each row."""
    excess: Any
    """Parabola less potential of a row, by address."""
    parameters: Vector
    q_db: float
    """Probability that a dark row is evaluated in a sweep."""


class FireflyState(NamedTuple):
    """What the next step needs; compiled code changes it in place."""

    z: Vector
    proposed: Vector
    noise: Matrix
    order: Indices
    """All rows, the bright ones first."""
    excess: Vector
    """e_i at z of the bright rows, in their order."""
    trial: Vector
    """e_i at the proposal."""
    suspects: Matrix
    numbers: NDArray[np.void]
    """`value`: lower bounds of all rows and prior, as a potential at z, less the proposal's G; `slot`: bright rows."""
    room: Matrix
    """Scratch: theta less the centre at z and at the proposal, and a row."""
    padded: Vector

    @property
    def violations(self) -> int:
        """Bounds found broken."""
        return int(self.numbers["violations"][0])

    @property
    def exposure(self) -> float:
        """Rows evaluated in all steps so far."""
        return float(self.numbers["exposure"][0])

    @property
    def bright(self) -> int:
        """How many rows are bright."""
        return int(self.numbers["slot"][0])


def initial_state(target: FireflyTarget, z: Vector, rng: np.random.Generator) -> FireflyState:
    """Return the state of a chain that starts at z, with the bright set drawn given z: all rows are read."""
    n, d = target.tangents.shape[0], z.size
    z = inside_support(target, z)
    numbers = np.zeros(1, dtype=NUMBERS).view(np.recarray)
    numbers["used"] = BLOCK
    numbers["value"] = evaluate(target.collapsed, z[None])[0] + exact_at(target.exact, z[None])[0]
    state = FireflyState(
        z,
        np.empty(d),
        np.empty((d, BLOCK)),
        np.empty(n, dtype=np.int64),
        np.empty(n),
        np.empty(n),
        np.empty((SUSPECTS, 3)),
        numbers,
        np.empty((3, d)),
        np.zeros(d + LANES),
    )
    draw_bright(target, state, rng)
    return state


@compiled
def row_excess(target: FireflyTarget, state: FireflyState, i: int, move: Vector) -> float:
    """Return e_i at centre + move; one that is negative by more than the parabola's own rounding is a suspect."""
    now, rows, row = state.numbers[0], target.rows, state.room[2]
    load_row(rows.design, i, row)
    step = 0.0
    for j in range(row.size):
        step += row[j] * move[j]
    eta, curvature = target.tangents[i, 0], target.tangents[i, 1]
    excess = target.excess(target.parameters, rows.responses[i], eta, curvature, step)
    if excess > 0.0:
        return rows.weight[min(i, rows.weight.size - 1)] * excess
    if not excess >= -16.0 * EPSILON * curvature * step * step and now.suspects < SUSPECTS:
        suspect = state.suspects[now.suspects]
        suspect[SUSPECT_ROW], suspect[SUSPECT_EXCESS], suspect[SUSPECT_STEP] = i, excess, step
        now.suspects += 1
    return 0.0


def excess_is_broken(rows: Any, target: FireflyTarget, suspect: Vector) -> bool:
    """Return whether an excess is negative by more than rounding: a bound that is broken."""
    i, step = int(suspect[SUSPECT_ROW]), float(suspect[SUSPECT_STEP])
    eta, curvature = target.tangents[i]
    m, s, c, _, piece = coefficients(rows.curve, float(target.rows.responses[i, 0]))
    rounding = m * remainder_rounding(rows.curve, float(s * eta + c), float(s * step), piece)
    rounding += 16.0 * EPSILON * curvature * step**2
    return not suspect[SUSPECT_EXCESS] >= -rounding


@compiled
def log_brightness(excess: float) -> float:
    """Return log(exp(e) - 1)."""
    return excess if excess > 40.0 else np.log(np.expm1(excess))


@compiled
def draw_bright(target: FireflyTarget, state: FireflyState, rng: Any) -> None:
    """Draw every row's brightness given z."""
    order, excess = state.order, state.excess
    n, bright = order.size, 0
    dark = n
    move = state.room[0]
    shift(target.whitening, state.z, move)
    for i in range(n):
        e = row_excess(target, state, i, move)
        if rng.random() < -np.expm1(-e):
            order[bright] = i
            excess[bright] = e
            bright += 1
        else:
            dark -= 1
            order[dark] = i
    state.numbers[0].slot = bright


@compiled
def sweep(target: FireflyTarget, state: FireflyState, rng: Any) -> None:
    """Resample the bright set given theta, implicitly: Metropolis-Hastings for every row by itself.

    A dark row is proposed to be bright with probability q_db, a bright one always to be dark, so that the ratio
    of the proposals is q_db. Each row gets the move of the state it had before the sweep: rows that have just
    turned dark are not candidates.
    """
    now, order, excess, q_db = state.numbers[0], state.order, state.excess, target.q_db
    n, bright = order.size, now.slot
    pace = -np.log1p(-q_db)
    risen, at = np.empty(64, dtype=np.int64), 0
    new = np.empty(64)
    place = bright
    while True:
        skipped = np.floor(rng.standard_exponential() / pace)  # geometric: candidates are few, the others unseen
        if not skipped < n - place:
            break
        place += int(skipped)
        e = row_excess(target, state, order[place], state.room[0])
        now.rows += 1
        if rng.random() * q_db < np.expm1(e):
            if at == risen.size:
                risen = np.concatenate((risen, np.empty(at, dtype=np.int64)))
                new = np.concatenate((new, np.empty(at)))
            risen[at] = place
            new[at] = e
            at += 1
        place += 1
        if place >= n:
            break
    for k in range(bright - 1, -1, -1):
        if rng.random() * np.expm1(excess[k]) < q_db:
            bright -= 1
            order[k], order[bright] = order[bright], order[k]
            excess[k] = excess[bright]
    for k in range(at):
        # Places ascend and are never before the first dark one, so no row that is still to rise is moved.
        place = risen[k]
        order[place], order[bright] = order[bright], order[place]
        excess[bright] = new[k]
        bright += 1
    now.slot = bright


@compiled
def propose_in_turn(move: AffineProposal, state: FireflyState, rng: Any) -> float:
    """Put a proposal from z into the state, or a walk if it is its turn; return the walk's correction.

    A walk is symmetric: the correction puts back the G = |z - middle|^2 / 2 that potentials have taken off.
    """
    now, z, proposed, noise = state.numbers[0], state.z, state.proposed, state.noise
    keep, drift = move.keep, move.drift
    if now.used == BLOCK:
        draw_noise(move.root, noise, rng)
        now.used = 0
    walks = move.walk_every > 0 and now.turn == 0
    correction = 0.0
    for j in range(z.size):
        xi = noise[j, now.used]
        if walks:
            middle = drift[j] / (1.0 - keep) if keep != 1.0 else drift[j]
            proposed[j] = z[j] + move.walk_scale * xi
            correction += 0.5 * (z[j] - middle) ** 2 - 0.5 * (proposed[j] - middle) ** 2
        else:
            proposed[j] = keep * z[j] + drift[j] + move.scale * xi
    now.used += 1
    now.turn = (now.turn + 1) % max(move.walk_every, 1)
    return correction


@compiled
def run_chunk(
    target: FireflyTarget, move: AffineProposal, state: FireflyState, rng: Any, draws: Draws, budget: int
) -> tuple[int, int]:
    """Make steps until the draws are full or about `budget` rows were evaluated.

    A step is a sweep over the bright set and a Metropolis-Hastings step of theta given that set. Returns the number
    of steps made, and that nothing is asked for.
    """
    now, z, proposed, excess, trial = state.numbers[0], state.z, state.proposed, state.excess, state.trial
    linear, isotropic, quadratic, _, padded = target.collapsed
    facts, exact_rows, constant, _ = target.exact
    d = z.size
    here, there = state.room[0], state.room[1]
    shift(target.whitening, z, here)
    done = 0
    while done < draws.accepted.size and now.work < budget and now.suspects < SUSPECTS:
        now.rows = 0
        sweep(target, state, rng)
        bright = now.slot
        log_ratio = propose_in_turn(move, state, rng)
        value = evaluate_one(linear, isotropic, quadratic, padded, proposed, state.padded)
        if facts.size > 0:
            value += evaluate_exact(facts, exact_rows, constant, proposed)
        log_ratio += now.value - value
        shift(target.whitening, proposed, there)
        for k in range(bright):
            trial[k] = row_excess(target, state, state.order[k], there)
            log_ratio += log_brightness(trial[k]) - log_brightness(excess[k])
        now.rows += bright
        accept = rng.standard_exponential() > -log_ratio
        if accept:
            now.value = value
            for j in range(d):
                z[j] = proposed[j]
                here[j] = there[j]
            for k in range(bright):
                excess[k] = trial[k]
        for j in range(d):
            draws.z[done, j] = z[j]
        draws.accepted[done] = accept
        draws.rows_touched[done] = now.rows
        draws.full_pass[done] = False
        now.exposure += now.rows
        now.work += now.rows + 1
        done += 1
    return done, NOTHING
