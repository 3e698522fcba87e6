"""Counts: rows that a step touches in Poisson and negative binomial regression with a million rows, d = 8."""

import numpy as np

import tallbayes as tb
from problems import mean_rows

N, D = 10**6, 8
rng = np.random.default_rng(8)
X = np.column_stack([np.ones(N), 0.5 * rng.standard_normal((N, D - 1))])
predictor = X @ np.concatenate([[0.5], rng.uniform(-0.4, 0.4, D - 1)])
exposure = rng.uniform(0.5, 2.0, N)
mean = exposure * np.exp(predictor)
problems = {
    "Poisson": (tb.families.Poisson(), rng.poisson(mean)),
    "NegativeBinomial": (tb.families.NegativeBinomial(3.0), rng.poisson(mean * rng.gamma(3.0, 1.0 / 3.0, N))),
}
for name, (family, y) in problems.items():
    model = tb.Regression(X, y, family, tb.priors.Flat(), offset=np.log(exposure))
    tree = tb.sample(model, tb.kernels.ScalableMH(order=3), draws=20_000, chains=2, seed=1, progress=False)
    acceptance = float(tree["sample_stats"]["accepted"].mean())
    print(f"{name:<18} order 3: {mean_rows(tree):.4f} rows per step (target 1), acceptance {acceptance:.3f}")
