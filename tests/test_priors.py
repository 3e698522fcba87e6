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


N = 4002
ONE_ROW = np.arange(N) == 1234
HALF = np.arange(N) % 2 == 0

# A column, and what its coefficient's prior is scaled by.
COLUMNS = {
    "half": (HALF, 1.0),
    "one row": (ONE_ROW, 1.0),
    "all but one row": (~ONE_ROW, 1.0),
    "first row": (np.arange(N) == 0, 1.0),
    "last row": (np.arange(N) == N - 1, 1.0),
    "1 and 2": (1 + ONE_ROW, 1.0),
    "-1 and 1": (2 * HALF - 1, 2.0),
    "-5 and -2": (np.where(ONE_ROW, -2, -5), 3.0),
    "0 and 100": (100 * ONE_ROW, 100.0),
    "three": (np.arange(N) % 3, math.sqrt(2 / 3)),
    "two and one row": (np.where(ONE_ROW, 2, HALF), None),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.int64, np.bool_])
def test_the_default_is_scaled_by_the_difference_of_two_values(dtype):
    """However rare one of the values is, and whatever they are; by the standard deviation where there are more."""
    columns = {name: (x.astype(dtype), by) for name, (x, by) in COLUMNS.items()}
    if dtype is np.bool_:  # what is not zero is True: some columns become constant
        columns = {name: (x, 1.0) for name, (x, _) in columns.items() if not x.all()}
    X = np.column_stack([x for x, _ in columns.values()])
    assert X.dtype == dtype
    y = np.arange(N) % 5 == 0
    by = np.array([by or x.std(dtype=float) for x, by in columns.values()])
    for order in ("C", "F"):
        model = tb.Regression(np.asarray(X, order=order), y, tb.families.Bernoulli(), names=list(columns))
        np.testing.assert_allclose(model.coefficient_priors.scale, 2.5 / by, rtol=1e-12)
        np.testing.assert_array_equal(model.coefficient_priors.location, 0.0)
    assert "one row ~ Normal(0, 2.5)" in model.coefficient_priors.describe(model.names)


def test_the_default_for_other_spreads_and_strengths():
    x = np.column_stack([ONE_ROW, 1000.0 * HALF, np.arange(N)])
    y = 7.0 * np.arange(N) % 11
    for strength in (2.5, 1.0):
        prior = tb.priors.WeaklyInformative(strength)
        found = tb.Regression(x, y, tb.families.Gaussian(scale=1.0), prior).coefficient_priors.scale
        np.testing.assert_allclose(found, strength * y.std() / np.array([1.0, 1000.0, x[:, 2].std()]), rtol=1e-12)


def test_the_default_of_an_intercept():
    """Ten units, and as far as the other columns' means and priors can push it; for any constant."""
    x = np.arange(N) / N + 3.0
    X = np.column_stack([np.ones(N), ONE_ROW, 5 + 2 * HALF, x])
    found = tb.Regression(X, HALF, tb.families.Bernoulli()).coefficient_priors.scale
    push = [2.5 / N, 2.5 / 2 * 6.0, 2.5 / x.std() * x.mean()]
    np.testing.assert_allclose(found, [math.hypot(10.0, *push), 2.5, 1.25, 2.5 / x.std()], rtol=1e-12)
    X[:, 0] = -4.0
    again = tb.Regression(X, HALF, tb.families.Bernoulli()).coefficient_priors.scale
    np.testing.assert_allclose(again, [found[0] / 4.0, *found[1:]], rtol=1e-12)


