"""Priors that are no polynomials, evaluated exactly at theta = centre + W z."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.priors import LAPLACE, STUDENT, UNIFORM, CoefficientPriors

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class ExactPrior(NamedTuple):
    """The coefficients whose prior is neither flat nor normal, an entry for each; mostly there are none."""

    kind: NDArray[np.int64]
    location: Vector
    scale: Vector
    shape: Vector
    centre: Vector
    rows: Matrix
    """Rows of W: the coefficient is centre + row . z."""
    constant: float
    """The potential at the centre, taken off so that it is zero there like a polynomial."""
    slack: float
    """How far below its value at the centre the surrogate may be, because the centre is a stand-in's mode."""


def no_exact_prior(d: int) -> ExactPrior:
    """Return the exact prior of a model whose priors are all flat or normal."""
    empty = np.zeros(0)
    return ExactPrior(np.zeros(0, dtype=np.int64), empty, empty, empty, empty, np.zeros((0, d)), 0.0, 0.0)


def exact_prior(priors: CoefficientPriors, centre: Vector, whitening: Matrix) -> ExactPrior:
    """Return the part of the priors that is no polynomial."""
    at = priors.other
    if at.size == 0:
        return no_exact_prior(centre.size)
    parts = priors.kind[at], priors.location[at], priors.scale[at], priors.shape[at], centre[at]
    rows = np.ascontiguousarray(whitening[at])
    # A wall that the likelihood presses against is one unit below the centre of its stand-in, a kink less; both
    # matter as much as the stand-in's share of the curvature.
    _, _, curvature = priors.stand_in(centre)
    hard = np.isin(parts[0], (LAPLACE, UNIFORM))
    slack = 2.0 * float(np.sum(np.where(hard, curvature[at] * np.sum(rows**2, axis=1), 0.0)))
    plain = ExactPrior(*parts, rows, 0.0, slack)
    return plain._replace(constant=evaluate_exact(plain, np.zeros(centre.size)))


@compiled
def prior_potential(kind: int, location: float, scale: float, shape: float, theta: float) -> float:
    """Return minus the log density of one coefficient's prior, up to a constant; infinite outside hard ends."""
    if kind == STUDENT:
        t = (theta - location) / scale
        return 0.5 * (shape + 1.0) * math.log1p(t * t / shape)
    if kind == LAPLACE:
        return abs(theta - location) / scale
    return 0.0 if location <= theta <= scale else np.inf


@compiled
def evaluate_exact(prior: ExactPrior, z: Vector) -> float:
    """Return the potential of all these priors at z, zero at the centre."""
    kind, location, scale, shape, centre, rows, constant, _ = prior
    total = -constant
    for p in range(kind.size):
        theta = centre[p]
        for j in range(z.size):
            theta += rows[p, j] * z[j]
        total += prior_potential(kind[p], location[p], scale[p], shape[p], theta)
    return total


@compiled
def add_exact(prior: ExactPrior, z: Matrix, values: Vector) -> None:
    """Add the potential of all these priors at every column of z to values."""
    kind, location, scale, shape, centre, rows, constant, _ = prior
    d, count = z.shape
    theta = np.empty(count)
    for p in range(kind.size):
        theta[:] = centre[p]
        for j in range(d):
            for b in range(count):
                theta[b] += rows[p, j] * z[j, b]
        for b in range(count):
            values[b] += prior_potential(kind[p], location[p], scale[p], shape[p], theta[b])
    if kind.size > 0:
        values -= constant
