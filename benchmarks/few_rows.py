"""n = 1,000: the default against plain full-data MH with its best proposal, one core."""

import math

import tallbayes as tb
from problems import effective, flat, logistic

N, D = 1_000, 10
model = flat(*logistic(N, D, seed=7))
kernels = {
    "default": None,
    "MH, Crank-Nicolson, rho = 0": tb.kernels.MetropolisHastings(tb.proposals.CrankNicolson(0.0)),
    "MH, Crank-Nicolson, rho = 0.5": tb.kernels.MetropolisHastings(tb.proposals.CrankNicolson(0.5)),
    "MH, preconditioned walk": tb.kernels.MetropolisHastings(tb.proposals.PreconditionedWalk(2.4 / math.sqrt(D))),
}
for name, kernel in kernels.items():
    tb.sample(model, kernel, draws=10, chains=1, seed=0, progress=False)
    best = 0.0
    for seed in range(3):
        tree = tb.sample(model, kernel, draws=30_000, chains=1, threads=1, seed=seed, progress=False)
        best = max(best, effective(tree) / tree.attrs["sampling_seconds"])
    print(f"{name:<30} {best:>10,.0f} ESS per second", flush=True)
