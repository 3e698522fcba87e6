"""Predictions, contrasts, slopes and LOO: against plain NumPy over all rows and draws, and against arviz-stats."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import tallbayes as tb
from tallbayes.errors import InputError
from tallbayes.predictions import arviz, blocks, loo
from tallbayes.predictions.asked import Asked
from tallbayes.sources.base import Block, Source

NAMES = ["one", "a", "z"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(900), rng.standard_normal(900), rng.random(900) < 0.4])
    return X, (rng.random(900) < 1 / (1 + np.exp(-X @ [-1.0, 0.7, 0.9]))).astype(float)


@pytest.fixture(scope="module")
def model(data):
    return tb.Regression(*data, tb.families.Bernoulli(), names=NAMES)


@pytest.fixture(scope="module")
def tree(model):
    return tb.sample(model, draws=200, chains=2, seed=1, progress=False)


@pytest.fixture(scope="module")
def beta(tree):
    return np.asarray(tree["posterior"]["beta"]).reshape(-1, 3)


def expected(beta, X):
    """Return draws x rows."""
    return 1.0 / (1.0 + np.exp(-beta @ X.T))


def assert_describes(line, draws, probs=(0.05, 0.5, 0.95)):
    assert line["estimate"] == pytest.approx(draws.mean(), rel=1e-10)
    assert line["sd"] == pytest.approx(draws.std(ddof=1), rel=1e-8)
    for p in probs:
        assert line[f"{100 * p:g}%"] == pytest.approx(np.quantile(draws, p), rel=1e-10)


class Streamed(Source):
    """Rows that can only be gone through, in blocks of 70."""

    def __init__(self, X, y):
        self.X, self.y, self.names = X, y, NAMES

    @property
    def n(self):
        return len(self.y)

    def blocks(self):
        for first in range(0, self.n, 70):
            rows = slice(first, first + 70)
            yield Block(first, self.X[rows], self.y[rows, None], np.ones(1), np.zeros(1))


# -- predict --


def test_every_row(data, model, tree, beta):
    table, draws = tb.predict(tree, model), expected(beta, data[0])
    assert list(table.columns) == ["row", "estimate", "sd", "5%", "50%", "95%"]
    assert list(table["row"]) == list(range(900))
    for i in (0, 17, 899):
        assert_describes(table.loc[i], draws[:, i])
    linear = tb.predict(tree, model, data[0][:3], kind="linear", probs=[0.5])
    np.testing.assert_allclose(linear["estimate"], (beta @ data[0][:3].T).mean(axis=0))


def test_averages_by_group(data, model, tree, beta):
    X, draws = data[0], expected(beta, data[0])
    whole = tb.predict(tree, model, average=True)
    assert len(whole) == 1
    assert_describes(whole.loc[0], draws.mean(axis=1))
    table = tb.predict(tree, model, by="z", probs=(0.1,))
    assert list(table["z"]) == [0.0, 1.0]
    for k in (0, 1):
        assert_describes(table.loc[k], draws[:, X[:, 2] == k].mean(axis=1), (0.1,))
    both = tb.predict(tree, model, by=["z", "one"])
    assert list(both.columns[:2]) == ["z", "one"]


def test_at_given_values(data, model, tree, beta):
    X = data[0]
    table = tb.predict(tree, model, at={"a": [0.0, 1.0], "z": 1}, average=True)
    assert list(table["a"]) == [0.0, 1.0]
    for k, a in enumerate((0.0, 1.0)):
        changed = X.copy()
        changed[:, 1:] = a, 1.0
        assert_describes(table.loc[k], expected(beta, changed).mean(axis=1))
    rows = tb.predict(tree, model, X[:4], at={"a": [0.0, 1.0]})
    assert list(rows["row"]) == [0, 1, 2, 3] * 2


def test_streamed_rows_and_restored_models_predict_the_same(data, model, tree):
    streamed = tb.Regression(Streamed(*data), None, tb.families.Bernoulli())
    for options in ({}, {"by": "z"}, {"average": True, "at": {"a": 0.3}}):
        here, there = tb.predict(tree, model, **options), tb.predict(tree, streamed, **options)
        np.testing.assert_allclose(here.to_numpy(float), there.to_numpy(float), rtol=1e-12)
        restored = tb.predict(tree, None, data[0], **options)
        np.testing.assert_allclose(here.to_numpy(float), restored.to_numpy(float), rtol=1e-12)


def test_a_loaded_result_predicts(data, model, tree, tmp_path):
    loaded = tb.load(tb.save(tree, tmp_path / "run.nc"))
    found = tb.predict(loaded, new_data=data[0][:5])
    np.testing.assert_array_equal(found, tb.predict(tree, model, data[0][:5]))
    with pytest.raises(InputError, match="the model without its data"):
        tb.predict(loaded)
    del loaded.attrs["model"]
    with pytest.raises(InputError, match="the tree has no model in it"):
        tb.predict(loaded, new_data=data[0])


def test_draws_on_request(data, model, tree, beta):
    draws = tb.predict(tree, model, data[0][:5], as_draws=True)
    assert draws.dims == ("chain", "draw", "row")
    np.testing.assert_allclose(draws.values.reshape(-1, 5), expected(beta, data[0][:5]))
    groups = tb.predict(tree, model, by="z", as_draws=True)
    assert groups.dims == ("chain", "draw", "group")
    assert list(groups["z"].values) == [0.0, 1.0]
    several = tb.predict(tree, model, data[0][:2], at={"a": [0.0, 1.0]}, as_draws=True)
    assert list(several["a"].values) == [0.0, 0.0, 1.0, 1.0]


def test_predictive_responses_have_the_noise_of_the_family(data, model, tree):
    """Binary responses: a mean of 400 draws each; over 900 rows z-scores have variance 1, within 5 standard errors."""
    table, mean = tb.predict(tree, model, kind="predictive"), tb.predict(tree, model)["estimate"]
    assert set(np.unique(table[["5%", "95%"]])) <= {0.0, 1.0}
    z = (table["estimate"] - mean) / np.sqrt(mean * (1.0 - mean) / 400)
    assert abs(z.mean()) < 5.0 / 30.0
    assert abs((z**2).mean() - 1.0) < 5.0 * np.sqrt(2.0 / 900)
    again = tb.predict(tree, model, kind="predictive")
    np.testing.assert_array_equal(table, again)
    assert not np.array_equal(table, tb.predict(tree, model, kind="predictive", seed=1))


def test_draws_are_thinned_evenly(data, model, tree, beta):
    table = tb.predict(tree, model, data[0][:1], draws=20)
    part = np.asarray(tree["posterior"]["beta"])[:, np.linspace(0, 199, 10).round().astype(int)].reshape(-1, 3)
    assert_describes(table.loc[0], expected(part, data[0][:1])[:, 0])


def test_weights_count_in_averages(data):
    X, y = data
    weights = np.arange(900.0) % 4
    model = tb.Regression(X, y, tb.families.Bernoulli(), names=NAMES, weights=weights)
    tree = tb.sample(model, draws=50, chains=2, seed=1, progress=False)
    draws = expected(np.asarray(tree["posterior"]["beta"]).reshape(-1, 3), X)
    assert_describes(tb.predict(tree, model, average=True).loc[0], np.average(draws, axis=1, weights=weights))


def test_trials_of_each_row():
    rng = np.random.default_rng(0)
    X, trials = np.column_stack([np.ones(400), rng.standard_normal(400)]), rng.integers(1, 60, 400)
    y = rng.binomial(trials, 0.3)
    model = tb.Regression(X, y, tb.families.Binomial(trials))
    tree = tb.sample(model, draws=500, chains=2, seed=1, progress=False)
    table = tb.predict(tree, model, kind="predictive")
    np.testing.assert_allclose(table["sd"], np.sqrt(0.3 * 0.7 / trials), rtol=0.25)
    assert tb.predict(tree, model, X[:3])["estimate"].between(0.2, 0.4).all()
    with pytest.raises(InputError, match="made for the model's own rows"):
        tb.predict(tree, model, X[:3], kind="predictive")
    sampled = tb.loo(tree, model, observations=50)
    assert sampled.elpd == pytest.approx(tb.loo(tree, model, observations=400).elpd, rel=0.02)
    # Against scipy, for all trials of a row.
    p = 1.0 / (1.0 + np.exp(-np.asarray(tree["posterior"]["beta"]).reshape(-1, 2) @ X.T))
    found = arviz.with_log_likelihood(tree, model)["log_likelihood"]["y"].values.reshape(-1, 400)
    np.testing.assert_allclose(found, stats.binom.logpmf(y, trials, p), rtol=1e-8)


class Classes(tb.families.Bernoulli):
    """A family of three classes, as far as predictions know it."""

    labels = ("low", "middle", "high")

    def expected(self, eta):
        scores = np.exp(np.array([np.zeros_like(eta[0]), eta[0], 2.0 * eta[0]]))
        return scores / scores.sum(axis=0)


def test_families_of_several_classes(data, model, tree, beta):
    """Each class has its line; probabilities add up to one."""
    several = tb.Regression(*data, tb.families.Bernoulli(), names=NAMES)
    several.family = Classes()
    table = tb.predict(tree, several, data[0][:4])
    assert list(table["outcome"]) == ["low", "middle", "high"] * 4
    np.testing.assert_allclose(table.groupby("row")["estimate"].sum(), 1.0)
    truth = Classes().expected((beta @ data[0][:4].T)[None]).mean(axis=1)
    np.testing.assert_allclose(table["estimate"], truth.T.ravel())
    by = tb.predict(tree, several, by="z")
    assert list(by["outcome"]) == ["low", "middle", "high"] * 2
    compared = tb.comparisons(tree, several, "z")
    np.testing.assert_allclose(compared["estimate"].sum(), 0.0, atol=1e-12)
    assert tb.comparisons(tree, several, "z", as_draws=True).dims == ("chain", "draw", "group", "outcome")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "mean"}, "kind='mean' is not known; use one of 'expected', 'predictive', 'linear'"),
        ({"by": "carrier"}, "predict: by: 'carrier' is not a variable of the model; it has 'one', 'a', 'z'"),
        ({"at": {"carrier": 1}}, "predict: at: 'carrier' is not a variable"),
        ({"at": [1]}, "expected a dictionary"),
        ({"at": {"a": []}}, "at has no value for 'a'"),
        ({"probs": (1.0,)}, "predict: probs="),
        ({"draws": 0}, "draws=0 must be a whole number"),
        ({"seed": -1}, "seed=-1 must be a whole number"),
    ],
)
def test_predictions_that_cannot_be_made(model, tree, options, message):
    with pytest.raises(InputError, match=message):
        tb.predict(tree, model, **options)


def test_other_models_and_too_much(data, model, tree, monkeypatch):
    with pytest.raises(InputError, match="model is a dict; expected a regression"):
        tb.predict(tree, {})
    monkeypatch.setattr("tallbayes.predictions.predict.MOST_NUMBERS", 1000)
    with pytest.raises(InputError, match="360,000 numbers, draws x rows, were asked for"):
        tb.predict(tree, model, as_draws=True)
    monkeypatch.setattr(blocks, "MOST_GROUPS", 10)
    streamed = tb.Regression(Streamed(*data), None, tb.families.Bernoulli())
    with pytest.raises(InputError, match="more than 10 groups"):
        tb.predict(tree, streamed, by="a")
    with pytest.raises(InputError, match="the tree has no draws"):
        tb.predict(xr.DataTree.from_dict({"/posterior": tree["posterior"].to_dataset().isel(draw=slice(0))}), model)


def test_memory_does_not_grow_with_rows_and_draws(data, model, tree):
    """No array of a pass is larger than a tile, whatever the number of rows."""
    sizes = []

    class Watched(tb.families.Bernoulli):
        def expected(self, eta):
            sizes.append(eta.size)
            return super().expected(eta)

    beta = np.repeat(np.asarray(tree["posterior"]["beta"]).reshape(-1, 3), 10, axis=0)
    asked = Asked(Watched(), model.predictors, beta)
    source = tb.Regression(np.tile(data[0], (20, 1)), np.tile(data[1], 20), tb.families.Bernoulli()).rows_of()
    assert source.reduce(blocks.lines, asked, (0.5,)).whole.shape == (18_000, 1, 3)
    source.reduce(blocks.sums, asked, 0)
    assert max(sizes) <= blocks.TILE


@pytest.mark.parametrize("size", [1, 2, 3, 500, 4001])
def test_quantiles_are_those_of_numpy(size):
    rng = np.random.default_rng(size)
    probs = (0.001, 0.05, 0.5, 0.95)
    kinds = [
        rng.standard_normal((2, size, 5)),
        rng.standard_cauchy((1, size, 4)) ** 3,
        np.ones((1, size, 2)),
        (rng.random((1, size, 3)) < 0.4).astype(float),
        np.exp(100.0 * rng.standard_normal((1, size, 3))),
    ]
    for values in kinds:
        found = blocks.described(values, probs)
        truth = np.quantile(values, probs, axis=1)
        np.testing.assert_allclose(found[..., 2:], np.moveaxis(truth, (0, 1, 2), (2, 1, 0)), rtol=1e-9)
        np.testing.assert_allclose(found[..., 0], values.mean(axis=1).T, rtol=1e-9)


def test_quantiles_beside_infinities():
    found = blocks.described(np.array([[1.0, 2.0, 3.0, np.inf, np.inf]])[:, :, None], (0.25, 0.5, 0.8))
    np.testing.assert_array_equal(found[0, 0, 2:], [2.0, 3.0, np.inf])


# -- comparisons and slopes --


def test_contrasts_of_two_values(data, model, tree, beta):
    X = data[0]
    low, high = X.copy(), X.copy()
    low[:, 2], high[:, 2] = 0.0, 1.0
    a, b = expected(beta, low), expected(beta, high)
    table = tb.comparisons(tree, model, "z")
    assert list(table[["variable", "contrast"]].loc[0]) == ["z", "1 - 0"]
    assert_describes(table.loc[0], (b - a).mean(axis=1))
    ratio = tb.comparisons(tree, model, "z", comparison="ratio")
    assert ratio.loc[0, "contrast"] == "1 / 0"
    assert_describes(ratio.loc[0], b.mean(axis=1) / a.mean(axis=1))
    by = tb.comparisons(tree, model, "z", by="z")
    assert_describes(by.loc[1], (b - a)[:, X[:, 2] == 1].mean(axis=1))
    rows = tb.comparisons(tree, model, "z", average=False, comparison="ratio")
    assert_describes(rows.loc[7], (b / a)[:, 7])
    draws = tb.comparisons(tree, model, "z", average=False, as_draws=True)
    np.testing.assert_allclose(draws.values.reshape(-1, 900), b - a, atol=1e-12)


@pytest.mark.parametrize(
    ("wish", "low", "high", "label"),
    [
        ("a", lambda x: x, lambda x: x + 1.0, "+1"),
        ({"a": 2.5}, lambda x: x, lambda x: x + 2.5, "+2.5"),
        ({"a": (-1, 1)}, lambda x: 0 * x - 1.0, lambda x: 0 * x + 1.0, "1 - -1"),
        ({"a": "sd"}, lambda x: x - 0.5 * x.std(), lambda x: x + 0.5 * x.std(), "+1 sd"),
    ],
)
def test_contrasts_of_numbers(data, model, tree, beta, wish, low, high, label):
    X = data[0]
    ends = []
    for end in (low, high):
        changed = X.copy()
        changed[:, 1] = end(X[:, 1])
        ends.append(expected(beta, changed).mean(axis=1))
    table = tb.comparisons(tree, model, wish)
    assert table.loc[0, "contrast"] == label
    assert_describes(table.loc[0], ends[1] - ends[0])


def test_quartiles(data, model, tree):
    table = tb.comparisons(tree, model, {"a": "iqr"})
    low, high = np.quantile(data[0][:, 1], [0.25, 0.75])
    pair = tb.comparisons(tree, model, {"a": (low, high)})
    assert table.loc[0, "estimate"] == pytest.approx(pair.loc[0, "estimate"], rel=0.05)


def test_slopes_are_derivatives(data, model, tree, beta):
    X = data[0]
    p = expected(beta, X)
    slope = p * (1.0 - p) * beta[:, 1:2]
    table = tb.slopes(tree, model, "a")
    assert table.loc[0, "estimate"] == pytest.approx(slope.mean(), rel=1e-7)
    assert table.loc[0, "95%"] == pytest.approx(np.quantile(slope.mean(axis=1), 0.95), rel=1e-7)
    rows = tb.slopes(tree, model, "a", average=False)
    np.testing.assert_allclose(rows["estimate"], slope.mean(axis=0), rtol=1e-6)
    there = tb.slopes(tree, model, "a", at={"a": [0.0, 2.0]})
    changed = X.copy()
    changed[:, 1] = 2.0
    p = expected(beta, changed)
    assert there.loc[1, "estimate"] == pytest.approx((p * (1.0 - p) * beta[:, 1:2]).mean(), rel=1e-7)
    assert list(tb.slopes(tree, model, "a", by="z")["z"]) == [0.0, 1.0]


def test_restored_models_compare(data, tree, model):
    here = tb.comparisons(tree, model, "z")
    there = tb.comparisons(tree, None, "z", new_data=data[0])
    np.testing.assert_allclose(here["estimate"], there["estimate"], rtol=1e-12)


@pytest.mark.parametrize(
    ("variable", "options", "message"),
    [
        ("carrier", {}, "comparisons: 'carrier' is not a variable"),
        ({"a": 1, "z": 1}, {}, "a dictionary with one entry"),
        ({"a": "much"}, {}, "expected two numbers, a step, 'sd' or 'iqr'"),
        ({"a": (1, 2, 3)}, {}, "expected two numbers"),
        ("a", {"comparison": "product"}, "comparison='product' is not known"),
        ("z", {"at": {"z": 1}}, "at has a value for 'z', whose values are compared"),
    ],
)
def test_comparisons_that_cannot_be_made(model, tree, variable, options, message):
    with pytest.raises(InputError, match=message):
        tb.comparisons(tree, model, variable, **options)


def test_slopes_that_cannot_be_found(model, tree):
    with pytest.raises(InputError, match="expected the name of one variable"):
        tb.slopes(tree, model, {"a": 1})
    with pytest.raises(InputError, match="slopes: 'b' is not a variable"):
        tb.slopes(tree, model, "b")


# -- rows of a formula --


def made(formula, frame, family, **options):
    model = tb.glm(formula, frame, family, **options)
    return model, tb.sample(model, draws=100, chains=2, seed=1, progress=False)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(8)
    x = rng.standard_normal(400)
    trials = rng.integers(1, 60, 400)
    return pd.DataFrame(
        {
            "x": x,
            "flag": x > 0.3,
            "low": x < -0.5,
            "trials": trials,
            "w": rng.integers(0, 5, 400),
            "s": rng.binomial(trials, np.where(x > 0.0, 0.5, 0.3)),
            "y": x + rng.standard_normal(400),
        }
    )


@pytest.fixture(scope="module")
def shares(frame):
    return made("p(s, trials) ~ x", frame, tb.families.Binomial())


@pytest.fixture(scope="module")
def weighted(frame):
    return made("y ~ x", frame, tb.families.Gaussian(), weights="w")


@pytest.mark.parametrize("stream", [False, True])
def test_rows_have_the_numbers_of_the_data(frame, stream):
    """Whatever was dropped."""
    holes = frame.assign(x=frame["x"].where(~frame.index.isin([0, 3, 399])))
    model, tree = made("y ~ x", holes, tb.families.Gaussian(), missing="drop", stream=stream)
    kept = [i for i in range(400) if i not in {0, 3, 399}]
    expected = tb.predict(tree, model, frame.iloc[kept])["estimate"]
    for found in (tb.predict(tree, model), tb.predict(tree, model, at={"x": [0.0, 1.0]}).iloc[:397]):
        assert list(found["row"]) == kept
    np.testing.assert_allclose(tb.predict(tree, model)["estimate"], expected)
    assert list(tb.predict(tree, model, as_draws=True)["row"].values) == kept
    assert list(tb.slopes(tree, model, "x", average=False)["row"]) == kept
    drawn = tb.comparisons(tree, model, {"x": (0, 1)}, average=False, as_draws=True)
    assert list(drawn["row_number"].values) == kept


def test_rows_that_were_put_together_are_predicted_one_by_one():
    """Also after others were dropped; each draws a response of its own, with its own trials."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"g": rng.choice(["a", "b", "c"], 2000), "t": rng.choice([1, 50], 2000)})
    data["s"] = np.where(data["g"] == "a", 0, data["t"])
    data.loc[[0, 7], "g"] = None
    kept = np.delete(np.arange(2000), [0, 7])
    model, tree = made("p(s, t) ~ g", data, tb.families.Binomial(), missing="drop")
    assert model.n == 6
    found = tb.predict(tree, model)
    np.testing.assert_array_equal(found["row"], kept)
    expected = tb.predict(tree, None, data.iloc[kept])
    np.testing.assert_allclose(found["estimate"], expected["estimate"], rtol=1e-12)
    drawn = tb.predict(tree, model, kind="predictive", as_draws=True).values.reshape(-1, kept.size)
    assert not np.array_equal(drawn[:, 0], drawn[:, 1])
    trials = data["t"].to_numpy()[kept]
    np.testing.assert_allclose(drawn * trials, np.round(drawn * trials), atol=1e-9)
    assert set(np.unique(drawn[:, trials == 1])) <= {0.0, 1.0}
    set_to = tb.predict(tree, model, at={"g": "b"})
    np.testing.assert_allclose(set_to["estimate"], found["estimate"][data["g"].to_numpy()[kept] == "b"].iloc[0])


