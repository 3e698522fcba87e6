"""Zig-Zag: its rates, their bounds, its path, and what it refuses; that Firefly and it agree with plain MH."""

import dataclasses
import json
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import other_kernels
import tallbayes as tb
from problems import CASES, Driver, empty_draws, run, stream
from tallbayes.errors import InputError
from tallbayes.families.curve import jet
from tallbayes.kernels.state import SUSPECTS
from tallbayes.kernels.zigzag_steps import (
    SUSPECT_LENGTH,
    SUSPECT_LIMIT,
    SUSPECT_RATE,
    SUSPECT_ROW,
    row_flip,
    slope_rounding,
)

NORMAL_PRIORS = [name for name in CASES if name != "logistic-priors"]

VARIANTS = {
    "whitened": tb.kernels.ZigZag(step=0.7),
    "scaled": tb.kernels.ZigZag(step=0.7, whitened=False),
    "uniform": tb.kernels.ZigZag(step=0.7, whitened=False, uniform=True),
}


def oracle_frame(problem, name):
    """A, from the oracle's own Hessian."""
    if name == "whitened":
        return problem.unwhiten
    return np.diag(np.sqrt(np.diag(np.linalg.inv(problem.hessian))))


def slope_change(driver, i, move):
    """The change of row i's slope on the way from the centre by move, as the compiled process finds it.

    With a bound of zero its rate is kept as a suspect, and with these velocities it flips the first coordinate if
    the change is positive, and none if it is negative.
    """
    target, state, x = driver.target, driver.state, driver.prepared.model.source.X[i]
    state.move[:], state.velocity[:] = move, np.where(x @ target.frame >= 0.0, 1.0, -1.0)
    state.numbers["suspects"] = 0
    flip = row_flip(target, state, i, 0.0, driver.rng)
    if state.numbers["suspects"][0] == 0:
        return 0.0
    suspect = state.suspects[0]
    assert (suspect[SUSPECT_ROW], suspect[SUSPECT_LIMIT]) == (i, 0.0)
    state.numbers["suspects"] = 0
    size = suspect[SUSPECT_RATE] / suspect[SUSPECT_LENGTH]
    return size if flip >= 0 else -size


@pytest.mark.parametrize("case", NORMAL_PRIORS)
@pytest.mark.parametrize("name", ["whitened", "scaled"])
def test_rates_leave_the_posterior_invariant(case, name):
    """Rate with v_j less rate with -v_j is v_j times the posterior's gradient, from the kernel's own parts."""
    prepared, problem = other_kernels.side(case, VARIANTS[name])
    target, d = prepared.target, problem.centre.size
    frame, X = oracle_frame(problem, name), prepared.model.source.X
    driver, rng = Driver(prepared, stream(1), np.zeros(d)), np.random.default_rng(1)
    for _ in range(10):
        u, v = 1.5 * rng.standard_normal(d), rng.choice([-1.0, 1.0], d)
        move = target.frame @ u
        change = np.array([slope_change(driver, i, move) for i in range(problem.n)])
        rows = X @ target.frame
        slope = target.gradient + (target.precision @ u if target.precision.size else 0.0)

        def rates(v, slope=slope, change=change, rows=rows):
            return np.maximum(v * slope, 0) + np.maximum(v * (change[:, None] * rows), 0).sum(axis=0)

        theta = problem.centre + frame @ u
        slopes = problem.weights * problem.rows.derivatives(problem.y, problem.predictor(theta)[0])[1]
        gradient = np.float64(slopes @ problem.X) + problem.prior_precision * (theta - problem.prior_mean)
        np.testing.assert_allclose(rates(v) - rates(-v), v * (frame.T @ gradient), rtol=1e-9, atol=1e-9)


def tightest(family):
    """Return the largest |g'(t + delta) - g'(t)| / (sup |g''| |delta|) that a search from many starts finds."""
    curve, steepest = family.curve, family.supremum(2)
    rng, best = np.random.default_rng(2), 0.0
    for _ in range(40):

        def ratio(point):
            t, delta = point
            if not abs(delta) > 1e-4:
                return 0.0
            return -abs(jet(curve, t + delta, 0)[0] - jet(curve, t, 0)[0]) / (steepest * abs(delta))

        start = rng.choice([0.5, 3.0]) * rng.standard_normal(2)
        best = min(best, minimize(ratio, start, method="Nelder-Mead", options={"maxfev": 300}).fun)
    return -best


