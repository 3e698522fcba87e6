r"""Ordered levels with a normal in the place of the logistic: the cumulative probit.

The lowest and the highest level have one predictor, and the probit's curve. A level between them has the
potential :math:`U = -\log \int_b^a \phi`. Write x = c + h w with h = a - b, c = l a + (1 - l) b for a fixed share l,
and w between -l and 1 - l. As a function of c and h,

.. math:: U = -\log h - \log \int e^{-(c + h w)^2 / 2} dw + \text{const}, \qquad
          \partial_c U = c + h M_1, \quad \partial_h U = c M_1 + h M_2 - 1 / h,

where M_j is the mean of w^j under the density that is proportional to the integrand. Derivatives of M_j are
covariances, so all derivatives are polynomials in c, h, 1/h and M_1 to M_8 (`families/atoms.py`). The share l puts c
at the mean of x at the centre of a box, where M_1 is then 0 and nothing large cancels; of a narrow level only 1/h is
large.

Ranges over a box: the density is proportional to exp(-p w - q w^2) with p = c h and q = h^2 / 2. The mean of an
increasing function falls with p (its covariance with w is not negative), so that of max(w, 0)^j falls and that of
max(-w, 0)^j rises. A change of q by at most d moves the mean of a function that is nowhere negative by a factor between
exp(-d W) and exp(d W), W the largest w^2: the ratio of the two densities has that range. M_j is the sum of those two
means, or their difference.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled
from tallbayes.families.atoms import along, expansion, mixed_value, node, node_count, put_bounds, table_of
from tallbayes.families.base import Matrix, Vector
from tallbayes.families.bernoulli import Bernoulli
from tallbayes.families.curve import jet, potential
from tallbayes.families.levels import LevelRows
from tallbayes.families.probit import ProbitCurve
from tallbayes.families.ranges import derivative_range
from tallbayes.families.remainder import remainder, remainder_rounding
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, RowFunctions

MOMENTS = 8
COUNT = 3 + MOMENTS
_RULES = {"c": ("1", "0"), "h": ("0", "1"), "g": ("0", "-1 g g")}
for _j in range(1, MOMENTS - 1):
    _RULES[f"M{_j}"] = (
        f"-1 h M{_j + 1} + h M{_j} M1",
        f"-1 c M{_j + 1} + c M{_j} M1 - h M{_j + 2} + h M{_j} M2",
    )
TABLE = table_of(
    f"c h g {' '.join(f'M{j}' for j in range(1, MOMENTS + 1))}", ("c + h M1", "c M1 + h M2 - g"), _RULES
)

REACH = ProbitCurve().reach
LOG_ROOT = 0.9189385332046728
"""Of 2 pi."""
CUT = 120.0
"""The normal density is taken to be 0 where x^2 exceeds its least value in the level by this: of no moment up to the
eighth is more than 1e-16 left out."""
SMALL = 4.0
"""Panels over which the log density falls by less than this take few nodes."""
FEW_NODES, FEW_WEIGHTS = (part.copy() for part in np.polynomial.legendre.leggauss(14))
MANY_NODES, MANY_WEIGHTS = (part.copy() for part in np.polynomial.legendre.leggauss(32))


@compiled
def add_panel(first: float, last: float, c: float, h: float, nearest: float, out: Vector) -> None:
    """Add integrals of (|t| / h)^j exp((nearest^2 - (c + t)^2) / 2) from first to last, j = 0, 1, ..., to out."""
    half = 0.5 * (last - first)
    if not half > 0.0:
        return
    few = half * (abs(c + first) + abs(c + last)) < SMALL
    nodes, weights = (FEW_NODES, FEW_WEIGHTS) if few else (MANY_NODES, MANY_WEIGHTS)
    for k in range(nodes.size):
        t = first + half * (1.0 + nodes[k])
        term = half * weights[k] * math.exp(-0.5 * (c + t - nearest) * (c + t + nearest))
        w = abs(t) / h
        for j in range(out.size):
            out[j] += term
            term *= w


@compiled
def put_parts(c: float, down: float, up: float, parts: Matrix) -> float:
    """Put means of max(w, 0)^j and of max(-w, 0)^j into two lines, for x between c - down and c + up; return U."""
    nearest = min(max(0.0, c - down), c + up)
    far = abs(nearest) + CUT / (abs(nearest) + math.sqrt(nearest * nearest + CUT))
    low, high, h = max(-down, -far - c), min(up, far - c), down + up
    middle = min(max(0.0, low), high)
    parts[:] = 0.0
    add_panel(middle, high, c, h, nearest, parts[0])
    add_panel(low, middle, c, h, nearest, parts[1])
    total = parts[0, 0] + parts[1, 0]
    parts /= total
    return 0.5 * nearest * nearest + LOG_ROOT - math.log(total)


@compiled
def mean_of(b: float, a: float, parts: Matrix) -> float:
    """Return the mean of a standard normal between b and a."""
    nearest = min(max(0.0, b), a)
    far = abs(nearest) + CUT / (abs(nearest) + math.sqrt(nearest * nearest + CUT))
    guess = 0.5 * (max(b, -far) + min(a, far))
    put_parts(guess, guess - b, a - guess, parts)
    return min(max(guess + (a - b) * (parts[0, 1] - parts[1, 1]), b), a)


@compiled
def put_atoms(a: float, b: float, parts: Matrix, atoms: Vector) -> tuple[float, float]:
    """Put the atoms into an array, c at the mean of x; return the share l, and U."""
    c, h = mean_of(b, a, parts), a - b
    value = put_parts(c, c - b, a - c, parts)
    atoms[0] = c
    atoms[1] = h
    atoms[2] = 1.0 / h
    for j in range(1, MOMENTS + 1):
        atoms[2 + j] = parts[0, j] + parts[1, j] if j % 2 == 0 else parts[0, j] - parts[1, j]
    return (c - b) / h, value


@compiled
def put_ranges(a: float, b: float, share: float, wide: float, turn: float, low: Vector, high: Vector) -> None:
    """Put numbers between which atoms lie into two arrays: c moves by at most `wide`, h by at most `turn` < h."""
    h = a - b
    c = b + share * h
    one, other = np.empty((2, MOMENTS + 1)), np.empty((2, MOMENTS + 1))
    low[0], high[0] = c - wide, c + wide
    low[1], high[1] = h - turn, h + turn
    low[2], high[2] = 1.0 / high[1], 1.0 / low[1]
    least = min(low[0] * low[1], low[0] * high[1]) / h
    most = max(high[0] * low[1], high[0] * high[1]) / h
    put_parts(least, share * h, (1.0 - share) * h, one)
    put_parts(most, share * h, (1.0 - share) * h, other)
    reach = max(share, 1.0 - share)
    factor = math.exp(0.5 * turn * (2.0 * h + turn) * reach * reach)
    for j in range(1, MOMENTS + 1):  # the first part falls with c h, the second rises
        smaller, larger = other[0, j] / factor, one[0, j] * factor
        if j % 2 == 0:
            low[2 + j] = smaller + one[1, j] / factor
            high[2 + j] = larger + other[1, j] * factor
        else:
            low[2 + j] = smaller - other[1, j] * factor
            high[2 + j] = larger - one[1, j] / factor


@compiled
def turned(atoms: Vector, share: float, m: int, count: int) -> float:
    """Return a derivative of order m, `count` times by b and else by a: d/da = l d/dc + d/dh."""
    factors = np.zeros(m + 1)
    factors[0] = 1.0
    for k in range(m):
        one, other = (1.0 - share, -1.0) if k < count else (share, 1.0)
        for i in range(k + 1, -1, -1):
            factors[i] = factors[i] * one + (factors[i - 1] * other if i > 0 else 0.0)
    total = 0.0
    for i in range(m + 1):
        total += factors[i] * mixed_value(TABLE, atoms, m, i)
    return total


@compiled
def left_over(eta: Vector, move: Vector, k: int, parts: Matrix, atoms: Vector) -> float:
    """Return what the expansion of order k leaves of a row between two cut points, for a move of its predictors."""
    a, b, gap, step = eta[0], eta[1], eta[0] - eta[1], move[0] - move[1]
    if not (gap > 0.0 and gap + step > 0.0):
        return math.inf
    # Singularities: where cut points meet, and complex ones about as far as the probit's.
    nodes = node_count(max(abs(move[0]), abs(move[1])) / 2.0 + abs(step) / min(gap, 2.0))
    line = np.empty(2)
    line[1] = step
    share, value = put_atoms(a, b, parts, atoms)
    if nodes == 0:
        line[0] = share * move[0] + (1.0 - share) * move[1]
        total = -value - expansion(TABLE, atoms, line, k)
        return total + put_atoms(a + move[0], b + move[1], parts, atoms)[1]
    total = 0.0
    for q in range(nodes):
        at, weight = node(k, q, nodes)
        share, _ = put_atoms(a + at * move[0], b + at * move[1], parts, atoms)
        line[0] = share * move[0] + (1.0 - share) * move[1]
        total += weight * along(TABLE, atoms, line, k + 1)
    return total


def _jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
    levels, curve = int(parameters[0]), ProbitCurve(REACH)
    parts, atoms = np.empty((2, MOMENTS + 1)), np.empty(COUNT)
    for r in range(eta.shape[1]):
        level, line = int(responses[r, 0]), 0
        inside, lowest = 0 < level < levels - 1, level == 0
        t = -eta[0, r] if lowest else eta[1, r]
        share, value = 0.0, math.inf
        if inside and eta[0, r] > eta[1, r]:
            share, value = put_atoms(eta[0, r], eta[1, r], parts, atoms)
        g1, g2, g3, _ = jet(curve, t, 0.0)
        for m in range(first, last + 1):
            for count in range(m + 1):  # derivatives by b
                if inside:
                    out[line, r] = turned(atoms, share, m, count) if m > 0 and value < math.inf else value
                elif m == 0:
                    out[line, r] = potential(curve, t, 0.0)
                elif count == (0 if lowest else m):
                    g = g1 if m == 1 else g2 if m == 2 else g3
                    out[line, r] = -g if lowest and m % 2 == 1 else g
                else:
                    out[line, r] = 0.0
                line += 1


def _bounds(
    parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
) -> None:
    levels, curve = int(parameters[0]), ProbitCurve(REACH)
    parts, low, high = np.empty((2, MOMENTS + 1)), np.empty(COUNT), np.empty(COUNT)
    lengths, found = np.empty((2, 1)), np.empty((3, 1))
    for r in range(eta.shape[1]):
        level, a, b = int(responses[r, 0]), eta[0, r], eta[1, r]
        if 0 < level < levels - 1:
            turn = radius * norms[2, r]
            if not a - b - turn > 0.0:
                out[:, r] = math.inf
                continue
            share = (mean_of(b, a, parts) - b) / (a - b)
            lengths[0, 0] = share * norms[0, r] + (1.0 - share) * norms[1, r]
            lengths[1, 0] = norms[2, r]
            put_ranges(a, b, share, radius * lengths[0, 0], turn, low, high)
            put_bounds(TABLE, low, high, lengths, m, 0, found)
            out[:, r] = found[:, 0]
            continue
        lowest = level == 0
        t, size = (-a, norms[0, r]) if lowest else (b, norms[1, r])
        least, largest = derivative_range(curve, m, t - radius * size, t + radius * size, extremes, 0.0)
        up, down, power = max(0.0, largest), max(0.0, -least), size**m
        both = max(up, down)
        out[0, r] = power * (up if m % 2 == 0 else both)
        out[1, r] = power * (down if m % 2 == 0 else both)
        out[2, r] = power * both


def _remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
    levels, level = int(parameters[0]), int(response[0])
    parts, atoms = np.empty((2, MOMENTS + 1)), np.empty(COUNT)
    for end in range(2):
        move = old if end == 0 else new
        if 0 < level < levels - 1:
            out[end] = left_over(eta, move, order, parts, atoms)
        elif level == 0:
            out[end] = remainder(ProbitCurve(REACH), -eta[0], -move[0], order, 0.0)
        else:
            out[end] = remainder(ProbitCurve(REACH), eta[1], move[1], order, 0.0)


FUNCTIONS = RowFunctions(ByAddress(JETS, _jets), ByAddress(BOUNDS, _bounds), ByAddress(REMAINDERS, _remainders))


@dataclass(frozen=True, eq=False)
class ProbitLevelRows(LevelRows):
    """Rows of ordered levels with a probit link."""

    @property
    def functions(self) -> RowFunctions:
        """The same for any number of levels."""
        return FUNCTIONS

    def extremes(self, m: int) -> Matrix:
        """Return those of the probit's curve."""
        return _probit_extremes(m)

    def rounded(self, level: int, eta: Vector, move: Vector, apart: float, order: int) -> float:
        """Return how far rounding can be off in a remainder; of a level between others, with its cuts so far apart."""
        if not self.inside(level):
            sign, j = (-1.0, 0) if level == 0 else (1.0, 1)
            return remainder_rounding(ProbitCurve(), sign * float(eta[j]), sign * float(move[j]), 0.0)
        step = max(abs(float(move[0])), abs(float(move[1])))
        far = 2.0 + abs(float(eta[0])) + abs(float(eta[1])) + 2.0 * step
        least = max(min(apart, apart + float(move[0] - move[1])), 1e-300)
        steep = far + 1.0 / least
        size = far * far + abs(math.log(least)) + steep * far
        size += sum((2.0 * steep * step) ** m for m in range(1, order + 1))
        return 64.0 * float(np.finfo(np.float64).eps) * size


@cache
def _probit_extremes(m: int) -> Matrix:
    return Bernoulli("probit").extremes(m)
