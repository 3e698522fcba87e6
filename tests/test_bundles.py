"""Rows of a sketch in bundles: no row reaches beyond its piece, and no bundle beyond its limit."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import tallbayes as tb
from problems import in_bundles_of
from tallbayes.kernels.sketched_thinning import put_pieces
from tallbayes.kernels.target import FALL, RISE, STEP, shifted, state_factors
from tallbayes.kernels.thinning import intensity_of
from tallbayes.models.products import RoughProducts, rough_products
from tallbayes.setup.bundles import (
    FALLS,
    LARGEST,
    LIMIT,
    MOST_FALLS,
    MOST_RISES,
    RISES,
    SCALE,
    SIZES,
    bundled,
    in_bundles,
    largest_eigenvalue,
)
from tallbayes.setup.sketch import (
    TOO_FAR_OFF,
    Rounding,
    Sketch,
    bound_of_both,
    empty_sketch,
    fill_sketch,
    fine_levels,
    lines_off,
    put_in_order,
    round_rows,
    round_state,
    rounding_of_states,
    sketch_product,
)
from tallbayes.sources.supply import Drawing

ROWS, COLUMNS = 2000, 6
EXACT = Rounding(0.0, 1.0)
FAMILIES = [tb.families.Bernoulli(), tb.families.StudentT(4.0, 1.0)]


def model_of(family, dtype=np.float64, n=ROWS, d=COLUMNS):
    rng = np.random.default_rng(12)
    X = (rng.standard_normal((n, d)) * rng.uniform(0.1, 2.0, (n, 1))).astype(dtype)
    y = rng.standard_normal(n)
    if isinstance(family, tb.families.Bernoulli):
        y = (y > 0.0).astype(float)
    return tb.Regression(X, y, family, tb.priors.Normal(0.0, 1.0))


def prepared_with(model, order, size=None):
    bound, proposal = tb.bounds.Local(8.0), tb.proposals.PreconditionedWalk(1.0)
    prepared = tb.kernels.ScalableMH(order, bound, proposal, sketch=True).prepare(model, threads=1)
    return prepared if size is None else in_bundles_of(prepared, size)


def rounded(z, width, free=0):
    whole = np.zeros(width, dtype=np.int16)
    return whole, *round_state(np.asarray(z, dtype=float), free, whole)


def pieces_of(bundles, order, kind, z, other, free=0):
    """What compiled code says that every row may reject, in the order of the sketch."""
    points = [rounded(point, bundles.codes.shape[1], free) for point in (z, other, other - z)]
    whole, units, errors = (np.array(part) for part in zip(*points, strict=True))
    found, room = [], np.zeros((3, LARGEST))
    for bundle in range(bundles.table.shape[0]):
        total = put_pieces(bundles, bundle, kind, order, whole, units, errors, room)
        some = room[0, : min(bundles.size, bundles.rows.size - bundle * bundles.size)].copy()
        assert total == pytest.approx(some.sum(), rel=1e-14)
        found.append(some)
    return np.concatenate(found)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_are_rows_to_half_a_step(dtype):
    model = model_of(FAMILIES[0], dtype)
    prepared = prepared_with(model, 2)
    codes, steps, rows = model.setup._sketch
    white = model.source.X[rows].astype(float) @ prepared.metric.inverse_root.T
    exact = white / (np.max(np.abs(white), axis=1, keepdims=True) / 127.0)
    off = np.abs(codes[:, :COLUMNS] - exact)
    assert 0.499 < off.max() <= 0.5 + 1e-9
    exact_steps = np.max(np.abs(white), axis=1) / 127.0 / np.linalg.norm(white, axis=1)
    assert np.all(steps >= exact_steps)
    np.testing.assert_allclose(steps, exact_steps, rtol=3e-6)


WIDE = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)) * rng.uniform(0.1, 2.0, (n, 1)),
    "signs": lambda rng, n, d: rng.choice([-1.0, 1.0], (n, d)),
    "correlated": lambda rng, n, d: 1.0 + 1e-5 * rng.standard_normal((n, d)),
    "sparse": lambda rng, n, d: np.where(rng.random((n, d)) < 0.02, 3.0, 0.0) * np.logspace(-30, 30, n)[:, None],
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("d", [16, 40, 130])
def test_wide_rows_are_off_by_no_more_than_is_reckoned_with(d, kind):
    """They are whitened in single precision, or in float64 where that loses too much."""
    rng = np.random.default_rng(d)
    X = WIDE[kind](rng, 300, d)
    inverse_root = np.linalg.inv(np.linalg.cholesky(np.cov(X.T / np.abs(X).max(), bias=True) + 1e-12 * np.eye(d)))
    sketch, block = empty_sketch(300, d), SimpleNamespace(first=0, count=300, X=X)
    white = rough_products(X, inverse_root)
    lengths = white.lengths.copy()
    fill_sketch(sketch, block, inverse_root, white)
    exact = X.astype(np.longdouble) @ inverse_root.T.astype(np.longdouble)
    length, largest = np.sqrt(np.einsum("na,na->n", exact, exact)), np.max(np.abs(exact), axis=1)
    some = length > 0.0
    np.testing.assert_array_equal(sketch.steps[~some], 0.0)
    # The step that a row had, to 1e-3; its codes are those of a row as far away as the allowance says.
    steps = sketch.steps[some].astype(float) * length[some]
    np.testing.assert_allclose(steps.astype(float), (largest[some] / 127.0).astype(float), rtol=3e-3)
    off = np.abs(exact[some] / (largest[some] / 127.0)[:, None] - sketch.codes[some, :d])
    beyond = np.maximum(off - 0.5, 0.0)
    assert np.sqrt(np.einsum("na,na->n", beyond, beyond)).max() <= lines_off(d)
    assert np.all(sketch.steps[some] * lengths[some] >= largest[some] / 127.0)


def test_rows_that_are_too_far_off_are_computed_anew():
    d = 40
    X = np.random.default_rng(3).standard_normal((3, d))
    largest = np.max(np.abs(X), axis=1)
    codes, steps = np.zeros((3, 48), dtype=np.int8), np.zeros(3, dtype=np.float32)
    lost = lines_off(d) * largest / 127.0 * [0.999, 1.001, np.inf]
    round_rows(RoughProducts(X.astype(np.float32), np.linalg.norm(X, axis=1), lost), codes, steps)
    assert steps[0] == pytest.approx(largest[0] / 127.0 / (np.linalg.norm(X[0]) - 2.0 * lost[0]), rel=1e-5)
    np.testing.assert_array_equal(steps[1:], TOO_FAR_OFF)
    sketch = empty_sketch(3, d)
    fill_sketch(sketch, SimpleNamespace(first=0, count=3, X=X), np.eye(d), RoughProducts(X, largest, lost))
    np.testing.assert_allclose(sketch.steps[1:], largest[1:] / 127.0 / np.linalg.norm(X[1:], axis=1), rtol=2e-6)
    np.testing.assert_array_equal(sketch.codes[1:, :d], np.rint(X[1:] / (largest[1:, None] / 127.0)))


@pytest.mark.parametrize("d", [1, 6, 200, 600])
def test_the_allowance_for_rounding_is_reached_and_no_more(d):
    codes = np.full((1, -(-d // 16) * 16), 127, dtype=np.int8)
    codes[:, d:] = 0
    # A state that is rounded down by half a unit wherever it can be; rows off by half a step in every column.
    levels = fine_levels(d)
    z = np.r_[1.0, np.full(d - 1, (2.0 * np.floor(levels / 4.0) + 0.499) / levels)]
    whole, unit, error = rounded(z, codes.shape[1])
    assert unit == pytest.approx(1.0 / levels, rel=1e-12)
    product = unit * sketch_product(codes, 0, whole)
    assert product == unit * float(codes[0].astype(int) @ whole.astype(int))
    row = 127.5 if d > 1 else 127.0
    off = row * z.sum() + lines_off(d) * np.linalg.norm(z) - product
    if d > 1:
        assert 0.99 * (d - 1) / d * error < off <= error
    # For no state of length 1 is it more than what limits reckon with, and along the diagonal it is that.
    rng = np.random.default_rng(d)
    for direction in (np.ones(d), z, *rng.standard_normal((20, d))):
        along = direction / np.linalg.norm(direction)
        assert rounded(along, codes.shape[1])[2] <= rounding_of_states(d).farthest_off * (1.0 + 1e-12)
    along = np.full(d, d**-0.5)
    assert rounded(along, codes.shape[1])[2] > (0.9 if d > 300 else 0.95) * rounding_of_states(d).farthest_off
    farthest = 0.5 * d**0.5 + 63.5 * d / levels + lines_off(d)
    assert rounding_of_states(d).farthest_off == pytest.approx(farthest, rel=1e-12)
    assert lines_off(d) == pytest.approx(127.0 * d * (d + 3) * 2.0**-24 if d > 15 else 0.0, rel=1e-4)


def test_products_of_very_wide_rows_do_not_overflow():
    for d in (516, 517, 5000):
        codes = np.full((1, -(-d // 16) * 16), -127, dtype=np.int8)
        whole, unit, _ = rounded(np.ones(d), codes.shape[1])
        assert sketch_product(codes, 0, whole) * unit == pytest.approx(-127.0 * d, rel=1e-12)


@pytest.mark.parametrize("z", [np.zeros(3), np.full(3, 1e-300), np.full(3, 5e-324)])
def test_states_next_to_the_centre(z):
    whole, unit, error = rounded(z, 16)
    codes = np.full((1, 16), 127, dtype=np.int8)
    assert abs(127.5 * z.sum() - unit * sketch_product(codes, 0, whole)) <= error


def test_free_coordinates_have_no_part():
    whole, unit, error = rounded([1e9, -1e9, 0.5, 1.0], 16, free=2)
    assert np.array_equal(whole[:2], [0, 0])
    assert (unit, error) == pytest.approx(rounded([0.5, 1.0, 0.0, 0.0], 16)[1:], rel=1e-2)


def intensities(prepared, z, other):
    """Rises, falls and intensities of all rows, in the order of the sketch; a line for each."""
    model, target = prepared.model, prepared.target
    block = model.source.whole.converted()
    eta = model.predictors.at(block, target.centre)
    old, new = (model.predictors.moves(block, shifted(target, point)) for point in (z, other))
    left = target.rows.weight * model.rows.remainders(block.responses, eta, old, new, target.bound.order)
    found = [[intensity_of(kind, *pair) for pair in left.T] for kind in (RISE, FALL, STEP)]
    return np.array(found)[:, target.bundles.rows]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("d", [COLUMNS, 20], ids=["narrow", "wide"])  # whitened in double and in single precision
@pytest.mark.parametrize("family", FAMILIES, ids=["logistic", "student"])
def test_no_row_reaches_beyond_its_piece_nor_pieces_beyond_their_limit(family, d, order, size):
    prepared = prepared_with(model_of(family, n=333, d=d), order, size)
    target, bundles = prepared.target, prepared.target.bundles
    rng = np.random.default_rng(order)
    starts = np.arange(0, bundles.rows.size, size)
    for pair in range(12):
        z, other = rng.standard_normal((2, d)) * (0.3 if pair % 2 else 1.2)
        if pair % 4 == 0:
            other = z * (1.0 + 1e-3 * rng.standard_normal())
        before, after, between = state_factors(target, z, other)
        reached = intensities(prepared, z, other)
        for kind, factor in ((RISE, after), (FALL, before), (STEP, between)):
            if factor > 0.0:
                pieces = pieces_of(bundles, order, kind, z, other)
                assert np.all(reached[kind] <= pieces * (1.0 + 1e-12))
                most = 1.0 if kind == STEP else bundles.table[:, MOST_RISES + kind]
                assert np.all(np.add.reduceat(pieces, starts) <= most * bundles.table[:, LIMIT] * factor)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_bound_of_both_ends_holds_and_is_reached(order):
    # The steepest remainder that psi allows is the power itself; in a short step it changes as fast as the bound says.
    p = order + 1
    for here, there in itertools.product(np.linspace(0.0, 2.0, 9), repeat=2):
        bound = bound_of_both(here, there, abs(there - here), order)
        assert abs(there**p - here**p) <= bound * (1.0 + 1e-12)
        assert abs(there**p + here**p) <= bound_of_both(here, there, here + there, order) * (1.0 + 1e-12)
    assert bound_of_both(1.0, 1.001, 0.001, order) == pytest.approx(1.001**p - 1.0, rel=1e-5)
    assert bound_of_both(0.5, 1.0, 9.0, order) == pytest.approx(0.5**p + 1.0, rel=1e-12)


def test_pieces_of_rows_that_only_rounding_covers():
    # Gaussian rows at order 1: r_i(z) = psi_i (x_i . W z / a_i)^2 exactly. Along e_j a row whose code there is 0 has
    # only the allowance for rounding to cover it.
    model = model_of(tb.families.Gaussian(scale=1.0), n=6000)
    prepared = prepared_with(model, 1, 16)
    bundles = prepared.target.bundles
    white = model.source.X[bundles.rows] @ prepared.metric.inverse_root.T
    exact = white / (np.max(np.abs(white), axis=1, keepdims=True) / 127.0)
    zero = (bundles.codes[:, :COLUMNS] == 0) & (np.abs(exact) > 0.45)
    assert np.count_nonzero(zero) > 3
    for j in np.flatnonzero(zero.any(axis=0)):
        z = np.zeros(COLUMNS)
        z[j] = 1.0
        reached = intensities(prepared, np.zeros(COLUMNS), z)
        for kind in (RISE, STEP):
            pieces = pieces_of(bundles, 1, kind, np.zeros(COLUMNS), z)
            assert np.all(reached[kind][zero[:, j]] <= pieces[zero[:, j]])
            assert np.max(reached[kind][zero[:, j]] / pieces[zero[:, j]]) > 0.75  # (0.45 / 0.5)^2, less 2 %


def bundles_of(vectors, order, scales=1.0, rounding=EXACT, size=16):
    """Bundles of given codes, whose rounding is not reckoned with unless it is said."""
    n, d = vectors.shape
    codes = np.zeros((n, -(-d // 16) * 16), dtype=np.int8)
    codes[:, :d] = vectors
    facts = np.ones((n, 3), dtype=np.float32)
    facts[:, SCALE] = scales
    return in_bundles(codes, np.arange(n), facts, size, order, rounding)


def steepest(vectors, scales, p, rng):
    """The largest sum of |v . z|^p over z of length 1, by ascent from many starts."""
    v, best = vectors * np.broadcast_to(scales, len(vectors))[:, None], 0.0
    for start in [*v, *rng.standard_normal((30, v.shape[1]))]:
        z = start
        for _ in range(100):  # the map of gradients: of a convex function, it never goes down
            gradient = v.T @ (np.abs(v @ z) ** (p - 1) * np.sign(v @ z))
            if not np.any(gradient):
                break
            z = gradient / np.linalg.norm(gradient)
        best = max(best, float(np.sum(np.abs(v @ z) ** p)))
    return best


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 2, 16, 60, 200])
def test_limits_hold_in_the_worst_direction(d, order):
    rng = np.random.default_rng(d)
    vectors = np.clip(np.rint(40.0 * rng.standard_normal((16, d))), -127, 127)
    vectors[0] = 127
    scales = np.float32(rng.uniform(0.5, 1.5, 16))
    limit = bundles_of(vectors, order, scales).table[0, LIMIT]
    worst = steepest(vectors, scales, order + 1, rng)
    assert worst <= limit < 1.6 * worst
    if order == 1:  # then it is the largest eigenvalue, bounded by its fourth power
        assert limit < 1.1 * worst


@pytest.mark.parametrize("order", [1, 2, 3])
def test_limits_are_reached(order):
    p = order + 1
    # Rows at right angles: one of them at a time. Equal rows: all at once.
    assert bundles_of(127.0 * np.eye(16), order).table[0, LIMIT] == pytest.approx(127.0**p, rel=1e-5)
    assert bundles_of(np.full((16, 1), 100.0), order).table[0, LIMIT] == pytest.approx(16.0 * 100.0**p, rel=1e-5)
    opposite = np.array([[90.0, 30.0], [-90.0, -30.0]])
    assert bundles_of(opposite, order).table[0, LIMIT] == pytest.approx(2.0 * 9000.0 ** (p / 2), rel=1e-5)
    # With rounding, in one dimension, where every state is the worst.
    bundles = bundles_of(np.full((16, 1), 127.0), order, 0.3, rounding_of_states(1)._replace(longest=1.0))
    for kind, z, other in ((RISE, 0.0, 1.5), (FALL, 1.5, 0.0)):
        pieces = pieces_of(bundles, order, kind, np.array([z]), np.array([other]))
        assert 1.0 - 1e-5 < pieces.sum() / (bundles.table[0, LIMIT] * 1.5**p) <= 1.0
    # Rows of zeros, and bundles of nothing else.
    lonely = bundles_of(np.vstack([np.zeros((5, 3)), [[100.0, 0.0, 0.0]], np.zeros((26, 3))]), order)
    np.testing.assert_allclose(lonely.table[:, LIMIT], [100.0**p, 0.0], rtol=1e-5)
    np.testing.assert_array_equal(lonely.table[:, 0], [1.0, 0.0])  # the second is never kept


def test_a_state_may_be_longer_when_it_is_rounded():
    # Along a state most of whose coordinates are rounded up by half a unit.
    d, p = 200, 3
    levels = fine_levels(d)
    z = np.r_[1.0, np.full(d - 1, (2.0 * np.floor(levels / np.sqrt(d - 1) / 2.0) + 0.501) / levels)]
    whole, unit, _ = rounded(z, 208)
    length, longer = np.linalg.norm(z), np.linalg.norm(unit * whole.astype(float))
    assert rounding_of_states(d).longest - 1.0 == pytest.approx(np.sqrt(d) / 2.0 / levels, rel=1e-6)
    assert 1.0 + 0.45 * (rounding_of_states(d).longest - 1.0) < longer / length < rounding_of_states(d).longest
    row = np.rint(127.0 * z)
    reached = 16 * abs(unit * float(row @ whole[:d].astype(float))) ** p
    limits = [
        bundles_of(np.tile(row, (16, 1)), p - 1, rounding=rounding).table[0, LIMIT] * length**p
        for rounding in (EXACT, Rounding(0.0, rounding_of_states(d).longest))
    ]
    assert limits[0] < reached < limits[1]


def test_eigenvalues_are_bounded():
    rng = np.random.default_rng(3)
    for count in (1, 2, 7, 16):
        vectors = rng.standard_normal((count, 12))
        gram = vectors @ vectors.T
        largest = np.linalg.eigvalsh(gram)[-1]
        fourth = largest_eigenvalue(np.linalg.matrix_power(gram, 4), np.empty((2, 16)), count) ** 0.25
        assert largest * (1.0 - 1e-12) <= fourth < 1.05 * largest
        squares = largest_eigenvalue(gram**2, np.empty((2, 16)), count)
        exact = np.linalg.eigvalsh(gram**2)[-1]
        assert exact * (1.0 - 1e-12) <= squares < 1.05 * exact


def test_bundles_are_drawn_by_their_limits():
    prepared = prepared_with(model_of(FAMILIES[1]), 3)
    bundles = prepared.target.bundles
    size, count = bundles.size, bundles.table.shape[0]
    assert size > 1
    chances = np.zeros(count)
    np.add.at(chances, np.arange(count), bundles.table[:, 0] / count)
    np.add.at(chances, bundles.table[:, 1].astype(int), (1.0 - bundles.table[:, 0]) / count)
    np.testing.assert_allclose(chances, bundles.table[:, LIMIT] / bundles.total, rtol=1e-9)
    assert prepared.target.bound.total == bundles.total
    starts = np.arange(0, ROWS, size)
    for share, most in ((RISES, MOST_RISES), (FALLS, MOST_FALLS)):
        np.testing.assert_array_equal(np.maximum.reduceat(bundles.facts[:, share], starts), bundles.table[:, most])
    psi, shares = prepared.target.rows.psi, prepared.target.rows.shares
    np.testing.assert_array_equal(bundles.facts[:, RISES:], shares[bundles.rows])
    steps = prepared.model.setup._sketch.steps.astype(float)
    exact = psi[bundles.rows] ** 0.25 * steps
    assert np.all(bundles.facts[:, SCALE] >= exact)
    np.testing.assert_allclose(bundles.facts[:, SCALE], exact, rtol=3e-7)


def test_bundles_do_not_depend_on_threads():
    rng = np.random.default_rng(5)
    n, d = 70_001, 5
    psi = rng.gamma(2.0, 1.0, n)
    found = []
    for threads in (1, 2):
        sketch = empty_sketch(n, d)
        sketch.codes[:, :d] = np.random.default_rng(6).integers(-127, 128, (n, d))
        sketch.steps[:] = 1.0 / 127.0
        put_in_order(sketch, psi, threads)
        drawing = Drawing(None, (), psi, np.ones((1, 2), dtype=np.float32))
        found.append((sketch, bundled(sketch, drawing, d, 2, threads=threads)))
    for one, other in zip(*found, strict=True):
        for field, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(field, same)


def test_rows_with_similar_bounds_are_together():
    rng = np.random.default_rng(7)
    n = 70_001
    psi = rng.gamma(2.0, 1.0, n)
    psi[::50] = 0.0
    sketch = empty_sketch(n, 3)
    sketch.codes[:, 0] = np.arange(n) % 101
    sketch.steps[:] = np.arange(n)
    put_in_order(sketch, psi, 2)
    np.testing.assert_array_equal(np.sort(sketch.rows), np.arange(n))
    np.testing.assert_array_equal(sketch.steps, sketch.rows.astype(np.float32))
    np.testing.assert_array_equal(sketch.codes[:, 0], sketch.rows % 101)
    some = psi[sketch.rows[: n // 16 * 16]].reshape(-1, 16)
    alike = some[:, :].min(axis=1) > 0.95 * some.max(axis=1)
    assert np.mean(alike) > 0.9


def test_the_size_of_bundles_suits_the_rows():
    rng = np.random.default_rng(8)
    n = 4096

    def size_of(codes):
        sketch = Sketch(
            np.ascontiguousarray(codes.astype(np.int8)), np.full(n, 1e-2, dtype=np.float32), np.arange(n)
        )
        return bundled(
            sketch, Drawing(None, (), np.ones(n), np.ones((1, 2), dtype=np.float32)), codes.shape[1], 2
        ).size

    assert size_of(rng.integers(-127, 128, (n, 64))) == 16
    assert size_of(np.full((n, 64), 127)) == 1  # equal rows: a bundle's limit is the sum
    few = Sketch(np.ones((5, 16), dtype=np.int8), np.ones(5, dtype=np.float32), np.arange(5))
    assert bundled(few, Drawing(None, (), np.ones(5), np.ones((1, 2), dtype=np.float32)), 16, 1).size == 1


@pytest.mark.parametrize("free", [0, 1])
def test_core_rows_are_in_no_piece(free):
    rng = np.random.default_rng(9)
    n = 3000
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 3)), np.arange(n) < 30 * free])[:, : 4 + free]
    y = (rng.random(n) < 0.4).astype(float)
    if free:
        y[:30] = [1.0] + [0.0] * 29
    prepared = tb.kernels.ScalableMH(order=2, sketch=True, core=True).prepare(tb.Regression(X, y, FAMILIES[0]))
    assert prepared.target.bound.free == free
    z, other = rng.standard_normal((2, 4 + free))
    if free:
        z[0], other[0] = 2000.0, -3000.0
    before, after, _ = state_factors(prepared.target, z, other)
    bundles = prepared.target.bundles
    for kind, factor in ((RISE, after), (FALL, before)):
        pieces = pieces_of(bundles, 2, kind, z, other, free)
        assert np.all(np.add.reduceat(pieces, np.arange(0, n, bundles.size)) <= bundles.table[:, LIMIT] * factor)
        core = bundles.rows < 30 * free
        assert np.all(pieces[core] == 0.0)
        assert np.all(pieces[~core] > 0.0)


@pytest.mark.parametrize("size", [1e-155, 1e-200, 5e-324])
def test_a_row_whose_square_underflows_is_a_row_of_zeros(size):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((500, 3)), (rng.random(500) < 0.5).astype(float)
    X[7] *= size
    prepared = prepared_with(tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 1.0)), 2)
    assert np.all(np.isfinite(prepared.target.bundles.facts))
    assert 0.0 < prepared.target.bound.total < np.inf
