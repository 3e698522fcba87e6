"""Several trials on the surrogate alone, which together are one proposal; called by address."""

from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled_within
from tallbayes.kernels.addressed import EXACT_SLACK, TABLE_FACTS, TABLE_LINES
from tallbayes.kernels.state import BLOCK
from tallbayes.kernels.types import SURROGATE_TRIALS
from tallbayes.setup.bounds import distance_from_centre
from tallbayes.setup.tables import AXIS, table_potential
from tallbayes.sources.memory import matrix_at

TABLE_STEP = 2.0
"""Median length of a walk along all tabulated axes together, in standard deviations at the centre."""


@compiled_within
def walk_along(lines: Any, tables: Any, here: Any, there: Any, rng: Any) -> float:
    """Walk along tabulated axes, by a length of any order of magnitude; return what puts back the tables' G."""
    put_back = 0.0
    length = TABLE_STEP / np.sqrt(tables.shape[0]) * np.exp(rng.standard_normal())
    for t in range(tables.shape[0]):
        axis = int(tables[t, AXIS])
        there[axis] = here[axis] + length * rng.standard_normal()
        put_back += table_potential(lines, tables, t, here[axis]) - table_potential(lines, tables, t, there[axis])
    return put_back


def _surrogate_trials(target: Any, move: Any, state: Any, rng: Any) -> Any:
    """Make an odd number of trials on the surrogate alone, of two kinds in turn, from z to proposed.

    A sequence that reads the same backwards is reversible for the surrogate. Trials stay in the ball, and where the
    surrogate is not too far below its Gaussian part; a start outside that region stays where it is. Returns whether
    anything was accepted.
    """
    whitening, bound, _, _, surrogate, _ = target
    terms, _, value_at, look_ahead, _ = surrogate
    lines, tables = matrix_at(terms.places[TABLE_LINES]), matrix_at(terms.places[TABLE_FACTS])
    z, proposed, numbers, ahead, room, scratch = state
    noise, values, distances = ahead
    candidate = room.row
    _, middle, _, _, _, _, trials, keep, deepest = move
    now, d, radius, floor, slack = numbers[0], z.size, bound.radius, -deepest, terms.numbers[EXACT_SLACK]
    spread = np.sqrt(1.0 - keep * keep)
    value, distance = now.value, now.distance
    inside = distance <= radius and value >= floor * distance * distance - slack
    moved = False
    for j in range(d):
        proposed[j] = z[j]
    for trial in range(trials):
        if now.used == BLOCK:
            look_ahead(terms, whitening, bound, move, ahead, rng)
            now.used = 0
        used = now.used
        if trial % 2 == 0:
            for j in range(d):
                candidate[j] = noise[j, used]
            next_value, next_distance, put_back = values[used], distances[used], 0.0
        else:
            for j in range(d):
                fresh = spread * (noise[j, used] - middle[j])
                candidate[j] = middle[j] + keep * (proposed[j] - middle[j]) + fresh
            put_back = 0.0
            if tables.shape[0] > 0:
                put_back = walk_along(lines, tables, proposed, candidate, rng)
            next_value = value_at(terms, candidate, scratch)
            next_distance = distance_from_centre(bound.local, bound.free, whitening, candidate)
        now.used += 1
        allowed = next_distance <= radius and next_value >= floor * next_distance * next_distance - slack
        rise = next_value - value - put_back
        if inside and allowed and (rise <= 0.0 or rng.standard_exponential() > rise):
            for j in range(d):
                proposed[j] = candidate[j]
            value, distance = next_value, next_distance
            moved = True
    now.proposed_value = value
    now.proposed_distance = distance
    return moved


def _none(target: Any, move: Any, state: Any, rng: Any) -> Any:
    """Stand in where a proposal is made of one trial."""
    return True


surrogate_trials = ByAddress(SURROGATE_TRIALS, _surrogate_trials, borrowing=True)
no_surrogate_trials = ByAddress(SURROGATE_TRIALS, _none, borrowing=True)
