"""Estimators: scikit-learn's own checks, the same posterior as `tb.sample`, and averages over its draws."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import tallbayes as tb
from tallbayes.estimators.rows import MOST_SORTED, Rows, fits_exactly, weighted_rows

NAMES = tb.estimators.__all__
SKIPPED_BY_SKLEARN = {"check_array_api_input"}
"""Skipped for every estimator unless SCIPY_ARRAY_API is set."""


def made(name, **given):
    return getattr(tb.estimators, name)(**({"random_state": 1, "draws": 250} | given))


@pytest.fixture(scope="module")
def rows():
    """Rows with a response for each kind of estimator."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((400, 2))
    predictor = 0.3 + X @ [1.0, -0.5]
    responses = {
        "BayesianClassifier": np.where(rng.random(400) < expit(predictor), "yes", "no"),
        "BayesianRegressor": predictor + 2.0 * rng.standard_normal(400),
        "RobustRegressor": predictor + 2.0 * rng.standard_t(4, 400),
        "CountRegressor": rng.poisson(np.exp(predictor)),
    }
    return X, responses


@pytest.fixture(scope="module")
def fitted(rows):
    X, responses = rows
    return {name: made(name).fit(X, y) for name, y in responses.items()}


# -- scikit-learn's own checks --


SLOWLY_CHECKED = {"BayesianRegressor", "RobustRegressor"}
"""Half a minute of checks each, through the code that the other two share."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in SLOWLY_CHECKED else ()) for name in NAMES]
)
@pytest.mark.filterwarnings(
    "ignore:CountRegressor. y has fractions",
    "ignore:.*fit every response exactly",
    "ignore::sklearn.exceptions.DataConversionWarning",
)
def test_scikit_learn_accepts_it(name):
    estimator = getattr(tb.estimators, name)(draws=250, chains=2)
    results = check_estimator(estimator, on_skip=None)
    assert len(results) > 50
    assert {each["check_name"] for each in results if each["status"] != "passed"} <= SKIPPED_BY_SKLEARN


# -- the posterior --


def test_many_rows_have_the_draws_of_sample():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((MOST_SORTED + 1, 2))
    y = (rng.random(len(X)) < expit(X[:, 0])).astype(float)
    model = made("BayesianClassifier", link="probit", prior=tb.priors.Normal(0, 1)).fit(X, y)
    design = np.column_stack([np.ones(len(X)), X])
    other = tb.Regression(design, y, tb.families.Bernoulli("probit"), tb.priors.Normal(0, 1))
    tree = tb.sample(other, draws=250, seed=1, progress=False)
    beta = np.asarray(tree["posterior"]["beta"])
    assert np.array_equal(np.asarray(model.tree_["posterior"]["beta"]), beta)
    mean = beta.mean((0, 1))
    assert np.allclose(model.coef_, [mean[1:]])
    assert np.allclose(model.intercept_, mean[:1])


def test_probabilities_are_averages_over_draws(rows, fitted):
    X, _ = rows
    model = fitted["BayesianClassifier"]
    far = 4.0 * X[:20]
    beta = np.asarray(model.tree_["posterior"]["beta"]).reshape(-1, 3)
    each = expit(beta[:, :1] + beta[:, 1:] @ far.T)
    found = model.predict_proba(far)
    assert np.allclose(found[:, 1], each.mean(0), rtol=1e-12)
    assert np.allclose(found.sum(1), 1.0)
    at_the_mean = expit(model.intercept_ + far @ model.coef_[0])
    assert np.max(np.abs(at_the_mean - found[:, 1])) > 1e-3
    assert np.allclose(np.exp(model.predict_log_proba(far)), found)
    assert np.allclose(model.predict_interval(far, probs=[0.1, 0.5]), np.quantile(each, [0.1, 0.5], axis=0).T)
    assert list(model.predict(far)) == list(model.classes_[(found[:, 1] > 0.5).astype(int)])


def test_expected_counts_are_averages_over_draws(rows, fitted):
    X, _ = rows
    model = fitted["CountRegressor"]
    beta = np.asarray(model.tree_["posterior"]["beta"]).reshape(-1, 3)
    each = np.exp(beta[:, :1] + beta[:, 1:] @ X[:9].T)
    assert np.allclose(model.predict(X[:9]), each.mean(0), rtol=1e-12)
    assert np.allclose(model.predict_interval(X[:9], [0.2], kind="expected")[:, 0], np.quantile(each, 0.2, axis=0))


@pytest.mark.parametrize("name", ["BayesianRegressor", "RobustRegressor"])
def test_intervals_of_responses_hold_them(rows, fitted, name):
    """Chance of a false alarm: coverage of 400 rows has a standard deviation of 0.015; four of them, 6e-5."""
    X, responses = rows
    model = fitted[name]
    low, high = model.predict_interval(X).T
    assert abs(np.mean((low < responses[name]) & (responses[name] < high)) - 0.9) < 0.06
    inner = model.predict_interval(X, kind="expected")
    assert np.all((inner[:, 0] > low) & (inner[:, 1] < high))
    beta = np.asarray(model.tree_["posterior"]["beta"]).reshape(-1, 3)
    each = beta[:, :1] + beta[:, 1:] @ X.T
    assert np.allclose(inner, np.quantile(each, [0.05, 0.95], axis=0).T)
    assert np.allclose(model.predict(X), each.mean(0))


@pytest.mark.parametrize("name", ["BayesianRegressor", "RobustRegressor"])
def test_the_scale_is_unknown_unless_given(rows, fitted, name):
    """The scale's posterior has a standard deviation of 0.1; chance of a false alarm about 1e-4."""
    X, responses = rows
    assert abs(fitted[name].scale_ - 2.0) < 0.4
    assert made(name, scale=3.0).fit(X, responses[name]).scale_ == 3.0


