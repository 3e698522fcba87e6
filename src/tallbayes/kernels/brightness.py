r"""Firefly steps, compiled in chunks: a bright set of rows is resampled, then theta moves given that set.

Row i's potential w_i [m_i g(t_i) + l_i eta_i] has the upper bound with the parabola

.. math:: q(\hat t + \delta) = g(\hat t) + g'(\hat t) \delta + \kappa \delta^2 / 2, \qquad
          \kappa = \frac{g'(\hat t) - a}{\hat t}

in place of g, which touches g at the centre and lies above it if g(t) - a t is a concave function of t^2. With
the excess e_i = w_i m_i (q - g) >= 0 the likelihood is the lower bound times exp(e_i), and
exp(e_i) = 1 + (exp(e_i) - 1): a dark row gives the factor 1, a bright one exp(e_i) - 1, and summing over both
gives the likelihood back. Lower bounds of all rows together are one parabola in z.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import coefficients, jet
from tallbayes.kernels.base import no_rows
from tallbayes.kernels.state import BLOCK, Draws
from tallbayes.kernels.target import inside_support
from tallbayes.proposals.affine import AffineProposal, propose_in_turn, refill
from tallbayes.sources.rows import Rows, dot_row, entry
from tallbayes.sources.sums import TILE, add_products, load_tile, tile_predictor
from tallbayes.sources.whitened import whiten_tile
from tallbayes.surrogate.alias import RowSampler
from tallbayes.surrogate.bounds import Bound, shift
from tallbayes.surrogate.exact_prior import ExactPrior, evaluate_exact
from tallbayes.surrogate.polynomial import Polynomial, evaluate
from tallbayes.surrogate.remainder import gauss_jacobi, remainder, remainder_rounding
from tallbayes.surrogate.sketch import Sketch, no_sketch

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int64]

NEAR_ZERO = 0.25
"""Predictors below this share of g's reach take the mean of g'' instead of a quotient that loses digits."""
_NODES, _WEIGHTS = gauss_jacobi(0, 6)


class State(NamedTuple):
    """What the next step needs."""

    z: Vector
    value: float
    """Lower bounds of all rows and prior, as a potential at z, less the proposal's G."""
    noise: Matrix
    used: int
    proposed: Vector
    order: Indices
    """All rows, the bright ones first."""
    bright: int
    """How many are bright."""
    excess: Vector
    """e_i at z of the bright rows, in their order; has room for more."""
    violations: int
    turn: int = 0
    """Steps since the last walk."""
    exposure: float = 0.0
    """Rows looked at in all steps so far."""


class Target(NamedTuple):
    """What the compiled steps read."""

    rows: Rows
    curve: Any
    centre: Vector
    whitening: Matrix
    tangents: Matrix
    """Predictor t at the centre and curvature kappa of its parabola, for each row."""
    collapsed: Polynomial
    """Product of all lower bounds and normal priors, as a potential in z, less the proposal's G."""
    exact: ExactPrior
    """Other priors."""
    q_db: float
    """Probability that a dark row is looked at in a sweep."""
    bound: Bound
    sampler: RowSampler
    sketch: Sketch


def make_target(
    rows: Rows,
    curve: Any,
    centre: Vector,
    whitening: Matrix,
    tangents: Matrix,
    collapsed: Polynomial,
    exact: ExactPrior,
    q_db: float,
) -> Target:
    """Return a target without the tables of kernels that thin."""
    return Target(rows, curve, centre, whitening, tangents, collapsed, exact, q_db, *no_rows(), no_sketch())


@compiled
def parabola_curvature(curve: Any, t: float, slope: float, piece: int) -> float:
    """Return (g'(t) - slope) / t, which is the mean of g'' over [0, t] when slope = g'(0)."""
    if abs(t) < NEAR_ZERO * curve.reach:
        total = 0.0
        for q in range(_NODES.size):
            total += _WEIGHTS[q] * jet(curve, t * _NODES[q], piece)[1]
        return total
    return (jet(curve, t, piece)[0] - slope) / t


