"""Mean rows touched per step with local bounds and independent proposals, against the targets of the design."""

import tallbayes as tb
from problems import flat, logistic, mean_rows

TARGETS = {(3, 10): 0.045, (3, 50): 55.0, (2, 10): 2.1, (2, 50): 400.0}

print(f"{'order':>5} {'d':>4} {'n':>8} {'rows per step':>14} {'target':>8} {'acceptance':>11}")
for (order, d), target in TARGETS.items():
    n = 2**17
    model = flat(*logistic(n, d, seed=d))
    kernel = tb.kernels.ScalableMH(order, tb.bounds.Local(), tb.proposals.CrankNicolson(rho=0.0))
    draws = 200_000 if d == 10 else 5_000
    tree = tb.sample(model, kernel, draws=draws, chains=2, seed=1, progress=False)
    accepted = float(tree["sample_stats"]["accepted"].mean())
    print(f"{order:>5} {d:>4} {n:>8} {mean_rows(tree):>14.4g} {target:>8} {accepted:>11.3f}", flush=True)
