"""Every Python block of README and docs runs, those of a page one after the other; the reference has every name.

So does the kernel that CONTRIBUTING gives to copy.
"""

import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import numpy as np
import pytest
from numba.core.caching import NullCache
from scipy import stats

import tallbayes as tb
from tallbayes.sources.base import Block, Source

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(.*)\n((?:(?!^```).*\n)*?)^```\s*$", re.MULTILINE)
OTHER = {"text", "console", "sh", "bash", "{include}", "{toctree}", "{eval-rst}"}
"""Fences that are not Python: what a command prints, and directions to Sphinx."""


def blocks_of(text):
    """Return (language, code, number of its first line) of every fenced block."""
    return [(m[1].split(" ")[0], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


def python_of(page):
    return [(code, line) for language, code, line in blocks_of(page.read_text()) if language == "python"]


def test_blocks_are_found():
    text = "a\n```python\nx = 1\n```\n\n```text\nout\n```\n```python\n```\n"
    assert blocks_of(text) == [("python", "x = 1\n", 3), ("text", "out\n", 7), ("python", "", 10)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    text = page.read_text()
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(blocks_of(text))
    assert {language for language, _, _ in blocks_of(text)} <= OTHER | {"python"}


def run_page(page):
    mpl.use("Agg")
    known = {"__name__": "__main__"}
    for code, line in python_of(page):
        # As many lines in front as the page has: an error names the page's own line.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), known)


RUN_FOR_MORE = {
    "factors.md": "test_factors.py",
    "estimators.md": "test_estimators.py",
    "tall-data.md": "test_docs.py",
}
"""Pages that a test of their own runs, which looks at what came of it: where that test is."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if python_of(page) and page.name not in RUN_FOR_MORE],
    ids=lambda page: page.name,
)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_pages_with_a_test_of_their_own_are_run_there():
    for page, file in RUN_FOR_MORE.items():
        assert f'"docs" / "{page}"' in (ROOT / "tests" / file).read_text()


def test_the_page_on_tall_data_says_how_many_passes_its_example_takes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "tall-data.md"
    run_page(page)
    files, fit = (code for code, _ in python_of(page)[:2])
    (said,) = re.findall(r'print\(tree.attrs\["passes"\]\)  # (\d+)', fit)
    assert capsys.readouterr().out.split()[0] == said == "4"
    exec(files.replace("600_000", "20_000").replace("trips", "few") + fit.replace("trips", "few"), {})
    assert 8 <= int(capsys.readouterr().out) <= 10  # "some nine passes" of few rows


def test_figures_of_the_readme_are_those_of_the_comparison():
    text, page = (ROOT / "README.md").read_text(), (ROOT / "docs" / "comparison.md").read_text()
    section = text[text.index("| logistic regression, a million rows |") :].split("\n\n")[0]
    lines = section.splitlines()[2:]
    assert len(lines) >= 4
    for line in lines:
        name, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        for columns, number in zip((10, 50), numbers, strict=True):
            method = name.split(", ")[0]
            row = re.search(rf"^\| logistic \| {columns} \| {re.escape(method)} \|.*$", page, re.MULTILINE)[0]
            assert re.search(rf"\({re.escape(number)}[ )]", row.strip("| ").split("|")[-1]), (method, columns)


def test_the_reference_has_every_name():
    text = (ROOT / "docs" / "api.md").read_text()
    named = set(re.findall(r"\.\. auto(?:function|class):: (\w+)", text))
    modules = set(re.findall(r"\.\. automodule:: tallbayes\.(\w+)", text))
    for name in tb.__all__:
        assert name in (modules if isinstance(getattr(tb, name), ModuleType) else named), name


# -- the kernel to copy --

COPIED = ("independent", "independent_steps")


@pytest.fixture(scope="module")
def independent(tmp_path_factory):
    """The kernel of CONTRIBUTING, from files as they would be beside the other kernels."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("\n## A new kernel\n") :].split("\n## ")[1]
    codes = [code for language, code, _ in blocks_of(section) if language == "python"]
    assert [code.splitlines()[0] for code in codes] == [f"# kernels/{name}.py" for name in COPIED]
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tb.kernels, "__path__", [*tb.kernels.__path__, str(folder)])
        for name, code in zip(COPIED, codes, strict=True):
            (folder / f"{name}.py").write_text(code)
            assert importlib.util.find_spec(f"tallbayes.kernels.{name}").origin == str(folder / f"{name}.py")
        kernel, steps = (importlib.import_module(f"tallbayes.kernels.{name}") for name in COPIED)
        # What is kept on disk is found by the package's source, of which these are no part.
        steps.run_chunk._cache = NullCache()
        yield kernel.Independent()
    for name in COPIED:
        del sys.modules[f"tallbayes.kernels.{name}"]
        delattr(tb.kernels, name)


class Blocks(Source):
    """Rows that can only be gone through, in blocks of 30."""

    names = ("a", "b")

    def __init__(self, X, y):
        self.X, self.y = X, y

    @property
    def n(self):
        return len(self.y)

    def blocks(self):
        for first in range(0, self.n, 30):
            rows = slice(first, first + 30)
            yield Block(first, self.X[rows], self.y[rows, None], np.ones(1), np.zeros(1))


BATCHES = 40


def moments(X, y):
    """Mean and variance of both coefficients by quadrature, at the middles of small squares."""
    a, b = np.linspace(-2.0, 2.0, 401)[:, None], 0.3 + 0.01 * (np.arange(400) + 0.5)
    potential = 0.5 * ((a + 0.2) / 0.3) ** 2 + 0.0 * b
    for row, response in zip(X, y, strict=True):
        potential += np.logaddexp(0.0, (1 - 2 * response) * (a * row[0] + b * row[1]))
    mass = np.exp(potential.min() - potential)
    mass /= mass.sum()
    assert mass[0].sum() + mass[-1].sum() + mass[:, -1].sum() < 1e-8
    assert mass[:, 0].sum() > 1e-3  # the end of the second prior cuts the posterior
    means = [np.sum(mass * grid) for grid in (a, b)]
    return [(mean, np.sum(mass * (grid - mean) ** 2)) for mean, grid in zip(means, (a, b), strict=True)]


@pytest.mark.parametrize("place", ["memory", "blocks"])
def test_the_kernel_to_copy_draws_from_the_posterior(independent, place, monkeypatch):
    # Its steps are plain Python: a rehearsal of the usual length, and not the longer one of few rows.
    monkeypatch.setattr("tallbayes.plan.choose.LONGEST", 0)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 2)) + 0.3
    y = (rng.random(60) < 1 / (1 + np.exp(-X @ [0.8, 0.7]))).astype(float)
    # A prior that is a polynomial, and one that is not.
    prior = [tb.priors.Normal(-0.2, 0.3), tb.priors.Uniform(0.3, 6.0)]
    data = (X, y) if place == "memory" else (Blocks(X, y), None)
    model = tb.Regression(*data, tb.families.Bernoulli(), prior)
    tree = tb.sample(model, kernel=independent, draws=1000, chains=2, seed=11, progress=False)
    assert json.loads(tree.attrs["plan"])["kernel"] == "Independent"
    assert np.all(tree["sample_stats"]["rows_touched"] == 60)
    # By batch means. False positives: 1e-7 for each of four numbers, in two places.
    most = stats.t.isf(0.5e-7, BATCHES - 1)
    draws = tree["posterior"]["beta"].values.reshape(BATCHES, -1, 2)
    assert np.min(draws[..., 1]) >= 0.3
    for j, (mean, variance) in enumerate(moments(X, y)):
        own = draws[..., j]
        for values, wanted, size in ((own, mean, math.sqrt(variance)), ((own - mean) ** 2, variance, variance)):
            batches = values.mean(axis=1)
            error = np.std(batches, ddof=1) / math.sqrt(BATCHES)
            assert abs(np.mean(batches) - wanted) < most * error
            assert error < 0.1 * size  # the run is long enough to mean something
