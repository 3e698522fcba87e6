"""The compiled chain and a plain-NumPy one on the same random numbers make the same decisions."""

import math

import numpy as np
import pytest

import oracle
from problems import bench, empty_draws, run, stream
from tallbayes.kernels.trials import BATCH

# case, rule, proposal, truncation, radius, and whether rows are sketched
CHAINS = [
    ("logistic-normal", "MH", "crank-nicolson", math.inf, None),
    ("student-flat", "MH", "first-order", math.inf, None),
    ("logistic-ends", "FMH-global", "preconditioned", 40.0, None),
    ("logistic-flat", "FMH-local", "walk", math.inf, 3.0),
    ("logistic-normal", "SMH1-global", "walk", 40.0, None),
    ("student-flat", "SMH1-local", "first-order", 30.0, 4.0),
    ("logistic-flat", "SMH1-local", "first-order", math.inf, 5.0),
    ("logistic-ends", "SMH2-global", "independent", 2.0, None),
    ("logistic-normal", "SMH2-local", "independent", math.inf, 3.0),
    ("student-ends", "SMH2-local", "antithetic", 37.0, 4.0),
    ("student-normal", "SMH2-local", "preconditioned", math.inf, 3.0),
    ("logistic-normal", "SMH3-local", "independent", 20.0, 4.0),
    ("logistic-flat", "SMH3-global", "crank-nicolson", 25.0, None),
    ("student-flat", "SMH3-local", "walk", math.inf, 4.0),
    ("logistic-normal", "MH", "walks-between", math.inf, None),
    ("logistic-normal", "SMH2-local", "walks-between", 40.0, 3.0),
    ("student-flat", "SMH2-local", "antithetic-walks", math.inf, 4.0),
    ("logistic-ends", "SMH3-local", "independent-walks", math.inf, 3.0),
    ("logistic-ends", "SMH3-local", "surrogate", 30.0, 2.5),
    ("student-flat", "SMH3-global", "surrogate", math.inf, None),
    ("student-normal", "SMH2-local", "more-surrogate", math.inf, 2.0),
    ("logistic-normal", "SMH3-local", "more-surrogate", math.inf, 3.0),
    ("logistic-priors", "MH", "walks-between", math.inf, None),
    ("logistic-priors", "SMH1-global", "first-order", 60.0, None),
    ("logistic-priors", "SMH2-local", "antithetic-walks", 40.0, 3.0),
    ("logistic-priors", "SMH3-local", "surrogate", math.inf, 3.0),
    ("logistic-flat", "SMH1-local", "walk", math.inf, 6.0, True),
    ("logistic-normal", "SMH2-local", "independent", 100.0, 3.5, True),
    ("student-flat", "SMH3-local", "surrogate", 60.0, 4.0, True),
]


def compare(chain, steps, seed):
    b = bench(*chain)
    start = 0.5 * np.random.default_rng(seed).standard_normal(b.problem.centre.size)
    rng = stream(seed)
    state = b.prepared.initial_state(b.prepared.target, start, rng)
    state, draws = run(b.prepared, state, rng, steps)
    sampler = b.prepared.target.sampler
    table, sketched = (sampler.keep, sampler.alias), len(chain) > 5
    batch = BATCH if sketched else 1
    expected = oracle.replay(b.problem, b.rule, b.proposal, table, start, stream(seed), steps, batch)
    np.testing.assert_array_equal(draws.accepted, expected.accepted)
    if sketched:
        # The decisions are the same; that is the point of a sketch. Fewer rows are looked at.
        assert np.all(draws.rows_touched <= expected.rows_touched)
        assert np.sum(draws.rows_touched) < np.sum(expected.rows_touched)
    else:
        np.testing.assert_array_equal(draws.rows_touched, expected.rows_touched)
    np.testing.assert_array_equal(draws.full_pass, expected.full_pass)
    # A walk adds up its roundings: a few units in the last place for each step.
    rounding = 1e-12 + 4.0 * np.finfo(float).eps * draws.accepted.size
    np.testing.assert_allclose(draws.z, expected.z, rtol=0, atol=rounding)
    assert state.violations == 0
    # The run was worth comparing: both decisions were made, and rows looked at.
    assert 0.02 < np.mean(draws.accepted) < 1.0
    assert np.sum(draws.rows_touched) > 0
    if b.rule.order is not None and chain[3] < math.inf:
        assert np.any(draws.full_pass)


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_compiled_chain_is_the_plain_one(chain):
    compare(chain, 1500, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_compiled_chain_is_the_plain_one_long(chain):
    compare(chain, 1_000_000 // len(CHAINS), seed=2)


@pytest.mark.parametrize(
    "chain", [CHAINS[0], CHAINS[3], CHAINS[4], CHAINS[8], CHAINS[11], CHAINS[18], CHAINS[24], CHAINS[26]], ids=str
)
def test_where_a_chunk_ends_changes_nothing(chain):
    b = bench(*chain)
    target, d, steps = b.prepared.target, b.problem.centre.size, 800

    def begin():
        rng = stream(9)
        return rng, b.prepared.initial_state(target, np.zeros(d), rng)

    rng, state = begin()
    _, whole = run(b.prepared, state, rng, steps)
    chunks = np.random.default_rng(1)
    for largest in (1, 90):
        rng, state = begin()
        parts = []
        while sum(part.accepted.size for part in parts) < steps:
            left = steps - sum(part.accepted.size for part in parts)
            room = empty_draws(min(left, int(chunks.integers(1, largest + 1))), d)
            budget = int(chunks.integers(1, 51))
            state, done = b.prepared.run_chunk(target, b.prepared.proposal, state, rng, room, budget)
            if done:
                parts.append(type(room)(*(field[:done] for field in room)))
        for field in range(4):
            np.testing.assert_array_equal(np.concatenate([part[field] for part in parts]), whole[field])