def test_responses_of_new_rows_have_their_own_trials(frame, shares):
    """Shares of a thousand trials vary little; those of one trial are 0 or 1."""
    model, tree = shares
    for given in (model, None):
        new = frame.head(200).assign(trials=np.repeat([1, 10_000], 100))
        found = tb.predict(tree, given, new, kind="predictive")
        assert set(np.unique(found["5%"][:100])) <= {0.0, 1.0}
        assert found["sd"][100:].max() < 0.05
        by = tb.predict(tree, given, new, kind="predictive", by="flag")
        assert list(by["flag"]) == [False, True]
        with pytest.raises(InputError, match=r"no column 'trials', .* predict kind='expected'"):
            tb.predict(tree, given, new.drop(columns="trials"), kind="predictive")
        assert len(tb.predict(tree, given, new.drop(columns="trials"))) == 200


def test_one_number_of_trials_in_a_formula(frame):
    model, tree = made("p(s, 100) ~ x", frame, tb.families.Binomial())
    for given in (model, None):
        found = tb.predict(tree, given, frame, kind="predictive", as_draws=True).values
        np.testing.assert_allclose(100.0 * found, np.round(100.0 * found), atol=1e-9)
        assert np.unique(found).size > 20


def test_trials_that_a_result_does_not_keep(frame):
    """Those of arrays: without the model they are refused as well."""
    X = np.column_stack([np.ones(400), frame["x"]])
    model = tb.Regression(X, frame["s"].to_numpy(), tb.families.Binomial(frame["trials"].to_numpy()))
    tree = tb.sample(model, draws=50, chains=2, seed=1, progress=False)
    by_formula = made("s ~ x", frame, tb.families.Binomial(frame["trials"].to_numpy()))
    for given, its, new in ((model, tree, X), (None, tree, X), (*by_formula, frame), (None, by_formula[1], frame)):
        with pytest.raises(InputError, match="made for the model's own rows"):
            tb.predict(its, given, new, kind="predictive")


