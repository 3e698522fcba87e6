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
@pytest.mark.parametrize("progress", [False, True])
def test_a_run_peaks_at_little_more_than_its_result(progress):
    """Resident memory, so that what compiled code and libraries take counts too."""
    peak, result = run(
        """
        def memory(name):
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

        progress = sys.argv[1] == "True"
        sys.stderr = open("/dev/null", "w")
        model = logistic(2000, 10)
        tb.sample(model, draws=2000, chains=4, seed=1, progress=progress)  # compiled, and its libraries loaded
        gc.collect()
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak begins anew
        before = memory("VmRSS")
        tree = tb.sample(model, draws=400_000, chains=4, seed=1, progress=progress)
        peak = memory("VmHWM") - before
        groups = (tree["posterior"], tree["sample_stats"])
        result = sum(np.asarray(values).nbytes for group in groups for values in group.data_vars.values())
        print(json.dumps([peak, result]))
        """,
        str(progress),
    )
    assert result == 4 * 400_000 * (10 * 8 + 8 + 1 + 1)
    assert peak > 0.9 * result  # it was measured
    assert peak < 1.2 * result + 60e6


@pytest.mark.parametrize(
    ("kernel", "draws", "n"),
    [
        (tb.kernels.ScalableMH(order=3, sketch=True), 20_000, 300_000),
        (tb.kernels.ScalableMH(order=2, sketch=True), 20_000, 300_000),
        (tb.kernels.ScalableMH(order=2), 20, 300_000),
        (tb.kernels.ScalableMH(order=2), 100_000, 20_000),
        (tb.kernels.Firefly(), 1000, 300_000),
        (tb.kernels.Firefly(), 20, 300_000),
    ],
    ids=["sketch-3", "sketch-2", "few-draws", "many-draws", "firefly", "firefly-short"],
)
def test_predicted_memory_is_what_is_used(kernel, draws, n):
    """The set-up's peak, tables, what chains have of their own, draws: by tracemalloc, which sees NumPy's arrays."""
    predicted, peak = run(
        f"""
        kernel = tb.kernels.{kernel!r}
        tb.sample(logistic(20_000, 8), kernel, draws=10, chains=2, seed=1, progress=False)
        model = logistic({n}, 8)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tree = tb.sample(model, kernel, draws={draws}, chains=3, seed=1, warmup=10, progress=False, threads=2)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        explained = tb.explain(model, kernel, draws={draws}, chains=3, threads=2)
        print(json.dumps([1e6 * explained.memory_megabytes, peak]))
        """
    )
    assert predicted > 10e6
    assert 0.7 * peak < predicted < 1.3 * peak


@pytest.mark.parametrize("dtype", ["np.int8", "np.float32", "np.int16"])
def test_predicted_memory_counts_what_is_made_of_other_kinds_of_numbers(dtype):
    """Blocks in float64; and a copy of the design where its kind is rare."""
    predicted, peak = run(
        f"""
        kernel = tb.kernels.ScalableMH(order=2)
        rng = np.random.default_rng(1)
        X, y = rng.integers(-3, 4, (300_000, 8)).astype({dtype}), (rng.random(300_000) < 0.5).astype(float)
        small = tb.Regression(X[:20_000], y[:20_000], tb.families.Bernoulli())
        tb.sample(small, kernel, draws=10, chains=2, seed=1, progress=False)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        model = tb.Regression(X, y, tb.families.Bernoulli())
        tree = tb.sample(model, kernel, draws=20, chains=3, seed=1, warmup=10, progress=False, threads=2)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        explained = tb.explain(model, kernel, draws=20, chains=3, threads=2)
        print(json.dumps([1e6 * explained.memory_megabytes, peak]))
        """
    )
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
        # Each draw is in the result; and two coefficients at a time in the look at how chains have mixed.
        assert 1e6 * (more - base) == pytest.approx(10_000 * one + 2 * 60 * 10_000)
        assert 1e6 * (chains - base) == pytest.approx(2 * (20_000 * one + own) + 2 * 60 * 2 * 20_000)


@pytest.mark.parametrize("dtype", ["np.int8", "np.bool_", "np.float32"])
def test_no_copy_of_the_design_is_made(dtype):
    """A design of 64 MB as float64: model, set-up and a few draws take less than a third of that."""
    peak, shared = run(
        f"""
        tb.sample(logistic(20_000, 20), tb.kernels.ScalableMH(order=2), draws=10, chains=1, seed=1, progress=False)
        rng = np.random.default_rng(1)
        X = rng.integers(0, 2, (400_000, 20)).astype({dtype})
        y = (rng.random(400_000) < 0.5).astype(float)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        model = tb.Regression(X, y, tb.families.Bernoulli())
        kernel = tb.kernels.ScalableMH(order=2)
        tree = tb.sample(model, kernel, draws=100, chains=1, seed=1, progress=False, threads=2)
        peak = tracemalloc.get_traced_memory()[1] - before
        print(json.dumps([peak, bool(np.shares_memory(X, model.source.X))]))
        """
    )
    assert shared
    assert peak < 64e6 / 3
