"""The page about formulas: its code runs, one block after the other, and so do its commands."""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

import tallbayes as tb
from tallbayes import cli

PAGE = Path(__file__).parent.parent / "docs" / "formulas.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_every_block_is_run_or_shown():
    assert {kind for kind, _ in BLOCKS} == {"python", "bash", "text"}


def test_the_page(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names, said = {}, io.StringIO()
    for kind, code in BLOCKS:
        if kind == "python":
            with contextlib.redirect_stdout(said):
                exec(compile(code, str(PAGE), "exec"), names)
        elif kind == "bash":
            for line in code.strip().splitlines():
                monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
                with pytest.raises(SystemExit) as ended:
                    cli.main()
                assert ended.value.code in {0, None}, line
    assert (tmp_path / "fit.html").is_file()
    shown = next(code for kind, code in BLOCKS if kind == "text").split("\n...")[0]
    assert shown in said.getvalue()
    assert "'open' in \"open('passwords')\" is not a function that formulas know" in said.getvalue()
    assert isinstance(names["model"], tb.Regression)
