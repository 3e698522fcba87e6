"""What every family promises: its formula, its derivatives, their suprema, its support, its posterior."""

import math

import mpmath
import numpy as np
import pytest

import tallbayes as tb
from tallbayes.families.curve import coefficients, jet, potential
from tallbayes.surrogate.remainder import remainder, remainder_rounding

mpmath.mp.dps = 40
softplus = lambda t: mpmath.log(1 + mpmath.exp(t))  # noqa: E731

# Family, its g in high precision, minus log-likelihood (up to a constant) from a textbook, a response sampler.
FAMILIES = {
    "bernoulli": (
        tb.families.Bernoulli(),
        softplus,
        lambda y, eta: softplus(eta) - y * eta,
        lambda rng, eta: (rng.random(eta.size) < 1 / (1 + np.exp(-eta))).astype(float),
    ),
    "student-t": (
        tb.families.StudentT(3.0, 0.7),
        lambda t: 2 * mpmath.log(1 + t * t / 3),
        lambda y, eta: 2 * mpmath.log(1 + ((y - eta) / 0.7) ** 2 / 3),
        lambda rng, eta: eta + 0.7 * rng.standard_t(3.0, eta.size),
    ),
    "poisson": (
        tb.families.Poisson(),
        mpmath.exp,
        lambda y, eta: mpmath.exp(eta) - y * eta,
        lambda rng, eta: rng.poisson(np.exp(eta)).astype(float),
    ),
    "gamma": (
        tb.families.Gamma(2.5),
        mpmath.exp,
        lambda y, eta: 2.5 * (eta + y * mpmath.exp(-eta)),
        lambda rng, eta: rng.gamma(2.5, np.exp(eta) / 2.5),
    ),
    "negative-binomial": (
        tb.families.NegativeBinomial(1.7),
        softplus,
        lambda y, eta: (y + 1.7) * mpmath.log(1.7 + mpmath.exp(eta)) - y * eta,
        lambda rng, eta: rng.negative_binomial(1.7, 1.7 / (1.7 + np.exp(eta))).astype(float),
    ),
    "gaussian": (
        tb.families.Gaussian(0.4),
        lambda t: t * t / 2,
        lambda y, eta: ((y - eta) / 0.4) ** 2 / 2,
        lambda rng, eta: eta + 0.4 * rng.standard_normal(eta.size),
    ),
    "pseudo-huber": (
        tb.families.PseudoHuber(1.3, 0.5),
        lambda t: 1.69 * (mpmath.sqrt(1 + (t / mpmath.mpf("1.3")) ** 2) - 1),
        lambda y, eta: 1.69 * (mpmath.sqrt(1 + ((y - eta) / (mpmath.mpf("0.5") * mpmath.mpf("1.3"))) ** 2) - 1),
        lambda rng, eta: eta + 0.5 * rng.standard_t(3.0, eta.size),
    ),
}
POINTS = [-30.0, -3.1, -1.0, -0.2, 0.0, 1e-3, 0.7, 2.5, 20.0]


@pytest.fixture(params=FAMILIES, name="entry")
def _entry(request):
    return FAMILIES[request.param]


def test_curve_and_derivatives(entry):
    family, g, _, _ = entry
    for t in POINTS:
        assert potential(family.curve, t, 0.0) == pytest.approx(float(g(mpmath.mpf(t))), rel=1e-13, abs=1e-300)
        for m, value in enumerate(jet(family.curve, t, 0.0), start=1):
            wanted = float(mpmath.diff(g, mpmath.mpf(t), m))
            assert value == pytest.approx(wanted, rel=1e-9, abs=1e-14)


def test_rows_are_the_likelihood(entry):
    family, _, likelihood, respond = entry
    rng = np.random.default_rng(1)
    responses = respond(rng, np.array([-0.5, 0.0, 0.8]))
    for y in responses:
        m, s, c, l, piece = coefficients(family.curve, float(y))
        values = [m * potential(family.curve, s * eta + c, piece) + l * eta for eta in (-1.0, 0.3, 2.0)]
        wanted = [float(likelihood(mpmath.mpf(float(y)), mpmath.mpf(eta))) for eta in (-1.0, 0.3, 2.0)]
        assert np.diff(values) == pytest.approx(np.diff(wanted), rel=1e-11)


def test_suprema_are_valid_and_tight(entry):
    family = entry[0]
    grid = np.linspace(-40.0, 40.0, 20_001)
    table = np.abs([jet(family.curve, float(t), 0.0) for t in grid])
    for m in range(1, 5):
        largest = float(table[:, m - 1].max())
        supremum = family.supremum(m)
        assert largest <= supremum * (1 + 1e-12)
        if math.isfinite(supremum) and supremum > 0.0:
            assert largest >= 0.95 * supremum


