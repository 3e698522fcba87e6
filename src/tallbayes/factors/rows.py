r"""Rows whose potential is any function of the parameters: what compiled code needs of them.

A row's functions are not compiled into the kernels: they are called by address, through types that are the same
for every model. So there is one kernel for all of them, it is cached on disk like the others, and no cached code
can hold the formula of another model.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import instead_of
from tallbayes.kernels import target as kernels
from tallbayes.sources import sums, whitened
from tallbayes.sources.rows import Rows, entry

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_VECTOR = types.Array(types.float64, 1, "C")
_MATRIX = types.Array(types.float64, 2, "C")
POTENTIAL = types.float64(_VECTOR, _VECTOR)
GRADIENT = types.void(_VECTOR, _VECTOR, _VECTOR)
HESSIAN = types.void(_VECTOR, _VECTOR, _MATRIX)
"""Types of ``potential(theta, row)``, ``gradient(theta, row, out)`` and ``hessian(theta, row, out)``."""

ROUNDING = 16.0
"""How many units in the last place, for each parameter, a user's function may be off in each of its terms."""


class FactorFunctions(NamedTuple):
    """The three functions of a row, by address; in the place of a curve."""

    potential: Any
    gradient: Any
    hessian: Any


@compiled
def row_jet(curve: FactorFunctions, X: Matrix, i: int, theta: Vector, gradient: Vector, hessian: Matrix) -> float:
    """Put gradient and Hessian of row i, without its weight, in their places; return its potential."""
    gradient[:] = 0.0
    hessian[:] = 0.0
    curve.gradient(theta, X[i], gradient)
    curve.hessian(theta, X[i], hessian)
    return curve.potential(theta, X[i])


@instead_of(sums.sum_potential, FactorFunctions)
@compiled
def sum_potential(rows: Rows, curve: FactorFunctions, theta: Vector, first: int, last: int) -> float:
    """Sum the potential at theta over rows first .. last - 1."""
    X, weight, potential = rows.X, rows.weight, curve.potential
    total = 0.0
    for i in range(first, last):
        w = entry(weight, i)
        if w != 0.0:
            total += w * potential(theta, X[i])
    return total


@instead_of(sums.sum_potential_difference, FactorFunctions)
@compiled
def sum_potential_difference(
    rows: Rows, curve: FactorFunctions, theta: Vector, other: Vector, first: int, last: int
) -> float:
    """Sum the potential at other minus that at theta, row by row, over rows first .. last - 1."""
    X, weight, potential = rows.X, rows.weight, curve.potential
    total = 0.0
    for i in range(first, last):
        w = entry(weight, i)
        if w != 0.0:
            total += w * (potential(other, X[i]) - potential(theta, X[i]))
    return total


@instead_of(sums.sum_derivatives, FactorFunctions)
@compiled
def sum_derivatives(
    rows: Rows,
    curve: FactorFunctions,
    theta: Vector,
    majorise: bool,
    first: int,
    last: int,
    gradient: Vector,
    hessian: Matrix,
) -> float:
    """Add gradient and Hessian (lower triangle) at theta over rows first .. last - 1; return the potential.

    There is no majorising Hessian: the search for the mode damps one that is not positive.
    """
    X, weight = rows.X, rows.weight
    d = theta.size
    slope, curvature = np.empty(d), np.empty((d, d))
    total = 0.0
    for i in range(first, last):
        w = entry(weight, i)
        if w == 0.0:
            continue
        total += w * row_jet(curve, X, i, theta, slope, curvature)
        for j in range(d):
            gradient[j] += w * slope[j]
            for k in range(j + 1):
                hessian[j, k] += w * curvature[j, k]
    return total


@instead_of(whitened.sum_whitened_hessian, FactorFunctions)
@compiled
def sum_whitened_hessian(
    rows: Rows, curve: FactorFunctions, centre: Vector, inverse_root: Matrix, first: int, last: int, hessian: Matrix
) -> None:
    """Add the Hessian in whitened coordinates (lower triangle), L^-1 H_i L^-T, over rows first .. last - 1."""
    X, weight = rows.X, rows.weight
    d = centre.size
    slope, curvature, half = np.empty(d), np.empty((d, d)), np.empty(d)
    for i in range(first, last):
        w = entry(weight, i)
        if w == 0.0:
            continue
        row_jet(curve, X, i, centre, slope, curvature)
        for a in range(d):
            for k in range(d):
                half[k] = 0.0
                for j in range(a + 1):
                    half[k] += inverse_root[a, j] * curvature[max(j, k), min(j, k)]
            for b in range(a + 1):
                for k in range(b + 1):
                    hessian[a, b] += w * half[k] * inverse_root[b, k]


