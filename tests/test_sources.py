"""Sources: one of a few lines can be sampled, sums do not depend on threads, streams supply the right rows."""

import math
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from tallbayes.errors import InputError
from tallbayes.kernels.mixing import effective_draws
from tallbayes.sources.base import Block, Source
from tallbayes.sources.profile import profile_block
from tallbayes.sources.supply import (
    RUN,
    Drawing,
    Request,
    RowBounds,
    Stream,
    StreamedSupply,
    no_offers,
    offer,
)

ALPHA = 1e-7  # false positives of every statistical test below

BERNOULLI = tb.families.Bernoulli()


class Blocks(Source):
    """Rows in a list of blocks, as a user might write it."""

    def __init__(self, names, parts):
        self.names = names
        self.parts = parts

    @property
    def n(self):
        return sum(len(y) for _, y, _, _ in self.parts)

    def blocks(self):
        first = 0
        for X, y, weight, offset in self.parts:
            yield Block(first, X, y[:, None], weight, offset)
            first += len(y)


def make_data(n=3000, d=3, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    offset = 0.3 * rng.standard_normal(n)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X.sum(axis=1) - offset))).astype(float)
    return X, y, weights, offset


def in_blocks(X, y, weights, offset, sizes=(1, 700, 1300)):
    """Return the data in blocks of the given sizes and one of the rest."""
    ends = [0, *np.cumsum(sizes), len(y)]
    cut = [slice(a, b) for a, b in pairwise(ends)]
    names = [f"x{j}" for j in range(X.shape[1])]
    return Blocks(names, [(X[s], y[s], weights[s], offset[s]) for s in cut])


# -- a source of a few lines --


@pytest.fixture(scope="module")
def streamed():
    return tb.Regression(in_blocks(*make_data()), None, BERNOULLI)


@pytest.fixture(scope="module")
def arrays():
    X, y, weights, offset = make_data()
    return tb.Regression(X, y, BERNOULLI, weights=weights, offset=offset)


KERNELS = {
    "default": (None, 3000),
    "order 2": (tb.kernels.ScalableMH(order=2), 3000),
    "order 3": (tb.kernels.ScalableMH(order=3), 3000),
    "all rows": (tb.kernels.MetropolisHastings(), 1500),
    "zigzag": (tb.kernels.ZigZag(), 3000),
}


def moments(tree):
    """Return means and variances with their standard errors, from effective draws."""
    beta = np.asarray(tree["posterior"]["beta"])
    mean, variance = beta.mean(axis=(0, 1)), beta.var(axis=(0, 1))
    squares = (beta - mean) ** 2
    errors = [values.std(axis=(0, 1)) / np.sqrt(effective_draws(values)) for values in (beta, squares)]
    return np.concatenate([mean, variance]), np.concatenate(errors)


@pytest.fixture(scope="module")
def reference(arrays):
    return moments(tb.sample(arrays, tb.kernels.ScalableMH(order=3), draws=50_000, seed=3, progress=False))


@pytest.mark.parametrize("name", KERNELS)
def test_a_source_of_a_few_lines_is_sampled(streamed, reference, name):
    """Six numbers for each kernel; batch means are off by a tenth, hence 6.5 in place of 5.3 standard errors."""
    kernel, draws = KERNELS[name]
    tree = tb.sample(streamed, kernel, draws=draws, chains=2, seed=4, progress=False)
    assert tree.attrs["bound_violations"] == 0
    found, error = moments(tree)
    wanted, other = reference
    assert np.all(np.abs(found - wanted) < 6.5 * np.hypot(error, other))
    # Errors are small enough to mean something.
    sd = np.sqrt(wanted[3:])
    assert np.all(error[:3] < 0.12 * sd)


