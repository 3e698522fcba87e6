"""Data at the ends of what double precision holds: a posterior, or a message that says what is wrong with them."""

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.errors import InputError, NoModeError
from tallbayes.families.curve import coefficients, jet
from tallbayes.setup.mode import find_mode
from tallbayes.setup.setup import setup_of

FAMILIES, FLAT = tb.families, tb.priors.Flat()
N, BETA = 500, np.array([0.3, 0.5, -0.4])


@pytest.fixture
def design():
    rng = np.random.default_rng(0)
    return np.column_stack([np.ones(N), rng.standard_normal((N, 2))]), rng


def mean_of(X):
    return np.exp(X @ BETA)


def huge_counts(X, rng):
    mean = np.exp(X @ BETA + 40.0)
    return np.round(mean + np.sqrt(mean) * rng.standard_normal(N)), FAMILIES.Poisson(), {}, [40.3, 0.5, -0.4]


def huge_exposure(X, rng):
    return np.round(1e15 * mean_of(X)), FAMILIES.Poisson(), {"offset": np.full(N, np.log(1e15))}, BETA


def one_huge_count(X, rng):
    y = rng.poisson(mean_of(X)).astype(float)
    y[5] = 1e18
    return y, FAMILIES.Poisson(), {}, None


def huge_trials(X, rng):
    return np.round(1e15 / (1.0 + np.exp(-X @ BETA))), FAMILIES.Binomial(10**15), {}, BETA


def huge_dispersed_counts(X, rng):
    y = np.round(np.exp(X @ BETA + 40.0) * rng.gamma(1e4, 1e-4, N))
    return y, FAMILIES.NegativeBinomial(1e4), {}, [40.3, 0.5, -0.4]


def tiny_normal_scale(X, rng):
    return X @ BETA + 1e-8 * rng.standard_normal(N), FAMILIES.Gaussian(1e-8), {}, BETA


def tiny_student_scale(X, rng):
    return X @ BETA + 1e-6 * rng.standard_t(4, N), FAMILIES.StudentT(4.0, 1e-6), {}, BETA


def huge_weights(X, rng):
    y = rng.random(N) < 1.0 / (1.0 + np.exp(-X @ BETA))
    return y, FAMILIES.Bernoulli(), {"weights": np.full(N, 1e15)}, None


def wild_outlier(X, rng):
    y = X @ BETA + 0.01 * rng.standard_t(4, N)
    y[7] = 1e60
    return y, FAMILIES.StudentT(4.0, 0.01), {}, BETA


def offsets_against_counts(X, rng):
    return rng.poisson(mean_of(X)), FAMILIES.Poisson(), {"offset": np.where(np.arange(N) < 5, 700.0, 0.0)}, None


def offsets_against_amounts(X, rng):
    y = rng.gamma(2.0, mean_of(X) / 2.0)
    return y, FAMILIES.Gamma(2.0), {"offset": np.where(np.arange(N) < 5, -700.0, 0.0)}, None


def offsets_against_probit(X, rng):
    y = rng.random(N) < 0.5
    offset = np.where(np.arange(N) < 5, np.where(y, -700.0, 700.0), 0.0)
    return y, FAMILIES.Bernoulli("probit"), {"offset": offset}, None


def offsets_that_say_nothing(X, rng):
    y = rng.poisson(mean_of(X)).astype(float)
    y[0] = 1.0
    return y, FAMILIES.Poisson(), {"offset": np.where(np.arange(N) < 3, -2e5, 0.0)}, None


EXTREMES = [
    offsets_that_say_nothing,
    huge_counts,
    huge_exposure,
    one_huge_count,
    huge_trials,
    huge_dispersed_counts,
    tiny_normal_scale,
    tiny_student_scale,
    huge_weights,
    wild_outlier,
    offsets_against_counts,
    offsets_against_amounts,
    offsets_against_probit,
]


@pytest.mark.parametrize("make", EXTREMES)
def test_extreme_data_have_a_mode(make, design):
    X, rng = design
    y, family, options, wanted = make(X, rng)
    setup = setup_of(tb.Regression(X, y, family, FLAT, **options), threads=1)
    # Newton's next step is short beside the posterior, whatever rounding leaves of it.
    assert np.linalg.norm(setup.metric.gradient) < 1e-2
    if wanted is not None:
        np.testing.assert_allclose(setup.mode.theta, wanted, atol=0.01)


