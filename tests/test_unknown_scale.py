"""Noise of unknown scale: derivatives, bounds in both directions, priors, posteriors in closed form, refusals."""

import dataclasses
import itertools
import json
import math
import warnings

import mpmath
import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from problems import Driver, directly, run, setup_at, stream
from tallbayes.families.algebraic import index_of, table_of, terms
from tallbayes.models import passes
from tallbayes.models.predictors import Linear, Several
from tallbayes.plan.choose import choose
from tallbayes.priors.resolved import UNIFORM
from tallbayes.results.draws import named_draws
from tallbayes.results.mixing import mixing_of
from tallbayes.setup.exact_prior import exact_at, exact_prior, prior_potential
from tallbayes.setup.mode import Mode
from tallbayes.sources.arrays import ArraySource

FAMILIES = {
    "gaussian": (tb.families.Gaussian(), lambda u: u**2 / 2),
    "student": (tb.families.StudentT(3.0), lambda u: 2 * mpmath.log(1 + u**2 / 3)),
    "huber": (tb.families.PseudoHuber(1.3), lambda u: 1.69 * (mpmath.sqrt(1 + u**2 / 1.69) - 1)),
}
FLAT = tb.priors.Flat()


def exact(noise, y):
    """U(eta, tau) of a row, in high precision."""
    return lambda eta, tau: noise((y - eta) * mpmath.exp(-tau)) + tau


def line_of(value, at, move):
    """A function of two variables along a line."""
    return lambda s: value(at[0] + s * move[0], at[1] + s * move[1])


@pytest.mark.parametrize("name", FAMILIES)
def test_jets_are_the_derivatives(name):
    family, noise = FAMILIES[name]
    with mpmath.workdps(40):
        for y, eta, tau in ((0.3, -0.4, 0.2), (5.0, -1.0, -1.1), (-80.0, 2.0, 0.7), (1.0, 1.0, 0.0)):
            found = family.rows.jets(np.array([[y]]), np.array([[eta], [tau]]), 3)[:, 0]
            at, wanted = (mpmath.mpf(eta), mpmath.mpf(tau)), []
            for m in range(4):
                wanted += [
                    mpmath.diff(exact(noise, y), at, (m - b, b)) if m else exact(noise, y)(*at)
                    for b in range(m + 1)
                ]
            np.testing.assert_allclose(found, [float(w) for w in wanted], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "order"), list(itertools.product(FAMILIES, range(4))))
def test_remainders_keep_their_digits(name, order):
    family, noise = FAMILIES[name]
    with mpmath.workdps(60):
        for (y, eta, tau), size in itertools.product(
            [(0.4, -0.2, 0.3), (6.0, -1.0, -0.4)], [1e-7, 1e-4, 3e-3, 0.02, 0.1, 0.3, 2.0]
        ):
            for direction in ([1.0, 0.0], [0.0, 1.0], [0.7, -0.6]):
                move = [mpmath.mpf(float(size * part)) for part in direction]
                value = exact(noise, y)
                line = mpmath.taylor(line_of(value, (eta, tau), move), 0, order)
                wanted = float(value(eta + move[0], tau + move[1]) - sum(line))
                given = np.array([[eta], [tau]]), np.zeros((2, 1)), np.array([[float(part)] for part in move])
                found = family.rows.remainders(np.array([[y]]), *given, order)[1, 0]
                own, _ = family.rows.rounding(np.array([y]), given[0][:, 0], given[1][:, 0], given[2][:, 0], order)
                allowed = 1e-11 * abs(wanted) + (own if size > 0.05 else 1e-14 * size ** (order + 1))
                assert abs(found - wanted) <= allowed, (y, size, direction)


def test_extremes_are_all_there_are():
    """Every sign change of the derivative of h_ab, counted exactly (Sturm), is one of the points."""
    sympy = pytest.importorskip("sympy")
    t = sympy.Symbol("t")
    for twice in (0, 1, 2):
        for term in terms(twice).values():
            numerator = sympy.Poly([int(c) for c in term.slope().polynomial[::-1]], t)
            if numerator.is_zero:
                continue
            positive = sum(1 for root in set(map(abs, term.extremes())) if root > 0.0)
            # Intervals that end at 0 count a root there; v = 0 is among the points anyway.
            exactly = numerator.count_roots(0, None) - (1 if numerator.eval(0) == 0 else 0)
            assert positive >= exactly
            for root in sympy.real_roots(numerator):
                if root > 0:
                    assert np.min(np.abs(term.extremes() - math.sqrt(float(root)))) < 1e-9


