"""Posteriors with long, short or broken tails, and what is exactly true of them: `tail_problems.py` checks the latter.

Run as a program it prints how accurate the references are: `tail_problems.py [--data-seed 1] [--problems name ...]`.
"""

import argparse
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import RectBivariateSpline
from tail_references import (
    LINKS,
    Bulk,
    Levels,
    Line,
    Rows,
    Separated,
    Special,
    Weighted,
    cauchy,
    flat,
    laplace,
    normal,
)

import tallbayes as tb

STATISTICS = ("mean", "sd", "5%", "95%")
RUN = 4000
"""Draws of a default run."""
RESULTS = Path(__file__).parent / "results"


@dataclass
class Case:
    """A model's data and its exact posterior."""

    X: np.ndarray
    y: np.ndarray
    family: Any
    prior: Any
    names: list[str]
    posterior: Any
    rare: list[int] = field(default_factory=list)
    """Coefficients whose tails are the question."""

    def model(self) -> tb.Regression:
        """Return a model that has not been used yet."""
        return tb.Regression(self.X, self.y, self.family, self.prior, names=self.names)


# Levels with few events -----------------------------------------------------------------------------------------

TRUE = {"logit": (-1.0, 0.5, -0.5), "probit": (-0.6, 0.3, -0.3), "cloglog": (-1.2, 0.4, -0.4)}
"""Intercept and two covariates."""
LEVEL = 30
"""Rows of a rare level."""


@lru_cache(maxsize=1)
def _common(n: int, levels: int, link: str, data_seed: int) -> tuple[np.ndarray, np.ndarray, Bulk]:
    """Return intercept and covariates, responses, and the rows of no level; problems with other events share them."""
    rng = np.random.default_rng([data_seed, n, levels])
    V = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    y = (np.log(rng.random(n)) < LINKS[link][0](V @ TRUE[link])).astype(float)
    rest = levels * LEVEL
    return V, y, Bulk(Rows(V[rest:], y[rest:], link), np.array(TRUE[link]))


def levels(data_seed: int, events: Sequence[int], n: int = 20_000, link: str = "logit") -> Case:
    """Levels of 30 rows with so many events each, two covariates, and all other rows."""
    V, y, bulk = _common(n, len(events), link, data_seed)
    y, k = y.copy(), len(events)
    dummies = np.zeros((n, k))
    parts = []
    for j, count in enumerate(events):
        rows = slice(j * LEVEL, (j + 1) * LEVEL)
        dummies[rows, j] = 1.0
        y[rows] = np.arange(LEVEL) < count
        parts.append(Rows(V[rows], y[rows], link))
    X = np.column_stack([V[:, 0], dummies, V[:, 1:]])
    order = [0, k + 1, k + 2, *range(1, k + 1)]
    prior = normal(0.0, 2.5)
    names = ["intercept", *(f"level{j + 1}" for j in range(k)), "a", "b"]
    posterior = Levels(bulk, parts, [prior] * 3, [prior] * k, order)
    family = tb.families.Bernoulli(link=link)
    return Case(X, y, family, tb.priors.Normal(0, 2.5), names, posterior, list(range(1, k + 1)))


def factor(data_seed: int, scale: float | None) -> Case:
    """Forty levels, of which one has a single row without event and one has five rows with one event."""
    n, k = 20_000, 40
    rng = np.random.default_rng([data_seed, 40])
    level = np.concatenate([[1], np.full(5, 2), rng.choice([0, *range(3, k)], size=n - 6)])
    effect = 0.5 * rng.standard_normal(k)
    effect[0] = 0.0
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - effect[level]))).astype(float)
    y[:6] = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    X = np.column_stack([np.ones(n), level[:, None] == np.arange(1, k)]).astype(float)
    scales = np.full(k, scale or 0.0)
    if scale is None:  # the default prior, as its documentation states it
        scales[1:] = 2.5  # the two values of a dummy differ by 1
        scales[0] = math.sqrt(100.0 + np.sum((X[:, 1:].mean(axis=0) * scales[1:]) ** 2))
    one = np.ones((n, 1))
    parts = [Rows(one[level == j], y[level == j], "logit") for j in range(k)]
    priors = [normal(0.0, s) for s in scales]
    posterior = Levels(Bulk(parts[0], np.array([-1.0])), parts[1:], priors[:1], priors[1:], range(k))
    names = ["intercept", *(f"level{j}" for j in range(1, k))]
    prior = None if scale is None else tb.priors.Normal(0, scale)
    return Case(X, y, tb.families.Bernoulli(), prior, names, posterior, [1, 2])


# One or two coefficients ----------------------------------------------------------------------------------------


