"""Every Python block of README and docs runs, those of a page one after the other; the reference has every name."""

import re
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest

import tallbayes as tb

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


@pytest.mark.parametrize("page", [page for page in PAGES if python_of(page)], ids=lambda page: page.name)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    known = {"__name__": "__main__"}
    for code, line in python_of(page):
        # As many lines in front as the page has: an error names the page's own line.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), known)


def test_the_page_on_tall_data_says_how_many_passes_its_example_takes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files, fit = (code for code, _ in python_of(ROOT / "docs" / "tall-data.md")[:2])
    for text in (
        files + fit,
        files.replace("600_000", "20_000").replace("trips", "few") + fit.replace("trips", "few"),
    ):
        exec(text, {})
    (said,) = re.findall(r'print\(tree.attrs\["passes"\]\)  # (\d+)', fit)
    passes = capsys.readouterr().out.split()
    assert passes[0] == said == "4"
    assert 8 <= int(passes[1]) <= 10  # "some nine passes" of few rows


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