def test_the_same_mode_and_bounds_as_in_arrays(streamed, arrays):
    kernel = tb.kernels.ScalableMH(order=3)
    one, other = kernel.prepare(streamed), kernel.prepare(arrays)
    np.testing.assert_allclose(one.metric.centre, other.metric.centre, rtol=1e-9)
    np.testing.assert_allclose(one.target.bound.total, other.target.bound.total, rtol=1e-9)
    np.testing.assert_allclose(streamed.profile.sd, arrays.profile.sd, rtol=1e-12)
    np.testing.assert_array_equal(streamed.profile.weights, arrays.profile.weights)
    np.testing.assert_allclose(
        streamed.coefficient_priors.precision, arrays.coefficient_priors.precision, rtol=1e-12
    )


def test_what_a_stream_cannot_do_is_refused(streamed):
    with pytest.raises(InputError, match=r"Firefly needs 'random access'.*Blocks does not offer.*ScalableMH"):
        tb.sample(streamed, tb.kernels.Firefly())
    for order in (None, 2):
        with pytest.raises(InputError, match=r"sketch=True needs 'random access'.*Blocks does not offer"):
            tb.sample(streamed, tb.kernels.ScalableMH(order=order, sketch=True))


@pytest.mark.parametrize("name", ["y", "offset", "weights", "names"])
def test_nothing_is_given_beside_a_source(name):
    X, y, weights, offset = make_data(n=50)
    given = {"y": y, "offset": offset, "weights": weights, "names": ["a", "b", "c"]}
    rows = in_blocks(X, y, weights, offset, sizes=(20,))
    beside = {name: given[name]}
    with pytest.raises(InputError, match=f"{name}: a .* was given beside a source of rows; expected None"):
        tb.Regression(rows, beside.pop("y", None), BERNOULLI, **beside)


def test_arrays_of_a_source_may_be_of_any_kind(streamed):
    """Booleans, single precision, columns first, read-only: blocks are converted."""
    X, y, weights, offset = make_data()
    held = [np.asfortranarray(X), y.astype(bool), weights.astype(np.float32), offset]
    for values in held:
        values.setflags(write=False)
    model = tb.Regression(in_blocks(*held), None, BERNOULLI)
    kernel = tb.kernels.ScalableMH(order=3)
    one, other = (tb.sample(m, kernel, draws=100, chains=2, seed=4, progress=False) for m in (model, streamed))
    np.testing.assert_array_equal(one["posterior"]["beta"], other["posterior"]["beta"])


def test_values_of_a_source_are_checked_in_every_block():
    X, y, weights, offset = make_data(n=100)
    X[77, 1] = math.nan
    with pytest.raises(InputError, match="X: row 77, column 'x1' is nan"):
        tb.Regression(in_blocks(X, y, weights, offset, sizes=(1, 40)), None, BERNOULLI)
    X, y, weights, offset = make_data(n=100)
    rows = in_blocks(X, y, weights, offset, sizes=(40,))
    rows.names = ["a", "b"]
    with pytest.raises(InputError, match=r"block that begins at row 0 has shape \(40, 3\); .* 2 columns"):
        tb.Regression(rows, None, BERNOULLI)


@pytest.mark.parametrize("per_row", [False, True])
def test_successes_are_encoded_in_a_source_too(per_row):
    rng = np.random.default_rng(2)
    X, _, weights, offset = make_data(n=300)
    trials = rng.integers(0, 5, 300) if per_row else 4
    y = rng.binomial(trials, 0.4, 300).astype(float)
    family = tb.families.Binomial(trials)
    whole = tb.Regression(X, y, family, weights=weights, offset=offset)
    parts = tb.Regression(in_blocks(X, y, weights, offset, sizes=(1, 100)), None, family)
    kernel = tb.kernels.ScalableMH(order=2)
    one, other = kernel.prepare(whole), kernel.prepare(parts)
    np.testing.assert_allclose(one.metric.centre, other.metric.centre, rtol=1e-9)
    np.testing.assert_allclose(one.metric.covariance, other.metric.covariance, rtol=1e-9)
    with pytest.raises(InputError, match="7 numbers of trials were given for 300 rows"):
        tb.Regression(in_blocks(X, y, weights, offset, sizes=(50,)), None, tb.families.Binomial(np.ones(7)))


