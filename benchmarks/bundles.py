"""Bundles of a sketch: events and time of a step for each size, beside rows tried one by one and what is chosen.

`bundles.EVENT_BYTES` and the costs of `kernels/costs.py` (random_row, bundle, sketch) come from here.
"""

import dataclasses
import time

import numpy as np

import tallbayes as tb
from tallbayes.kernels.driver import Driver
from tallbayes.kernels.state import empty_draws
from tallbayes.setup.bundles import SIZES, bundled, in_bundles
from tallbayes.setup.sketch import draw_sketch, put_in_order, rounding_of_states

PROBLEMS = {
    "normal columns, d = 200": (2**18, 200),
    "normal columns, d = 50": (2**19, 50),
    "normal columns, d = 20": (2**19, 20),
    "thirty levels and 20 columns": (2**19, -20),
    "two factors of 25 levels": (2**19, 0),
}


def model_of(n: int, d: int) -> tb.Regression:
    """Return a robust regression on normal columns, on levels, or on both."""
    rng = np.random.default_rng(d + 100)
    if d > 0:
        X = rng.standard_normal((n, d))
    elif d < 0:
        X = np.column_stack([np.eye(30)[rng.integers(0, 30, n)], rng.standard_normal((n, -d))])
    else:
        X = np.column_stack([np.eye(25)[rng.integers(0, 25, n)], np.eye(25)[rng.integers(0, 25, n)][:, 1:]])
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_t(4.0, n)
    return tb.Regression(X, y, tb.families.StudentT(4.0, 1.0))


def time_steps(prepared, seconds: float = 1.0) -> tuple[float, float]:
    """Return events and microseconds of a step, at best."""
    d, steps, best = prepared.model.d, 500, np.inf
    for seed in range(4):
        driver = Driver(prepared, np.random.Generator(np.random.SFC64(seed)), np.zeros(d))
        draws = empty_draws(steps, d)
        started = time.perf_counter()
        driver.advance(draws, 2**62)
        taken = time.perf_counter() - started
        work = float(driver.state.numbers["work"][0]) - steps
        if seed > 0:  # the first compiles
            best = min(best, taken / steps)
        else:
            steps = int(np.clip(seconds * steps / taken, 500, 50_000))
    return work / max(prepared.target.bundles.size, 1) / steps, 1e6 * best


def main() -> None:
    print(f"{'':<30}{'rows':>8}{'events':>10}{'us':>9}{'ns an event':>13}")
    for name, (n, d) in PROBLEMS.items():
        model = model_of(n, d)
        kernel = tb.kernels.ScalableMH(order=2, sketch=False, truncation=np.inf)
        events, took = time_steps(kernel.prepare(model))
        print(
            f"{name:<30}{'each':>8}{events:>10.1f}{took:>9.1f}{1e3 * took / max(events, 1e-9):>13.0f}", flush=True
        )
        prepared = dataclasses.replace(kernel, sketch=True).prepare(model)
        target = prepared.target
        for size in SIZES:
            bundles = in_bundles(*target.bundles[:3], size, 2, rounding_of_states(model.d))
            of_size = target._replace(bundles=bundles, bound=target.bound._replace(total=bundles.total))
            events, took = time_steps(dataclasses.replace(prepared, target=of_size))
            chosen = "  chosen" if size == target.bundles.size else ""
            print(
                f"{'':<30}{size:>8}{events:>10.1f}{took:>9.1f}{1e3 * took / max(events, 1e-9):>13.0f}{chosen}",
                flush=True,
            )
        psi, drawing = target.rows.psi, model.setup.bounds(tb.bounds.Local(), 2).drawing
        started = time.perf_counter()
        sketch = draw_sketch(model, prepared.metric, threads=1)
        drawn = time.perf_counter()
        put_in_order(sketch, psi, threads=1)
        bundled(sketch, drawing, model.d, 2, threads=1)
        ended = time.perf_counter()
        times = 1e9 * (drawn - started) / n, 1e9 * (ended - drawn) / n
        print(
            f"{'':<30}one thread, ns a row: whitened and sketched {times[0]:.0f}, put into bundles {times[1]:.0f}"
        )


if __name__ == "__main__":
    main()
