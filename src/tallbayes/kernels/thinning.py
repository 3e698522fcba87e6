"""Thinning trials of one step, (P) Algorithm 1: whether any row rejects it.

An event of the step's Poisson process draws row i with probability psi_i / Psi and rejects with probability
lambda_i / bar lambda_i. Called by address, as is the variant that uses a sketch: only the one in use compiles.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import ByAddress, compiled_within
from tallbayes.kernels.state import BATCH, FACTS, FAR, INTENSITY, LIMIT, ROW, SUSPECTS, Room
from tallbayes.kernels.target import FALL, RISE, STEP, Likelihood
from tallbayes.kernels.types import TRIALS
from tallbayes.models.predictors import predict_in_line, two_products
from tallbayes.setup.bounds import event_factors, shift
from tallbayes.setup.sketch import bound_of_both
from tallbayes.sources.alias import row_or_other, share_of, uniform_index
from tallbayes.sources.memory import COLUMNS, load_row, prefetch_row
from tallbayes.sources.prefetch import prefetch
from tallbayes.sources.supply import SuppliedRows

Matrix = NDArray[np.float64]

REJECTED, ACCEPTED, UNFINISHED, OUT_OF_ROWS = range(4)
"""How the trials of a step end: a row rejected it; none did; the budget, or the room for suspects, was spent; or the
supplied rows were."""

CERTAIN = 16.0 * 2.220446049250313e-16
"""For each of (k + 1) (d + 2): rounding of a bound alone, without that of the row. Less is not worth a closer look."""
ROUNDING = 1e-9
"""By how much a row must be sure not to reject: far more than rounding can make of it."""


@compiled_within
def kind_of(pending: float, total: float, before: float, after: float) -> int:
    """Return the kind of the event that leaves `pending` of the rate: first come rises, then falls."""
    if before + after == 0.0:
        return STEP
    return RISE if pending >= total * before and after > 0.0 else FALL


@compiled_within
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


@compiled_within
def try_row(
    rows: SuppliedRows,
    likelihood: Likelihood,
    numbers: Any,
    room: Room,
    order: int,
    i: int,
    kind: int,
    factor: float,
    share: float,
    uniform: float,
    steepest: float,
) -> bool:
    """Return whether an event of row i rejects the step; an intensity above its bound is kept for a closer look.

    A row whose predictor moves little cannot reject, whatever its remainders are (docs/mathematics.md, section 4): most
    are settled by that.
    """
    design, responses, weights, offsets, psi, _, _ = rows
    centre, layout, remainders, parameters = likelihood
    _, move, other, row, ends, pair, _, _ = room
    if layout.shape[0] > 0:
        x = row[: design[COLUMNS]]
        load_row(design, i, x)
        if steepest < np.inf and order > 0:
            before, after = two_products(x, move, other)
            at_most = steepest * bound_of_both(abs(before), abs(after), abs(after - before), order)
            if at_most * (1.0 + ROUNDING) <= uniform * factor * psi[i]:
                numbers[0].rows += 1
                return False
        offset = offsets[min(i, offsets.size - 1)]
        predict_in_line(layout, x, responses[i], offset, centre, move, other, ends)
        remainders(parameters, responses[i], ends[0], ends[1], ends[2], order, pair)
    else:
        remainders(parameters, responses[i], centre, move, other, order, pair)
    weight = weights[min(i, weights.size - 1)]
    intensity = intensity_of(kind, weight * pair[0], weight * pair[1])
    limit = factor * psi[i]
    numbers[0].rows += 1
    suspect(numbers, room, order, i, intensity, limit * share)
    return uniform * limit < intensity


@compiled_within
def suspect(numbers: Any, room: Room, order: int, i: int, intensity: float, limit: float) -> None:
    """Keep what is above its limit, but for the rounding of that, for a closer look (`kernels/monitor.py`)."""
    suspects, move, other, _, _, _, _, _ = room
    now, d = numbers[0], move.size
    if intensity <= limit * (1.0 + CERTAIN * (order + 1) * (d + 2)):
        return
    at = now.suspects
    suspects[at, ROW] = i
    suspects[at, INTENSITY] = intensity
    suspects[at, LIMIT] = limit
    suspects[at, FAR] = max(now.distance, now.proposed_distance)
    for j in range(d):
        suspects[at, FACTS + j] = move[j]
        suspects[at, FACTS + d + j] = other[j]
    now.suspects += 1


@compiled_within
def draw_events(
    numbers: Any,
    table: Matrix,
    drawn: NDArray[np.int64],
    chances: Matrix,
    most: int,
    total: float,
    before: float,
    after: float,
    rng: Any,
) -> int:
    """Draw the next events of a step, at most so many, and return how many there were.

    Each has a line: in `drawn` a row and the event's kind, in `chances` two uniform random numbers. The first of them
    decides between the row, which was chosen uniformly, and its other; without a table rows come in order.
    """
    now, count = numbers[0], 0
    while count < most and now.clock < now.pending:
        now.pending -= now.clock
        now.clock = rng.standard_exponential()
        if table.size > 0:
            first = uniform_index(table.shape[0], rng)
            prefetch(table, first)
            chances[count, 0] = rng.random()
        else:
            first = now.slot
            now.slot += 1
        drawn[count, 0] = first
        drawn[count, 1] = kind_of(now.pending, total, before, after)
        chances[count, 1] = rng.random()
        count += 1
    return count


def _thin(target: Any, state: Any, budget: Any, rng: Any) -> Any:
    """Go through the events of a step until one rejects, none is left, or the budget is spent.

    Of rows in memory events are drawn a batch at a time. A rejection drops the rest of its batch; what the clock then
    has beyond the last event, or beyond the step if no event was left, is a fresh exponential.
    """
    whitening, bound, rows, likelihood, _, _ = target
    design, responses, _, _, psi, shares, table = rows
    z, proposed, numbers, _, room, _ = state
    drawn, chances = room.drawn, room.chances
    now, total = numbers[0], bound.total
    before, after, between = event_factors(bound, whitening, z, now.distance, proposed, now.proposed_distance)
    shift(whitening, z, room.move)
    shift(whitening, proposed, room.other)
    batch = BATCH if table.size > 0 else 1  # supplied rows are used once, and lie side by side
    while now.clock < now.pending:
        if now.work >= budget or now.suspects + batch > SUSPECTS:
            return UNFINISHED
        if table.size == 0 and now.slot == psi.size:
            return OUT_OF_ROWS
        count = draw_events(numbers, table, drawn, chances, batch, total, before, after, rng)
        now.work += count
        if table.size > 0:
            for b in range(count):
                i = row_or_other(table, drawn[b, 0], chances[b, 0])
                drawn[b, 0] = i
                prefetch(psi, i)
                prefetch(responses, i)
                prefetch_row(design, i)
        for b in range(count):
            i, kind, uniform = drawn[b, 0], drawn[b, 1], chances[b, 1]
            share = share_of(shares, kind, i)
            if uniform >= share:
                continue
            factor = after if kind == RISE else before if kind == FALL else between
            if try_row(
                rows, likelihood, numbers, room, bound.order, i, kind, factor, share, uniform, bound.steepest
            ):
                if count < batch:
                    now.clock -= now.pending  # it was seen to outlast the step: only what is beyond is fresh
                return REJECTED
    return ACCEPTED


thin = ByAddress(TRIALS, _thin, borrowing=True)
