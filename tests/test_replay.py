"""The compiled chain and a plain-NumPy one on the same random numbers make the same decisions."""

import math

import numpy as np
import pytest

import oracle
from problems import Driver, asking, bench, bundled_rows, empty_draws, in_batches, in_reservoirs, run, stream
from tallbayes.kernels.state import BATCH


def _name(part):
    """The same name in every process: a function's own, not its address."""
    return getattr(part, "__name__", str(part))


# case, rule, proposal, truncation, radius, and the rows of a bundle if they are sketched
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
    ("student-ends", "SMH2-local", "antithetic", 6.0, 4.0),
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
    ("logistic-flat", "SMH1-local", "walk", math.inf, 6.0, 16),
    ("logistic-normal", "SMH2-local", "independent", 100.0, 3.5, 4),
    ("student-flat", "SMH3-local", "surrogate", 60.0, 4.0, 16),
]


WIDER_CHAINS = [
    ("poisson", "SMH1-local", "walk", 60.0, 4.0),
    ("poisson", "SMH3-local", "independent-walks", math.inf, 3.0),
    ("gamma", "SMH2-local", "antithetic-walks", math.inf, 3.0),
    ("gamma", "FMH-local", "walk", 60.0, 3.0),
    ("negative-binomial", "SMH2-local", "independent", 60.0, 3.0),
    ("negative-binomial", "SMH1-local", "first-order", math.inf, 4.0, 4),
    ("probit", "SMH2-local", "crank-nicolson", 60.0, 3.0),
    ("probit", "SMH3-local", "surrogate", math.inf, 3.0, 16),
    ("cloglog", "SMH1-local", "walk", math.inf, 4.0),
    ("cloglog", "SMH2-local", "independent", 60.0, 3.0, 1),
    ("cloglog", "SMH3-local", "preconditioned", math.inf, 3.0),
    ("gaussian", "SMH1-local", "walk", math.inf, 4.0),
    ("pseudo-huber", "SMH3-local", "independent", math.inf, 4.0),
    ("single-logistic", "SMH1-local", "walk", math.inf, 5.0),
    ("single-logistic", "SMH2-local", "independent-walks", 60.0, 4.0, 16),
    ("single-logistic", "SMH2-global", "walk", 30.0, None),
    ("single-poisson", "SMH2-local", "crank-nicolson", 20.0, 4.0),
    ("twelve", "SMH2-local", "crank-nicolson", 60.0, 6.0),
    ("twelve", "SMH3-local", "independent-walks", math.inf, 6.0, 16),
    ("single-twelve", "SMH1-local", "walk", 150.0, 6.0),
    ("scale-student", "SMH3-local", "independent-walks", math.inf, 3.0),
    ("scale-student", "SMH1-local", "walk", 60.0, 3.0),
    ("scale-gaussian", "SMH2-local", "antithetic-walks", math.inf, 3.0),
    ("scale-gaussian", "FMH-local", "preconditioned", 60.0, 2.0),
    ("scale-huber", "SMH3-local", "surrogate", 60.0, 3.0),
    ("scale-ends", "MH", "walks-between", math.inf, None),
    ("scale-custom", "SMH3-local", "surrogate", 60.0, 3.0),
    ("scale-custom", "SMH2-local", "antithetic-walks", math.inf, 3.0),
    ("custom-design", "SMH1-local", "walk", math.inf, 3.0),
    ("softmax", "SMH3-local", "independent-walks", 60.0, 3.0),
    ("softmax", "SMH1-local", "walk", math.inf, 3.0),
    ("ordinal", "SMH3-local", "independent-walks", 60.0, 3.0),
    ("ordinal", "SMH1-local", "walk", math.inf, 3.0),
    ("ordinal-probit", "SMH3-local", "independent-walks", 60.0, 3.0),
    ("ordinal-probit", "SMH1-local", "walk", math.inf, 3.0),
    ("inflated", "SMH3-local", "independent-walks", 60.0, 3.0),
    ("dispersed", "SMH2-local", "walk", math.inf, 3.0),
    ("amounts", "SMH3-local", "independent-walks", 60.0, 3.0),
    ("amounts", "SMH1-local", "walk", math.inf, 3.0),
    ("hurdle", "SMH3-local", "independent-walks", 60.0, 3.0),
    ("scale-design", "SMH2-local", "walk", math.inf, 3.0),
    ("single-twelve", "SMH2-local", "antithetic-walks", math.inf, 6.0, 4),
]


def at_hand(prepared, seed):
    """Steps on all rows are answered within compiled code."""
    return prepared


def by_asking(prepared, seed):
    """Steps on all rows end the chunk, and the driver answers."""
    return asking(prepared)


def by_batches(prepared, seed):
    """Rows come seven at a time, and steps on all rows are asked for."""
    return in_batches(prepared, 7, seed)


def by_reservoirs(prepared, seed):
    """Rows come seven at a time, drawn in passes over blocks."""
    return in_reservoirs(prepared, 7, seed)


