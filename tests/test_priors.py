"""Priors of every kind: what they resolve to, that draws are exact under them, and what is refused."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.errors import InputError, NoModeError
from tallbayes.setup.mode import find_mode

P = tb.priors


def data(n=40, d=1, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(float)


# A prior, and minus its log density up to a constant, written once more.
ONE_COEFFICIENT = {
    "student": (P.StudentT(2.0, -0.5, 0.3), lambda t: 1.5 * np.log1p(((t + 0.5) / 0.3) ** 2 / 2.0)),
    "cauchy": (P.Cauchy(-1.0, 0.2), lambda t: np.log1p(((t + 1.0) / 0.2) ** 2)),
    "laplace": (P.Laplace(0.2, 0.15), lambda t: np.abs(t - 0.2) / 0.15),
    "kink at the mode": (P.Laplace(0.9, 0.02), lambda t: np.abs(t - 0.9) / 0.02),
    "uniform": (P.Uniform(-1.0, 4.0), lambda t: np.where((t >= -1.0) & (t <= 4.0), 0.0, np.inf)),
    "uniform, cut off": (P.Uniform(-1.0, 0.4), lambda t: np.where((t >= -1.0) & (t <= 0.4), 0.0, np.inf)),
    "half a line": (P.Uniform(1.3, math.inf), lambda t: np.where(t >= 1.3, 0.0, np.inf)),
}


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", ONE_COEFFICIENT)
def test_draws_agree_with_quadrature(name, order):
    prior, potential = ONE_COEFFICIENT[name]
    X, y = data()
    model = tb.Regression(X, y, tb.families.Bernoulli(), prior)
    tree = tb.sample(model, tb.kernels.ScalableMH(order=order), draws=20_000, chains=2, seed=order, progress=False)
    beta = np.asarray(tree["posterior"]["beta"])[..., 0]
    grid = np.linspace(-4.0, 6.0, 400_001)
    eta = X[:, 0] * 0.0
    value = potential(grid)
    for x, response in zip(X[:, 0], y, strict=True):
        eta = x * grid
        value = value + np.logaddexp(0.0, eta) - response * eta
    density = np.exp(-(value - np.min(value)))
    density /= density.sum()
    mean = float(density @ grid)
    cumulative = np.cumsum(density)
    low, high = (float(grid[np.searchsorted(cumulative, p)]) for p in (0.1, 0.8))
    # Each test: |z| > 5.3, false positives 1.2e-7, 42 tests in all.
    for f, expected in (
        (beta, mean),
        ((beta <= low).astype(float), float(cumulative[np.searchsorted(grid, low)])),
        ((beta <= high).astype(float), float(cumulative[np.searchsorted(grid, high)])),
    ):
        error = math.sqrt(_variance_of_mean(f))
        assert abs(float(f.mean()) - expected) < 5.3 * error
    if isinstance(prior, P.Uniform):
        assert np.min(beta) >= prior.low
        assert np.max(beta) <= prior.high


def _variance_of_mean(f):
    """Of two long chains, by batch means."""
    batches = f.reshape(-1, 500).mean(axis=1)
    return float(np.var(batches, ddof=1)) / batches.size


def test_one_for_each_and_by_name():
    X, y = data(d=3)
    listed = tb.Regression(X, y, tb.families.Bernoulli(), [P.Flat(), P.Laplace(1.0, 2.0), P.StudentT(4.0)])
    assert (
        listed.coefficient_priors.describe(listed.names)
        == "x0 ~ Flat(), x1 ~ Laplace(1, 2), x2 ~ StudentT(4, 0, 1)"
    )
    named = tb.Regression(
        X, y, tb.families.Bernoulli(), {"b": P.Uniform(0.0, math.inf)}, names=["a", "b", "c"]
    ).coefficient_priors
    default = tb.Regression(X, y, tb.families.Bernoulli()).coefficient_priors
    assert named.describe(["a", "b", "c"]).split(", b ~ ")[1].startswith("Uniform(0, inf)")
    np.testing.assert_array_equal(named.scale[[0, 2]], default.scale[[0, 2]])
    arrays = tb.Regression(X, y, tb.families.Bernoulli(), P.Laplace([0.0, 1.0, 2.0], 0.5)).coefficient_priors
    np.testing.assert_array_equal(arrays.location, [0.0, 1.0, 2.0])


def test_the_default_is_printed():
    X, y = data(d=8)
    model = tb.Regression(X, y, tb.families.Bernoulli())
    scale = 2.5 / X[:, 0].std()
    text = str(tb.explain(model))
    assert f"x0 ~ Normal(0, {scale:.4g})" in text
    assert "(8 in all)" in text
    tree = tb.sample(model, draws=10, chains=1, seed=1, progress=False)
    assert tree.attrs["coefficient_priors"].count("Normal") == 8


@pytest.mark.parametrize(
    "family", [tb.families.Gaussian(0.1), tb.families.StudentT(4.0, 0.1), tb.families.PseudoHuber()]
)
def test_default_prior_counts_weights_as_rows(family):
    rng = np.random.default_rng(4)
    X, y, times = rng.standard_normal((21, 2)) + 3.0, 5.0 * rng.standard_normal(21), rng.integers(0, 4, 21)
    weighted = tb.Regression(X, y, family, weights=times).coefficient_priors
    written = tb.Regression(np.repeat(X, times, axis=0), np.repeat(y, times), family).coefficient_priors
    np.testing.assert_allclose(weighted.scale, written.scale, rtol=1e-12)


@pytest.mark.parametrize("kind", ["student", "laplace", "uniform", "half a line"])
def test_stand_ins_are_smooth_and_bend_upwards(kind):
    priors = ONE_COEFFICIENT[kind][0].resolve(SimpleNamespace(mean=np.zeros(1)), 1.0)
    for theta in (-0.9, 0.3, 1.4, 3.9):
        point, step = np.array([theta]), 1e-5
        (value, slope, curvature), (above, *_), (below, *_) = (
            priors.stand_in(point + e) for e in (0.0, step, -step)
        )
        if not math.isfinite(value):
            assert kind == "half a line"
            continue
        assert slope[0] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8)
        assert curvature[0] > 0.0
        if kind != "student":
            assert curvature[0] == pytest.approx((above - 2 * value + below) / step**2, rel=1e-3, abs=1e-4)


def test_modes_of_smooth_priors_are_modes():
    X, y = data(n=200, d=3)
    model = tb.Regression(X, y, tb.families.Bernoulli(), P.StudentT(3.0, 0.0, 0.1))
    theta = find_mode(model, threads=1).theta
    t = theta / 0.1
    gradient = X.T @ (1 / (1 + np.exp(-X @ theta)) - y) + 4.0 * t / (3.0 + t * t) / 0.1
    np.testing.assert_allclose(gradient, 0.0, atol=1e-5)


def test_a_proper_prior_makes_separated_data_proper():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    for prior in (P.Cauchy(0.0, 1.0), P.Laplace(), P.Uniform(-3.0, 3.0)):
        tree = tb.sample(
            tb.Regression(X, y, tb.families.Bernoulli(), prior), draws=200, chains=1, seed=1, progress=False
        )
        assert np.all(np.isfinite(np.asarray(tree["posterior"]["beta"])))
    with pytest.raises(NoModeError, match="separated"):
        find_mode(tb.Regression(X, y, tb.families.Bernoulli(), P.Uniform(0.0, math.inf)))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (lambda: P.StudentT(0.0), "df=0.0 must be positive"),
        (lambda: P.StudentT([1.0, 2.0, 3.0]), "df has shape"),
        (lambda: P.Laplace(0.0, -1.0), "scale=-1.0 must be positive"),
        (lambda: P.Laplace("wide"), "mean='wide' must be a number"),
        (lambda: P.Cauchy(math.nan), "mean=nan must be finite"),
        (lambda: P.Uniform(1.0, 1.0), "must be below high"),
        (lambda: P.Uniform(math.nan, 1.0), "must be below high"),
        (lambda: P.Uniform(-math.inf, math.inf), "both infinite"),
        (lambda: {"z": P.Flat()}, "'z' is not a coefficient; the names are x0, x1"),
        (lambda: [P.Flat()], "1 were given; expected one for each of the 2"),
        (lambda: [P.Flat(), 3.0], "3.0 was given; expected e.g. tb.priors.Normal"),
        (lambda: {"x0": "flat"}, "'flat' was given"),
        (lambda: "flat", "'flat' was given"),
    ],
)
def test_what_is_refused(prior, message):
    X, y = data(d=2)
    with pytest.raises(InputError, match=message):
        tb.Regression(X, y, tb.families.Bernoulli(), prior())


def test_none_is_the_default_of_a_coefficient():
    X = np.column_stack([np.ones(50), np.arange(50.0)])
    y = np.arange(50) % 2
    listed = tb.Regression(X, y, tb.families.Bernoulli(), [None, P.Cauchy(0.0, 2.0)])
    named = tb.Regression(X, y, tb.families.Bernoulli(), {"x0": None, "x1": P.Cauchy(0.0, 2.0)})
    default = tb.Regression(X, y, tb.families.Bernoulli()).coefficient_priors
    for model in (listed, named):
        assert model.coefficient_priors.scale[0] == default.scale[0]
        assert model.coefficient_priors.describe(model.names).endswith("x1 ~ Cauchy(0, 2)")
