"""The command line and the demo."""

import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import tallbayes as tb
from tallbayes import cli, demo, warmup


def test_version():
    result = CliRunner().invoke(cli.app, ["--version"])
    assert result.output == f"tallbayes {tb.__version__}\n"


def test_commands_are_listed():
    listed = CliRunner().invoke(cli.app, ["--help"]).output
    assert "demo" in listed
    assert "warmup" in listed


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


# -- warmup --


@pytest.fixture
def compiled(monkeypatch):
    """Replace compilation, and return the families it was asked for."""
    asked = []
    monkeypatch.setattr(warmup, "_compile", lambda family, responses: asked.append(repr(family())))
    return asked


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["bernoulli"]),
        (["--family", "poisson", "--family", "gamma", "--family", "poisson"], ["poisson", "gamma"]),
        (["--family", "all"], list(warmup.FAMILIES)),
    ],
)
def test_warmup_prints_a_line_for_each_family(compiled, options, names):
    result = CliRunner().invoke(cli.app, ["warmup", *options])
    assert result.exit_code == 0, result.output
    assert [re.fullmatch(r"(\w+): \d+\.\d s", line)[1] for line in result.output.splitlines()] == names
    assert len(compiled) == len(set(compiled)) == len(names)


def test_warmup_refuses_unknown_families_before_it_compiles(compiled, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tallbayes", "warmup", "--family", "poisson", "--family", "weibull"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("tallbayes: warmup: family 'weibull' is not known; use one of bernoulli, probit, ")
    assert "Traceback" not in said
    assert compiled == []


def test_warmup_knows_every_family():
    """All of those that need no formula, every link among them."""
    known = {type(make()).__name__ for make, _ in warmup.FAMILIES.values()}
    assert known == set(tb.families.__all__) - {"Family", "custom"}
    assert list(warmup.FAMILIES) == [
        "bernoulli",
        "probit",
        "cloglog",
        "binomial",
        "poisson",
        "negative_binomial",
        "gamma",
        "gaussian",
        "student_t",
        "pseudo_huber",
        "categorical",
        "ordinal",
        "ordinal_probit",
        "zero_inflated_poisson",
        "hurdle_poisson",
    ]


@pytest.mark.parametrize("name", warmup.FAMILIES)
def test_every_family_can_be_warmed_up(name, monkeypatch):
    monkeypatch.setattr(warmup, "KERNELS", (tb.kernels.ScalableMH(order=3),))
    (done,) = warmup.warm_up([name])
    assert done[0] == name