def test_tables_hold_every_derivative():
    for twice in (0, 1, 2):
        found = terms(twice)
        assert len(found) == 14 == table_of(found).shape[0]
        assert sorted(index_of(*key) for key in found) == list(range(14))


def along(rows, y, eta, tau, unit, m):
    """The m-th derivative along a move, at many points; of order 4 by differences of the third."""

    def third(shift):
        at = np.array([eta + shift * unit[0], tau + shift * unit[1]])
        order = min(m, 3)
        jets = rows.jets(np.full((eta.size, 1), y), at, order, first=order)
        return sum(math.comb(order, b) * jets[b] * unit[0] ** (order - b) * unit[1] ** b for b in range(order + 1))

    return third(0.0) if m < 4 else (third(1e-4) - third(-1e-4)) / 2e-4


@pytest.mark.parametrize(("name", "m"), list(itertools.product(FAMILIES, [1, 2, 3, 4])))
def test_bounds_hold_and_are_reached(name, m):
    """Search a box for a derivative along any unit move beyond its bound; along one predictor the bound is reached."""
    rows, rng = FAMILIES[name][0].rows, np.random.default_rng(m)
    s, t = (part.ravel() for part in np.meshgrid(np.linspace(-1, 1, 61), np.linspace(-1, 1, 61)))
    for _, norms in itertools.product(range(12), ([0.3, 0.2], [0.5, 0.0], [0.0, 0.4], [1e-2, 2e-2])):
        y, eta, tau = 3.0 * rng.standard_normal(3) * [1.0, 0.3, 0.2]
        radius = 2.0 * rng.random()
        given = np.array([[y]]), np.array([[eta], [tau]]), np.array(norms)[:, None]
        rise, fall, whole = rows.bounds(*given, radius, m)[:, 0]
        assert max(rise, fall) <= whole * (1 + 1e-12)
        at = eta + s * radius * norms[0], tau + t * radius * norms[1]
        units = [norms, [norms[0], -norms[1]], [0.6 * norms[0], 0.8 * norms[1]]]
        found = np.concatenate([along(rows, y, *at, unit, m) for unit in units])
        slack = 1e-5 * whole + 1e-11
        assert np.max(found) <= (rise if m % 2 == 0 else whole) + slack
        assert -np.min(found) <= (fall if m % 2 == 0 else whole) + slack
        if 0.0 in norms:  # one predictor alone: the bound is the supremum
            assert np.max(np.abs(found)) >= 0.98 * whole - 1e-9


PRIORS = {
    "half-normal": (tb.priors.HalfNormal(1.7), stats.halfnorm(scale=1.7)),
    "half-student": (tb.priors.HalfStudentT(3.0, 0.8), None),
    "half-cauchy": (tb.priors.HalfCauchy(0.6), stats.halfcauchy(scale=0.6)),
    "exponential": (tb.priors.Exponential(1.4), stats.expon(scale=1 / 1.4)),
    "log-normal": (tb.priors.LogNormal(0.3, 0.7), stats.lognorm(0.7, scale=math.exp(0.3))),
    "inverse-gamma": (tb.priors.InverseGamma(2.5, 1.2, of="value"), stats.invgamma(2.5, scale=1.2)),
    "inverse-gamma-square": (tb.priors.InverseGamma(2.5, 1.2), None),
    "flat": (tb.priors.Flat(), None),
}


def log_density(name, scale):
    """Of the scale itself, up to a constant."""
    law = PRIORS[name][1]
    if law is not None:
        return law.logpdf(scale)
    if name == "half-student":
        return stats.t(3.0, scale=0.8).logpdf(scale)
    if name == "inverse-gamma-square":  # the density of s^2 times 2 s
        return stats.invgamma(2.5, scale=1.2).logpdf(scale**2) + np.log(scale)
    return 0.0 * scale


