"""The command line: from a file to a result, its summary and its verdict, and what wrong use is told."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tallbayes as tb
from tallbayes import cli
from tallbayes.cli.options import family_of, free_path, known_families, known_priors, prior_of
from tallbayes.reporting.parts import data_and_model
from tallbayes.run import chain
from tallbayes.run.chain import Chain

FORMULA = "late ~ bs(hour, df=4) + C(month) + origin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with data as Parquet and CSV, and a result."""
    path = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(5)
    n = 3000
    frame = pd.DataFrame(
        {
            "hour": rng.integers(5, 24, n) + rng.random(n),
            "month": rng.integers(1, 5, n),
            "origin": rng.choice(["EWR", "JFK", "LGA"], n),
            "exposure": rng.random(n) + 0.5,
        }
    )
    eta = -2.0 + 0.1 * (frame["hour"] - 12) + 0.3 * (frame["origin"] == "JFK")
    frame["late"] = np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")
    frame.to_parquet(path / "trips.parquet")
    frame.to_csv(path / "trips.csv", index=False)
    frame.iloc[:20].to_parquet(path / "new.parquet")
    options = ["--draws", "500", "--seed", "1", "--out", str(path / "run.nc")]
    result = run("fit", str(path / "trips.parquet"), FORMULA, *options)
    assert result.exit_code == 0, result.output
    (path / "odd.csv").write_text("hour,month,origin\n7.5,2,BOS\n")
    (path / "fit.txt").write_text(result.stdout)
    (path / "fit.err").write_text(result.stderr)
    return path


def run(*arguments):
    return CliRunner().invoke(cli.app, list(arguments))


