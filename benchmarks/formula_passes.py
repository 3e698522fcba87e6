"""A formula on a Parquet file that is not held in memory: what a pass costs beside reading it, and memory."""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tallbayes as tb

FORMULA = "late ~ x + z + C(month) + carrier"
ROWS = 500_000


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    carriers = np.array(["AA", "B6", "DL", "EV", "UA", "US", "WN"])
    writer = None
    for first in range(0, rows, ROWS):
        n = min(ROWS, rows - first)
        x, month = rng.standard_normal(n), rng.integers(1, 13, n)
        late = rng.random(n) < 1 / (1 + np.exp(1.5 - 0.5 * x - 0.05 * month))
        columns = {"x": x, "z": rng.random(n), "month": month, "carrier": rng.choice(carriers, n), "late": late}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def nothing(block) -> float:
    return 0.0


def seconds(action) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, options.rows)
        columns = ["late", "x", "z", "month", "carrier"]
        dataset = pq.ParquetFile(path)
        read = seconds(lambda: [None for _ in dataset.iter_batches(columns=columns)])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        started = time.perf_counter()
        model = tb.glm(FORMULA, path, tb.families.Bernoulli(), stream=True)
        made = time.perf_counter() - started
        passing = min(seconds(lambda: model.source.reduce(nothing)) for _ in range(2))
        started = time.perf_counter()
        tree = tb.sample(model, draws=1000, seed=1, progress=False)
        sampled = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        size = path.stat().st_size / 1e6
        print(
            f"{options.rows:,} rows, {model.d} columns, {size:,.0f} MB of Parquet; the design would take "
            f"{8e-6 * options.rows * model.d:,.0f} MB"
        )
        print(f"reading the columns once      {read:.2f} s")
        print(f"a pass over all blocks        {passing:.2f} s")
        print(f"the model (two passes)        {made:.2f} s")
        print(f"set-up and 4 x 1,000 draws    {sampled:.2f} s, {model.source.passes} passes in all")
        print(f"memory above the start        {peak - before:,.0f} MB")
        print(f"rows touched                  {int(tree['sample_stats']['rows_touched'].sum()):,}")


if __name__ == "__main__":
    main()