@pytest.mark.parametrize("name", PRIORS)
def test_priors_are_of_the_scale_itself(name):
    resolved = PRIORS[name][0].of_scale()
    t = np.linspace(-2.0, 2.0, 9)
    wanted = -(log_density(name, np.exp(t)) + t)  # the logarithm's density has the factor e^t
    values, slopes, curvatures = (
        np.array(part) for part in zip(*(resolved.stand_in(np.array([x])) for x in t), strict=True)
    )
    np.testing.assert_allclose(values - values[0], wanted - wanted[0], atol=1e-12)
    h = 1e-5
    ends = [[resolved.stand_in(np.array([x + step])) for x in t] for step in (-h, h)]
    rise, bend = (
        np.array([(up[k] - low[k]) / (2 * h) for low, up in zip(*ends, strict=True)]).ravel() for k in (0, 1)
    )
    np.testing.assert_allclose(slopes[:, 0], rise, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(curvatures[:, 0], bend, rtol=1e-6, atol=1e-7)
    if resolved.kind[0] > UNIFORM:
        compiled = [prior_potential(*(float(part[0]) for part in resolved), x) for x in t]
        np.testing.assert_allclose(compiled, values, rtol=1e-13, atol=1e-13)
        whole = exact_prior(resolved, np.zeros(1), np.eye(1))
        assert whole.facts.shape == (1, 5)
        # What the driver adds up in plain Python, zero at the centre.
        at_centre = float(resolved.stand_in(np.zeros(1))[0])
        np.testing.assert_allclose(exact_at(whole, t[:, None]), values - at_centre, rtol=1e-12, atol=1e-12)


def test_priors_are_said():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 1)), rng.standard_normal(50)
    texts = {
        tb.priors.HalfNormal(2.0): "scale ~ HalfNormal(2)",
        tb.priors.HalfStudentT(4.0, 3.0): "scale ~ HalfStudentT(4, 3)",
        tb.priors.HalfCauchy(3.0): "scale ~ HalfCauchy(3)",
        tb.priors.Exponential(0.5): "scale ~ Exponential(0.5)",
        tb.priors.LogNormal(0.0, 1.0): "log(scale) ~ Normal(0, 1)",
        tb.priors.InverseGamma(2.0, 3.0): "scale ~ InverseGamma(2, 3, of='square')",
        tb.priors.InverseGamma(2.0, 3.0, of="value"): "scale ~ InverseGamma(2, 3, of='value')",
        FLAT: "scale ~ Flat()",
    }
    for prior, text in texts.items():
        model = tb.Regression(X, y, tb.families.Gaussian(prior), FLAT)
        assert model.coefficient_priors.describe(model.names).endswith(text)
    default = tb.Regression(X, 10.0 * y, tb.families.Gaussian(), FLAT)
    assert "scale ~ HalfStudentT(3, 2" in default.coefficient_priors.describe(default.names)
    assert "HalfStudentT" in str(tb.explain(default, draws=100, chains=1))


