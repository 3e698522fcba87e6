"""The command line and the demo."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import tallbayes as tb
from tallbayes import cli, demo


def test_version():
    result = CliRunner().invoke(cli.app, ["--version"])
    assert result.output == f"tallbayes {tb.__version__}\n"


def test_commands_are_listed():
    assert "demo" in CliRunner().invoke(cli.app, ["--help"]).output


def test_expected_errors_have_no_traceback(monkeypatch, capsys):
    def fail():
        raise tb.errors.InputError("X: row 3 is odd.")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "tallbayes: X: row 3 is odd.\n"


def test_demo_shows_plan_posterior_cost_and_picture(tmp_path):
    out = tmp_path / "picture.png"
    options = ["demo", "--rows", "5000", "--draws", "100", "--seed", "3", "--out", str(out)]
    result = CliRunner().invoke(cli.app, options)
    assert result.exit_code == 0, result.output
    for part in (
        "Kernels ready",
        "Plan",
        "ScalableMH",
        "Posterior",
        "rare_merchant",
        "of 5,000",
        "full-data MH step",
    ):
        assert part in result.output
    assert out.read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    out = tmp_path / "picture.png"
    result = CliRunner().invoke(cli.app, ["demo", "--rows", "2000", "--draws", "50", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "pip install 'tallbayes[plot]'" in result.output
    assert not out.exists()


@pytest.mark.parametrize("options", [["--rows", "10"], ["--draws", "0"], ["--seed", "-1"]])
def test_demo_refuses_odd_options(options):
    assert CliRunner().invoke(cli.app, ["demo", *options]).exit_code == 2


def test_payments_are_reproducible_and_have_a_rare_merchant():
    one, same, other = (demo.make_payments(2000, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.y, same.y)
    assert not np.array_equal(one.y, other.y)
    assert one.X[:, -1].sum() == demo.RARE_ROWS
    assert np.corrcoef(one.X[:, 1], one.X[:, 2])[0, 1] > 0.3


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.0034, "3.4 ms"), (2.5e-6, "2.5 µs"), (4e-9, "4 ns")]
)
def test_durations(seconds, text):
    assert demo._duration(seconds) == text
