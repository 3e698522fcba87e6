"""How fast is a family from a formula? Draws a second of logistic-noise regression, beside the built-in Student-t.

Both have the same design, prior, order and kind of proposal; the ratio is of the best of several runs, taken in
turn.
"""

import numpy as np

import tallbayes as tb

N, D, DRAWS, REPEATS = 2**17, 10, 200_000, 5


def draws_per_second(model: tb.Regression, seed: int) -> float:
    kernel = tb.kernels.ScalableMH(order=3, proposal=tb.proposals.CrankNicolson(rho=0.0))
    tree = tb.sample(model, kernel, draws=DRAWS, chains=1, seed=seed, threads=1, progress=False)
    return (DRAWS + tree.attrs["warmup"]) / tree.attrs["sampling_seconds"]


def main() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, D))
    y = X.sum(axis=1) + 0.5 * rng.logistic(size=N)
    family = tb.families.custom("softplus((y - eta)/s) + softplus(-(y - eta)/s)", s=0.5)
    own = tb.Regression(X, y, family, tb.priors.Flat())
    built_in = tb.Regression(X, y, tb.families.StudentT(df=5.0, scale=0.8), tb.priors.Flat())
    for model in (own, built_in):
        tb.sample(model, draws=10, chains=1, progress=False)  # compile
        draws_per_second(model, 0)
    pairs = [(draws_per_second(own, seed), draws_per_second(built_in, seed)) for seed in range(1, REPEATS + 1)]
    custom, reference = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    print(f"logistic noise, from a formula   {custom:12,.0f} draws a second")
    print(f"Student-t, built in              {reference:12,.0f} draws a second")
    print(f"ratio                            {custom / reference:12.2f}")


if __name__ == "__main__":
    main()