def lone_event(_: int, family: str) -> Case:
    """One event in 20,000 rows, an intercept alone; there is nothing random in these data."""
    n = 20_000
    X, y = np.ones((n, 1)), np.r_[1.0, np.zeros(n - 1)]
    if family == "poisson":

        def log_likelihood(a: np.ndarray) -> np.ndarray:
            return a - n * np.exp(a)
    else:

        def log_likelihood(a: np.ndarray) -> np.ndarray:
            return a - n * np.logaddexp(0.0, a)

    posterior = Line(lambda a: log_likelihood(a) - 0.5 * (a / 10.0) ** 2, -math.log(n))
    families = {"poisson": tb.families.Poisson(), "logit": tb.families.Bernoulli()}
    return Case(X, y, families[family], tb.priors.Normal(0, 10), ["intercept"], posterior, [0])


def separable(data_seed: int, prior: str) -> Case:
    """Return a covariate that separates the classes, at 0.3.

    Far out, the posterior is the prior on the cone of separating (a, b), whose width grows as b. Under normal priors
    every moment is finite. Under Cauchy priors the density at (a, b) falls as b^-4 in that cone, so b has density
    b^-3 (and so has the intercept): means are finite, variances infinite. The sd is left out.
    """
    rng = np.random.default_rng([data_seed, 2000])
    x = rng.standard_normal(2000)
    y = (x > 0.3).astype(float)
    X = np.column_stack([np.ones(2000), x])
    log_prior, given = {
        "normal": (normal(0.0, 2.5), tb.priors.Normal(0, 2.5)),
        "cauchy": (cauchy(2.5), tb.priors.Cauchy(0, 2.5)),
    }[prior]
    posterior = Separated(x, y, log_prior, heavy=prior == "cauchy")
    return Case(X, y, tb.families.Bernoulli(), given, ["intercept", "slope"], posterior, [0, 1])


# Tails that coefficients share ----------------------------------------------------------------------------------


def few_events(data_seed: int, events: int) -> Case:
    """So many events in 20,000 rows that all differ: an intercept and a covariate, both skewed by all rows together."""
    n = 20_000
    rng = np.random.default_rng([data_seed, 20])
    x = rng.standard_normal(n)
    y = np.zeros(n)
    y[rng.choice(n, events, replace=False, p=np.exp(0.5 * x) / np.sum(np.exp(0.5 * x)))] = 1.0
    near = math.log(events / n)
    # The sum over rows on a grid, and a spline through it: smooth, and off by less than 1e-4.
    a, b = np.linspace(near - 14.0, near + 5.0, 150), np.linspace(-6.0, 6.0, 120)
    logs = Rows(x[:, None], y, "logit").shifted(b[:, None], a)
    spline = RectBivariateSpline(b, a, logs, kx=5, ky=5)

    def log_density(V: np.ndarray) -> np.ndarray:
        inside = (np.abs(V[:, 1]) < b[-1]) & (V[:, 0] > a[0]) & (V[:, 0] < a[-1])
        prior = normal(0.0, 10.0)(V[:, 0]) + normal(0.0, 2.5)(V[:, 1])
        return np.where(inside, spline.ev(V[:, 1], V[:, 0]) + prior, -np.inf)

    spread = 1.0 / math.sqrt(events)
    posterior = Weighted(log_density, np.array([near, 0.5]), spread * np.array([[1.0, 0.0], [0.0, 1.0]]))
    prior = [tb.priors.Normal(0, 10), tb.priors.Normal(0, 2.5)]
    X = np.column_stack([np.ones(n), x])
    return Case(X, y, tb.families.Bernoulli(), prior, ["intercept", "a"], posterior, [0, 1])


def coded(data_seed: int, coding: str, events: int = 1) -> Case:
    """Return a level of 30 rows whose column has no zeros ("-1/+1", "standardised"), or with its interaction."""
    n = 20_000
    rng = np.random.default_rng([data_seed, 21])
    V = np.column_stack([np.ones(n), rng.standard_normal(n)])
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - 0.5 * V[:, 1]))).astype(float)
    y[:LEVEL] = rng.permutation(np.arange(LEVEL) < events)
    level = (np.arange(n) < LEVEL).astype(float)
    columns = {
        "-1/+1": [2.0 * level - 1.0],
        "standardised": [(level - level.mean()) / level.std()],
        "interaction": [level, level * V[:, 1]],
    }[coding]
    X = np.column_stack([V, *columns])
    bulk, rare = (
        Bulk(Rows(V[LEVEL:], y[LEVEL:], "logit"), np.array([-1.0, 0.5])),
        Rows(X[:LEVEL], y[:LEVEL], "logit"),
    )
    elsewhere = X[-1, 2]  # what the level's column is in all other rows

    def log_density(beta: np.ndarray) -> np.ndarray:
        others = beta[:, :2].copy()
        others[:, 0] += elsewhere * beta[:, 2]
        return bulk(others) + rare.shifted(beta, np.zeros(1))[:, 0] + np.sum(normal(0.0, 2.5)(beta), axis=1)

    # Where the others' intercept stays while the level's coefficient moves.
    d = X.shape[1]
    root = np.zeros((d, d))
    root[:2, :2] = bulk.root
    root[2, 2], root[0, 2] = 1.0 / abs(X[0, 2] - elsewhere), -elsewhere / abs(X[0, 2] - elsewhere)
    centre = np.concatenate([bulk.centre, np.zeros(d - 2)])
    if d == 4:
        root[3, 3] = 1.0
    names = ["intercept", "a", "level", "level:a"][:d]
    posterior = Weighted(log_density, centre, root)
    return Case(X, y, tb.families.Bernoulli(), tb.priors.Normal(0, 2.5), names, posterior, list(range(2, d)))


