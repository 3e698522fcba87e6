"""Families with several predictors in predictions, formulas, files and streams."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tallbayes as tb
from tallbayes.families.structure import Line
from tallbayes.models.predictors import Several
from tallbayes.predictions.density import Likelihood, log_likelihood
from tallbayes.results.draws import named_draws, parameter_draws, theta_draws
from tallbayes.setup.bounds import Local
from tallbayes.setup.setup import setup_of
from tallbayes.sources.base import Block

F = tb.families
N = 400
COLUMNS = ["one", "a", "b"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal(N), rng.integers(0, 2, N).astype(np.float64)
    location = 1.0 + 0.5 * a - 0.4 * b
    scores = np.stack([np.zeros(N), 0.3 + 0.7 * a, -0.2 - 0.5 * a + b])
    counts = rng.poisson(np.exp(0.5 * location))
    return pd.DataFrame(
        {
            "one": np.ones(N),
            "a": a,
            "b": b,
            "g": np.array(["u", "v", "w"])[rng.integers(0, 3, N)],
            "y": location + np.exp(0.3 + 0.2 * a) * rng.standard_t(5, N),
            "c": np.argmax(scores + rng.gumbel(size=scores.shape), axis=0).astype(np.float64),
            "o": np.searchsorted([-1.0, 0.2, 1.3], 0.6 * a + rng.logistic(size=N)).astype(np.float64),
            "k": np.where(rng.random(N) < 0.3, 0, counts).astype(np.float64),
            "p": np.exp(location) * rng.gamma(2.0, 0.5, N),
        }
    )


CASES = {
    "student": ("y", COLUMNS, [], F.StudentT(5)),
    "spread": ("y", COLUMNS, ["one", "a"], F.Gaussian()),
    "classes": ("c", COLUMNS, [], F.Categorical(["x", "y", "z"])),
    "levels": ("o", COLUMNS[1:], [], F.Ordinal(4)),
    "probit levels": ("o", COLUMNS[1:], [], F.Ordinal(4, "probit")),
    "zeros": ("k", COLUMNS, [], F.ZeroInflatedPoisson()),
    "hurdle": ("k", COLUMNS, ["one", "a"], F.HurdlePoisson()),
    "size": ("k", COLUMNS, [], F.NegativeBinomial()),
    "shape": ("p", COLUMNS, [], F.Gamma()),
}


def regression(frame, name):
    response, columns, scale, family = CASES[name]
    further = {"scale_design": frame[scale]} if scale else {}
    return tb.Regression(frame[columns], frame[response], family, **further)


def streamed(frame, name):
    import pyarrow as pa

    response, columns, scale, family = CASES[name]
    return tb.Regression(pa.Table.from_pandas(frame), response, family, design=columns, scale_design=scale or None)


@pytest.fixture(scope="module")
def runs(frame):
    """A model and its draws, by name, made when first asked for."""
    kept = {}

    def run(name):
        if name not in kept:
            model = regression(frame, name)
            kept[name] = model, tb.sample(model, draws=120, chains=2, seed=3, progress=False)
        return kept[name]

    return run


@pytest.mark.parametrize("name", CASES)
def test_draws_are_like_what_is_expected(name):
    """At fixed predictors; false alarms: 1e-6 of runs for each of some twenty means."""
    family = CASES[name][3]
    lines = family.predicting(["x"], ["z"] if CASES[name][2] else [])
    eta = np.sort(np.random.default_rng(0).standard_normal((len(lines), 3)), axis=0)
    drawn = family.draw(np.random.default_rng(1), np.repeat(eta[:, :, None], 40_000, axis=2))
    expected = family.expected(eta)
    found = drawn[None]
    if family.labels is not None:
        found = drawn == np.arange(len(family.labels))[:, None, None]
        np.testing.assert_allclose(expected.sum(axis=0), 1.0)
    error = found.std(axis=-1) / np.sqrt(drawn.shape[-1])
    assert np.all(np.abs(found.mean(axis=-1) - expected) < 5.0 * error + 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_likelihoods_are_densities(name, frame, runs):
    """One row with all responses it may have: probabilities, or densities, add up to one."""
    model, tree = runs(name)
    theta = parameter_draws(tree, model).reshape(-1, model.d)[:2]
    block = next(iter(model.source.blocks())).converted()
    labels = model.family.labels
    real = CASES[name][0] in "yp"
    if real:
        y = np.linspace(-1500.0, 1500.0, 150_001) if CASES[name][0] == "y" else np.exp(np.linspace(-40, 9, 60_001))
    else:
        y = np.arange(150.0 if labels is None else float(len(labels)))
    rows = Block(0, np.repeat(block.X[:1], y.size, axis=0), y[:, None], np.ones(1), np.zeros(1))
    found = np.exp(log_likelihood(rows, Likelihood(model.family, model.rows, model.predictors), theta))
    total = np.trapezoid(found, y, axis=1) if real else found.sum(axis=1)
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)


def test_predictors_at_many_points():
    rng = np.random.default_rng(2)
    by_response = {"own": 4, "own_count": 2, "by_response": 1}
    lines = (
        Line(0, 2, 0, sign=-1, offset_sign=-1, **by_response),
        Line(0, 2, 0, sign=-1, offset_sign=-1, own_shift=-1, **by_response),
        Line(1, 2, 2),
        Line(0, 0, 0, own=5, own_count=1),
    )
    several = Several(lines, 6)
    responses = rng.integers(0, 3, (9, 1)).astype(np.float64)
    block = Block(0, rng.standard_normal((9, 3)), responses, np.ones(1), rng.standard_normal(9))
    thetas = rng.standard_normal((5, 6))
    found = several.at_many(block, thetas)
    assert found.shape == (4, 5, 9)
    np.testing.assert_allclose(found, np.stack([several.at(block, theta) for theta in thetas], axis=1), atol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_predictions_by_hand(name, frame, runs):
    model, tree = runs(name)
    theta = parameter_draws(tree, model)
    assert theta.shape == (2, 120, model.d)
    np.testing.assert_array_equal(theta, theta_draws(tree))
    _, columns, scale, family = CASES[name]
    p, flat = len(columns), theta.reshape(-1, model.d)
    x = frame[columns].to_numpy()[:6]
    at = (flat[:, :p] @ x.T)[None]
    if name == "classes":
        at = np.concatenate([at, (flat[:, p:] @ x.T)[None]])
    elif name.endswith("levels"):
        at = np.stack([flat[:, [p + j]] - at[0] for j in range(3)])
    elif scale:
        at = np.concatenate([at, (flat[:, p:] @ frame[scale].to_numpy()[:6].T)[None]])
    else:
        at = np.concatenate([at, np.broadcast_to(flat[:, p:], at.shape[1:])[None]])
    expected = family.expected(at)
    table = tb.predict(tree, model, frame.head(6))
    truth = expected.mean(axis=-2)
    np.testing.assert_allclose(table["estimate"], truth.T.ravel(), rtol=1e-10)
    linear = tb.predict(tree, model, frame.head(6), kind="linear")
    np.testing.assert_allclose(linear["estimate"], at.mean(axis=1).T.ravel(), rtol=1e-9, atol=1e-12)
    assert list(linear["outcome"][: len(at)]) == list(family.predictor_labels)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # a normal for heavy tails
def test_results_know_their_model(name, frame, runs, tmp_path):
    model, tree = runs(name)
    tb.save(tree, tmp_path / "run.nc")
    loaded = tb.load(tmp_path / "run.nc")
    new = frame.head(5)
    pd.testing.assert_frame_equal(tb.predict(loaded, None, new), tb.predict(tree, model, new))
    pd.testing.assert_frame_equal(
        tb.comparisons(loaded, None, "a", new_data=new), tb.comparisons(tree, model, "a", new_data=new)
    )
    names, draws = named_draws(tree)
    assert list(tb.summary(loaded).index) == names
    np.testing.assert_allclose(tb.summary(loaded)["mean"], draws.mean(axis=(0, 1)))
    assert np.isfinite(tb.loo(tree, model).elpd)
    assert len(tb.laplace_check(tree)) == model.d


def test_pictures(runs):
    pytest.importorskip("matplotlib")
    for name in ("student", "spread", "levels"):
        model, tree = runs(name)
        for plot in (tb.plot_forest, tb.plot_densities, tb.plot_trace, tb.plot_rank):
            assert plot(tree).axes
        assert tb.plot_ppc(tree, model).axes
    model, tree = runs("student")
    assert tb.plot_predictions(tree, model, "a", draws=20).axes
    shown = tb.plot_forest(tree, ["a", "scale"], exponentiate=True).axes[0]
    scale = np.median(tree["posterior"]["scale"])
    assert np.min(np.abs(shown.lines[1].get_xdata() - scale)) < 1e-9  # a scale is not a coefficient


def test_classes_have_no_mean(runs, frame):
    model, tree = runs("classes")
    with pytest.raises(tb.errors.InputError, match="numbers have no mean"):
        tb.predict(tree, model, kind="predictive")
    drawn = tb.predict(tree, model, frame.head(3), kind="predictive", as_draws=True)
    assert set(np.unique(drawn)) <= {0.0, 1.0, 2.0}
    with pytest.raises(tb.errors.InputError, match="several classes are not drawn"):
        tb.plot_predictions(tree, model, "a", draws=20)


def test_a_column_of_both_designs_is_set_in_both(runs, frame):
    model, tree = runs("spread")
    linear = tb.predict(tree, model, frame.head(2), kind="linear", at={"a": [0.0, 1.0]}, as_draws=True)
    moved = linear.sel(row=linear["a"] == 1.0).values - linear.sel(row=linear["a"] == 0.0).values
    posterior = tree["posterior"]
    np.testing.assert_allclose(moved[:, :, 0, 0], posterior["beta"].sel(coefficient="a"), atol=1e-12)
    np.testing.assert_allclose(moved[:, :, 0, 1], posterior["scale_beta"].sel(scale_coefficient="a"), atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_streams_give_the_same_setup(name, frame):
    """Also after the likelihood was sent elsewhere, as to a cluster."""
    one, other = regression(frame, name), streamed(frame, name)
    here, there = setup_of(one), setup_of(other)
    np.testing.assert_allclose(here.mode.theta, there.mode.theta, rtol=1e-6, atol=1e-6)
    there.__dict__["mode"] = here.mode
    bounds = [setup.bounds(Local(3.0), 3).sums for setup in (here, there)]
    np.testing.assert_allclose(*bounds, rtol=1e-9)
    assert "cubic" in there.__dict__  # found in the same pass
    np.testing.assert_allclose(here.cubic, there.cubic, rtol=1e-8, atol=1e-10)
    rows, predictors = pickle.loads(pickle.dumps((one.rows, one.predictors)))
    block = next(iter(one.source.blocks())).converted()
    eta = predictors.at(block, here.mode.theta)
    np.testing.assert_array_equal(rows.jets(block.responses, eta, 3), one.rows.jets(block.responses, eta, 3))
    np.testing.assert_array_equal(rows.extremes(4), one.rows.extremes(4))


def test_streamed_chains(frame, runs):
    for name in ("student", "classes"):
        model = streamed(frame, name)
        tree = tb.sample(model, draws=400, chains=2, seed=4, progress=False)
        reference = runs(name)[1]["posterior"]["beta"]
        apart = np.abs(tree["posterior"]["beta"].mean(("chain", "draw")) - reference.mean(("chain", "draw")))
        assert np.all(apart < 0.6 * reference.std(("chain", "draw")))  # of 240 draws: errors of 0.07
        assert tree.attrs["bound_violations"] == 0
        assert np.isfinite(tb.predict(tree, model, average=True)["estimate"]).all()


def test_second_designs_that_do_not_fit(frame):
    family = F.Gaussian()
    with pytest.raises(tb.errors.InputError, match="expected a list of the names of its last columns"):
        tb.Regression(streamed(frame, "spread").source, None, family, scale_design=["b"])
    import pyarrow as pa

    table = pa.Table.from_pandas(frame)
    with pytest.raises(tb.errors.InputError, match="design: None was given with a scale_design"):
        tb.Regression(table, "y", family, scale_design=["a"])
    with pytest.raises(tb.errors.InputError, match="has no scale"):
        tb.Regression(table, "c", F.Poisson(), design=["a"], scale_design=["a"])


# -- formulas --


def test_a_formula_for_the_scale(frame, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    given = {"scale_formula": "~ a + g", "family": F.StudentT(5)}
    memory = tb.glm("y ~ a * b", frame, **given)
    files = tb.glm("y ~ a * b", tmp_path / "rows.parquet", stream=True, **given)
    dask = pytest.importorskip("dask.dataframe")
    cluster = tb.glm("y ~ a * b", dask.from_pandas(frame, npartitions=3), stream=True, **given)
    assert memory.names[4:] == [f"scale_beta[{name}]" for name in ("Intercept", "a", "g[T.v]", "g[T.w]")]
    assert "scale   ~ a + g" in repr(memory)
    mode = setup_of(memory).mode.theta
    for other in (files, cluster):
        np.testing.assert_allclose(setup_of(other).mode.theta, mode, rtol=1e-5, atol=1e-6)
    tree = tb.sample(memory, draws=100, chains=1, seed=1, progress=False)
    new = frame.drop(columns="y").head(4)
    pd.testing.assert_frame_equal(
        tb.predict(tree, None, new, kind="linear"), tb.predict(tree, memory, new, kind="linear")
    )
    compared = tb.comparisons(tree, memory, "g", average=False, new_data=new)
    np.testing.assert_allclose(compared["estimate"], 0.0, atol=1e-12)  # g moves the scale alone


def test_unknown_scales_in_formulas(frame):
    model = tb.glm("y ~ a", frame, F.Gaussian(tb.priors.HalfNormal(5)))
    assert repr(model).splitlines()[-1].split() == ["scale", "~", "HalfNormal(5)"]
    tree = tb.sample(model, draws=50, chains=1, seed=1, progress=False)
    assert tree["posterior"]["scale"].dims == ("chain", "draw")
    with pytest.raises(tb.errors.InputError, match="which has no scale to be estimated"):
        tb.glm("y ~ a", frame, F.Gaussian(2.0), scale_formula="~ a")
    with pytest.raises(tb.errors.InputError, match="has an offset"):
        tb.glm("y ~ a", frame, F.Gaussian(), scale_formula="~ a + offset(b)")


def test_classes_and_levels_in_formulas(frame):
    named = frame.assign(c=np.array(["p", "q", "r"])[frame["c"].astype(int)])
    model = tb.glm("c ~ a", named, F.Categorical())
    assert model.names == ["q: Intercept", "q: a", "r: Intercept", "r: a"]
    counted = tb.glm("c ~ a", frame, F.Categorical())
    np.testing.assert_allclose(setup_of(model).mode.theta, setup_of(counted).mode.theta, rtol=1e-9)
    ordered = tb.glm("C(c, levels=['r', 'q', 'p']) ~ a + g", named, F.Ordinal())
    assert ordered.names == ["a", "g[T.v]", "g[T.w]", "cut[r|q]", "cut[q|p]"]  # cut points, and no intercept
    with pytest.raises(tb.errors.InputError, match="has 3 levels"):
        tb.glm("c ~ a", named, F.Categorical(4))


def test_a_response_has_the_reference_that_its_formula_says(frame):
    named = frame.assign(c=np.array(["p", "q", "r"])[frame["c"].astype(int)])
    for stream in (False, True):
        model = tb.glm("C(c, Treatment('r')) ~ a", named, F.Categorical(), stream=stream)
        assert model.family.labels == ("r", "p", "q")
        assert model.names == ["p: Intercept", "p: a", "q: Intercept", "q: a"]
    listed = tb.glm("C(c, levels=['r', 'p', 'q']) ~ a", named, F.Categorical())
    np.testing.assert_allclose(setup_of(model).mode.theta, setup_of(listed).mode.theta, rtol=1e-9)
    assert tb.glm("C(c, Treatment) ~ a", named, F.Categorical()).family.labels == ("p", "q", "r")
    numbered = tb.glm("C(c, Treatment(2)) ~ a", frame, F.Categorical())
    assert numbered.family.labels == ("2", "0", "1")
    two = tb.glm("C(c, Treatment('r')) ~ a", named[named["c"] != "q"], F.Bernoulli())
    assert two.notes[0] == "C(c, Treatment('r')): the event is 'p', against 'r'"
    for formula, family, message in (
        ("C(c, Sum) ~ a", F.Categorical(), r"a coding, .* Write C\(c, levels=\['p', 'q', 'r'\]\) ~ \.\.\."),
        ("C(c, contr.SAS) ~ a", F.Categorical(), "has a coding"),
        ("C(c, Treatment('r'), levels=['p', 'q', 'r']) ~ a", F.Ordinal(), "has a coding"),
        ("C(c, Treatment('s')) ~ a", F.Categorical(), "'s', the reference in .*, is not among its levels"),
        ("C(c, Treatment('r')) ~ a", F.Categorical(["q", "r", "p"]), "in Categorical.* it is 'q'"),
    ):
        with pytest.raises(tb.errors.InputError, match=message):
            tb.glm(formula, named, family)


def test_noise_is_as_scipy_has_it():
    """Densities of the noise beside scipy's."""
    y = np.linspace(-3.0, 4.0, 11)
    for family, law in ((F.Gaussian(), stats.norm), (F.StudentT(5), stats.t(5))):
        eta = np.stack([np.full(y.size, 0.4), np.full(y.size, -0.3)])
        found = family.log_constant(y) - family.rows.jets(y[:, None], eta, 0)[0]
        np.testing.assert_allclose(found, law.logpdf((y - 0.4) * np.exp(0.3)) + 0.3, rtol=1e-12)