@pytest.mark.parametrize("options", [{"average": True}, {"by": "flag"}, {"average": True, "at": {"x": [0.0, 1.0]}}])
@pytest.mark.parametrize("kind", ["trials", "weights"])
def test_averages_of_the_same_rows_agree(frame, shares, weighted, options, kind):
    """However the rows are given: of the model, as new data, from the result alone."""
    model, tree = shares if kind == "trials" else weighted
    if options == {"by": "flag"}:
        model, tree = made(
            f"{model.formula} + flag", frame, model.family.of_rows(0), weights=model.recipe.weights and "w"
        )
    column = kind if kind == "trials" else "w"
    own = tb.predict(tree, model, **options)
    for given in (model, None):
        np.testing.assert_allclose(
            tb.predict(tree, given, frame, **options)["estimate"], own["estimate"], rtol=1e-10
        )
        without = tb.predict(tree, given, frame.drop(columns=column), **options)
        once = tb.predict(tree, given, frame.assign(**{column: 1}), **options)
        np.testing.assert_allclose(without["estimate"], once["estimate"], rtol=1e-12)
    if options == {"average": True}:
        every = tb.predict(tree, model)["estimate"]
        assert own["estimate"][0] == pytest.approx(np.average(every, weights=frame[column]), rel=1e-10)
        np.testing.assert_allclose(
            tb.comparisons(tree, model, {"x": 0.5})["estimate"],
            tb.comparisons(tree, None, {"x": 0.5}, new_data=frame)["estimate"],
            rtol=1e-9,
        )


