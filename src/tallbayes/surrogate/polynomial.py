"""Polynomials of degree three in whitened coordinates, without a constant."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_sum

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


LANES = 8
WIDTH = 64
"""Columns that are evaluated together."""


class Polynomial(NamedTuple):
    r"""p(z) = linear . z + isotropic / 2 |z|^2 + z' quadratic z / 2 + cubic(z).

    Parts that are identically zero are skipped. The cubic is packed: entry (i, j, k), i >= j >= k, holds the
    coefficient of z_i z_j z_k.
    """

    linear: Vector
    isotropic: float
    quadratic: Matrix
    cubic: Vector
    padded: Vector
    """The cubic once more, every row (i, j) padded with zeros to a multiple of LANES, for one z at a time."""
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
    zero = isotropic == 0.0 and not any(has)
    padded = _padded(packed, d) if has[2] else np.zeros(0)
    return Polynomial(np.ascontiguousarray(linear), isotropic, matrix, packed, padded, *has, zero)


def _padded(packed: Vector, d: int) -> Vector:
    rows, at = [], 0
    for i in range(d):
        for j in range(i + 1):
            row = np.zeros(-(-(j + 1) // LANES) * LANES)
            row[: j + 1] = packed[at : at + j + 1]
            rows.append(row)
            at += j + 1
    return np.concatenate(rows)


@compiled
def evaluate(p: Polynomial, z: Vector) -> float:
    """Return p(z)."""
    linear, isotropic, quadratic, _, padded, has_linear, has_quadratic, has_cubic, _ = p
    scratch = np.zeros(z.size + LANES)
    return evaluate_parts(linear, isotropic, quadratic, padded, has_linear, has_quadratic, has_cubic, z, scratch)


@compiled
def evaluate_columns(p: Polynomial, z: Matrix, values: Vector) -> None:
    """Put p of every column of z into values; there are WIDTH columns, along which the inner loops use SIMD."""
    d = z.shape[0]
    linear, quadratic = p.linear, p.quadratic
    values[:] = 0.0
    if p.is_zero:
        return
    inner = np.empty(WIDTH)
    if p.has_linear:
        for j in range(d):
            for b in range(WIDTH):
                values[b] += linear[j] * z[j, b]
    if p.isotropic != 0.0:
        half = 0.5 * p.isotropic
        for j in range(d):
            for b in range(WIDTH):
                values[b] += half * z[j, b] * z[j, b]
    if p.has_quadratic:
        for i in range(d):
            inner[:] = 0.0
            for j in range(d):
                for b in range(WIDTH):
                    inner[b] += quadratic[i, j] * z[j, b]
            for b in range(WIDTH):
                values[b] += 0.5 * z[i, b] * inner[b]
    if p.has_cubic:
        _add_cubic(p.cubic, z, inner, values)


@compiled_sum
def _add_cubic(cubic: Vector, z: Matrix, inner: Vector, values: Vector) -> None:
    """Add the packed cubic of every column of z to values, four coefficients at a time; inner is scratch space."""
    at = 0
    for i in range(z.shape[0]):
        for j in range(i + 1):
            for b in range(WIDTH):
                inner[b] = 0.0
            k = 0
            while k + 4 <= j + 1:
                c0, c1, c2, c3 = cubic[at + k], cubic[at + k + 1], cubic[at + k + 2], cubic[at + k + 3]
                for b in range(WIDTH):
                    inner[b] += c0 * z[k, b] + c1 * z[k + 1, b] + c2 * z[k + 2, b] + c3 * z[k + 3, b]
                k += 4
            while k < j + 1:
                c0 = cubic[at + k]
                for b in range(WIDTH):
                    inner[b] += c0 * z[k, b]
                k += 1
            at += j + 1
            for b in range(WIDTH):
                values[b] += z[i, b] * z[j, b] * inner[b]


@compiled
def evaluate_parts(
    linear: Vector,
    isotropic: float,
    quadratic: Matrix,
    padded: Vector,
    has_linear: bool,
    has_quadratic: bool,
    has_cubic: bool,
    z: Vector,
    scratch: Vector,
) -> float:
    """Return p(z) from the parts of p, without an allocation or a reference count, for use in a hot loop.

    `scratch` has d + LANES entries, the last LANES of them zero.
    """
    d = z.size
    total = 0.0
    if has_linear:
        for j in range(d):
            total += linear[j] * z[j]
    if isotropic != 0.0:
        square = 0.0
        for j in range(d):
            square += z[j] * z[j]
        total += 0.5 * isotropic * square
    if has_quadratic:
        for i in range(d):
            inner = 0.0
            for j in range(d):
                inner += quadratic[i, j] * z[j]
            total += 0.5 * z[i] * inner
    if has_cubic:
        for j in range(d):
            scratch[j] = z[j]
        at = 0
        for i in range(d):
            middle = 0.0
            for j in range(i + 1):
                # Eight running sums side by side: SIMD without reordering.
                t0, t1, t2, t3, t4, t5, t6, t7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                k = 0
                while k <= j:
                    t0 += padded[at] * scratch[k]
                    t1 += padded[at + 1] * scratch[k + 1]
                    t2 += padded[at + 2] * scratch[k + 2]
                    t3 += padded[at + 3] * scratch[k + 3]
                    t4 += padded[at + 4] * scratch[k + 4]
                    t5 += padded[at + 5] * scratch[k + 5]
                    t6 += padded[at + 6] * scratch[k + 6]
                    t7 += padded[at + 7] * scratch[k + 7]
                    at += LANES
                    k += LANES
                middle += z[j] * (((t0 + t1) + (t2 + t3)) + ((t4 + t5) + (t6 + t7)))
            total += z[i] * middle
    return total


@compiled
def _cubic_gradient(packed: Vector, u: Vector, gradient: Vector) -> float:
    """Put the gradient of the packed cubic at u into gradient; return the cubic's value."""
    d = u.size
    gradient[:] = 0.0
    total = 0.0
    at = 0
    for i in range(d):
        for j in range(i + 1):
            for k in range(j + 1):
                c = packed[at + k]
                gradient[i] += c * u[j] * u[k]
                gradient[j] += c * u[i] * u[k]
                gradient[k] += c * u[i] * u[j]
                total += c * u[i] * u[j] * u[k]
            at += j + 1
    return total