@pytest.mark.parametrize(
    ("rows", "columns", "message"), [(50, 1, "every response is the same"), (3, 3, "3 rows and 3 columns")]
)
def test_amounts_that_do_not_vary_have_no_shape(rows, columns, message):
    X = np.eye(rows, columns) + 1.0
    y = np.full(rows, 2.0) if columns == 1 else np.array([1.0, 2.0, 4.0])
    with pytest.raises(tb.errors.InputError, match=message):
        tb.Regression(X, y, tb.families.Gamma())
    bounded = tb.Regression(X, y, tb.families.Gamma(shape=tb.priors.HalfNormal(10.0)), tb.priors.Normal(0.0, 2.0))
    assert np.all(np.isfinite(tb.sample(bounded, draws=50, seed=1, progress=False)["posterior"]["shape"]))


def test_levels_of_text_need_an_order(frame):
    """The order of the alphabet would be a guess: said by the family or by an ordered column, or refused."""
    words = np.array(["low", "mid", "high"])[frame["c"].astype(int)]
    named = frame.assign(c=words)
    with pytest.raises(tb.errors.InputError, match="whose order is not known"):
        tb.glm("c ~ a", named, F.Ordinal())
    said = tb.glm("c ~ a", named, F.Ordinal(["low", "mid", "high"], "probit"))
    ordered = frame.assign(c=pd.Categorical(words, ["low", "mid", "high"], ordered=True))
    for model in (said, tb.glm("c ~ a", ordered, F.Ordinal(link="probit"))):
        assert model.names == ["a", "cut[low|mid]", "cut[mid|high]"]
        counted = tb.glm("c ~ a", frame, F.Ordinal(link="probit"))
        np.testing.assert_allclose(setup_of(model).mode.theta, setup_of(counted).mode.theta, rtol=1e-9)


