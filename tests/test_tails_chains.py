"""Chains with core rows and tabulated directions, step by step: replayed, counted, and started at the truth.

What the surrogate, the rows and the tables should be is written in plain NumPy (`oracle.py`), from sums over rows.
"""

import dataclasses
import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import oracle
import tallbayes as tb
from problems import Case, Driver, asking, directly, in_batches, run, setup_at, stream
from tallbayes.kernels.state import BATCH
from tallbayes.kernels.target import step_rate, surrogate_at
from tallbayes.setup.core import PREDICTOR, RESPONSE, TAYLOR, gather
from tallbayes.setup.mode import Mode, find_mode
from tallbayes.setup.tables import CUMULATIVE, GRADIENT, POSITION, POTENTIAL
from tallbayes.setup.tails import Tails

RARE = 1
LIMIT = 5.3  # abs(z): false positives 1.2e-7 of each test


def rare_level(family=None):
    """A column that eight of seventy rows have, with one event; some are equal, or without weight; a kinked prior."""
    rng = np.random.default_rng(18)
    n, rows = 70, 8
    X = np.column_stack([np.ones(n), np.zeros(n), 0.7 * rng.standard_normal((n, 2))])
    X[:rows, RARE] = rng.choice([1.0, 2.0], rows)
    X[:2] = X[2]
    y = (rng.random(n) < 1 / (1 + np.exp(0.5 - 0.6 * X[:, 2]))).astype(float)
    y[:rows] = 0.0
    y[rows - 1] = 1.0
    weights = rng.choice([0.0, 1.0, 2.0], n, p=[0.1, 0.7, 0.2])
    weights[rows - 1] = 1.0
    prior = [tb.priors.Normal(0.3, 2.0)] * 3 + [tb.priors.Laplace(0.0, 0.3)]
    return Case(X, y, family or tb.families.Bernoulli(), prior, weights, 0.1 * rng.standard_normal(n))


class Pair(NamedTuple):
    """A kernel of the package, and the same by the oracle."""

    prepared: object
    problem: oracle.Problem
    rule: oracle.Rule
    proposal: oracle.Gaussian
    core_rows: int
    """Different rows in the core."""


PROPOSALS = {
    "independent": tb.proposals.CrankNicolson(rho=0.0, walk_every=3, tabulated=True),
    "only-independent": tb.proposals.CrankNicolson(rho=0.0, tabulated=True),
    "no-table": tb.proposals.CrankNicolson(rho=0.0),
    "trials": tb.proposals.SurrogateSteps(steps=3, keep=0.8, walk_every=4, tabulated=True),
}


def tables_of(prepared):
    """The oracle's tables: knots are the package's choice, probabilities and draws are not."""
    tables = prepared.tables
    found = []
    for lines, (left, right, _, axis) in zip(tables.knots, tables.facts, strict=True):
        count = np.unique(lines[POSITION]).size  # shorter tables repeat their last knot
        found.append(oracle.Table(int(axis), *lines[[POSITION, POTENTIAL], :count], left, right))
    return tuple(found)


def proposal_of(name, problem, tables):
    move = PROPOSALS[name]
    if isinstance(move, tb.proposals.SurrogateSteps):
        plain = oracle.surrogate_steps(problem, move.steps, move.keep, move.walk_every)
    else:
        plain = oracle.crank_nicolson_and_walks(problem, 0.0, False, move.walk_every)
    return plain._replace(tables=tables, centre=problem.centre)


@cache
def pair_of(family, order, proposal, truncation, radius):
    """Prepare a kernel 0.3 standard deviations beside the mode, so that gradients matter."""
    case = rare_level(tb.families.Bernoulli(family))
    model = case.model
    mode = find_mode(model, threads=1)
    setup = setup_at(model, mode, mode.theta + 0.3 * np.array([1, -1, 1, -1]) / np.sqrt(np.diag(mode.hessian)))
    del setup.__dict__["metric"]
    # The rarest column alone is in the core, so that other rows are left.
    columns = np.array([RARE])
    setup.__dict__["tails"] = Tails(columns, np.array([3]), gather(model.source.whole.converted(), columns, 99))
    kernel = tb.kernels.ScalableMH(
        order, tb.bounds.Local(radius), PROPOSALS[proposal], truncation=truncation, core=True
    )
    prepared = kernel.prepare(model, setup=setup)
    core = np.flatnonzero(case.X[:, RARE])
    problem = dataclasses.replace(
        case.problem(prepared.metric.centre), core=tuple(core), order=(RARE, 0, 2, 3), free=1
    )
    rows = np.column_stack([case.X, case.y, case.offset])[core][case.weights[core] > 0]
    rule = oracle.Rule(order, radius, truncation)
    oracle_move = proposal_of(proposal, problem, tables_of(prepared))
    return Pair(prepared, problem, rule, oracle_move, len(np.unique(rows, axis=0)))


