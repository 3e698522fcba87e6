"""How fast is the paper's step? ESS per second on one core, beside the speed of the paper's C++.

Order 2, global bounds, Crank-Nicolson with rho = 0, d = 10, n = 2^17. The paper's code reaches 36,000 effective
draws a second where the machine draws 10 normals in 100 ns; the requirement scales with that time, measured in
the same run.
"""

import time

import numpy as np
from numba import njit

import tallbayes as tb

D, N, STEPS, REPEATS = 10, 2**17, 400_000, 5
REFERENCE_DRAWS, REFERENCE_NORMALS = 36_000.0, 100e-9


@njit
def draw_normals(rng: np.random.Generator, out: np.ndarray, times: int) -> None:
    for _ in range(times):
        for j in range(out.size):
            out[j] = rng.standard_normal()


def normals_seconds() -> float:
    rng, out, times = np.random.default_rng(1), np.empty(D), 500_000
    draw_normals(rng, out, 1)
    started = time.perf_counter()
    draw_normals(rng, out, times)
    return (time.perf_counter() - started) / times


def effective_draws_per_second(model: tb.Regression, kernel: tb.kernels.Kernel, seed: int) -> float:
    tree = tb.sample(model, kernel, draws=STEPS, chains=1, seed=seed, threads=1, progress=False)
    effective = float(tb.summary(tree)["ess_bulk"].min())
    share = STEPS / (STEPS + tree.attrs["warmup"])
    return effective / (share * tree.attrs["sampling_seconds"])


def main() -> None:
    rng = np.random.default_rng(17)
    X = rng.standard_normal((N, D))
    y = (rng.random(N) < 1.0 / (1.0 + np.exp(-X.sum(axis=1)))).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    kernel = tb.kernels.ScalableMH(
        order=2, bound=tb.bounds.Global(), proposal=tb.proposals.CrankNicolson(rho=0.0), truncation=N
    )
    tb.sample(model, kernel, draws=10, chains=1, progress=False)  # compile
    # The two are measured in turn, so that a machine that slows down slows both.
    pairs = [(normals_seconds(), effective_draws_per_second(model, kernel, seed)) for seed in range(1, REPEATS + 1)]
    normals = float(np.median([pair[0] for pair in pairs]))
    rate = float(np.median([pair[1] for pair in pairs]))
    needed = REFERENCE_DRAWS * REFERENCE_NORMALS / normals
    print(f"10 normals                              {normals * 1e9:10.0f} ns")
    print(f"ESS per second, worst column  {rate:10,.0f}")
    print(f"the paper's C++, scaled to this machine {needed:10,.0f}")
    print(f"ratio                                   {rate / needed:10.2f}")


if __name__ == "__main__":
    main()