def test_profile_of_blocks_with_weights_of_different_kinds():
    """One weight for all rows of a block, another in the next; a block of one row."""
    X, y, _, offset = make_data(n=10)
    weights = np.repeat([2.0, 3.0, 1.0], [1, 4, 5])
    cut, given = [slice(0, 1), slice(1, 5), slice(5, 10)], [weights[:1], np.array([3.0]), weights[5:]]
    parts = [Block(s.start, X[s], y[s, None], w, offset[s]) for s, w in zip(cut, given, strict=True)]
    found = [profile_block(part, ["x0", "x1", "x2"], 10) for part in parts]
    for total in (found[0].merged(found[1]).merged(found[2]), found[0].merged(found[1].merged(found[2]))):
        assert total.weight == pytest.approx(weights.sum())
        np.testing.assert_array_equal(total.weights, weights)
        np.testing.assert_array_equal(total.responses, y)
        mean = np.average(X, axis=0, weights=weights)
        np.testing.assert_allclose(total.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(total.sd**2, np.average((X - mean) ** 2, axis=0, weights=weights), rtol=1e-12)


# Four blocks of three rows, and what a column's values are. The last block has no weight, nor has the third row of the
# second one.
FEW_VALUES = {
    "constant": ([[1, 1, 1], [1, 1, 1], [1, 1, 1], [7, 8, 9]], (1, 1)),
    "dummy": ([[0, 1, 0], [1, 1, 0], [0, 0, 0], [5, 5, 5]], (0, 1)),
    "one row": ([[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]], (0, 1)),
    "all but one": ([[1, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 1]], (0, 1)),
    "constant in blocks": ([[2, 2, 2], [1, 1, 1], [2, 2, 2], [3, 3, 3]], (1, 2)),
    "negative": ([[1, -1, 1], [1, 1, 1], [-1, -1, -1], [0, 0, 0]], (-1, 1)),
    "tiny and large": ([[1e-9, 1e9, 1e9], [1e9] * 3, [1e-9] * 3, [0, 0, 0]], (1e-9, 1e9)),
    "nearly equal": ([[1, 1, 1], [1, 1 + 2**-52, 1], [1, 1, 1], [1, 1, 1]], (1, 1 + 2**-52)),
    "no sign of zero": ([[0.0, -0.0, 1], [-0.0, 1, 1], [1, 0.0, 1], [1, 1, 1]], (0, 1)),
    "without a weight in a block": ([[0, 0, 1], [0, 1, 9], [1, 0, 0], [1, 1, 1]], (0, 1)),
    "three": ([[0, 1, 2], [0, 0, 0], [0, 0, 0], [0, 0, 0]], None),
    "three, one in each block": ([[0, 0, 0], [1, 1, 1], [2, 2, 2], [0, 0, 0]], None),
    "three, one between": ([[0, 1, 0], [0, 0.5, 0], [1, 1, 1], [0, 0, 0]], None),
    "three, one below": ([[0, 1, 0], [1, 1, 1], [1, 0, -1e-9], [0, 0, 0]], None),
    "two and two others": ([[0, 1, 0], [0, 1, 0], [2, 3, 2], [0, 0, 0]], None),
    "many": ([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]], None),
}


@pytest.mark.parametrize("tree", ["left", "right", "balanced"])
def test_profiles_find_columns_of_two_values_in_any_tree(tree):
    """Whether a column has at most two values in rows with a weight, and which."""
    table = np.array([blocks for blocks, _ in FEW_VALUES.values()], dtype=float)  # columns x blocks x rows
    weights = [np.ones(1), np.array([1.0, 2.0, 0.0]), np.array([3.0, 1.0, 1.0]), np.zeros(1)]
    names = list(FEW_VALUES)
    a, b, c, e = (
        profile_block(Block(3 * k, table[:, k].T.copy(), np.zeros((3, 1)), weights[k], np.zeros(1)), names, 12)
        for k in range(4)
    )
    if tree == "left":
        total = a.merged(b).merged(c).merged(e)
    elif tree == "right":
        total = a.merged(b.merged(c.merged(e)))
    else:
        total = a.merged(b).merged(c.merged(e))
    wanted = [values or (math.nan, math.nan) for _, values in FEW_VALUES.values()]
    np.testing.assert_array_equal(total.values.T, wanted)
    spread = np.where(np.isnan(wanted).any(axis=1) | (np.diff(wanted)[:, 0] == 0), total.sd, np.diff(wanted)[:, 0])
    np.testing.assert_array_equal(total.spread, spread)
    np.testing.assert_array_equal(e.merged(e).values, [[math.inf] * len(names), [-math.inf] * len(names)])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 3, 40, 70])
