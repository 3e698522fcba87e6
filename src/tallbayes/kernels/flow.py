r"""The Zig-Zag process, compiled in chunks: straight lines, and flips of one velocity at random times.

In coordinates u, theta = centre + A u, with velocities v_j = +-1, coordinate j flips at the rate

.. math:: (v_j h_j(u))_+ + \sum_i (v_j \delta_i(u) \tilde x_{ij})_+, \qquad
          h(u) = h(0) + P u, \quad \tilde x_i = A' x_i

where h is the gradient of the whole potential at the centre (almost zero at a mode) and what the prior adds on the
way, P its precision, and delta_i the change of row i's slope since the centre: control variates (Bierkens,
Fearnhead and Roberts 2019). The difference of the rates with v_j and -v_j is v_j times the gradient, so the
process leaves the posterior invariant, velocities uniform.

With C_i >= |second derivative of row i's potential| everywhere, |delta_i| <= C_i |x~_i . u| <= C_i |x~_i|_2 |u|,
so row i flips any coordinate at a rate of at most psi_i |u|, psi_i = C_i |x~_i|_2 |x~_i|_1. Along a line |u| is at
most |u| + t |v|: the total rate has a bound that is affine in time, whose events are drawn by inversion and then
thinned: an event draws one row with probability psi_i / Psi and looks at it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import coefficients, jet
from tallbayes.kernels.base import no_rows
from tallbayes.kernels.state import Draws
from tallbayes.sources.rows import Rows, dot_row, entry
from tallbayes.sources.sums import TILE, load_tile, tile_predictor
from tallbayes.sources.whitened import whiten_tile
from tallbayes.surrogate.alias import RowSampler, draw_row
from tallbayes.surrogate.bounds import Bound
from tallbayes.surrogate.sketch import Sketch, no_sketch

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

EPSILON = 2.220446049250313e-16


class Pace(NamedTuple):
    """How often the process is looked at."""

    step: float
    """Time between two draws."""


class State(NamedTuple):
    """What the process needs to go on."""

    z: Vector
    """The last draw."""
    u: Vector
    velocity: Vector
    left: float
    """Time until the next draw."""
    move: Vector
    """A u."""
    direction: Vector
    """A v."""
    slope: Vector
    """h(u)."""
    bend: Vector
    """P v."""
    looked: int
    """Rows looked at since the last draw."""
    violations: int
    exposure: float = 0.0
    """Expected rows looked at so far."""


class Target(NamedTuple):
    """What the compiled process reads."""

    rows: Rows
    curve: Any
    centre: Vector
    whitening: Matrix
    frame: Matrix
    """A, upper triangular."""
    back: Matrix
    """W^-1 A, upper triangular: z = back u."""
    gradient: Vector
    """Of the whole potential at the centre, in u."""
    precision: Matrix
    """P, of the prior in u."""
    has_prior: bool
    steepest: float
    """Supremum of |g''|."""
    tangents: Matrix
    """Predictor t at the centre, and |x~_i|_1, for each row."""
    total: float
    """Psi, the sum of psi_i."""
    bound: Bound
    sampler: RowSampler
    sketch: Sketch


def make_target(
    rows: Rows,
    curve: Any,
    centre: Vector,
    whitening: Matrix,
    frame: Matrix,
    back: Matrix,
    gradient: Vector,
    precision: Matrix,
    steepest: float,
    tangents: Matrix,
    sampler: RowSampler,
) -> Target:
    """Return a target; the bound of thinning kernels is not used."""
    bound, _ = no_rows()
    total, has_prior = float(np.sum(sampler.psi)), bool(np.any(precision))
    return Target(
        rows,
        curve,
        centre,
        whitening,
        frame,
        back,
        gradient,
        precision,
        has_prior,
        steepest,
        tangents,
        total,
        bound,
        sampler,
        no_sketch(),
    )


@compiled
def fill_slope_bounds(
    rows: Rows,
    curve: Any,
    steepest: float,
    centre: Vector,
    frame: Matrix,
    first: int,
    last: int,
    tangents: Matrix,
    psi: Vector,
) -> float:
    """Put t, |x~|_1 and psi of rows first .. last - 1 into the tables; return the sum of |U_i''| |x~|_2 |x~|_1."""
    X, y, weight, offset = rows
    d = centre.size
    tile, white = np.empty((d, TILE)), np.empty((d, TILE))
    eta, square, absolute = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    transposed = np.ascontiguousarray(frame.T)
    actual = 0.0
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        load_tile(X, start, count, tile)
        tile_predictor(tile, count, centre, eta)
        whiten_tile(tile, count, transposed, white)
        square[:count] = 0.0
        absolute[:count] = 0.0
        for a in range(d):
            for r in range(count):
                square[r] += white[a, r] * white[a, r]
                absolute[r] += abs(white[a, r])
        for r in range(count):
            i = start + r
            m, s, c, _, piece = coefficients(curve, y[i])
            t = s * (eta[r] + entry(offset, i)) + c
            size = entry(weight, i) * m * s * s * np.sqrt(square[r]) * absolute[r]
            tangents[i, 0] = t
            tangents[i, 1] = absolute[r]
            psi[i] = steepest * size
            actual += abs(jet(curve, t, piece)[1]) * size
    return actual


@compiled
def slope_change(
    curve: Any, X: NDArray[Any], y: Vector, weight: Vector, tangents: Matrix, i: int, move: Vector
) -> float:
    """Return delta_i: the derivative of row i's potential in its predictor, at centre + move less at centre."""
    m, s, _, _, piece = coefficients(curve, y[i])
    t = tangents[i, 0]
    change = jet(curve, t + s * dot_row(X, i, move), piece)[0] - jet(curve, t, piece)[0]
    return entry(weight, i) * m * s * change