def test_new_rows_of_a_model_with_weights(frame, weighted):
    model, tree = weighted
    found = tb.predict(tree, model, frame.head(2).assign(w=[np.nan, 1.0]))  # not needed row by row
    np.testing.assert_allclose(found["estimate"], tb.predict(tree, model)["estimate"][:2])
    assert len(tb.comparisons(tree, model, "x", new_data=frame.head(2))) == 1
    with pytest.raises(InputError, match=r"values are missing in 1 of 2 rows \(column 'w' in 1\)"):
        tb.predict(tree, model, frame.head(2).assign(w=[np.nan, 1.0]), average=True)
    with pytest.raises(InputError, match="every row has weight 0, or no trials"):
        tb.predict(tree, model, frame.assign(w=0.0), average=True)


def test_groups_of_columns_that_the_formula_does_not_have(frame, weighted):
    model, tree = weighted
    new = frame.assign(place=np.where(frame["x"] > 1.0, "north", "south"), year=2020 + (frame["s"] > 5))
    for given in (model, None):
        found = tb.predict(tree, given, new, by=["place", "flag", "year"])
        assert set(found["place"]) == {"north", "south"}
        assert set(found["flag"]) == {False, True}
        assert set(found["year"]) == {2020.0, 2021.0}
        line = found.iloc[0]
        rows = (new["place"] == line["place"]) & (new["flag"] == line["flag"]) & (new["year"] == line["year"])
        expected = np.average(tb.predict(tree, given, new[rows])["estimate"], weights=new["w"][rows])
        assert line["estimate"] == pytest.approx(expected, rel=1e-10)
        assert list(tb.comparisons(tree, given, "x", new_data=new, by="place")["place"]) == ["north", "south"]
        with pytest.raises(InputError, match="by: 'zone' is not a variable of the model"):
            tb.predict(tree, given, new, by="zone")
    with pytest.raises(InputError, match="by: 'place' is not a variable of the model"):
        tb.predict(tree, model, by="place")


