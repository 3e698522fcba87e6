r"""Tabulated directions: one-dimensional densities with long tails, from which proposals are drawn.

Along an axis of z the surrogate is a function of one variable. Its exponential, with minus sign, is replaced by a
density whose logarithm is piecewise linear: it can be drawn from and evaluated to rounding, so it is a proposal like
the normal one, with G known in closed form, and how well it fits decides only how fast a chain is. Beyond its knots it
has exponential tails, heavier than what is tabulated.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

DEEP = 40.0
"""How far the potential rises within a table: beyond, there is e^-40 of the density."""
FIRST_KNOTS, MOST_KNOTS = 65, 1024
CLOSE, ROUGH, LOW = 0.002, 0.05, 8.0
"""How far the potential may be from a straight line between two knots: where it is less than LOW above its least value,
and elsewhere."""
FARTHEST = 5000.0
"""Where a table ends in any case, in standard deviations."""
POSITION, POTENTIAL, CUMULATIVE = range(3)
"""Lines of a table."""
LEFT, RIGHT, GRADIENT, AXIS = range(4)
"""Columns of `Tables.facts`."""


class Tables(NamedTuple):
    """Densities of some coordinates of z; mostly there are none."""

    knots: NDArray[np.float64]
    """For each axis its knots, minus the log density at them, and the probability below them."""
    facts: Matrix
    """For each axis the slopes of the potential beyond the first and the last knot, the gradient of the normal
    density whose place it takes, and the number of the coordinate."""

    @property
    def axes(self) -> NDArray[np.int64]:
        """The coordinates."""
        return self.facts[:, AXIS].astype(np.int64)

    @property
    def lines(self) -> Matrix:
        """The knots as compiled code sees them: three lines for each axis."""
        return self.knots.reshape(-1, self.knots.shape[2])


def no_tables() -> Tables:
    """Return the tables of a normal proposal."""
    return Tables(np.empty((0, 3, 1)), np.empty((0, 4)))


def tabulate(axes: list[int], gradient: Vector, along: Callable[[int, Vector], Vector]) -> Tables:
    """Return tables of some axes.

    Parameters
    ----------
    axes : list of int
        The coordinates.
    gradient : array
        Of the normal proposal, G(z) = gradient . z + |z|^2 / 2.
    along : callable
        ``along(axis, points)``: the potential at points of an axis, the other coordinates being zero.

    Returns
    -------
    Tables
        A density for each.
    """
    if not axes:
        return no_tables()
    found = [_table(lambda points, axis=axis: along(axis, points)) for axis in axes]  # type: ignore[misc]
    most = max(knots.shape[1] for knots, _ in found)
    # Shorter tables repeat their last knot: segments of no length, which are never drawn.
    padded = [
        np.concatenate([knots, np.repeat(knots[:, -1:], most - knots.shape[1], axis=1)], axis=1)
        for knots, _ in found
    ]
    facts = [[*slopes, gradient[axis], axis] for axis, (_, slopes) in zip(axes, found, strict=True)]
    return Tables(np.ascontiguousarray(padded), np.array(facts))


def _table(potential: Callable[[Vector], Vector]) -> tuple[Matrix, tuple[float, float]]:
    """Return the knots of one axis, and the slopes beyond them."""
    low, high, least = _ends(potential)
    scaled = np.linspace(math.asinh(low), math.asinh(high), FIRST_KNOTS)
    knots = np.sinh(scaled)
    knots[[0, -1]] = low, high
    values = potential(knots)
    while knots.size < MOST_KNOTS:
        middle = 0.5 * (knots[1:] + knots[:-1])
        there, straight = potential(middle), 0.5 * (values[1:] + values[:-1])
        height = np.minimum(values[1:], values[:-1]) - least
        split = np.abs(there - straight) > np.where(height < LOW, CLOSE, ROUGH)
        split &= (height < DEEP) & (middle > knots[:-1]) & (middle < knots[1:])
        if not np.any(split):
            break
        at = np.flatnonzero(split) + 1
        knots, values = np.insert(knots, at, middle[split]), np.insert(values, at, there[split])
    return with_probabilities(knots, values, low, high)


def with_probabilities(
    knots: Vector, values: Vector, low: float, high: float
) -> tuple[Matrix, tuple[float, float]]:
    """Return a table with its probabilities, normalised, and the slopes of its tails."""
    rises = np.diff(values)
    slopes = rises / np.diff(knots)
    # Half as steep as the last segment; where the density ends, or does not fall, so steep that nothing is beyond.
    span = knots[-1] - knots[0]
    left = -0.5 * slopes[0] if -slopes[0] * span > 1.0 and math.isfinite(low) else 1e6 / span
    right = 0.5 * slopes[-1] if slopes[-1] * span > 1.0 and math.isfinite(high) else 1e6 / span
    values = values - np.min(values)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # From the lower end of each segment, where the density is largest: steep ones would overflow from the other.
        steep = np.abs(rises)
        mean = np.where(steep < 1e-9, 1.0, -np.expm1(-steep) / np.where(steep == 0.0, 1.0, steep))
        masses = np.diff(knots) * np.exp(-np.minimum(values[:-1], values[1:])) * mean
    parts = np.concatenate([[math.exp(-values[0]) / left], masses, [math.exp(-values[-1]) / right]])
    total = float(np.sum(parts))
    return np.stack([knots, values + math.log(total), np.cumsum(parts)[:-1] / total]), (float(left), float(right))


def _ends(potential: Callable[[Vector], Vector]) -> tuple[float, float, float]:
    """Return between which points the potential is less than DEEP above its least value, and that value."""
    grid = np.sinh(np.linspace(-6.0, 6.0, 97))
    values = potential(grid)
    least = float(np.min(values))
    ends = []
    for side in (-1.0, 1.0):
        inside = float(grid[int(np.argmin(values))])
        step = 0.25
        while abs(inside) < FARTHEST:
            beyond = inside + side * step
            there = float(potential(np.array([beyond]))[0])
            least = min(least, there)
            if not there < math.inf:
                break
            if there - least > DEEP:
                inside = beyond
                break
            inside, step = beyond, 1.5 * step
        else:
            beyond = inside
        if not there < math.inf:  # a wall, to rounding
            for _ in range(200):
                middle = 0.5 * (inside + beyond)
                if middle in (inside, beyond):
                    break
                if float(potential(np.array([middle]))[0]) < math.inf:
                    inside = middle
                else:
                    beyond = middle
        ends.append(inside)
    return ends[0], ends[1], least


def quantile(tables: Tables, t: int, probability: float) -> float:
    """Return about which point of axis t has such a probability below it, between the first and the last knot."""
    return float(np.interp(probability, tables.knots[t, CUMULATIVE], tables.knots[t, POSITION]))


def tables_at(tables: Tables, z: Matrix) -> Vector:
    """Return what tables have more than the normal densities in whose place they are, at the lines of z."""
    total = np.zeros(z.shape[0])
    for b in range(z.shape[0] if tables.facts.size else 0):
        total[b] = table_excess(tables.lines, tables.facts, z[b])
    return total


@compiled
def segment(line: Vector, at: float) -> int:
    """Return between which two of a line of numbers, in rising order, a number is: -1 before the first."""
    low, high = -1, line.size
    while high - low > 1:
        middle = (low + high) // 2
        if line[middle] <= at:
            low = middle
        else:
            high = middle
    return low


@compiled
def table_potential(lines: Matrix, facts: Matrix, t: int, z: float) -> float:
    """Return minus the log density of table t."""
    knots, slopes = lines[3 * t : 3 * t + 3], facts[t]
    last = knots.shape[1] - 1
    k = segment(knots[0], z)
    if k < 0:
        return knots[1, 0] + slopes[0] * (knots[0, 0] - z)
    if k >= last:
        return knots[1, last] + slopes[1] * (z - knots[0, last])
    share = (z - knots[0, k]) / (knots[0, k + 1] - knots[0, k])
    return knots[1, k] + share * (knots[1, k + 1] - knots[1, k])


@compiled
def draw_from_table(lines: Matrix, facts: Matrix, t: int, rng: Any) -> float:
    """Draw from table t: a segment, and a point of it by inversion."""
    knots, slopes = lines[3 * t : 3 * t + 3], facts[t]
    last = knots.shape[1] - 1
    k = segment(knots[2], rng.random())
    if k < 0:
        return knots[0, 0] - rng.standard_exponential() / slopes[0]
    if k >= last:
        return knots[0, last] + rng.standard_exponential() / slopes[1]
    uniform, rise = rng.random(), knots[1, k + 1] - knots[1, k]
    share = uniform
    if rise > 0.0:
        share = -math.log1p(uniform * math.expm1(-rise)) / rise
    elif rise < 0.0:  # the same, written so that a steep fall does not overflow
        share = 1.0 - math.log(uniform + (1.0 - uniform) * math.exp(rise)) / rise
    return knots[0, k] + share * (knots[0, k + 1] - knots[0, k])


@compiled
def put_draws(lines: Matrix, facts: Matrix, z: Matrix, rng: Any) -> None:
    """Put draws from all tables into their coordinates of many points."""
    for t in range(facts.shape[0]):
        for i in range(z.shape[0]):
            z[i, int(facts[t, AXIS])] = draw_from_table(lines, facts, t, rng)


@compiled
def table_excess(lines: Matrix, facts: Matrix, z: Vector) -> float:
    """Return what all tables have more than gradient z + z^2 / 2 of their axes, at one point."""
    total = 0.0
    for t in range(facts.shape[0]):
        at = z[int(facts[t, AXIS])]
        total += table_potential(lines, facts, t, at) - facts[t, 2] * at - 0.5 * at * at
    return total
