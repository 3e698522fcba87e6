"""Core rows and tabulated directions: exact for every choice of them, and right in the tails."""

import dataclasses
import json
import math

import numba
import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from problems import Case, asking, in_batches, log_acceptance, run, setup_at, stream
from tallbayes.kernels.driver import Driver
from tallbayes.kernels.target import surrogate_at, terms_at
from tallbayes.results.diagnostics import findings, warn_of_findings
from tallbayes.results.tail_visits import tail_visits
from tallbayes.setup.core import distinct
from tallbayes.setup.mode import find_mode
from tallbayes.setup.setup import Setup
from tallbayes.setup.tables import (
    CUMULATIVE,
    POSITION,
    Tables,
    draw_from_table,
    no_tables,
    table_potential,
    tabulate,
)

RARE, LAPLACE = 1, 3
INDEPENDENT = tb.proposals.CrankNicolson(rho=0.0, walk_every=5, tabulated=True)
IN_TRIALS = tb.proposals.SurrogateSteps(steps=3, walk_every=4, tabulated=True)


def rare_level(n=300, rows=14, *, family=None, weights=False):
    """A level of a few rows with one event, some rows of which are equal; and a coefficient with a Laplace prior."""
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(n), np.zeros(n), rng.standard_normal((n, 2))])
    X[:rows, RARE] = 1.0
    X[:4] = X[4]  # equal rows
    y = (rng.random(n) < 1 / (1 + np.exp(0.5 - 0.6 * X[:, 2]))).astype(float)
    y[:rows] = 0.0
    y[rows - 1] = 1.0
    weight = rng.choice([0.0, 1.0, 2.0], n, p=[0.1, 0.8, 0.1]) if weights else None
    if weights:
        weight[rows - 1] = 1.0
    prior = [tb.priors.Normal(0.3, 2.0)] * 3 + [tb.priors.Laplace(0.0, 0.1)]
    offset = 0.1 * rng.standard_normal(n) * (np.arange(n) >= rows)
    return Case(X, y, family or tb.families.Bernoulli(), prior, weight, offset)


def beside_the_mode(model):
    """A set-up 0.3 standard deviations beside the mode, in the order of coordinates that tails ask for."""
    mode = find_mode(model, threads=1)
    moved = mode.theta + 0.3 * np.array([1.0, -1.0, 1.0, -1.0]) / np.sqrt(np.diag(mode.hessian))
    setup = setup_at(model, mode, moved)
    del setup.__dict__["metric"]
    return setup


def prepared_for(case, order=3, proposal=INDEPENDENT, **choices):
    model = case.model
    bound = tb.bounds.Local(choices.pop("radius", 6.0))
    kernel = tb.kernels.ScalableMH(order=order, bound=bound, proposal=proposal, core=True, **choices)
    return kernel.prepare(model, setup=beside_the_mode(model))


def test_who_has_tails_and_where_they_are_among_the_coordinates():
    case = rare_level(weights=True)
    prepared = prepared_for(case)
    assert prepared.plan["core_of"] == ["x1"]
    assert prepared.plan["tabulated"] == ["x1", "x3"]
    assert prepared.metric.order.tolist() == [RARE, 0, 2, LAPLACE]
    rows = case.X[(case.X[:, RARE] != 0.0) & (case.weights > 0.0)]
    answers = case.y[(case.X[:, RARE] != 0.0) & (case.weights > 0.0)]
    assert prepared.target.core.size == len(np.unique(np.column_stack([rows, answers]), axis=0)) < len(rows)
    assert prepared.target.core.rows[:, 5].sum() == case.weights[case.X[:, RARE] != 0.0].sum()
    # The first coordinate moves the rare coefficient alone; the last coefficient is moved by the last one alone.
    W = prepared.metric.matrix
    assert np.flatnonzero(W[:, 0]).tolist() == [RARE]
    assert np.flatnonzero(W[LAPLACE]).tolist() == [3]
    np.testing.assert_allclose(
        prepared.metric.root @ prepared.metric.root.T @ prepared.metric.covariance, np.eye(4), atol=1e-10
    )
    # Core rows are never drawn, and the sums are those of the others.
    psi = prepared.target.rows.psi
    assert np.all(psi[case.X[:, RARE] != 0.0] == 0.0)
    assert prepared.target.bound.total == pytest.approx(psi.sum(), rel=1e-12)
    assert prepared.target.bound.free == 1


