"""Is the chosen plan the right one? Its time beside that of every alternative, on eight data sets and two lengths.

The time is that of the whole call, set-up included, for as many effective draws of the worst coefficient as draws were
asked for: a plan whose draws are worth half as much has to make twice as many.
"""

import sys
import time

import numpy as np

import tallbayes as tb
from problems import effective, flat, flights, logistic, rare_events
from tallbayes.plan.choose import choose

CHAINS = 4
HOPELESS = 30.0
"""Alternatives whose forecast is so many times that of the best are not run."""


def counts(n: int, d: int) -> tb.Regression:
    rng = np.random.default_rng(11)
    X = np.column_stack([np.ones(n), 0.3 * rng.standard_normal((n, d - 1))])
    y = rng.poisson(np.exp(X @ np.full(d, 0.2))).astype(float)
    return tb.Regression(X, y, tb.families.Poisson())


def robust(n: int, d: int) -> tb.Regression:
    rng = np.random.default_rng(12)
    X = rng.standard_normal((n, d))
    y = X.sum(axis=1) + rng.standard_t(4.0, n)
    return tb.Regression(X, y, tb.families.StudentT(4.0, 1.0), tb.priors.Flat())


def rare_level(n: int) -> tb.Regression:
    rng = np.random.default_rng(13)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2)), np.zeros(n)])
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - 0.5 * X[:, 1]))).astype(float)
    X[:30, 3], y[:30] = 1.0, 0.0
    y[0] = 1.0
    return tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 2.5))


MODELS = {
    "flights, dest": lambda: flights("dest"),
    "flights, carrier": lambda: flights("carrier"),
    "paper, n = 2^17, d = 10": lambda: flat(*logistic(2**17, 10, 2)),
    "rare events, n = 5 10^5, d = 14": lambda: flat(*rare_events(500_000, 4)),
    "paper, n = 2^16, d = 50": lambda: flat(*logistic(2**16, 50, 3, 0.3)),
    "Poisson, n = 10^6, d = 20": lambda: counts(1_000_000, 20),
    "Student-t, n = 3,000, d = 6": lambda: robust(3_000, 6),
    "one event of 30, n = 20,000": lambda: rare_level(20_000),
}


def seconds(make, kernel, draws: int) -> float:
    """Return the time that as many effective draws take, set-up included; the better of two runs."""
    found = []
    for seed in (1, 2):
        model = make()
        started = time.perf_counter()
        tree = tb.sample(model, kernel, draws=draws, chains=CHAINS, seed=seed, progress=False)
        whole = time.perf_counter() - started
        sampling = tree.attrs["sampling_seconds"]
        found.append(whole - sampling + sampling * CHAINS * draws / effective(tree))
    return min(found)


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(MODELS)
    print(f"{'':<34}{'draws':>8}{'chosen s':>10}{'best s':>9}{'ratio':>7}  plan; best alternative")
    for name in [name for name in MODELS if any(part in name for part in wanted)]:
        data = MODELS[name]()

        def make(data=data) -> tb.Regression:
            """Return the model anew, so that nothing of its set-up is there."""
            return data.part_of(data.source)

        for draws in (1_000, 20_000):
            chosen = choose(make(), None, draws * CHAINS)
            first = chosen.forecasts[0].total(draws * CHAINS)
            taken = seconds(make, None, draws)
            others = {
                f.name: seconds(make, f.kernel, draws)
                for f in chosen.forecasts
                if f.kernel != chosen.kernel and f.total(draws * CHAINS) < HOPELESS * first
            }
            best = min(others, key=others.__getitem__) if others else "none"
            least = others.get(best, np.inf)
            plan = next((f.name for f in chosen.forecasts if f.kernel == chosen.kernel), repr(chosen.kernel))
            print(
                f"{name:<34}{draws:>8,}{taken:>10.2f}{least:>9.2f}{taken / least:>7.2f}  {plan}; {best}", flush=True
            )