def compare(chain, ways, steps, seed):
    b = bench(*chain)
    start = 0.5 * np.random.default_rng(seed).standard_normal(b.problem.centre.size)
    sketched = len(chain) > 5
    expected = None
    for way in ways:
        prepared = way(b.prepared, seed)
        driver = Driver(prepared, stream(seed), start)
        draws = run(driver, steps)
        if way in {by_batches, by_reservoirs}:
            supplied = iter(prepared.supply.drawn)
            expected = oracle.replay(
                b.problem, b.rule, b.proposal, lambda rng, s=supplied: next(s), start, stream(seed), steps
            )
            # Hardly a row that was supplied is left over, and requests were made.
            if b.rule.order is not None:
                assert len(list(supplied)) < 7
                assert len(prepared.supply.drawn) > 14
        elif expected is None:
            target = b.prepared.target
            table = (target.bundles.table[:, :2] if sketched else target.rows.table).T
            expected = oracle.replay(
                *(b.problem, b.rule, b.proposal, lambda rng, t=table: oracle.from_table(t, rng)),
                *(start, stream(seed), steps, BATCH, bundled_rows(b.prepared) if sketched else None),
            )
        agrees(chain, b, driver, draws, expected)


def agrees(chain, b, driver, draws, expected):
    np.testing.assert_array_equal(draws.accepted, expected.accepted)
    assert np.all(np.abs(draws.rows_touched - expected.rows_touched) <= expected.unsure)
    assert np.sum(expected.unsure) <= 1e-4 * np.sum(expected.rows_touched) + 1.0
    np.testing.assert_array_equal(draws.full_pass, expected.full_pass)
    # A walk adds up its roundings: a few units in the last place for each step.
    rounding = 1e-12 + 4.0 * np.finfo(float).eps * draws.accepted.size
    np.testing.assert_allclose(draws.z, expected.z, rtol=0, atol=rounding)
    assert driver.violations == 0
    # The run was worth comparing: both decisions were made, and rows evaluated.
    assert 0.02 < np.mean(draws.accepted) < 1.0
    assert np.sum(draws.rows_touched) > 0
    if b.rule.order is not None and chain[3] < math.inf:
        assert np.any(draws.full_pass)


ALL_CHAINS = CHAINS + WIDER_CHAINS
PLAIN_CHAINS = [chain for chain in ALL_CHAINS if len(chain) == 5 and chain[1] != "MH"]


@pytest.mark.parametrize("chain", ALL_CHAINS, ids=_name)
def test_compiled_chain_is_the_plain_one(chain):
    compare(chain, [at_hand, by_asking], 1500 if chain in CHAINS else 500, seed=1)


@pytest.mark.parametrize("chain", PLAIN_CHAINS, ids=_name)
def test_compiled_chain_in_batches_is_the_plain_one(chain):
    compare(chain, [by_batches], 700 if chain in CHAINS else 250, seed=3)


@pytest.mark.parametrize("chain", PLAIN_CHAINS[::3], ids=_name)
def test_compiled_chain_from_reservoirs_is_the_plain_one(chain):
    compare(chain, [by_reservoirs], 700 if chain in CHAINS else 250, seed=5)


@pytest.mark.long
@pytest.mark.parametrize("chain", ALL_CHAINS, ids=_name)
def test_compiled_chain_is_the_plain_one_long(chain):
    compare(chain, [at_hand, by_asking], 1_000_000 // len(CHAINS), seed=2)


@pytest.mark.long
@pytest.mark.parametrize("chain", PLAIN_CHAINS, ids=_name)
def test_compiled_chain_in_batches_is_the_plain_one_long(chain):
    compare(chain, [by_batches], 1_000_000 // len(CHAINS), seed=4)


CUT = [CHAINS[0], CHAINS[3], CHAINS[4], CHAINS[8], CHAINS[11], CHAINS[18], CHAINS[24], CHAINS[26]]


WAYS = [
    (chain, way)
    for chain in CUT
    for way in (at_hand, by_asking, by_batches)
    if len(chain) < 6 or way is not by_batches
]


@pytest.mark.parametrize(("chain", "way"), WAYS, ids=_name)
def test_where_a_chunk_ends_changes_nothing(chain, way):
    b = bench(*chain)
    d, steps = b.problem.centre.size, 800
    whole = run(Driver(way(b.prepared, 5), stream(9), np.zeros(d)), steps)
    chunks = np.random.default_rng(1)
    for largest in (1, 90):
        driver = Driver(way(b.prepared, 5), stream(9), np.zeros(d))
        parts, made = [], 0
        while made < steps:
            room = empty_draws(min(steps - made, int(chunks.integers(1, largest + 1))), d)
            done = driver.advance(room, int(chunks.integers(1, 51)))
            parts.append(type(room)(*(field[:done] for field in room)))
            made += done
        for field in range(4):
            np.testing.assert_array_equal(np.concatenate([part[field] for part in parts]), whole[field])
