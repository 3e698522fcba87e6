"""Stand-ins: rows that stand for all in a surrogate, and chains that go where it leads."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import oracle
import tallbayes as tb
from problems import Case, Driver, asking, run, setup_at, stream
from tallbayes.errors import InputError
from tallbayes.kernels import costs
from tallbayes.kernels.scalable_mh import SKEWED_BY_ALL
from tallbayes.kernels.target import Terms, surrogate_at, terms_at
from tallbayes.models import passes
from tallbayes.setup.core import DistinctRows, gather
from tallbayes.setup.expansion import expand
from tallbayes.setup.mode import find_mode
from tallbayes.setup.setup import setup_of
from tallbayes.setup.stand_ins import drawn_by_bounds, skewness
from tallbayes.setup.tables import no_tables
from tallbayes.setup.tails import Tails
from test_tails_chains import tables_of

COUNT, RARE = 48, 1
PROPOSAL = tb.proposals.SurrogateSteps(steps=3, keep=0.8, walk_every=4, tabulated=True)


def few_events(n=3000, events=4, seed=3):
    """An intercept and a covariate, with so few events that both are skewed; all rows differ."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    y = np.zeros(n)
    y[rng.choice(n, events, replace=False, p=np.exp(x) / np.exp(x).sum())] = 1.0
    return np.column_stack([np.ones(n), x]), y


@cache
def case_of(link, core):
    """Sixty rows of different weights and offsets, some of none; five of them with a column of their own."""
    rng = np.random.default_rng(8)
    n = 60
    X = np.column_stack([np.ones(n), np.zeros(n), rng.standard_normal((n, 2))])
    X[:5, RARE] = 1.0 if core else 0.3
    if not core:
        X[5:, RARE] = rng.standard_normal(n - 5)
    y = (rng.random(n) < 0.15).astype(float)
    weights = rng.choice([0.0, 1.0, 2.0], n, p=[0.1, 0.7, 0.2])
    prior = [tb.priors.Normal(0.3, 2.0)] * 3 + [tb.priors.Laplace(0.0, 0.5)]
    return Case(X, y, tb.families.Bernoulli(link), prior, weights, 0.1 * rng.standard_normal(n))


@cache
def pair_of(link, core):
    """The kernel, a little beside the mode, and the same by the oracle: rows and weights are the package's choice."""
    case = case_of(link, core)
    model = case.model
    mode = find_mode(model, threads=1)
    setup = setup_at(model, mode, mode.theta + 0.3 * np.array([1, -1, 1, -1]) / np.sqrt(np.diag(mode.hessian)))
    del setup.__dict__["metric"]
    columns = np.array([RARE] if core else [], dtype=np.int64)
    setup.__dict__["tails"] = Tails(columns, np.array([3]), gather(model.source.whole.converted(), columns, 99))
    kernel = tb.kernels.ScalableMH(2, tb.bounds.Local(3.0), PROPOSAL, truncation=0.0, core=core, stand_ins=COUNT)
    prepared = kernel.prepare(model, setup=setup)
    psi = setup.bounds(tb.bounds.Local(3.0), 1, core=core).drawing.psi
    rows = drawn_by_bounds(model, psi, COUNT)
    lines = prepared.target.core.rows[-len(rows.weight) :]
    where = [int(np.flatnonzero(np.all(line[:4] == case.X, axis=1))[0]) for line in rows.table]
    exact = tuple(int(i) for i in np.flatnonzero(case.X[:, RARE])) if core else ()
    problem = dataclasses.replace(
        case.problem(prepared.metric.centre),
        core=exact,
        order=(RARE, 0, 2, 3) if core else (),
        stand_ins=tuple(zip(where, lines[:, 5].tolist(), strict=True)),
    )
    move = oracle.surrogate_steps(problem, PROPOSAL.steps, PROPOSAL.keep, PROPOSAL.walk_every)
    move = move._replace(tables=tables_of(prepared), centre=problem.centre)
    return prepared, problem, move


PAIRS = [("logit", False), ("logit", True), ("cloglog", False)]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_surrogate_is_that_of_the_formula(pair):
    """At points near and far: the prior, expansions of order 1, and what stand-ins and core rows are above theirs."""
    prepared, problem, move = pair_of(*pair)
    rng = np.random.default_rng(1)
    for z in rng.standard_normal((20, 4)) * np.geomspace(0.1, 20.0, 20)[:, None]:
        theta, middle = problem.theta(z), problem.centre[None]
        wanted = problem.surrogate(theta, 2) + move.log_density(theta, theta)
        wanted -= problem.surrogate(middle, 2) + move.log_density(middle, middle)
        found = surrogate_at(prepared.target, z) - surrogate_at(prepared.target, np.zeros(4))
        assert found == pytest.approx(float(wanted[0]), rel=1e-9, abs=1e-9)


