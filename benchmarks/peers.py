"""Why tallbayes? One table: ESS per second and time to 1,000 of them, beside what people use.

Logistic regression and Student-t regression (4 degrees of freedom, known scale), normal priors with standard
deviation 10, standard normal columns, all coefficients sqrt(10 / d). Every cell is a process of its own, on one
core, in double precision; one that takes longer than the limit is stopped, and the table says so. Finished cells
are kept in ``results/peers.json`` beside this file, and not repeated.

- draws/s: effective draws (arviz-stats' bulk ESS of the worst coefficient) for each second of sampling, after
  set-up, compilation and warm-up.
- warm: seconds to 1,000 effective draws with compiled code at hand: set-up (mode, bounds, tables) and warm-up or
  adaptation, and 1,000 / (draws/s).
- cold: the same from a cold start, compilation included; data in memory and packages imported in both cases.

Point fits have no draws: their time is that of the fit. Laplace draws are not from the posterior, but from the
Gaussian approximation at its mode.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
MODELS, COLUMNS, SIZES, QUICK_SIZES = (
    ("logistic", "student"),
    (10, 50),
    (10**3, 10**4, 10**5, 10**6),
    (10**3, 10**4),
)
SECONDS = 2.0
"""Aim of the sampling of one cell; slow methods take longer, up to the limit."""
PATIENCE = 60.0
"""Seconds for a second attempt at a method that gave too few effective draws in the first."""
WARMUP, BLOCK = 300, 25
"""Adaptation of NUTS, which needs no more here: posteriors are close to normal, columns alike."""
TITLES = {
    "tallbayes": "tallbayes",
    "smh2": "SMH-2, as in the paper",
    "mh": "Metropolis-Hastings",
    "firefly": "Firefly",
    "zigzag": "Zig-Zag",
    "numpyro": "NUTS (NumPyro)",
    "nutpie": "NUTS (nutpie)",
    "laplace": "Laplace draws (not exact)",
    "sklearn": "scikit-learn (point fit)",
    "statsmodels": "statsmodels (point fit)",
}
ROUGH = 100.0
"""Effective draws below which their number is not worth much."""
MARKS = "<!-- made by benchmarks/peers.py -->", "<!-- end -->"
OURS = ("tallbayes", "smh2", "mh", "firefly", "zigzag")
SAMPLERS = (*OURS, "numpyro", "nutpie")


def make_data(name: str, d: int, n: int):
    import numpy as np

    rng = np.random.default_rng([n, d])
    X = rng.standard_normal((n, d))
    eta = X.sum(axis=1) * (10.0 / d) ** 0.5
    if name == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return X, eta + rng.standard_t(4, n)


# Cells: each runs in its own process and returns plain numbers.


def worst_ess(draws) -> float:
    """Return the bulk ESS of the worst coefficient of one chain, (draw, coefficient)."""
    import numpy as np
    from arviz_stats.base import array_stats

    return float(
        np.min(array_stats.ess(np.ascontiguousarray(draws[None]), chain_axis=0, draw_axis=1, method="bulk"))
    )


def our_kernel(method: str):
    import tallbayes as tb

    return {
        "tallbayes": None,
        "smh2": tb.kernels.ScalableMH(
            order=2, bound=tb.bounds.Global(), proposal=tb.proposals.CrankNicolson(rho=0.0)
        ),
        "mh": tb.kernels.MetropolisHastings(),
        "firefly": tb.kernels.Firefly(),
        "zigzag": tb.kernels.ZigZag(),
        "laplace": tb.kernels.MetropolisHastings(tb.proposals.CrankNicolson(rho=0.0)),
    }[method]


def our_model(name: str, d: int, n: int):
    import tallbayes as tb

    family = tb.families.Bernoulli() if name == "logistic" else tb.families.StudentT(df=4.0, scale=1.0)
    return tb.Regression(*make_data(name, d, n), family, tb.priors.Normal(0.0, 10.0))


def ours(method: str, name: str, d: int, n: int) -> dict[str, float]:
    import tallbayes as tb

    model, kernel = our_model(name, d, n), our_kernel(method)

    def run(draws: int, warmup: int | None = None):
        return tb.sample(model, kernel, draws=draws, chains=1, warmup=warmup, seed=1, threads=1, progress=False)

    run(2, 0)  # compiles, or reads what was compiled
    pilot = run(50, 0).attrs["sampling_seconds"] / 50
    draws = int(min(max(SECONDS / pilot, 1000), 1_000_000))
    for _ in range(2):
        tree = run(draws)
        step = tree.attrs["sampling_seconds"] / (draws + tree.attrs["warmup"])
        ess = worst_ess(tree["posterior"]["beta"].values[0])
        if ess > ROUGH or 8 * draws * step > PATIENCE:
            break
        draws *= 8  # once more, for a number that is worth something
    setup = tree.attrs["setup_seconds"] + step * tree.attrs["warmup"]
    return {"rate": ess / (step * draws), "ess": ess, "setup": setup}


def compile_ours(method: str, name: str) -> dict[str, float]:
    """Return the seconds that compilation takes, the cache of compiled code being empty."""
    import tallbayes as tb

    model, kernel = our_model(name, 10, 1000), our_kernel(method)
    times = []
    for _ in range(2):
        started = time.perf_counter()
        tb.sample(model, kernel, draws=20, chains=1, warmup=20, seed=1, threads=1, progress=False)
        times.append(time.perf_counter() - started)
    return {"compile": max(times[0] - times[1], 0.0)}


def laplace(name: str, d: int, n: int) -> dict[str, float]:
    import numpy as np

    import tallbayes as tb

    model = our_model(name, d, n)
    for _ in range(2):  # the second with compiled code
        tree = tb.sample(model, our_kernel("laplace"), draws=1, chains=1, warmup=0, threads=1, progress=False)
    started, draws = time.perf_counter(), 100_000
    root = np.linalg.cholesky(tree["laplace"]["covariance"].values)
    np.random.default_rng(1).standard_normal((draws, d)) @ root.T + tree["laplace"]["mode"].values
    return {"rate": draws / (time.perf_counter() - started), "ess": draws, "setup": tree.attrs["setup_seconds"]}


def numpyro(name: str, d: int, n: int) -> dict[str, float]:
    import jax
    import numpy as np
    import numpyro as npr
    import numpyro.distributions as dist
    from numpyro.infer import NUTS

    npr.enable_x64()
    X, y = (jax.numpy.asarray(part) for part in make_data(name, d, n))

    def model(X, y):
        beta = npr.sample("beta", dist.Normal(0.0, 10.0).expand([d]).to_event(1))
        likelihood = dist.Bernoulli(logits=X @ beta) if name == "logistic" else dist.StudentT(4.0, X @ beta, 1.0)
        npr.sample("y", likelihood, obs=y)

    kernel = NUTS(model)

    def advance(state, X, y):
        def step(state, _):
            state = kernel.sample(state, (X, y), {})
            return state, state.z["beta"]

        return jax.lax.scan(step, state, None, length=BLOCK)

    started = time.perf_counter()
    state = kernel.init(jax.random.PRNGKey(1), WARMUP, None, (X, y), {})
    block = jax.jit(advance).lower(state, X, y).compile()
    compilation = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(WARMUP // BLOCK):
        state, _ = jax.block_until_ready(block(state, X, y))
    setup = time.perf_counter() - started
    started, draws = time.perf_counter(), []
    while time.perf_counter() - started < 2 * SECONDS or len(draws) * BLOCK < 100:
        state, more = block(state, X, y)
        draws.append(np.asarray(more))
    seconds = time.perf_counter() - started
    ess = worst_ess(np.concatenate(draws))
    return {"rate": ess / seconds, "ess": ess, "setup": setup, "compile": compilation}


def nutpie(name: str, d: int, n: int) -> dict[str, float]:
    import warnings

    warnings.simplefilter("ignore")
    import nutpie as ntp
    import pymc as pm

    X, y = make_data(name, d, n)
    started = time.perf_counter()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 10.0, shape=d)
        if name == "logistic":
            pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype(int))
        else:
            pm.StudentT("y", nu=4.0, mu=X @ beta, sigma=1.0, observed=y)
    compiled = ntp.compile_pymc_model(model)
    compilation = time.perf_counter() - started
    draws = 1000 if n * d <= 10**6 else 100
    started = time.perf_counter()
    trace = ntp.sample(compiled, draws=draws, tune=WARMUP, chains=1, cores=1, progress_bar=False, seed=1)
    seconds = time.perf_counter() - started
    # Time is spent on gradients: share it out by the leapfrog steps of adaptation and of draws.
    steps, before = (float(group["n_steps"].sum()) for group in (trace.sample_stats, trace.warmup_sample_stats))
    sampling = seconds * steps / (steps + before)
    ess = worst_ess(trace.posterior["beta"].values[0])
    return {"rate": ess / sampling, "ess": ess, "setup": seconds - sampling, "compile": compilation}


def fit(prepare: Callable[[], Callable[[], object]]) -> dict[str, float]:
    """Time a point fit, the second of two: nothing is compiled, but packages load parts of themselves."""
    run = prepare()
    times = []
    for _ in range(2):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return {"setup": min(times)}


def sklearn(name: str, d: int, n: int) -> dict[str, float]:
    def prepare():
        from sklearn.linear_model import HuberRegressor, LogisticRegression

        X, y = make_data(name, d, n)
        estimator = LogisticRegression(C=100.0, fit_intercept=False) if name == "logistic" else HuberRegressor()
        return lambda: estimator.fit(X, y)

    return fit(prepare)


def statsmodels(name: str, d: int, n: int) -> dict[str, float]:
    def prepare():
        import statsmodels.api as sm

        X, y = make_data(name, d, n)
        return (lambda: sm.Logit(y, X).fit(disp=0)) if name == "logistic" else (lambda: sm.RLM(y, X).fit())

    return fit(prepare)


def cell(method: str, name: str, d: int, n: int) -> dict[str, float]:
    if method.startswith("compile "):
        return compile_ours(method.removeprefix("compile "), name)
    if method in OURS:
        return ours(method, name, d, n)
    return {f.__name__: f for f in (laplace, numpyro, nutpie, sklearn, statsmodels)}[method](name, d, n)


# The run: one process for each cell, results kept.

ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def in_a_process(method: str, name: str, d: int, n: int, limit: float) -> dict[str, object]:
    """Run a cell in a process of its own; say what happened if it gives no numbers."""
    command = [sys.executable, __file__, "--cell", method, name, str(d), str(n)]
    with tempfile.TemporaryDirectory() as empty:
        fresh = {"TALLBAYES_CACHE_DIR": empty} if method.startswith("compile ") else {}
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **ONE_CORE, **fresh},
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"cut off after {limit:.0f} s"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        missing = "not installed" if "ModuleNotFoundError" in last else f"failed: {last[:80]}"
        return {"failed": missing}
    return json.loads(done.stdout.strip().splitlines()[-1])


def key(method: str, name: str, d: int, n: int) -> str:
    return f"{method}|{name}|{d}|{n}"


def measure(sizes: tuple[int, ...], limit: float, path: Path) -> dict[str, dict]:
    """Run every cell that is not kept yet, small ones first."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    wanted = [(f"compile {method}", name, 10, 1000) for method in OURS for name in MODELS]
    wanted += [(method, name, d, n) for n in sizes for d in COLUMNS for name in MODELS for method in TITLES]
    for number, (method, name, d, n) in enumerate(wanted):
        if key(method, name, d, n) in kept:
            continue
        smaller = kept.get(key(method, name, d, n // 10), {})
        started = time.perf_counter()
        if "failed" in smaller and "installed" not in smaller["failed"]:
            result = {"failed": "not started: n / 10 was cut off"}
        elif method in ("numpyro", "nutpie") and 10.0 * smaller.get("setup", 0.0) > limit:
            # Both adapt for a fixed number of steps, each some passes over ten times the rows.
            result = {"failed": f"not started: n / 10 adapted for {smaller['setup']:.0f} s"}
        else:
            result = in_a_process(method, name, d, n, limit)
        result["seconds"] = time.perf_counter() - started
        kept[key(method, name, d, n)] = result
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept, indent=1))
        shown = {k: v if isinstance(v, str) else float(f"{v:.3g}") for k, v in result.items()}
        print(
            f"{number + 1}/{len(wanted)} {method}, {name}, d = {d}, n = {n:,}: {shown}", file=sys.stderr, flush=True
        )
    return kept