def test_a_value_is_found_wherever_it_is(d, weighted):
    """Columns are judged after some rows: a second and a third value in any row are seen, and summed."""
    rng = np.random.default_rng(d)
    n = 1501
    weight = rng.choice([0.5, 1.0, 2.0], n) if weighted else np.array([2.0])
    w = np.broadcast_to(weight, n)
    names = [f"x{j}" for j in range(d)]
    rows = np.unique([*range(12), *range(20, n, 97), *range(n - 3, n)])
    for second in rows:
        X = np.zeros((n, d))
        X[second] = 1.0 + np.arange(d)
        third = rng.choice(rows[rows != second], d)
        odd = np.arange(d) % 2 == 1
        X[third[odd], odd.nonzero()[0]] = -0.3
        found = profile_block(Block(0, X, np.zeros((n, 1)), weight, np.zeros(1)), names, n)
        wanted = np.where(odd, math.nan, [np.zeros(d), 1.0 + np.arange(d)])
        np.testing.assert_array_equal(found.values, wanted)
        mean = np.average(X, axis=0, weights=w)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-15 * d)
        np.testing.assert_allclose(found.sd**2, np.average((X - mean) ** 2, axis=0, weights=w), rtol=1e-10)
        np.testing.assert_array_equal(found.largest, np.abs(X).max(axis=0))


def test_columns_of_two_values_in_a_source_of_a_few_lines():
    """The default prior is that of arrays, for blocks in which a dummy is constant too."""
    X, y, weights, offset = make_data()
    X[:, 0] = np.arange(len(y)) == np.flatnonzero(weights)[-1]
    X[:, 1] = np.where(np.arange(len(y)) < 701, 4.0, 2.0)
    source = in_blocks(X, y, weights, offset)
    one = tb.Regression(source, None, BERNOULLI)
    assert source.passes == 1
    np.testing.assert_allclose(one.coefficient_priors.scale[:2], [2.5, 1.25], rtol=1e-15)
    other = tb.Regression(X, y, BERNOULLI, weights=weights, offset=offset)
    np.testing.assert_allclose(one.coefficient_priors.scale, other.coefficient_priors.scale, rtol=1e-12)
    profiles = [source.reduce(_profile_of, source.names, source.n, threads=threads) for threads in (1, 2, 5)]
    for found in profiles:
        for part, same in zip(found[:5], profiles[0][:5], strict=True):
            np.testing.assert_array_equal(part, same)


def _profile_of(block, names, n):
    return profile_block(block, names, n)


# -- sums over all rows --


class Order(NamedTuple):
    """The first rows of blocks, in the order in which they were merged."""

    firsts: tuple

    def merged(self, other):
        return Order(self.firsts + other.firsts)


def _sums(block):
    """A part that returns every kind of result; sums whose rounding depends on their order."""
    x = block.X[:, 0] * 10.0 ** (block.first % 17)
    return float(np.sum(x)), x.sum() * np.ones(3), (Order((block.first,)), float(np.sum(x**3)))


def flat(result):
    return np.array([result[0], *result[1], result[2][1]])


