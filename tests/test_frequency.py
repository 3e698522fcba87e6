"""How often the compiled kernel accepts, from fixed pairs of states, against the enumerated probability.

The proposal is forced: from z the kernel can only propose z', and from z' only z, so that one run holds trials
in both directions with the state and the clock carried on as in real use. Points are multiples of 2^-28: their
arithmetic is exact, so the chain is always at one of the two.
"""

import dataclasses
import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

import oracle
from problems import (
    JOINT_ENDS,
    Driver,
    bench,
    bundled_rows,
    in_batches,
    in_bundles_of,
    in_reservoirs,
    run,
    stream,
)

ALPHA = 1e-6  # false positives of each test function, whatever the number of pairs (Bonferroni)
RADIUS = 8.0


class Setting(NamedTuple):
    """A kernel, and how its rate is forced: psi may be inflated, and R put beside the rate."""

    case: str
    rule: str
    proposal: str
    rate: float | None
    """Total rate of the forward step; None leaves it as it is."""
    truncation: float = math.inf
    """In units of the rate."""
    near: bool = False
    """Whether the two states are 1e-8 apart, with weights so large that rows reject nevertheless."""
    sketch: int = 0
    """Rows of a bundle, if they are sketched."""
    batches: bool = False
    """Whether rows come seven at a time, with requests in between, and all rows are asked for."""
    radius: float = RADIUS


SETTINGS = [
    Setting("logistic-ends", "FMH-global", "walk", None),
    Setting("logistic-ends", "FMH-local", "crank-nicolson", 37.0),
    Setting("logistic-ends", "SMH1-global", "preconditioned", 250.0),
    Setting("logistic-ends", "SMH1-local", "first-order", None),
    Setting("logistic-ends", "SMH2-global", "independent", 37.0, 1.0 + 1e-9),
    Setting("logistic-ends", "SMH2-local", "walk", None),
    Setting("logistic-ends", "SMH2-local", "antithetic", 40.0, 1.0 - 1e-9),
    Setting("logistic-ends", "SMH3-local", "crank-nicolson", None),
    Setting("student-ends", "FMH-global", "preconditioned", 37.0),
    Setting("student-ends", "FMH-local", "first-order", None),
    Setting("student-ends", "SMH1-local", "walk", 150.0),
    Setting("student-ends", "SMH2-global", "crank-nicolson", None),
    Setting("student-ends", "SMH2-local", "independent", 37.0, 1.0 + 1e-9),
    Setting("student-ends", "SMH2-local", "independent", 37.0, 1.0 - 1e-9),
    Setting("student-ends", "SMH3-global", "antithetic", 200.0),
    Setting("student-ends", "SMH3-local", "walk", None),
    Setting("logistic-ends", "SMH2-local", "walk", None, near=True),
    Setting("logistic-ends", "SMH1-local", "walk", None, sketch=16),
    Setting("logistic-ends", "SMH1-local", "preconditioned", 2.0, sketch=4),
    Setting("logistic-ends", "SMH2-local", "independent", 37.0, sketch=16),
    Setting("student-ends", "SMH1-local", "walk", 3.0, sketch=4),
    Setting("student-ends", "SMH3-local", "crank-nicolson", 100.0, sketch=16),
    Setting("logistic-ends", "SMH1-local", "walk", None, near=True, sketch=1),
    Setting("student-ends", "SMH2-local", "preconditioned", None, near=True, sketch=16),
    Setting("logistic-ends", "SMH1-local", "walk", None, batches=True),
    Setting("logistic-ends", "SMH1-global", "preconditioned", 8.0, batches=True),
    Setting("student-ends", "SMH2-local", "independent", 12.0, 1.0 - 1e-9, batches=True),
    Setting("student-ends", "SMH3-local", "walk", 3.0, batches=True),
    Setting("scale-ends", "SMH1-local", "walk", 40.0),
    Setting("scale-ends", "SMH2-local", "independent", 37.0, 1.0 + 1e-9),
    Setting("scale-ends", "SMH3-local", "crank-nicolson", 20.0),
    Setting("scale-ends", "SMH2-local", "walk", 8.0, batches=True),
    Setting("gaussian-ends", "SMH3-local", "walk", 20.0),
    Setting("huber-ends", "SMH2-local", "crank-nicolson", 20.0, radius=4.0),
    Setting("design-ends", "SMH3-local", "independent", 30.0, radius=4.0),
    Setting("softmax-ends", "SMH2-local", "walk", 12.0, radius=4.0),
    Setting("ordinal-ends", "SMH2-local", "crank-nicolson", 12.0, radius=3.0),
    Setting("inflated-ends", "SMH1-local", "walk", 12.0, radius=3.0),
    Setting("hurdle-ends", "SMH2-local", "independent", 12.0, radius=3.0),
    Setting("dispersed-ends", "SMH1-local", "walk", 20.0, radius=3.0),
    Setting("probit-ends", "SMH2-local", "crank-nicolson", 12.0, radius=3.0),
    Setting("amounts-ends", "SMH2-local", "walk", 20.0, radius=3.0),
    Setting("custom-ends", "SMH1-local", "walk", 40.0),
    Setting("custom-ends", "SMH2-local", "independent", 37.0, 1.0 + 1e-9),
    Setting("custom-ends", "SMH3-local", "crank-nicolson", 20.0),
]