@pytest.mark.parametrize("name", ["BayesianRegressor", "RobustRegressor"])
@pytest.mark.parametrize("n", [3, 40, 30_000])
def test_responses_without_noise(name, n):
    """The scale is then what its prior says: about the spread of responses, over the root of the number of rows."""
    X = np.random.default_rng(4).standard_normal((n, 3))
    y = 1.0 + X @ [1.0, 2.0, -1.0]
    with pytest.warns(UserWarning, match=f"{name}. the columns fit every response exactly"):
        model = made(name).fit(X, y)
    assert 0.3 * y.std() / np.sqrt(n) < model.scale_ < 5 * y.std()
    assert np.all(np.abs(model.predict(X) - y) < 5 * model.scale_)
    with pytest.raises(tb.errors.InputError, match="every response with a weight is the same"):
        made(name).fit(X, np.ones(n))


def test_an_exact_fit_of_many_rows_is_seen_in_all_of_them():
    """A level that is rare, so that rows tried first may not have it, does not hide a fit; one row that is off does."""
    x = np.random.default_rng(5).standard_normal((50_000, 2))
    x[:, 1] = 0.0
    x[777, 1] = 1.0
    y = 1.0 + x @ [2.0, 5.0]
    rows = Rows(x, y, None)
    assert fits_exactly(rows, True)
    assert not fits_exactly(rows._replace(X=x[:, :1]), True)
    assert not fits_exactly(rows._replace(y=y + np.where(np.arange(y.size) == 4321, 1e-3, 0.0)), True)
    assert not fits_exactly(rows, False)
    with pytest.raises(tb.errors.NoModeError, match="fit a sample of 20,000 of 50,000 responses exactly"):
        tb.explain(tb.Regression(x[:, :1], 2 * x[:, 0], tb.families.Gaussian()))


def test_the_scale_of_an_exact_fit_is_what_its_prior_leaves():
    """A flat prior of one slope and IG(a, b) of the variance leave IG(a + (n - 1) / 2, b); six Monte Carlo errors."""
    x = np.linspace(-1.0, 1.0, 200)[:, None]
    family = tb.families.Gaussian(scale=tb.priors.InverseGamma(0.5, 0.5))
    tree = tb.sample(tb.Regression(x, 2 * x[:, 0], family, tb.priors.Flat()), seed=1, progress=False)
    precision = np.asarray(tree["posterior"]["scale"]).ravel() ** -2.0
    effective = tb.summary(tree).loc["scale", "ess_bulk"]
    assert effective > 200
    assert abs(precision.mean() - 100 / 0.5) < 6 * (10 / 0.5) / np.sqrt(effective)


def test_rates_are_a_choice():
    X, y = np.ones((3, 1)), np.array([0.5, 1.0, 2.0])
    assert [repr(tb.families.Poisson()), repr(tb.families.Poisson(rates=True))] == [
        "Poisson()",
        "Poisson(rates=True)",
    ]
    with pytest.raises(tb.errors.InputError, match="takes whole numbers, 0 or more"):
        tb.Regression(X, y, tb.families.Poisson())
    model = tb.Regression(X, y, tb.families.Poisson(rates=True))
    with pytest.raises(tb.errors.InputError, match="takes numbers, 0 or more"):
        tb.Regression(X, -y, model.family)
    with pytest.raises(tb.errors.InputError, match="normalising constant"):
        model.family.log_constant(y)