def three_levels(n=6_000):
    """A factor with a rare level that has one event, and another column of two values: few different rows."""
    rng = np.random.default_rng(4)
    level = rng.integers(0, 2, n)
    level[:12] = 2
    X = np.column_stack([np.ones(n), level == 1, level == 2, rng.random(n) < 0.5]).astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(1.0 - 0.4 * X[:, 1]))).astype(float)
    y[:12] = np.arange(12) == 3
    weights = rng.choice([1.0, 2.0], n)
    return Case(X, y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 2.5), weights, None)


def test_few_different_rows_are_all_in_the_core():
    """The surrogate is the posterior, whatever the order: proposals alone decide on acceptance."""
    case = three_levels()
    setup = Setup(case.model)
    assert setup.tails.whole
    assert setup.tails.rows.weight.sum() == case.weights.sum()
    prepared = tb.kernels.ScalableMH(order=2, core=True, proposal=INDEPENDENT).prepare(case.model, setup=setup)
    different = np.unique(np.column_stack([case.X, case.y]), axis=0)
    assert prepared.target.core.size == len(different)
    assert prepared.target.bound.total == 0.0
    problem = case.problem(prepared.metric.centre)
    z, other = 1.5 * np.random.default_rng(3).standard_normal((2, 40, 4))
    log_q = log_density_of(prepared, other) - log_density_of(prepared, z)
    potentials = [np.float64(problem.potential(prepared.metric.theta(points))) for points in (z, other)]
    expected = np.minimum(0.0, potentials[0] - potentials[1] - log_q)
    found = log_acceptance(prepared, z, other)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    tree = tb.sample(case.model, draws=500, chains=2, seed=1, progress=False)
    assert float(tree.sample_stats.accepted.mean()) > 0.9
    assert np.all(tree.sample_stats.rows_touched == len(different))


@pytest.mark.parametrize("pieces", [1, 7])
def test_different_rows_of_a_table(pieces):
    rng = np.random.default_rng(2)
    table, weight = rng.integers(0, 3, (500, 4)).astype(float), rng.random(500)
    table[table == 2.0] = 0.1
    parts = [
        distinct(*part, 200)
        for part in zip(np.split(table[:490], pieces), np.split(weight[:490], pieces), strict=True)
    ]
    found = parts[0]
    for part in parts[1:]:
        found = found.merged(part)
    expected = {}
    for line, w in zip(table[:490], weight[:490], strict=True):
        expected[tuple(line)] = expected.get(tuple(line), 0.0) + w
    assert {tuple(line) for line in found.table} == set(expected)
    np.testing.assert_allclose(found.weight, [expected[tuple(line)] for line in found.table])
    assert distinct(table, weight, 10).too_many


def test_no_tails_where_none_are_needed():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20_000, 5))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 2.5))
    setup = Setup(model)
    before = setup.mode.passes + model.checking_passes
    assert setup.tails.first.size == setup.tails.last.size == 0
    assert setup.passes == before  # no pass was made for it
    plan = json.loads(tb.sample(model, draws=10, chains=1, seed=0, progress=False).attrs["plan"])
    assert "core_rows" not in plan
    assert "tabulated" not in plan


def log_density_of(prepared, z):
    """Minus G: the proposal's log density, from the tables' own function and the normal density."""
    tables, middle = prepared.target.surrogate.terms.tables, -prepared.metric.gradient
    total = -0.5 * np.sum((z - middle) ** 2, axis=1)
    for t, axis in enumerate(tables.axes):
        total += 0.5 * (z[:, axis] - middle[axis]) ** 2
        total -= [table_potential(tables.lines, tables.facts, t, float(at)) for at in z[:, axis]]
    return total