@compiled
def fill_tangents(
    rows: Rows,
    curve: Any,
    slope: float,
    centre: Vector,
    inverse_root: Matrix,
    first: int,
    last: int,
    tangents: Matrix,
    hessian: Matrix,
) -> None:
    """Put t and kappa of rows first .. last - 1 into tangents; add the Hessian of their parabolas in z.

    Only the lower triangle of the Hessian is filled.
    """
    X, y, weight, offset = rows
    d = centre.size
    tile, white = np.empty((d, TILE)), np.empty((d, TILE))
    eta, scaled, curvature = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        load_tile(X, start, count, tile)
        tile_predictor(tile, count, centre, eta)
        whiten_tile(tile, count, inverse_root, white)
        for r in range(count):
            i = start + r
            m, s, c, _, piece = coefficients(curve, y[i])
            t = s * (eta[r] + entry(offset, i)) + c
            kappa = parabola_curvature(curve, t, slope, piece)
            tangents[i, 0] = t
            tangents[i, 1] = kappa
            curvature[r] = entry(weight, i) * s * s * kappa * m
        for a in range(d):
            for r in range(count):
                scaled[r] = curvature[r] * white[a, r]
            add_products(scaled, white, a + 1, count, hessian[a], 0)


@compiled
def row_excess(
    curve: Any, X: NDArray[Any], y: Vector, weight: Vector, tangents: Matrix, i: int, move: Vector
) -> tuple[float, int]:
    """Return e_i at centre + move, and 1 if it is negative by more than rounding: a bound that is broken.

    kappa is off by a few units in the last place, and so is the remainder.
    """
    m, s, _, _, piece = coefficients(curve, y[i])
    w = entry(weight, i) * m
    t, kappa = tangents[i, 0], tangents[i, 1]
    delta = s * dot_row(X, i, move)
    excess = 0.5 * kappa * delta * delta - remainder(curve, t, delta, 1, piece)
    if excess > 0.0:
        return w * excess, 0
    rounding = remainder_rounding(curve, t, delta, 1, piece) + 16.0 * 2.220446049250313e-16 * kappa * delta * delta
    return 0.0, 0 if excess >= -rounding else 1


@compiled
def log_brightness(excess: float) -> float:
    """Return log(exp(e) - 1)."""
    return excess if excess > 40.0 else np.log(np.expm1(excess))


def initial_state(target: Target, z: Vector, rng: np.random.Generator) -> State:
    """Return the state of a chain that starts at z, with the bright set drawn given z: a pass over all rows."""
    n, d = target.rows.X.shape[0], z.size
    z = inside_support(target, z)
    order, excess = np.empty(n, dtype=np.int64), np.empty(n)
    bright, violations = draw_bright(target, z, rng, order, excess)
    return State(
        z=z,
        value=evaluate(target.collapsed, z) + evaluate_exact(target.exact, z),
        noise=np.empty((d, BLOCK)),
        used=BLOCK,
        proposed=np.empty(d),
        order=order,
        bright=bright,
        excess=excess[: max(2 * bright, 64)].copy(),
        violations=violations,
    )


@compiled
def draw_bright(
    target: Target, z: Vector, rng: np.random.Generator, order: Indices, excess: Vector
) -> tuple[int, int]:
    """Draw every row's brightness given z; return how many are bright, and how many bounds are broken."""
    X, y, weight, _ = target.rows
    n, d = X.shape
    move = np.empty(d)
    shift(target.whitening, z, move)
    bright, dark, violations = 0, n, 0
    for i in range(n):
        e, broken = row_excess(target.curve, X, y, weight, target.tangents, i, move)
        violations += broken
        if rng.random() < -np.expm1(-e):
            order[bright] = i
            excess[bright] = e
            bright += 1
        else:
            dark -= 1
            order[dark] = i
    return bright, violations


