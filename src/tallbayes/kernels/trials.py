"""Thinning trials of one step: whether any row rejects it.

Compiled functions here take arrays one by one, not in tuples: taking an array out of a tuple costs a reference
count, and in these loops that would cost more than the work.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.target import FALL, RISE, STEP, Target, intensity_of, rounding_floor, row_remainders
from tallbayes.prefetch import prefetch
from tallbayes.surrogate.alias import draw_row, share_of, uniform_index
from tallbayes.surrogate.bounds import shift
from tallbayes.surrogate.sketch import (
    STEP_FACT,
    one_sided_ratio,
    sketch_error,
    sketch_product,
    sketch_products,
    sketch_ratio,
)

Vector = NDArray[np.float64]
Single = NDArray[np.float32]

BATCH = 32
"""Trials that are made together, so that waits for memory overlap."""


@compiled
def exceeds(
    target: Target, i: int, intensity: float, limit: float, far: float, move: Vector, other: Vector
) -> bool:
    """Return whether an intensity breaks its bound by more than rounding can: the draws would not be exact."""
    return intensity > limit + rounding_floor(target, target.curve, i, far, move, other, limit)


@compiled
def kind_of(pending: float, total: float, before: float, after: float) -> int:
    """Return the kind of the event that leaves `pending` of the rate: first come rises, then falls."""
    if before + after == 0.0:
        return STEP
    return RISE if pending >= total * before and after > 0.0 else FALL


@compiled
def thin(
    target: Target,
    curve: Any,
    order: int,
    X: NDArray[Any],
    y: Vector,
    weight: Vector,
    offset: Vector,
    centre: Vector,
    psi: Vector,
    keep: Vector,
    alias: Vector,
    shares: Single,
    total: float,
    before: float,
    after: float,
    between: float,
    far: float,
    move: Vector,
    other: Vector,
    clock: float,
    pending: float,
    budget: int,
    rng: np.random.Generator,
) -> tuple[bool, float, float, int, int, int]:
    """Go through the events of a step, (P) Algorithm 1, until one rejects, none is left, or the budget is spent.

    Returns whether no row rejected, the clock, the rate still pending, the rows looked at, broken bounds, events.
    """
    accept = True
    looked, events, violations = 0, 0, 0
    while accept and clock < pending and events < budget:
        pending -= clock
        clock = rng.standard_exponential()
        i = draw_row(keep, alias, rng)
        uniform = rng.random()
        events += 1
        kind = kind_of(pending, total, before, after)
        share = share_of(shares, kind, i)
        if uniform >= share:
            continue
        looked += 1
        limit = (after if kind == RISE else before if kind == FALL else between) * psi[i]
        old, new = row_remainders(curve, order, X, y, weight, offset, centre, i, move, other)
        intensity = intensity_of(kind, old, new)
        if intensity > limit * share and exceeds(target, i, intensity, limit * share, far, move, other):
            violations += 1
        accept = not uniform * limit < intensity
    return accept, clock, pending, looked, violations, events


@compiled
def thin_by_sketch(
    target: Target,
    curve: Any,
    order: int,
    X: NDArray[Any],
    y: Vector,
    weight: Vector,
    offset: Vector,
    centre: Vector,
    psi: Vector,
    keep: Vector,
    alias: Vector,
    codes: NDArray[np.int8],
    facts: Single,
    whitening: NDArray[np.float64],
    total: float,
    before: float,
    after: float,
    between: float,
    far: float,
    z: Vector,
    proposed: Vector,
    move: Vector,
    other: Vector,
    single: Single,
    other_single: Single,
    change_single: Single,
    batch: NDArray[np.int64],
    kinds: NDArray[np.int64],
    uniforms: Vector,
    chances: Vector,
    clock: float,
    pending: float,
    budget: int,
    rng: np.random.Generator,
) -> tuple[bool, float, float, int, int, int, float]:
    """Do as `thin` does, but look only at rows that the sketch does not clear.

    Events are drawn a batch at a time. A rejection drops the rest of its batch; what the clock then has beyond the
    last event, or beyond the step if no event was left, is a fresh exponential. Returns, beyond what `thin`
    returns, the expected rows.
    """
    d = z.size
    unit = sketch_error(d)
    error, other_error, change_error = 0.0, 0.0, 0.0
    for j in range(d):
        single[j] = z[j]
        other_single[j] = proposed[j]
        change_single[j] = proposed[j] - z[j]
        error += unit * abs(z[j])
        other_error += unit * abs(proposed[j])
        change_error += unit * abs(proposed[j] - z[j])
    accept = True
    looked, events, violations = 0, 0, 0
    exposure = 0.0
    while accept and clock < pending and events < budget:
        count = 0
        while count < BATCH and clock < pending:
            pending -= clock
            clock = rng.standard_exponential()
            batch[count] = uniform_index(keep.size, rng)
            prefetch(keep, batch[count])
            chances[count] = rng.random()
            uniforms[count] = rng.random()
            kinds[count] = kind_of(pending, total, before, after)
            count += 1
        events += count
        whole = count == BATCH
        # Each loop asks for what the next one reads, and none has a branch that waits for memory.
        for b in range(count):
            first = batch[b]
            kept, other_row = keep[first], np.int64(alias[first])
            batch[b] = first if chances[b] < kept else other_row
            prefetch(facts, batch[b])
        left = 0
        for b in range(count):
            share = share_of(facts, kinds[b], batch[b])
            batch[left], kinds[left], uniforms[left], chances[left] = batch[b], kinds[b], uniforms[b], share
            left += uniforms[b] < share
        for b in range(left):
            prefetch(codes, batch[b])
        for b in range(left):
            i = batch[b]
            step = np.float64(facts[i, STEP_FACT])
            if kinds[b] == RISE:
                ratio = one_sided_ratio(step, sketch_product(codes, i, other_single), other_error, order) / after
            elif kinds[b] == FALL:
                ratio = one_sided_ratio(step, sketch_product(codes, i, single), error, order) / before
            else:
                here, there, across = sketch_products(codes, i, single, other_single, change_single)
                ratio = sketch_ratio(step, here, there, across, error, other_error, change_error, order) / between
            exposure += min(1.0, ratio)
            chances[b] *= ratio
        for b in range(left):
            if uniforms[b] >= chances[b]:
                continue
            i, kind = batch[b], kinds[b]
            if looked == 0:
                shift(whitening, z, move)
                shift(whitening, proposed, other)
            looked += 1
            limit = (after if kind == RISE else before if kind == FALL else between) * psi[i]
            share = share_of(facts, kind, i)
            old, new = row_remainders(curve, order, X, y, weight, offset, centre, i, move, other)
            intensity = intensity_of(kind, old, new)
            if intensity > limit * share and exceeds(target, i, intensity, limit * share, far, move, other):
                violations += 1
            if uniforms[b] * limit < intensity:
                accept = False
                if not whole:
                    clock -= pending  # it was seen to outlast the step: only what is beyond is fresh
                break
    return accept, clock, pending, looked, violations, events, exposure