def test_draws_of_huge_counts_have_the_right_spread(design):
    """Rows of 1e17 lose no digits of their differences: draws spread as the curvature says."""
    X, rng = design
    y, family, options, _ = huge_counts(X, rng)
    tree = tb.sample(tb.Regression(X, y, family, FLAT, **options), draws=2000, chains=2, seed=1, progress=False)
    spread = np.std(tree["posterior"]["beta"].values.reshape(-1, 3), axis=0)
    wanted = np.sqrt(np.diag(np.linalg.inv((X.T * y) @ X)))
    np.testing.assert_allclose(spread, wanted, rtol=0.1)
    assert tree.attrs["bound_violations"] == 0


@pytest.mark.parametrize("y", [0.0, 2.0, 3.0, 4.0, 1e6, 1e17])
def test_slope_of_a_dispersed_count_loses_no_digits(y):
    size, eta = 3.0, np.log(y + 1.0) + 0.1
    m, s, c, l, piece = coefficients(FAMILIES.NegativeBinomial(size).curve, y)
    slope = m * s * jet(FAMILIES.NegativeBinomial(size).curve, s * eta + c, piece)[0] + l
    mean = np.exp(eta)
    assert slope == pytest.approx(size * (mean - y) / (mean + size), rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "weight", "message"),
    [
        (1e-100, 1.0, "narrower than double precision resolves"),
        (1.0, 1e300, "narrower than double precision resolves"),
        (1e-300, 1.0, "too large for a float64. The row that pulls hardest is 0: response"),
    ],
)
def test_posteriors_that_no_number_holds(design, scale, weight, message):
    X, rng = design
    y = X @ BETA + rng.standard_normal(N)
    model = tb.Regression(X, y, FAMILIES.Gaussian(scale), FLAT, weights=np.full(N, weight))
    with pytest.raises(NoModeError, match=message):
        setup_of(model, threads=1).metric  # noqa: B018


def test_counts_too_large_for_an_unknown_size_are_refused_at_once(design):
    """Rounding would hide the size; up to the largest that is taken it does not: gamma amounts have the same shape."""
    X, rng = design
    y = np.round(1e11 * rng.beta(2.0, 5.0, N))
    mode = setup_of(tb.Regression(X, y, FAMILIES.NegativeBinomial()), threads=1).mode.theta
    np.testing.assert_allclose(
        mode, setup_of(tb.Regression(X, y, FAMILIES.Gamma()), threads=1).mode.theta, atol=1e-4
    )
    y[3] = 2e11
    with pytest.raises(
        InputError, match=r"row 3 is 2e\+11 .* takes whole numbers.*, up to 1e\+11 if the size is unknown.*Gamma"
    ):
        tb.Regression(X, y, FAMILIES.NegativeBinomial())
    assert tb.Regression(X, y, FAMILIES.NegativeBinomial(2.0)).n == N


SHAPE_UNBOUNDED = [
    None,
    tb.priors.LogNormal(0, 1),
    tb.priors.InverseGamma(2, 1),
    tb.priors.HalfCauchy(10),
    tb.priors.HalfStudentT(3, 10),
]


@pytest.mark.parametrize("prior", SHAPE_UNBOUNDED)
def test_amounts_that_are_fitted_exactly_name_the_shape(design, prior):
    X, _ = design
    model = tb.Regression(X, np.exp(X @ BETA), FAMILIES.Gamma(prior))
    with pytest.raises(
        NoModeError, match=r"fit the logs of \d+ responses exactly.*the shape rises.*HalfNormal"
    ) as error:
        setup_of(model, threads=1).mode  # noqa: B018
    assert ("the default prior" if prior is None else repr(prior)) in str(error.value)


@pytest.mark.parametrize("prior", [tb.priors.HalfNormal(10), tb.priors.Exponential(1)])
def test_a_prior_that_bounds_the_shape_makes_do_with_an_exact_fit(design, prior):
    X, _ = design
    mode = setup_of(tb.Regression(X, np.exp(X @ BETA), FAMILIES.Gamma(prior)), threads=1).mode.theta
    np.testing.assert_allclose(mode[:-1], BETA, atol=0.05)
    assert np.exp(mode[-1]) > 10.0


def test_a_scale_below_rounding_is_refused(design):
    """A log-normal prior holds the scale of an exact fit at e^-n: of ten rows that can be drawn, of thirty not."""
    X, _ = design
    y = X @ BETA
    family = FAMILIES.Gaussian(tb.priors.LogNormal(0, 1))
    mode = setup_of(tb.Regression(X[:10], y[:10], family), threads=1).mode.theta
    assert mode[-1] == pytest.approx(-10.0, abs=1e-6)
    light = tb.Regression(X, y, family, weights=np.full(N, 10.0 / N))  # as much as ten rows
    assert setup_of(light, threads=1).mode.theta[-1] == pytest.approx(-10.0, abs=1e-6)
    with pytest.raises(NoModeError, match=r"LogNormal\(mean=0, sd=1\) with 500 rows leaves the scale below"):
        setup_of(tb.Regression(X, y, family), threads=1).mode  # noqa: B018


