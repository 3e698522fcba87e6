"""The parts that randomness is made of (alias table, uniform index, clock, seeds), and how rows are laid out."""

import dataclasses
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from problems import CASES, Driver, bench, in_batches, run, stream
from tallbayes.kernels.target import step_rate
from tallbayes.models import products
from tallbayes.models.products import (
    mixed_moments,
    rough_products,
    row_lengths,
    times_transposed,
    weighted_gram,
    weighted_triples,
)
from tallbayes.setup.polynomial import polynomial
from tallbayes.sources import alias, supply
from tallbayes.sources.alias import alias_table, draw_row, uniform_index
from tallbayes.sources.memory import rows_of_columns
from tallbayes.sources.threads import Shared, pool

ALPHA = 1e-7  # false positives of every single test below; about forty of them


@numba.njit
def _draw_rows(table, rng, counts, draws):
    for _ in range(draws):
        counts[draw_row(table, rng)] += 1


@numba.njit
def _draw_indices(n, rng, counts, draws):
    for _ in range(draws):
        counts[uniform_index(n, rng)] += 1


WEIGHTS = {
    "spread": 10.0 ** -np.linspace(0.0, 12.0, 50),
    "equal": np.ones(37),
    "zeros": np.where(np.arange(41) % 3 == 0, 0.0, np.arange(41.0)),
    "one row": np.array([2.0]),
    "one of many": np.where(np.arange(20) == 19, 1e-3, 0.0),
    "ends": np.where(np.isin(np.arange(30), [0, 29]), 100.0, 1.0),
    "tiny": np.full(10, 1e-300),
}


@pytest.mark.parametrize("slice_rows", [alias.SLICE, 8])
@pytest.mark.parametrize("name", WEIGHTS)
def test_alias_table(name, slice_rows, monkeypatch):
    monkeypatch.setattr(alias, "SLICE", slice_rows)
    psi = WEIGHTS[name]
    n = psi.size
    table = alias_table(psi)
    drawn = np.zeros(n)
    for i in range(n):
        drawn[i] += table[i, 0] / n
        drawn[int(table[i, 1])] += (1.0 - table[i, 0]) / n
    assert np.all((table[:, 0] >= 0.0) & (table[:, 0] <= 1.0))
    np.testing.assert_allclose(drawn, psi / psi.sum(), rtol=0, atol=1e-12)
    counts = np.zeros(n, dtype=np.int64)
    _draw_rows(table, stream(1), counts, 1_000_000)
    assert np.all(counts[psi == 0.0] == 0)
    # Rows expected less than ten times are one cell.
    expected = 1e6 * psi / psi.sum()
    rare = expected < 10.0
    cells = np.append(expected[~rare], expected[rare].sum())
    found = np.append(counts[~rare], counts[rare].sum())
    assert found[-1] <= stats.poisson.isf(ALPHA, cells[-1]) if cells[-1] > 0 else found[-1] == 0
    if cells.size > 2:
        statistic = np.sum((found[:-1] - cells[:-1]) ** 2 / cells[:-1])
        assert ALPHA < stats.chi2.sf(statistic, cells.size - 2) < 1 - ALPHA


def test_alias_table_keeps_small_rows():
    # A row whose share is 1e-10 is in the table with exactly that share, to a relative 1e-6.
    psi = np.ones(1000)
    psi[[0, -1]] = 1e-7
    table = alias_table(psi)
    assert table[[0, -1], 0] == pytest.approx(1e-7 * 1000 / psi.sum(), rel=1e-9)


def test_alias_table_of_many_slices():
    # Rows sorted by weight, so that a slice is all poor or all rich; the same table for any number of threads.
    psi = np.sort(np.random.default_rng(4).gamma(0.3, size=3 * alias.SLICE + 17))
    table = alias_table(psi, threads=1)
    np.testing.assert_array_equal(table, alias_table(psi, threads=2))
    drawn = table[:, 0].copy()
    np.add.at(drawn, table[:, 1].astype(np.int64), 1.0 - table[:, 0])
    np.testing.assert_allclose(drawn / psi.size, psi / psi.sum(), rtol=1e-7, atol=1e-16)


