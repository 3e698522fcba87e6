"""Pictures and the page about a run: what is in them, and that the page works in a browser without a network."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.errors import InputError, MissingPackageError
from tallbayes.plots.predicted import single_responses
from tallbayes.predictions.asked import Rows, ask, model_of
from tallbayes.reporting.page import page

NAMES = ["one", "a", "<b>"]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(3000), rng.standard_normal(3000), rng.random(3000) < 0.4])
    y = (rng.random(3000) < 1 / (1 + np.exp(-X @ [-1.0, 0.7, 0.9]))).astype(float)
    return tb.Regression(X, y, tb.families.Bernoulli(), names=NAMES)


@pytest.fixture(scope="module")
def tree(model):
    return tb.sample(model, draws=300, chains=2, seed=1, progress=False)


def test_intervals_are_those_of_the_draws(tree):
    axes = tb.plot_forest(tree).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == NAMES
    beta = np.asarray(tree["posterior"]["beta"]).reshape(-1, 3)
    outer = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
    np.testing.assert_allclose(outer, np.quantile(beta, [0.05, 0.95], axis=0).T)
    ratios = tb.plot_forest(tree, ["a"], exponentiate=True).axes[0]
    np.testing.assert_allclose(ratios.lines[-1].get_xdata(), np.exp(np.median(beta[:, 1])))


def test_densities_traces_and_ranks(tree):
    assert len(tb.plot_densities(tree, ["a"]).axes) == 1
    trace = tb.plot_trace(tree, ["a", "one"])
    assert [axes.get_title() for axes in trace.axes] == ["a", "one"]
    np.testing.assert_array_equal(trace.axes[0].lines[1].get_ydata(), tree["posterior"]["beta"][1, :, 1])
    rank = tb.plot_rank(tree, ["a"])
    counts = [patch.get_data().values for patch in rank.axes[0].patches if hasattr(patch, "get_data")]
    assert [each.sum() for each in counts] == [300, 300]
    assert all((each > 0).all() for each in counts)


def test_the_tree_without_an_approximation_is_named(tree):
    with pytest.raises(InputError, match="the tree has no laplace group"):
        tb.plot_densities(tree.filter(lambda node: node.name != "laplace"))
    with pytest.raises(InputError, match=r"names=\['c'\] was given; the parameters are one, a"):
        tb.plot_trace(tree, ["c"])


def test_predictions_along_a_variable(model, tree):
    axes = tb.plot_predictions(tree, model, "a").axes[0]
    line = axes.lines[0]
    assert len(line.get_xdata()) == 25
    assert np.all(np.diff(line.get_ydata()) > 0.0)  # a positive coefficient
    expected = tb.predict(tree, model, at={"a": float(line.get_xdata()[3])}, average=True)["estimate"][0]
    assert line.get_ydata()[3] == pytest.approx(expected, rel=0.05)  # a sample of 2,000 of 3,000 rows
    grouped = tb.plot_predictions(tree, model, "a", by="<b>").axes[0]
    assert [text.get_text() for text in grouped.get_legend().get_texts()] == ["0.0", "1.0"]
    assert len(tb.plot_predictions(tree, model, "<b>").axes[0].get_xticks()) == 2
    with pytest.raises(InputError, match="by='a' has many values"):
        tb.plot_predictions(tree, model, "<b>", by="a")
    with pytest.raises(InputError, match="'c' is not a variable"):
        tb.plot_predictions(tree, model, "c")
    with pytest.raises(InputError, match="the range of the variable is not known"):
        tb.plot_predictions(tree, None, "a", new_data=np.ones((1, 3)))


def test_the_band_of_single_responses_is_a_prediction_interval():
    """Of a Gaussian of scale 2: 1.645 standard deviations to either side, with 250,000 numbers (5 standard errors)."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(3000), rng.standard_normal(3000)])
    y = X @ [1.0, 0.5] + 2.0 * rng.standard_normal(3000)
    model = tb.Regression(X, y, tb.families.Gaussian(scale=2.0), names=["one", "a"])
    tree = tb.sample(model, draws=250, chains=2, seed=1, progress=False)
    axes = tb.plot_predictions(tree, model, "a", kind="predictive").axes[0]
    assert axes.get_ylabel() == "single response, 50 % and 90 % interval"
    line, outer = axes.lines[0], axes.collections[0].get_paths()[0].vertices
    x, mean = line.get_xdata()[12], line.get_ydata()[12]
    assert mean == pytest.approx(1.0 + 0.5 * x, abs=0.15)
    ends = outer[outer[:, 0] == x, 1]
    np.testing.assert_allclose([ends.min(), ends.max()], mean + 3.29 * np.array([-1.0, 1.0]), atol=0.1)
    average = tb.plot_predictions(tree, model, "a").axes[0]
    assert average.get_ylabel() == "expected value, 50 % and 90 % interval"
    assert np.ptp(average.collections[0].get_paths()[0].vertices[:, 1]) < np.ptp(outer[:, 1])