@pytest.mark.parametrize("sizes", [(), (1,), (10,) * 99 + (1,)])
def test_sums_do_not_depend_on_threads(sizes):
    rows = in_blocks(*make_data(), sizes=sizes)
    reference = rows.reduce(_sums, threads=1)
    assert rows.passes == 1
    for threads in (2, 5):
        again = rows.reduce(_sums, threads=threads)
        assert flat(again).tobytes() == flat(reference).tobytes()
        assert again[2][0] == reference[2][0] == Order((0, *map(int, np.cumsum(sizes))))
    assert rows.passes == 3


def test_sums_over_arrays_do_not_depend_on_threads():
    """Arrays hand several blocks to a thread at a time."""
    X, y, weights, offset = make_data(n=70_000, d=130)
    rows = tb.Regression(X, y, BERNOULLI, weights=weights, offset=offset).source
    assert rows.together > 1
    reference = rows.reduce(_sums, threads=1)
    assert reference[2][0].firsts == tuple(range(0, rows.n, rows.block_rows))
    for threads in (2, 5):
        again = rows.reduce(_sums, threads=threads)
        assert flat(again).tobytes() == flat(reference).tobytes()
        assert again[2][0] == reference[2][0]


class Odd(Exception):  # noqa: N818
    """An error of a user's own."""


def _fails(block):
    if block.first >= 700:
        raise Odd(block.first)
    return 1.0


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_an_error_in_a_block_comes_out_as_it_is(threads):
    rows = in_blocks(*make_data(), sizes=(100,) * 25)
    with pytest.raises(Odd) as found:
        rows.reduce(_fails, threads=threads)
    assert found.value.args == (700,)  # the first of them, whichever thread was faster
    assert rows.reduce(_sums, threads=threads)[2][0].firsts[:2] == (0, 100)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_the_source_itself_comes_out(threads):
    class Broken(Blocks):
        def blocks(self):
            yield from list(super().blocks())[:3]
            raise Odd("the disk is gone")

    rows = Broken(*vars(in_blocks(*make_data(), sizes=(100,) * 25)).values())
    with pytest.raises(Odd, match="the disk is gone"):
        rows.reduce(_sums, threads=threads)


