"""What predictions of a million rows from 4,000 draws take: time, and memory above that of the data.

python benchmarks/predictions.py [rows]
"""

import sys
import threading
import time
from pathlib import Path

import numpy as np

import tallbayes as tb

ROWS, COLUMNS = 1_000_000, 10


def resident() -> float:
    """Return the memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


class Peak:
    """The largest memory within a block, sampled every few milliseconds."""

    def __enter__(self) -> "Peak":
        """Begin to look."""
        self.before = self.largest = resident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.005):
            self.largest = max(self.largest, resident())

    def __exit__(self, *_: object) -> None:
        """Stop looking."""
        self._done.set()
        self._thread.join()


def main(rows: int) -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(rows), rng.standard_normal((rows, COLUMNS - 2)), rng.random(rows) < 0.3])
    y = rng.random(rows) < 1 / (1 + np.exp(-X @ np.r_[-2.0, 0.3 * rng.standard_normal(COLUMNS - 2), 0.7]))
    names = ["intercept", *(f"x{j}" for j in range(1, COLUMNS - 1)), "night"]
    model = tb.Regression(X, y, tb.families.Bernoulli(), names=names)
    tree = tb.sample(model, draws=1000, chains=4, seed=1, progress=False)
    tb.predict(tree, model, X[:10])  # compiles, and loads pandas
    jobs = {
        "predict, average over all rows": lambda: tb.predict(tree, model, average=True),
        "predict, average by group": lambda: tb.predict(tree, model, by="night"),
        "comparisons, average": lambda: tb.comparisons(tree, model, "night"),
        "predict, every row with intervals": lambda: tb.predict(tree, model),
        "comparisons, every row with intervals": lambda: tb.comparisons(tree, model, "night", average=False),
    }
    print(f"{rows:,} rows x 4,000 draws, {COLUMNS} columns; data {X.nbytes / 1e6:,.0f} MB")
    for name, job in jobs.items():
        clock, cpu = time.perf_counter(), time.process_time()
        with Peak() as peak:
            job()
        seconds, used = time.perf_counter() - clock, time.process_time() - cpu
        print(
            f"{name:40} {seconds:6.1f} s ({used:6.1f} s of processor), {peak.largest - peak.before:6.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