@pytest.mark.parametrize("layout", ["scale", "two designs"])
def test_passes_of_several_predictors_are_those_of_their_lines(layout):
    """Gradient, Hessian, norms and third derivatives from blocks, against the matrices A_i themselves."""
    rng = np.random.default_rng(3)
    n, p, r = 30, 3, 2
    X, y = rng.standard_normal((n, p + r)), rng.standard_normal(n)
    family = tb.families.StudentT(3.0)
    names = [f"x{j}" for j in range(p)]
    structure = family.structure(names, ["a", "b"] if layout == "two designs" else [])
    d = len(structure.names)
    predictors = Several(structure.lines, d)
    lines = np.zeros((n, 2, d))
    lines[:, 0, :p] = X[:, :p]
    lines[:, 1, p:] = X[:, p:] if layout == "two designs" else 1.0
    source = ArraySource(X, y[:, None], rng.random(n) + 0.5, 0.2 * rng.standard_normal(n), names)
    block, theta = source.whole.converted(), 0.3 * rng.standard_normal(d)
    eta = np.ascontiguousarray(np.einsum("nqd,d->qn", lines, theta))
    eta[0] += block.offset
    np.testing.assert_allclose(predictors.at(block, theta), eta, atol=1e-13)
    root = np.linalg.cholesky(np.eye(d) * 5.0 + 0.5)
    inverse = np.linalg.inv(root)
    white = lines @ inverse.T
    np.testing.assert_allclose(predictors.norms(block, inverse), np.linalg.norm(white, axis=2).T, rtol=1e-12)
    sums = np.array([[1.0, -1.0]])
    apart = np.linalg.norm(white[:, 0] - white[:, 1], axis=1)
    np.testing.assert_allclose(predictors.norms(block, inverse, sums)[0], apart, rtol=1e-12)
    jets = block.weight * family.rows.jets(block.responses, eta, 3)
    value, gradient, hessian = passes.derivatives(block, family.rows, predictors, theta)
    assert value == pytest.approx(np.sum(jets[0]))
    np.testing.assert_allclose(gradient, np.einsum("qn,nqd->d", jets[1:3], lines), atol=1e-11)
    second = np.array([[jets[3], jets[4]], [jets[4], jets[5]]])
    np.testing.assert_allclose(hessian, np.einsum("qrn,nqd,nre->de", second, lines, lines), atol=1e-10)
    again = passes.whitened_hessian(block, family.rows, predictors, theta, inverse)
    np.testing.assert_allclose(again, inverse @ hessian @ inverse.T, atol=1e-10)
    third = np.empty((2, 2, 2, n))
    for index in itertools.product((0, 1), repeat=3):
        third[index] = jets[6 + sum(index)]
    wanted = np.einsum("qrsn,nqa,nrb,nsc->abc", third, white, white, white)
    total = passes.third_derivatives(block, family.rows, predictors, theta, inverse)
    packed = predictors.packed_third(total, inverse)
    entries = [wanted[a, b, c] for a in range(d) for b in range(a + 1) for c in range(b + 1)]
    np.testing.assert_allclose(packed, entries, atol=1e-10)


def conjugate(X, y, prior_sd, a, b):
    """Posterior of linear regression with beta ~ N(0, s^2 prior_sd^2) ... here: flat beta, s^2 ~ IG(a, b)."""
    n, d = X.shape
    fit, rss = np.linalg.lstsq(X, y, rcond=None)[:2]
    shape, scale = a + (n - d) / 2, b + float(rss[0]) / 2
    return fit, np.linalg.inv(X.T @ X), shape, scale


@pytest.mark.parametrize("n", [20, 400])
@pytest.mark.parametrize("prior", ["inverse-gamma", "flat"])
def test_conjugate_posterior_is_the_closed_form(n, prior):
    """Kolmogorov-Smirnov of thinned draws at 1e-4 each (four numbers, four cases: 1.6e-3 of false positives over all
    seeds; the seed is fixed)."""
    rng = np.random.default_rng(n)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    y = X @ [1.0, -0.5, 0.3] + 2.0 * rng.standard_normal(n)
    # A constant density of s is one of s^2 with the factor 1 / s: IG(-1/2, 0).
    a, b = (3.0, 4.0) if prior == "inverse-gamma" else (-0.5, 0.0)
    chosen = tb.priors.InverseGamma(a, b) if prior == "inverse-gamma" else FLAT
    model = tb.Regression(X, y, tb.families.Gaussian(chosen), FLAT)
    tree = tb.sample(model, draws=20_000, chains=4, seed=5, progress=False)
    fit, covariance, shape, scale = conjugate(X, y, None, a, b)
    assert tree.attrs["bound_violations"] == 0
    every = 40
    variance = np.asarray(tree["posterior"]["scale"])[:, ::every].ravel() ** 2
    assert stats.kstest(variance, stats.invgamma(shape, scale=scale).cdf).pvalue > 1e-4
    beta = np.asarray(tree["posterior"]["beta"])[:, ::every].reshape(-1, 3)
    for j in range(3):
        law = stats.t(2 * shape, fit[j], math.sqrt(scale / shape * covariance[j, j]))
        assert stats.kstest(beta[:, j], law.cdf).pvalue > 1e-4
    assert tree["posterior"]["scale"].dims == ("chain", "draw")
    assert "scale" in tb.summary(tree).index
    assert "log(scale)" in tb.laplace_check(tree).index