def test_rows_come_converted_and_a_subsample_is_spread():
    X, y, weights, offset = make_data()
    X[:, 0] = np.arange(len(y))
    rows = in_blocks(np.asfortranarray(X.astype(np.float32)), y, weights, offset)
    assert rows.reduce(_dtype) == 4.0
    part = rows.subsample(100)
    np.testing.assert_array_equal(part.X[:, 0] // 30, np.arange(100))  # one from each hundredth
    chosen = part.X[:, 0].astype(int)
    for found, wanted in ((part.responses[:, 0], y), (part.weight, weights), (part.offset, offset)):
        np.testing.assert_array_equal(found, wanted[chosen])


def _dtype(block):
    return float(block.X.dtype == np.float64 and block.X.flags.c_contiguous)


# -- rows drawn from a stream --


def _bounds_in_the_first_column(block):
    psi = np.ascontiguousarray(block.X[:, 0])
    return RowBounds(psi, np.stack([psi / psi.max() if psi.max() > 0 else psi] * 2, axis=1).astype(np.float32))


DRAWING = Drawing(_bounds_in_the_first_column, (), None, np.ones((1, 2), dtype=np.float32))


def rows_with(psi, sizes):
    """Rows that say which they are: psi, and their number in every other place."""
    number = np.arange(float(len(psi)))
    return in_blocks(np.column_stack([psi, number]), number, number + 1.0, number + 2.0, sizes=sizes)


def draw_slots(psi, sizes, slots, chain=0):
    rows = rows_with(psi, sizes)
    supply = StreamedSupply(rows, DRAWING, slots=slots).for_chain(Stream(RUN, 5, chain))
    found = supply.refill()
    assert rows.passes == 1
    return supply, found


def check_frequencies(counts, psi):
    """Chi-square of counts against psi; rows expected less than ten times are one cell."""
    draws = counts.sum()
    expected = draws * psi / psi.sum()
    assert np.all(counts[psi == 0.0] == 0)
    rare = expected < 10.0
    cells, found = expected[~rare], counts[~rare]
    assert counts[rare].sum() <= stats.poisson.isf(ALPHA, expected[rare].sum())
    if cells.size > 1:
        statistic = np.sum((found - cells) ** 2 / cells)
        assert ALPHA < stats.chi2.sf(statistic, cells.size - 1) < 1 - ALPHA


PSI = {
    "equal": np.ones(60),
    "one row": np.array([0.3]),
    "two": np.array([1.0, 3.0]),
    "wide": 10.0 ** np.linspace(-12.0, 0.0, 60),
    "zeros": np.where(np.arange(60) % 3 == 0, 0.0, np.linspace(0.1, 2.0, 60)),
    "zero ends": np.concatenate([np.zeros(20), np.ones(20), np.zeros(20)]),
}


@pytest.mark.parametrize("sizes", [(), (1,), (7, 20, 3)], ids=["one block", "first row", "blocks"])
@pytest.mark.parametrize("name", PSI)
def test_slots_hold_rows_in_proportion_to_their_bounds(name, sizes):
    psi = PSI[name]
    sizes = sizes if sum(sizes) < len(psi) else ()
    _, rows = draw_slots(psi, sizes, 100_000)
    chosen = rows.responses[:, 0].astype(int)
    check_frequencies(np.bincount(chosen, minlength=len(psi)), psi)
    # Everything a slot holds is of the same row.
    np.testing.assert_array_equal(rows.psi, psi[chosen])
    np.testing.assert_array_equal(rows.weight, chosen + 1.0)
    np.testing.assert_array_equal(rows.offset, chosen + 2.0)
    design = rows.design
    from tallbayes.sources.memory import load_row

    for slot in (0, 17, 99_999):
        x = np.empty(2)
        load_row(design, slot, x)
        assert (x == [psi[chosen[slot]], chosen[slot]]).all()


def test_no_row_with_a_bound_gives_no_slots():
    _, rows = draw_slots(np.zeros(10), (3,), 100)
    assert rows.psi.size == 0


@pytest.mark.parametrize("tree", ["left", "right", "balanced"])
def test_slots_merge_in_any_tree(tree):
    psi = 10.0 ** np.linspace(-3.0, 0.0, 40)
    given = DRAWING.part, DRAWING.arguments, (Request(Stream(RUN, 8, 0), 0, 100_000),)
    blocks = list(rows_with(psi, (5, 1, 20)).blocks())

    def offers(best=None):
        """Offers of each block, with or without knowing what others have offered."""
        return [offer(block, *given, no_offers(given[2]) if best is None else best) for block in blocks]

    def total(a, b, c, e):
        if tree == "left":
            return a.merged(b).merged(c).merged(e)
        if tree == "right":
            return a.merged(b.merged(c.merged(e)))
        return a.merged(b).merged(c.merged(e))

    found = total(*offers())
    check_frequencies(np.bincount(found.facts[:, 3].astype(int), minlength=40), psi)
    # The order of blocks, and what they know of each other, change nothing.
    for other in (total(*offers()[::-1]), total(*offers(no_offers(given[2])))):
        for one, same in zip(found, other, strict=True):
            np.testing.assert_array_equal(one, same)


def test_keys_have_the_rates_of_their_blocks():
    """Exponential with rate Psi_b, of every block alike: 1 % off is ten standard errors. False positives: 1e-8."""
    requests = (Request(Stream(RUN, 9, 0), 0, 1_000_000),)
    for block in rows_with(10.0 ** np.linspace(-3.0, 0.0, 40), (5, 1, 20)).blocks():
        slots = offer(block, DRAWING.part, DRAWING.arguments, requests, no_offers(requests))
        rate = float(np.sum(block.X[:, 0]))
        assert abs(rate * np.mean(slots.key) - 1.0) < 6.0e-3


def test_slots_and_refills_are_independent():
    """Pairs of neighbouring slots, and the same slot in two passes, are drawn in proportion to products."""
    psi = np.array([1.0, 2.0, 0.5, 4.0, 1.5])
    supply, rows = draw_slots(psi, (1, 2), 200_000)
    first = rows.responses[:, 0].astype(int)
    again = supply.refill().responses[:200_000, 0].astype(int)  # there are twice as many
    pairs = np.outer(psi, psi).ravel()
    for one, other in ((first[::2], first[1::2]), (first, again)):
        check_frequencies(np.bincount(5 * one + other, minlength=25), pairs)


def test_chains_have_slots_of_their_own():
    psi = np.array([1.0, 2.0, 0.5, 4.0, 1.5])
    chains = [draw_slots(psi, (2,), 100_000, chain)[1].responses[:, 0].astype(int) for chain in range(3)]
    again = draw_slots(psi, (2,), 100_000, 1)[1].responses[:, 0].astype(int)
    np.testing.assert_array_equal(again, chains[1])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        check_frequencies(np.bincount(5 * chains[one] + chains[other], minlength=25), np.outer(psi, psi).ravel())


# -- designs held in any way --


def _plain(X, tmp_path):
    return X


def _read_only(X, tmp_path):
    X = X.copy()
    X.setflags(write=False)
    return X


def _mapped(X, tmp_path):
    file = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=X.dtype, shape=X.shape)
    file[:] = X
    file.flush()
    return np.asarray(np.load(tmp_path / "X.npy", mmap_mode="r"))  # a plain array, which may be read anywhere


