"""Thinning trials that a sketch settles without reading the row; called by address, like the plain ones."""

from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress
from tallbayes.kernels.state import BATCH, SUSPECTS
from tallbayes.kernels.target import FALL, RISE
from tallbayes.kernels.thinning import ACCEPTED, REJECTED, UNFINISHED, draw_events, try_row
from tallbayes.kernels.types import TRIALS
from tallbayes.setup.bounds import event_factors, shift
from tallbayes.setup.sketch import (
    CACHE_LINE,
    one_sided_ratio,
    sketch_error,
    sketch_product,
    sketch_products,
    sketch_ratio,
)
from tallbayes.sources.alias import row_or_other, share_of
from tallbayes.sources.prefetch import prefetch, prefetch_byte


def _thin_by_sketch(target: Any, state: Any, budget: Any, rng: Any) -> Any:
    """Do as `thin` does, but read only rows that the sketch does not clear.

    Events are drawn a batch at a time. A rejection drops the rest of its batch; what the clock then has beyond the
    last event, or beyond the step if no event was left, is a fresh exponential.
    """
    whitening, bound, rows, likelihood, _, sketch = target
    codes, steps = sketch
    table, shares = rows.table, rows.shares
    last = shares.shape[0] - 1
    z, proposed, numbers, _, room, _ = state
    now, order, d, width = numbers[0], bound.order, z.size, codes.shape[1]
    before, after, between = event_factors(bound, whitening, z, now.distance, proposed, now.proposed_distance)
    points = np.zeros((3, width), dtype=np.float32)  # z, z' and z' - z
    errors = np.zeros(3)
    unit = sketch_error(d)
    for j in range(d):
        points[0, j] = z[j]
        points[1, j] = proposed[j]
        points[2, j] = proposed[j] - z[j]
        errors[0] += unit * abs(z[j])
        errors[1] += unit * abs(proposed[j])
        errors[2] += unit * abs(proposed[j] - z[j])
    batch, kinds = room.drawn[:, 0], room.drawn[:, 1]
    chances, uniforms = room.chances[:, 0], room.chances[:, 1]
    ready = False
    while now.clock < now.pending:
        if now.work >= budget or now.suspects + BATCH > SUSPECTS:
            return UNFINISHED
        count = draw_events(numbers, table, room.drawn, room.chances, BATCH, bound.total, before, after, rng)
        now.work += count
        # Each loop asks for what the next one reads, and none has a branch that waits for memory.
        for b in range(count):
            batch[b] = row_or_other(table, batch[b], chances[b])
            prefetch(shares, min(batch[b], last))
        left = 0
        for b in range(count):
            share = share_of(shares, kinds[b], batch[b])
            batch[left], kinds[left], uniforms[left], chances[left] = batch[b], kinds[b], uniforms[b], share
            left += uniforms[b] < share
        for b in range(left):
            for byte in range(0, width, CACHE_LINE):
                prefetch_byte(codes, batch[b], byte)
            prefetch(steps, batch[b])
        for b in range(left):
            i = batch[b]
            step = np.float64(steps[i])
            if kinds[b] == RISE:
                ratio = one_sided_ratio(step, sketch_product(codes, i, points[1]), errors[1], order) / after
            elif kinds[b] == FALL:
                ratio = one_sided_ratio(step, sketch_product(codes, i, points[0]), errors[0], order) / before
            else:
                here, there, across = sketch_products(codes, i, points)
                ratio = sketch_ratio(step, here, there, across, errors, order) / between
            now.exposure += min(1.0, ratio)
            chances[b] *= ratio
        for b in range(left):
            if uniforms[b] >= chances[b]:
                continue
            if not ready:
                shift(whitening, z, room.move)
                shift(whitening, proposed, room.other)
                ready = True
            i, kind = batch[b], kinds[b]
            factor = after if kind == RISE else before if kind == FALL else between
            share = share_of(shares, kind, i)
            if try_row(rows, likelihood, numbers, room, order, i, kind, factor, share, uniforms[b]):
                if count < BATCH:
                    now.clock -= now.pending  # it was seen to outlast the step: only what is beyond is fresh
                return REJECTED
    return ACCEPTED


thin_by_sketch = ByAddress(TRIALS, _thin_by_sketch)