def test_no_expectation_moves():
    """Paired start: theta_0 from the prior, y from the model, six steps; abs(z) above 5.3 has probability 1.2e-7."""
    rng, draws, n = np.random.default_rng(21), stream(21), 12
    X = rng.standard_normal((n, 1)) / 2
    family = tb.families.StudentT(5.0, tb.priors.LogNormal(0.1, 0.4))
    kernel = tb.kernels.ScalableMH(
        3, tb.bounds.Local(2.5), tb.proposals.SurrogateSteps(3, 0.8, walk_every=4), truncation=10.0
    )
    centre, changes = np.array([0.2, 0.0]), []
    for _ in range(700):
        theta = np.array([0.3 + rng.standard_normal(), 0.1 + 0.4 * rng.standard_normal()])
        y = X[:, 0] * theta[0] + math.exp(theta[1]) * rng.standard_t(5.0, n)
        model = tb.Regression(X, y, family, tb.priors.Normal(0.3, 1.0))
        try:
            setup = setup_at(model, Mode(centre, 0.0, np.zeros(2), np.eye(2), 0), centre)
        except np.linalg.LinAlgError:
            continue  # no ball around this centre; that depends on y alone, and so it is no choice among outcomes
        prepared = kernel.prepare(model, setup=setup)
        driver = Driver(directly(prepared), draws, prepared.metric.root.T @ (theta - centre))
        out = run(driver, 6)
        assert driver.violations == 0
        after = centre + prepared.target.whitening @ out.z[-1]
        block = model.source.whole.converted()
        values = []
        for point in (theta, after):
            U = passes.potential(block, model.rows, model.predictors, point)
            values.append([*point, *point**2, U])
        changes.append(np.subtract(*values))
    changes = np.array(changes)
    z = changes.mean(axis=0) / changes.std(axis=0) * math.sqrt(len(changes))
    assert len(changes) > 500
    assert np.all(np.abs(z) < 5.3), z