@pytest.mark.parametrize(
    "family",
    [
        tb.families.Bernoulli(),
        tb.families.StudentT(df=1.5, scale=1.0),
        tb.families.StudentT(df=5.0, scale=0.7),
        tb.families.PseudoHuber(delta=1.3, scale=1.0),
        tb.families.NegativeBinomial(size=2.0),
    ],
    ids=repr,
)
def test_slopes_change_no_faster_than_the_supremum(family):
    assert 0.99 < tightest(family) < 1 + 1e-9


@pytest.mark.parametrize("case", NORMAL_PRIORS)
@pytest.mark.parametrize("name", VARIANTS)
def test_rates_stay_below_their_bounds(case, name):
    """Search for the point where a row's rate is nearest to its bound."""
    prepared, problem = other_kernels.side(case, VARIANTS[name])
    target, d = prepared.target, problem.centre.size
    driver = Driver(prepared, stream(3), np.zeros(d))
    psi, rows = target.rows.psi, prepared.model.source.X @ target.frame
    wanted = other_kernels.slope_bounds(problem, oracle_frame(problem, name))
    if name == "uniform":
        wanted = np.full(problem.n, np.max(wanted))
    np.testing.assert_allclose(psi, wanted, rtol=1e-9)
    assert target.total == pytest.approx(np.sum(wanted), rel=1e-12)
    rng, best = np.random.default_rng(3), 0.0
    for i in rng.choice(np.flatnonzero(psi > 0), 8):

        def ratio(u, i=i):
            size = np.linalg.norm(u)
            if not 1e-3 < size < 1e3:
                return 0.0
            change = slope_change(driver, i, target.frame @ u)
            return -abs(change) * np.sum(np.abs(rows[i])) / (psi[i] * size)

        for start in (rows[i] / np.linalg.norm(rows[i]), 3.0 * rng.standard_normal(d)):
            best = min(best, minimize(ratio, start, method="Nelder-Mead", options={"maxfev": 200}).fun)
    assert -best < 1 + 1e-9
    assert -best > (0.01 if name == "uniform" else 0.3)


def test_rounding_of_a_slope_is_bounded():
    prepared, problem = other_kernels.side("student-flat", VARIANTS["whitened"])
    driver = Driver(prepared, stream(4), np.zeros(3))
    at_centre = problem.rows.derivatives(problem.y, problem.predictor(problem.centre)[0])[1]
    rng = np.random.default_rng(4)
    for size in (1e-12, 1e-6, 1e-2, 1.0, 30.0):
        move = size * rng.standard_normal(3)
        slopes = problem.rows.derivatives(
            problem.y, problem.predictor(problem.centre + move.astype(np.longdouble))[0]
        )[1]
        wanted = problem.weights * (slopes - at_centre)
        for i in range(problem.n):
            error = abs(slope_change(driver, i, move) - float(wanted[i]))
            assert error <= slope_rounding(prepared.model.family, prepared.target, i, move)


def test_flip_takes_coordinates_in_proportion_to_their_rates():
    prepared, _ = other_kernels.side("logistic-normal", VARIANTS["whitened"])
    target, move = prepared.target, np.array([0.4, -0.3, 0.5, 0.2])
    driver, twin = Driver(prepared, stream(5), np.zeros(4)), stream(6)
    state, rng, v = driver.state, stream(6), np.array([1.0, -1.0, -1.0, 1.0])
    flipped = set()
    for i in np.flatnonzero(target.rows.psi > 0.0)[:5]:
        change = slope_change(driver, i, move)
        rates = np.maximum(v * change * (prepared.model.source.X[i] @ target.frame), 0.0)
        ends = np.cumsum(rates)
        state.velocity[:] = v
        for _ in range(200):
            limit = 1.2 * ends[-1]
            threshold = twin.random() * limit
            found = row_flip(target, state, i, limit / target.rows.psi[i], rng)
            wanted = int(np.searchsorted(ends, threshold, side="right"))
            assert found == (wanted if threshold < ends[-1] else -1)
            flipped.add(found)
            state.numbers["suspects"] = 0
    assert len(flipped) >= 4


REPLAYS = [
    ("logistic-normal", "whitened"),
    ("logistic-normal", "scaled"),
    ("student-flat", "uniform"),
    ("logistic-flat", "whitened"),
    ("student-normal", "whitened"),
]


@pytest.mark.parametrize(("case", "name"), REPLAYS)
def test_compiled_process_is_the_plain_one(case, name):
    prepared, problem = other_kernels.side(case, VARIANTS[name])
    target, draws = prepared.target, 250
    start = 0.5 * np.random.default_rng(5).standard_normal(problem.centre.size)
    driver = Driver(prepared, stream(5), start)
    found = run(driver, draws)
    frame, psi = oracle_frame(problem, name), np.array(target.rows.psi)
    draw = other_kernels.by_table(target)
    expected = other_kernels.zigzag(problem, frame, 0.7, draw, start, stream(5), draws, psi)
    np.testing.assert_array_equal(found.rows_touched, expected.rows_touched)
    np.testing.assert_allclose(found.z, expected.z, rtol=0, atol=1e-9)
    assert driver.violations == 0
    assert np.sum(found.rows_touched) > 0.8 * draws
    # What the run should have cost is what it did cost: events are a Poisson process of the bound's rate.
    events, exposure = float(np.sum(found.rows_touched)), driver.state.exposure
    assert abs(events - exposure) < 6.0 * math.sqrt(exposure)