def test_remainders_keep_their_digits(entry):
    family, g, _, _ = entry
    for t in (-4.0, 0.3, 3.0):
        for delta in (1e-9, -1e-4, 0.03, 0.4, -2.0):
            for k in range(4):
                taylor = sum(
                    mpmath.diff(g, mpmath.mpf(t), j) * mpmath.mpf(delta) ** j / math.factorial(j)
                    for j in range(k + 1)
                )
                wanted = float(g(mpmath.mpf(t) + mpmath.mpf(delta)) - taylor)
                slack = remainder_rounding(family.curve, t, delta, k, 0.0)
                assert remainder(family.curve, t, delta, k, 0.0) == pytest.approx(wanted, rel=1e-10, abs=slack)


def test_no_warning_and_no_nan_far_out(entry):
    family = entry[0]
    for t in (-1e6, -800.0, -700.0, 700.0):
        assert not math.isnan(potential(family.curve, t, 0.0))
        assert not any(math.isnan(value) for value in jet(family.curve, t, 0.0))
    assert not any(math.isnan(value) for value in jet(family.curve, math.inf, 0.0))


# Every family compiles its own kernels, which takes longer than the test: all but one wait for the long run.
@pytest.mark.parametrize(
    "name", [name if name == "poisson" else pytest.param(name, marks=pytest.mark.long) for name in FAMILIES]
)
def test_posterior_agrees_with_quadrature(name):
    family, _, _, respond = FAMILIES[name]
    rng = np.random.default_rng(3)
    X = np.abs(rng.standard_normal((40, 1))) + 0.2
    offset = 0.3 * rng.standard_normal(40)
    y = respond(rng, 0.4 * X[:, 0] + offset)
    weights = rng.choice([0.5, 1.0, 2.0], 40)
    model = tb.Regression(X, y, family, tb.priors.Normal(0.3, 1.0), offset=offset, weights=weights)
    grid = np.linspace(-2.0, 2.5, 1801)
    eta = grid[:, None] * X[:, 0] + offset
    m, s, c, l, piece = coefficients(family.curve, y)
    rows = np.frompyfunc(lambda t, p: potential(family.curve, t, p), 2, 1)(s * eta + c, piece).astype(float)
    energy = (weights * (m * rows + l * eta)).sum(axis=1) + 0.5 * (grid - 0.3) ** 2
    mass = np.exp(energy.min() - energy)
    mass /= mass.sum()
    mean = mass @ grid
    sd = math.sqrt(mass @ (grid - mean) ** 2)
    tree = tb.sample(model, draws=20_000, chains=4, seed=4, progress=False)
    table = tb.summary(tree)
    # Two z-tests for each of seven families, each with a false-positive rate of 1e-7.
    assert abs(table["mean"].iloc[0] - mean) < 5.33 * table["mcse_mean"].iloc[0]
    relative = 1.0 / math.sqrt(2.0 * table["ess_tail"].iloc[0])
    assert abs(table["sd"].iloc[0] / sd - 1.0) < 5.33 * 1.5 * relative


def test_unbounded_families_refuse_global_bounds():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((100, 2))
    model = tb.Regression(X, rng.poisson(1.0, 100), tb.families.Poisson(), tb.priors.Normal(0, 1))
    for kernel in (tb.kernels.ScalableMH(2, tb.bounds.Global()), tb.kernels.FactorisedMH()):
        with pytest.raises(tb.errors.InputError, match=r"unbounded. Use bound=tb.bounds.Local\(\)"):
            tb.sample(model, kernel, draws=5, progress=False)


@pytest.mark.parametrize(
    ("family", "bad"),
    [
        (tb.families.Poisson(), 1.5),
        (tb.families.Poisson(), -1.0),
        (tb.families.NegativeBinomial(2.0), -1.0),
        (tb.families.Gamma(1.0), 0.0),
    ],
)
def test_responses_outside_the_support(family, bad):
    with pytest.raises(tb.errors.InputError, match="y: row 1 is"):
        tb.Regression(np.ones((2, 1)), [1.0, bad], family)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: tb.families.Gamma(0.0), "shape"),
        (lambda: tb.families.NegativeBinomial(-1.0), "size"),
        (lambda: tb.families.Gaussian(math.inf), "scale"),
        (lambda: tb.families.PseudoHuber(0.0), "delta"),
    ],
)
def test_bad_parameters(make, argument):
    with pytest.raises(tb.errors.InputError, match=argument):
        make()