def test_groups_of_levels_that_the_model_has_not_seen(frame):
    """Where the formula takes them, or they are set to others, they have their own names."""
    data = frame.assign(g=np.where(frame["x"] > 0.0, "a", "b"), k=frame["w"])
    model, tree = made("y ~ I(g == 'a') + C(k)", data, tb.families.Gaussian())
    new = data.head(10).assign(g=["b", "zz"] * 5)
    found = tb.predict(tree, model, new, by="g")
    assert list(found["g"]) == ["b", "zz"]
    assert list(tb.predict(tree, model, data, by="g")["g"]) == ["a", "b"]
    with pytest.raises(InputError, match="by: 'k' has levels that the model has not seen; it knows 0, 1"):
        tb.predict(tree, model, new.assign(k=99), by="k", at={"k": 1})


def test_booleans_are_false_and_true(frame):
    model, tree = made("y ~ flag + C(low)", frame, tb.families.Gaussian())
    for given, new in ((model, None), (model, frame), (None, frame)):
        both = tb.predict(tree, given, new, by=["flag", "low"])
        assert [tuple(line) for line in both[["flag", "low"]].to_numpy()] == [
            (False, False),
            (False, True),
            (True, False),
        ]
        at = tb.predict(tree, given, new, at={"flag": [0, True]}, average=True)
        assert list(at["flag"]) == [False, True]
        np.testing.assert_allclose(
            np.diff(at["estimate"]), tb.comparisons(tree, given, "flag", new_data=new)["estimate"]
        )
        for name in ("flag", "low"):
            for wish in (name, {name: (False, True)}, {name: (np.False_, np.True_)}, {name: (0, 1)}):
                assert list(tb.comparisons(tree, given, wish, new_data=new)["contrast"]) == ["True - False"]