@pytest.mark.parametrize(("case", "name"), REPLAYS)
def test_rows_in_batches_are_the_plain_process(case, name):
    """Rows come seven at a time from a stream of their own; the process takes each once, in their order."""
    prepared, problem = other_kernels.side(case, VARIANTS[name])
    draws, frame, psi = 150, oracle_frame(problem, name), np.array(prepared.target.rows.psi)
    batched = other_kernels.zigzag_in_batches(prepared, size=7, seed=11)
    start = 0.5 * np.random.default_rng(12).standard_normal(problem.centre.size)
    driver = Driver(batched, stream(12), start)
    found = run(driver, draws)
    drawn = iter(batched.supply.drawn)

    def draw(rng):
        return next(drawn, 0)  # a process that needs more rows is another one, which the comparison finds

    expected = other_kernels.zigzag(problem, frame, 0.7, draw, start, stream(12), draws, psi)
    np.testing.assert_array_equal(found.rows_touched, expected.rows_touched)
    np.testing.assert_allclose(found.z, expected.z, rtol=0, atol=1e-9)
    assert driver.violations == 0
    events = int(np.sum(found.rows_touched))
    assert events > 10 * 7
    assert 0 <= len(batched.supply.drawn) - events < 7  # no row is left out, and no batch fetched too early


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("batches", [False, True])
def test_where_a_chunk_ends_changes_nothing(name, batches):
    prepared, problem = other_kernels.side("logistic-normal", VARIANTS[name])
    d, chunks = problem.centre.size, np.random.default_rng(7)

    def begin():
        chosen = other_kernels.zigzag_in_batches(prepared) if batches else prepared
        return Driver(chosen, stream(7), np.zeros(d))

    whole, driver = run(begin(), 200), begin()
    parts, left = [], 200
    while left:
        room = empty_draws(min(left, int(chunks.integers(1, 20))), d)
        done = driver.advance(room, int(chunks.integers(1, 60)))
        parts.append([field[:done] for field in room])
        left -= done
    for field in range(4):
        np.testing.assert_array_equal(np.concatenate([part[field] for part in parts]), whole[field])


def with_bounds(prepared, factor):
    """Return the same process with bounds that are too small, or too large."""
    target = prepared.target
    rows = target.rows._replace(psi=factor * target.rows.psi)
    return dataclasses.replace(prepared, target=target._replace(rows=rows, total=factor * target.total))


def test_broken_bound_is_noticed():
    prepared, _ = other_kernels.side("logistic-normal", VARIANTS["whitened"])
    driver = Driver(with_bounds(prepared, 0.3), stream(6), np.zeros(4))
    run(driver, 500)
    assert driver.violations > 0


@pytest.mark.parametrize("batches", [False, True])
def test_a_bound_that_is_one_per_cent_too_small_is_noticed(batches):
    """In one dimension rows at a predictor of 0 attain their bound while the process moves outwards."""
    y = np.arange(300) % 2
    model = tb.Regression(np.ones((300, 1)), y, tb.families.Bernoulli(), tb.priors.Flat())
    prepared = tb.kernels.ZigZag().prepare(model, threads=1)
    for factor in (1.0, 0.99):
        chosen = with_bounds(prepared, factor)
        driver = Driver(other_kernels.zigzag_in_batches(chosen) if batches else chosen, stream(6), np.zeros(1))
        run(driver, 300)
        assert (driver.violations > 0) == (factor < 1.0)


def test_no_number_of_harmless_suspects_hides_a_broken_bound():
    prepared, _ = other_kernels.side("logistic-normal", VARIANTS["whitened"])
    driver = Driver(with_bounds(prepared, 0.3), stream(6), np.zeros(4))
    driver.state.suspects[:] = 0.0
    driver.state.numbers["suspects"] = SUSPECTS
    run(driver, 500)
    assert driver.violations > 0


