r"""The Zig-Zag process, compiled in chunks: straight lines, and flips of one velocity at random times.

In coordinates u, theta = centre + A u, with velocities v_j = +-1, coordinate j flips at the rate

.. math:: (v_j h_j(u))_+ + \sum_i (v_j \delta_i(u) \tilde x_{ij})_+, \qquad
          h(u) = h(0) + P u, \quad \tilde x_i = A' x_i

where h is the gradient of the negative log posterior at the centre (almost zero at a mode) and what the prior adds on
the way, P its precision, and delta_i the change of row i's slope since the centre: control variates (Bierkens,
Fearnhead and Roberts 2019). The difference of the rates with v_j and -v_j is v_j times the gradient, so the
process leaves the posterior invariant, velocities uniform.

With C_i >= |second derivative of row i's potential| everywhere, |delta_i| <= C_i |x~_i . u| <= C_i |x~_i|_2 |u|,
so row i flips any coordinate at a rate of at most psi_i |u|, psi_i = C_i |x~_i|_2 |x~_i|_1. Along a line |u| is at
most |u| + t |v|: the total rate has a bound that is affine in time, whose events are drawn by inversion and then
thinned: an event draws one row with probability psi_i / Psi and evaluates it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import coefficients, jet
from tallbayes.kernels.state import BETWEEN, MORE_ROWS, NOTHING, NUMBERS, SUSPECTS, WAITING, Draws
from tallbayes.sources.alias import draw_row
from tallbayes.sources.memory import load_row
from tallbayes.sources.supply import SuppliedRows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

EPSILON = 2.220446049250313e-16
SUSPECT_ROW, SUSPECT_RATE, SUSPECT_LIMIT, SUSPECT_LENGTH, SUSPECT_FACTS = range(5)
"""Entries of a suspect, before the move from the centre."""


class Pace(NamedTuple):
    """How often the process is recorded."""

    step: float
    """Time between two draws."""


class ZigZagTarget(NamedTuple):
    """What the compiled process reads."""

    centre: Vector
    whitening: Matrix
    frame: Matrix
    """A: theta = centre + A u."""
    back: Matrix
    """W^-1 A: z = back u."""
    gradient: Vector
    """Of the negative log posterior at the centre, in u."""
    precision: Matrix
    """P, of the prior in u; empty if there is none."""
    total: float
    """Psi, the sum of psi_i."""
    rows: SuppliedRows
    jets: Any
    """Derivatives of rows, by address (`families/rows.py`)."""
    parameters: Vector


class ZigZagState(NamedTuple):
    """What the process needs to go on; compiled code changes it in place."""

    z: Vector
    """The last draw."""
    u: Vector
    velocity: Vector
    move: Vector
    """A u."""
    direction: Vector
    """A v."""
    slope: Vector
    """h(u)."""
    bend: Vector
    """P v."""
    suspects: Matrix
    numbers: NDArray[np.void]
    """`pending`: time until the next draw; `distance`, `clock`: bound and time of the event that waits for a row."""
    room: Matrix
    """Scratch: a row, and the same in u."""

    @property
    def violations(self) -> int:
        """Rates above their bound by more than rounding."""
        return int(self.numbers["violations"][0])

    @property
    def exposure(self) -> float:
        """Expected rows evaluated so far."""
        return float(self.numbers["exposure"][0])


def initial_state(target: ZigZagTarget, z: Vector, rng: np.random.Generator) -> ZigZagState:
    """Return the state of a process that starts at z with random velocities."""
    d = z.size
    velocity = np.where(rng.random(d) < 0.5, -1.0, 1.0)
    u = np.asarray(np.linalg.solve(target.back, z), dtype=np.float64)
    numbers = np.zeros(1, dtype=NUMBERS).view(np.recarray)
    move, direction, slope, bend = np.empty((4, d))
    suspects = np.empty((SUSPECTS, SUSPECT_FACTS + d))
    room = np.empty((2, d))
    state = ZigZagState(z.copy(), u, velocity, move, direction, slope, bend, suspects, numbers, room)
    refresh(target, state)
    return state


@compiled
def refresh(target: ZigZagTarget, state: ZigZagState) -> None:
    """Compute anew what is otherwise carried along the path, so that roundings do not add up."""
    u, velocity, precision = state.u, state.velocity, target.precision
    d = u.size
    for i in range(d):
        move, direction, slope, bend = 0.0, 0.0, target.gradient[i], 0.0
        for j in range(d):
            move += target.frame[i, j] * u[j]
            direction += target.frame[i, j] * velocity[j]
        if precision.size > 0:
            for j in range(d):
                slope += precision[i, j] * u[j]
                bend += precision[i, j] * velocity[j]
        state.move[i], state.direction[i], state.slope[i], state.bend[i] = move, direction, slope, bend


@compiled
def smooth_flip(state: ZigZagState, time: float, threshold: float) -> int:
    """Return the coordinate that an event of the exact part flips, or -1.

    Each coordinate's part of the bound is laid end to end; within its part, the true rate comes first.
    """
    velocity, slope, bend = state.velocity, state.slope, state.bend
    for j in range(velocity.size):
        part = max(0.0, velocity[j] * (slope[j] - time * bend[j])) + time * max(0.0, velocity[j] * bend[j])
        if threshold < part:
            return j if threshold < max(0.0, velocity[j] * slope[j]) else -1
        threshold -= part
    return -1


@compiled
def row_flip(target: ZigZagTarget, state: ZigZagState, i: int, far: float, rng: Any) -> int:
    """Return the coordinate that an event of row i flips, or -1; a rate above its bound is a suspect.

    The row's rates of all coordinates are laid end to end; the one that a uniform threshold falls into flips.
    """
    now, rows, velocity = state.numbers[0], target.rows, state.velocity
    row, turned = state.room[0], state.room[1]
    d = velocity.size
    load_row(rows.design, i, row)
    at_centre, step = rows.offset[min(i, rows.offset.size - 1)], 0.0
    for j in range(d):
        at_centre += row[j] * target.centre[j]
        step += row[j] * state.move[j]
    eta, slopes = np.empty((1, 2)), np.empty((1, 2))
    eta[0, 0], eta[0, 1] = at_centre, at_centre + step
    responses = np.empty((2, 1))
    responses[0, 0] = responses[1, 0] = rows.responses[i, 0]
    target.jets(target.parameters, responses, eta, 1, 1, False, slopes)
    change = rows.weight[min(i, rows.weight.size - 1)] * (slopes[0, 1] - slopes[0, 0])
    length = 0.0
    for j in range(d):
        x = 0.0
        for a in range(d):
            x += target.frame[a, j] * row[a]
        turned[j] = x
        length += abs(x)
    limit = rows.psi[i] * far
    largest = abs(change) * length  # the row's rate for the velocities that suit it best
    if not largest <= limit * (1.0 + 16.0 * (d + 2) * EPSILON) and now.suspects < SUSPECTS:
        suspect = state.suspects[now.suspects]
        suspect[SUSPECT_ROW], suspect[SUSPECT_RATE], suspect[SUSPECT_LIMIT] = i, largest, limit
        suspect[SUSPECT_LENGTH] = length
        for j in range(d):
            suspect[SUSPECT_FACTS + j] = state.move[j]
        now.suspects += 1
    threshold, rate = rng.random() * limit, 0.0
    if threshold < largest:
        for j in range(d):
            rate += max(0.0, velocity[j] * change * turned[j])
            if threshold < rate:
                return j
    return -1


def slope_rounding(family: Any, target: ZigZagTarget, i: int, move: Vector) -> float:
    """Return how far rounding alone can move the change of row i's slope between the centre and centre + move.

    Two slopes are each off by a few units in the last place; their arguments, off by e, move them by at most
    sup |g''| e. An argument s (x . theta + offset) + c is off by at most (d + 4) units of its sum of absolute terms.
    """
    d = move.size
    x = np.empty(d)
    load_row(target.rows.design, i, x)
    weight, offset = (float(v[min(i, v.size - 1)]) for v in (target.rows.weight, target.rows.offset))
    m, s, c, _, piece = coefficients(family.curve, float(target.rows.responses[i, 0]))
    t = s * (float(x @ target.centre) + offset) + c
    change = s * float(x @ move)
    terms = abs(offset) + float(np.abs(x) @ (np.abs(target.centre) + np.abs(move)))
    slopes = 8.0 * (abs(jet(family.curve, t, piece)[0]) + abs(jet(family.curve, t + change, piece)[0]))
    arguments = 2.0 * (d + 4) * (abs(c) + abs(s) * terms)
    return float(weight * m * abs(s) * EPSILON * (slopes + family.supremum(2) * arguments))


def rate_is_broken(family: Any, target: ZigZagTarget, suspect: Vector) -> bool:
    """Return whether a row's rate exceeds its bound by more than rounding."""
    i, rate, limit, length = int(suspect[0]), *(float(x) for x in suspect[1:SUSPECT_FACTS])
    move = suspect[SUSPECT_FACTS:]
    rounding = slope_rounding(family, target, i, move) * length
    return not rate <= limit + rounding + 16.0 * (move.size + 2) * EPSILON * limit


