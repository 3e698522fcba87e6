"""Whole calls, draws per second, late flights: before the redesign and now, in turn.

before_after.py [calls] [draws] [flights]
"""

import sys

from versions import in_turn, median_ratio, run, sources

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
def once(seed):
    started = time.perf_counter()
    tree = tb.sample(tb.Regression(X, y, family), draws=2500, chains=4, seed=seed, progress=False)
    return [time.perf_counter() - started, json.loads(tree.attrs["plan"]).get("order")]
"""
GRAM = """
weight = rng.random(n)
times = []
for _ in range(5):
    started = time.perf_counter()
    X.T @ (weight[:, None] * X)
    times.append(time.perf_counter() - started)
print(json.dumps(min(times)))
"""
DRAWS = """
import json, sys
import numpy as np
import tallbayes as tb
from problems import effective, flat, logistic, mean_rows, rare_events

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

def once(seed):
    tree = tb.sample(model, draws=draws, chains=1, threads=1, seed=seed, progress=False)
    worth = effective(tree) / draws if seed == 1 else None  # of a million draws it takes longer than they did
    return [draws / tree.attrs["sampling_seconds"], worth, mean_rows(tree)]
"""
FLIGHTS = """
import sys, time
import tallbayes as tb
from problems import effective, flights

def once(seed):
    model = flights(sys.argv[1])
    started = time.perf_counter()
    tree = tb.sample(model, seed=seed, progress=False)
    return [time.perf_counter() - started, effective(tree)]
"""
SIZES = [(2**20, 10), (2**20, 20), (2**20, 50), (2**19, 200)]
ROUNDS = 9
"""Ratios are medians over so many rounds, speeds and seconds the best of them."""


def calls(versions: dict[str, str]) -> None:
    print(f"{'whole call, seconds':<34}{'before':>8}{'now':>8}{'ratio':>7}{'Gram':>8}{'in Grams':>9}  order")
    for n, d in SIZES:
        for kind in ("paper", "poisson", "student"):
            arguments = str(n), str(d), kind
            found = in_turn(versions, CALL, *arguments, rounds=ROUNDS if d < 100 else 5)
            before, now = ([seconds for seconds, _ in found[name]] for name in ("before", "now"))
            # On its own: threads of BLAS stay busy for a moment after a product, and would slow what follows.
            gram = run(versions["now"], CALL + GRAM, *arguments)
            title = f"{kind}, n = 2^{n.bit_length() - 1}, d = {d}"
            print(
                f"{title:<34}{min(before):>8.3f}{min(now):>8.3f}{median_ratio(now, before):>7.2f}{gram:>8.3f}"
                f"{min(now) / gram:>9.1f}  {found['before'][-1][1]} -> {found['now'][-1][1]}",
                flush=True,
            )


def draws(versions: dict[str, str]) -> None:
    print(
        f"{'draws per second, one core':<34}{'before':>12}{'now':>12}{'ratio':>7}  {'ESS per draw':<18}rows per draw"
    )
    for problem in ("paper d=10", "paper d=20", "wide d=50", "rare", "few rows"):
        found = in_turn(versions, DRAWS, problem, rounds=ROUNDS)
        before, now = ([speed for speed, *_ in found[name]] for name in ("before", "now"))
        worth, rows = ([found[name][0][part] for name in ("before", "now")] for part in (1, 2))
        print(
            f"{problem:<34}{max(before):>12,.0f}{max(now):>12,.0f}{median_ratio(now, before):>7.2f}  "
            f"{f'{worth[0]:.3f} -> {worth[1]:.3f}':<18}{rows[0]:.4f} -> {rows[1]:.4f}",
            flush=True,
        )


def late_flights(versions: dict[str, str]) -> None:
    print("late arrivals, default run              seconds  effective draws of 4,000, worst  a second")
    for factor in ("dest", "carrier"):
        for name, found in in_turn(versions, FLIGHTS, factor, rounds=2).items():
            seconds, effective = min(found)
            print(
                f"{factor + ', ' + name:<38}{seconds:>9.2f}{effective:>33,.0f}{effective / seconds:>10,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    with sources() as both:
        for part in sys.argv[1:] or ["calls", "draws"]:
            {"calls": calls, "draws": draws, "flights": late_flights}[part](both)
