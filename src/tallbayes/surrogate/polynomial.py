"""Polynomials of degree three in whitened coordinates, without a constant."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Polynomial(NamedTuple):
    r"""p(z) = linear . z + isotropic / 2 |z|^2 + z' quadratic z / 2 + cubic(z).

    Parts that are identically zero are skipped. The cubic is packed: entry (i, j, k), i >= j >= k, holds the
    coefficient of z_i z_j z_k.
    """

    linear: Vector
    isotropic: float
    quadratic: Matrix
    cubic: Vector
    has_linear: bool
    has_quadratic: bool
    has_cubic: bool
    is_zero: bool


def polynomial(
    linear: Vector, isotropic: float = 0.0, quadratic: Matrix | None = None, cubic: Vector | None = None
) -> Polynomial:
    """Return a polynomial from its parts; parts left out, or exactly zero, are marked as absent."""
    d = linear.size
    matrix = np.zeros((d, d)) if quadratic is None else np.ascontiguousarray(quadratic)
    packed = np.zeros(0) if cubic is None else cubic
    has = bool(np.any(linear)), bool(np.any(matrix)), bool(np.any(packed))
    return Polynomial(
        np.ascontiguousarray(linear), isotropic, matrix, packed, *has, isotropic == 0.0 and not any(has)
    )


@compiled
def evaluate(p: Polynomial, z: Vector) -> float:
    """Return p(z)."""
    if p.is_zero:
        return 0.0
    d = z.size
    total = 0.0
    if p.has_linear:
        for j in range(d):
            total += p.linear[j] * z[j]
    if p.isotropic != 0.0:
        square = 0.0
        for j in range(d):
            square += z[j] * z[j]
        total += 0.5 * p.isotropic * square
    if p.has_quadratic:
        for i in range(d):
            inner = 0.0
            for j in range(d):
                inner += p.quadratic[i, j] * z[j]
            total += 0.5 * z[i] * inner
    if p.has_cubic:
        total += cubic_value(p.cubic, z)
    return total


@compiled
def cubic_value(packed: Vector, z: Vector) -> float:
    """Return the packed cubic at z; the inner loop adds to all of a vector, which vectorises."""
    d = z.size
    inner = np.zeros(d)
    first = 0
    for i in range(d):
        for j in range(i + 1):
            pair = z[i] * z[j]
            for k in range(j + 1):
                inner[k] += pair * packed[first + k]
            first += j + 1
    total = 0.0
    for k in range(d):
        total += inner[k] * z[k]
    return total


def packed_size(d: int) -> int:
    """Return how many coefficients a cubic in d variables has."""
    return d * (d + 1) * (d + 2) // 6


def subtract(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return p - q, where q has no cubic part; parts that cancel are marked as absent."""
    cubic = p.cubic if p.has_cubic else None
    return polynomial(p.linear - q.linear, p.isotropic - q.isotropic, p.quadratic - q.quadratic, cubic)
