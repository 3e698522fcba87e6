r"""Counts of unknown overdispersion: rows with the log mean eta and the log size tau.

With f = e^tau, t = eta - tau, L = log(1 + e^t), s = 1 / (1 + e^-t), c = 1 - s and r_j = j / (f + j),

.. math:: U = f L + y \log(1 + e^{-t}) - \tau - \sum_{0 < j < y} \log(1 + f / j), \qquad
          \partial_\eta U = f s - y c, \quad \partial_\tau U = A_1 + f L - (y + f) s,

where A_k is the sum of r_j^k over j < y: the log-gamma functions of a count are finite sums. Derivatives are
polynomials in y, f, L, s, c and A_1 to A_4, which are monotone in both predictors (`families/atoms.py`).

Of large counts the first terms are added one by one, and the others are an integral with corrections at its ends (Euler
and Maclaurin): both to a few units of rounding, far less than what ranges are widened by.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled
from tallbayes.families.atoms import AtomRows, along, expansion, node, node_count, put_bounds, put_jets, table_of
from tallbayes.families.base import Vector
from tallbayes.families.elementary import exp, expit, softplus
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, RowFunctions

COUNT = 9
SUMS = 5
"""The first of the atoms that are sums."""
TABLE = table_of(
    "y f L s c A1 A2 A3 A4",
    ("f s - y c", "A1 + f L - y s - f s"),
    {
        "f": ("0", "f"),
        "L": ("s", "-1 s"),
        "s": ("s c", "-1 s c"),
        "c": ("-1 s c", "s c"),
        "A1": ("0", "-1 A1 + A2"),
        "A2": ("0", "-2 A2 + 2 A3"),
        "A3": ("0", "-3 A3 + 3 A4"),
    },
)

PLAIN = 64
"""So many terms of a sum are added one by one; after them the corrections left out are below 1e-16."""
PANEL = 2.0
"""Longest panel of the integral, in the logarithm: twelve nodes are exact to rounding there, poles being pi away."""
NODES, WEIGHTS = (part.copy() for part in np.polynomial.legendre.leggauss(12))


@compiled
def put_sums(y: float, f: float, sums: Vector) -> None:
    """Put the sums of r_j^k over j < y into an array, k = 1 to 4."""
    sums[:] = 0.0
    for j in range(1, int(min(y, PLAIN))):
        put_powers(j / (f + j), 1.0, sums)
    if not y > PLAIN:
        return
    first, last = math.log(PLAIN), math.log(y)
    panels = int((last - first) / PANEL) + 1
    half = 0.5 * (last - first) / panels
    for panel in range(panels):
        for place in range(NODES.size):
            x = math.exp(first + half * (2 * panel + 1 + NODES[place]))
            put_powers(x / (f + x), half * WEIGHTS[place] * x, sums)
    put_end(float(PLAIN), f, -1.0, sums)
    put_end(y, f, 1.0, sums)


@compiled
def put_powers(r: float, weight: float, sums: Vector) -> None:
    """Add the powers of r, times a weight."""
    for k in range(4):
        weight *= r
        sums[k] += weight


@compiled
def put_end(x: float, f: float, sign: float, sums: Vector) -> None:
    """Add what the ends of the integral are corrected by: half of r^k, and its first, third and fifth derivative.

    With z = f + x, r is 1 - f / (z + e) as a function of a step e: a series in e / z, whose powers are multiplied out.
    """
    z = f + x
    r, q = x / z, 1.0 / (1.0 + x / f)
    one = np.array([r, q, -q, q, -q, q])
    power = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    for k in range(4):
        for n in range(5, -1, -1):
            total = 0.0
            for j in range(n + 1):
                total += power[j] * one[n - j]
            power[n] = total
        ends = power[1] / 12.0 - (power[3] / 120.0 - power[5] / (252.0 * z * z)) / (z * z)
        sums[k] += sign * (ends / z - 0.5 * power[0])


@compiled
def log_sum(y: float, f: float) -> float:
    """Return the sum of log(1 + f / j) over 0 < j < y."""
    total = 0.0
    for j in range(1, int(min(y, PLAIN))):
        total += math.log1p(f / j)
    return log_sum_beyond(total, y, f)


@compiled
def put_log_sums(f: float, sums: Vector) -> None:
    """Put the sums of log(1 + f / j) over 0 < j < k into sums[k], for k = 1 to PLAIN."""
    sums[:2] = 0.0
    for k in range(2, PLAIN + 1):
        sums[k] = sums[k - 1] + math.log1p(f / (k - 1))


@compiled
def log_sum_beyond(total: float, y: float, f: float) -> float:
    """Return the sum of log(1 + f / j) over 0 < j < y, given that of its plain terms."""
    if not y > PLAIN:
        return total
    first, last = math.log(PLAIN), math.log(y)
    panels = int((last - first) / PANEL) + 1
    half = 0.5 * (last - first) / panels
    for panel in range(panels):
        for place in range(NODES.size):
            x = math.exp(first + half * (2 * panel + 1 + NODES[place]))
            total += half * WEIGHTS[place] * x * math.log1p(f / x)
    for end in range(2):
        x, sign = (float(PLAIN), -1.0) if end == 0 else (y, 1.0)
        z = f + x
        ends = -f / (12.0 * x * z) - (z**-3 - x**-3) / 360.0 + (z**-5 - x**-5) / 1260.0
        total += sign * (ends - 0.5 * math.log1p(f / x))
    return total


@compiled
def put_atoms(y: float, eta: float, tau: float, size: float, out: Vector) -> None:
    """Put the atoms into out: L, s and c at (eta, tau), the others at a log size of their own."""
    f = exp(size)
    out[0] = y
    out[1] = f
    out[2] = softplus(eta - tau)
    out[3] = expit(eta - tau)
    out[4] = expit(tau - eta)
    put_sums(y, f, out[SUMS:])


@compiled
def potential_of(y: float, eta: float, tau: float, f: float, logs: float) -> float:
    """Return U, up to a constant, given f = e^tau and the sum of log(1 + f / j) over 0 < j < y."""
    total = f * softplus(eta - tau)
    if y > 0.0:
        total += y * softplus(tau - eta) - tau - logs
    return total


@compiled
def potential_at(y: float, eta: float, tau: float) -> float:
    """Return U, up to a constant."""
    f = exp(tau)
    return potential_of(y, eta, tau, f, log_sum(y, f))


@compiled
def left_over(y: float, eta: Vector, move: Vector, k: int, atoms: Vector) -> float:
    """Return what the expansion of order k leaves of a row, for a move of its predictors."""
    # Singularities: where e^t or e^tau / j is -1.
    size = (abs(move[0]) + 2.0 * abs(move[1])) / math.pi
    nodes = node_count(size)
    if nodes == 0:
        total = potential_at(y, eta[0] + move[0], eta[1] + move[1]) - potential_at(y, eta[0], eta[1])
        put_atoms(y, eta[0], eta[1], eta[1], atoms)
        return total - expansion(TABLE, atoms, move, k)
    total = 0.0
    for q in range(nodes):
        at, weight = node(k, q, nodes)
        tau = eta[1] + at * move[1]
        put_atoms(y, eta[0] + at * move[0], tau, tau, atoms)
        total += weight * along(TABLE, atoms, move, k + 1)
    return total


def _jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
    atoms, plain = np.empty(COUNT), np.empty(PLAIN + 1)
    f = known = math.nan  # rows share a size, and so sums of logarithms
    for r in range(eta.shape[1]):
        y = responses[r, 0]
        if first == 0:
            if eta[1, r] != known:
                known = eta[1, r]
                f = exp(known)
                put_log_sums(f, plain)
            logs = log_sum_beyond(plain[int(max(min(y, PLAIN), 1.0))], y, f)
            out[0, r] = potential_of(y, eta[0, r], known, f, logs)
        if last == 0:
            continue
        put_atoms(y, eta[0, r], eta[1, r], eta[1, r], atoms)
        put_jets(TABLE, atoms, first, last, r, out)
        if majorise:  # the mixed term left out, and no negative curvature in the size
            at = 3 if first == 0 else 0
            out[at + 1, r] = 0.0
            out[at + 2, r] = abs(out[at + 2, r]) + 0.1


def _bounds(
    parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
) -> None:
    low, high = np.empty(COUNT), np.empty(COUNT)
    for r in range(eta.shape[1]):
        y, wide, turn = responses[r, 0], radius * norms[0, r], radius * norms[1, r]
        least, most = eta[1, r] - turn, eta[1, r] + turn
        put_atoms(y, eta[0, r] - wide, most, least, low)  # L and s rise with eta and fall with tau, f rises
        put_atoms(y, eta[0, r] + wide, least, most, high)
        for j in range(4, COUNT):  # these fall
            low[j], high[j] = high[j], low[j]
        put_bounds(TABLE, low, high, norms, m, r, out)


def _remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
    atoms = np.empty(COUNT)
    out[0] = left_over(response[0], eta, old, order, atoms)
    out[1] = left_over(response[0], eta, new, order, atoms)


FUNCTIONS = RowFunctions(ByAddress(JETS, _jets), ByAddress(BOUNDS, _bounds), ByAddress(REMAINDERS, _remainders))


@dataclass(frozen=True, eq=False)
class DispersedRows(AtomRows):
    """Rows of counts with an unknown size."""

    @property
    def functions(self) -> RowFunctions:
        """The functions."""
        return FUNCTIONS

    def terms(self, response: Vector, eta: Vector, step: float, turn: float, order: int) -> float:
        """Return the size of what a remainder is the sum of, where predictors move by so much."""
        y, f = float(response[0]), math.exp(float(eta[1]) + turn)
        reach = 2.0 + abs(float(eta[0])) + abs(float(eta[1])) + step + turn
        powers = sum((step + turn) ** m for m in range(1, order + 1))
        return (2.0 * y + f) * reach * (2.0 + math.log1p(y) + powers)
