r"""Rows with two predictors, a location eta and a log-scale tau: U = g(u) + tau with u = (y - eta) e^-tau.

Every mixed derivative, a times by eta and b times by tau, is e^(-a tau) h_ab(u) (`families/algebraic.py`), a function
of one variable u but for a factor: its range over a box is found from end points and critical points, which are roots
of polynomials, or were isolated by interval arithmetic (`families/certify_noise.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import ByAddress, compiled_within
from tallbayes.families.curve import covers, curve_of, jet, mixed, potential, turning
from tallbayes.families.remainder import (
    FAR,
    FEW,
    FEW_NODES,
    FEW_WEIGHTS,
    MANY,
    MANY_NODES,
    MANY_WEIGHTS,
    NEAR,
)
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, Extremes, RowFunctions, RowsByAddress

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LocationScaleRows(RowsByAddress):
    """Rows of noise with a location and a scale.

    Parameters
    ----------
    curve : NamedTuple
        The noise, of scale 1.
    critical : callable
        Of an order m: for b = 0 to m, every point where h_ab, a = m - b, has a local extreme.
    """

    curve: Any
    critical: Callable[[int], list[Vector]]

    @property
    def functions(self) -> RowFunctions:
        """The functions of this kind of curve."""
        kind: Any = type(self.curve)
        return of_noise(kind)

    @cached_property
    def parameters(self) -> Vector:
        """The curve's parameters, in order."""
        return np.array(self.curve, dtype=np.float64)

    def extremes(self, m: int) -> Matrix:
        """Return two lines for each b: critical points of h_ab, and its values there; filled up with NaN."""
        return self._extremes(m)

    @cached_property
    def _extremes(self) -> Extremes:
        return Extremes(self._find_extremes)

    def _find_extremes(self, m: int) -> Matrix:
        points = self.critical(m)
        out = np.full((2 * (m + 1), max(1, *(len(p) for p in points))), np.nan)
        for b, some in enumerate(points):
            out[2 * b, : len(some)] = some
            out[2 * b + 1, : len(some)] = [mixed(self.curve, float(u), m - b, b) for u in some]
        return out

    def rounding(
        self, response: Vector, eta: Vector, old: Vector, new: Vector, order: int
    ) -> tuple[float, Callable[[Vector], float]]:
        """Return how far rounding can be off in a row's two remainders, and how errors of its predictors count.

        Terms are off by a few units of their size; u, which is a difference and an exponential, by as many units as
        the residual has of itself and tau has of 1.
        """
        shrink = math.exp(-float(eta[1]))
        u, size = (float(response[0]) - float(eta[0])) * shrink, 0.0
        for move in (old, new):
            step, turn = float(move[0]) * shrink, float(move[1])
            there = (u - step) * math.exp(-turn)
            for at, stretch in ((u, 1.0), (there, math.exp(-turn))):
                residual = (abs(float(response[0])) + abs(float(eta[0]))) * shrink + abs(step)
                moved = residual * stretch + abs(at) * (1.0 + abs(float(eta[1])) + abs(turn))
                size += abs(potential(self.curve, at, 0.0)) + abs(jet(self.curve, at, 0.0)[0]) * moved
            for m in range(1, order + 1):
                for b in range(m + 1):
                    term = abs(mixed(self.curve, u, m - b, b)) * abs(step) ** (m - b) * abs(turn) ** b
                    size += term / math.factorial(m - b) / math.factorial(b)
        own = 16.0 * float(np.finfo(np.float64).eps) * size

        def per_predictor(products: Vector) -> float:
            location = (abs(float(response[0])) + float(products[0])) * shrink / self.curve.reach
            return (order + 2) * (location + 2.0 * float(products[1]))

        return own, per_predictor


@compiled_within
def derivative_along(curve: Any, u: float, step: float, turn: float, m: int) -> float:
    """Return the m-th derivative of g(u) along a move of eta e^-tau by `step` and of tau by `turn`."""
    total, choose = 0.0, 1.0
    for b in range(m + 1):
        term = choose * mixed(curve, u, m - b, b)
        for _ in range(m - b):
            term *= step
        for _ in range(b):
            term *= turn
        total += term
        choose = choose * (m - b) / (b + 1)
    return total