class Forced(NamedTuple):
    """A kernel with two states to go between, and what the oracle says of it."""

    prepared: object
    ends: np.ndarray
    probability: tuple[float, float]
    looks: tuple[float, float]
    """Expected rows touched by a step in each direction."""
    rate: float


@cache
def force(setting, seed):
    """Choose two states whose acceptance is far from 0 and 1, and whose rows matter."""
    radius = setting.radius if "local" in setting.rule else None
    b = bench(setting.case, setting.rule, setting.proposal, math.inf, radius, setting.sketch)
    rng = np.random.default_rng(seed)
    d, size = b.problem.centre.size, 300 if setting.case in JOINT_ENDS else 1000
    z = np.round(rng.standard_normal((size, d)) * rng.uniform(0.1, 2.5, (size, 1)) * 1024) / 1024
    other = np.round((z + rng.standard_normal((size, d)) * rng.uniform(0.05, 2.0, (size, 1))) * 1024) / 1024
    if setting.near:
        other = z + np.round(rng.standard_normal((size, d)) * 2) / 2**28
    theta, proposed = b.problem.theta(z), b.problem.theta(other)
    forth = oracle.acceptance(b.problem, b.rule, b.proposal, theta, proposed)
    back = oracle.acceptance(b.problem, b.rule, b.proposal, proposed, theta)
    single = [
        np.float64(oracle.intensities(b.problem, b.rule.order, *pair))
        for pair in ((theta, proposed), (proposed, theta))
    ]
    rows = [side.sum(axis=1) for side in single]
    if setting.near:
        return _forced(b, setting, z, other, forth, back, rows, int(np.argmax(rows[0])))
    worst = np.minimum(forth.log(math.inf), back.log(math.inf))
    # The rows' part of the acceptance as large as may be, while both directions are accepted often enough.
    # A rate that is not forced is kept small, so that steps without an event are frequent.
    usable = (worst > math.log(0.2)) & (forth.rate < (setting.rate or 0.9))
    # In turn it is all rows, the first or the last one that matter most.
    most = (slice(None), [0], [-1])[seed % 3]
    score = np.where(usable, sum(side[:, most].sum(axis=1) for side in single), -1.0)
    at = int(np.argmax(score))
    assert score[at] > 0.01
    return _forced(b, setting, z, other, forth, back, rows, at)


def expected_looks(b, theta, other, weight, reading):
    """Rows read in a step that the surrogate accepts.

    Rises come first, then falls, or else whole steps. Looks come at the rate of the kind of event; the step ends with
    the first rejection, and these come at the rate of the intensities.
    """
    intensity = oracle.intensities_by_kind(b.problem, b.rule.order, theta[None], other[None])
    looks, alive = 0.0, 1.0
    for kind, part in enumerate(b.rule.kinds(b.problem, theta, other)):
        if part > 0.0:
            gone = weight * float(intensity[kind].sum())
            looks += alive * reading(kind, part) * (-math.expm1(-gone) / gone if gone else 1.0)
            alive *= math.exp(-gone)
    return looks


