"""Polynomials of degree three in whitened coordinates, without a constant."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_sum

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


LANES = 8
"""Running sums side by side in an evaluation at one point."""
WIDTH = 64
"""Columns that are evaluated together."""


class Polynomial(NamedTuple):
    r"""p(z) = linear . z + isotropic / 2 |z|^2 + z' quadratic z / 2 + cubic(z).

    Quadratic and cubic parts that are identically zero are empty. The cubic is packed: entry (i, j, k), i >= j >= k,
    holds the coefficient of z_i z_j z_k.
    """

    linear: Vector
    isotropic: float
    quadratic: Matrix
    cubic: Vector
    padded: Vector
    """The cubic once more, every row (i, j) padded with zeros to a multiple of LANES, for one z at a time."""

    @property
    def is_zero(self) -> bool:
        """Whether it vanishes everywhere."""
        return self.isotropic == 0.0 and not (np.any(self.linear) or self.quadratic.size or self.cubic.size)


def polynomial(
    linear: Vector, isotropic: float = 0.0, quadratic: Matrix | None = None, cubic: Vector | None = None
) -> Polynomial:
    """Return a polynomial from its parts; parts left out, or exactly zero, are absent."""
    d = linear.size
    matrix = np.zeros((0, 0)) if quadratic is None or not np.any(quadratic) else np.ascontiguousarray(quadratic)
    packed = np.zeros(0) if cubic is None or not np.any(cubic) else np.ascontiguousarray(cubic)
    padded = _padded(packed, d) if packed.size else packed
    return Polynomial(np.ascontiguousarray(linear), float(isotropic), matrix, packed, padded)


def _padded(packed: Vector, d: int) -> Vector:
    lengths = np.concatenate([np.arange(1, i + 2) for i in range(d)])
    room = -(-lengths // LANES) * LANES
    starts = np.cumsum(room) - room
    at = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(packed.size)
    padded = np.zeros(int(np.sum(room)))
    padded[at] = packed
    return padded


def evaluate(p: Polynomial, z: Matrix) -> Vector:
    """Return p at the points in the lines of z."""
    values = z @ p.linear + 0.5 * p.isotropic * np.einsum("bi,bi->b", z, z)
    if p.quadratic.size:
        values += 0.5 * np.einsum("bi,bi->b", z @ p.quadratic.T, z)
    if p.cubic.size:
        for first in range(0, z.shape[0], WIDTH):
            some = np.zeros((z.shape[1], WIDTH))
            count = min(WIDTH, z.shape[0] - first)
            some[:, :count] = z[first : first + count].T
            total = np.zeros(WIDTH)
            add_cubic(p.cubic, some, np.empty(WIDTH), total)
            values[first : first + count] += total[:count]
    return np.asarray(values)


@compiled_sum
def add_cubic(cubic: Vector, z: Matrix, inner: Vector, values: Vector) -> None:
    """Add the packed cubic of every column of z to values, four coefficients at a time; inner is scratch space.

    There are WIDTH columns, along which the inner loops use SIMD.
    """
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
def evaluate_one(
    linear: Vector, isotropic: float, quadratic: Matrix, padded: Vector, z: Vector, scratch: Vector
) -> float:
    """Return p(z) without an allocation, for use in a loop.

    `scratch` has d + LANES entries, the last LANES of them zero.
    """
    d = z.size
    total = 0.0
    for j in range(d):
        total += linear[j] * z[j] + 0.5 * isotropic * z[j] * z[j]
    if quadratic.size > 0:
        for i in range(d):
            inner = 0.0
            for j in range(d):
                inner += quadratic[i, j] * z[j]
            total += 0.5 * z[i] * inner
    if padded.size > 0:
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


def without_first(cubic: Vector, d: int, count: int) -> tuple[Vector, int]:
    """Return a cubic where the first so many variables are zero, and how many others there are."""
    if count == 0 or cubic.size == 0:
        return cubic, d
    kept = [
        np.full(b + 1, a >= count and b >= count) & (np.arange(b + 1) >= count)
        for a in range(d)
        for b in range(a + 1)
    ]
    return cubic[np.concatenate(kept)], d - count


def packed_size(d: int) -> int:
    """Return how many coefficients a cubic in d variables has."""
    return d * (d + 1) * (d + 2) // 6


def subtract(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return p - q, where q has no cubic part; parts that cancel are absent."""
    d = p.linear.size
    quadratic = np.zeros((d, d))
    for sign, matrix in ((1.0, p.quadratic), (-1.0, q.quadratic)):
        if matrix.size:
            quadratic += sign * matrix
    return polynomial(p.linear - q.linear, p.isotropic - q.isotropic, quadratic, p.cubic)