def test_levels_that_are_not_as_expected_are_named(frame):
    words = np.array(["low", "mid", "high"])[frame["c"].astype(int)]
    ordered = pd.Categorical(words, ["none", "low", "mid", "high", "top"], ordered=True)
    model = tb.glm("c ~ a", frame.assign(c=ordered), F.Ordinal())
    assert model.names == ["a", "cut[low|mid]", "cut[mid|high]"]
    assert "c: levels that no row has are left out: 'none', 'top'" in model.notes
    tens = frame.assign(c=10 * frame["c"] + 10, a=1.0 * (frame["a"] > 0))  # rows that are put together
    assert tb.glm("C(c) ~ a", tens, F.Ordinal()).names == ["a", "cut[10|20]", "cut[20|30]"]
    named = frame.assign(c=words)
    for data, formula, family, message in (
        (tens, "c ~ a", F.Ordinal(), r"responses are 10, 20, 30; .* or write C\(...\) around"),
        (frame.assign(c=frame["c"] + 1), "c ~ a", F.Ordinal(), "Subtract 1, or"),
        (
            named,
            "c ~ a",
            F.Ordinal(["low", "mid", "top"]),
            "which does not name 'high'; .* 3 levels: 'high', 'low'",
        ),
        (named, "c ~ a", F.Categorical(["low", "mid"]), "which does not name 'high'"),
        (named, "c ~ a", F.Ordinal(["low", "mid", "high", "top"]), "and no response is 'top'"),
        (named[words != "mid"], "c ~ a", F.Ordinal(), "has 2 levels, 'high', 'low'; .*Bernoulli"),
        (
            named,
            "C(c, levels=['low', 'mid', 'high', 'top']) ~ a",
            F.Ordinal(),
            r"no response has level 3 \('top'\)",
        ),
        (named, "c ~ 1", F.Ordinal(["low", "mid", "high"]), "cut points alone are not sampled.*Categorical"),
    ):
        with pytest.raises(tb.errors.InputError, match=message):
            tb.glm(formula, data, family)