def test_rates_with_exposures_as_weights_are_counts_with_an_offset():
    """Means of 4,000 draws have errors of about sd / 40; six of them."""
    rng = np.random.default_rng(5)
    X, exposure = rng.standard_normal((500, 1)), rng.uniform(0.2, 5.0, 500)
    y = rng.poisson(exposure * np.exp(0.5 + 0.3 * X[:, 0]))
    model = made("CountRegressor", draws=1000).fit(X, y / exposure, sample_weight=exposure)
    design = np.column_stack([np.ones(500), X])
    other = tb.Regression(design, y, tb.families.Poisson(), offset=np.log(exposure))
    beta = np.asarray(tb.sample(other, draws=1000, seed=2, progress=False)["posterior"]["beta"]).reshape(-1, 2)
    found = np.asarray(model.tree_["posterior"]["beta"]).reshape(-1, 2)
    assert np.all(np.abs(found.mean(0) - beta.mean(0)) < 6 * beta.std(0) / 40)
    assert np.allclose(found.std(0), beta.std(0), rtol=0.1)


def test_fractions_that_are_no_counts_are_told():
    X = np.arange(20.0)[:, None]
    with pytest.warns(UserWarning, match="y has fractions"):
        made("CountRegressor").fit(X, X[:, 0] + 0.5)


# -- weights --


def test_equal_rows_are_one_with_a_weight_in_one_order():
    X = np.array([[2, 1], [1, 5], [2, 1], [2, 1], [1, 5]])
    y = np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    weights = np.array([1.0, 2.0, 2.0, 1.0, 0.0])
    found = weighted_rows(X, y, weights)
    assert found.X.tolist() == [[1, 5], [2, 1], [2, 1]]
    assert found.y.tolist() == [1.0, 0.0, 1.0]
    assert found.weights.tolist() == [2.0, 3.0, 1.0]
    order = [3, 0, 2, 1]
    again = weighted_rows(X[order], y[order], weights[order])
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))
    assert weighted_rows(X[:2], y[:2], None).weights is None


def test_many_rows_stay_as_they_are():
    X = np.zeros((MOST_SORTED + 2, 1))
    X[0] = 1.0
    assert weighted_rows(X, X[:, 0], None).X is X
    weights = np.ones(len(X))
    weights[0] = 0.0
    assert len(weighted_rows(X, X[:, 0], weights).X) == MOST_SORTED + 1


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_repetitions(rows, name):
    X, responses = rows
    X, y = X[:60], responses[name][:60]
    weights = np.arange(60) % 4
    weighted = made(name).fit(X, y, sample_weight=weights)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(60), weights))
    assert np.array_equal(weighted.predict(X), made(name).fit(X[order], y[order]).predict(X))
    assert not np.array_equal(weighted.coef_, made(name).fit(X, y).coef_)


# -- with scikit-learn's tools --


def test_in_a_pipeline_with_data_frames(rows):
    X, responses = rows
    frame = pd.DataFrame(
        {"a": X[:, 0], "b": 100 * X[:, 1] + 50, "g": np.array(["u", "v", "w"])[np.arange(400) % 3]}
    )
    steps = make_pipeline(
        make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(sparse_output=False), ["g"])),
        made("BayesianClassifier"),
    )
    y = pd.Series(responses["BayesianClassifier"])
    steps.fit(frame, y)
    assert steps.score(frame, y) > 0.7
    assert steps.predict_proba(frame).shape == (400, 2)
    assert len(cross_val_score(steps, frame, y, cv=3, scoring="roc_auc")) == 3


def test_in_a_grid_search(rows):
    X, responses = rows
    grid = {"prior": [tb.priors.Normal(0, 0.001), tb.priors.Normal(0, 10)], "fit_intercept": [True, False]}
    search = GridSearchCV(made("CountRegressor", draws=50), grid, cv=2).fit(X, responses["CountRegressor"])
    assert search.best_params_ == {"prior": tb.priors.Normal(0, 10), "fit_intercept": True}
    assert search.best_score_ > 0.3


def test_names_of_columns_are_those_of_the_frame(rows):
    X, responses = rows
    frame = pd.DataFrame(X, columns=["width", "height"])
    prior = {"width": tb.priors.Normal(0, 1e-6)}
    model = made("BayesianClassifier", prior=prior).fit(frame, responses["BayesianClassifier"])
    assert list(model.feature_names_in_) == ["width", "height"]
    assert [str(n) for n in model.tree_["posterior"]["coefficient"].values] == ["Intercept", "width", "height"]
    assert abs(model.coef_[0, 0]) < 1e-5
    assert "width" in tb.summary(model.tree_).index
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["height", "width"]])


def test_without_an_intercept(rows):
    X, responses = rows
    model = made("BayesianRegressor", fit_intercept=False, scale=2.0).fit(X, responses["BayesianRegressor"])
    assert model.intercept_ == 0.0
    assert model.tree_["posterior"].sizes["coefficient"] == 2
    assert np.array_equal(model.predict(X), X @ model.coef_)
    exact = np.linalg.solve(X.T @ X, X.T @ responses["BayesianRegressor"])
    assert np.allclose(model.coef_, exact, atol=0.05)