# -- replay --

# family, order, proposal, truncation, radius
CHAINS = [
    ("logit", 2, "independent", math.inf, 3.0),
    ("logit", 3, "independent", 12.0, 4.0),
    ("cloglog", 3, "independent", math.inf, 2.5),
    ("cloglog", 2, "only-independent", math.inf, 2.5),
    ("logit", 2, "no-table", math.inf, 3.0),
    ("logit", 3, "trials", math.inf, 2.5),
    ("cloglog", 2, "trials", 15.0, 3.0),
]
WAYS = {"at-hand": lambda prepared: prepared, "asking": asking, "batches": in_batches}


@cache
def drawn_rows(chain):
    """What rows the alias table draws."""
    return pair_of(*chain).prepared.target.rows.table.T


@cache
def replayed(chain, steps, seed, supplied=None):
    """The oracle's chain, from the centre, with rows as supplied or by the alias table."""
    p = pair_of(*chain)
    rows = None if supplied is None else iter(supplied)

    def draw(rng):
        return oracle.from_table(drawn_rows(chain), rng) if rows is None else next(rows)

    batch = BATCH if rows is None else 1
    return oracle.replay(p.problem, p.rule, p.proposal, draw, np.zeros(4), stream(seed), steps, batch)


def made(prepared, steps, seed):
    """The compiled chain."""
    driver = Driver(prepared, stream(seed), np.zeros(4))
    draws = run(driver, steps)
    assert driver.violations == 0
    return draws


def agree(chain, draws, expected):
    """Whether the same decisions were made, on the same rows, with the same states."""
    p = pair_of(*chain)
    evaluated = p.core_rows * p.prepared.move.inner
    return (
        np.array_equal(draws.accepted, expected.accepted)
        and np.array_equal(draws.full_pass, expected.full_pass)
        and np.array_equal(draws.rows_touched, expected.rows_touched + evaluated)
        and np.allclose(draws.z, expected.z, rtol=0, atol=1e-9)
    )


def compare(chain, way, steps, seed):
    prepared = WAYS[way](pair_of(*chain).prepared)
    draws = made(prepared, steps, seed)
    expected = replayed(chain, steps, seed, tuple(prepared.supply.drawn) if way == "batches" else None)
    assert agree(chain, draws, expected)
    # The run was worth comparing: rows were tried and rejected, and steps left the ball.
    assert 0.1 < np.mean(draws.accepted) < 1.0
    assert np.sum(expected.rows_touched[~expected.full_pass]) > 20
    assert np.any(expected.full_pass)
    assert np.ptp(draws.z[:, 0]) > 3.0


