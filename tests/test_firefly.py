"""Firefly: its bounds, its marks, its chain, and what it refuses."""

import dataclasses
import itertools
import math

import numba
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import oracle
import other_kernels
import tallbayes as tb
from problems import CASES, Driver, empty_draws, run, stream
from tallbayes.errors import InputError
from tallbayes.families.curve import jet, potential
from tallbayes.families.parabola import parabola_curvature
from tallbayes.kernels.firefly_steps import SUSPECT_EXCESS, SUSPECT_ROW, SUSPECT_STEP, row_excess, sweep
from tallbayes.kernels.state import SUSPECTS
from tallbayes.setup.bounds import shift
from tallbayes.setup.exact_prior import exact_at
from tallbayes.setup.polynomial import evaluate
from tallbayes.sources.memory import describe

FAMILIES = {
    "logistic": tb.families.Bernoulli(),
    "student-1.5": tb.families.StudentT(df=1.5, scale=1.0),
    "student-5": tb.families.StudentT(df=5.0, scale=0.7),
    "pseudo-huber": tb.families.PseudoHuber(delta=1.3, scale=1.0),
    "gaussian": tb.families.Gaussian(scale=2.0),
    "negative-binomial": tb.families.NegativeBinomial(size=2.0),
    "binomial": tb.families.Binomial(trials=5),
}


def excesses(driver, move):
    """e_i of every row at centre + move, as the compiled steps find them; none may look broken."""
    n = driver.prepared.model.n
    found = np.array([row_excess(driver.target, driver.state, i, move) for i in range(n)])
    if driver.state.numbers["suspects"][0]:
        driver._look_closer()
    assert driver.violations == 0
    return found


def with_curvature(prepared, factor):
    """Return the same kernel with parabolas that are too flat, or too steep."""
    tangents = prepared.target.tangents.copy()
    tangents[:, 1] *= factor
    return dataclasses.replace(prepared, target=prepared.target._replace(tangents=tangents))


def relative_excess(family, point, curvature=1.0):
    """(q - g) as a share of the parabola's own rise, at a tangent point and a step."""
    curve, slope = family.curve, family.parabola_slope
    t, delta = point
    kappa = curvature * parabola_curvature(curve, t, slope, 0)
    rise = 0.5 * kappa * delta * delta
    return (potential(curve, t, 0) + jet(curve, t, 0)[0] * delta + rise - potential(curve, t + delta, 0)) / rise


def lowest(family, curvature=1.0):
    """Return the least relative excess that a search from many starts finds; short steps would be rounding."""
    rng = np.random.default_rng(1)
    best = math.inf
    for _ in range(60):
        start = rng.choice([0.3, 3.0, 30.0]) * rng.standard_normal(2)

        def at(point):
            return relative_excess(family, point, curvature) if 1e-3 < abs(point[1]) < 1e4 else 1.0

        best = min(best, minimize(at, start, method="Nelder-Mead", options={"maxfev": 150}).fun)
    return best


@pytest.mark.parametrize("name", FAMILIES)
def test_parabola_lies_above_and_touches(name):
    family = FAMILIES[name]
    assert lowest(family) > -1e-9
    # It touches at the mirror image as well, so no flatter parabola would do: the search finds that out.
    assert lowest(family, curvature=0.999) < -5e-4
    for t in (-3.0, 0.1, 2.0):
        assert abs(relative_excess(family, (t, -2.0 * t))) < 1e-9
    slope, curve = family.parabola_slope, family.curve
    for t in (-3.0, -1e-9, 0.0, 1e-7, 0.1, 2.0):
        # Near zero the quotient is a mean of second derivatives: no digits are lost.
        wanted = (jet(curve, t, 0)[0] - slope) / t if abs(t) > 1e-3 else jet(curve, 0.0, 0)[1]
        assert parabola_curvature(curve, t, slope, 0) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_excess_is_the_definition(case):
    prepared, problem = other_kernels.side(case, tb.kernels.Firefly())
    d = problem.centre.size
    driver = Driver(prepared, stream(2), np.zeros(d))
    points = np.random.default_rng(2).standard_normal((20, d)) * np.linspace(0.1, 4.0, 20)[:, None]
    wanted = np.float64(other_kernels.excesses(problem, problem.theta(points)))
    assert np.all(wanted >= -1e-16)
    for z, row in zip(points, wanted, strict=True):
        np.testing.assert_allclose(excesses(driver, prepared.metric.shift(z)), row, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("case", CASES)
def test_marks_summed_out_leave_the_posterior(case):
    """The joint density from the kernel's own parts, over all sets of marks, is the posterior."""
    kernel = tb.kernels.Firefly(proposal=tb.proposals.PreconditionedWalk(1.0))
    prepared, problem = other_kernels.side(case, kernel)
    target, d = prepared.target, problem.centre.size
    driver = Driver(prepared, stream(3), np.zeros(d))
    points = np.vstack([np.zeros(d), np.random.default_rng(3).standard_normal((30, d)) * 2.0])
    log_sums = []
    for z in points:
        e = excesses(driver, prepared.metric.shift(z))
        few = min(problem.n, 8)
        # All 2^8 sets of the first rows by enumeration; the other rows one by one.
        marks = np.array(list(itertools.product([0, 1], repeat=few)))
        some = np.log(np.sum(np.prod(np.where(marks == 1, np.expm1(e[:few]), 1.0), axis=1)))
        value = evaluate(target.collapsed, z[None])[0] + exact_at(target.exact, z[None])[0]
        log_sums.append(-value + some + np.sum(np.log1p(np.expm1(e[few:]))))
    wanted = -np.float64(problem.potential(problem.theta(points)))
    found = np.array(log_sums)
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=0, atol=1e-9)


