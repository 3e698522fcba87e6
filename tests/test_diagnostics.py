"""What is said of the draws after every run: arviz-stats' numbers, in words, and no false alarms."""

import json
import math
import re
import warnings

import numpy as np
import pytest
import xarray as xr
from scipy.signal import lfilter

import tallbayes as tb
from tallbayes.errors import SlowMixingWarning
from tallbayes.results import diagnostics, stays
from tallbayes.results.diagnostics import (
    CHECKS,
    FEWEST,
    Finding,
    effective_draws_wanted,
    findings,
    judged,
    largest_r_hat,
    warn_of_findings,
)
from tallbayes.results.mixing import Mixing, mixing_of
from tallbayes.results.stays import longest_stays, longest_usual_stay
from tallbayes.run.chain import Chain


def make_tree(draws, accepted=None):
    """Return a tree with these draws; by default there are no statistics of steps."""
    names = [f"x{j}" for j in range(draws.shape[2])]
    beta = xr.DataArray(draws, dims=("chain", "draw", "coefficient"), coords={"coefficient": names})
    groups = {"/posterior": xr.Dataset({"beta": beta})}
    if accepted is not None:
        groups["/sample_stats"] = xr.Dataset({"accepted": (("chain", "draw"), accepted)})
    return xr.DataTree.from_dict(groups)


def independent(shape, seed=0, acceptance=1.0):
    """Return independent draws, where a step that is not accepted repeats the draw before it, and what was accepted."""
    rng = np.random.default_rng(seed)
    draws, accepted = rng.standard_normal(shape), rng.random(shape[:2]) < acceptance
    accepted[:, 0] = True
    last = np.maximum.accumulate(np.where(accepted, np.arange(shape[1]), 0), axis=1)
    return np.take_along_axis(draws, last[:, :, None], axis=1), accepted


def autoregressive(keep, shape, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(shape) * np.sqrt(1.0 - keep**2)
    noise[:, 0] /= np.sqrt(1.0 - keep**2)
    return lfilter([1.0], [1.0, -keep], noise, axis=1)


def walks(draws=100_000, d=2, seed=0):
    return np.cumsum(np.random.default_rng(seed).standard_normal((4, draws, d)), axis=1)


def stuck(steps=991, chain=2, first=501, shape=(4, 2500, 3)):
    """Return independent draws of which one chain stood still, out in a tail of x1, and what was accepted."""
    draws, accepted = independent(shape, acceptance=0.9)
    draws[chain, first - 1] = [0.0, 5.0, 0.0]
    draws[chain, first : first + steps] = draws[chain, first - 1]
    accepted[chain, first - 1] = accepted[chain, first + steps] = True
    accepted[chain, first : first + steps] = False
    draws[chain, first + steps] = 0.1
    return draws, accepted


def arviz(draws):
    """Return bulk ESS, tail ESS and R-hat as arviz-stats has them by default; of one chain it has no R-hat."""
    import arviz_stats  # noqa: F401  registers the .azstats accessor

    beta = make_tree(draws)["posterior"]["beta"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.asarray(v) for v in (beta.azstats.ess(), beta.azstats.ess(method="tail"), beta.azstats.rhat())]


# -- the numbers --


def shapes():
    for chains in (1, 2, 4):
        for length in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 50, 101, 1000):
            yield chains, length, 4


SERIES = {
    "independent": lambda shape: independent(shape)[0],
    "rejections": lambda shape: independent(shape, acceptance=0.4)[0],
    "slow": lambda shape: autoregressive(0.99, shape),
    "antithetic": lambda shape: autoregressive(-0.9, shape),
    "ties": lambda shape: np.random.default_rng(0).integers(0, 3, shape).astype(np.float64),
    "two values": lambda shape: np.random.default_rng(0).choice([-1.0, 1.0], shape),
    "constant": np.ones,
    "chains apart": lambda shape: independent(shape)[0] + 5.0 * np.arange(shape[0])[:, None, None],
}


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES.keys())
def test_numbers_are_those_of_arviz_stats(series):
    for shape in shapes():
        draws = series(shape)
        found, expected = mixing_of(draws), arviz(draws)
        for name, ours, theirs in zip(found._fields, found, expected, strict=False):
            if not (name == "r_hat" and shape[0] == 1):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{name} {shape}")


