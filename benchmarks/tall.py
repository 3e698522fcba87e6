"""A file that does not fit: time, passes, memory and draws of a logistic posterior from Parquet.

    python benchmarks/tall.py make 1e8 [directory] [row_group]     makes the file (about 3.2 GB at 1e8)
    python benchmarks/tall.py run 1e8 [directory]                  samples it and compares with bare reads
    python benchmarks/tall.py memory [directory]                   peaks at 1e7 and 1e8 rows
    python benchmarks/tall.py layouts [directory]                  draws from several row groups and a memory map
    python benchmarks/tall.py sorted [directory]                   passes of sorted and shuffled files

The directory is one below the system's temporary directory by default.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

D = 8
NAMES = [f"x{j}" for j in range(D)]
BETA = np.linspace(-1.0, 1.0, D)
PART = 1_000_000
READS = 3


def parts(n: int):
    """Yield designs and responses, a million rows at a time."""
    for number, first in enumerate(range(0, n, PART)):
        rng = np.random.default_rng((2019, number))
        rows = min(PART, n - first)
        X = rng.standard_normal((rows, D), dtype=np.float32)
        X[:, 0] = 1.0
        y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-X @ BETA))).astype(np.float32)
        yield X, y


def table(X: np.ndarray, y: np.ndarray):
    import pyarrow as pa

    return pa.table({**{name: np.ascontiguousarray(X[:, j]) for j, name in enumerate(NAMES)}, "y": y})


def make(n: int, directory: Path, row_group: int = PART) -> Path:
    """Write the file with pyarrow's own settings, unless it is there."""
    import pyarrow.parquet as pq

    path = directory / f"rows-{n}-{row_group}.parquet"
    if path.exists():
        return path
    directory.mkdir(parents=True, exist_ok=True)
    partial, writer = path.with_suffix(".part"), None
    for X, y in parts(n):
        rows = table(X, y)
        writer = writer or pq.ParquetWriter(partial, rows.schema)
        writer.write_table(rows, row_group_size=row_group)
    writer.close()
    partial.rename(path)
    return path


READ = """
import json, resource, sys, time
import pyarrow.dataset as ds

before = resource.getrusage(resource.RUSAGE_SELF)
started = time.perf_counter()
rows = sum(batch.num_rows for batch in ds.dataset(sys.argv[1]).to_batches(columns=sys.argv[2:]))
used = resource.getrusage(resource.RUSAGE_SELF)
cores = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps([time.perf_counter() - started, cores]))
"""


def bare_reads(path: Path) -> list[list[float]]:
    """Return seconds, and seconds of cores, of some bare reads of the same columns, decoded and thrown away.

    In processes of their own: the scanner holds a large part of the file, which would be taken for our memory.
    """
    code = [sys.executable, "-c", READ, str(path), *NAMES, "y"]
    done = [subprocess.run(code, check=True, capture_output=True, text=True).stdout for _ in range(READS)]
    return [json.loads(text) for text in done]