def constants():
    """Return models with constants beside the coefficients, of columns with these means; and names and default numbers.

    A model is made of a design of the second predictor, or of the only one, which has no constant then.
    """
    F, rng = tb.families, np.random.default_rng(21)
    n = 3000
    z, share = rng.standard_normal((n, 2)), 1 / (1 + np.exp(-rng.standard_normal(n)))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    ones, level = np.ones((n, 1)), np.digitize(1.5 * z[:, 0] + rng.logistic(size=n), [-1.0, 0.5])
    noise = rng.standard_normal(n) * np.exp(0.7 * z[:, 0])
    counts = np.where(share < 1 / (1 + np.exp(-z[:, 0])), 0, rng.poisson(4.0, n))

    def second(family, y):
        return lambda by: tb.Regression(ones, y, family, scale_design=np.column_stack([ones, z + by]))

    # how to make it, first of the parameters beside those of the mean, the coefficient of z[:, 0], effect, reach, mean
    return {
        "logit": (lambda by: tb.Regression(z + by, level, F.Ordinal()), 2, 0, 2.5, 10.0, 0.0),
        "probit": (lambda by: tb.Regression(z + by, level, F.Ordinal(link="probit")), 2, 0, 2.5, 10.0, 0.0),
        "scale": (second(F.Gaussian(), noise), 1, 2, 1.0, 2.5, math.log(noise.std())),
        "inflated": (second(F.ZeroInflatedPoisson(), counts), 1, 2, 2.5, 1.8, 0.0),
        "hurdle": (second(F.HurdlePoisson(), counts), 1, 2, 2.5, 1.8, 0.0),
    }


CONSTANTS = ("logit", "probit", "scale", "inflated", "hurdle")


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_default_of_other_constants(name):
    """That of an intercept: as far as the columns of the same predictor push it, and a number of its own more."""
    make, first, slope, effect, reach, mean = constants()[name]
    cuts = name in ("logit", "probit")
    for by in ([0.0, 0.0], [1000.0, 0.0], [-20.0, 7.0]):
        priors = make(np.array(by)).coefficient_priors
        widest = math.hypot(reach, *(effect * b * math.sqrt(2 if cuts else 1) for b in by))
        np.testing.assert_allclose(priors.scale[slope : slope + 2], effect, rtol=1e-9)
        np.testing.assert_allclose(priors.scale[first : first + (2 if cuts else 1)], widest, rtol=1e-9)
        np.testing.assert_allclose(priors.location[first], mean, rtol=1e-9, atol=1e-9)
        assert priors.scale.size == 4


def test_constants_alone_and_of_other_sizes():
    F, n = tb.families, 60
    ones, x, counts = np.ones((n, 1)), np.linspace(-1.0, 1.0, n) + 5.0, np.arange(n) % 4
    for family in (F.ZeroInflatedPoisson(), F.HurdlePoisson()):
        assert "zero_logit ~ Normal(0, 1.8)" in str(tb.explain(tb.Regression(ones, counts, family)))
        found = tb.Regression(
            ones, counts, family, scale_design=np.column_stack([-4.0 * ones, x])
        ).coefficient_priors
        np.testing.assert_allclose(found.scale[1], math.hypot(1.8, 2.5 * 5.0 / x.std()) / 4.0, rtol=1e-9)
        alone = tb.Regression(ones, counts, family, scale_design=x[:, None]).coefficient_priors
        np.testing.assert_allclose(alone.scale[1:], 2.5 / x.std(), rtol=1e-9)
    y = counts + 0.1 * x
    found = tb.Regression(ones, y, F.Gaussian(), scale_design=np.column_stack([-4.0 * ones, x])).coefficient_priors
    np.testing.assert_allclose(found.location[1:], [-math.log(y.std()) / 4.0, 0.0], rtol=1e-9)
    np.testing.assert_allclose(found.scale[1:], [math.hypot(2.5, 5.0 / x.std()) / 4.0, 1.0 / x.std()], rtol=1e-9)
    # cut points have the strength that the coefficients have; priors that were given stay
    weak = tb.Regression(x[:, None], counts, F.Ordinal(), P.WeaklyInformative(10.0)).coefficient_priors
    np.testing.assert_allclose(weak.scale[1:], math.hypot(10.0, math.sqrt(3) * 50.0 / x.std()), rtol=1e-9)
    given = tb.Regression(x[:, None], counts, F.Ordinal(cuts=P.Normal(1.0, 3.0))).coefficient_priors
    np.testing.assert_array_equal(given.scale[1:], 3.0)
    named = tb.Regression(x[:, None], counts, F.Ordinal(), {"cut[1|2]": P.Normal(0.0, 4.0)}).coefficient_priors
    assert named.scale[2] == 4.0
    assert named.scale[1] == named.scale[3] > 10.0