def refused(*arguments, capsys, monkeypatch):
    """Run a command that must fail, as a user would, and return what it says."""
    monkeypatch.setattr(sys, "argv", ["tallbayes", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err


def test_fit_prints_summary_and_tells_the_rest_beside(folder):
    out, err = (folder / "fit.txt").read_text(), (folder / "fit.err").read_text()
    for name in ("Intercept", "bs(hour, df=4)[4]", "C(month)[T.4]", "origin[T.LGA]", "r_hat", "rows touched"):
        assert name in out
    assert "the event is 'yes', against 'no'" in err
    assert "run.nc" in err
    assert "event" not in out


def test_the_result_is_that_of_the_api(folder):
    model = tb.glm(FORMULA, pd.read_parquet(folder / "trips.parquet"), tb.families.Bernoulli())
    tree = tb.sample(model, draws=500, seed=1, progress=False)
    loaded = tb.load(folder / "run.nc")
    assert np.array_equal(loaded["posterior"]["beta"], tree["posterior"]["beta"])
    assert loaded.attrs["model"] == model.to_json()


def test_csv_gives_the_same_and_json_can_be_read(folder):
    options = ["--draws", "500", "--seed", "1", "--json", "--quiet"]
    result = run("fit", str(folder / "trips.csv"), FORMULA, *options)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    about = json.loads(result.stdout)
    beta = tb.load(folder / "run.nc")["posterior"]["beta"]
    expected = float(beta.sel(coefficient="origin[T.JFK]").mean())
    assert about["summary"]["origin[T.JFK]"]["mean"] == pytest.approx(expected, abs=1e-9)
    assert about["rows"] == 3000
    assert about["rows_touched"] > 0
    assert about["out"] is None


def test_explain(folder):
    result = run("explain", str(folder / "trips.parquet"), FORMULA, "--prior", "C(month)=normal(0, 1)")
    assert result.exit_code == 0, result.output
    assert "C(month)[T.2]      ~ Normal(0, 1)" in result.stdout
    assert "effective draws" in result.stdout
    about = json.loads(run("explain", str(folder / "trips.parquet"), FORMULA, "--json").stdout)
    assert about["rows"] == 3000


def test_exposure_and_rows_left_apart(folder):
    given = [str(folder / "trips.parquet"), "month ~ origin", "--family", "poisson"]
    said = run("explain", *given, "--exposure", "exposure")
    assert said.exit_code == 0, said.output
    assert "\nexposure exposure\n" in said.stdout
    assert "put together" in run("explain", *given).stdout
    assert "put together" not in run("explain", *given, "--no-collapse").stdout


def test_summary(folder):
    result = run("summary", str(folder / "run.nc"), "--probs", "0.1,0.9", "--exponentiate")
    assert result.exit_code == 0, result.output
    assert "90%" in result.stdout
    about = json.loads(run("summary", str(folder / "run.nc"), "--json").stdout)
    beta = tb.load(folder / "run.nc")["posterior"]["beta"]
    assert about["summary"]["Intercept"]["sd"] == pytest.approx(
        float(beta.sel(coefficient="Intercept").std(ddof=1)), rel=1e-9
    )


def test_diagnose_of_too_few_draws_is_no_pass(folder, tmp_path):
    few = tb.load(folder / "run.nc").isel(draw=slice(0, 5))
    tb.save(few, tmp_path / "few.nc")
    result = run("diagnose", str(tmp_path / "few.nc"), "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["trusted"] is None


def test_an_output_that_cannot_be_written_is_refused_before_the_run(folder):
    with pytest.raises(tb.errors.InputError, match="nothing can be written to"):
        free_path(Path("/proc/run.nc"), False)
    with pytest.raises(tb.errors.InputError, match="nothing can be written to"):
        tb.save(tb.load(folder / "run.nc"), "/proc/run.nc")


def test_diagnose_has_an_exit_code(folder, tmp_path):
    good = run("diagnose", str(folder / "run.nc"))
    assert good.exit_code == 0, good.output
    assert "Gaussian approximation" in good.stdout
    tree = tb.load(folder / "run.nc")
    beta = tree["posterior"]["beta"]
    beta.values[0] += 10.0 * float(beta.std())
    tb.save(tree, tmp_path / "bad.nc")
    bad = run("diagnose", str(tmp_path / "bad.nc"))
    assert bad.exit_code == 3
    assert "R-hat" in bad.stdout
    about = json.loads(run("diagnose", str(tmp_path / "bad.nc"), "--json").stdout)
    assert about["trusted"] is False
    assert about["findings"]


def test_predict_from_the_file_alone(folder, tmp_path):
    result = run("predict", str(folder / "run.nc"), str(folder / "new.parquet"), "--out", str(tmp_path / "p.csv"))
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "p.csv")
    model = tb.glm(FORMULA, folder / "trips.parquet", tb.families.Bernoulli())
    expected = tb.predict(tb.load(folder / "run.nc"), model, folder / "new.parquet", probs=(0.05, 0.95))
    assert len(found) == 20
    np.testing.assert_allclose(found["estimate"], expected["estimate"])
    assert run(
        "predict", str(folder / "run.nc"), str(folder / "new.parquet"), "--out", str(tmp_path / "p.csv")
    ).exception
    run("predict", str(folder / "run.nc"), str(folder / "new.parquet"), "--out", str(tmp_path / "p.parquet"))
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "p.parquet")["estimate"], expected["estimate"])


def test_predict_averages(folder):
    result = run("predict", str(folder / "run.nc"), str(folder / "trips.csv"), "--by", "origin", "--json")
    assert result.exit_code == 0, result.output
    found = {line["origin"]: line["estimate"] for line in json.loads(result.stdout)}
    shares = pd.read_csv(folder / "trips.csv").groupby("origin")["late"].agg(lambda late: (late == "yes").mean())
    for origin, share in shares.items():
        assert found[origin] == pytest.approx(share, abs=0.03)
    assert "estimate" in run("predict", str(folder / "run.nc"), str(folder / "trips.csv"), "--average").stdout