# Priors with a kink or a wall -----------------------------------------------------------------------------------


def _pushed(data_seed: int, distance: float) -> tuple[np.ndarray, np.ndarray, float, Bulk]:
    """Return data whose last coefficient has its likelihood's mode so many sds from 0, and that sd.

    The last column is moved a little along the residuals of the fit without it, until its score is as wanted.
    """
    n = 20_000
    rng = np.random.default_rng([data_seed, 3])
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    truth = np.array([-1.0, 0.5])
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, :2] @ truth))).astype(float)
    fit = Bulk(Rows(X[:, :2], y, "logit"), truth)
    p = 1.0 / (1.0 + np.exp(-X[:, :2] @ fit.centre))
    residual = y - p
    for _ in range(5):
        information = float(np.sum(p * (1.0 - p) * X[:, 2] ** 2))
        wanted = distance * math.sqrt(information)
        X[:, 2] += residual * (wanted - residual @ X[:, 2]) / (residual @ residual)
    bulk = Bulk(Rows(X, y, "logit"), np.append(fit.centre, 0.0))
    return X, y, float(np.linalg.norm(bulk.root[2])), bulk


def kink(data_seed: int, share: float) -> Case:
    """Laplace(0, share of the likelihood's sd) on a coefficient whose likelihood peaks 0.3 sds from 0."""
    X, y, sd, bulk = _pushed(data_seed, 0.3)
    scale = share * sd
    prior = normal(0.0, 2.5)
    posterior = Special(bulk, 2, laplace(scale), [(-9.0 * sd, 0.0), (0.0, 9.0 * sd)], [prior] * 3)
    given = [tb.priors.Normal(0, 2.5), tb.priors.Normal(0, 2.5), tb.priors.Laplace(0, scale)]
    return Case(X, y, tb.families.Bernoulli(), given, ["intercept", "a", "kinked"], posterior, [2])


def wall(data_seed: int) -> Case:
    """Uniform(0, 5) on a coefficient whose likelihood peaks 3 sds below 0."""
    X, y, sd, bulk = _pushed(data_seed, -3.0)
    prior = normal(0.0, 2.5)
    posterior = Special(bulk, 2, flat, [(0.0, 6.5 * sd)], [prior] * 3)
    given = [tb.priors.Normal(0, 2.5), tb.priors.Normal(0, 2.5), tb.priors.Uniform(0, 5)]
    return Case(X, y, tb.families.Bernoulli(), given, ["intercept", "a", "walled"], posterior, [2])


MILLION = 1_000_000
PROBLEMS: dict[str, Callable[[int], Case]] = {
    "1 of 30": lambda seed: levels(seed, [1]),
    "2 of 30": lambda seed: levels(seed, [2]),
    "3 of 30": lambda seed: levels(seed, [3]),
    "6 of 30": lambda seed: levels(seed, [6]),
    "1 of 30, million": lambda seed: levels(seed, [1], MILLION),
    "2 of 30, million": lambda seed: levels(seed, [2], MILLION),
    "3 of 30, million": lambda seed: levels(seed, [3], MILLION),
    "6 of 30, million": lambda seed: levels(seed, [6], MILLION),
    "two levels": lambda seed: levels(seed, [1] * 2),
    "five levels": lambda seed: levels(seed, [1] * 5),
    "lone event, logit": lambda seed: lone_event(seed, "logit"),
    "lone event, Poisson": lambda seed: lone_event(seed, "poisson"),
    "separable, normal": lambda seed: separable(seed, "normal"),
    "separable, Cauchy": lambda seed: separable(seed, "cauchy"),
    "cloglog": lambda seed: levels(seed, [1], link="cloglog"),
    "probit": lambda seed: levels(seed, [1], link="probit"),
    "factor, default": lambda seed: factor(seed, None),
    "factor, normal": lambda seed: factor(seed, 2.5),
    "kink, s = sd": lambda seed: kink(seed, 1.0),
    "kink, s = sd / 4": lambda seed: kink(seed, 0.25),
    "wall": wall,
    "3 events": lambda seed: few_events(seed, 3),
    "8 events": lambda seed: few_events(seed, 8),
    "level as -1/+1": lambda seed: coded(seed, "-1/+1"),
    "level standardised": lambda seed: coded(seed, "standardised"),
    "interaction": lambda seed: coded(seed, "interaction"),
    "interaction, 3 of 30": lambda seed: coded(seed, "interaction", 3),
}