@compiled_within
def joint_remainder(curve: Any, u: float, step: float, turn: float, k: int) -> float:
    """Return what the expansion of order k leaves of g(u), for a move of eta e^-tau by `step` and of tau by `turn`.

    As in `families/remainder.py`, along the line from the centre to the point. g((u - s step) e^(-s turn)) is analytic
    in s up to |s| = 1 / (|step| / reach + |turn|) if g is singular at imaginary numbers alone: u e^(-s turn) is one of
    length `reach` nowhere nearer. Of other g, `turning` counts how far u itself moves.
    """
    size = abs(step) / curve.reach + turning(curve, u) * abs(turn)
    if size >= FAR:
        total = potential(curve, (u - step) * math.exp(-turn), 0.0) - potential(curve, u, 0.0)
        factorial = 1.0
        for m in range(1, k + 1):
            factorial *= m
            total -= derivative_along(curve, u, step, turn, m) / factorial
        return total
    total = 0.0
    nodes = FEW if size < NEAR else MANY
    for q in range(nodes):
        at = FEW_NODES[k, q] if nodes == FEW else MANY_NODES[k, q]
        weight = FEW_WEIGHTS[k, q] if nodes == FEW else MANY_WEIGHTS[k, q]
        shrink = math.exp(-at * turn)
        total += weight * derivative_along(curve, (u - at * step) * shrink, step * shrink, turn, k + 1)
    return total


@compiled_within
def range_of_mixed(curve: Any, m: int, b: int, low: float, high: float, extremes: Matrix) -> tuple[float, float]:
    """Return the least and the largest h_ab, a = m - b, on an interval of u; infinite where that is not proved."""
    if not (covers(curve, low, high) and -math.inf < low and high < math.inf):
        return -math.inf, math.inf
    one, other = mixed(curve, low, m - b, b), mixed(curve, high, m - b, b)
    if math.isnan(one) or math.isnan(other):
        return -math.inf, math.inf
    least, largest = min(one, other), max(one, other)
    for j in range(extremes.shape[1]):
        if low < extremes[2 * b, j] < high:
            least = min(least, extremes[2 * b + 1, j])
            largest = max(largest, extremes[2 * b + 1, j])
    return least, largest


@cache
def of_noise(kind: Any) -> RowFunctions:
    """Return the functions of rows with noise of a kind, without the weight."""

    def jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
        curve = curve_of(kind, parameters)
        for r in range(eta.shape[1]):
            tau = eta[1, r]
            shrink = math.exp(-tau)
            u = (responses[r, 0] - eta[0, r]) * shrink
            line = 0
            if first == 0:
                out[0, r] = potential(curve, u, 0.0) + tau
                line = 1
            for m in range(max(first, 1), last + 1):
                for b in range(m + 1):
                    value = mixed(curve, u, m - b, b)
                    for _ in range(m - b):
                        value *= shrink
                    out[line, r] = value + 1.0 if m == 1 and b == 1 else value
                    line += 1
            if majorise:
                # A parabola above g for the location, none of the mixed term, and for tau what is never negative.
                slope = jet(curve, u, 0.0)[0]
                if abs(u) > 1e-8 and slope * u > 0.0:
                    out[line - 3, r] = slope / u * shrink * shrink
                out[line - 2, r] = 0.0
                out[line - 1, r] = max(out[line - 1, r], slope * u)

    def bounds(
        parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
    ) -> None:
        curve = curve_of(kind, parameters)
        for r in range(eta.shape[1]):
            residual, tau = responses[r, 0] - eta[0, r], eta[1, r]
            wide, turn = radius * norms[0, r], radius * norms[1, r]
            least_shrink, most_shrink = math.exp(-tau - turn), math.exp(-tau + turn)
            low, high = residual - wide, residual + wide
            low *= most_shrink if low < 0.0 else least_shrink
            high *= most_shrink if high > 0.0 else least_shrink
            rise, fall, whole, choose = 0.0, 0.0, 0.0, 1.0
            for b in range(m + 1):
                a = m - b
                least, largest = range_of_mixed(curve, m, b, low, high, extremes)
                up, down, length = max(0.0, largest), max(0.0, -least), choose
                for _ in range(a):
                    up *= most_shrink
                    down *= most_shrink
                    length *= norms[0, r]
                for _ in range(b):
                    length *= norms[1, r]
                if m == 1 and b == 1:
                    up, down = max(0.0, 1.0 + largest), max(0.0, -1.0 - least)
                both = up if math.isnan(up) else max(up, down)
                even = a % 2 == 0 and b % 2 == 0
                rise += length * (up if even else both)
                fall += length * (down if even else both)
                whole += length * both
                choose = choose * a / (b + 1)
            out[0, r], out[1, r], out[2, r] = rise, fall, whole

    def remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
        curve = curve_of(kind, parameters)
        shrink = math.exp(-eta[1])
        u = (response[0] - eta[0]) * shrink
        out[0] = joint_remainder(curve, u, old[0] * shrink, old[1], order)
        out[1] = joint_remainder(curve, u, new[0] * shrink, new[1], order)
        if order == 0:
            out[0] += old[1]
            out[1] += new[1]

    return RowFunctions(ByAddress(JETS, jets), ByAddress(BOUNDS, bounds), ByAddress(REMAINDERS, remainders))