@pytest.mark.parametrize("chain", CHAINS, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_compiled_chain_is_the_plain_one(chain, way):
    compare(chain, way, 400, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("chain", CHAINS, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_compiled_chain_is_the_plain_one_long(chain, way):
    compare(chain, way, 10_000, seed=2)


@pytest.mark.parametrize("chain", [CHAINS[0], CHAINS[2]], ids=str)
def test_tables_are_of_the_surrogate_along_their_axes(chain):
    """Up to a constant, at the knots; a coefficient with a kink in its prior has no cubic in its table."""
    p = pair_of(*chain)
    assert [table.axis for table in p.proposal.tables] == [0, 3]
    for table, order in zip(p.proposal.tables, (p.rule.order, 2), strict=True):
        z = np.zeros((table.knots.size, 4))
        z[:, table.axis] = table.knots
        problem = p.problem if table.axis == 0 else dataclasses.replace(p.problem, core=())
        gap = np.float64(problem.surrogate(problem.theta(z), order)) - table.potential
        np.testing.assert_allclose(gap, gap[0], atol=1e-8)
        # Normalised: the package's own numbers are minus the log density.
        np.testing.assert_allclose(table.minus_log_density(table.knots), table.potential, atol=1e-12)


# -- frequency --

FORCED = ("logit", 2, "no-table", math.inf, 8.0), ("cloglog", 3, "no-table", math.inf, 8.0)


def log_acceptance(pair, z, other):
    """log alpha from its definition, by sums over rows."""
    problem = pair.problem
    theta, there = problem.theta(z), problem.theta(other)
    return oracle.acceptance(problem, pair.rule, pair.proposal, theta, there).log(pair.rule.truncation)


@cache
def two_ends(chain):
    """Two states, apart along the rare coordinate, between which core rows and others decide; with probabilities.

    Multiples of 1/1024, whose arithmetic is exact.
    """
    pair = pair_of(*chain)
    rng = np.random.default_rng(5)
    z, other = np.round(1024 * rng.standard_normal((2, 600, 4))) / 1024
    z[:, 0], other[:, 0] = np.round(1024 * rng.uniform([[-3.5], [0.0]], [[-1.5], [1.5]], (2, 600))) / 1024
    logs = np.stack([log_acceptance(pair, z, other), log_acceptance(pair, other, z)])
    problem = pair.problem
    rows = oracle.intensities(problem, pair.rule.order, problem.theta(z), problem.theta(other)).sum(axis=1)
    at = int(np.argmax(np.where(np.all(logs > math.log(0.1), axis=0), rows, -1.0)))
    assert rows[at] > 0.05
    return np.stack([z[at], other[at]]), np.exp(logs[:, at])


def p_values(chain, prepared, trials, seed):
    """Of the number of acceptances in each direction, where the only proposal is the other end."""
    ends, probability = two_ends(chain)
    move = prepared.move._replace(keep=-1.0, drift=ends.sum(axis=0), scale=0.0)
    driver = Driver(dataclasses.replace(prepared, move=move), stream(seed), ends[0])
    draws = run(driver, trials)
    after = np.all(draws.z == ends[1], axis=1).astype(int)
    before = np.concatenate([[0], after[:-1]])
    assert np.all(draws.z == ends[after])
    return [
        stats.binomtest(int(np.sum(draws.accepted[before == end])), int(np.sum(before == end)), p).pvalue
        for end, p in enumerate(np.minimum(probability, 1.0))
    ]


def check_frequency(chain, trials, seed):
    prepared = pair_of(*chain).prepared
    for way, share in (("at-hand", 1), ("batches", 16)):
        # False positives: 1e-6 in all.
        assert min(p_values(chain, WAYS[way](prepared), trials // share, seed)) > 1e-6 / 8


@pytest.mark.parametrize("chain", FORCED, ids=str)
def test_acceptance_frequency_with_core_rows(chain):
    check_frequency(chain, 100_000, seed=3)


@pytest.mark.long
@pytest.mark.parametrize("chain", FORCED, ids=str)
def test_acceptance_frequency_with_core_rows_long(chain):
    check_frequency(chain, 2_000_000, seed=4)


TABULATED = [("logit", 2, "only-independent", 10.0, 2.5), ("cloglog", 3, "only-independent", math.inf, 3.0)]


def residual_scores(chain, prepared, blocks, seed):
    """z-scores of the sum of accepted - alpha(z, z') over a chain, plain and weighted by functions of z and z'.

    Given the past and the proposal the summands have mean zero, so the sum is a martingale whose variance is the sum
    of weight^2 alpha (1 - alpha). Proposals of a block of steps are read from where the chain keeps them.
    """
    driver = Driver(prepared, stream(seed), np.zeros(4))
    here, points, proposals, accepted = np.zeros((1, 4)), [], [], []
    for _ in range(blocks):
        draws = run(driver, oracle.BLOCK)
        proposals.append(driver.state.ahead.noise.T.copy())
        points.append(np.concatenate([here, draws.z[:-1]]))
        accepted.append(draws.accepted)
        here = draws.z[-1:]
    assert driver.violations == 0
    z, other, accepted = (np.concatenate(part) for part in (points, proposals, accepted))
    np.testing.assert_array_equal(np.concatenate([z[1:], here])[accepted], other[accepted])
    alpha = np.exp(np.minimum(log_acceptance(pair_of(*chain), z, other), 0.0))
    weights = np.stack([np.ones(z.shape[0]), z[:, 0], other[:, 0], z[:, 3], other[:, 3]])
    spread = np.sqrt(np.sum(weights**2 * alpha * (1.0 - alpha), axis=1))
    return weights @ (accepted - alpha) / spread


def check_residuals(chain, blocks, seed):
    scores = residual_scores(chain, pair_of(*chain).prepared, blocks, seed)
    assert np.all(np.abs(scores) < LIMIT), scores  # false positives: 6e-7


@pytest.mark.parametrize("chain", TABULATED, ids=str)
def test_acceptance_with_tables_leaves_no_residual(chain):
    check_residuals(chain, 120, seed=5)


@pytest.mark.long
@pytest.mark.parametrize("chain", TABULATED, ids=str)
def test_acceptance_with_tables_leaves_no_residual_long(chain):
    check_residuals(chain, 2000, seed=6)


@pytest.mark.parametrize("chain", [FORCED[0], ("logit", 3, "no-table", math.inf, 8.0)], ids=str)
def test_free_coordinates_end_where_digits_are_lost(chain):
    """As far out as steps look at few rows, the surrogate has the digits that they need; then all rows decide."""
    p = pair_of(*chain)
    target, inside = p.prepared.target, np.full(4, 0.1)
    for far in (1e3, 9999.0, -9999.0):
        z = np.array([far, 0.1, 0.2, -0.1])
        assert math.isfinite(step_rate(target, inside, z))
        theta = p.problem.theta(z)
        # Minus the log of the surrogate, with G taken off as by the kernel: what it is at the centre drops out.
        wanted = p.problem.surrogate(theta, p.rule.order) + p.proposal.log_density(theta, theta)
        middle = p.problem.centre[None]
        wanted -= p.problem.surrogate(middle, p.rule.order) + p.proposal.log_density(middle, middle)
        found = surrogate_at(target, z) - surrogate_at(target, np.zeros(4))
        assert abs(found - float(wanted[0])) < 0.01
    for far in (10_001.0, -10_001.0, 1e9):
        z = np.array([far, 0.1, 0.2, -0.1])
        assert step_rate(target, inside, z) == step_rate(target, z, inside) == math.inf
        # Of independent proposals, whose distances are found a block at a time: every step is on all rows.
        move = p.prepared.move._replace(drift=z, scale=1e-3)
        draws = run(Driver(dataclasses.replace(p.prepared, move=move), stream(1), inside), 100)
        assert np.all(draws.full_pass)


# -- paired start --

STEPS, N, D = 6, 12, 3
PRIOR = tb.priors.Normal([0.3, -0.2, 0.1], [1.0, 0.8, 1.5])
MEAN, SCALE = np.asarray(PRIOR.mean), np.asarray(PRIOR.scale)
CENTRE = np.array([0.5, -0.1, -0.4])
"""Where every replicate expands: exactness holds for any centre."""
STARTS = {
    "independent": (2, tb.proposals.CrankNicolson(rho=0.0, walk_every=3, tabulated=True)),
    "cubic": (3, tb.proposals.CrankNicolson(rho=0.0, walk_every=3, tabulated=True)),
    "trials": (3, tb.proposals.SurrogateSteps(3, 0.8, walk_every=3, tabulated=True)),
}


def tiny_design(rng):
    """Twelve rows, of which five have the last column: these are core rows."""
    X = np.column_stack([np.ones(N), rng.standard_normal(N), np.zeros(N)])
    X[:5, 2] = [1.0, 1.0, 1.0, 1.5, 2.5]
    return X


def prepared_at_centre(X, y, name):
    """A kernel whose core is the last column, with tables of it and of the second coefficient."""
    order, proposal = STARTS[name]
    model = tb.Regression(X, y, tb.families.Bernoulli(), PRIOR)
    setup = setup_at(model, Mode(CENTRE, 0.0, np.zeros(D), np.eye(D), 0), CENTRE)
    del setup.__dict__["metric"]
    rare = np.array([2])
    setup.__dict__["tails"] = Tails(rare, np.array([1]), gather(model.source.whole.converted(), rare, 99))
    kernel = tb.kernels.ScalableMH(order, tb.bounds.Local(2.5), proposal, truncation=math.inf, core=True)
    return kernel.prepare(model, setup=setup)


class Replicates:
    """Truths from the prior with responses from the model, and where chains have come to from there."""

    def __init__(self, count, seed):
        self.rng, self.draws = np.random.default_rng(seed), stream(seed)
        self.X = tiny_design(self.rng)
        self.before = MEAN + SCALE * self.rng.standard_normal((count, D))
        chances = 1 / (1 + np.exp(-self.before @ self.X.T))
        self.responses = (self.rng.random((count, N)) < chances).astype(float)
        self.after = np.empty((count, D))

    def step(self, r, prepared):
        """A few steps of replicate r."""
        metric = prepared.metric
        driver = Driver(prepared, self.draws, metric.root.T @ (self.before[r] - CENTRE))
        out = run(driver, STEPS)
        assert driver.violations == 0
        self.after[r] = CENTRE + metric.matrix @ out.z[-1]

    def observed(self, theta):
        """theta, theta^2, U, and what expansions of order 2 leave of all rows and of core rows."""
        eta, centre = theta @ self.X.T, self.X @ CENTRE
        step, chance = eta - centre, 1 / (1 + np.exp(-centre))
        value = np.logaddexp(0.0, eta) - self.responses * eta
        taylor = (chance - self.responses) * step + chance * (1 - chance) * step**2 / 2
        prior = np.sum(((theta - MEAN) / SCALE) ** 2, axis=1) / 2
        left = value - taylor
        sums = value.sum(axis=1) + prior, left.sum(axis=1), left[:, :5].sum(axis=1)
        return np.column_stack([theta, theta**2, *sums])

    @property
    def scores(self):
        """z of the mean changes."""
        changes = self.observed(self.after) - self.observed(self.before)
        return np.mean(changes, axis=0) / np.std(changes, axis=0) * math.sqrt(len(changes))


def with_own_arrays(prepared):
    """The same kernel with copies of what `put_responses` writes to."""
    target, tables = prepared.target, prepared.target.surrogate.terms.tables
    prepared = with_terms(prepared, tables=tables._replace(facts=tables.facts.copy()))
    target = prepared.target._replace(prior=target.prior._replace(linear=target.prior.linear.copy()))
    return dataclasses.replace(prepared, target=target, move=prepared.move._replace(drift=np.empty(D)))


def put_responses(prepared, y, gradient):
    """Put other responses in place: of a logistic model only the gradient depends on them, and core rows do.

    Tables stay as they were. That they are of other responses makes chains slower, and leaves them exact. The target
    stays the same object: how it is passed to compiled code is found out once.
    """
    target, terms = prepared.target, prepared.target.surrogate.terms
    target.rows.responses[:, 0] = y
    rows, change = terms.core.rows, y[:5] - terms.core.rows[:, D + RESPONSE]
    rows[:, D + RESPONSE] = y[:5]
    rows[:, D + TAYLOR] -= change * rows[:, D + PREDICTOR]  # U = log(1 + e^eta) - y eta
    rows[:, D + TAYLOR + 1] -= change
    terms.tables.facts[:, GRADIENT] = gradient[terms.tables.axes]
    target.prior.linear[:] = prepared.metric.prior_gradient - gradient
    prepared.move.drift[:] = -gradient


def prepared_once(name, count, seed, mutant=lambda prepared: prepared):
    """z-scores, where one kernel takes the responses of each replicate in turn; a mutant has other core rows."""
    replicates = Replicates(count, seed)
    X = replicates.X
    y = (np.arange(N) % 2).astype(float)
    y[:5] = [0.0, 1.0, 0.0, 0.0, 0.0]
    prepared = directly(prepared_at_centre(X, y, name))
    # Core rows in the order of the data, each by itself: no two are equal.
    rows = prepared.target.core.rows
    x = X[:5] @ prepared.metric.matrix
    at = [int(np.argmin(np.abs(rows[:, :D] - line).sum(axis=1))) for line in x]
    assert sorted(at) == list(range(5))
    prepared = with_terms(prepared, core=prepared.target.core._replace(rows=np.ascontiguousarray(rows[at])))
    prepared = with_own_arrays(prepared)
    broken = mutant(prepared)
    chance, fixed = 1 / (1 + np.exp(-X @ CENTRE)), SCALE**-2.0 * (CENTRE - MEAN)
    for r, y in enumerate(replicates.responses):
        gradient = prepared.metric.whiten((chance - y) @ X + fixed)
        put_responses(prepared, y, gradient)
        broken.target.core.rows[:] = mutant(prepared).target.core.rows
        replicates.step(r, broken)
    return replicates.scores


def prepared_anew(name, count, seed):
    """z-scores, where everything is prepared for each replicate: tables are of its own responses."""
    replicates = Replicates(count, seed)
    for r, y in enumerate(replicates.responses):
        replicates.step(r, prepared_at_centre(replicates.X, y, name))
    return replicates.scores


@pytest.mark.parametrize("name", STARTS)
def test_no_expectation_moves(name):
    scores = prepared_once(name, 10_000, seed=7)
    assert np.all(np.abs(scores) < LIMIT), scores


@pytest.mark.parametrize("name", STARTS)
def test_no_expectation_moves_with_tables_of_each_response(name):
    scores = prepared_anew(name, 100, seed=8)
    assert np.all(np.abs(scores) < LIMIT), scores


@pytest.mark.long
@pytest.mark.parametrize("name", STARTS)
def test_no_expectation_moves_long(name):
    for scores in (prepared_once(name, 500_000, seed=9), prepared_anew(name, 20_000, seed=10)):
        assert np.all(np.abs(scores) < LIMIT), scores


# -- teeth --


def with_terms(prepared, **parts):
    target = prepared.target
    surrogate = target.surrogate._replace(terms=target.surrogate.terms._replace(**parts))
    return dataclasses.replace(prepared, target=target._replace(surrogate=surrogate))


def dropped(prepared):
    """A core row is forgotten."""
    core = prepared.target.core
    return with_terms(prepared, core=core._replace(rows=np.ascontiguousarray(core.rows[:-1])))


def twice(prepared):
    """A core row counts twice."""
    core = prepared.target.core
    return with_terms(prepared, core=core._replace(rows=np.vstack([core.rows, core.rows[-1:]])))


def _with_line(prepared, line, change):
    tables = prepared.target.surrogate.terms.tables
    knots = tables.knots.copy()
    knots[0, line] = change(knots[0])
    return with_terms(prepared, tables=tables._replace(knots=knots))


def wrong_density(prepared):
    """Above the median, the density is taken to be one per cent larger than what is drawn from."""
    return _with_line(prepared, POTENTIAL, lambda k: k[POTENTIAL] - 0.01 * (k[CUMULATIVE] > 0.5))


def wrong_draws(prepared):
    """Below the median there is one per cent more of the draws than the density says."""
    return _with_line(prepared, CUMULATIVE, lambda k: k[CUMULATIVE] * (1.0 + 0.01 * (k[CUMULATIVE] < 0.5)))


@pytest.mark.parametrize("chain", [CHAINS[0], CHAINS[5]], ids=str)
@pytest.mark.parametrize("mutant", [dropped, twice, wrong_density, wrong_draws])
def test_replay_sees(mutant, chain):
    draws = made(mutant(pair_of(*chain).prepared), 400, seed=1)
    expected = replayed(chain, 400, seed=1)
    assert not agree(chain, draws, expected)
    # Not by the count of core rows alone.
    assert not np.allclose(draws.z, expected.z, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mutant", [dropped, twice])
def test_frequency_sees(mutant):
    assert min(p_values(FORCED[0], mutant(pair_of(*FORCED[0]).prepared), 100_000, seed=3)) < 1e-12
    scores = residual_scores(TABULATED[0], mutant(pair_of(*TABULATED[0]).prepared), 120, seed=5)
    assert np.max(np.abs(scores)) > LIMIT


@pytest.mark.parametrize("mutant", [dropped, twice])
def test_paired_start_sees(mutant):
    assert np.max(np.abs(prepared_once("independent", 10_000, 7, mutant))) > LIMIT


# -- many tables --


def test_trials_move_however_many_tables_there_are():
    """Their densities are normalised, so that G at the centre grows with their number; the region of trials follows."""
    rng = np.random.default_rng(0)
    n, levels, size = 1500, 5, 20
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2)), np.zeros((n, levels))])
    y = (rng.random(n) < 0.4).astype(float)
    for level in range(levels):
        rows = slice(level * size, (level + 1) * size)
        X[rows, 3 + level] = 1.0
        y[rows] = np.arange(size) == 0
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 2.5))
    trials = tb.proposals.SurrogateSteps(tabulated=True)
    prepared = tb.kernels.ScalableMH(3, tb.bounds.Local(), trials, core=True).prepare(model)
    assert prepared.tables.axes.size == levels
    driver = Driver(prepared, stream(1), np.zeros(3 + levels))
    assert np.mean(run(driver, 2000).accepted) > 0.8