def cores() -> float:
    """Return the seconds of cores that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def warm_up(directory: Path) -> None:
    """Compile, or load what was compiled, on a small file."""
    import tallbayes as tb

    model = tb.Regression(make(200_000, directory), "y", tb.families.Bernoulli(), design=NAMES)
    tb.sample(model, draws=100, seed=0, progress=False)


def run(path: Path) -> dict:
    """Sample a file, and say what it took."""
    import tallbayes as tb

    warm_up(path.parent)
    reads = bare_reads(path)
    started, before = time.perf_counter(), cores()
    model = tb.Regression(path, "y", tb.families.Bernoulli(), design=NAMES)
    tree = tb.sample(model, draws=2500, chains=4, seed=1)
    seconds, used = time.perf_counter() - started, cores() - before
    # Reads before and after: other programs may use the machine at the same time.
    read, read_cores = np.min(reads + bare_reads(path), axis=0)
    passes = int(tree.attrs["passes"])
    beta = np.asarray(tree["posterior"]["beta"])
    mode, covariance = (np.asarray(tree["laplace"][name]) for name in ("mode", "covariance"))
    apart = (beta.mean(axis=(0, 1)) - mode) / np.sqrt(np.diag(covariance))
    return {
        "rows": model.n,
        "seconds": seconds,
        "passes": passes,
        "core-seconds": used,
        "bare read": read,
        "core-seconds of a bare read": read_cores,
        "ratio to as many bare reads": seconds / (passes * read),
        "the same in core-seconds": used / (passes * read_cores),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rows per draw": float(tree["sample_stats"]["rows_touched"].mean()),
        "means less mode, in sd": np.round(apart, 3).tolist(),
        "violations": int(tree.attrs["bound_violations"]),
    }


def memory(directory: Path) -> None:
    """Compare peaks of processes of their own, which do nothing but sample."""
    peaks = {}
    for n in (10**7, 10**8):
        make(n, directory)
        done = subprocess.run(
            [sys.executable, __file__, "run", str(n), str(directory)], check=True, capture_output=True, text=True
        )
        peaks[n] = json.loads(done.stdout.strip().splitlines()[-1])["peak MB"]
        print(f"n = {n:.0e}: peak {peaks[n]:,.0f} MB")
    print(f"ratio {peaks[10**8] / peaks[10**7]:.3f}")


def draws_of(*given, **named) -> tuple[np.ndarray, int]:
    import tallbayes as tb

    tree = tb.sample(tb.Regression(*given, **named), draws=1000, chains=4, seed=5, progress=False)
    return np.asarray(tree["posterior"]["beta"]), int(tree.attrs["passes"])


def layouts(directory: Path, n: int = 10**6) -> None:
    """Say whether draws are the same, whatever the row groups."""
    import tallbayes as tb

    family, found = tb.families.Bernoulli(), {}
    for row_group in (1000, 65536, PART):
        found[f"row groups of {row_group:,}"] = draws_of(make(n, directory, row_group), "y", family, design=NAMES)
    X, y = (np.concatenate(part) for part in zip(*parts(n), strict=True))
    for name, values in (("X", X), ("y", y)):
        np.save(directory / f"{name}.npy", values)
    found["memory map"] = draws_of(directory / "X.npy", directory / "y.npy", family)
    found["arrays"] = draws_of(X, y, family)
    first = found["row groups of 1,000"][0]
    for name, (beta, passes) in found.items():
        apart = np.max(np.abs(beta.mean(axis=(0, 1)) - first.mean(axis=(0, 1))) / first.std(axis=(0, 1)))
        same = "identical draws" if np.array_equal(beta, first) else f"means within {apart:.3f} sd"
        print(f"{name:<24}{passes} passes, {same}")


def in_order(directory: Path, n: int = 10**6) -> None:
    """Compare files whose rows are shuffled, sorted by response, and in two halves that differ."""
    import pyarrow.parquet as pq

    import tallbayes as tb

    X, y = (np.concatenate(part) for part in zip(*parts(n), strict=True))
    half = n // 2
    X2, y2 = X.copy(), y.copy()
    X2[half:, 1:] += 1.0
    rng = np.random.default_rng(3)
    y2[half:] = rng.random(n - half) < 1.0 / (1.0 + np.exp(-X2[half:] @ (BETA + 0.5)))
    shuffle, by_response = rng.permutation(n), np.argsort(y, kind="stable")
    orders = {
        "shuffled": (X[shuffle], y[shuffle]),
        "sorted by response": (X[by_response], y[by_response]),
        "two halves": (X2, y2),
        "two halves, shuffled": (X2[shuffle], y2[shuffle]),
    }
    for name, rows in orders.items():
        path = directory / "order.parquet"
        pq.write_table(table(*rows), path)
        beta, passes = draws_of(path, "y", tb.families.Bernoulli(), design=NAMES)
        arrays, _ = draws_of(*rows, tb.families.Bernoulli())
        apart = (beta.mean(axis=(0, 1)) - arrays.mean(axis=(0, 1))) / arrays.std(axis=(0, 1))
        print(f"{name:<24}{passes} passes, means less those of arrays, in sd: {np.round(apart, 2).tolist()}")


def main() -> None:
    what, *rest = sys.argv[1:] or ["run"]
    n = int(float(rest.pop(0))) if what in {"make", "run"} and rest else 10**7
    directory = Path(rest[0]) if rest else Path(tempfile.gettempdir()) / "tallbayes-tall"
    directory.mkdir(parents=True, exist_ok=True)
    if what == "make":
        print(make(n, directory, int(float(rest[1])) if len(rest) > 1 else PART))
    elif what == "run":
        found = run(make(n, directory))
        for name, value in found.items():
            print(f"{name:<30}{value}", file=sys.stderr)
        print(json.dumps(found))
    else:
        {"memory": memory, "layouts": layouts, "sorted": in_order}[what](directory)


if __name__ == "__main__":
    main()