def transition(e, q_db):
    """Each row's own transition matrix of a sweep, from dark (0) and bright (1)."""
    up, down = q_db * min(1.0, math.expm1(e) / q_db), min(1.0, q_db / math.expm1(e))
    return np.array([[1 - up, up], [down, 1 - down]])


@numba.njit
def sweeps(target, state, places, e, bright, rng, orders, excess, counts):
    """Sweep again and again from the same marks; a line of the last three for each."""
    for r in range(counts.shape[0]):
        state.order[:] = places
        state.excess[:] = e[places]
        state.numbers[0].slot = bright
        state.numbers[0].rows = 0
        sweep(target, state, rng)
        orders[r] = state.order
        excess[r] = state.excess
        counts[r, 0] = state.numbers[0].slot
        counts[r, 1] = state.numbers[0].rows


@pytest.mark.parametrize("q_db", [0.15, 1.0])
def test_sweep_against_enumeration(q_db):
    """From every set of marks of four rows, where a sweep leads. False positives: 1e-7 for each q_db."""
    prepared, _ = other_kernels.side("student-normal", tb.kernels.Firefly(q_db=q_db), by=2.5)
    driver = Driver(prepared, stream(4), np.zeros(1))
    move = np.array([-1.1])
    all_e = excesses(driver, move)
    chosen = np.argsort(np.abs(np.log(np.expm1(all_e) / q_db)))[:4]  # neither always dark nor always bright
    e = all_e[chosen]
    rows, X = prepared.target.rows, prepared.model.source.X[chosen]
    rows = rows._replace(design=describe(X), responses=rows.responses[chosen])
    target = prepared.target._replace(rows=rows, tangents=prepared.target.tangents[chosen])
    few = driver.state._replace(order=np.empty(4, dtype=np.int64), excess=np.empty(4), trial=np.empty(4))
    few.room[0] = move
    marks = list(itertools.product([0, 1], repeat=4))
    matrices = [transition(value, q_db) for value in e]
    T = np.array(
        [[np.prod([m[a, b] for m, a, b in zip(matrices, old, new, strict=True)]) for new in marks] for old in marks]
    )
    stationary = np.array(
        [np.prod([math.expm1(v) if b else 1.0 for v, b in zip(e, m, strict=True)]) for m in marks]
    )
    np.testing.assert_allclose(stationary[:, None] * T, (stationary[:, None] * T).T, rtol=1e-12)
    rng, repeats = stream(4), 1500
    counts = np.zeros((16, 16))
    for a, old in enumerate(marks):
        places = sorted(range(4), key=lambda i: -old[i])
        orders, excess = np.empty((repeats, 4), dtype=np.int64), np.empty((repeats, 4))
        seen = np.empty((repeats, 2), dtype=np.int64)
        sweeps(target, few, np.array(places), e, sum(old), rng, orders, excess, seen)
        for order, after, (bright, looked) in zip(orders, excess, seen, strict=True):
            new = np.zeros(4, dtype=int)
            new[order[:bright]] = 1
            counts[a, marks.index(tuple(new))] += 1
            assert np.all(np.abs(after[:bright] - e[order[:bright]]) <= 1e-12 * e[order[:bright]])
            assert sorted(order) == [0, 1, 2, 3]
            assert looked <= 4 - sum(old)
    assert few.numbers["suspects"][0] == 0
    expected = repeats * T
    likely = expected > 5.0
    assert np.all(counts[expected == 0.0] == 0.0)
    score = np.sum((counts[likely] - expected[likely]) ** 2 / expected[likely])
    assert score < stats.chi2.isf(1e-7, np.count_nonzero(likely))
    assert np.count_nonzero(likely) > 60


REPLAYS = [
    ("logistic-normal", 0.15, tb.proposals.PreconditionedWalk(0.7), oracle.preconditioned_walk, (0.7,)),
    ("student-flat", 0.4, tb.proposals.CrankNicolson(0.5), oracle.crank_nicolson, (0.5,)),
    ("logistic-flat", 0.02, tb.proposals.FirstOrderReversible(1.7), oracle.first_order_reversible, (1.7,)),
    ("logistic-priors", 0.15, tb.proposals.PreconditionedWalk(0.7), oracle.preconditioned_walk, (0.7,)),
    (
        "student-normal",
        0.3,
        tb.proposals.CrankNicolson(0.5, walk_every=3),
        oracle.crank_nicolson_and_walks,
        (0.5, False, 3),
    ),
]


