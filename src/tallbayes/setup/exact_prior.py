"""Priors that are no polynomials, evaluated exactly at theta = centre + W z."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.priors.resolved import HALF_STUDENT, LAPLACE, POWER, STUDENT, UNIFORM, CoefficientPriors

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

KIND, LOCATION, SCALE, SHAPE, CENTRE = range(5)
"""Columns of `ExactPrior.facts`."""


class ExactPrior(NamedTuple):
    """The coefficients whose prior is neither flat nor normal, a line for each; mostly there are none."""

    facts: Matrix
    """Kind, location, scale and shape of the prior, and the coefficient at the centre."""
    rows: Matrix
    """Rows of W: the coefficient is centre + row . z."""
    constant: float
    """The potential at the centre, taken off so that it is zero there like a polynomial."""
    slack: float
    """How far below its value at the centre the surrogate may be, because the centre is a stand-in's mode."""


def exact_prior(priors: CoefficientPriors, centre: Vector, whitening: Matrix) -> ExactPrior:
    """Return the part of the priors that is no polynomial."""
    at = priors.other
    columns = priors.kind[at], priors.location[at], priors.scale[at], priors.shape[at], centre[at]
    facts = np.ascontiguousarray(np.stack([np.asarray(part, dtype=np.float64) for part in columns], axis=1))
    rows = np.ascontiguousarray(whitening[at])
    # A wall that the likelihood presses against is one unit below the centre of its stand-in, a kink less; both
    # matter as much as the stand-in's share of the curvature.
    _, _, curvature = priors.stand_in(centre)
    hard = np.isin(facts[:, KIND], (LAPLACE, UNIFORM))
    slack = 2.0 * float(np.sum(np.where(hard, curvature[at] * np.sum(rows**2, axis=1), 0.0)))
    plain = ExactPrior(facts, rows, 0.0, slack)
    return plain._replace(constant=float(exact_at(plain, np.zeros((1, centre.size)))[0]))


def exact_at(prior: ExactPrior, z: Matrix) -> Vector:
    """Return the negative log density of all these priors at the points in the lines of z, zero at the centre."""
    facts, rows, constant, _ = prior
    if not facts.size:
        return np.zeros(z.shape[0])
    theta = facts[:, CENTRE] + z @ rows.T
    kind, location, scale, shape = facts[:, KIND], facts[:, LOCATION], facts[:, SCALE], facts[:, SHAPE]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        t = (theta - location) / scale
        student = 0.5 * (shape + 1.0) * np.log1p(t * t / shape)
        power = location * np.exp(np.minimum(scale * theta, 700.0)) - shape * theta
        half = 0.5 * (shape + 1.0) * np.logaddexp(0.0, 2.0 * (theta - location) - np.log(shape)) - theta
    uniform = np.where((location <= theta) & (theta <= scale), 0.0, np.inf)
    kinds = [kind == STUDENT, kind == LAPLACE, kind == POWER, kind == HALF_STUDENT]
    values = np.select([np.broadcast_to(one, t.shape) for one in kinds], [student, np.abs(t), power, half], uniform)
    return np.asarray(np.sum(values, axis=1) - constant)


@compiled
def prior_potential(kind: float, location: float, scale: float, shape: float, theta: float) -> float:
    """Return minus the log density of one coefficient's prior, up to a constant; infinite outside hard ends."""
    if kind == STUDENT:
        t = (theta - location) / scale
        return 0.5 * (shape + 1.0) * math.log1p(t * t / shape)
    if kind == LAPLACE:
        return abs(theta - location) / scale
    if kind == POWER:
        return location * math.exp(min(scale * theta, 700.0)) - shape * theta
    if kind == HALF_STUDENT:
        t = 2.0 * (theta - location) - math.log(shape)
        return 0.5 * (shape + 1.0) * (max(t, 0.0) + math.log1p(math.exp(-abs(t)))) - theta
    return 0.0 if location <= theta <= scale else np.inf


@compiled
def add_exact(facts: Matrix, rows: Matrix, constant: float, z: Matrix, values: Vector) -> None:
    """Add the potential of all these priors at every column of z to values; z may have more lines than rows."""
    for p in range(facts.shape[0]):
        for b in range(z.shape[1]):
            theta = facts[p, 4]
            for j in range(rows.shape[1]):
                theta += rows[p, j] * z[j, b]
            values[b] += prior_potential(facts[p, 0], facts[p, 1], facts[p, 2], facts[p, 3], theta)
    if facts.shape[0] > 0:
        for b in range(z.shape[1]):
            values[b] -= constant


@compiled
def evaluate_exact(facts: Matrix, rows: Matrix, constant: float, z: Vector) -> float:
    """Return the potential of all these priors at z, zero at the centre."""
    total = -constant
    for p in range(facts.shape[0]):
        theta = facts[p, 4]
        for j in range(z.size):
            theta += rows[p, j] * z[j]
        total += prior_potential(facts[p, 0], facts[p, 1], facts[p, 2], facts[p, 3], theta)
    return total