def steepest_fall(cubic: Vector, d: int) -> float:
    """Return about the largest -cubic(u) over unit vectors u (never more): power iteration from likely starts."""
    axes = np.eye(d)
    diagonal = np.array([cubic[packed_size(j + 1) - 1] for j in range(d)])
    order = np.argsort(-np.abs(diagonal))[:8]
    random = np.random.default_rng(0).standard_normal((4, d))
    starts = [-np.sign(diagonal[j] or 1.0) * axes[j] for j in order] + [u / np.linalg.norm(u) for u in random]
    best, gradient = 0.0, np.empty(d)
    for start in starts:
        u = np.ascontiguousarray(start)
        for _ in range(12):
            value = _cubic_gradient(cubic, u, gradient)
            best = max(best, abs(value))  # the cubic is odd: what rises along u falls along -u
            step = np.sign(value or 1.0) * gradient + 0.5 * np.linalg.norm(gradient) * u
            length = np.linalg.norm(step)
            if length == 0.0:
                break
            u = step / length
    return best


def packed_size(d: int) -> int:
    """Return how many coefficients a cubic in d variables has."""
    return d * (d + 1) * (d + 2) // 6


def subtract(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return p - q, where q has no cubic part; parts that cancel are marked as absent."""
    cubic = p.cubic if p.has_cubic else None
    return polynomial(p.linear - q.linear, p.isotropic - q.isotropic, p.quadratic - q.quadratic, cubic)
