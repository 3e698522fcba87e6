"""The quick look at mixing after every run: about right, and a warning when it should be given."""

import warnings

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.errors import SlowMixingWarning
from tallbayes.kernels.mixing import effective_draws
from tallbayes.results.mixing import warn_of_slow_mixing


def autoregressive(keep, chains=4, draws=20_000, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((chains, draws)) * np.sqrt(1.0 - keep**2)
    x = np.empty((chains, draws, 1))
    state = rng.standard_normal(chains)
    for t in range(draws):
        state = keep * state + noise[:, t]
        x[:, t, 0] = state
    return x


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_effective_draws_of_a_known_chain(keep):
    found = effective_draws(autoregressive(keep))[0]
    # 4 x 141 batches: a standard error of 6 %; batches of 141 steps miss a little of the correlation.
    assert found == pytest.approx(80_000 * (1.0 - keep) / (1.0 + keep), rel=0.3)


@pytest.mark.parametrize(
    "draws",
    [
        autoregressive(0.99, draws=1000),
        autoregressive(0.0, draws=1000) + 5.0 * np.arange(4.0)[:, None, None],  # chains that disagree
        np.zeros((2, 200, 1)),  # nothing ever accepted
    ],
)
def test_slow_mixing_is_said(draws):
    with pytest.warns(SlowMixingWarning, match=r"effective draws of [\d,]+ for 'a'"):
        warn_of_slow_mixing(draws, ["a"])


@pytest.mark.parametrize(
    "draws", [autoregressive(0.3, draws=1000), autoregressive(0.3, draws=100), autoregressive(0.99, draws=50)]
)
def test_good_or_short_runs_are_left_alone(draws):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_slow_mixing(draws, ["a"])


def test_a_run_that_mixes_slowly_is_returned_with_a_warning():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(300), rng.standard_normal((300, 2))])
    model = tb.Regression(X, rng.random(300) < 0.5, tb.families.Bernoulli())
    short_steps = tb.kernels.MetropolisHastings(tb.proposals.PreconditionedWalk(0.02))
    with pytest.warns(SlowMixingWarning, match="Chains mixed slowly"):
        tree = tb.sample(model, short_steps, draws=400, chains=2, seed=1, progress=False)
    assert tree["posterior"]["beta"].shape == (2, 400, 3)
