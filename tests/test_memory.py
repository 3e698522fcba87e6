"""Memory: a run holds its result and little more, designs are not copied, and `explain` says what will be used."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tallbayes as tb

COMMON = """
import gc, json, sys, tracemalloc
import numpy as np
import tallbayes as tb

def logistic(n, d):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X.sum(axis=1)))).astype(float)
    return tb.Regression(X, y, tb.families.Bernoulli())
"""


def run(script, *arguments):
    """Run a script in a process of its own, where nothing else takes memory; return the JSON that it prints."""
    command = [sys.executable, "-W", "ignore", "-c", COMMON + textwrap.dedent(script), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="reads the peak of memory from Linux")
@pytest.mark.parametrize(("columns", "draws", "progress"), [(10, 400_000, False), (3, 1_500_000, True)])
def test_a_run_peaks_at_little_more_than_its_result(columns, draws, progress):
    """Resident memory, so that what compiled code and libraries take counts too."""
    peak, result = run(
        """
        def memory(name):
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

        columns, draws, progress = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
        sys.stderr = open("/dev/null", "w")
        model = logistic(2000, columns)
        tb.sample(model, draws=2000, chains=4, seed=1, progress=progress)  # compiled, and its libraries loaded
        gc.collect()
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak begins anew
        before = memory("VmRSS")
        tree = tb.sample(model, draws=draws, chains=4, seed=1, progress=progress)
        peak = memory("VmHWM") - before
        groups = (tree["posterior"], tree["sample_stats"])
        result = sum(np.asarray(values).nbytes for group in groups for values in group.data_vars.values())
        print(json.dumps([peak, result]))
        """,
        *map(str, (columns, draws, progress)),
    )
    assert result == 4 * draws * (columns * 8 + 8 + 1 + 1)
    assert peak > 0.9 * result  # it was measured
    assert peak < 1.2 * result + 60e6


FORECASTS = {
    "sketch-3": (tb.kernels.ScalableMH(order=3, sketch=True), 20_000, 300_000),
    "sketch-2": (tb.kernels.ScalableMH(order=2, sketch=True), 20_000, 300_000),
    "few-draws": (tb.kernels.ScalableMH(order=2), 20, 300_000),
    "many-draws": (tb.kernels.ScalableMH(order=2), 100_000, 20_000),
    "firefly": (tb.kernels.Firefly(), 1000, 300_000),
    "firefly-short": (tb.kernels.Firefly(), 20, 300_000),
    "wide": (tb.kernels.ScalableMH(order=2), 2500, 300_000, 20),
    "wide-sketch": (tb.kernels.ScalableMH(order=2, sketch=True), 100, 100_000, 60),
    "wide-third": (tb.kernels.ScalableMH(order=3), 100, 100_000, 150),
}
"""Kernel, draws, rows and columns, 8 unless said otherwise."""
OTHER_NUMBERS = ["int8", "float32", "int16"]
HELD_AS_THEY_ARE = ["int8", "bool_", "float32"]

MEASURE = """
BERNOULLI, ORDER_2 = tb.families.Bernoulli(), tb.kernels.ScalableMH(order=2)

def measure(X, y, kernel, model=None, **options):
    # The peak of a run, and of making its model if none is given, by tracemalloc, which sees NumPy's arrays.
    options = {"chains": 3, "threads": 2, **options}
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    model = tb.Regression(X, y, BERNOULLI) if model is None else model
    tree = tb.sample(model, kernel, seed=1, progress=False, **options)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    options.pop("warmup", None)
    predicted = 1e6 * tb.explain(model, kernel, **options).memory_megabytes
    return {"peak": peak, "predicted": predicted, "shared": bool(np.shares_memory(X, model.source.X))}

def load(model, kernel):
    # Compiled code, and libraries.
    tb.sample(model, kernel, draws=10, chains=2, seed=1, progress=False)