@compiled
def slope_rounding(target: Target, i: int, move: Vector) -> float:
    """Return how far rounding alone can be off in `slope_change`, before the bound's own few units.

    Two slopes are each off by a few units in the last place; their arguments, off by e, move them by at most
    sup |g''| e; the inner product is off by (d + 2) units of its sum of absolute products.
    """
    m, s, _, _, piece = coefficients(target.curve, target.rows.y[i])
    t = target.tangents[i, 0]
    products = 0.0
    for j in range(move.size):
        products += abs(np.float64(target.rows.X[i, j]) * move[j])
    change = s * dot_row(target.rows.X, i, move)
    slopes = 8.0 * (abs(jet(target.curve, t, piece)[0]) + abs(jet(target.curve, t + change, piece)[0]))
    arguments = abs(t) + 2.0 * abs(change) + (move.size + 2) * abs(s) * products
    return entry(target.rows.weight, i) * m * abs(s) * EPSILON * (slopes + target.steepest * arguments)


def initial_state(target: Target, z: Vector, rng: np.random.Generator) -> State:
    """Return the state of a process that starts at z with random velocities."""
    d = z.size
    velocity = np.where(rng.random(d) < 0.5, -1.0, 1.0)
    u = np.asarray(np.linalg.solve(target.back, z), dtype=np.float64)
    state = State(
        z.copy(),
        u,
        velocity,
        0.0,
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        0,
        0,
    )
    refresh(target, state.u, state.velocity, state.move, state.direction, state.slope, state.bend)
    return state


@compiled
def refresh(
    target: Target, u: Vector, velocity: Vector, move: Vector, direction: Vector, slope: Vector, bend: Vector
) -> None:
    """Compute anew what is otherwise carried along the path, so that roundings do not add up."""
    d = u.size
    for i in range(d):
        move[i] = 0.0
        direction[i] = 0.0
        for j in range(i, d):
            move[i] += target.frame[i, j] * u[j]
            direction[i] += target.frame[i, j] * velocity[j]
        slope[i] = target.gradient[i]
        bend[i] = 0.0
        if target.has_prior:
            for j in range(d):
                slope[i] += target.precision[i, j] * u[j]
                bend[i] += target.precision[i, j] * velocity[j]


@compiled
def row_flip(
    target: Target,
    i: int,
    change: float,
    velocity: Vector,
    threshold: float,
) -> int:
    """Return the coordinate that an event of row i flips, or -1.

    Coordinates' rates are laid end to end; the one that the threshold falls into flips.
    """
    X, frame = target.rows.X, target.frame
    rate = 0.0
    for j in range(velocity.size):
        x = 0.0
        for a in range(j + 1):
            x += frame[a, j] * np.float64(X[i, a])
        rate += max(0.0, velocity[j] * change * x)
        if threshold < rate:
            return j
    return -1


