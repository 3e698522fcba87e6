"""Student-t regression with unknown scale: rows per step, whole calls against point fits, small data.

Prints a line for each question; `python benchmarks/unknown_scale.py rows|calls|softmax|small`.
"""

import sys
import time
import warnings

import numpy as np

import tallbayes as tb

FLAT = tb.priors.Flat()


def heavy_tailed(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal columns, and their sum with noise 2 t_4."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X.sum(axis=1) + 2.0 * rng.standard_t(4, n)


def rows_per_step() -> None:
    """Print rows per step of order 2 and 3 with independent proposals."""
    for power in (11, 14, 17, 20):
        X, y = heavy_tailed(2**power, 10)
        model = tb.Regression(X, y, tb.families.StudentT(4.0), FLAT)
        for order in (2, 3):
            kernel = tb.kernels.ScalableMH(order, proposal=tb.proposals.CrankNicolson(rho=0.0))
            draws = 20_000 if power == 20 else 5000
            tree = tb.sample(model, kernel, draws=draws, chains=2, seed=1, progress=False)
            rows = float(tree["sample_stats"]["rows_touched"].mean())
            print(
                f"n = 2^{power}, order {order}: {rows:.4g} rows per step, {tree.attrs['bound_violations']} violations"
            )


def whole_calls() -> None:
    """Print the seconds of a whole call with unknown scale, and of scikit-learn's HuberRegressor."""
    from sklearn.linear_model import HuberRegressor

    X, y = heavy_tailed(1_000_000, 10)
    for attempt in ("first", "second", "third"):
        started = time.perf_counter()
        tb.sample(tb.Regression(X, y, tb.families.StudentT(4.0)), draws=2500, seed=1, progress=False)
        ours = time.perf_counter() - started
        started = time.perf_counter()
        HuberRegressor(fit_intercept=False, alpha=0.0).fit(X, y)
        print(f"{attempt}: whole call {ours:.2f} s, HuberRegressor {time.perf_counter() - started:.2f} s")


def softmax_calls() -> None:
    """Print the same for four classes and LogisticRegression."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    X = rng.standard_normal((1_000_000, 8))
    scores = X @ (0.5 * rng.standard_normal((8, 4))) + rng.gumbel(size=(1_000_000, 4))
    y = scores.argmax(axis=1).astype(float)
    for attempt in ("first", "second", "third"):
        started = time.perf_counter()
        tb.sample(tb.Regression(X, y, tb.families.Categorical(4)), draws=2500, seed=1, progress=False)
        ours = time.perf_counter() - started
        started = time.perf_counter()
        LogisticRegression(C=np.inf, fit_intercept=False).fit(X, y)
        print(f"{attempt}: whole call {ours:.2f} s, LogisticRegression {time.perf_counter() - started:.2f} s")


def small_data() -> None:
    """Print effective draws per draw of the worst parameter for small data, and whether a warning says so."""
    families = {"gaussian": tb.families.Gaussian(), "student": tb.families.StudentT(4.0)}
    for n, d in ((21, 2), (40, 5), (60, 10), (120, 26), (300, 5), (1200, 26)):
        for name, family in families.items():
            for prior in (FLAT, None):
                rng = np.random.default_rng(n + d)
                X = np.column_stack([np.ones(n), 1000.0 + rng.standard_normal((n, d - 1))])
                y = X @ rng.standard_normal(d) + rng.standard_t(5, n)
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    tree = tb.sample(tb.Regression(X, y, family, prior), draws=1000, seed=1, progress=False)
                table = tb.summary(tree)
                worst = table[["ess_bulk", "ess_tail"]].min(axis=1)
                print(
                    f"n = {n}, d = {d}, {name}, {'flat' if prior else 'default'}: {worst.min() / 4000:.3f} effective "
                    f"draws per draw ({worst.idxmin()}){', warned' if said else ''}"
                )


QUESTIONS = {"rows": rows_per_step, "calls": whole_calls, "softmax": softmax_calls, "small": small_data}

if __name__ == "__main__":
    for question in sys.argv[1:] or QUESTIONS:
        QUESTIONS[question]()
