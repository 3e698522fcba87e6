"""A million exact draws against NumPy drawing as many vectors from the Gaussian approximation. One core."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np

import tallbayes as tb
from problems import effective, flat, logistic

M, N, REPEATS = 10**6, 2**20, 7

for d, target in ((10, 3.0), (20, 4.0)):
    model = flat(*logistic(N, d, seed=d))
    tb.sample(model, draws=M, chains=1, threads=1, seed=0, progress=False)
    rng = np.random.default_rng(1)
    A, b = np.linalg.cholesky(np.eye(d) + 0.1), np.ones(d)
    plain, ours = [], []
    for seed in range(REPEATS):
        started = time.perf_counter()
        rng.standard_normal((M, d)) @ A + b
        plain.append(time.perf_counter() - started)
        tree = tb.sample(model, draws=M, chains=1, threads=1, seed=seed, progress=False)
        ours.append(tree.attrs["sampling_seconds"])
    medians = np.median(ours) / np.median(plain)
    print(
        f"d = {d}: exact {1e9 * min(ours) / M:.0f} ns per draw, NumPy's Gaussian {1e9 * min(plain) / M:.0f} ns, "
        f"ratio {min(ours) / min(plain):.2f}, best of {REPEATS} each (of the medians: {medians:.2f}; target "
        f"{target}); {effective(tree) / M:.3f} effective draws per draw",
        flush=True,
    )
