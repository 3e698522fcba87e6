r"""What a Taylor expansion leaves out, computed without losing digits.

The remainder of order k of g at t, for a step delta, is

.. math:: r_k(\delta) = g(t + \delta) - \sum_{m=0}^{k} g^{(m)}(t)\, \delta^m / m!
                      = \frac{\delta^{k+1}}{k!} \int_0^1 (1 - u)^k \, g^{(k+1)}(t + u \delta)\, du .

For small steps the difference loses every digit, so the integral is used, by Gauss-Jacobi quadrature. Its
weights are positive and sum to 1/(k+1)!, so the result also keeps the bound
:math:`|r_k| \le |\delta|^{k+1} \sup |g^{(k+1)}| / (k+1)!` to rounding. A g that is analytic within the distance
``reach`` of the real line makes Q nodes exact up to a factor (4 reach / delta)^(-2 Q): below rounding for the
two rules used here.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_in_line, compiled_within
from tallbayes.families.curve import jet, potential

FEW, MANY = 3, 6
NEAR, FAR = 1.0 / 64.0, 0.25
"""Steps below NEAR * reach take FEW nodes, below FAR * reach MANY, and longer ones the difference."""


def gauss_jacobi(k: int, nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights for the integral of (1 - u)^k f(u) / k! over [0, 1] (Golub-Welsch)."""
    j = np.arange(nodes, dtype=np.float64)
    # Recurrence of the Jacobi polynomials with alpha = k, beta = 0 on [-1, 1].
    centre = np.where(j + k == 0, 0.0, -(k**2) / np.maximum((2 * j + k) * (2 * j + k + 2), 1e-300))
    i = j[1:]
    beside = 2.0 / (2 * i + k) * np.sqrt(i * i * (i + k) ** 2 / ((2 * i + k) ** 2 - 1.0))
    values, vectors = np.linalg.eigh(np.diag(centre) + np.diag(beside, 1) + np.diag(beside, -1))
    return (values + 1.0) / 2.0, vectors[0] ** 2 / math.factorial(k + 1)


_RULES = [[gauss_jacobi(k, nodes) for k in range(4)] for nodes in (FEW, MANY)]
FEW_NODES = np.array([nodes for nodes, _ in _RULES[0]])
FEW_WEIGHTS = np.array([weights for _, weights in _RULES[0]])
MANY_NODES = np.array([nodes for nodes, _ in _RULES[1]])
MANY_WEIGHTS = np.array([weights for _, weights in _RULES[1]])


@compiled_in_line
def derivative(curve: Any, t: float, m: int, piece: float) -> float:
    """Return the m-th derivative of g, m = 1 to 4."""
    g1, g2, g3, g4 = jet(curve, t, piece)
    if m == 1:
        return g1
    if m == 2:
        return g2
    if m == 3:
        return g3
    return g4


@compiled_in_line
def difference(curve: Any, t: float, delta: float, k: int, piece: float) -> float:
    """Return g(t + delta) less the Taylor polynomial of order k of g at t."""
    g1, g2, g3, _ = jet(curve, t, piece)
    total = potential(curve, t, piece)
    if k >= 1:
        total += g1 * delta
    if k >= 2:
        total += g2 * delta * delta / 2.0
    if k >= 3:
        total += g3 * delta * delta * delta / 6.0
    return potential(curve, t + delta, piece) - total


@compiled_within
def remainder(curve: Any, t: float, delta: float, k: int, piece: float) -> float:
    """Return the remainder of order k, 0 to 3, of g at t for a step delta.

    What evaluates g is in functions of one kind, put in line: Numba compiles g anew for each kind of caller.
    """
    size = abs(delta) / curve.reach
    if size >= FAR:
        return difference(curve, t, delta, k, piece)
    total = 0.0
    if size < NEAR:
        for q in range(FEW):
            total += FEW_WEIGHTS[k, q] * derivative(curve, t + FEW_NODES[k, q] * delta, k + 1, piece)
    else:
        for q in range(MANY):
            total += MANY_WEIGHTS[k, q] * derivative(curve, t + MANY_NODES[k, q] * delta, k + 1, piece)
    for _ in range(k + 1):
        total *= delta
    return total


def remainder_rounding(curve: Any, t: float, delta: float, piece: float) -> float:
    """Return a bound on the rounding error of `remainder`, of any order, given t and delta; plain Python.

    The difference of m terms, each computed to a few units in the last place, is off by at most that many
    times the largest term; the quadrature is off by a few units of its own result, which is smaller.
    """
    g1, g2, g3, _ = jet(curve, t, piece)
    step = abs(delta)
    size = abs(potential(curve, t, piece)) + abs(potential(curve, t + delta, piece))
    size += abs(g1) * step + abs(g2) * step**2 / 2.0 + abs(g3) * step**3 / 6.0
    # A predictor that is off by an ulp moves g by |g' t| ulps.
    size += abs(g1) * (abs(t) + step)
    return 16.0 * 2.220446049250313e-16 * size