@compiled
def sweep(
    curve: Any,
    X: NDArray[Any],
    y: Vector,
    weight: Vector,
    tangents: Matrix,
    q_db: float,
    move: Vector,
    order: Indices,
    bright: int,
    excess: Vector,
    rng: np.random.Generator,
) -> tuple[int, Vector, int, int]:
    """Resample the bright set given theta, implicitly: Metropolis-Hastings for every row by itself.

    A dark row is proposed to be bright with probability q_db, a bright one always to be dark, so that the ratio
    of the proposals is q_db. Each row gets the move of the state it had before the sweep: rows that have just
    turned dark are not candidates. Returns the number of bright rows, their excesses, the rows looked at and the
    bounds found broken.
    """
    n = order.size
    pace = -np.log1p(-q_db)
    risen, at = np.empty(64, dtype=np.int64), 0
    new = np.empty(64)
    looked, violations = 0, 0
    place = bright
    while True:
        skipped = np.floor(rng.standard_exponential() / pace)  # geometric: candidates are few, the others unseen
        if not skipped < n - place:
            break
        place += int(skipped)
        i = order[place]
        e, broken = row_excess(curve, X, y, weight, tangents, i, move)
        looked += 1
        violations += broken
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
    if bright + at > excess.size:
        excess = np.concatenate((excess, np.empty(bright + at)))
    for k in range(at):
        # Places ascend and are never before the first dark one, so no row that is still to rise is moved.
        place = risen[k]
        order[place], order[bright] = order[bright], order[place]
        excess[bright] = new[k]
        bright += 1
    return bright, excess, looked, violations


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

    A step is a sweep over the bright set and a Metropolis-Hastings step of theta given that set. Returns the new
    state and the number of steps made.
    """
    X, y, weight, _ = target.rows
    curve, whitening, tangents, collapsed, q_db = (
        target.curve,
        target.whitening,
        target.tangents,
        target.collapsed,
        target.q_db,
    )
    d = state.z.size
    has_exact = target.exact.kind.size > 0
    z, proposed, noise, used, value = state.z, state.proposed, state.noise, state.used, state.value
    order, bright, excess, violations = state.order, state.bright, state.excess, state.violations
    keep, drift, turn = proposal.keep, proposal.drift, state.turn
    middle = drift / (1.0 - keep) if keep != 1.0 else drift  # where G = |z - middle|^2 / 2 is least
    exposure = state.exposure
    move, other, trial = np.empty(d), np.empty(d), np.empty(excess.size)
    shift(whitening, z, move)
    done = 0
    work = 0
    while done < draws.accepted.size and work < budget:
        bright, excess, looked, broken = sweep(
            curve, X, y, weight, tangents, q_db, move, order, bright, excess, rng
        )
        if trial.size < bright:
            trial = np.empty(excess.size)
        if used == BLOCK:
            refill(proposal, noise, rng)
            used = 0
        correction, turn = propose_in_turn(proposal, middle, turn, z, noise, used, proposed)
        used += 1
        proposed_value = evaluate(collapsed, proposed)
        if has_exact:
            proposed_value += evaluate_exact(target.exact, proposed)
        log_ratio = value - proposed_value + correction
        shift(whitening, proposed, other)
        for k in range(bright):
            trial[k], wrong = row_excess(curve, X, y, weight, tangents, order[k], other)
            broken += wrong
            log_ratio += log_brightness(trial[k]) - log_brightness(excess[k])
        looked += bright
        accept = rng.standard_exponential() > -log_ratio
        if accept:
            value = proposed_value
            for j in range(d):
                z[j] = proposed[j]
                move[j] = other[j]
            for k in range(bright):
                excess[k] = trial[k]
        for j in range(d):
            draws.z[done, j] = z[j]
        draws.accepted[done] = accept
        draws.rows_touched[done] = looked
        draws.full_pass[done] = False
        violations += broken
        exposure += looked
        work += looked + 1
        done += 1
    after = State(z, value, noise, used, proposed, order, bright, excess, violations, turn, exposure)
    return after, done