def about() -> list[str]:
    """Return machine, versions and date."""
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":")[1].strip() if names else processor
    versions = [f"Python {platform.python_version()}"]
    for package in (
        "tallbayes",
        "numpy",
        "numba",
        "numpyro",
        "jax",
        "nutpie",
        "pymc",
        "scikit-learn",
        "statsmodels",
    ):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{package} not installed")
    load = f" Load average at the end: {os.getloadavg()[2]:.1f}." if hasattr(os, "getloadavg") else ""
    return [
        f"{datetime.now(UTC):%Y-%m-%d}, {processor}, {os.cpu_count()} cores of which one was used.{load}",
        ", ".join(versions) + ".",
    ]


def number(value: float) -> str:
    """Return three figures, and commas in what is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def shown(kept: dict[str, dict], method: str, name: str, d: int, n: int) -> str:
    """Return what one cell of the table says: draws/s (warm / cold)."""
    found = kept.get(key(method, name, d, n), {"failed": "not run"})
    if "failed" in found:
        return found["failed"]
    rate, warm = found.get("rate"), found["setup"]
    if not rate:
        return f"({number(warm)})"
    warm += 1000.0 / rate
    rough = "~" if found["ess"] < ROUGH else ""
    if method not in SAMPLERS:
        return f"{number(rate)} ({number(warm)})"
    compilation = kept.get(key(f"compile {method}", name, 10, 1000), found).get("compile", 0.0)
    return f"{rough}{number(rate)} ({number(warm)} / {number(warm + compilation)})"


def render(kept: dict[str, dict], sizes: tuple[int, ...]) -> str:
    """Return the table in markdown."""
    lines = [
        "ESS per second of the worst coefficient, on one core (in brackets: seconds to 1,000 effective",
        "draws, with compiled code at hand / from a cold start).",
        f"~: rough, fewer than {ROUGH:.0f} effective draws were seen.",
        "",
        "| model | d | method | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "| --- | --: | --- |" + " --: |" * len(sizes),
    ]
    for name in MODELS:
        for d in COLUMNS:
            for method, title in TITLES.items():
                cells = [shown(kept, method, name, d, n) for n in sizes]
                lines.append(f"| {name} | {d} | {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    before, rest = page.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n{text}{MARKS[1]}{after}")


def verdict(kept: dict[str, dict], sizes: tuple[int, ...]) -> list[str]:
    """Return whether tallbayes is ahead of every sampler from 10^4 rows on, and by how much of NUTS at 10^6."""
    behind, nuts, missing = [], [], 0
    for name in MODELS:
        for d in COLUMNS:
            for n in sizes:
                rates = {m: kept.get(key(m, name, d, n), {}).get("rate", 0.0) for m in SAMPLERS}
                if n >= 10**4:
                    ahead = [m for m in SAMPLERS[1:] if rates[m] and rates[m] >= rates["tallbayes"]]
                    behind += [f"{TITLES[m]} at {name}, d = {d}, n = {n:,}" for m in ahead]
                    missing += sum(not rate for rate in rates.values())
                if n == 10**6:
                    nuts += [rates["tallbayes"] / rates[m] for m in ("numpyro", "nutpie") if rates[m]]
    first = "Ahead of every sampler from 10^4 rows on: "
    first += "yes." if not behind else f"NO, not of {'; '.join(behind)}."
    if missing:
        first += f" That is of those that finished: {missing} did not."
    second = "No NUTS finished at 10^6 rows."
    if nuts:
        second = f"Times NUTS at 10^6 rows, at least, of {len(nuts)} that finished: {number(min(nuts))}."
    return [first, second]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10^3 and 10^4 rows only")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which a cell is cut off")
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument("--kept", action="store_true", help="print what is kept, and measure nothing")
    parser.add_argument("--page", type=Path, help="a page to put the table into, between its marks")
    parser.add_argument("--cell", nargs=4, metavar=("METHOD", "MODEL", "D", "N"), help="one cell, in this process")
    given = parser.parse_args()
    if given.cell:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        method, name, d, n = given.cell
        print(json.dumps(cell(method, name, int(d), int(n))))
        return
    path = RESULTS / "peers.json"
    if given.fresh:
        path.unlink(missing_ok=True)
    sizes = QUICK_SIZES if given.quick else SIZES
    kept = json.loads(path.read_text()) if given.kept else measure(sizes, given.limit, path)
    text = "\n".join([render(kept, sizes), "", *verdict(kept, sizes), "", *about(), ""])
    path.with_suffix(".md").write_text(text)
    print(text)
    if given.page:
        put_into(given.page, text)


if __name__ == "__main__":
    main()