def test_levels_that_are_set_and_not_known(frame):
    data = frame.assign(g=np.where(frame["x"] > 0.0, "a", "b"))
    model, tree = made("y ~ g + C(w)", data, tb.families.Gaussian())
    for at, message in (
        ({"g": "zz"}, "setting: 'g' is set to 'zz', a level of 'g' that the model has not seen; it knows 'a', 'b'"),
        ({"w": 9}, r"'w' is set to 9, a level of 'C\(w\)' that the model has not seen; it knows 0, 1, 2, 3, 4"),
    ):
        with pytest.raises(InputError, match=message):
            tb.predict(tree, model, at=at, average=True)
        with pytest.raises(InputError, match=message):
            tb.predict(tree, None, data, at=at)


# -- LOO --


def test_loo_of_a_sample_is_that_of_arviz_stats(model, tree):
    from arviz_stats import loo, loo_subsample

    whole = arviz.with_log_likelihood(tree, model)
    theirs = loo(whole, pointwise=True)
    every = tb.loo(tree, model, observations=10_000)
    assert every.elpd == pytest.approx(theirs.elpd, abs=0.05)
    assert every.subsampling_se == 0.0
    sampled = tb.loo(tree, model, observations=200, seed=3)
    assert abs(sampled.elpd - theirs.elpd) < 5.0 * sampled.subsampling_se + 0.05
    chosen = sampled.loo_subsample_observations
    assert len(set(chosen.tolist())) == 200
    same = loo_subsample(whole, chosen, var_name="y", method="lpd", pointwise=True)
    np.testing.assert_allclose(sampled.elpd_i.values[chosen], same.elpd_i.values[chosen], rtol=1e-3)


