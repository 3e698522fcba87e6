"""Thinning trials of bundles of rows, most of which a sketch settles unread; called by address, like the plain ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import ByAddress, compiled_within
from tallbayes.kernels.state import BATCH, SUSPECTS
from tallbayes.kernels.target import FALL, RISE, STEP
from tallbayes.kernels.thinning import ACCEPTED, REJECTED, UNFINISHED, draw_events, suspect, try_row
from tallbayes.kernels.types import TRIALS
from tallbayes.setup.bounds import event_factors, shift
from tallbayes.setup.bundles import FALLS, LARGEST, LIMIT, MOST_FALLS, MOST_RISES, RISES, SCALE, Bundles
from tallbayes.setup.sketch import CACHE_LINE, SLACK, bound_of_both, round_state, sketch_product
from tallbayes.sources.alias import row_or_other, share_of
from tallbayes.sources.prefetch import prefetch_byte

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

AHEAD = 2
"""Events before its own at which the codes of a bundle are asked for."""


@compiled_within
def put_pieces(
    bundles: Bundles,
    bundle: int,
    kind: int,
    order: int,
    points: NDArray[np.int16],
    units: Vector,
    errors: Vector,
    pieces: Matrix,
) -> float:
    """Put upper bounds of what the rows of a bundle may reject by events of a kind into a line; return their sum."""
    codes, _, facts, _, size = bundles
    first = bundle * size
    count = min(size, facts.shape[0] - first)
    if kind == STEP:
        for at in range(3):
            put_distances(codes, facts, first, count, points[at], units[at], errors[at], pieces[at])
        for r in range(count):
            pieces[0, r] = SLACK * bound_of_both(pieces[0, r], pieces[1, r], pieces[2, r], order)
    else:
        at, share = (1, RISES) if kind == RISE else (0, FALLS)
        put_distances(codes, facts, first, count, points[at], units[at], errors[at], pieces[0])
        for r in range(count):
            power = pieces[0, r] * pieces[0, r]  # without a loop over factors, so that rows share instructions
            if order > 1:
                power *= pieces[0, r]
            if order > 2:
                power *= pieces[0, r]
            pieces[0, r] = SLACK * np.float64(facts[first + r, share]) * power
    total = 0.0
    for r in range(count):
        total += pieces[0, r]
    return total


@compiled_within
def put_distances(
    codes: NDArray[np.int8],
    facts: NDArray[np.float32],
    first: int,
    count: int,
    point: NDArray[np.int16],
    unit: float,
    error: float,
    out: Vector,
) -> None:
    """Put psi_i^(1/p) b_i of a state, for the rows of a bundle, into out."""
    for r in range(count):
        out[r] = sketch_product(codes, first + r, point)
    for r in range(count):
        out[r] = np.float64(facts[first + r, SCALE]) * (abs(out[r]) * unit + error)


@compiled_within
def ask_for(bundles: Bundles, bundle: int) -> None:
    """Ask for the memory that a bundle's trial will read."""
    codes, _, facts, _, size = bundles
    for byte in range(0, size * codes.shape[1], CACHE_LINE):
        prefetch_byte(codes, bundle * size, byte)
    for byte in range(0, size * facts.shape[1] * facts.itemsize, CACHE_LINE):
        prefetch_byte(facts, bundle * size, byte)


def _thin_by_sketch(target: Any, state: Any, budget: Any, rng: Any) -> Any:
    """Do as `thin` does with events of bundles: each falls on one of its rows, which is read, or mostly on none.

    Events are drawn a batch at a time. A rejection drops the rest of its batch; what the clock then has beyond the
    last event, or beyond the step if no event was left, is a fresh exponential.
    """
    whitening, bound, rows, likelihood, _, bundles = target
    codes, places, _, table, size = bundles
    z, proposed, numbers, _, room, _ = state
    now, order, free = numbers[0], bound.order, bound.free
    before, after, between = event_factors(bound, whitening, z, now.distance, proposed, now.proposed_distance)
    points = np.zeros((3, codes.shape[1]), dtype=np.int16)  # z, z' and z' - z
    units, errors, pieces = np.empty(3), np.empty(3), np.empty((3, LARGEST))
    units[0], errors[0] = round_state(z, free, points[0])
    units[1], errors[1] = round_state(proposed, free, points[1])
    units[2], errors[2] = round_state(proposed - z, free, points[2])
    drawn, chances = room.drawn, room.chances
    ready = False
    while now.clock < now.pending:
        if now.work >= budget or now.suspects + 2 * BATCH > SUSPECTS:  # of a bundle, and of a row of it
            return UNFINISHED
        count = draw_events(numbers, table, drawn, chances, BATCH, bound.total, before, after, rng)
        now.work += count * size
        left = 0
        for b in range(count):
            bundle, kind, uniform = row_or_other(table, drawn[b, 0], chances[b, 0]), drawn[b, 1], chances[b, 1]
            most = 1.0 if kind == STEP else table[bundle, MOST_RISES if kind == RISE else MOST_FALLS]
            drawn[left, 0], drawn[left, 1] = bundle, kind
            chances[left, 0], chances[left, 1] = most, uniform
            if uniform < most:
                if left < AHEAD:
                    ask_for(bundles, bundle)
                left += 1
        for b in range(left):
            bundle, kind = drawn[b, 0], drawn[b, 1]
            if b + AHEAD < left:
                ask_for(bundles, drawn[b + AHEAD, 0])
            factor = after if kind == RISE else before if kind == FALL else between
            limit = table[bundle, LIMIT] * factor
            total = put_pieces(bundles, bundle, kind, order, points, units, errors, pieces)
            now.exposure += total / (limit * chances[b, 0])
            at = chances[b, 1] * limit
            if at >= total:  # never, if the limit were below the sum of its pieces
                continue
            if not ready:
                shift(whitening, z, room.move)
                shift(whitening, proposed, room.other)
                ready = True
            suspect(numbers, room, order, places[bundle * size], total, chances[b, 0] * limit)
            r, passed = 0, 0.0
            while at >= passed + pieces[0, r]:
                passed += pieces[0, r]
                r += 1
            i = places[bundle * size + r]
            whole = factor * rows.psi[i]
            # The row may reach its piece, and no more.
            share = min(share_of(rows.shares, kind, i), pieces[0, r] / whole)
            uniform = (at - passed) / whole
            if try_row(rows, likelihood, numbers, room, order, i, kind, factor, share, uniform, np.inf):
                if count < BATCH:
                    now.clock -= now.pending  # it was seen to outlast the step: only what is beyond is fresh
                return REJECTED
    return ACCEPTED


thin_by_sketch = ByAddress(TRIALS, _thin_by_sketch)