def test_the_surrogate_has_the_curvature_of_the_posterior():
    """At the centre, by differences along random directions: weights are calibrated, without which it is off by 7 %."""
    X, y = few_events()
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0, 5))
    prepared = tb.kernels.ScalableMH(2, truncation=0.0, stand_ins=512).prepare(model)
    metric, terms = prepared.metric, prepared.target.surrogate.terms
    whole = Terms(expand(model, metric, 0, None).prior, terms.exact, terms.core, no_tables())
    h = 1e-3
    for direction in np.random.default_rng(2).standard_normal((10, 2)):
        line = h * direction * np.array([[-1.0], [0.0], [1.0]])
        low, middle, high = terms_at(whole, line)
        assert (low + high - 2 * middle) / h**2 == pytest.approx(direction @ direction, rel=1e-4)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("way", ["at-hand", "asking"])
def test_compiled_chain_is_the_plain_one(pair, way):
    prepared, problem, move = pair_of(*pair)
    steps, seed = 500, 4
    driver = Driver(asking(prepared) if way == "asking" else prepared, stream(seed), np.zeros(4))
    draws = run(driver, steps)
    expected = oracle.replay(problem, oracle.Rule(2, 60.0, 0.0), move, None, np.zeros(4), stream(seed), steps)
    np.testing.assert_array_equal(draws.accepted, expected.accepted)
    np.testing.assert_array_equal(draws.full_pass, expected.full_pass)
    evaluated = prepared.target.core.size * PROPOSAL.steps
    np.testing.assert_array_equal(draws.rows_touched, expected.rows_touched + evaluated)
    np.testing.assert_allclose(draws.z, expected.z, rtol=0, atol=1e-8)
    assert 0.5 < np.mean(draws.accepted[1:]) < 1.0  # worth comparing: both happen


def test_rows_are_drawn_in_proportion_to_their_bounds():
    """A sum of what bounds are proportional to is estimated without error, another one to a few per cent."""
    X, y = few_events()
    weights = np.random.default_rng(1).choice([0.0, 1.0, 3.0], len(y))
    weights[y == 1.0] = 1.0
    model = tb.Regression(X, y, tb.families.Bernoulli(), weights=weights)
    psi = weights * np.random.default_rng(2).exponential(size=len(y)) ** 3
    rows = drawn_by_bounds(model, psi, 256)
    assert len(np.unique(rows.table, axis=0)) == len(rows.table) < 256
    at = [int(np.flatnonzero(X[:, 1] == line[1])[0]) for line in rows.table]
    assert np.all(weights[at] > 0.0)
    assert np.sum(rows.weight * psi[at] / weights[at]) == pytest.approx(psi.sum(), rel=1e-12)
    # A row whose share is k / 256 is taken k times or k + 1 times.
    times = rows.weight / weights[at] * psi[at] / (psi.sum() / 256)
    assert np.all(np.abs(times - 256 * psi[at] / psi.sum()) < 1.0)
    np.testing.assert_allclose(times, np.round(times), atol=1e-9)
    squares = psi * X[:, 1] ** 2
    # Its standard error is 0.07; independent draws would have 0.09.
    assert np.sum(rows.weight * squares[at] / weights[at]) == pytest.approx(squares.sum(), rel=0.25)


def test_skewness_is_that_of_the_third_derivative():
    """Of all rows, along the direction in which other coefficients follow, by differences; and as quadrature has it."""
    X, y = few_events(400, 30)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0, 5))
    metric = setup_of(model).metric
    every = DistinctRows(np.column_stack([X, np.zeros(len(y)), y]), np.ones(len(y)), len(y))
    found = skewness(model, metric, every)
    covariance = metric.matrix @ metric.matrix.T
    for j in range(2):
        step = covariance[j] / np.sqrt(covariance[j, j])
        h = 0.02
        at = [
            model.source.reduce(passes.potential, model.rows, model.predictors, metric.centre + k * h * step)
            for k in (-2, -1, 1, 2)
        ]
        third = (at[3] - 2 * at[2] + 2 * at[1] - at[0]) / (2 * h**3)
        assert found[j] == pytest.approx(-third, rel=5e-3, abs=2e-4)


def quadrature(X, y, sds):
    """Mean and sd of two coefficients of a logistic regression under normal priors, on a grid."""
    a, b = np.linspace(-16.0, -2.0, 281), np.linspace(-3.0, 5.0, 241)
    logs = np.empty((a.size, b.size))
    for k, slope in enumerate(b):
        eta = a[:, None] + slope * X[:, 1]
        logs[:, k] = (y * eta - np.logaddexp(0.0, eta)).sum(axis=1)
    logs -= 0.5 * (a[:, None] / sds[0]) ** 2 + 0.5 * (b / sds[1]) ** 2
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    found = []
    for grid, part in ((a, mass.sum(axis=1)), (b, mass.sum(axis=0))):
        mean = part @ grid
        found.append((mean, np.sqrt(part @ (grid - mean) ** 2)))
    return np.array(found)