@compiled
def run_chunk(
    target: Target,
    pace: Pace,
    state: State,
    rng: np.random.Generator,
    draws: Draws,
    budget: int,
) -> tuple[State, int]:
    """Follow the process until the draws are full or about `budget` events were drawn, even between draws.

    At a draw the time to the next event is drawn anew, which changes nothing as it has no memory; so draws do not
    depend on where a chunk ends. Returns the new state and the number of draws made.
    """
    X, y, weight, _ = target.rows
    curve, tangents, frame, back, precision = (
        target.curve,
        target.tangents,
        target.frame,
        target.back,
        target.precision,
    )
    psi, row_keep, row_alias, _ = target.sampler
    has_prior, total = target.has_prior, target.total
    z, u, velocity, move, direction = state.z, state.u, state.velocity, state.move, state.direction
    slope, bend = state.slope, state.bend
    left, looked, violations, exposure = state.left, state.looked, state.violations, state.exposure
    d = u.size
    speed = np.sqrt(float(d))
    done = 0
    work = 0
    while done < draws.accepted.size and work < budget:
        if left <= 0.0:
            left = pace.step
            looked = 0
            refresh(target, u, velocity, move, direction, slope, bend)
        distance = 0.0
        for j in range(d):
            distance += u[j] * u[j]
        distance = np.sqrt(distance)
        # The bound is start + growth t; that of the exact part is smooth + smooth_growth t.
        smooth = 0.0
        smooth_growth = 0.0
        for j in range(d):
            smooth += max(0.0, velocity[j] * slope[j])
            if has_prior:
                smooth_growth += max(0.0, velocity[j] * bend[j])
        start = smooth + total * distance
        growth = smooth_growth + total * speed
        waiting = rng.standard_exponential()
        root = start + np.sqrt(start * start + 2.0 * growth * waiting)
        time = 2.0 * waiting / root if root > 0.0 else np.inf
        event = time < left
        travelled = time if event else left
        for j in range(d):
            u[j] += travelled * velocity[j]
            move[j] += travelled * direction[j]
        if has_prior:
            for j in range(d):
                slope[j] += travelled * bend[j]
        exposure += total * travelled * (distance + 0.5 * speed * travelled)
        work += 1
        if not event:
            left = 0.0
            for i in range(d):
                z[i] = 0.0
                for j in range(i, d):
                    z[i] += back[i, j] * u[j]
                draws.z[done, i] = z[i]
            draws.accepted[done] = True
            draws.rows_touched[done] = looked
            draws.full_pass[done] = False
            done += 1
            continue
        left -= time
        far = distance + speed * time
        flip = -1
        threshold = rng.random() * (start + growth * time)
        if threshold < smooth + smooth_growth * time:
            # Each coordinate's part of the bound, laid end to end; within its part, the true rate comes first.
            for j in range(d):
                rate = max(0.0, velocity[j] * slope[j])
                before = slope[j] - time * bend[j] if has_prior else slope[j]
                part = max(0.0, velocity[j] * before)
                if has_prior:
                    part += time * max(0.0, velocity[j] * bend[j])
                if threshold < part:
                    if threshold < rate:
                        flip = j
                    break
                threshold -= part
        else:
            i = draw_row(row_keep, row_alias, rng)
            looked += 1
            change = slope_change(curve, X, y, weight, tangents, i, move)
            limit = psi[i] * far
            largest = abs(change) * tangents[i, 1]  # the row's rate for the velocities that suit it best
            if largest > limit:
                rounding = slope_rounding(target, i, move) * tangents[i, 1] + 16.0 * (d + 2) * EPSILON * limit
                if largest > limit + rounding:
                    violations += 1
            threshold = rng.random() * limit
            if threshold < largest:
                flip = row_flip(target, i, change, velocity, threshold)
        if flip >= 0:
            sign = velocity[flip]
            velocity[flip] = -sign
            for a in range(flip + 1):
                direction[a] -= 2.0 * sign * frame[a, flip]
            if has_prior:
                for a in range(d):
                    bend[a] -= 2.0 * sign * precision[a, flip]
    after = State(z, u, velocity, left, move, direction, slope, bend, looked, violations, exposure)
    return after, done