@pytest.mark.parametrize("kernel", [tb.kernels.ScalableMH(order=2), tb.kernels.ZigZag()])
def test_the_alias_table_is_made_by_as_many_threads_as_are_asked_for(kernel, monkeypatch):
    asked = []

    def noted(psi, *, threads=None):
        asked.append(threads)
        return alias_table(psi, threads=threads)

    monkeypatch.setattr(supply, "alias_table", noted)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((500, 2))
    for threads in (1, 3):
        model = tb.Regression(X, (rng.random(500) < 0.5).astype(float), tb.families.Bernoulli())
        kernel.prepare(model, threads=threads)
        assert set(asked) == {threads}
        asked.clear()


def test_all_weights_zero():
    assert np.all(alias_table(np.zeros(4))[:, 0] == 1.0)


@pytest.mark.parametrize("n", [1, 3, 37, 1000, 12_345])
def test_uniform_index(n):
    counts = np.zeros(n, dtype=np.int64)
    draws = max(1_000_000, 100 * n)
    _draw_indices(n, stream(2), counts, draws)
    assert counts.sum() == draws
    assert np.all(counts > 0)
    if n > 1:
        pvalue = stats.chisquare(counts).pvalue
        assert ALPHA < pvalue < 1 - ALPHA


@pytest.mark.parametrize("n", [1_500_000_000, 2**31 - 1])
def test_uniform_index_of_many_rows(n):
    # Lemire's rejection matters here: without it some sixteenths are drawn too often.
    counts = np.zeros(16, dtype=np.int64)
    rng = stream(3)
    for _ in range(40_000):
        counts[int(uniform_index(n, rng)) * 16 // n] += 1
    assert stats.chisquare(counts).pvalue > ALPHA


@pytest.mark.parametrize(
    ("rate", "batches"), [(0.01, False), (1.0, False), (10.0, False), (1000.0, False), (1.0, True), (10.0, True)]
)
def test_clock_is_poisson(rate, batches):
    # Nothing rejects where the weights are zero: every event is counted, the intensities are 0.
    b = bench("logistic-flat", "SMH1-global", "preconditioned")
    target = b.prepared.target
    z = np.array([1.0, -0.5])
    other = np.array([-0.5, 1.25])
    scale = rate / step_rate(target, z, other)
    silent = target._replace(
        rows=target.rows._replace(weight=np.zeros(1), psi=target.rows.psi * scale),
        bound=target.bound._replace(total=target.bound.total * scale),
        surrogate=target.surrogate._replace(
            terms=target.surrogate.terms._replace(polynomial=polynomial(np.zeros(2)))
        ),
    )
    move = b.prepared.move._replace(keep=-1.0, drift=z + other, scale=0.0)
    prepared = dataclasses.replace(b.prepared, target=silent, move=move)
    if batches:
        prepared = in_batches(prepared)
    steps = (200_000 if rate < 100 else 3000) // (100 if batches else 1)
    driver = Driver(prepared, stream(4), z)
    draws = run(driver, steps)
    assert np.all(draws.accepted)
    assert driver.violations == 0
    counts = draws.rows_touched
    # The total is Poisson too: this finds a rate that is off by a part in a few hundred.
    total = stats.poisson(steps * rate)
    assert min(total.cdf(counts.sum()), total.sf(counts.sum() - 1)) > ALPHA
    # Counts of single steps, in cells of at least ten; the outer cells are the tails.
    low, high = int(stats.poisson.ppf(20 / steps, rate)), int(stats.poisson.isf(20 / steps, rate))
    found = np.bincount(np.clip(counts, low, high) - low, minlength=high - low + 1)
    cdf = stats.poisson.cdf(np.arange(low, high), rate)
    cells = steps * np.diff(np.concatenate([[0.0], cdf, [1.0]]))
    statistic = np.sum((found - cells) ** 2 / cells)
    assert ALPHA < stats.chi2.sf(statistic, cells.size - 1) < 1 - ALPHA
    # Steps are independent of each other.
    if np.std(counts) > 0:
        correlation = np.corrcoef(counts[:-1], counts[1:])[0, 1]
        assert abs(correlation) * math.sqrt(steps) < stats.norm.isf(ALPHA / 2)


def chain_streams(seed, chains):
    """The first normal of each chain's stream, as `sample` makes them."""
    return [np.random.Generator(np.random.SFC64(child)) for child in np.random.SeedSequence(seed).spawn(chains)]


def test_first_draws_over_many_seeds_are_unbiased():
    first = np.array([[s.standard_normal() for s in chain_streams(seed, 2)] for seed in range(10_000)])
    second = np.array([chain_streams(seed, 1)[0].random(2)[1] for seed in range(10_000)])
    # Kolmogorov-Smirnov for both chains' first normals, and for second uniforms; correlations between chains
    # and between seeds that follow each other.
    for column in first.T:
        assert stats.kstest(column, "norm").pvalue > ALPHA
    assert stats.kstest(second, "uniform").pvalue > ALPHA
    assert abs(np.corrcoef(first.T)[0, 1]) * 100 < stats.norm.isf(ALPHA / 2)
    assert abs(np.corrcoef(first[:-1, 0], first[1:, 0])[0, 1]) * 100 < stats.norm.isf(ALPHA / 2)


@pytest.fixture(scope="module")
def runs():
    model = CASES["student-normal"].model
    kernel = tb.kernels.ScalableMH(order=2, bound=tb.bounds.Local(), proposal=tb.proposals.CrankNicolson(0.0))
    return {
        seed: tb.sample(model, kernel, draws=50, chains=3, warmup=0, seed=seed, progress=False)["posterior"]["beta"]
        for seed in (0, 1, 2)
    }


def test_seeds_and_chains_have_streams_of_their_own(runs):
    draws = np.array([runs[seed].values[chain, :, 0] for seed in runs for chain in range(3)])
    for a in range(9):
        for other in range(a):
            assert not np.any(np.isin(draws[a], draws[other]))


def test_first_kept_draw_is_unbiased_over_seeds():
    # One coefficient, the mode in the middle of a symmetric posterior: the first draw is above it half the time.
    y = np.concatenate([np.arange(-10.0, 0.0), np.arange(1.0, 11.0)]) / 4
    model = tb.Regression(np.ones((20, 1)), y, tb.families.StudentT(df=4.0, scale=1.0), tb.priors.Normal(0.0, 2.0))
    kernel = tb.kernels.ScalableMH(order=2, bound=tb.bounds.Local(), proposal=tb.proposals.CrankNicolson(0.0))
    prepared = kernel.prepare(model, threads=1)
    above = 0
    seeds = 4000
    for seed in range(seeds):
        rng = chain_streams(seed, 1)[0]
        above += int(run(Driver(prepared, rng), 1).z[0, 0] > 0.0)
    assert stats.binomtest(above, seeds, 0.5).pvalue > ALPHA


@pytest.mark.parametrize("negative", [0, 1, 7, 40])
def test_weighted_products_take_weights_of_any_sign(negative):
    rng = np.random.default_rng(2)
    rows, weight = rng.standard_normal((40, 5)), rng.uniform(0.1, 3.0, 40)
    weight[:negative] *= -1.0
    weight[-1] *= 0.0
    wanted = np.zeros((5, 5))
    for w, x in zip(weight, rows, strict=True):
        wanted += w * np.outer(x, x)
    np.testing.assert_allclose(weighted_gram(rows, weight), wanted, rtol=0, atol=1e-12)


# -- products of many tiles and panels --


def gram_tile(d):
    return products.SCALED // d


def triples_tile(d):
    return max(products.TILE // d, 256)


def rows_and_weights(n, d, *, within=False, seed=3):
    """Rows none of which is small, as a matrix or as columns of a wider one, and weights of both signs."""
    rng = np.random.default_rng(seed)
    wide = rng.uniform(0.5, 2.0, (n, d + 3)) * rng.choice([-1.0, 1.0], (n, d + 3))
    weight = rng.uniform(0.5, 2.0, n) * rng.choice([-1.0, 1.0], n)
    weight[n // 3] = 0.0
    return (wide[:, 2 : d + 2] if within else wide[:, :d].copy()), weight


def assert_sums(found, formula, *parts):
    """Compare a sum with np.einsum, by the sum of absolute values: a row off by 1 % is some 1e-7 of it."""
    wanted = np.einsum(formula, *parts)
    size = np.einsum(formula, *(np.abs(part) for part in parts))
    assert found.shape == wanted.shape
    assert np.max(np.abs(found - wanted) / size) < 1e-11


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("signs", ["both", "positive", "negative"])
@pytest.mark.parametrize("d", [1, 10, 33, 65])
def test_weighted_gram_of_many_tiles(d, signs, within):
    rows, weight = rows_and_weights(2 * gram_tile(d) + 1, d, within=within)
    weight = {"both": weight, "positive": np.abs(weight), "negative": -np.abs(weight)}[signs]
    found = weighted_gram(rows, weight)
    assert_sums(found, "n,na,nb->ab", weight, rows, rows)
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("d", [1, 2, 10, 13])
def test_weighted_triples_of_many_tiles(d):
    rows, weight = rows_and_weights(2 * triples_tile(d) + 1, d)
    packed, dense = iter(weighted_triples(rows, weight)), np.empty((d, d, d))
    for a in range(d):
        for b in range(a + 1):
            for c in range(b + 1):
                dense[a, b, c] = dense[a, c, b] = dense[b, a, c] = next(packed)
                dense[b, c, a] = dense[c, a, b] = dense[c, b, a] = dense[a, b, c]
    assert next(packed, None) is None
    assert_sums(dense, "n,na,nb,nc->abc", weight, rows, rows, rows)


TRIANGLES = {
    "lower": np.tril,
    "full": lambda matrix: matrix,
    "upper": np.triu,
    "columns in another order": lambda matrix: np.tril(matrix)[:, ::-1],
    "one number above": lambda matrix: np.tril(matrix) + np.eye(len(matrix), k=len(matrix) - 1),
}


@pytest.mark.parametrize("shape", TRIANGLES)
@pytest.mark.parametrize("d", [1, 10, 32, 33, 64, 65, 129])
def test_rows_times_a_matrix_of_many_panels(d, shape):
    rows, _ = rows_and_weights(2 * gram_tile(d) + 1, d)
    square, _ = rows_and_weights(d, d, seed=4)
    matrix = np.ascontiguousarray(TRIANGLES[shape](square))
    times_transposed(np.full((rows.shape[0] + 5, d), np.nan), np.ones((d, d)))  # what was in that memory is gone
    found = times_transposed(rows, matrix)
    size = np.maximum(np.einsum("nj,ij->ni", np.abs(rows), np.abs(matrix)), 1e-300)
    assert np.max(np.abs(found - np.einsum("nj,ij->ni", rows, matrix)) / size) < 1e-13


@pytest.mark.parametrize("widths", [(1, 4, 6), (6, 1, 4), (4, 6, 1), (3, 3, 2), (2, 2, 2), (1, 10, 33), (5, 3, 4)])
def test_mixed_moments_of_many_rows(widths):
    n = 2 * gram_tile(max(widths)) + 1
    (a, weight), (b, _), (c, _) = (
        rows_and_weights(n, d, within=True, seed=d + 7 * k) for k, d in enumerate(widths)
    )
    assert_sums(mixed_moments(a, b, c, weight), "n,na,nb,nc->abc", weight, a, b, c)


@pytest.mark.parametrize("d", [1, 10, 33, 65])
def test_lengths_of_many_rows(d):
    rows, _ = rows_and_weights(2 * gram_tile(d) + 1, d)
    np.testing.assert_allclose(row_lengths(rows), np.sqrt(np.einsum("na,na->n", rows, rows)), rtol=1e-13)


def precise_lengths(rows, matrix):
    products = rows.astype(np.longdouble) @ matrix.T.astype(np.longdouble)
    return np.sqrt(np.einsum("na,na->n", products, products))


def lengths_of_products(rows, matrix):
    return rough_products(rows, matrix).lengths


FACTORS = {
    "plain": lambda d: np.tril(np.random.default_rng(1).standard_normal((d, d))) + 4.0 * np.eye(d),
    "full": lambda d: np.random.default_rng(2).standard_normal((d, d)),
    "scaled": lambda d: np.tril(np.ones((d, d))) * np.logspace(-120, 120, d),
    "close to singular": lambda d: np.linalg.inv(
        np.linalg.cholesky(np.full((d, d), 1.0 - 1e-9) + 1e-9 * np.eye(d))
    ),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("d", [10, products.FEW_COLUMNS, products.FEW_COLUMNS + 1, 33, 130])
def test_lengths_of_products_are_never_too_small(d, name):
    """Rows of every size, among them some whose products nearly cancel, and rows of zeros."""
    matrix, rng = FACTORS[name](d), np.random.default_rng(d)
    rows = rng.standard_normal((400, d)) / (np.logspace(-120, 120, d) if name == "scaled" else 1.0)
    rows[100:200] *= np.logspace(-45, 45, 100)[:, None]
    rows[200:250] = 1.0 + 1e-7 * rng.standard_normal((50, d))
    rows[250:300, 1:] = 0.0
    rows[300:310] = 0.0
    found, wanted = lengths_of_products(rows, matrix), precise_lengths(rows, matrix)
    exact = 1e-12 * np.linalg.cond(matrix) if name == "close to singular" else 1e-13 * d
    assert np.all(found >= wanted * (1.0 - exact))
    assert np.all(found <= wanted * (1.0 + (products.SLACK if d > products.FEW_COLUMNS else exact)))
    # Lines are off by no more than they say.
    lines, _, lost = rough_products(rows, matrix)
    some = np.isfinite(lost) if lost.size > 1 else np.arange(0)
    off = lines[some] - rows[some].astype(np.longdouble) @ matrix.T.astype(np.longdouble)
    assert np.all(np.sqrt(np.einsum("na,na->n", off, off)) <= lost[some] + exact * found[some])


def test_what_single_precision_may_lose_is_added_to_lengths():
    """It is so much more than is lost that the mean over rows shows how much was added."""
    d = 70
    matrix, rows = FACTORS["plain"](d), np.random.default_rng(5).standard_normal((4000, d))
    added = lengths_of_products(rows, matrix) - precise_lengths(rows, matrix)
    may_be_lost = (d + 3) * 2.0**-24 * (np.abs(rows) @ np.sqrt(np.sum(matrix**2, axis=0)))
    assert np.mean(added) == pytest.approx(np.mean(may_be_lost), rel=0.004)
    assert np.all(added > 0.5 * may_be_lost)


def test_columns_of_every_kind_become_rows():
    rng = np.random.default_rng(7)
    n = 600  # more than two tiles
    kinds = [
        np.float64,
        np.float32,
        np.int8,
        np.uint8,
        np.bool_,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
    ]
    columns = [rng.integers(0, 2 if kind is np.bool_ else 120, n).astype(kind) for kind in kinds]
    columns += [rng.standard_normal(2 * n)[::2], rng.standard_normal(n).astype(np.float32)[::-1]]
    np.testing.assert_array_equal(rows_of_columns(columns), np.column_stack(columns).astype(np.float64))


def test_whitened_rows_of_one_thread_do_not_change_those_of_another():
    rng = np.random.default_rng(8)
    rows = [rng.standard_normal((300, 5)) for _ in range(2)]
    lower = np.tril(rng.standard_normal((5, 5)))
    here = times_transposed(rows[0], lower)
    with ThreadPoolExecutor(1) as other:
        there = other.submit(times_transposed, rows[1], lower).result()
    np.testing.assert_allclose(here, rows[0] @ lower.T)
    np.testing.assert_allclose(there, rows[1] @ lower.T)


# -- work shared between threads --


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_shared_work_is_added_in_the_order_of_its_items(workers):
    def slow_first(item):
        time.sleep(0.01 if item % 3 == 0 else 0.0)
        return [item]

    held = []

    def add(total, more):
        held.append(more[0])
        return more if total is None else total + more

    assert Shared(list(range(40)), slow_first, add).total(workers) == list(range(40)) == held


def test_few_results_of_shared_work_wait_at_a_time():
    first_may_end, done = threading.Event(), []

    def function(item):
        if item == 0:
            first_may_end.wait(10.0)
        done.append(item)
        if len(done) == 3:  # the other thread cannot go on before the first result is there
            first_may_end.set()
        return item

    assert Shared(list(range(20)), function, lambda total, more: more).total(2) == 19
    assert done.index(0) <= 3


@pytest.mark.parametrize("bad", [0, 1, 17])
def test_an_error_in_shared_work_ends_it(bad):
    done = []

    def function(item):
        if item == bad:
            raise ValueError(f"item {item}")
        time.sleep(0.001)
        done.append(item)

    with pytest.raises(ValueError, match=f"item {bad}"):
        Shared(list(range(1000)), function, lambda total, more: None).total(2)
    assert len(done) < 100


def test_of_several_errors_in_shared_work_the_first_is_raised():
    def function(item):
        time.sleep(0.02 if item == 4 else 0.0)  # the next one fails before it does
        if item >= 4:
            raise ValueError(f"item {item}")

    for _ in range(5):
        with pytest.raises(ValueError, match="item 4"):
            Shared(list(range(20)), function, lambda total, more: None).total(2)


def test_threads_that_share_work_may_share_work_in_turn():
    def inner(item):
        return Shared(list(range(10)), lambda k: item * k, lambda a, b: b if a is None else a + b).total(2)

    both = [pool(2).submit(inner, k) for k in (1, 2)]
    assert [f.result(10.0) for f in both] == [45, 90]


def test_rows_at_hand_are_summed_exactly():
    """By columns, in tiles of which the last is not full, with an offset and weights."""
    from tallbayes.kernels.all_rows import rows_are_at_hand
    from tallbayes.kernels.driver import Driver
    from tallbayes.kernels.state import empty_draws
    from tallbayes.models import passes

    rng = np.random.default_rng(5)
    X, offset = rng.standard_normal((300, 4)), rng.standard_normal(300)
    y, weights = (rng.random(300) < 0.4).astype(float), rng.integers(0, 3, 300).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 1.0), offset=offset, weights=weights)
    assert rows_are_at_hand(model)
    prepared = tb.kernels.MetropolisHastings().prepare(model, threads=1)
    driver = Driver(prepared, np.random.Generator(np.random.SFC64(1)))
    driver.advance(empty_draws(50, 4), 10**9)
    theta = prepared.metric.theta(driver.state.z)
    expected = model.source.reduce(passes.potential, model.rows, model.predictors, theta, threads=1)
    assert driver.state.numbers["potential"][0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "d", "at_hand"), [(65_536, 8, True), (65_537, 2, False), (52_428, 10, True), (52_429, 10, False)]
)
def test_how_many_rows_a_chain_sums_itself(n, d, at_hand):
    """As many as 65,536, and 524,288 numbers of a design."""
    from tallbayes.kernels.all_rows import rows_are_at_hand

    y = np.zeros(n)
    y[0] = 1.0
    model = tb.Regression(np.ones((n, d)), y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 1.0))
    assert rows_are_at_hand(model) is at_hand
