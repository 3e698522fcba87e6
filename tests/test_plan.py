"""The planner: what it chooses, that it keeps its word, and that the same model gets the same plan."""

import json

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.plan.choose import choose


def logistic(n, d, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (rng.random(n) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(float)
    return tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())


@pytest.fixture(scope="module")
def ordinary():
    return logistic(2**14, 8)


def plan_of(tree):
    return json.loads(tree.attrs["plan"])


def test_explain_and_sample_agree(ordinary):
    expected = tb.explain(ordinary, draws=20_000, chains=2)
    tree = tb.sample(ordinary, draws=20_000, chains=2, seed=3, progress=False)
    plan = plan_of(tree)
    assert plan["order"] == expected.order
    assert plan["proposal"] == expected.proposal
    assert plan["predicted_rows_per_draw"] == expected.rows_per_draw
    assert plan["predicted_acceptance"] == expected.acceptance
    # Beside the 25 %, five standard errors of a count in 40,000 draws.
    error = 5.0 * (expected.rows_per_draw / 40_000) ** 0.5
    assert abs(plan["rows_per_draw"] - expected.rows_per_draw) <= 0.25 * expected.rows_per_draw + error
    assert plan["acceptance"] == pytest.approx(expected.acceptance, rel=0.05)
    assert plan["rows_per_draw"] == pytest.approx(float(tree["sample_stats"]["rows_touched"].mean()))


def test_the_same_model_gets_the_same_plan(ordinary):
    assert tb.explain(ordinary) == tb.explain(ordinary)


def test_a_long_run_pays_for_a_longer_set_up():
    model = logistic(200_000, 6)
    assert tb.explain(model, draws=10, chains=1).order == 2
    assert tb.explain(model, draws=10_000_000, chains=1).order == 3


def test_what_the_user_fixed_is_kept(ordinary):
    bound, move = tb.bounds.Local(6.0), tb.proposals.PreconditionedWalk(0.5)
    chosen = choose(ordinary, tb.kernels.ScalableMH(bound=bound, proposal=move, sketch=False), 1000)
    assert chosen.kernel.bound == bound
    assert chosen.kernel.proposal == move
    assert chosen.kernel.sketch is False
    assert chosen.kernel.order in {2, 3}
    chosen = choose(ordinary, tb.kernels.ScalableMH(order=1), 1000)
    assert chosen.kernel.order == 1
    assert chosen.forecasts == []
    chosen = choose(ordinary, tb.kernels.ScalableMH(bound=tb.bounds.Global()), 10**9)
    assert not chosen.kernel.sketch


def test_few_rows_and_many_columns_are_accepted_on_all_rows():
    expected = tb.explain(logistic(600, 25))
    assert expected.full_passes_per_million > 5e5
    assert any("order 2" in text for text in expected.alternatives)


def test_a_posterior_that_leaves_the_ball_gets_a_larger_one(monkeypatch):
    import tallbayes.setup.bounds as bounds

    model = logistic(5_000, 5)
    monkeypatch.setattr(bounds, "default_radius", lambda n, d: 2.0)
    chosen = choose(model, tb.kernels.ScalableMH(order=3), 1000)
    assert chosen.prepared.target.bound.radius > 2.4
    assert chosen.rehearsal.full_per_million < 5e5


def test_skewed_posteriors_get_surrogate_steps():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(20_000), rng.random(20_000) < 0.001])
    y = rng.random(20_000) < 0.2
    rare = X[:, 1] == 1
    y[rare] = False
    y[np.flatnonzero(rare)[:2]] = True
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    assert "SurrogateSteps" in tb.explain(model, tb.kernels.ScalableMH(order=3)).proposal


def test_explanation_prints_a_table(ordinary):
    text = str(tb.explain(ordinary))
    for title in ("rows touched per draw", "acceptance", "full passes per million", "memory", "not taken"):
        assert title in text
    plain = str(tb.explain(ordinary, tb.kernels.MetropolisHastings()))
    assert "MetropolisHastings" in plain
    assert "rows touched per draw" in plain


def test_one_row_is_one_row():
    model = tb.Regression([[1.0]], [1.0], tb.families.Bernoulli())
    assert repr(model).startswith("Regression(1 row x 1 column, ")
    assert "1 row x 1 column" in str(tb.explain(model))
    assert repr(tb.Regression(np.ones((2000, 1)), np.ones(2000), tb.families.Bernoulli())).startswith(
        "Regression(2,000 rows x 1 column, "
    )


def test_user_sees_what_is_wrong_with_the_arguments(ordinary):
    with pytest.raises(tb.errors.InputError, match="explain: model"):
        tb.explain("model")
    with pytest.raises(tb.errors.InputError, match="explain: kernel"):
        tb.explain(ordinary, "kernel")
    with pytest.raises(tb.errors.InputError, match="sketch=True needs local bounds"):
        tb.kernels.ScalableMH(bound=tb.bounds.Global(), sketch=True)


def test_a_walk_is_taken_where_chains_would_stick():
    """Separated rows under a Cauchy prior: the posterior's tail is the prior's, which no expansion shows."""
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Cauchy(0.0, 1.0))
    chosen = tb.explain(model)
    assert (chosen.kernel, chosen.order) == ("MetropolisHastings", None)
    # What the user fixes stays fixed.
    assert tb.explain(model, tb.kernels.ScalableMH()).kernel.startswith("ScalableMH")