def test_data_are_not_kept():
    rng = np.random.default_rng(0)
    sizes = []
    for n in (100, 50_000):
        X = rng.standard_normal((n, 2))
        model = made("CountRegressor", draws=20).fit(X, rng.poisson(1.0, n))
        sizes.append(len(pickle.dumps(model)))
    assert sizes[1] < sizes[0] + 10_000
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X[:5]), model.predict(X[:5]))


def test_a_random_state_is_a_seed(rows):
    X, responses = rows
    y = responses["CountRegressor"]
    fits = [made("CountRegressor", random_state=np.random.RandomState(4)).fit(X, y).coef_ for _ in range(2)]
    assert np.array_equal(*fits)
    free = clone(made("CountRegressor", random_state=None))
    assert not np.array_equal(free.fit(X, y).coef_, free.fit(X, y).coef_)


def test_three_classes():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((600, 2))
    scores = np.column_stack([np.zeros(600), X @ [2.0, 0.0], X @ [0.0, -2.0]]) + rng.gumbel(size=(600, 3))
    y = np.array(["a", "b", "c"])[np.argmax(scores, axis=1)]
    model = made("BayesianClassifier").fit(X, y)
    assert model.coef_.shape == (3, 2)
    assert not np.any(model.coef_[0])
    assert np.allclose(model.coef_[1:], [[2.0, 0.0], [0.0, -2.0]], atol=0.9)  # five standard deviations
    found = model.predict_proba(X)
    assert found.shape == (600, 3)
    assert np.allclose(found.sum(1), 1.0)
    intervals = model.predict_interval(X[:5])
    assert intervals.shape == (5, 3, 2)
    assert np.all((intervals[:, :, 0] < found[:5]) & (found[:5] < intervals[:, :, 1]))
    assert model.score(X, y) > 0.6
    with pytest.raises(tb.errors.InputError, match="more than two take 'logit'"):
        made("BayesianClassifier", link="probit").fit(X, y)


# -- wrong use --


def test_what_cannot_be_used_is_refused(rows, fitted):
    X, responses = rows
    y = responses["BayesianClassifier"]
    with pytest.raises(TypeError, match="Sparse data was passed"):
        made("BayesianClassifier").fit(sparse.csr_array(X), y)
    with pytest.raises(tb.errors.InputError, match="1 class"):
        made("BayesianClassifier").fit(X, y, sample_weight=(y == "yes").astype(float))
    with pytest.raises(tb.errors.InputError, match=r"sample_weight: row 0 has -1"):
        made("BayesianClassifier").fit(X, y, sample_weight=-np.ones(400))
    with pytest.raises(tb.errors.InputError, match="every weight is zero"):
        made("BayesianClassifier").fit(X, y, sample_weight=np.zeros(400))
    with pytest.raises(tb.errors.InputError, match="takes whole numbers, 0 or more"):
        made("CountRegressor").fit(X, -np.arange(400))
    with pytest.raises(tb.errors.InputError, match="draws=0"):
        made("CountRegressor", draws=0).fit(X, responses["CountRegressor"])
    with pytest.raises(tb.errors.InputError, match="'x7' is not a coefficient"):
        made("CountRegressor", prior={"x7": tb.priors.Flat()}).fit(X, responses["CountRegressor"])
    with pytest.raises(tb.errors.InputError, match="kind: 'linear'"):
        fitted["CountRegressor"].predict_interval(X, kind="linear")
    with pytest.raises(tb.errors.InputError, match="between 0 and 1"):
        fitted["CountRegressor"].predict_interval(X, probs=[5, 95])
    with pytest.raises(tb.errors.InputError, match="predict_interval: probs=90"):
        fitted["BayesianClassifier"].predict_interval(X, probs=90)
    with pytest.raises(NotFittedError):
        made("CountRegressor").predict_interval(X)


def test_scikit_learn_loads_when_an_estimator_is_used():
    script = """
import sys, tallbayes as tb
assert "sklearn" not in sys.modules and "BayesianClassifier" in dir(tb.estimators) and "sklearn" not in sys.modules
tb.estimators.BayesianClassifier
assert "sklearn" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(tb.errors.MissingPackageError, match=re.escape("pip install 'tallbayes[sklearn]'")):
        tb.estimators.BayesianClassifier  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        tb.estimators.Nothing  # noqa: B018


def test_the_documentation_runs(capsys):
    text = (Path(__file__).parents[1] / "docs" / "estimators.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 4
    assert "buys" in capsys.readouterr().out