def _strided(X, tmp_path):
    room = np.full((2 * X.shape[0], 1 + X.shape[1]), 77, dtype=X.dtype)
    room[::2, 1:] = X
    return room[::2, 1:]


def _backwards(X, tmp_path):
    return X[::-1, ::-1].copy()[::-1, ::-1]


def _in_records(X, tmp_path):
    """A column of a structured array, packed so that its numbers are not aligned."""
    records = np.zeros(X.shape[0], dtype=[("tag", np.int8), ("x", X.dtype, X.shape[1:]), ("more", np.int16)])
    records["x"] = X
    return records["x"]


HOLDS = [_plain, np.asfortranarray, _read_only, _mapped, _strided, _backwards, _in_records]
DTYPES = [np.float64, np.float32, np.int8, np.uint8, np.bool_, np.int32, np.int64]

HELD_KERNELS = {
    "order 3": tb.kernels.ScalableMH(order=3, bound=tb.bounds.Local(6.0)),
    "sketch": tb.kernels.ScalableMH(order=2, sketch=True),
    "all rows": tb.kernels.MetropolisHastings(),
    "firefly": tb.kernels.Firefly(),
    "zigzag": tb.kernels.ZigZag(),
}


def of_dtype(dtype):
    X, y, _, _ = make_data(n=1500)
    if np.dtype(dtype).kind != "f":
        X = np.abs(np.round(3.0 * X)) if np.dtype(dtype).kind == "u" else np.round(3.0 * X)
        X = X > 0 if dtype is np.bool_ else X
    return X.astype(dtype), y


def draws_of(X, y, kernel):
    model = tb.Regression(X, y, BERNOULLI, tb.priors.Normal(0.0, 1.0))
    tree = tb.sample(model, kernel, draws=100, chains=2, warmup=10, seed=9, progress=False)
    return model, [np.asarray(tree[path]) for path in ("posterior/beta", "sample_stats/rows_touched")]