def test_rows_that_cannot_be_predicted_are_left_out_if_that_is_wanted(folder, tmp_path):
    frame = pd.read_parquet(folder / "new.parquet")
    frame.loc[[1, 2], "origin"] = "BOS"
    frame.loc[3, "hour"] = np.nan
    frame.to_parquet(tmp_path / "odd.parquet")
    result = run("predict", str(folder / "run.nc"), str(tmp_path / "odd.parquet"), "--unusable", "drop", "--json")
    assert result.exit_code == 0, result.output
    kept = [0, *range(4, 20)]  # places in the file
    assert [line["row"] for line in json.loads(result.stdout)] == kept
    arguments = ("predict", str(folder / "run.nc"), str(tmp_path / "odd.parquet"), "--unusable", "drop")
    run(*arguments, "--out", str(tmp_path / "odd.csv"))
    assert list(pd.read_csv(tmp_path / "odd.csv")["row"]) == kept
    assert [int(line.split()[0]) for line in run(*arguments).stdout.splitlines()[1:]] == kept
    assert len(run(*arguments, "--average").stdout.splitlines()) == 2
    assert "left out: values of 'hour' are missing in 1 row" in result.stderr
    assert "left out: 'origin' has levels that the model has not seen in 2 rows" in result.stderr
    frame.assign(origin="BOS").to_parquet(tmp_path / "none.parquet")
    result = run("predict", str(folder / "run.nc"), str(tmp_path / "none.parquet"), "--unusable", "drop")
    assert "no row can be predicted" in str(result.exception)


def test_the_report_says_what_was_given_beside_the_formula(folder):
    tree = tb.load(folder / "run.nc")
    about = json.loads(tree.attrs["model"])
    assert about["recipe"]["beside"] == {}
    about["recipe"]["beside"] = {"offset": "log(exposure)", "weights": "k"}
    tree.attrs["model"] = json.dumps(about)
    said = data_and_model(tree)[0].html
    assert "<dt>Offset</dt><dd>log(exposure)</dd><dt>Weights</dt><dd>k</dd>" in said
    tree.attrs["model"] = json.dumps({"kind": "regression", "has_offset": True})
    assert "<dt>Offset</dt><dd>an array</dd>" in data_and_model(tree)[0].html