@pytest.mark.parametrize(
    "family", [tb.families.Bernoulli(), tb.families.Bernoulli("cloglog")], ids=["logit", "cloglog"]
)
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("weights", [False, True])
def test_acceptance_is_that_of_a_surrogate_with_exact_rows(family, order, weights):
    """Against plain sums over rows: exact potentials of the core, expansions of the others; and detailed balance."""
    case = rare_level(family=family, weights=weights)
    prepared = prepared_for(case, order, truncation=math.inf)
    problem = case.problem(prepared.metric.centre)
    rng = np.random.default_rng(3)
    z, other = 1.5 * rng.standard_normal((2, 60, 4))
    z[:, 0], other[:, 0] = rng.uniform(-6.0, 3.0, (2, 60))
    core = case.X[:, RARE] != 0.0
    theta, there = prepared.metric.theta(z), prepared.metric.theta(other)

    def surrogate(points):
        exact, expanded = problem.row_potentials(points), problem.row_expansions(points, order)
        return np.float64(exact[:, core].sum(axis=1) + expanded[:, ~core].sum(axis=1) + problem.prior(points))

    def left(points):
        at_centre = problem.row_potentials(problem.centre)
        return np.float64(problem.row_potentials(points) - at_centre - problem.row_expansions(points, order))[
            :, ~core
        ]

    inside = (np.linalg.norm(z[:, 1:], axis=1) < 6.0) & (np.linalg.norm(other[:, 1:], axis=1) < 6.0)
    log_q = log_density_of(prepared, other) - log_density_of(prepared, z)
    expected = np.minimum(0.0, surrogate(theta) - surrogate(there) - log_q)
    expected -= np.sum(np.maximum(0.0, left(there) - left(theta)), axis=1)
    forth = log_acceptance(prepared, z, other)
    np.testing.assert_allclose(forth[inside], expected[inside], atol=1e-8)
    back = log_acceptance(prepared, other, z)
    flow = np.float64(problem.potential(theta) - problem.potential(there)) - log_q
    np.testing.assert_allclose(forth - back, flow, atol=1e-8)


@pytest.mark.parametrize("proposal", [INDEPENDENT, IN_TRIALS], ids=["independent", "trials"])
def test_compiled_values_are_those_of_the_terms(proposal):
    """Of a block of proposals, and of the state that a chain with walks has come to."""
    prepared = prepared_for(rare_level(weights=True), proposal=proposal)
    driver = Driver(prepared, stream(5))
    for _ in range(40):
        run(driver, 3)
        ahead, now = driver.state.ahead, driver.state.numbers[0]
        np.testing.assert_allclose(
            ahead.values, terms_at(prepared.target.surrogate.terms, ahead.noise.T), atol=1e-9
        )
        assert now.value == pytest.approx(surrogate_at(prepared.target, driver.state.z), abs=1e-9)
        assert now.distance == pytest.approx(np.linalg.norm(driver.state.z[1:]), rel=1e-12)


def quadrature(case):
    """Mean, sd and quantiles of the rare coefficient of a model of two columns, on a grid."""
    rare, centre = np.linspace(-14.0, 6.0, 401), np.linspace(-1.0, 0.5, 61)
    grid = np.stack(np.meshgrid(centre, rare, indexing="ij"), axis=-1).reshape(-1, 2)
    row = case.X @ grid.T + case.offset[:, None]
    likelihood = np.sum(np.logaddexp(0.0, row) - case.y[:, None] * row, axis=0)
    potential = likelihood + np.sum(grid**2, axis=1) / (2 * case.prior.scale**2)
    density = np.exp(-(potential - potential.min())).reshape(centre.size, rare.size).sum(axis=0)
    density /= density.sum()
    mean = float(density @ rare)
    return mean, math.sqrt(float(density @ (rare - mean) ** 2)), np.interp([0.05, 0.95], np.cumsum(density), rare)


@pytest.fixture(scope="module")
def two_columns():
    """Intercept and rare level, in which no two rows are equal because offsets differ."""
    case = rare_level(n=400, rows=14)
    prior = tb.priors.Normal(0.0, 2.5)
    offset = 0.2 * np.random.default_rng(2).standard_normal(400)
    case = Case(np.ascontiguousarray(case.X[:, :2]), case.y, case.family, prior, None, offset)
    return case, quadrature(case)