@instead_of(kernels.row_remainders, FactorFunctions)
@compiled
def row_remainders(
    curve: FactorFunctions,
    order: int,
    X: Matrix,
    y: Vector,
    weight: Vector,
    offset: Vector,
    centre: Vector,
    i: int,
    move: Vector,
    other: Vector,
) -> tuple[float, float]:
    r"""Return 0 and the change of r_i from centre + move to centre + other.

    With the step s = other - move, the change of the Taylor polynomial is (g + H (move + other) / 2) . s: no
    difference of squares. A value that is not a number becomes infinite, which no bound allows.
    """
    d = centre.size
    room = np.empty((d + 3, d))
    here, there, gradient, hessian, row = room[0], room[1], room[2], room[3:], X[i]
    for j in range(d):
        here[j] = centre[j] + move[j]
        there[j] = centre[j] + other[j]
    change = curve.potential(there, row) - curve.potential(here, row)
    if order >= 1:
        gradient[:] = 0.0
        curve.gradient(centre, row, gradient)
        if order >= 2:
            hessian[:] = 0.0
            curve.hessian(centre, row, hessian)
            for j in range(d):
                for k in range(j):
                    gradient[j] += 0.5 * hessian[j, k] * (move[k] + other[k])
                    gradient[k] += 0.5 * hessian[j, k] * (move[j] + other[j])
                gradient[j] += 0.5 * hessian[j, j] * (move[j] + other[j])
        for j in range(d):
            change -= gradient[j] * (other[j] - move[j])
    change *= entry(weight, i)
    return 0.0, change if math.isfinite(change) else math.inf


@instead_of(kernels.rounding_floor, FactorFunctions)
@compiled
def rounding_floor(
    target: Any, curve: FactorFunctions, i: int, distance: float, move: Vector, other: Vector, limit: float
) -> float:
    r"""Return how far rounding alone can lift a computed lambda_i above its bound `limit`.

    The functions are taken to be backward stable: what they return is right, to e = ROUNDING (d + 2) eps, at
    parameters that are off by e, relatively. So U is off by at most :math:`e (|U| + \sum_j |\partial_j U|
    |\theta_j|)` at each of the two states, and the Taylor polynomial by

    .. math:: e \sum_j |s_j| \Big( |g_j| + \sum_k |H_{jk}| (|\hat\theta_k| + |s_k|) \Big)
              + e\, \bar U_{k+1} \|\hat\theta\|_1 \|s\|_1^k, \qquad s = |move| + |other|

    (the last term, for an error of the highest derivative, is e (k + 1)! psi |centre|_1 distance^k, twice). An
    excess that goes unnoticed is below this number, so it changes a log acceptance by no more than rounding does.
    """
    k = target.bound.order
    d = move.size
    unit = ROUNDING * (d + 2) * 2.220446049250313e-16
    X, centre = target.rows.X, target.centre
    theta, gradient, hessian = np.empty(d), np.empty(d), np.empty((d, d))
    size = 0.0
    for state in range(2):
        for j in range(d):
            theta[j] = centre[j] + (other[j] if state else move[j])
        size += abs(row_jet(curve, X, i, theta, gradient, hessian))
        for j in range(d):
            size += abs(gradient[j]) * (abs(centre[j]) + abs(theta[j]))
    row_jet(curve, X, i, centre, gradient, hessian)
    reach = 0.0
    for j in range(d):
        reach += abs(centre[j])
        terms = abs(gradient[j])
        for b in range(d):
            both = abs(move[b]) + abs(other[b]) + abs(centre[b])
            terms += abs(hessian[max(j, b), min(j, b)]) * both
        size += terms * (abs(move[j]) + abs(other[j]))
    factorial = 1.0
    for j in range(2, k + 2):
        factorial *= j
    highest = 2.0 * factorial * target.sampler.psi[i] * reach * distance**k
    floor = unit * (entry(target.rows.weight, i) * size + highest + (k + 2) * limit)
    return floor if math.isfinite(floor) else 0.0