@pytest.mark.parametrize("family", [FAMILIES.ZeroInflatedPoisson(), FAMILIES.HurdlePoisson()])
def test_zeros_alone_do_not_tell_of_counts(design, family):
    X, _ = design
    with pytest.raises(InputError, match=r"y: every response with a weight is 0, .*Poisson"):
        tb.Regression(X, np.zeros(N), family)
    y = np.zeros(N)
    y[0] = 3.0
    with pytest.raises(InputError, match="every response with a weight is 0"):
        tb.Regression(X, y, family, weights=1.0 * (y == 0.0))
    assert tb.Regression(X, y, family).n == N


def test_no_proper_prior_is_advised_where_there_is_one(design, monkeypatch):
    X, rng = design
    monkeypatch.setattr("tallbayes.setup.mode.LIMIT", 1)
    monkeypatch.setattr("tallbayes.setup.mode.PATIENCE", 0)
    y = rng.poisson(mean_of(X)).astype(float)
    y[17] = 1e9
    with pytest.raises(NoModeError, match=r"pulls hardest is 17: response 1e\+09.*Look for responses") as error:
        find_mode(tb.Regression(X, y, FAMILIES.Poisson(), tb.priors.Normal(0, 1)), threads=1)
    assert "proper prior" not in str(error.value)


def test_hardly_any_dispersion_left_warns_of_nothing(design):
    """Warnings are errors here: forecasts must not overflow either."""
    X, rng = design
    tree = tb.sample(
        tb.Regression(X, rng.poisson(2.0, N), FAMILIES.NegativeBinomial(1e-6)), draws=20, chains=1, progress=False
    )
    assert np.all(np.isfinite(tree["posterior"]["beta"]))


def test_a_column_that_only_rows_without_weight_have(design):
    X, rng = design
    X = np.column_stack([X, np.arange(N) < 5])
    y, weights = rng.random(N) < 0.5, np.where(np.arange(N) < 5, 0.0, 1.0)
    with pytest.raises(InputError, match="column 'x3' is zero in every row with a weight, so the default prior"):
        tb.Regression(X, y, FAMILIES.Bernoulli(), weights=weights)
    with pytest.raises(InputError, match="column 'rare' is zero in every row with a weight"):
        tb.Regression(X, y, FAMILIES.Bernoulli(), weights=weights, names=["a", "b", "c", "rare"])
    given = tb.Regression(X, y, FAMILIES.Bernoulli(), {"x3": tb.priors.Normal(0.0, 1.0)}, weights=weights)
    others = tb.Regression(X[:, :3], y, FAMILIES.Bernoulli(), weights=weights)
    np.testing.assert_array_equal(given.coefficient_priors.scale, [*others.coefficient_priors.scale, 1.0])
    tb.Regression(X, y, FAMILIES.Bernoulli(), tb.priors.Normal(0.0, 1.0), weights=weights)


def test_responses_whose_powers_overflow(design):
    X, _ = design
    with pytest.raises(InputError, match=r"y: row 3 is 1e\+200, whose powers no float64 holds"):
        tb.Regression(X, np.where(np.arange(N) == 3, 1e200, 0.0), FAMILIES.Gaussian(scale=1.0))


@pytest.mark.parametrize("seed", [3, 4])
def test_a_level_whose_events_a_subsample_has_not_seen(seed):
    """Its mode in the subsample is far out, where the curvature of all rows is nearly nothing: a step goes too far."""
    rng = np.random.default_rng(seed)
    n = 400_000
    X = np.column_stack([np.ones(n), rng.lognormal(0.0, 0.5, (n, 10)), np.zeros((n, 2))])
    y = (rng.random(n) < 0.01).astype(float)
    for column, rows in ((11, 500), (12, 300)):
        X[rng.choice(n, rows, replace=False), column] = 1.0
    model = tb.Regression(X, y, FAMILIES.Bernoulli(), tb.priors.Flat())
    found = find_mode(model)
    assert found.passes <= 10
    assert np.all(np.abs(np.linalg.solve(found.hessian, found.gradient)) < 0.3 / np.sqrt(np.diag(found.hessian)))