def test_r_hat_of_one_chain_is_that_of_its_halves():
    from arviz_stats.base import array_stats

    draws = autoregressive(0.95, (1, 600, 3))
    halves = [draws[0].reshape(2, 300, 3)[..., j] for j in range(3)]
    expected = [
        max(array_stats._rhat(array_stats._z_scale(h)), array_stats._rhat(array_stats._z_fold(h))) for h in halves
    ]
    np.testing.assert_allclose(mixing_of(draws).r_hat, expected, rtol=1e-9)


def test_a_huge_result_is_looked_at_through_every_so_many_draws():
    draws = autoregressive(0.5, (4, 10_000, 3))
    found = mixing_of(draws, most=20_000)
    assert (found.every, found.draws) == (6, 1667)
    for ours, theirs in zip(found[:3], arviz(draws[:, ::6]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert mixing_of(draws[:, :1500], most=20).every == 1  # no fewer than a thousand draws of a chain


# -- four walks that never meet --


def test_walks_that_never_meet_are_reported_with_the_numbers_of_arviz_stats():
    draws = walks()
    bulk, tail, r_hat = arviz(draws)
    with pytest.warns(SlowMixingWarning) as caught:
        warn_of_findings(make_tree(draws))
    message = str(caught[0].message)
    j = int(np.argmax(r_hat))
    assert f"Chains disagree: R-hat is {r_hat[j]:.3f} for 'x{j}'" in message
    j = int(np.argmin(np.minimum(bulk, tail)))
    assert f"of 400,000, 'x{j}' has {bulk[j]:,.0f} in the bulk and {tail[j]:,.0f} in the tails" in message
    assert max(bulk[j], tail[j]) < 20.0
    assert "(and too few for 1 more), where 400 are wanted." in message
    assert message.endswith(
        "Draw more, look at tb.explain(model), or give a prior that holds what the data leave open."
    )


def test_numbers_of_a_huge_result_that_are_told_are_from_all_draws(monkeypatch):
    monkeypatch.setattr(diagnostics, "mixing_of", lambda draws, most=8000: mixing_of(draws, most))
    draws = independent((4, 8000, 5))[0]
    draws[..., 3] = autoregressive(0.97, (4, 8000, 1))[..., 0]
    draws[..., 4] += 0.3 * np.arange(4)[:, None]
    bulk, tail, r_hat = arviz(draws)
    told = " ".join(finding.words for finding in findings(make_tree(draws)))
    assert f"R-hat is {r_hat[4]:.3f} for 'x4'" in told
    worst = int(np.argmin(np.minimum(bulk, tail)))
    assert f"'x{worst}' has {bulk[worst]:,.0f} in the bulk and {tail[worst]:,.0f} in the tails" in told
    seen = mixing_of(draws, 8000)
    assert f"{seen.r_hat[4]:.3f}" != f"{r_hat[4]:.3f}"  # or nothing is tested here
    healthy = judged(make_tree(draws[..., :3]))[0]
    assert "effective draws are at least" in healthy


# -- false alarms --


@pytest.mark.parametrize(
    ("d", "runs", "acceptance"),
    [(1, 200, 1.0), (10, 200, 1.0), (1, 100, 0.9), (10, 100, 0.9), (10, 60, 0.5), (300, 3, 0.9)],
)
def test_default_runs_that_are_fine_are_left_alone(d, runs, acceptance):
    """Chance exceeds the limits in less than one of a thousand runs: 1 of these 663, at most."""
    alarms = [
        finding.words
        for seed in range(runs)
        for finding in findings(make_tree(*independent((4, 1000, d), seed, acceptance)))
    ]
    assert len(alarms) <= max(1, runs // 100), alarms


@pytest.mark.long
@pytest.mark.parametrize(("d", "runs", "acceptance"), [(300, 200, 1.0), (300, 200, 0.9), (10, 2000, 0.9)])
def test_default_runs_that_are_fine_are_left_alone_long(d, runs, acceptance):
    test_default_runs_that_are_fine_are_left_alone(d, runs, acceptance)


@pytest.mark.parametrize(("chains", "length"), [(4, 100), (2, 150), (1, 100), (1, 1000), (8, 200)])
def test_short_runs_that_are_fine_are_left_alone(chains, length):
    """R-hat scatters more there, beyond 1.01 in most of these runs."""
    alarms, largest = [], []
    for seed in range(60):
        draws, accepted = independent((chains, length, 10), seed, 0.9)
        largest.append(mixing_of(draws).r_hat.max())
        alarms += findings(make_tree(draws, accepted))
    assert len(alarms) <= 1, alarms
    assert max(largest) > 1.01


def test_runs_shorter_than_a_hundred_draws_are_not_judged():
    for draws in (autoregressive(0.99, (4, 50, 2)), np.zeros((2, FEWEST - 1, 1))):
        assert findings(make_tree(draws)) == []
        sentences, labels = judged(make_tree(draws))
        assert sentences.startswith("Too few draws to say whether they can be trusted")
        assert set(labels) == {"too few draws"}


@pytest.mark.parametrize("shift", [0.25, 0.5, 5.0])
def test_chains_that_disagree_are_found(shift):
    draws = independent((4, 1000, 3))[0]
    draws[..., 1] += shift * np.array([-1.0, 0.0, 0.0, 1.0])[:, None]
    r_hat = arviz(draws)[2]
    first = findings(make_tree(draws))[0]
    assert first.words == f"Chains disagree: R-hat is {r_hat[1]:.3f} for 'x1', where chance explains 1.010."
    assert first.coefficients == ("x1",)


def test_few_effective_draws_alone_are_found():
    draws = autoregressive(0.9, (4, 1000, 1))
    (found,) = findings(make_tree(draws))
    bulk, tail, _ = arviz(draws)
    assert 50.0 < bulk[0] < 400.0
    assert found.words == (
        f"Too few effective draws: of 4,000, 'x0' has {bulk[0]:.0f} in the bulk and {tail[0]:.0f} in the tails, "
        "where 400 are wanted."
    )
    assert re.fullmatch(r"draw about [234] times as many", found.advice[0])
    assert re.search(r"wanted\. Draw about [234] times as many\.$", judged(make_tree(draws))[0])


def test_draw_more_is_not_said_twice():
    """Some effective draws are there, so that it can be said how many more are needed."""
    draws, accepted = stuck(60)
    draws[..., 0] = autoregressive(0.93, (4, 2500, 1))[..., 0]
    sentences, _ = judged(make_tree(draws, accepted))
    assert re.search(r"Draw about \d times as many, or give 'x1' a prior that holds its tail\.$", sentences)


def test_few_effective_draws_in_the_tails_alone_are_found():
    """The size of the draws changes slowly, their sign at once."""
    size = np.exp(1.5 * autoregressive(0.98, (4, 1000, 1)))
    draws = independent((4, 1000, 1))[0] * size
    bulk, tail, _ = arviz(draws)
    assert tail[0] < 400.0 < bulk[0]
    assert any("few effective draws" in finding.label for finding in findings(make_tree(draws)))


def test_what_is_wanted():
    assert effective_draws_wanted(4, 4000) == effective_draws_wanted(1, 4000) == 400.0
    assert effective_draws_wanted(8, 8000) == 800.0
    assert effective_draws_wanted(4, 1000) == 200.0
    assert effective_draws_wanted(2, 300) == 0.0
    # Nearly independent draws of a default run, up to hundreds of coefficients; fewer chains and draws.
    assert np.all(largest_r_hat(4, np.full(300, 450.0)) == 1.01)
    assert 1.01 < largest_r_hat(1, np.full(10, 450.0))[0] < 1.05
    assert 1.03 < largest_r_hat(4, np.full(10, 45.0))[0] < 1.1


def test_chains_that_mix_slowly_need_more_effective_draws():
    draws = autoregressive(0.97, (4, 10_000, 2))  # about 0.015 effective draws per draw
    words = judged(make_tree(draws))[0]
    assert "where 1,600 are wanted of chains that mix so slowly. Draw about" in words
    assert "Nothing speaks against" in judged(make_tree(autoregressive(0.97, (4, 60_000, 2))))[0]
    assert "Nothing speaks against" in judged(make_tree(autoregressive(0.7, (4, 1500, 2))))[0]


def test_one_chain_is_called_a_weaker_check():
    drift = independent((1, 1000, 2))[0] + np.linspace(0.0, 2.0, 1000)[:, None]
    sentences, labels = judged(make_tree(drift))
    assert "The two halves of the chain disagree: R-hat is" in sentences
    assert "a weak check" in sentences
    assert "draw from several chains" in sentences
    assert labels == ["no: halves differ, few effective draws"] * 2
    assert "a weak check" in judged(make_tree(independent((1, 1000, 2))[0]))[0]
    assert "a weak check" not in judged(make_tree(independent((2, 1000, 2))[0]))[0]


# -- stays --


def test_longest_stays():
    chains = ["1001011", "0000000", "1111111", "0011101", "1011000"]
    stays = longest_stays(np.array([[step == "1" for step in chain] for chain in chains]))
    np.testing.assert_array_equal(stays.steps, [2, 7, 0, 2, 3])
    np.testing.assert_array_equal(stays.first, [1, 0, 0, 0, 4])


@pytest.mark.parametrize("at_once", [1, 3, 7, 1000])
def test_longest_stays_across_pieces(at_once, monkeypatch):
    """Stays are found where they lie, however few draws are looked at together; of equal ones the first."""
    rng = np.random.default_rng(at_once)
    accepted = np.array([rng.random(60) < share for share in (0.0, 0.1, 0.5, 0.9, 1.0)])
    whole = longest_stays(accepted)
    for line, steps, first in zip(accepted, *whole, strict=True):
        runs = "".join("1" if moved else "0" for moved in line).split("1")
        assert steps == max(map(len, runs))
        assert steps == 0 or not np.any(line[first : first + steps])
    monkeypatch.setattr(stays, "AT_ONCE", at_once)
    for one, other in zip(longest_stays(accepted), whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_chain_that_stood_still_is_reported():
    draws, accepted = stuck()
    told = findings(make_tree(draws, accepted))[-1]
    assert told.words.startswith("Chain 2 stood still for 991 steps in a row (draws 501 to 1,491), with 'x1' 2")
    assert "Up to 30 steps would be usual" in told.words
    assert "give 'x1' a prior that holds its tail" in told.advice
    assert set(told.coefficients) == {"x0", "x1", "x2"}
    assert told.coefficients[0] == "x1"
    assert np.all(draws[2, 501:1492] == draws[2, 500])
    with pytest.warns(SlowMixingWarning, match="stood still for 991 steps"):
        warn_of_findings(make_tree(draws, accepted))


def test_every_chain_that_stood_still_is_named():
    draws, accepted = stuck()
    accepted[0, 100:200] = False
    draws[0, 100:200] = draws[0, 99]
    assert "; chain 0 for 100. Up to" in findings(make_tree(draws, accepted))[-1].words


def test_a_stay_does_not_excuse_itself():
    """Most of a chain, so that few of its steps are accepted in all."""
    for chains in (1, 4):
        told = findings(make_tree(*stuck(950, chains - 1, 20, (chains, 1000, 3))))
        assert "stood still for 950 steps" in told[-1].words


@pytest.mark.parametrize("acceptance", [0.9, 0.5, 0.2, 0.02])
def test_stays_by_chance_are_left_alone(acceptance):
    longest = []
    for seed in range(50):
        accepted = np.random.default_rng(seed).random((4, 2500)) < acceptance
        longest.append(longest_stays(accepted).steps.max() / longest_usual_stay(accepted))
    assert max(longest) < 1.0


def test_a_short_stay_of_a_long_chain_is_left_alone():
    for steps, long in ((500, False), (1500, True)):
        found = findings(make_tree(*stuck(steps, shape=(4, 100_000, 3))))
        assert any("stood still" in finding.words for finding in found) == long


def test_chains_that_never_moved():
    told = findings(make_tree(np.zeros((2, 200, 1)), np.zeros((2, 200), dtype=bool)))
    assert [finding.words for finding in told] == [
        "All 400 draws of 'x0' are the same.",
        "Not one step was accepted: every chain stayed where it was.",
    ]
    apart = np.ones((2, 200, 2)) * np.arange(2.0)[:, None, None]
    sentences, labels = judged(make_tree(apart, np.zeros((2, 200), dtype=bool)))
    assert "R-hat is more than 100 for 'x0' (and too large for 1 more)" in sentences
    assert labels == ["no: chains differ, few effective draws, a chain stood still"] * 2


def test_one_coefficient_that_never_moved():
    draws = independent((4, 1000, 3))[0]
    draws[..., 1] = 3.0
    sentences, labels = judged(make_tree(draws))
    assert "All 4,000 draws of 'x1' are the same." in sentences
    assert labels == ["yes", "no: never moved", "yes"]


# -- nothing crashes --


@pytest.mark.parametrize("chains", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 10, 99, 100, 101])
@pytest.mark.parametrize("kind", ["independent", "constant", "ties", "rejected"])
def test_very_few_or_odd_draws(chains, length, kind):
    draws, accepted = independent((chains, length, 2), acceptance=0.5)
    if kind == "constant":
        draws[..., 1] = 1e300
    if kind == "ties":
        draws = np.sign(draws)
    if kind == "rejected":
        draws[:], accepted[:] = draws[0, 0], False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sentences, labels = judged(make_tree(draws, accepted))
    assert "nan" not in sentences
    assert len(labels) == 2


# -- runs --


def make_model(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return tb.Regression(X, rng.random(n) < 0.5, tb.families.Bernoulli(), names=["intercept", "a", "b"])


SHORT_STEPS = tb.kernels.MetropolisHastings(tb.proposals.PreconditionedWalk(0.02))


def test_a_run_that_mixes_slowly_is_returned_with_a_warning():
    with pytest.warns(SlowMixingWarning, match="The draws cannot be trusted yet") as caught:
        tree = tb.sample(make_model(), SHORT_STEPS, draws=400, chains=2, seed=1, progress=False)
    assert tree["posterior"]["beta"].shape == (2, 400, 3)
    message = str(caught[0].message)
    assert caught[0].filename == __file__
    bulk, tail, _ = arviz(np.asarray(tree["posterior"]["beta"]))
    names = ["intercept", "a", "b"]
    worst = int(np.argmin(np.minimum(bulk, tail)))
    assert f"{names[worst]!r} has {bulk[worst]:.0f} in the bulk and {tail[worst]:.0f} in the tails" in message
    table = tb.summary(tree)
    assert all(label.startswith("no: ") for label in table["trust"])
    assert table.attrs["trust"] == message
    verdict = tb.verdict(tree)
    assert verdict.startswith(message)
    assert "Whether the Gaussian approximation was enough cannot be said" in verdict


def test_a_run_that_is_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = tb.sample(make_model(), draws=1000, seed=1, progress=False)
    stays = json.loads(tree.attrs["longest_stay"])
    accepted = np.asarray(tree["sample_stats"]["accepted"])
    assert stays == longest_stays(accepted).steps.tolist()
    assert len(stays) == 4
    table = tb.summary(tree)
    assert set(table["trust"]) == {"yes"}
    assert table.attrs["trust"].startswith("Nothing speaks against the draws: R-hat is at most ")
    assert f"for more than {max(stays)} step" in table.attrs["trust"]
    assert f"{table['r_hat'].max():.3f} ({table['r_hat'].idxmax()!r})" in table.attrs["trust"]
    assert f"{table['ess_bulk'].min():,.0f} in the bulk ({table['ess_bulk'].idxmin()!r})" in table.attrs["trust"]
    assert f"{table['ess_tail'].min():,.0f} in the tails ({table['ess_tail'].idxmin()!r})" in table.attrs["trust"]
    assert tb.verdict(tree).endswith(table.attrs["trust"])
    assert f"{table['mean'].iloc[0]:.3f}" in table.round(3).to_string()  # words do not stop rounding


def test_an_interrupted_run_is_judged_by_what_was_drawn(monkeypatch):
    advance, calls = Chain.advance, []

    def interrupted(self):
        advance(self)
        calls.append(self)
        if len(calls) == 21:
            raise KeyboardInterrupt

    monkeypatch.setattr(Chain, "advance", interrupted)
    with pytest.warns(SlowMixingWarning) as caught:
        tree = tb.sample(
            make_model(), SHORT_STEPS, draws=5000, chains=2, warmup=0, seed=1, chunk=50, threads=1, progress=False
        )
    assert tree.attrs["interrupted"] == 1
    kept = tree["posterior"].sizes["draw"]
    assert FEWEST < kept < 5000
    assert f"Too few effective draws: of {2 * kept:,}, " in str(caught[0].message)
    assert len(json.loads(tree.attrs["longest_stay"])) == 2


def test_a_late_interrupt_does_not_lose_the_draws(monkeypatch):
    def interrupted(draws):
        raise KeyboardInterrupt

    monkeypatch.setattr(diagnostics, "mixing_of", interrupted)
    with pytest.warns(SlowMixingWarning, match="Interrupted before the draws were checked"):
        tree = tb.sample(make_model(), draws=200, chains=2, seed=1, progress=False)
    assert tree["posterior"].sizes["draw"] == 200


def test_a_new_check_speaks_everywhere(monkeypatch):
    """The place for further checks, such as of tails."""

    def tails(look):
        return [Finding("The tail of 'a' is missing.", ("merge levels",), ("a",), "tail")]

    monkeypatch.setattr(diagnostics, "CHECKS", [*CHECKS, tails])
    with pytest.warns(SlowMixingWarning, match=r"trusted yet\. The tail of 'a' is missing\. Merge levels\."):
        tree = tb.sample(make_model(), draws=1000, seed=1, progress=False)
    table = tb.summary(tree)
    assert list(table["trust"]) == ["yes", "no: tail", "yes"]
    assert tb.verdict(tree).startswith("The draws cannot be trusted yet. The tail of 'a' is missing.")


# -- skewed coefficients --


def few_events(events, n=5000, seed=0):
    """Return a logistic model of an intercept and a continuous column, with few events: all rows differ."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    y = np.zeros(n)
    y[rng.choice(n, events, replace=False)] = 1.0
    return tb.Regression(X, y, tb.families.Bernoulli(), names=["i", "x"])


def test_few_events_warn_where_rows_are_thinned():
    """By default such a model's steps are accepted on all rows, and nothing speaks against its draws."""
    with pytest.warns(SlowMixingWarning, match="The posterior of 'i' is skewed .*few events or rows speak of it"):
        tree = tb.sample(few_events(3), tb.kernels.ScalableMH(order=3), seed=1, progress=False)
    assert "skewed" in tb.summary(tree).loc["i", "trust"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = tb.sample(few_events(3), seed=1, progress=False)
    assert tb.summary(tree).loc["i", "trust"] == "yes"


def test_many_events_do_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tb.sample(few_events(60), seed=1, progress=False)


USUAL = [0.025, 0.025, 0.0]
"""Shares of draws that are as a table says."""


def gamma_draws(correlation=0.0):
    """Return draws of two coefficients, skewed by -0.6, as of the log of a rate of which three events speak."""
    rng = np.random.default_rng(2)
    a = np.log(rng.gamma(3.0, size=(4, 1000)))
    b = np.log(rng.gamma(3.0, size=(4, 1000)))
    return np.stack([a, correlation * a + (1.0 - correlation) * b], axis=2)


@pytest.mark.parametrize(
    ("attributes", "correlation", "found"),
    [
        ({"plan": {"order": 2, "truncation": 1e9}}, 0.0, True),
        ({"plan": {"order": 3, "truncation": 0.0}}, 0.0, False),  # accepted on all rows
        ({"plan": {"kernel": "MetropolisHastings"}}, 0.0, False),
        (
            {
                "plan": {"order": 2, "truncation": 1e9},
                "tails": dict.fromkeys(("x0", "x1"), USUAL),
            },
            0.0,
            False,
        ),
        (
            {
                "plan": {"order": 2, "truncation": 1e9},
                "tails": dict.fromkeys(("x0", "x1"), USUAL),
            },
            0.8,
            True,
        ),
        ({"plan": {"order": 2, "truncation": 1e9}, "tails": {"x0": USUAL}}, 0.0, True),
    ],
    ids=["thinned", "on all rows", "plain", "tabulated", "tied tables", "one table"],
)
def test_skewed_coefficients_need_a_table_of_their_own(attributes, correlation, found):
    tree = make_tree(gamma_draws(correlation))
    tree.attrs |= {key: json.dumps(value) for key, value in attributes.items()}
    labels = [finding.label for finding in findings(tree)]
    assert labels == (["skewed"] if found else [])


def test_the_advice_names_the_larger_number_of_draws():
    first = Finding("One.", ("draw about 2 times as many",), ("a",), "one")
    second = Finding("Two.", ("draw about 17 times as many", "look"), ("a",), "two")
    assert diagnostics._complaint([first, second]).endswith("Two. Draw about 17 times as many, or look.")


def of_skewness(wanted):
    """Return draws of one coefficient whose skewness is just that."""
    x = np.random.default_rng(3).standard_normal((4, 1000))

    def skewness(c):
        y = x + c * x**2
        return float(np.mean((y - y.mean()) ** 3) / y.std() ** 3)

    low, high = 0.0, 0.5
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if skewness(middle) < wanted else (low, middle)
    return (x + low * x**2)[:, :, None]


@pytest.mark.parametrize(("skewness", "found"), [(0.2985, False), (0.3015, True)])
def test_the_limit_of_skewness_is_sharp(skewness, found):
    tree = make_tree(of_skewness(skewness))
    tree.attrs["plan"] = json.dumps({"order": 2, "truncation": 1e9})
    assert bool(findings(tree)) is found


@pytest.mark.parametrize(
    ("effective", "label", "found"),
    [(1592.0, "few", True), (1608.0, "few", False), (7920.0, "skewed", True), (8080.0, "skewed", False)],
)
def test_how_many_effective_draws_are_wanted_is_sharp(effective, label, found):
    draws = of_skewness(0.6 if label == "skewed" else 0.0)
    number = np.array([effective])
    length = 10_000 if label == "few" else draws.shape[1]  # of 40,000 draws, fewer than a tenth are effective
    look = diagnostics.Look(
        ["a"],
        np.broadcast_to(draws[:, :1], (4, length, 1)) if label == "few" else draws,
        None,
        Mixing(number, number, np.ones(1), number, 1, length),
        {},
        thinned=label == "skewed",
    )
    check = diagnostics._few_effective_draws if label == "few" else diagnostics._skewed
    assert bool(check(look)) is found


@pytest.mark.parametrize(("effective", "found"), [(990.0, True), (1010.0, False)])
def test_a_tenth_of_the_draws_is_slow(effective, found):
    number = np.array([effective])
    draws = np.broadcast_to(of_skewness(0.0)[:, :1], (4, 2500, 1))
    look = diagnostics.Look(["a"], draws, None, Mixing(number, number, np.ones(1), number, 1, 2500), {})
    assert bool(diagnostics._few_effective_draws(look)) is found


@pytest.mark.parametrize(("correlation", "found"), [(0.495, False), (0.505, True)])
def test_tables_of_correlated_coefficients_cover_nothing(correlation, found):
    one, other = (x.ravel() for x in np.moveaxis(gamma_draws(), 2, 0))
    one, other = ((x - x.mean()) / x.std() for x in (one, other))
    other -= one * np.mean(one * other)
    tied = correlation * one + math.sqrt(1.0 - correlation**2) * other / other.std()
    tree = make_tree(np.stack([one, tied], axis=1).reshape(4, 1000, 2))
    tree.attrs["plan"] = json.dumps({"order": 2, "truncation": 1e9})
    tree.attrs["tails"] = json.dumps(dict.fromkeys(("x0", "x1"), USUAL))
    assert bool(findings(tree)) is found
