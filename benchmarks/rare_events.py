"""Rare events, default settings: effective draws, speed against full-data MH, agreement with a long run of it."""

import os
import sys

import numpy as np

import tallbayes as tb
from problems import effective, flat, rare_events

N = 500_000
LONG = int(os.environ.get("MH_DRAWS", sys.argv[1] if len(sys.argv) > 1 else 2000))

X, y = rare_events(N, seed=3)
model = flat(X, y)
print(f"positives {int(y.sum()):,}; in the rarest level {int(y[X[:, -1] == 1].sum())}")
tb.sample(model, draws=10, chains=1, seed=0, progress=False)
tree = tb.sample(model, draws=100_000, chains=1, threads=1, seed=1, progress=False)
ours = effective(tree) / tree.attrs["sampling_seconds"]
print(f"default: {effective(tree) / 100_000:.3f} effective draws per draw, {ours:,.0f} a second", flush=True)

best = 0.0
plain = {
    "Crank-Nicolson, rho = 0": tb.proposals.CrankNicolson(0.0),
    "Crank-Nicolson, rho = 0.5": tb.proposals.CrankNicolson(0.5),
    "preconditioned walk": tb.proposals.PreconditionedWalk(2.4 / np.sqrt(X.shape[1])),
}
for name, proposal in plain.items():
    kernel = tb.kernels.MetropolisHastings(proposal)
    run = tb.sample(model, kernel, draws=1000, chains=2, warmup=50, seed=1, progress=False)
    speed = effective(run) / run.attrs["sampling_seconds"] / 2.0  # two cores
    best = max(best, speed)
    print(f"full-data MH, {name}: {speed:.1f} ESS per second and core", flush=True)
print(f"ratio to the best: {ours / best:,.0f} (target 400)")

# A long run of full-data MH, mixing the moves of the default but accepting on all rows.
kernel = tb.kernels.ScalableMH(order=3, truncation=0.0)
long = tb.sample(model, kernel, draws=LONG, chains=2, warmup=100, seed=2, progress=False)
exact, reference = tb.summary(tree), tb.summary(long)


def skewness(run) -> np.ndarray:
    beta = run["posterior"]["beta"].to_numpy().reshape(-1, X.shape[1])
    return np.mean(((beta - beta.mean(axis=0)) / beta.std(axis=0)) ** 3, axis=0)


error = np.hypot(exact["mcse_mean"], reference["mcse_mean"])
print(f"long full-data run: {2 * LONG:,} draws, {effective(long):,.0f} effective")
print(f"means differ by at most {np.max(np.abs(exact['mean'] - reference['mean']) / error):.2f} standard errors")
ratio = exact["sd"] / reference["sd"]
print(f"sd ratios {ratio.min():.3f} to {ratio.max():.3f} (standard error {1 / np.sqrt(2 * effective(long)):.3f})")
gap = np.abs(skewness(tree) - skewness(long)).max()
print(f"skewness differs by at most {gap:.3f} (standard error {np.sqrt(6 / effective(long)):.3f} or more)")
print(f"skewness of the rarest level's coefficient: {skewness(tree)[-1]:.3f} and {skewness(long)[-1]:.3f}")
