"""What a run on far more rows would cost, computed from figures of this machine: `tall_costs.py [directory]`.

Measures what a pass costs for each row and core, how large rows are in a file, and how long a step of a chain takes;
then extrapolates. Assumptions are printed with the figures.
"""

import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
from tall import NAMES, make

import tallbayes as tb
from tallbayes.models import passes
from tallbayes.setup.setup import setup_of

N = 10**7
WORKERS, CORES, STORAGE = 100, 4, 200e6
"""Of the cluster: workers, cores of each, and bytes a second that each reads from storage."""
PARTITION, TASK = 1e7, 0.005
"""Rows of a partition, and seconds that a task costs the scheduler, whatever it does."""


def seconds_of_cpu(function) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    function()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "tallbayes-tall"
    path = make(N, directory)
    row_bytes = path.stat().st_size / N
    family = tb.families.Bernoulli()
    small = tb.Regression(make(200_000, directory), "y", family, design=NAMES)
    tb.sample(small, draws=100, seed=0, progress=False)  # compiles

    made: list[tb.Regression] = []
    profile = seconds_of_cpu(lambda: made.append(tb.Regression(path, "y", family, design=NAMES)))
    model = made[0]
    trees: list = []
    run = {"draws": 2500, "chains": 4, "threads": 1, "seed": 1, "progress": False}
    whole = seconds_of_cpu(lambda: trees.append(tb.sample(model, **run)))
    centre = setup_of(model).metric.centre
    slopes = seconds_of_cpu(lambda: model.source.reduce(passes.slopes, model.rows, model.predictors, centre))
    step = trees[0].attrs["sampling_seconds"] / (4 * (2500 + int(trees[0].attrs["warmup"])))
    count = int(setup_of(model).passes)
    core = (profile + whole) / count / N
    print(f"measured at n = {N:.0e}, d = {len(NAMES)}")
    print(f"  bytes of a row in the file                     {row_bytes:.1f}")
    print(f"  core-nanoseconds of a row, mean of {count} passes     {1e9 * core:.0f}")
    print(f"  core-nanoseconds of a row, gradient alone      {1e9 * slopes / N:.0f}")
    print(f"  microseconds of a step of a chain              {1e6 * step:.2f}")
    print(f"assumed: {WORKERS} workers of {CORES} cores, each reading {STORAGE / 1e6:.0f} MB/s; {count} passes;")
    print(f"  partitions of {PARTITION:.0e} rows; {1e3 * TASK:.0f} ms of the scheduler for each")
    titles = ("rows", "file, TB", "reading, s", "sums, s", "tasks, s", "passes, min", "core-hours")
    print("".join(f"{title:>13}" for title in titles))
    for n in (1e9, 1e11):
        reading, sums, tasks = (
            n * row_bytes / (WORKERS * STORAGE),
            n * core / (WORKERS * CORES),
            n / PARTITION * TASK,
        )
        minutes, hours = count * max(reading, sums, tasks) / 60, count * n * core / 3600
        figures = (n * row_bytes / 1e12, reading, sums, tasks, minutes, hours)
        print(f"{n:>13.0e}" + "".join(f"{figure:>13.2f}" for figure in figures))
    subsample = {n: 12.5 * np.sqrt(len(NAMES) * n) for n in (1e9, 1e11)}
    for n, rows in subsample.items():
        print(
            f"driver at {n:.0e} rows: a subsample of {rows:,.0f} rows, {rows * 8 * (len(NAMES) + 3) / 1e6:,.0f} MB"
        )


if __name__ == "__main__":
    main()