def test_single_responses_have_the_weights_and_trials_of_their_rows():
    """Rows of no weight are never taken; a share of one trial is 0 or 1, one of a thousand is not."""
    one = np.arange(200) % 2 == 0
    data = pd.DataFrame({"x": np.repeat([0.0, 1.0], 100), "t": np.where(one, 1, 1000), "w": np.where(one, 0, 1)})
    data["s"] = np.where(one, np.arange(200) // 2 % 2, 500)
    model = tb.glm("p(s, t) ~ x", data, tb.families.Binomial(), weights="w")
    tree = tb.sample(model, draws=50, chains=2, seed=1, progress=False)
    for given, new, spread in ((model, None, 0), (None, data, 0), (None, data.assign(w=1 - data["w"]), 1)):
        rows = Rows(model_of("test", tree, given), new)
        asked = ask(tree, rows.model, owner="test", most=100, kind="predictive", rows=rows)
        found = single_responses(rows, asked, [{"x": 0.0}, {"x": 1.0}])
        assert list(found["x"]) == [0.0, 1.0]
        np.testing.assert_allclose(found["95%"] - found["5%"], spread, atol=0.2)
    with pytest.raises(InputError, match="no column 't', which has the number of trials"):
        tb.plot_predictions(tree, None, "x", new_data=data.drop(columns="t"), kind="predictive")


def test_classes_have_their_names():
    rng = np.random.default_rng(2)
    words = np.array(["bus", "car", "on foot"])
    data = pd.DataFrame({"x": rng.standard_normal(600), "how": words[rng.choice(3, 600, p=[0.5, 0.496, 0.004])]})
    model = tb.glm("how ~ x", data, tb.families.Categorical())
    tree = tb.sample(model, draws=100, chains=2, seed=1, progress=False)
    axes = tb.plot_ppc(tree, model).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(words)
    seen = axes.patches[0].get_data().values
    np.testing.assert_allclose(seen, [np.mean(data["how"] == word) for word in words])
    for kind in ("expected", "predictive"):
        with pytest.raises(InputError, match=r"plot_predictions: Categorical.* has several classes"):
            tb.plot_predictions(tree, model, "x", kind=kind)
    with pytest.raises(InputError, match="has several predictors for each row"):
        tb.plot_predictions(tree, model, "x", kind="linear")


def test_rows_put_together_are_observed_as_they_were():
    """Two thousand rows, four different ones; text of two levels has its names."""
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"g": rng.choice(["a", "b"], 2000), "late": rng.choice(["no", "yes"], 2000, p=[0.9, 0.1])})
    model = tb.glm("late ~ g", data, tb.families.Bernoulli())
    assert model.n == 4
    tree = tb.sample(model, draws=100, chains=2, seed=1, progress=False)
    axes = tb.plot_ppc(tree, model).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["no", "yes"]
    assert axes.patches[0].get_label() == "observed (2,000 rows)"
    assert axes.patches[0].get_data().values[1] == pytest.approx(np.mean(data["late"] == "yes"))


def test_observed_beside_drawn_responses(model, tree):
    axes = tb.plot_ppc(tree, model).axes[0]
    drawn = axes.lines[0].get_ydata()
    observed = model.source.responses.mean()
    np.testing.assert_allclose(drawn, [1.0 - observed, observed], atol=0.03)
    with pytest.raises(InputError, match="the model without its data"):
        tb.plot_ppc(tree, None)