def some(low, high, n, d, dtype):
    rng = np.random.default_rng(1)
    return rng.integers(low, high, (n, d)).astype(dtype), (rng.random(n) < 0.5).astype(float)

forecasts, other_numbers, held = {}, {}, {}
for name, (kernel, draws, n, *d) in FORECASTS.items():
    load(logistic(5_000, *(d or [8])), kernel)
    model = logistic(n, *(d or [8]))
    forecasts[name] = measure(model.source.X, None, kernel, model, draws=draws, warmup=10)
for dtype in OTHER_NUMBERS:
    X, y = some(-3, 4, 300_000, 8, dtype)
    load(tb.Regression(X[:20_000], y[:20_000], BERNOULLI), ORDER_2)
    other_numbers[dtype] = measure(X, y, ORDER_2, draws=20, warmup=10)
load(logistic(20_000, 20), ORDER_2)
for dtype in HELD_AS_THEY_ARE:
    held[dtype] = measure(*some(0, 2, 400_000, 20, dtype), ORDER_2, draws=100, chains=1)
print(json.dumps([forecasts, other_numbers, held]))
"""


@pytest.fixture(scope="module")
def measured():
    """All that is measured by tracemalloc, one after the other in one process: to start one takes seconds."""
    kernels = (
        f"{name!r}: (tb.kernels.{kernel!r}, {', '.join(map(str, rest))})"
        for name, (kernel, *rest) in FORECASTS.items()
    )
    given = f"FORECASTS = {{{', '.join(kernels)}}}\n{OTHER_NUMBERS = }\n{HELD_AS_THEY_ARE = }\n"
    return run(given + MEASURE)


@pytest.mark.parametrize("name", FORECASTS)
def test_predicted_memory_is_what_is_used(measured, name):
    """The set-up's peak, tables, what chains have of their own, draws."""
    peak, predicted = (measured[0][name][kind] for kind in ("peak", "predicted"))
    assert predicted > 10e6
    assert 0.7 * peak < predicted < 1.3 * peak


@pytest.mark.parametrize("dtype", OTHER_NUMBERS)
def test_predicted_memory_counts_what_is_made_of_other_kinds_of_numbers(measured, dtype):
    """Blocks in float64; and a copy of the design where its kind is rare."""
    peak, predicted = (measured[1][dtype][kind] for kind in ("peak", "predicted"))
    assert 0.7 * peak < predicted < 1.3 * peak


def test_predicted_memory_grows_with_draws_and_chains():
    rng = np.random.default_rng(1)
    model = tb.Regression(rng.standard_normal((5000, 4)), rng.random(5000) < 0.5, tb.families.Bernoulli())
    one = 4 * 8 + 10
    for kernel, own in ((tb.kernels.ScalableMH(order=2), 0), (tb.kernels.Firefly(), 24 * 5000)):
        few = tb.explain(model, kernel, draws=1, chains=1, threads=2).memory_megabytes
        base = tb.explain(model, kernel, draws=20_000, chains=1, threads=2).memory_megabytes
        more = tb.explain(model, kernel, draws=30_000, chains=1, threads=2).memory_megabytes
        chains = tb.explain(model, kernel, draws=20_000, chains=3, threads=2).memory_megabytes
        assert few < base  # what the set-up takes, and gives back
        # Each draw is in the result, and where its chunk was written; and chains are judged by two coefficients at a
        # time in each of two threads, or by one if there are so many draws.
        assert 1e6 * (more - base) == pytest.approx(2 * 10_000 * one + 4 * 80 * 10_000)
        assert 1e6 * (chains - base) == pytest.approx(2 * (2 * 20_000 * one + own) + 80 * (2 * 3 - 4) * 20_000)


@pytest.mark.parametrize("dtype", HELD_AS_THEY_ARE)
def test_no_copy_of_the_design_is_made(measured, dtype):
    """A design of 64 MB as float64: model, set-up and a few draws take less than a third of that."""
    assert measured[2][dtype]["shared"]
    assert measured[2][dtype]["peak"] < 64e6 / 3