@pytest.mark.parametrize("codes", [[1.0, 2.0, 3.0], [0.0, 2.0, 4.0], [0.0, 0.0, 0.0], [0.0, 1e6, 2e6]])
def test_classes_are_numbered_without_gaps(codes):
    with pytest.raises(tb.errors.InputError, match="without a gap"):
        tb.Regression(np.ones((3, 1)), np.array(codes), F.Categorical())


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_a_level_without_weight_is_refused(link):
    y = np.arange(60.0) % 4
    with pytest.raises(tb.errors.InputError, match=r"are 0, 2, 3; expected 0, 1, 2, .* without a gap"):
        tb.Regression(np.linspace(-1, 1, 60)[:, None], y, F.Ordinal(link=link), weights=(y != 1.0) * 1.0)


@pytest.mark.parametrize("family", [F.Gaussian(), F.Gaussian(1.0), F.StudentT(4.0), F.PseudoHuber(1.5)])
def test_default_prior_lets_an_intercept_be_where_the_responses_are(family):
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(2000), rng.standard_normal(2000)])
    noise = X[:, 1] + rng.standard_normal(2000)
    modes = [setup_of(tb.Regression(X, level + noise, family)).mode.theta[0] - level for level in (0.0, 1e6)]
    assert abs(modes[0] - modes[1]) < 1e-3
