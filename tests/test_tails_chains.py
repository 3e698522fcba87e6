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
from tallbayes.setup.core import gather
from tallbayes.setup.mode import Mode, find_mode
from tallbayes.setup.tables import CUMULATIVE, POSITION, POTENTIAL
from tallbayes.setup.tails import Tails

RARE = 1
LIMIT = 5.3  # abs(z): false positives 1.2e-7 of each test


def rare_level(family=None):
    """Eight rows of seventy with one event and weights, some of them equal; a kink in one prior, a heavy tail in another."""
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


def replayed(chain, steps, seed, supplied=None):
    """The oracle's chain, from the centre."""
    p = pair_of(*chain)
    rows = None if supplied is None else iter(supplied)

    def draw(rng):
        return oracle.from_table(drawn_rows(chain), rng) if rows is None else next(rows)

    return oracle.replay(p.problem, p.rule, p.proposal, draw, np.zeros(4), stream(seed), steps)


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
    expected = replayed(chain, steps, seed, prepared.supply.drawn if way == "batches" else None)
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
    compare(chain, way, 30_000, seed=2)