def test_the_better_model_comes_first(data, model, tree):
    X, y = data
    less = tb.Regression(X[:, :1], y, tb.families.Bernoulli(), names=["one"])
    other = tb.sample(less, draws=200, chains=2, seed=1, progress=False)
    table = tb.compare({"less": tb.loo(other, less), "more": tb.loo(tree, model)})
    assert list(table.index) == ["more", "less"]
    assert table.loc["less", "elpd_diff"] > 10.0


def test_models_of_other_responses_are_not_compared(frame):
    """Blocks of rows may differ; responses may not, nor their order."""
    gaussian = tb.families.Gaussian(scale=1.0)
    models = {
        "one": tb.glm("y ~ x", frame, gaussian),
        "two": tb.glm("y ~ x + flag", frame, gaussian, stream=True),
        "shifted": tb.glm("I(y + 1.0) ~ x", frame, gaussian),
        "turned": tb.glm("y ~ x", frame[::-1], gaussian),
    }
    found = {
        name: tb.loo(tb.sample(model, draws=500, chains=2, seed=1, progress=False), model, observations=50)
        for name, model in models.items()
    }
    assert len(tb.compare({"one": found["one"], "two": found["two"]})) == 2
    with pytest.raises(
        InputError, match="compare: the responses of 'shifted', 'turned' differ from those of 'one'"
    ):
        tb.compare(found)