def test_report(folder, tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "page.html"
    result = run("report", str(folder / "run.nc"), "--out", str(target), "--title", "Late trips")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{target}\n"
    text = target.read_text()
    assert "<h1>Late trips</h1>" in text
    assert "bs(hour, df=4)[1]" in text
    assert "page.html is there already" in str(
        run("report", str(folder / "run.nc"), "--out", str(target)).exception
    )
    assert run("report", str(folder / "run.nc"), "--out", str(target), "--overwrite").exit_code == 0


def test_a_warning_of_a_run_is_a_line(folder, monkeypatch):
    import warnings

    from tallbayes import api

    def warned(*arguments, **options):
        warnings.warn("chains disagree", tb.errors.SlowMixingWarning, stacklevel=2)
        return tb.load(folder / "run.nc")

    monkeypatch.setattr(api, "sample", warned)
    result = run("fit", str(folder / "trips.parquet"), FORMULA)
    assert "tallbayes: chains disagree\n" in result.stderr


def interrupt_after(rounds, monkeypatch):
    """Interrupt a run of two chains when they have been advanced so often, one of them once more."""
    advance, calls = Chain.advance, []

    def interrupted(self):
        if len(calls) == 2 * rounds:
            raise KeyboardInterrupt
        calls.append(self)
        advance(self)

    monkeypatch.setattr(Chain, "advance", interrupted)
    monkeypatch.setattr(chain, "LARGEST_CHUNK", 50)


FIT = ("--draws", "3000", "--chains", "2", "--seed", "1", "--threads", "1")


@pytest.mark.parametrize("quiet", [False, True])
def test_an_interrupted_fit_keeps_its_draws_and_says_so(folder, tmp_path, monkeypatch, quiet):
    interrupt_after(20, monkeypatch)
    out, options = tmp_path / "part.nc", ["--quiet"] if quiet else []
    result = run("fit", str(folder / "trips.parquet"), FORMULA, *FIT, *options, "--out", str(out))
    assert result.exit_code == 130
    tree = tb.load(out)
    made = tree["posterior"].sizes["draw"]
    assert 0 < made < 3000
    said = f"tallbayes: fit was interrupted: {made:,} of 3,000 draws of each of 2 chains were made, and are in {out}.\n"
    assert result.stderr == said if quiet else result.stderr.endswith(said)
    assert "bs(hour, df=4)[4]" in result.stdout
    assert run("summary", str(out)).exit_code == 0


def test_an_interrupted_fit_without_an_output_says_what_is_lost(folder, monkeypatch):
    interrupt_after(20, monkeypatch)
    result = run("fit", str(folder / "trips.parquet"), FORMULA, *FIT)
    assert result.exit_code == 130
    assert result.stderr.endswith("chains were made, and are lost, since no --out was given.\n")


def test_an_interrupt_before_the_first_draw_keeps_nothing(folder, tmp_path, monkeypatch):
    interrupt_after(0, monkeypatch)
    out = tmp_path / "part.nc"
    result = run("fit", str(folder / "trips.parquet"), FORMULA, *FIT, "--quiet", "--out", str(out))
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "tallbayes: fit was interrupted; nothing was kept.\n"
    assert not out.exists()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_an_interrupt_from_the_keyboard(folder):
    """As from a terminal, in a process of its own: one line, no traceback, and the code that shells know."""
    script = textwrap.dedent(
        """
        import os, signal, sys
        from tallbayes import cli
        from tallbayes.formulas import model

        signal.signal(signal.SIGINT, signal.default_int_handler)
        model.read_formula = lambda *given, **named: os.kill(os.getpid(), signal.SIGINT)
        sys.argv = ["tallbayes", "explain", "trips.parquet", "late ~ hour"]
        cli.main()
        """
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "tallbayes: explain was interrupted; nothing was kept.\n"


WRONG = {
    "unknown column": (["fit", "trips.parquet", "late ~ huor"], r"no column 'huor'; is it 'hour'?"),
    "not Parquet": (["fit", "fit.txt", "late ~ hour"], "fit.txt"),
    "no file": (["fit", "none.parquet", "late ~ hour"], "none.parquet"),
    "three levels": (["fit", "trips.parquet", "origin ~ hour"], "3 levels ('EWR', 'JFK', 'LGA')"),
    "groups": (["fit", "trips.parquet", "late ~ (1|origin)"], "random effects are not supported"),
    "python": (
        ["fit", "trips.parquet", "late ~ open('pwned', 'w')"],
        "'open' in \"open('pwned', 'w')\" is not a function",
    ),
    "output is there": (["fit", "trips.parquet", FORMULA, "--out", "run.nc"], "run.nc is there already"),
    "no directory": (["fit", "trips.parquet", FORMULA, "--out", "none/run.nc"], "there is no directory"),
    "family": (
        ["fit", "trips.parquet", FORMULA, "--family", "weibull"],
        "'weibull' is not known; use one of bernoulli",
    ),
    "family with code": (
        ["fit", "trips.parquet", FORMULA, "--family", "gaussian(open('pwned', 'w'))"],
        "cannot be read",
    ),
    "family argument": (
        ["fit", "trips.parquet", FORMULA, "--family", "bernoulli(lnk=probit)"],
        "--family: bernoulli has no option 'lnk'; it takes link",
    ),
    "family arguments": (
        ["fit", "trips.parquet", FORMULA, "--family", "poisson(1, 2, 3)"],
        "has too many options, too few, or one twice; it takes rates",
    ),
    "output of another kind": (
        ["fit", "trips.parquet", FORMULA, "--out", "run.txt"],
        "--out: 'run.txt' was given; expected a name that ends in .nc",
    ),
    "family text": (["fit", "trips.parquet", FORMULA, "--family", "gaussian("], "cannot be read"),
    "prior": (["fit", "trips.parquet", FORMULA, "--prior", "hour=(1)"], "cannot be read"),
    "two priors for all": (
        ["fit", "trips.parquet", FORMULA, "--prior", "flat", "--prior", "cauchy"],
        "expected a name for each",
    ),
    "missing": (["fit", "trips.parquet", FORMULA, "--missing", "skip"], "expected error or drop"),
    "probs": (["summary", "run.nc", "--probs", "a"], "expected numbers such as"),
    "unseen level": (["predict", "run.nc", "odd.csv"], "1 level that the model has not seen, in 1 row: 'BOS'"),
    "unusable": (["predict", "run.nc", "trips.csv", "--unusable", "x"], "expected error or drop"),
    "predictions to nowhere": (["predict", "run.nc", "trips.csv", "--out", "p.txt"], "ends in .csv or .parquet"),
    "no result": (["summary", "none.nc"], "there is no file"),
    "not a result": (["diagnose", "fit.txt"], "cannot be read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_explained_without_a_traceback(folder, case, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    arguments, message = WRONG[case]
    before = (folder / "run.nc").read_bytes()
    assert message in refused(*arguments, capsys=capsys, monkeypatch=monkeypatch)
    assert not (folder / "pwned").exists()
    assert (folder / "run.nc").read_bytes() == before


def test_families_and_priors_as_text():
    assert repr(family_of("student_t(df=4, scale=10)")) == repr(tb.families.StudentT(4, 10))
    assert family_of("student_t(df=4)").scale is None
    assert family_of("gaussian(scale=half_normal(3))") == tb.families.Gaussian(tb.priors.HalfNormal(3))
    with pytest.raises(tb.errors.InputError, match="'system' is not known"):
        family_of("gaussian(scale=system('ls'))")
    assert "half_normal" not in known_priors()
    assert repr(family_of("bernoulli(link=probit)")) == repr(tb.families.Bernoulli("probit"))
    assert repr(family_of("probit")) == repr(tb.families.Bernoulli("probit"))
    assert {"bernoulli", "negative_binomial", "student_t", "pseudo_huber"} <= set(known_families())
    assert {"normal", "student_t", "weakly_informative"} <= set(known_priors())
    assert prior_of([]) is None
    assert prior_of(["normal(0, 2.5)"]) == tb.priors.Normal(0, 2.5)
    given = ["C(month)=normal(0, 1)", "bs(hour, df=4)[1]=student_t(df=3, scale=2)", "x=flat", "bs(h*=laplace(0, 1)"]
    assert prior_of(given) == {
        "C(month)": tb.priors.Normal(0, 1),
        "bs(hour, df=4)[1]": tb.priors.StudentT(df=3, scale=2),
        "x": tb.priors.Flat(),
        "bs(h*": tb.priors.Laplace(0, 1),
    }


def test_help_is_helpful():
    listed = run("--help").stdout
    for name in ("fit", "explain", "summary", "diagnose", "predict", "report", "demo", "warmup"):
        assert name in listed
    said = " ".join(run("fit", "--help").stdout.replace("│", " ").split())
    assert "Parquet" in said
    assert "tallbayes fit trips.parquet" in said


def test_python_dash_m():
    said = subprocess.run(
        [sys.executable, "-m", "tallbayes", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"tallbayes {tb.__version__}\n"


def test_unknown_scales(folder):
    """The scale is one more line of the summary, or has a formula of its own; the result predicts new rows."""
    rows, out = str(folder / "trips.parquet"), folder / "scale.nc"
    common = ["--family", "student_t(df=4)", "--draws", "100", "--seed", "1", "--json", "--quiet"]
    constant = run("fit", rows, "hour ~ origin", *common)
    assert "scale" in json.loads(constant.stdout)["summary"]
    result = run("fit", rows, "hour ~ origin", *common, "--scale-formula", "~ month", "--out", str(out))
    names = ["Intercept", "origin[T.JFK]", "origin[T.LGA]", "scale_beta[Intercept]", "scale_beta[month]"]
    assert list(json.loads(result.stdout)["summary"]) == names
    predicted = run("predict", str(out), str(folder / "new.parquet"), "--json")
    assert len(json.loads(predicted.stdout)) == 20