def _forced(b, setting, z, other, forth, back, rows, at):
    """Put the pair number `at` in place, with the weights and the bounds that the setting asks for."""
    weight = 0.7 / rows[0][at] if setting.near else 1.0
    target = b.prepared.target
    psi, shares = b.rule.constants(b.problem), np.ones((3, b.problem.n))
    shares[:2] = b.rule.shares(b.problem)
    rate = float(forth.rate[at]) * weight * (target.bound.total / float(psi.sum()))
    inflate = 1.0 if setting.rate is None else setting.rate / rate
    limit = setting.truncation * rate
    prepared = b.prepared
    if setting.sketch:
        prepared = in_bundles_of(prepared, setting.sketch, times=weight * inflate)
        bound = prepared.target.bound._replace(truncation=limit * inflate)
    else:
        bound = target.bound._replace(total=target.bound.total * weight * inflate, truncation=limit * inflate)
    bound = bound._replace(steepest=target.bound.steepest * weight)
    supplied = target.rows._replace(
        psi=target.rows.psi * weight * inflate, weight=np.ascontiguousarray(b.problem.weights * weight)
    )
    prepared = dataclasses.replace(prepared, target=prepared.target._replace(rows=supplied, bound=bound))
    probability, looks = [], []
    points = z[at], other[at]
    for side, total, pair in zip((forth, back), rows, (points, points[::-1]), strict=True):
        first = float(side.factorised[at]) + total[at]
        thinned = rate < limit
        probability.append(math.exp(first - weight * total[at] if thinned else float(side.plain[at])))
        if setting.sketch:
            pieces = bundled_rows(prepared).pieces(b.rule.order, *pair).sum(axis=1)
            reading = lambda kind, part, pieces=pieces: pieces[kind]  # noqa: E731
        else:
            reading = lambda kind, part: part * weight * inflate * float(psi @ shares[kind])  # noqa: E731
        ends = (b.problem.theta(point)[0] for point in pair)
        seen = math.exp(first) * expected_looks(b, *ends, weight, reading)
        looks.append(seen if thinned else float(b.problem.n))
    return Forced(prepared, np.array(points), tuple(probability), tuple(looks), rate * inflate)


def supplied(prepared, batches):
    """Return a kernel with its rows at hand, or with few of them at a time: True, or how to supply them."""
    if not batches:
        return prepared
    return in_batches(prepared) if batches is True else batches(prepared)


