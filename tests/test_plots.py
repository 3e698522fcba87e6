"""Pictures and the page about a run: what is in them, and that the page works in a browser without a network."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.errors import InputError, MissingPackageError
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