@pytest.fixture(scope="module")
def cast():
    """Draws of the float64 cast, by dtype and kernel."""
    found = {}

    def get(dtype, name):
        if (dtype, name) not in found:
            X, y = of_dtype(dtype)
            found[dtype, name] = draws_of(np.ascontiguousarray(X, dtype=np.float64), y, HELD_KERNELS[name])[1]
        return found[dtype, name]

    return get


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_design_is_used_as_it_is(cast, dtype, hold, tmp_path):
    X, y = of_dtype(dtype)
    held = hold(X, tmp_path) if hold is not np.asfortranarray else hold(X)
    before = held.copy()
    for name in HELD_KERNELS if hold in {_plain, _strided} else ["order 3"]:
        model, found = draws_of(held, y, HELD_KERNELS[name])
        assert np.shares_memory(model.source.X, held)
        for one, other in zip(found, cast(dtype, name), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(held, before)


class Unreliable(Source):
    """A source that does not keep its word in one way or another."""

    names: ClassVar[list[str]] = ["a"]

    def __init__(self, rows, blocks):
        self._rows, self._blocks = rows, blocks

    @property
    def n(self):
        return self._rows

    def blocks(self):
        return iter(self._blocks)


def _odd_block(first=0, **changed):
    parts = {"X": np.ones((3, 1)), "responses": np.ones((3, 1)), "weight": np.ones(1), "offset": np.zeros(1)}
    return Block(first, **{**parts, **changed})


@pytest.mark.parametrize(
    ("rows", "blocks", "message"),
    [
        (7, [_odd_block(), _odd_block(3)], "had 6 rows in this pass; expected 7"),
        (6, [_odd_block(), _odd_block(2)], "begins at row 2"),
        (3, [_odd_block(responses=np.ones(3))], "responses of \\(rows, 1\\)"),
        (3, [_odd_block(weight=np.float64(1.0))], "one weight and"),
        (3, [_odd_block(offset=np.zeros(2))], "one weight and"),
        (3, [_odd_block(responses=np.ones((3, 2)))], r"shape \(3, 2\).*one response for each row"),
        (3, [_odd_block(X=np.ones((3, 1)) + 1j)], "X of the block .* dtype complex128"),
        (3, [_odd_block(X=np.full((3, 1), "1"))], "X of the block .* dtype <U1"),
        (3, [_odd_block(responses=np.ones((3, 1), dtype=object))], "responses of the block .* dtype object"),
        (3, [tuple(_odd_block())], "yielded a tuple; expected tallbayes.sources.base.Block"),
        (3, [], "had 0 rows in this pass"),
        (0, [], "n = 0"),
        (3.0, [_odd_block()], "n = 3.0; expected a whole number"),
    ],
)
def test_a_source_that_does_not_keep_its_word_is_refused(rows, blocks, message):
    with pytest.raises(InputError, match=message):
        tb.Regression(Unreliable(rows, blocks), None, tb.families.Bernoulli())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weight": np.array([1.0, -1.0, 1.0])}, "weights: row 4 has -1; .* zero or positive"),
        ({"weight": -np.ones(1)}, "weights: row 3 has -1"),
        ({"weight": np.array([1.0, 1.0, np.nan])}, "weights: row 5 has nan"),
        ({"weight": np.array([np.inf])}, "weights: row 3 has inf"),
        ({"offset": np.array([0.0, np.nan, 0.0])}, "offset: row 4 has nan; every value must be finite"),
    ],
)
def test_weights_and_offsets_of_a_source_are_checked(changed, message):
    with pytest.raises(InputError, match=message):
        tb.Regression(Unreliable(6, [_odd_block(), _odd_block(3, **changed)]), None, tb.families.Bernoulli())


def test_a_source_without_any_weight_is_refused():
    with pytest.raises(InputError, match="every row has weight 0"):
        tb.Regression(Unreliable(3, [_odd_block(weight=np.zeros(1))]), None, tb.families.Bernoulli())


def test_a_source_without_blocks_is_refused():
    source = Unreliable(3, [])
    source.blocks = lambda: None
    with pytest.raises(InputError, match=r"blocks\(\) returned a NoneType"):
        tb.Regression(source, None, tb.families.Bernoulli())


def test_a_source_that_can_be_read_once_is_refused():
    once = Unreliable(3, [])
    blocks = iter([_odd_block()])
    once.blocks = lambda: blocks
    model = tb.Regression(once, None, tb.families.Bernoulli(), tb.priors.Normal(0.0, 1.0))
    with pytest.raises(InputError, match="the same rows every time"):
        tb.sample(model, draws=10, progress=False)
