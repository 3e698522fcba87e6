"""Thinning trials of one step, (P) Algorithm 1: whether any row rejects it.

An event of the step's Poisson process draws row i with probability psi_i / Psi and rejects with probability
lambda_i / bar lambda_i. Called by address, as is the variant that uses a sketch: only the one in use compiles.
"""

from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled
from tallbayes.kernels.state import FACTS, FAR, INTENSITY, LIMIT, ROW, SUSPECTS, State
from tallbayes.kernels.target import FALL, RISE, STEP, Target
from tallbayes.kernels.types import TRIALS
from tallbayes.setup.bounds import event_factors, shift
from tallbayes.sources.alias import draw_row, share_of
from tallbayes.sources.memory import load_row

REJECTED, ACCEPTED, UNFINISHED, OUT_OF_ROWS = range(4)
"""How the trials of a step end: a row rejected it; none did; the budget, or the room for suspects, was spent; or the
supplied rows were."""

CERTAIN = 16.0 * 2.220446049250313e-16
"""For each of (k + 1) (d + 2): rounding of a bound alone, without that of the row. Less is not worth a closer look."""


@compiled
def kind_of(pending: float, total: float, before: float, after: float) -> int:
    """Return the kind of the event that leaves `pending` of the rate: first come rises, then falls."""
    if before + after == 0.0:
        return STEP
    return RISE if pending >= total * before and after > 0.0 else FALL


@compiled
def intensity_of(kind: int, before: float, after: float) -> float:
    """Return the part of lambda_i = max(0, after - before) that events of a kind account for.

    A rise is at most the positive part of the remainder at z', a fall at most the negative part of that at z, and
    together they are lambda_i.
    """
    intensity = max(0.0, after - before)
    if kind == STEP:
        return intensity
    rise = min(intensity, max(0.0, after))
    return rise if kind == RISE else intensity - rise


@compiled
def row_intensity(target: Target, state: State, i: int, kind: int) -> float:
    """Return the intensity of row i for a step between the two states in the first lines of `room`."""
    room, centre, rows = state.room, target.centre, target.rows
    d = centre.size
    move, other, row = room[0, :d], room[1, :d], room[2, :d]
    eta, old, new, pair = room[4], room[5], room[6], room[7]
    if target.linear:
        load_row(rows.design, i, row)
        at_centre, before, after = 0.0, 0.0, 0.0
        for j in range(d):
            at_centre += row[j] * centre[j]
            before += row[j] * move[j]
            after += row[j] * other[j]
        eta[0] = at_centre + rows.offset[min(i, rows.offset.size - 1)]
        old[0] = before
        new[0] = after
        target.remainders(target.parameters, rows.responses[i], eta, old, new, target.bound.order, pair)
    else:
        target.remainders(target.parameters, rows.responses[i], centre, move, other, target.bound.order, pair)
    weight = rows.weight[min(i, rows.weight.size - 1)]
    return intensity_of(kind, weight * pair[0], weight * pair[1])


@compiled
def try_row(target: Target, state: State, i: int, kind: int, factor: float, share: float, uniform: float) -> bool:
    """Return whether an event of row i rejects the step; an intensity above its bound is kept for a closer look."""
    now = state.numbers[0]
    limit = factor * target.rows.psi[i]
    intensity = row_intensity(target, state, i, kind)
    now.rows += 1
    d, order = target.centre.size, target.bound.order
    if not intensity <= limit * share * (1.0 + CERTAIN * (order + 1) * (d + 2)):
        suspect = state.suspects[now.suspects]
        suspect[ROW], suspect[INTENSITY], suspect[LIMIT] = i, intensity, limit * share
        suspect[FAR] = max(now.distance, now.proposed_distance)
        for j in range(d):
            suspect[FACTS + j] = state.room[0, j]
            suspect[FACTS + d + j] = state.room[1, j]
        now.suspects += 1
    return uniform * limit < intensity


def _thin(target: Any, state: Any, budget: Any, rng: Any) -> Any:
    """Go through the events of a step until one rejects, none is left, or the budget is spent."""
    now = state.numbers[0]
    shares, table, whitening = target.rows.shares, target.rows.table, target.whitening
    total, slots = target.bound.total, target.rows.psi.size
    d = target.centre.size
    before, after, between = event_factors(
        target.bound, whitening, state.z, now.distance, state.proposed, now.proposed_distance
    )
    shift(whitening, state.z, state.room[0, :d])
    shift(whitening, state.proposed, state.room[1, :d])
    while now.clock < now.pending:
        if now.work >= budget or now.suspects == SUSPECTS:
            return UNFINISHED
        if table.size == 0 and now.slot == slots:
            return OUT_OF_ROWS
        now.pending -= now.clock
        now.clock = rng.standard_exponential()
        if table.size > 0:
            i = draw_row(table, rng)
        else:
            i = now.slot
            now.slot += 1
        uniform = rng.random()
        now.work += 1
        kind = kind_of(now.pending, total, before, after)
        share = share_of(shares, kind, i)
        if uniform >= share:
            continue
        factor = after if kind == RISE else before if kind == FALL else between
        if try_row(target, state, i, kind, factor, share, uniform):
            return REJECTED
    return ACCEPTED


thin = ByAddress(TRIALS, _thin)