def ping_pong(forced, trials, seed, batches=False):
    """Outcomes and rows touched of trials from each end; the proposal is z' = z_0 + z_1 - z."""
    move = forced.prepared.move._replace(keep=-1.0, drift=forced.ends.sum(axis=0), scale=0.0)
    prepared = dataclasses.replace(forced.prepared, move=move)
    driver = Driver(supplied(prepared, batches), stream(seed), forced.ends[0])
    found, number = [[], []], [0, 0]
    here = 0
    while min(number) < trials:
        draws = run(driver, trials // 8)  # few of them are too many
        after = np.where(np.all(draws.z == forced.ends[1], axis=1), 1, 0)
        assert np.all(draws.z == forced.ends[after])
        before = np.concatenate([[here], after[:-1]])
        np.testing.assert_array_equal(draws.accepted, before != after)
        for end in (0, 1):
            at = before == end
            found[end].append(np.column_stack([draws.accepted[at], draws.rows_touched[at]]))
            number[end] += len(found[end][-1])
        here = after[-1]
    assert driver.violations == 0
    return [np.concatenate(side)[:trials] for side in found]


def from_blocks(forced, trials, seed, batches=False):
    """The same, by the path of proposals that do not depend on the state: both ends, in turn."""
    move = forced.prepared.move._replace(keep=0.0)
    prepared = dataclasses.replace(forced.prepared, move=move)
    driver, other = (Driver(supplied(prepared, batches), stream(seed), end) for end in forced.ends)
    ahead, states = driver.state.ahead, (driver.state.numbers[0].copy(), other.state.numbers[0].copy())
    proposed = (np.arange(ahead.values.size) + 1) % 2
    for column, end in enumerate(proposed):
        ahead.noise[:, column] = forced.ends[end]
        ahead.values[column], ahead.distances[column] = states[end]["value"], states[end]["distance"]
    found, number = [[], []], [0, 0]
    here = 0
    while min(number) < trials:
        driver.state.numbers["used"] = 0
        draws = run(driver, proposed.size)
        after = np.where(np.all(draws.z == forced.ends[1], axis=1), 1, 0)
        before = np.concatenate([[here], after[:-1]])
        assert np.all(draws.accepted == (after == proposed))
        for end in (0, 1):
            at = (before == end) & (proposed != end)
            found[end].append(np.column_stack([draws.accepted[at], draws.rows_touched[at]]))
            number[end] += len(found[end][-1])
        here = after[-1]
    assert driver.violations == 0
    return [np.concatenate(side)[:trials] for side in found]


def check(number, trials, seed, batches=None):
    """Compare two directions x two paths with the enumeration; false positives ALPHA / len(SETTINGS)."""
    from scipy import stats

    setting = SETTINGS[number]
    forced = force(setting, seed=number)
    batches = setting.batches if batches is None else batches
    # Requests take their time, and so do rows of several predictors.
    trials = trials // 16 if batches else trials // 3 if setting.case in JOINT_ENDS else trials
    level = ALPHA / len(SETTINGS) / 14  # at most 14 tests below
    signed = []
    for play in (ping_pong, from_blocks):
        for end, outcomes in enumerate(play(forced, trials, seed + number, batches)):
            accepted, rows = outcomes[:, 0].astype(bool), outcomes[:, 1]
            what = f"{setting}, direction {end}, {play.__name__}"
            p = min(forced.probability[end], 1.0)
            count = int(np.count_nonzero(accepted))
            assert stats.binomtest(count, trials, p).pvalue > level, f"{what}: {count} accepted, p = {p}"
            # Rows touched: a z-test of their mean.
            expected = forced.looks[end]
            error = np.std(rows) / math.sqrt(trials)
            excess = np.mean(rows) - expected
            assert abs(excess) <= stats.norm.isf(level / 2) * error, f"{what}: {np.mean(rows)} rows, not {expected}"
            if trials * p * (1.0 - p) < 100.0:
                continue  # the tests below take counts to be normal
            signed.append((count - trials * p) / math.sqrt(trials * p * (1.0 - p)))
            # The clock is carried on, yet a trial's outcome does not depend on the one before.
            table = np.zeros((2, 2))
            np.add.at(table, (accepted[:-1].astype(int), accepted[1:].astype(int)), 1)
            assert stats.chi2_contingency(table, correction=False).pvalue > level, f"{what}: {table}"
    # A small error of one sign everywhere shows in the sum.
    assert not signed or abs(sum(signed)) / math.sqrt(len(signed)) < stats.norm.isf(level / 2)


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_acceptance_frequency(number):
    check(number, 20_000, seed=100)


BATCHED = [number for number, setting in enumerate(SETTINGS) if setting.batches]


@pytest.mark.parametrize("number", BATCHED[:3])
def test_acceptance_frequency_from_reservoirs(number):
    """A supply as of a file, so small that it is refilled hundreds of times."""
    check(number, 20_000, seed=400, batches=in_reservoirs)


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_acceptance_frequency_long(number):
    check(number, 200_000, seed=200)


@pytest.mark.long
@pytest.mark.parametrize("number", BATCHED)
def test_acceptance_frequency_from_reservoirs_long(number):
    check(number, 200_000, seed=500, batches=in_reservoirs)


@pytest.mark.parametrize("number", [0, 5, 10, 15])
def test_acceptance_frequency_with_a_fresh_clock(number):
    from scipy import stats

    trials = 3000
    forced = force(SETTINGS[number], seed=number)
    move = forced.prepared.move._replace(keep=-1.0, drift=forced.ends.sum(axis=0), scale=0.0)
    prepared = dataclasses.replace(forced.prepared, move=move)
    rng = stream(300 + number)
    accepted = 0
    for _ in range(trials):
        accepted += int(run(Driver(prepared, rng, forced.ends[0]), 1).accepted[0])
    # False positives: 1e-6 in all.
    assert stats.binomtest(accepted, trials, forced.probability[0]).pvalue > ALPHA / 4


def test_settings_cover_the_regimes():
    forced = [force(setting, seed=number) for number, setting in enumerate(SETTINGS)]
    rates = np.array([f.rate for f in forced])
    assert np.sum(rates < 1.0) >= 4
    assert np.sum(rates > 100.0) >= 3
    # The first and the last row are drawn often.
    for f in forced:
        psi = f.prepared.target.rows.psi
        assert min(psi[0], psi[-1]) > 0.08 * psi.sum()
