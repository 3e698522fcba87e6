"""Does `explain` keep its word on rows, acceptance, effective draws and time? Ten data sets, some of them skewed."""

import json

import numpy as np

import tallbayes as tb
from problems import effective, flat, logistic, mean_rows, rare_events

rng = np.random.default_rng(8)


def binary(X: np.ndarray, predictor: np.ndarray) -> tb.Regression:
    y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-predictor))).astype(float)
    return flat(X, y)


def heavy(n: int, d: int, df: float) -> tb.Regression:
    X = rng.standard_t(df, size=(n, d))
    return binary(X, 0.3 * X.sum(axis=1))


def correlated(n: int, d: int) -> tb.Regression:
    X = rng.standard_normal((n, d)) @ np.linalg.cholesky(0.9 * np.ones((d, d)) + 0.1 * np.eye(d)).T
    return binary(X, 0.5 * X.sum(axis=1) / np.sqrt(d))


def robust(n: int, d: int, df: float) -> tb.Regression:
    X = rng.standard_normal((n, d))
    return tb.Regression(
        X, X.sum(axis=1) + rng.standard_t(df, n), tb.families.StudentT(df, scale=1.0), tb.priors.Flat()
    )


def small_and_skewed() -> tb.Regression:
    X = np.column_stack([np.ones(400), rng.standard_normal((400, 4))])
    return binary(X, X[:, 1] - 2.5)


models = {
    "paper, n = 2^14, d = 10": flat(*logistic(2**14, 10, 1)),
    "paper, n = 2^17, d = 10": flat(*logistic(2**17, 10, 2)),
    "n = 2^17, d = 30": flat(*logistic(2**17, 30, 3, 0.3)),
    "t(4) covariates, n = 10^5": heavy(100_000, 8, 4.0),
    "t(2.5) covariates, n = 10^5": heavy(100_000, 8, 2.5),
    "correlated columns, n = 10^5": correlated(100_000, 12),
    "rare events, n = 5 10^5, d = 14": flat(*rare_events(500_000, 4)),
    "skewed, n = 400, d = 5": small_and_skewed(),
    "Student-t(4), n = 10^5": robust(100_000, 10, 4.0),
    "n = 1000, d = 10": flat(*logistic(1000, 10, 5)),
}
print(f"{'':<34}{'rows per draw':^30}{'acceptance':^26}{'effective of 40,000':^24}{'sampling s':^16}")
titles = f"{'predicted':>10}{'happened':>10}{'off':>9} {'predicted':>9}{'happened':>9}{'off':>8}"
print(f"{'':<34}{titles}{'predicted':>15}{'happened':>9}{'pred.':>8}{'happ.':>8}")
worst = 0.0
for name, model in models.items():
    expected = tb.explain(model, draws=20_000, chains=2)
    tree = tb.sample(model, draws=20_000, chains=2, seed=9, progress=False)
    rows, found, seconds = mean_rows(tree), effective(tree), tree.attrs["sampling_seconds"]
    if rows * 40_000 < 400:  # too few events to say what happened: ask for more draws, same plan
        plan = json.loads(tree.attrs["plan"])
        kernel = tb.kernels.ScalableMH(order=plan["order"], sketch=plan["sketch"])
        tree = tb.sample(model, kernel, draws=1_000_000, chains=2, seed=9, progress=False)
        rows = mean_rows(tree)
    accepted = float(tree["sample_stats"]["accepted"].mean())
    off = expected.rows_per_draw / rows - 1.0, expected.acceptance / accepted - 1.0
    worst = max(worst, abs(off[0]), abs(off[1]))
    print(
        f"{name:<34}{expected.rows_per_draw:>10.4g}{rows:>10.4g}{100 * off[0]:>+8.1f}%"
        f" {expected.acceptance:>9.3f}{accepted:>9.3f}{100 * off[1]:>+7.1f}%"
        f"{' to '.join(f'{x:.0f}' for x in expected.effective_draws or (0.0, 0.0)):>15}{found:>9.0f}"
        f"{expected.sampling_seconds:>8.2f}{seconds:>8.2f}",
        flush=True,
    )
print(f"worst {100 * worst:.1f} % (target 25 %)")
