"""Everything a compiled kernel reads: rows, surrogate, bound; and the parts of its acceptance probability."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import by_curve, coefficients
from tallbayes.sources.rows import Rows, dot_row, entry
from tallbayes.sources.sums import sum_potential_difference
from tallbayes.sources.whitened import predictor_at
from tallbayes.surrogate.alias import RowSampler, share_of
from tallbayes.surrogate.bounds import Bound, distance_from_centre, event_factors, shift, state_factor
from tallbayes.surrogate.exact_prior import ExactPrior, evaluate_exact
from tallbayes.surrogate.polynomial import Polynomial, evaluate
from tallbayes.surrogate.remainder import remainder, remainder_rounding
from tallbayes.surrogate.sketch import Sketch, no_sketch

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Target(NamedTuple):
    """The posterior as a kernel sees it, in whitened coordinates z.

    Both polynomials have the proposal's own log ratio taken off, so that differences of them are all that
    acceptance needs; one that is identically zero is a factor that is dropped.
    """

    rows: Rows
    curve: Any
    centre: Vector
    whitening: Matrix
    """W: theta = centre + W z."""
    surrogate: Polynomial
    prior: Polynomial
    bound: Bound
    exact: ExactPrior
    """Priors that are no polynomials, to be added to either."""
    sampler: RowSampler
    sketch: Sketch = no_sketch()


@compiled
def surrogate_at(target: Target, z: Vector) -> float:
    """Return the surrogate, less the proposal's G."""
    return evaluate(target.surrogate, z) + evaluate_exact(target.exact, z)


@compiled
def prior_at(target: Target, z: Vector) -> float:
    """Return the prior, less the proposal's G."""
    return evaluate(target.prior, z) + evaluate_exact(target.exact, z)


def inside_support(target: Any, z: Vector) -> Vector:
    """Return z, drawn towards the centre until the prior is finite there: a chain must not begin outside."""
    z = z.copy()
    while not np.isfinite(evaluate_exact(target.exact, z)):
        z *= 0.5
    return z


@compiled
def theta_at(target: Target, z: Vector, theta: Vector) -> None:
    """Put centre + W z into theta."""
    shift(target.whitening, z, theta)
    for j in range(theta.size):
        theta[j] += target.centre[j]


@by_curve
@compiled
def row_remainders(
    curve: Any,
    order: int,
    X: NDArray[Any],
    y: Vector,
    weight: Vector,
    offset: Vector,
    centre: Vector,
    i: int,
    move: Vector,
    other: Vector,
) -> tuple[float, float]:
    """Return r_i at centre + move and at centre + other.

    At order 0, and where rows are not functions of one predictor, only their difference means anything.
    """
    m, s, c, l, piece = coefficients(curve, y[i])
    at_centre = 0.0
    old = 0.0
    new = 0.0
    for j in range(centre.size):
        x = np.float64(X[i, j])
        at_centre += x * centre[j]
        old += x * move[j]
        new += x * other[j]
    t = s * (at_centre + entry(offset, i)) + c
    before = m * remainder(curve, t, s * old, order, piece)
    after = m * remainder(curve, t, s * new, order, piece)
    if order == 0:
        before, after = before + l * old, after + l * new
    w = entry(weight, i)
    return w * before, w * after


@compiled
def row_intensity(
    curve: Any,
    order: int,
    X: NDArray[Any],
    y: Vector,
    weight: Vector,
    offset: Vector,
    centre: Vector,
    i: int,
    move: Vector,
    other: Vector,
) -> float:
    """Return lambda_i: how fast row i rejects a step from centre + move to centre + other."""
    before, after = row_remainders(curve, order, X, y, weight, offset, centre, i, move, other)
    return max(0.0, after - before)


RISE, FALL, STEP = 0, 1, 2
"""Kinds of events: for a remainder that rises to z', for one that falls from z, and for the step as a whole."""


@compiled
def intensity_of(kind: int, before: float, after: float) -> float:
    """Return the part of lambda_i = max(0, after - before) that events of a kind account for.

    A rise is at most the positive part of the remainder at z', a fall at most the negative part of that at z, and
    together they are lambda_i.
    """
    intensity = max(0.0, after - before)
    if kind == STEP:
        return intensity
    rise = min(intensity, max(0.0, after))
    return rise if kind == RISE else intensity - rise


