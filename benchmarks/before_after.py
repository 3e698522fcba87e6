"""Whole calls and draws per second, before the redesign and now, in turn: `before_after.py [calls] [draws]`."""

import sys

from versions import run, sources

CALL = """
import json, sys, time
import numpy as np
import tallbayes as tb
from problems import logistic, rare_events

n, d, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rng = np.random.default_rng(d)
family = tb.families.Bernoulli()
if kind == "paper":
    X, y = logistic(n, d, seed=d, coefficient=3.0 / np.sqrt(d))
elif kind == "poisson":
    X = np.column_stack([np.ones(n), rng.standard_normal((n, d - 1))])
    y = rng.poisson(np.exp(X @ np.r_[0.5, np.full(d - 1, 0.3 / np.sqrt(d))])).astype(float)
    family = tb.families.Poisson()
else:
    X = rng.standard_normal((n, d))
    X[:, 0] = 1.0
    X[:, 1::3] = rng.random((n, X[:, 1::3].shape[1])) < 0.3
    y = X @ np.linspace(-1.0, 1.0, d) + rng.standard_t(4.0, n)
    family = tb.families.StudentT(4.0, 1.0)
gram = calls = 1e9
rounds = int(sys.argv[4]) + 1
for seed in range(rounds):
    started = time.perf_counter()
    tree = tb.sample(tb.Regression(X, y, family), draws=2500, chains=4, seed=seed, progress=False)
    if seed:  # the first compiles, or loads what was compiled
        calls = min(calls, time.perf_counter() - started)
# Afterwards: threads of BLAS stay busy for a moment after a product, and would slow what follows.
weight = rng.random(n)
for _ in range(rounds):
    started = time.perf_counter()
    X.T @ (weight[:, None] * X)
    gram = min(gram, time.perf_counter() - started)
plan = json.loads(tree.attrs["plan"])
print(json.dumps([calls, gram, plan.get("order"), float(tree["sample_stats"]["rows_touched"].mean())]))
"""
DRAWS = """
import json, sys
import numpy as np
import tallbayes as tb
from problems import effective, flat, logistic, rare_events

name = sys.argv[1]
many = {"paper d=10": 1_000_000, "paper d=20": 1_000_000, "wide d=50": 40_000, "rare": 100_000, "few rows": 30_000}
draws = many[name]
data = {
    "paper d=10": lambda: logistic(2**20, 10, seed=10),
    "paper d=20": lambda: logistic(2**20, 20, seed=20),
    "wide d=50": lambda: logistic(2**17, 50, seed=50),
    "rare": lambda: rare_events(500_000, seed=3),
    "few rows": lambda: logistic(1000, 10, seed=7),
}
model = flat(*data[name]())
best = 0.0
for seed in range(4):
    tree = tb.sample(model, draws=draws, chains=1, threads=1, seed=seed, progress=False)
    best = max(best, draws / tree.attrs["sampling_seconds"])
print(json.dumps([best, effective(tree) / draws]))
"""
SIZES = [(2**20, 10), (2**20, 20), (2**20, 50), (2**19, 200)]
ROUNDS = 2


def calls(versions: dict[str, str]) -> None:
    print(f"{'whole call, seconds':<34}{'before':>8}{'now':>8}{'ratio':>7}{'Gram':>8}{'in Grams':>9}  order")
    for n, d in SIZES:
        for kind in ("paper", "poisson", "student"):
            found: dict[str, list] = {}
            for _ in range(ROUNDS):
                for name, source in versions.items():
                    result = run(source, CALL, str(n), str(d), kind, "3" if d < 100 else "1")
                    found[name] = min(found.get(name, result), result)
            before, now = found["before"], found["now"]
            title = f"{kind}, n = 2^{n.bit_length() - 1}, d = {d}"
            print(
                f"{title:<34}{before[0]:>8.3f}{now[0]:>8.3f}{now[0] / before[0]:>7.2f}{now[1]:>8.3f}"
                f"{now[0] / now[1]:>9.1f}  {before[2]} -> {now[2]}",
                flush=True,
            )


def draws(versions: dict[str, str]) -> None:
    print(f"{'draws per second, one core':<34}{'before':>12}{'now':>12}{'ratio':>7}  ESS per draw")
    for problem in ("paper d=10", "paper d=20", "wide d=50", "rare", "few rows"):
        found: dict[str, list] = {}
        for _ in range(ROUNDS):
            for name, source in versions.items():
                found[name] = max(found.get(name, [0.0]), run(source, DRAWS, problem))
        before, now = found["before"], found["now"]
        print(
            f"{problem:<34}{before[0]:>12,.0f}{now[0]:>12,.0f}{now[0] / before[0]:>7.2f}  "
            f"{before[1]:.3f} -> {now[1]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    with sources() as both:
        for part in sys.argv[1:] or ["calls", "draws"]:
            {"calls": calls, "draws": draws}[part](both)