@pytest.mark.parametrize("replay", REPLAYS, ids=lambda r: r[0])
def test_compiled_chain_is_the_plain_one(replay):
    case, q_db, move, density, arguments = replay
    prepared, problem = other_kernels.side(case, tb.kernels.Firefly(q_db=q_db, proposal=move))
    start = 0.5 * np.random.default_rng(5).standard_normal(problem.centre.size)
    driver = Driver(prepared, stream(5), start)
    draws = run(driver, 1500)
    expected = other_kernels.firefly(problem, density(problem, *arguments), q_db, start, stream(5), 1500)
    np.testing.assert_array_equal(draws.accepted, expected.accepted)
    np.testing.assert_array_equal(draws.rows_touched, expected.rows_touched)
    np.testing.assert_allclose(draws.z, expected.z, rtol=0, atol=1e-11)
    assert driver.violations == 0
    assert driver.state.exposure == np.sum(draws.rows_touched)
    assert 0.02 < np.mean(draws.accepted) < 0.98
    assert np.std(draws.rows_touched) > 0.5


@pytest.mark.parametrize("case", ["student-flat", "logistic-normal"])
@pytest.mark.parametrize("factor", [0.9, 0.99])
def test_broken_bound_is_noticed(case, factor):
    """A parabola touches the potential twice, so that even a slightly flatter one is below it somewhere."""
    prepared, problem = other_kernels.side(case, tb.kernels.Firefly(q_db=0.5))
    start = np.zeros(problem.centre.size)
    driver = Driver(with_curvature(prepared, factor), stream(6), start)
    run(driver, 500)
    assert driver.violations > 0
    driver = Driver(with_curvature(prepared, 1.0 + 1e-12), stream(6), start)
    run(driver, 500)
    assert driver.violations == 0


def test_no_number_of_harmless_suspects_hides_a_broken_bound():
    prepared, _ = other_kernels.side("student-flat", tb.kernels.Firefly(q_db=0.5))
    driver = Driver(with_curvature(prepared, 0.9), stream(6), np.zeros(3))
    suspects, numbers = driver.state.suspects, driver.state.numbers
    suspects[:, SUSPECT_ROW], suspects[:, SUSPECT_EXCESS], suspects[:, SUSPECT_STEP] = 0, 0.0, 1.0
    numbers["suspects"], numbers["violations"] = SUSPECTS, 0
    run(driver, 500)
    assert driver.violations > 0


@pytest.mark.parametrize("case", ["logistic-normal", "student-flat"])
def test_where_a_chunk_ends_changes_nothing(case):
    prepared, problem = other_kernels.side(case, tb.kernels.Firefly())
    d, chunks = problem.centre.size, np.random.default_rng(7)
    whole = run(Driver(prepared, stream(7), np.zeros(d)), 300)
    driver = Driver(prepared, stream(7), np.zeros(d))
    parts, left = [], 300
    while left:
        room = empty_draws(min(left, int(chunks.integers(1, 20))), d)
        done = driver.advance(room, int(chunks.integers(1, 60)))
        parts.append([field[:done] for field in room])
        left -= done
    for field in range(4):
        np.testing.assert_array_equal(np.concatenate([part[field] for part in parts]), whole[field])


def test_tables_grow_with_the_bright_set():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((3000, 2))
    y = X @ [1.0, -1.0] + rng.standard_normal(3000)
    model = tb.Regression(X, y, tb.families.StudentT(df=4.0, scale=1.0), tb.priors.Flat())
    prepared = tb.kernels.Firefly(q_db=0.9).prepare(model, threads=1)
    driver = Driver(prepared, stream(8), np.zeros(2))
    state = driver.state
    assert state.bright == 0
    # At the mode every row is dark; from a point far away, thousands turn bright in the first sweep.
    state.z[:] = 60.0
    run(driver, 1)
    move = np.empty(2)
    shift(prepared.target.whitening, state.z, move)
    e = excesses(driver, move)
    assert state.bright > 1000
    np.testing.assert_array_equal(state.excess[: state.bright], e[state.order[: state.bright]])
    assert sorted(state.order) == list(range(3000))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.kernels.Firefly(q_db=0.0), r"q_db=0\.0 must satisfy 0 < q_db <= 1"),
        (lambda: tb.kernels.Firefly(q_db=1.5), r"q_db=1\.5"),
        (lambda: tb.kernels.Firefly(q_db=True), "q_db=True"),
        (lambda: tb.kernels.Firefly(proposal="walk"), "Firefly: proposal='walk' was given"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("family", [tb.families.Poisson(), tb.families.Gamma(shape=2.0)])
def test_families_without_such_a_bound(family):
    model = tb.Regression(np.ones((5, 1)), np.arange(1.0, 6.0), family)
    with pytest.raises(InputError, match="no lower bound that is the exponential of a parabola"):
        tb.sample(model, tb.kernels.Firefly(), draws=5, progress=False)