@by_curve
@compiled
def rounding_floor(
    target: Target, curve: Any, i: int, distance: float, move: Vector, other: Vector, limit: float
) -> float:
    """Return how far rounding alone can lift a computed lambda_i above its bound `limit`.

    An inner product x . v is off by at most (d + 2) eps sum_j |x_j v_j|. Such an error e of a step moves a
    remainder by at most C_i (a_i distance)^k e / k!, where psi_i = w_i C_i a_i^(k+1) / (k+1)! and `distance` is
    the larger of the two states'; an error of a_i itself moves the bound by (k + 1) times its relative size;
    an error of the predictor moves a derivative by at most (k + 2) e / reach times itself (Cauchy). Computed
    only when a bound looks broken, so it may cost what it likes.
    """
    k = target.bound.order
    d = move.size
    unit = (d + 2) * 2.220446049250313e-16
    m, s, c, _, piece = coefficients(curve, target.rows.y[i])
    x = target.rows.X
    products = 0.0
    predictor = abs(c) + abs(s * entry(target.rows.offset, i))
    largest = 0.0
    for j in range(d):
        x_j = abs(np.float64(x[i, j]))
        products += x_j * (abs(move[j]) + abs(other[j]))
        predictor += abs(s) * x_j * abs(target.centre[j])
        largest = max(largest, x_j)
    norm = largest
    norm_error = 0.0
    if target.bound.local:
        square = 0.0
        for a in range(d):
            inner = 0.0
            absolute = 0.0
            for j in range(a + 1):
                term = np.float64(x[i, j]) * target.whitening[j, a]
                inner += term
                absolute += abs(term)
            square += inner * inner
            norm_error += absolute * absolute
        norm = np.sqrt(square)
        norm_error = unit * np.sqrt(norm_error)
    if not norm > 0.0:
        return 0.0
    t = s * predictor_at(target.rows, i, target.centre) + c
    own = remainder_rounding(curve, t, s * dot_row(x, i, move), k, piece)
    own += remainder_rounding(curve, t, s * dot_row(x, i, other), k, piece)
    steps = target.sampler.psi[i] * (k + 1) * distance**k / norm * unit * products
    relative = (k + 1) * (16.0 * unit + norm_error / norm) + (k + 2) * unit * predictor / curve.reach
    return entry(target.rows.weight, i) * m * own + steps + relative * limit


@compiled
def full_log_ratio(target: Target, z: Vector, other: Vector) -> float:
    """Return the whole log acceptance ratio, by a pass over all rows."""
    d = z.size
    theta = np.empty(d)
    proposed = np.empty(d)
    theta_at(target, z, theta)
    theta_at(target, other, proposed)
    n = target.rows.X.shape[0]
    change = sum_potential_difference(target.rows, target.curve, theta, proposed, 0, n)
    return prior_at(target, z) - prior_at(target, other) - change


@compiled
def step_rate(target: Target, z: Vector, other: Vector) -> float:
    """Return the total rate at which rows are looked at in a step from z to other."""
    bound = target.bound
    distance = distance_from_centre(bound, target.whitening, z)
    other_distance = distance_from_centre(bound, target.whitening, other)
    return bound.total * state_factor(bound, target.whitening, z, distance, other, other_distance)


@compiled
def log_acceptance(target: Target, z: Vector, other: Vector) -> float:
    """Return the log of the probability that a step from z to other is accepted, by enumeration of all rows.

    The same parts as the kernel's, in expectation: log a0 - rate * sum_i p_i min(share_i, lambda_i / bar lambda_i)
    for each kind of event, with p_i what the alias table really draws. For tests and diagnosis.
    """
    bound, rows = target.bound, target.rows
    rate = step_rate(target, z, other)
    if not rate < bound.truncation or not np.isfinite(rate):
        return min(0.0, full_log_ratio(target, z, other))
    total = min(0.0, surrogate_at(target, z) - surrogate_at(target, other))
    n = target.rows.X.shape[0]
    if not rate > 0.0:
        return total
    drawn = np.zeros(n)
    for i in range(n):
        drawn[i] += target.sampler.keep[i] / n
        drawn[np.int64(target.sampler.alias[i])] += (1.0 - target.sampler.keep[i]) / n
    d = z.size
    move = np.empty(d)
    new = np.empty(d)
    shift(target.whitening, z, move)
    shift(target.whitening, other, new)
    distance = distance_from_centre(bound, target.whitening, z)
    other_distance = distance_from_centre(bound, target.whitening, other)
    before, after, between = event_factors(bound, target.whitening, z, distance, other, other_distance)
    for i in range(n):
        if drawn[i] > 0.0:
            old_remainder, new_remainder = row_remainders(
                target.curve, bound.order, rows.X, rows.y, rows.weight, rows.offset, target.centre, i, move, new
            )
            for kind in range(3):
                limit = (after, before, between)[kind] * target.sampler.psi[i]
                share = share_of(target.sampler.shares, kind, i)
                if limit > 0.0:
                    chance = min(share, intensity_of(kind, old_remainder, new_remainder) / limit)
                    total -= bound.total * (after, before, between)[kind] * drawn[i] * chance
    return total