def test_a_default_run_with_few_events_is_right():
    """Four events in three thousand rows: means and sds by quadrature, 4 runs, |z| < 4.5 (false positives: 1e-4)."""
    X, y = few_events()
    truth = quadrature(X, y, (10.0, 2.5))
    from arviz_stats.base import array_stats

    model = tb.Regression(X, y, tb.families.Bernoulli(), [tb.priors.Normal(0, 10), tb.priors.Normal(0, 2.5)])
    for seed in range(4):
        tree = tb.sample(model, seed=seed, progress=False)
        assert "stand_ins" in tree.attrs["plan"]
        beta = np.moveaxis(tree["posterior"]["beta"].to_numpy(), 2, 0)
        flat = beta.reshape(2, -1)
        for of, value, wanted in (("mean", flat.mean(axis=1), truth[:, 0]), ("sd", flat.std(axis=1), truth[:, 1])):
            assert np.all(np.abs(value - wanted) / array_stats.mcse(beta, method=of) < 4.5)
        assert np.min(array_stats.ess(beta, method="tail", prob=(0.05, 0.95))) > 1000
        assert "Nothing speaks against the draws" in str(tb.verdict(tree))


def test_the_planner_takes_them_where_all_rows_make_a_posterior_skewed():
    """And not where core rows do, where nothing does, where draws would take too long, or rows come in a stream."""
    X, y = few_events()
    model = tb.Regression(X, y, tb.families.Bernoulli())
    said = str(tb.explain(model))
    assert "512 rows, in the surrogate" in said
    assert "accepted on all rows" in said
    assert "miss the tails" in str(tb.explain(model, verbose=True))
    many = tb.Regression(X, (np.arange(len(y)) % 3 == 0).astype(float), tb.families.Bernoulli())
    assert "stand-ins" not in str(tb.explain(many))
    longest = 6e10 / (model.n * costs.full_row(model.d))  # a minute of one core, by the costs of rows
    for share in (0.995, 1.005):
        said = str(tb.explain(model, draws=round(share * longest / 4), chains=4))
        assert ("stand-ins" in said) == (share < 1.0)
    level = np.zeros((len(y), 1))
    level[:30] = 1.0
    some = (np.random.default_rng(1).random(len(y)) < 0.3).astype(float)
    some[:30] = np.arange(30) < 1
    with_level = tb.Regression(np.column_stack([X, level]), some, tb.families.Bernoulli(), tb.priors.Normal(0, 2.5))
    assert "stand-ins" not in str(tb.explain(with_level))


def test_they_take_the_place_of_plain_metropolis_hastings_too(monkeypatch):
    """Which the planner otherwise takes here: no event at all, so that only the prior ends the intercept's tail."""
    X = np.column_stack([np.ones(4000), np.random.default_rng(4).standard_normal((4000, 2))])
    plain = tb.explain(tb.Regression(X, np.zeros(4000), tb.families.Bernoulli()))
    assert "512 rows, in the surrogate" in str(plain)
    monkeypatch.setattr(tb.kernels.MetropolisHastings, "into_tails", lambda *_: None)
    other = tb.explain(tb.Regression(X, np.zeros(4000), tb.families.Bernoulli()))
    assert "MetropolisHastings" in str(other)


@pytest.mark.parametrize(("events", "taken"), [(8, True), (40, False)])
def test_how_skewed_a_posterior_must_be(events, taken):
    """An intercept's skewness is about minus the inverse root of the number of events: 0.25 is that of sixteen."""
    assert (events**-0.5 > SKEWED_BY_ALL) == taken
    X, y = few_events(4000, events)
    assert ("stand-ins" in str(tb.explain(tb.Regression(X, y, tb.families.Bernoulli())))) == taken


def test_what_cannot_have_them_is_refused():
    with pytest.raises(InputError, match="stand_ins=-1 must be a whole number, 0 or more"):
        tb.kernels.ScalableMH(stand_ins=-1)
    with pytest.raises(InputError, match=r"stand_ins=9 needs truncation=0\.0 and local bounds"):
        tb.kernels.ScalableMH(stand_ins=9)
    with pytest.raises(InputError, match=r"needs truncation=0\.0 and local bounds"):
        tb.kernels.ScalableMH(stand_ins=9, truncation=0.0, bound=tb.bounds.Global())
    with pytest.raises(InputError, match="stand_ins=9 needs order=2, or None; order=3 was given"):
        tb.kernels.ScalableMH(order=3, stand_ins=9, truncation=0.0)
    X, y = few_events(200)
    kernel = tb.kernels.ScalableMH(stand_ins=9, truncation=0.0)
    for family in (tb.families.Gaussian(), tb.families.StudentT(4.0, 1.0)):
        with pytest.raises(InputError, match="stand_ins=9 needs one linear predictor and a log-concave likelihood"):
            tb.explain(tb.Regression(X, y, family), kernel)
