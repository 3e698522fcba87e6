"""Rows touched must not depend on the origin or the unit of a column: whitening removes both."""

import numpy as np

import tallbayes as tb
from problems import flat, logistic, mean_rows

N, D = 2**17, 8
X, y = logistic(N, D, seed=5)
ones = np.ones((N, 1))
moved, scaled = X.copy(), X.copy()
moved[:, 2] += 40.0
scaled[:, 3] *= 1000.0
designs = {"as it is": X, "40 added to a column": moved, "a column times 1000": scaled}

for order in (2, 3):
    kernel = tb.kernels.ScalableMH(order, tb.bounds.Local(), tb.proposals.CrankNicolson(rho=0.0))
    base = None
    for name, design in designs.items():
        model = flat(np.hstack([ones, design]), y)
        tree = tb.sample(model, kernel, draws=500_000, chains=2, seed=1, progress=False)
        rows = mean_rows(tree)
        base = base or rows
        print(f"order {order}  {name:<22} {rows:.5f} rows per draw  {100 * (rows / base - 1):+.2f} %", flush=True)