def departures(prepared, truth, draws=60_000):
    """By how many standard errors a long chain is off in mean, sd and two quantiles of the rare coefficient."""
    driver = Driver(prepared, stream(6))
    run(driver, 200)
    z = run(driver, draws).z
    x = prepared.metric.theta(z)[:, 1]
    mean, sd, quantiles = truth
    series = [
        x - mean,
        (x - mean) ** 2 - sd**2,
        *((x < q) - p for q, p in zip(quantiles, (0.05, 0.95), strict=True)),
    ]
    batches = [np.reshape(part, (60, -1)).mean(axis=1) for part in series]
    return np.array([part.mean() / (part.std(ddof=1) / math.sqrt(part.size)) for part in batches])


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("proposal", [INDEPENDENT, IN_TRIALS], ids=["independent", "trials"])
def test_long_chains_have_the_right_tails(two_columns, order, proposal):
    case, truth = two_columns
    kernel = tb.kernels.ScalableMH(order=order, core=True, proposal=proposal)
    prepared = kernel.prepare(case.model)
    assert prepared.target.core.size == 14
    assert np.all(np.abs(departures(prepared, truth)) < 4.5)
    batched = in_batches(prepared)
    assert np.all(np.abs(departures(batched, truth, 12_000)) < 4.5)
    assert np.all(np.abs(departures(asking(prepared), truth, 12_000)) < 4.5)


def with_terms(prepared, **parts):
    terms = prepared.target.surrogate.terms._replace(**parts)
    return dataclasses.replace(
        prepared, target=prepared.target._replace(surrogate=prepared.target.surrogate._replace(terms=terms))
    )


@pytest.mark.parametrize("mutant", ["dropped", "twice", "table"])
def test_injected_bugs_are_seen(two_columns, mutant):
    """A core row that is missing or counts twice, and a table whose density is not what is drawn from it."""
    case, truth = two_columns
    prepared = tb.kernels.ScalableMH(order=2, core=True, proposal=INDEPENDENT).prepare(case.model)
    terms = prepared.target.surrogate.terms
    rows = terms.core.rows
    if mutant == "dropped":
        wrong = with_terms(prepared, core=terms.core._replace(rows=np.ascontiguousarray(rows[:-1])))
    elif mutant == "twice":
        wrong = with_terms(prepared, core=terms.core._replace(rows=np.vstack([rows, rows[-1:]])))
    else:  # of the draws, too many come from the left: the density is off by a few per cent there
        knots = terms.tables.knots.copy()
        knots[0, CUMULATIVE] = knots[0, CUMULATIVE] ** 0.94
        wrong = with_terms(prepared, tables=terms.tables._replace(knots=knots))
    assert np.max(np.abs(departures(wrong, truth, 240_000))) > 6.0


# -- tables --


def one_table(potential) -> Tables:
    return tabulate([0], np.zeros(1), lambda axis, points: potential(points))