def test_moments_in_two_dimensions():
    """Means and second moments against quadrature, Firefly and Zig-Zag. False positives: 1e-7 for each of ten."""
    case = "logistic-flat"
    problem = CASES[case].problem(np.zeros(2))
    model = CASES[case].model
    for kernel in (tb.kernels.Firefly(q_db=0.1), tb.kernels.ZigZag()):
        prepared = kernel.prepare(model, threads=1)
        centre, W = prepared.metric.centre, prepared.metric.matrix
        axis = np.linspace(-7.0, 7.0, 141)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        potential = np.float64(problem.potential(centre + grid @ W.T))
        mass = np.exp(potential.min() - potential)
        mass /= mass.sum()
        assert mass.reshape(141, 141)[[0, -1]].max() < 1e-8
        driver = Driver(prepared, stream(9), np.zeros(2))
        run(driver, 200)
        draws = run(driver, 60_000)
        for f in (
            lambda z: z[:, 0],
            lambda z: z[:, 1],
            lambda z: z[:, 0] ** 2,
            lambda z: z[:, 1] ** 2,
            lambda z: z[:, 0] * z[:, 1],
        ):
            batches = f(draws.z).reshape(40, -1).mean(axis=1)
            error = np.std(batches, ddof=1) / math.sqrt(40)
            assert abs(np.mean(batches) - mass @ f(grid)) < stats.t.isf(0.5e-7, 39) * error
            assert error < 0.05


AGREEMENT = ["logistic-normal", "student-flat"]
OTHERS = {
    "Firefly": (tb.kernels.Firefly(), 200_000),
    "ZigZag": (tb.kernels.ZigZag(), 20_000),
    "ZigZag-scaled": (tb.kernels.ZigZag(whitened=False), 20_000),
}


@cache
def draws_of(case, kernel, draws):
    tree = tb.sample(CASES[case].model, kernel, draws=draws, chains=1, seed=10, threads=1, progress=False)
    return tree["posterior"]["beta"].values[0]


@pytest.mark.parametrize("case", AGREEMENT)
@pytest.mark.parametrize("name", OTHERS)
def test_agrees_with_plain_metropolis_hastings(case, name):
    """Mean, sd and five quantiles of every coefficient. False positives: 1e-6 for each test."""
    reference = draws_of(
        case, tb.kernels.MetropolisHastings(tb.proposals.CrankNicolson(0.0, walk_every=4)), 120_000
    )
    found = draws_of(case, *OTHERS[name])
    score, level = other_kernels.disagreement(found, reference)
    assert score < level
    # The comparison could fail: a shift of a tenth, or a spread an eighth too large, is seen.
    spread = reference.std(axis=0)
    assert other_kernels.disagreement(found + 0.1 * spread, reference)[0] > level
    wider = reference.mean(axis=0) + 1.125 * (found - reference.mean(axis=0))
    assert other_kernels.disagreement(wider, reference)[0] > level


@pytest.mark.parametrize("kernel", [tb.kernels.Firefly(), tb.kernels.ZigZag()], ids=repr)
def test_sample_and_explain(kernel):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((400, 2))
    model = tb.Regression(X, X @ [1.0, 0.5] + rng.standard_t(4, 400), tb.families.StudentT(scale=1.0))
    one = tb.sample(model, kernel, draws=300, chains=2, seed=3, progress=False, threads=1)
    two = tb.sample(model, kernel, draws=300, chains=2, seed=3, progress=False, threads=2, chunk=7)
    np.testing.assert_array_equal(one["posterior"]["beta"], two["posterior"]["beta"])
    np.testing.assert_array_equal(one["sample_stats"]["rows_touched"], two["sample_stats"]["rows_touched"])
    assert one.attrs["bound_violations"] == 0
    assert json.loads(one.attrs["plan"])["kernel"] == type(kernel).__name__
    explanation = tb.explain(model, kernel)
    assert type(kernel).__name__ in str(explanation)
    assert explanation.rows_per_draw > 0.0
    assert explanation.order is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.kernels.ZigZag(step=0.0), r"ZigZag: step=0\.0 must be a positive"),
        (lambda: tb.kernels.ZigZag(step=math.inf), "step=inf"),
        (lambda: tb.kernels.ZigZag(whitened=1), "whitened=1 was given; expected True or False"),
        (lambda: tb.kernels.ZigZag(uniform="yes"), "uniform='yes'"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("family", [tb.families.Poisson(), tb.families.Gamma(shape=2.0)])
def test_families_without_a_second_bound(family):
    model = tb.Regression(np.ones((5, 1)), np.arange(1.0, 6.0), family)
    with pytest.raises(InputError, match="no bound on its second derivative"):
        tb.sample(model, tb.kernels.ZigZag(), draws=5, progress=False)


def test_other_priors_are_refused():
    with pytest.raises(InputError, match="takes flat and normal priors"):
        tb.kernels.ZigZag().prepare(CASES["logistic-priors"].model)