def test_trials_of_the_rows_that_are_drawn():
    """A sample of rows has its own trials: shares of 1 trial are 0 or 1, those of a thousand are not."""
    rng = np.random.default_rng(0)
    trials = np.where(np.arange(4000) < 3000, 1, 1000)
    X = np.ones((4000, 1))
    model = tb.Regression(X, rng.binomial(trials, 0.5), tb.families.Binomial(trials))
    tree = tb.sample(model, draws=100, chains=2, seed=1, progress=False)
    axes = tb.plot_ppc(tree, model, rows=1000).axes[0]
    middle = axes.lines[0]
    ends = np.isin(np.arange(middle.get_xdata().size), [0, middle.get_xdata().size - 1])
    assert middle.get_ydata()[ends].sum() == pytest.approx(0.75, abs=0.03)


# -- the page --


def test_the_page_says_it_all(model, tree):
    text = page(tree, model)
    assert not re.search(r"""(src|href)\s*=\s*["']?(http|//)""", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert text.count("data:image/png;base64,") == 5
    for words in (
        "Nothing speaks against the draws",
        "3,000",
        "Bernoulli",
        "Rows touched per draw",
        "numba",
        "Seed",
    ):
        assert words in text
    assert page(tree).count("data:image/png;base64,") == 4


def test_the_page_is_written_whole_and_asks_before_it_replaces(tree, tmp_path, monkeypatch):
    path = tb.report(tree, None, tmp_path / "run.html", title="A & B")
    assert "<title>A &amp; B</title>" in path.read_text()
    with pytest.raises(InputError, match="is there already"):
        tb.report(tree, None, path)
    with pytest.raises(InputError, match="there is no directory"):
        tb.report(tree, None, tmp_path / "none" / "run.html")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    tb.report(tree, None, path, overwrite=True)
    assert "There are no pictures: Pictures need matplotlib" in path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["run.html"]


def test_a_run_that_cannot_be_trusted_looks_like_one(tree):
    bad = tree.copy(deep=True)
    bad["posterior"]["beta"][0, :, 1] += 1.0
    assert 'class="verdict bad"' in page(bad)
    assert "bad-word" in page(bad)


def test_a_family_without_responses_has_a_page(model):
    family = tb.families.custom("softplus((y - eta)/s) + softplus(-(y - eta)/s)", s=0.5)
    X = model.source.X
    other = tb.Regression(X, X[:, 1], family, names=NAMES)
    text = page(tb.sample(other, draws=100, chains=2, seed=1, progress=False), other)
    assert "Not drawn: custom(" in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no browser: Debian's package chromium")
def test_the_table_sorts_in_a_browser(tree, tmp_path):
    text = page(tree)
    press = """<script>
      var order = function () { return Array.from(document.querySelectorAll('tbody tr')).map(
        function (row) { return row.cells[0].textContent; }); };
      var found = [order()];
      var heads = document.querySelectorAll('th button');
      heads[1].click(); found.push(order()); heads[1].click(); found.push(order());
      document.title = JSON.stringify(found);
    </script></body>"""
    (tmp_path / "run.html").write_text(text.replace("</body>", press))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
    ]
    run = subprocess.run(
        ["chromium", *options, (tmp_path / "run.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    title = re.search("<title>(.*?)</title>", run.stdout).group(1)
    found = json.loads(title.replace("&lt;", "<").replace("&gt;", ">"))
    means = tb.summary(tree)["mean"]
    rising = list(means.sort_values().index)
    assert found == [NAMES, rising, rising[::-1]]


def test_every_picture_names_the_missing_package(model, tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (tb.plot_forest, tb.plot_densities, tb.plot_trace, tb.plot_rank):
        with pytest.raises(MissingPackageError, match="pip install"):
            draw(tree)
    for draw in (lambda: tb.plot_ppc(tree, model), lambda: tb.plot_predictions(tree, model, "a")):
        with pytest.raises(MissingPackageError, match="pip install"):
            draw()