def test_the_checksum_of_responses_is_that_of_any_blocks(data):
    X, y = data
    whole = loo.checksum_of_responses(Block(0, X, y[:, None], np.ones(1), np.zeros(1)))
    streamed = Streamed(X, y).reduce(loo.checksum_of_responses)
    each = Block(0, X, -0.0 + y[:, None], np.ones(900), np.zeros(1))
    assert whole == streamed == loo.checksum_of_responses(each)
    other = y.copy()
    other[[3, 4]] = 0.25, 0.75
    swapped = other.copy()
    swapped[[3, 4]] = 0.75, 0.25
    found = {
        int(loo.checksum_of_responses(Block(0, X, each[:, None], weight, np.zeros(1)))[0])
        for each in (y, other, swapped)
        for weight in (np.ones(1), np.full(1, 2.0))
    }
    assert len(found) == 6


def test_loo_that_cannot_be_found(data, model, tree):
    X, y = data
    with pytest.raises(InputError, match="expected the regression that the result was drawn from"):
        tb.loo(tree, None)
    with pytest.raises(InputError, match="observations=1 must be a whole number, 2 or more"):
        tb.loo(tree, model, observations=1)
    weighted = tb.Regression(X, y, tb.families.Bernoulli(), names=NAMES, weights=np.full(900, 2.0))
    with pytest.raises(InputError, match="row 0 has a frequency weight of 2"):
        tb.loo(tree, weighted)
    with pytest.raises(InputError, match="a dictionary of two models or more"):
        tb.compare({"a": 1})
    with pytest.raises(InputError, match=r"'b' is a int; expected what tb\.loo returned"):
        tb.compare({"a": tb.loo(tree, model), "b": 1})