def chosen(parts: Sequence[str] | None) -> list[str]:
    """Return the problems whose names contain one of the parts; all without any."""
    found = [name for name in PROBLEMS if not parts or any(part.lower() in name.lower() for part in parts)]
    if not found:
        raise SystemExit(f"no problem has {parts} in its name; there are: {'; '.join(PROBLEMS)}")
    return found


def reference(name: str, case: Case, data_seed: int) -> np.ndarray:
    """Return mean, sd, 5 % and 95 % quantile (NaN where infinite) of each coefficient; kept in benchmarks/results."""
    sources = [Path(__file__), Path(__file__).with_name("tail_references.py")]
    made_by = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    slug = "".join(c if c.isalnum() else "-" for c in name.lower())
    path = RESULTS / f"tails-{slug}-{data_seed}.npz"
    if path.exists():
        with np.load(path) as kept:
            if str(kept["made_by"]) == made_by:
                return kept["statistics"]
    statistics = case.posterior.statistics()
    RESULTS.mkdir(exist_ok=True)
    np.savez(path, statistics=statistics, made_by=made_by)
    return statistics


def errors_of_independent(draws: np.ndarray) -> np.ndarray:
    """Return the standard errors of 4,000 independent draws, estimated from many."""
    centred = draws - draws.mean(axis=0)
    variance = np.mean(centred**2, axis=0)
    kurtosis = np.mean(centred**4, axis=0) / variance**2
    result = [np.sqrt(variance / RUN), np.sqrt(variance * (kurtosis - 1.0) / 4.0 / RUN)]
    for p in (0.05, 0.95):
        low, high = np.quantile(draws, [p - 0.005, p + 0.005], axis=0)
        result.append(math.sqrt(p * (1.0 - p) / RUN) * (high - low) / 0.01)
    return np.array(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-seed", type=int, default=1)
    parser.add_argument("--problems", nargs="*")
    parser.add_argument("--draws", type=int, default=400_000)
    arguments = parser.parse_args()
    print(
        "resolution, draws: worst difference of a statistic, fine quadrature against coarse and against exact draws,"
    )
    print(f"in standard errors of {RUN:,} draws (sd of the latter {math.sqrt(RUN / arguments.draws):.2f});")
    print("expansion, at rows: log likelihoods against sums over rows, out to 7 sds and at 200 draws")
    print(
        f"{'':<22}{'seconds':>8}{'expansion':>11}{'resolution':>11}{'draws':>8}{'weights: ESS':>14}{'at rows':>10}"
    )
    for name in chosen(arguments.problems):
        started = time.perf_counter()
        case = PROBLEMS[name](arguments.data_seed)
        fine = case.posterior.statistics()
        seconds = time.perf_counter() - started
        coarse = case.posterior.statistics(fine=False)
        rng = np.random.default_rng(7)
        draws = case.posterior.draw(rng, arguments.draws)
        error = errors_of_independent(draws)
        resolution = np.nanmax(np.abs(fine - coarse) / error)
        found = np.array([draws.mean(axis=0), draws.std(axis=0), *np.quantile(draws, [0.05, 0.95], axis=0)])
        by_draws = np.nanmax(np.abs(found - fine) / error)
        share = rows = math.nan
        if hasattr(case.posterior, "propose"):
            _, log_weight = case.posterior.propose(rng, 100_000)
            weight = np.exp(log_weight - log_weight.max())
            share = weight.sum() ** 2 / np.sum(weight**2) / weight.size
        rows = against_rows(case, draws[:200])
        print(
            f"{name:<22}{seconds:>8.1f}{case.posterior.bulk_error:>11.1e}{resolution:>11.1e}{by_draws:>8.2f}"
            f"{share:>14.2f}{rows:>10.1e}",
            flush=True,
        )


def against_rows(case: Case, draws: np.ndarray) -> float:
    """Return by how much log likelihoods at draws differ, but for a constant, from plain sums over all rows."""
    own = getattr(case.posterior, "log_likelihood", None)
    if own is None:  # a formula, not an approximation
        return math.nan
    return float(np.ptp(own(draws) - Rows(case.X, case.y, case.family.link)(draws)))


if __name__ == "__main__":
    main()