POTENTIALS = {
    "normal": lambda x: 0.5 * x * x,
    "long tail": lambda x: np.logaddexp(0.0, x) * 30 - x * 2 + x * x / 50,
    "kink": lambda x: np.abs(x - 0.3) * 2 + 0.5 * x * x,
    "wall": lambda x: np.where(x >= -0.7, 0.5 * (x + 2) ** 2, np.inf),
    "student": lambda x: 2.5 * np.log1p(x * x / 4),
    "far from zero": lambda x: 8.0 * (x - 40.0) ** 2,
    "cliffs": lambda x: np.where(x < -1.0, -3000.0 * (x + 1.0), np.where(x > 2.0, 900.0 * (x - 2.0), 0.1 * x)),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_a_table_is_close_to_its_potential_and_its_density_integrates_to_one(name):
    potential, tables = POTENTIALS[name], one_table(POTENTIALS[name])
    knots = tables.knots[0]
    at = np.unique(np.concatenate([knots[POSITION], 0.5 * (knots[POSITION, 1:] + knots[POSITION, :-1])]))
    own = np.array([table_potential(tables.lines, tables.facts, 0, float(x)) for x in at])
    # Exact for what is straight between knots: masses of segments, by their own closed form.
    x, p = (
        knots[POSITION],
        np.array([table_potential(tables.lines, tables.facts, 0, float(v)) for v in knots[POSITION]]),
    )
    rises = np.diff(p)
    safe = np.where(np.abs(rises) < 1e-12, 1.0, rises)
    masses = np.diff(x) * np.exp(-p[:-1]) * np.where(np.abs(rises) < 1e-12, 1.0, -np.expm1(-safe) / safe)
    left, right, _, _ = tables.facts[0]
    total = masses.sum() + np.exp(-p[0]) / left + np.exp(-p[-1]) / right
    assert total == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(np.diff(knots[CUMULATIVE]), masses, atol=1e-12)
    wanted = potential(at)
    near = wanted < np.min(wanted) + 7.0
    difference = (own - wanted)[near]
    assert np.ptp(difference) < 0.02


@numba.njit
def _fill(lines, facts, rng, out):
    for i in range(out.size):
        out[i] = draw_from_table(lines, facts, 0, rng)


def _frequencies(tables, draws=400_000):
    x = np.empty(draws)
    _fill(tables.lines, tables.facts, stream(7), x)
    inner = np.interp(np.linspace(0.02, 0.98, 33), tables.knots[0, CUMULATIVE], tables.knots[0, POSITION])
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    # Probabilities from the potential, not from what draws are made with.
    fine = np.unique(np.concatenate([tables.knots[0, POSITION], inner]))
    p = np.array([table_potential(tables.lines, tables.facts, 0, float(v)) for v in fine])
    rises = np.diff(p)
    safe = np.where(np.abs(rises) < 1e-12, 1.0, rises)
    masses = np.diff(fine) * np.exp(-p[:-1]) * np.where(np.abs(rises) < 1e-12, 1.0, -np.expm1(-safe) / safe)
    below = np.exp(-p[0]) / tables.facts[0, 0] + np.concatenate([[0.0], np.cumsum(masses)])
    expected = np.diff(np.concatenate([[0.0], np.interp(inner, fine, below), [1.0]])) * draws
    found = np.histogram(x, edges)[0]
    return stats.chi2.sf(np.sum((found - expected) ** 2 / expected), expected.size - 1)


@pytest.mark.parametrize("name", POTENTIALS)
def test_draws_have_the_density_of_their_table(name):
    assert _frequencies(one_table(POTENTIALS[name])) > 1e-6


def test_a_table_that_is_off_by_one_per_cent_is_seen():
    tables = one_table(POTENTIALS["long tail"])
    knots = tables.knots.copy()
    # Below the median one per cent more, as much less above it.
    below = knots[0, CUMULATIVE]
    knots[0, CUMULATIVE] = np.where(below < 0.5, 1.01 * below, 1.0 - 0.99 * (1.0 - below))
    assert _frequencies(tables, 2_000_000) > 1e-6
    assert _frequencies(tables._replace(knots=knots), 2_000_000) < 1e-6


def test_no_tables_and_refusals():
    assert no_tables().axes.size == 0
    with pytest.raises(tb.errors.InputError, match="needs rho=0"):
        tb.proposals.CrankNicolson(rho=0.2, tabulated=True)
    with pytest.raises(tb.errors.InputError, match="core=True needs local bounds"):
        tb.kernels.ScalableMH(bound=tb.bounds.Global(), core=True)


def test_a_set_up_with_tails_is_saved_and_read(tmp_path):
    case = rare_level(n=2000)
    model = case.model
    first = tb.sample(model, draws=50, chains=1, seed=1, progress=False)
    assert json.loads(first.attrs["plan"])["core_rows"] > 0
    model.setup.save(tmp_path / "setup.npz")
    again = case.model
    Setup.load(tmp_path / "setup.npz", again)
    second = tb.sample(again, draws=50, chains=1, seed=1, progress=False)
    np.testing.assert_array_equal(first["posterior"]["beta"], second["posterior"]["beta"])


def test_starts_are_wide_and_inside_the_ball():
    prepared = prepared_for(rare_level(), radius=2.5)
    rng = np.random.default_rng(4)
    starts = np.array([prepared.start(rng) for _ in range(400)])
    assert np.all(np.linalg.norm(starts[:, 1:3], axis=1) <= 0.9 * 2.5 + 1e-12)
    assert starts[:, 1].std() > 1.0
    tables = prepared.tables
    inner = np.interp([0.05, 0.95], tables.knots[0, CUMULATIVE], tables.knots[0, POSITION])
    outside = (starts[:, 0] < inner[0]) | (starts[:, 0] > inner[1])
    assert np.mean(outside) > 0.2  # twice as often as the posterior itself, and more


def test_a_tail_that_was_missed_is_told():
    """What the table says of the tail, beside what the draws did."""
    model = rare_level(n=2000).model
    tree = tb.sample(model, seed=1, progress=False)
    visits = json.loads(tree.attrs["tails"])
    assert set(visits) == {"x1", "x3"}
    lower, upper, apart = visits["x1"]
    assert 0.015 < lower < 0.035
    assert apart < 0.05
    tree.attrs["tails"] = json.dumps(visits | {"x1": [0.003, upper, apart]})
    with pytest.warns(
        tb.errors.SlowMixingWarning, match="The lower tail of 'x1' has about 2.5% .* 0.30% of the draws"
    ):
        warn_of_findings(tree)
    tree.attrs["tails"] = json.dumps(visits)
    assert findings(tree) == []
    # Told below a third of 2.5 %, and not above it, of either tail; of too few draws nothing can be told.
    for shares, told in (([0.0082, 0.02], 1), ([0.02, 0.0082], 1), ([0.0085, 0.02], 0), ([0.02, 0.0085], 0)):
        tree.attrs["tails"] = json.dumps(visits | {"x1": [*shares, apart]})
        assert len(findings(tree)) == told
    # A table that the bulk of the draws does not bear out is not of the posterior, and says nothing of its tails.
    for bulk, told in ((0.0995, 1), (0.1005, 0)):
        tree.attrs["tails"] = json.dumps(visits | {"x1": [0.003, upper, bulk]})
        assert len(findings(tree)) == told
    few = tb.sample(model, draws=300, chains=1, seed=1, progress=False)
    few.attrs["tails"] = json.dumps(visits | {"x1": [0.0, 0.0, 0.0]})
    assert not any("tail of" in finding.words for finding in findings(few))


def test_visits_are_shares_of_draws_beside_the_table():
    """Of draws by the table itself, and of the same moved or squeezed by hand."""
    prepared = prepared_for(rare_level())
    tables, metric = prepared.tables, prepared.metric
    z = np.zeros((1, 20_000, metric.centre.size))
    of_table = np.interp((np.arange(20_000) + 0.5) / 20_000, tables.knots[0, CUMULATIVE], tables.knots[0, POSITION])
    axis, name = int(tables.axes[0]), f"x{metric.order[tables.axes[0]]}"
    z[0, :, axis] = of_table
    lower, upper, apart = tail_visits(prepared, metric.centre + z @ metric.inverse_root)[name]
    assert lower == pytest.approx(0.025, abs=3e-4)
    assert upper == pytest.approx(0.025, abs=3e-4)
    assert apart < 3e-3
    median = float(np.median(of_table))
    z[0, :, axis] = np.where(of_table < median, median + 1e-3, of_table)
    lower, upper, apart = tail_visits(prepared, metric.centre + z @ metric.inverse_root)[name]
    assert lower == 0.0
    assert apart == pytest.approx(0.5, abs=3e-3)


def test_tables_of_coordinates_that_depend_on_others_do_not_warn():
    """A slice through the centre is narrower, or elsewhere, than the posterior: six events, an intercept and five
    columns; and a wall that the likelihood presses an intercept against, which a slope shifts."""
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(4000), rng.standard_normal((4000, 5))])
    y = np.zeros(4000)
    y[rng.choice(4000, 6, replace=False)] = 1.0
    events = tb.Regression(X, y, tb.families.Bernoulli())
    rng = np.random.default_rng(8)
    X, y = np.column_stack([np.ones(3000), rng.standard_normal(3000)]), np.zeros(3000)
    y[[3, 9, 50]] = 1.0
    wall = tb.Regression(X, y, tb.families.Bernoulli(), [tb.priors.Uniform(-7.5, -6.8), tb.priors.Normal(0.0, 5.0)])
    for model in (events, wall):
        tree = tb.sample(model, seed=1, progress=False)
        visits = json.loads(tree.attrs["tails"])["x0"]
        assert min(visits[:2]) < 0.0083
        assert visits[2] > 0.15
        assert findings(tree) == []