@compiled
def turn(target: ZigZagTarget, state: ZigZagState, flip: int) -> None:
    """Flip one velocity, and what follows from it."""
    sign = state.velocity[flip]
    state.velocity[flip] = -sign
    for a in range(state.direction.size):
        state.direction[a] -= 2.0 * sign * target.frame[a, flip]
    if target.precision.size > 0:
        for a in range(state.bend.size):
            state.bend[a] -= 2.0 * sign * target.precision[a, flip]


@compiled
def record(target: ZigZagTarget, state: ZigZagState, draws: Draws, done: int) -> None:
    """Write a draw: the process at this moment, in whitened coordinates."""
    now, z, u = state.numbers[0], state.z, state.u
    for i in range(z.size):
        z[i] = 0.0
        for j in range(z.size):
            z[i] += target.back[i, j] * u[j]
        draws.z[done, i] = z[i]
    draws.accepted[done] = True
    draws.rows_touched[done] = now.rows
    draws.full_pass[done] = False


@compiled
def run_chunk(
    target: ZigZagTarget, pace: Pace, state: ZigZagState, rng: Any, draws: Draws, budget: int
) -> tuple[int, int]:
    """Follow the process until the draws are full, about `budget` events were drawn, or it needs more rows.

    At a draw the time to the next event is drawn anew, which changes nothing as it has no memory; so draws do not
    depend on where a chunk ends. Returns the number of draws made and what is asked for.
    """
    now, u, velocity, move, direction = state.numbers[0], state.u, state.velocity, state.move, state.direction
    slope, bend, total, table = state.slope, state.bend, target.total, target.rows.table
    d = u.size
    speed = np.sqrt(float(d))
    done = 0
    while done < draws.accepted.size and now.suspects < SUSPECTS and (now.work < budget or now.stage == WAITING):
        if now.stage == BETWEEN:
            if now.pending <= 0.0:
                now.pending = pace.step
                now.rows = 0
                refresh(target, state)
            distance, smooth, smooth_growth = 0.0, 0.0, 0.0
            for j in range(d):
                distance += u[j] * u[j]
                smooth += max(0.0, velocity[j] * slope[j])
                smooth_growth += max(0.0, velocity[j] * bend[j])
            distance = np.sqrt(distance)
            # The bound is start + growth t; that of the exact part is smooth + smooth_growth t.
            start = smooth + total * distance
            growth = smooth_growth + total * speed
            waiting = rng.standard_exponential()
            root = start + np.sqrt(start * start + 2.0 * growth * waiting)
            time = 2.0 * waiting / root if root > 0.0 else np.inf
            event = time < now.pending
            travelled = time if event else now.pending
            for j in range(d):
                u[j] += travelled * velocity[j]
                move[j] += travelled * direction[j]
                slope[j] += travelled * bend[j]
            now.exposure += total * travelled * (distance + 0.5 * speed * travelled)
            now.work += 1
            if not event:
                now.pending = 0.0
                record(target, state, draws, done)
                done += 1
                continue
            now.pending -= time
            threshold = rng.random() * (start + growth * time)
            if threshold < smooth + smooth_growth * time:
                flip = smooth_flip(state, time, threshold)
                if flip >= 0:
                    turn(target, state, flip)
                continue
            now.distance = distance + speed * time
            now.stage = WAITING
        if table.size > 0:
            i = draw_row(table, rng)
        elif now.slot < target.rows.psi.size:
            i = now.slot
            now.slot += 1
        else:
            return done, MORE_ROWS
        now.stage = BETWEEN
        now.rows += 1
        flip = row_flip(target, state, i, now.distance, rng)
        if flip >= 0:
            turn(target, state, flip)
    return done, NOTHING