def test_a_second_column_of_zeros_has_no_default():
    n, weights = 60, np.where(np.arange(60) == 5, 0.0, 1.0)
    Z = np.column_stack([np.ones(n), np.arange(n) == 5])
    y = np.arange(n) % 4
    for family in (tb.families.Gaussian(), tb.families.ZeroInflatedPoisson()):
        with pytest.raises(InputError, match=r"_beta\[z1\]' is zero in every row with a weight"):
            tb.Regression(np.ones((n, 1)), y, family, weights=weights, scale_design=Z)


@pytest.mark.parametrize("name", CONSTANTS)
def test_columns_far_from_zero_have_the_same_effect(name):
    """Slopes of columns with mean 1000 and mean 0: |z| > 5.3, false positives 1.2e-7 for each of five.

    Priors are not quite the same: as constant and effect push each other, that of a shifted effect has half the
    variance or more. So a posterior of variance v moves by v / effect^2 of its mean; under a percent here.
    """
    make, _, slope, effect, _, _ = constants()[name]
    found = []
    for by in (0.0, 1000.0):
        tree = tb.sample(make(np.array([by, 0.0])), draws=1000, chains=2, seed=5, progress=False)
        found.append(tb.summary(tree).iloc[slope])
    centred, shifted = found
    error = math.hypot(*(row["sd"] / math.sqrt(row["ess_bulk"]) for row in found))
    allowed = 2.0 * (centred["sd"] / effect) ** 2
    assert allowed < 0.01
    assert abs(centred["mean"] - shifted["mean"]) < 5.3 * error + allowed * centred["mean"]
    assert centred["mean"] > 0.6


def test_values_in_rows_without_weight_are_none():
    """A third value there is not seen, and a second one leaves a constant."""
    X = np.column_stack([HALF, np.ones(N), np.arange(N)]).astype(float)
    X[5] = 9.0
    weights = np.where(np.arange(N) == 5, 0.0, 2.0)
    found = tb.Regression(X, HALF, tb.families.Bernoulli(), weights=weights).coefficient_priors.scale
    kept = np.delete(X, 5, axis=0)
    written = tb.Regression(kept, np.delete(HALF, 5), tb.families.Bernoulli()).coefficient_priors.scale
    np.testing.assert_allclose(found, written, rtol=1e-12)
    assert found[0] == 2.5
    assert found[1] > 10.0
    weights[5] = 1e-3  # the least weight counts
    assert tb.Regression(X, HALF, tb.families.Bernoulli(), weights=weights).coefficient_priors.scale[0] > 4.5


def test_a_level_without_an_event_has_a_moderate_posterior():
    """20 of 20,000 rows: the prior holds what the likelihood lets go to minus infinity. Quadrature has the answer."""
    rng = np.random.default_rng(6)
    n = 20_000
    level = np.arange(n) < 20
    y = (rng.random(n) < 0.2) & ~level
    model = tb.Regression(np.column_stack([np.ones(n), level]), y, tb.families.Bernoulli(), names=["one", "level"])
    assert "level ~ Normal(0, 2.5)" in str(tb.explain(model))
    tree = tb.sample(model, draws=5000, chains=2, seed=2, progress=False)
    assert "level ~ Normal(0, 2.5)" in tree.attrs["coefficient_priors"]
    beta = np.asarray(tree["posterior"]["beta"])[..., 1]
    # The intercept is known to 0.02, which moves the level's mean by less than that.
    odds, grid = np.log(np.mean(y[20:]) / np.mean(~y[20:])), np.linspace(-20.0, 10.0, 30_001)
    density = np.exp(-0.5 * (grid / 2.5) ** 2 - 20 * np.logaddexp(0.0, odds + grid))
    density /= density.sum()
    mean = density @ grid
    sd = math.sqrt(density @ (grid - mean) ** 2)
    assert -4.0 < mean < -2.0
    assert sd < 2.0
    # |z| > 5.3, false positives 1.2e-7 each, and the intercept's part.
    assert abs(beta.mean() - mean) < 5.3 * math.sqrt(_variance_of_mean(beta)) + 0.02
    squares = (beta - mean) ** 2
    assert abs(squares.mean() - sd**2) < 5.3 * math.sqrt(_variance_of_mean(squares)) + 0.04 * sd


@pytest.mark.parametrize(
    "family", [tb.families.Gaussian(0.1), tb.families.StudentT(4.0, 0.1), tb.families.PseudoHuber(scale=1.0)]
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
