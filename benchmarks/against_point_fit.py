"""A whole call of `sample`, set-up included, against scikit-learn's point fit of the same model."""

import time

import numpy as np
from sklearn.linear_model import LogisticRegression

import tallbayes as tb
from problems import effective, flat, logistic

N, REPEATS = 10**6, 5

for d in (10, 20):
    X, y = logistic(N, d, seed=d)
    model = flat(X, y)
    tb.sample(model, draws=2500, chains=4, seed=0, progress=False)
    found = []
    for seed in range(REPEATS):
        started = time.perf_counter()
        LogisticRegression(C=np.inf, fit_intercept=False).fit(X, y)
        point = time.perf_counter() - started
        started = time.perf_counter()
        tree = tb.sample(model, draws=2500, chains=4, seed=seed, progress=False)
        ours = time.perf_counter() - started
        found.append((ours / point, ours, point))
    ratio, ours, point = sorted(found)[REPEATS // 2]
    print(
        f"d = {d}: sample {ours:.3f} s, scikit-learn's point fit {point:.3f} s, ratio {ratio:.2f} (median of "
        f"{REPEATS}, target 0.5); {effective(tree):,.0f} effective draws of 10,000",
        flush=True,
    )