def test_a_known_scale_has_one_predictor():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    known = tb.Regression(X, y, tb.families.Gaussian(2.0), FLAT)
    assert isinstance(known.predictors, Linear)
    assert known.names == ["x0", "x1"]
    unknown = tb.Regression(X, y, tb.families.Gaussian(), FLAT)
    assert unknown.names == ["x0", "x1", "log(scale)"]
    assert [o.name for o in unknown.outputs] == ["beta", "scale"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X, y: tb.families.Gaussian("wide"), "scale='wide' must be a positive, finite number"),
        (lambda X, y: tb.families.StudentT(scale=-1.0), "scale=-1.0 must be a positive"),
        (lambda X, y: tb.priors.HalfNormal(0.0), "scale=0.0 must be a positive"),
        (lambda X, y: tb.priors.HalfNormal(1e200), "must be between"),
        (lambda X, y: tb.priors.LogNormal(math.nan, 1.0), "mean=nan must be a finite"),
        (lambda X, y: tb.priors.InverseGamma(1.0, 1.0, of="cube"), "expected 'square' or 'value'"),
        (
            lambda X, y: tb.Regression(X, y, tb.families.Gaussian(tb.priors.Normal(0, 1))),
            "prior of a positive number",
        ),
        (
            lambda X, y: tb.Regression(X, 0 * y + 3.0, tb.families.Gaussian()),
            "every response with a weight is the same",
        ),
        *(
            (
                lambda X, y, size=size: tb.Regression(X, size * y, tb.families.Gaussian()),
                "apart, whose powers no float64 holds. Rescale",
            )
            for size in (1e-310, 1e-160, 1e-77)
        ),
        (lambda X, y: tb.Regression(X[:3], y[:3], tb.families.Gaussian(), FLAT), "3 rows and 3 columns"),
        (
            lambda X, y: tb.explain(tb.Regression(X, X @ [1.0, 2.0, 3.0], tb.families.Gaussian(), FLAT)),
            "fit 40 responses exactly",
        ),
        (
            lambda X, y: tb.kernels.ScalableMH(sketch=True).prepare(tb.Regression(X, y, tb.families.Gaussian())),
            "one linear predictor",
        ),
        (
            lambda X, y: tb.kernels.ScalableMH(2, tb.bounds.Global()).prepare(
                tb.Regression(X, y, tb.families.Gaussian())
            ),
            "no global bound",
        ),
        (
            lambda X, y: tb.kernels.ZigZag().prepare(tb.Regression(X, y, tb.families.Gaussian())),
            "one linear predictor",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    with pytest.raises((tb.errors.InputError, tb.errors.NoModeError), match=words.replace("(", r"\(")):
        make(X, y)


@pytest.mark.parametrize(("rows", "on_all"), [(40, True), (1251, False)])
def test_a_skewed_scale_of_few_rows_is_followed_on_all_of_them(rows, on_all):
    y = np.random.default_rng(3).standard_normal(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a mean and a scale are no reason to warn
        tree = tb.sample(tb.Regression(np.ones((rows, 1)), y, tb.families.Gaussian()), seed=1, progress=False)
    assert (json.loads(tree.attrs["plan"])["truncation"] == 0.0) is on_all


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("weight", "prior", "exists"), [(4.0, FLAT, False), (4.04, FLAT, True), (1.5, None, True)])
def test_a_flat_scale_needs_rows_beside_the_coefficients(name, weight, prior, exists):
    # The density of the scale falls like its power 3 - weight: 4 is the first that has no finite integral.
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((8, 3)), rng.standard_normal(8)
    family = dataclasses.replace(FAMILIES[name][0], scale=FLAT)

    def make():
        return tb.Regression(X, y, family, prior, weights=np.full(8, weight / 8))

    if exists:
        assert not make().coefficient_priors.proper[-1]
    else:
        with pytest.raises(tb.errors.NoModeError, match=r"total weight of 4 .* without a finite integral"):
            make()


@pytest.mark.parametrize("name", FAMILIES)
def test_shifted_columns_and_outliers_do_no_harm(name):
    rng = np.random.default_rng(6)
    X = np.column_stack([np.ones(300), 1000.0 + rng.standard_normal((300, 2))])
    y = X @ [5.0, 1.0, -1.0] + rng.standard_t(3.0, 300)
    y[:3] = 1e4 if name == "student" else y[:3]
    model = tb.Regression(X, y, FAMILIES[name][0], FLAT)
    tree = tb.sample(model, draws=500, chains=2, seed=1, progress=False)
    scale = float(tree["posterior"]["scale"].mean())
    assert 0.5 < scale < 3.0
    assert tree.attrs["bound_violations"] == 0


@pytest.mark.parametrize(
    ("n", "d", "family"),
    [(21, 6, tb.families.Gaussian()), (60, 10, tb.families.StudentT(4.0)), (120, 26, tb.families.Gaussian())],
    ids=["21x6", "60x10", "120x26"],
)
def test_small_data_mix_well(n, d, family):
    """Draws of few rows, whose posterior has heavy tails, are made of several steps."""
    rng = np.random.default_rng(n + d)
    X = np.column_stack([np.ones(n), 1000.0 + rng.standard_normal((n, d - 1))])
    y = (X[:, 1:] - 1000.0).sum(axis=1) + rng.standard_normal(n)
    model = tb.Regression(X, y, family, tb.priors.Flat())
    tree = tb.sample(model, draws=1000, chains=4, seed=1, progress=False)
    assert json.loads(tree.attrs["plan"])["steps_per_draw"] > 1
    found = mixing_of(named_draws(tree)[1])
    assert min(found.ess_bulk.min(), found.ess_tail.min()) > 0.1 * 4000
    explained = tb.explain(model)
    assert "steps of a draw" in str(explained)
    rows = float(tree["sample_stats"]["rows_touched"].mean())
    assert rows == pytest.approx(explained.rows_per_draw, rel=0.2)


def test_draws_worth_little_are_made_of_several_steps():
    """A step is worth 0.2 draws in a rehearsal, of the scale half of that: one for a draw would be too few."""
    rng = np.random.default_rng(1226)
    X = np.column_stack([np.ones(1200), 1000.0 + rng.standard_normal((1200, 25))])
    y = X @ rng.standard_normal(26) + rng.standard_t(5, 1200)
    chosen = choose(tb.Regression(X, y, tb.families.StudentT(4.0), FLAT), None, 4000)
    assert 0.1 < chosen.rehearsal.efficiency < 0.3
    assert chosen.steps * chosen.rehearsal.efficiency >= 0.5
