"""Rows that are any function of the parameters, with bounds that the user gives.

The worked example is that of docs/factors.md: labels with an unknown rate of false positives. Its oracle is
written by hand, from cumulants and in extended precision; nothing of it comes from the package or from SymPy.
"""

import dataclasses
import itertools
import math
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.errors import ExactnessError, InputError, NoModeError
from tallbayes.kernels.all_rows import run_with_rows_at_hand
from tallbayes.kernels.monitor import rounding_floor
from tallbayes.kernels.state import new_state
from tallbayes.kernels.target import shifted, step_rate, surrogate_at
from tallbayes.models import passes
from tallbayes.setup.setup import setup_of

GLOBAL = tb.bounds.Global()
NORMAL = tb.priors.Normal(0.0, 2.5)
Real = np.longdouble


def logistic_data(n=400, seed=1):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [0.3, 0.8, -0.5]))).astype(float)


def logistic_bounds(X):
    m = np.max(np.abs(X), axis=1)
    return {1: np.linalg.norm(X, axis=1), 2: m**2 / 4, 3: m**3 / (6 * math.sqrt(3))}


LOGISTIC = "softplus(p*u + q*v + r*w) - y*(p*u + q*v + r*w)"


def logistic_factors(X, y, formula=LOGISTIC, **options):
    data = {"u": X[:, 0], "v": X[:, 1], "w": X[:, 2], "y": y}
    return tb.Factors(data, formula, ["p", "q", "r"], **{"prior": NORMAL, "bounds": logistic_bounds(X), **options})


def derivatives(model, theta):
    """Negative log-likelihood, gradient and Hessian, summed over all rows."""
    return model.source.reduce(passes.derivatives, model.rows, model.predictors, np.asarray(theta, dtype=float))


def row_intensity(prepared, i, move, other):
    """lambda_i of a step from centre + move to centre + other, without the row's weight."""
    target, model = prepared.target, prepared.model
    ends = (np.ascontiguousarray(v[:, None]) for v in (target.centre, move, other))
    before, after = model.rows.remainders(model.source.responses[i : i + 1], *ends, target.bound.order)[:, 0]
    return max(0.0, after - before)


def log_acceptance(prepared, z, other):
    """The log of the acceptance probability, from the kernel's own parts: rows as its alias table draws them."""
    target, model = prepared.target, prepared.model
    rate, n = step_rate(target, z, other), model.n
    if not rate < target.bound.truncation:
        state = new_state(z)
        state.proposed[:] = other
        prepared.answer(target, state, 1)
        return min(0.0, float(state.numbers["answer"][0]))
    first = min(0.0, surrogate_at(target, z) - surrogate_at(target, other))
    if not rate > 0.0:
        return first
    block = model.source.whole.converted()
    eta = model.predictors.at(block, target.centre)
    ends = (model.predictors.moves(block, shifted(target, point)) for point in (z, other))
    before, after = model.rows.remainders(block.responses, eta, *ends, target.bound.order)
    intensity = model.source.weight * np.maximum(after - before, 0.0)
    keep, alias = target.rows.table[:, 0], target.rows.table[:, 1].astype(int)
    drawn = keep / n + np.bincount(alias, (1.0 - keep) / n, n)
    limit = rate / target.bound.total * target.rows.psi
    some = limit > 0.0
    return first - rate * float(np.sum(drawn[some] * np.minimum(1.0, intensity[some] / limit[some])))


# -- a regression as Factors --

KERNELS = {
    "order 2": tb.kernels.ScalableMH(order=2, bound=GLOBAL),
    "order 1": tb.kernels.ScalableMH(order=1, bound=GLOBAL, truncation=60.0),
    "order 0": tb.kernels.FactorisedMH(),
    "full": tb.kernels.MetropolisHastings(),
}


@pytest.fixture(scope="module")
def regressions():
    X, y = logistic_data()
    return tb.Regression(X, y, tb.families.Bernoulli(), NORMAL), logistic_factors(X, y)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_a_regression_by_factors_has_the_same_surrogate_and_decisions(regressions, kernel):
    one, other = (kernel.prepare(model) for model in regressions)
    modes = [setup_of(model).mode for model in regressions]
    np.testing.assert_allclose(modes[1].theta, modes[0].theta, atol=1e-9)
    np.testing.assert_allclose(modes[1].hessian, modes[0].hessian, rtol=1e-9)
    np.testing.assert_allclose(other.metric.root, one.metric.root, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(other.target.rows.psi, one.target.rows.psi, rtol=1e-13)
    # The same random numbers make the same decisions.
    trees = [tb.sample(model, kernel, draws=1500, chains=1, seed=4, progress=False) for model in regressions]
    for name in ("accepted", "rows_touched", "full_pass"):
        np.testing.assert_array_equal(*(tree["sample_stats"][name] for tree in trees))
    assert 0.02 < trees[0]["sample_stats"]["accepted"].mean() < 1.0
    np.testing.assert_allclose(*(np.asarray(tree["posterior"]["beta"]) for tree in trees), atol=1e-8)


def test_functions_and_formula_are_the_same_model(regressions):
    X, y = logistic_data()

    def potential(theta, row):
        t = theta[0] * row[0] + theta[1] * row[1] + theta[2] * row[2]
        return max(t, 0.0) + math.log1p(math.exp(-abs(t))) - row[3] * t

    def gradient(theta, row, out):
        t = theta[0] * row[0] + theta[1] * row[1] + theta[2] * row[2]
        for j in range(3):
            out[j] = row[j] * (1.0 / (1.0 + math.exp(-t)) - row[3])

    def hessian(theta, row, out):
        t = theta[0] * row[0] + theta[1] * row[1] + theta[2] * row[2]
        s = 1.0 / (1.0 + math.exp(-t))
        for j in range(3):
            for k in range(3):
                out[j, k] = row[j] * row[k] * s * (1.0 - s)

    def second(row):
        return max(abs(row[0]), abs(row[1]), abs(row[2])) ** 2 / 4

    bounds = {2: second, 3: logistic_bounds(X)[3]}
    by_hand = tb.Factors(
        np.column_stack([X, y]),
        potential,
        ["p", "q", "r"],
        prior=NORMAL,
        gradient=gradient,
        hessian=hessian,
        bounds=bounds,
    )
    for order in (1, 2):
        one, other = (tb.kernels.ScalableMH(order=order).prepare(model) for model in (regressions[1], by_hand))
        np.testing.assert_allclose(other.metric.centre, one.metric.centre, atol=1e-12)
        np.testing.assert_allclose(other.target.rows.psi, one.target.rows.psi, rtol=1e-15)
        for z, new in np.random.default_rng(1).standard_normal((20, 2, 3)):
            found = log_acceptance(other, z, new)
            assert found == pytest.approx(log_acceptance(one, z, new), abs=1e-10)


def test_a_sympy_expression_is_made_stable(regressions):
    sympy = pytest.importorskip("sympy")
    p, q, r, u, v, w, y = sympy.symbols("p q r u v w y")
    eta = p * u + q * v + r * w
    X, response = logistic_data()
    model = logistic_factors(
        1e3 * X, response, sympy.log(1 + sympy.exp(eta)) - y * eta, bounds=None, start=[1.0] * 3
    )
    here = derivatives(model, np.ones(3))  # predictors in the thousands
    t = 1e3 * X.sum(axis=1)
    assert here[0] == pytest.approx(np.sum(np.logaddexp(0.0, t) - response * t), rel=1e-12)
    assert np.all(np.isfinite(here[1]))


def test_numbers_of_any_size_stand_in_a_formula():
    model = simple("(1e-30*m + 0.1*m - 12345678901234567890*x*1e-19)**2/2 + sqrt(1 + m**2)**3/3", start=[1.0])
    value, gradient, _ = derivatives(model, np.ones(1))
    residual = 0.1 - 1.2345678901234567890 * X1
    assert value == pytest.approx(np.sum(residual**2 / 2 + 2.0**1.5 / 3), rel=1e-12)
    assert gradient[0] == pytest.approx(np.sum(0.1 * residual + math.sqrt(2.0)), rel=1e-12)


def test_weights_are_repeated_rows():
    X, y = logistic_data(200)
    times = np.random.default_rng(3).integers(0, 4, 200)
    weighted = logistic_factors(X, y, weights=times)
    repeated = logistic_factors(np.repeat(X, times, axis=0), np.repeat(y, times))
    for order in (1, 2):
        one, other = (tb.kernels.ScalableMH(order=order).prepare(model) for model in (weighted, repeated))
        modes = [setup_of(model).mode for model in (weighted, repeated)]
        np.testing.assert_allclose(modes[0].theta, modes[1].theta, atol=1e-10)
        np.testing.assert_allclose(modes[0].hessian, modes[1].hessian, rtol=1e-10)
        assert one.target.bound.total == pytest.approx(other.target.bound.total, rel=1e-12)
        assert step_rate(one.target, np.ones(3), np.zeros(3)) > 0.0
        for z, new in np.random.default_rng(1).standard_normal((10, 2, 3)):
            found = log_acceptance(one, z, new)
            assert found == pytest.approx(log_acceptance(other, z, new), abs=1e-9)


# -- the worked example --

ETA = "(b0 + b1*x1 + b2*x2)"
LABELS = f"softplus(a) + softplus({ETA}) - y*logsumexp(a, {ETA}, a + {ETA})"
PARAMETERS = ["a", "b0", "b1", "b2"]
PRIOR_MEAN, PRIOR_SCALE = np.array([-3.0, 0.0, 0.0, 0.0]), np.array([1.0, 2.5, 2.5, 2.5])


def label_data(n, seed):
    rng = np.random.default_rng(seed)
    x1, x2 = rng.uniform(-1.5, 1.5, (2, n))
    true = rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - 1.5 * x1 + x2))
    return x1, x2, (true | (rng.random(n) < 0.1)).astype(float)


def label_bounds(x1, x2):
    largest = np.maximum(1.0, np.maximum(np.abs(x1), np.abs(x2)))
    return {1: np.sqrt(2.0 + x1**2 + x2**2), 2: largest**2 / 4, 3: largest**3 / (3 * math.sqrt(3))}


def label_model(n, seed=1, **options):
    x1, x2, y = label_data(n, seed)
    options = {"bounds": label_bounds(x1, x2), "prior": tb.priors.Normal(PRIOR_MEAN, PRIOR_SCALE), **options}
    return tb.Factors({"x1": x1, "x2": x2, "y": y}, LABELS, PARAMETERS, **options)


class Oracle:
    """The example by hand: derivatives from cumulants of (A, E), in extended precision."""

    def __init__(self, n, seed):
        x1, x2, y = label_data(n, seed)
        self.x, self.y = np.column_stack([np.ones(n), x1, x2]).astype(Real), y.astype(Real)
        self.bounds = label_bounds(x1, x2)

    def parts(self, theta):
        theta = np.asarray(theta).astype(Real)
        return theta[0], self.x @ theta[1:]

    def potentials(self, theta):
        a, eta = self.parts(theta)
        top = np.maximum(np.maximum(a, eta), a + eta)
        total = np.log(np.exp(a - top) + np.exp(eta - top) + np.exp(a + eta - top)) + top
        return np.logaddexp(Real(0), a) + np.logaddexp(Real(0), eta) - self.y * total

    def jets(self, theta):
        """Gradients (n, 4) and Hessians (n, 4, 4)."""
        a, eta = self.parts(theta)
        top = np.maximum(np.maximum(a, eta), a + eta)
        weights = np.stack([np.exp(a - top), np.exp(eta - top), np.exp(a + eta - top)])
        only_a, only_e, both = weights / weights.sum(axis=0)
        p, q = only_a + both, only_e + both
        sa, se = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-eta))
        chain = np.zeros((self.y.size, 2, 4), dtype=Real)  # d(a, eta) / d theta
        chain[:, 0, 0] = 1
        chain[:, 1, 1:] = self.x
        slope = np.stack([sa - self.y * p, se - self.y * q], axis=1)
        cross = -self.y * (both - p * q)
        aa, ee = sa * (1 - sa) - self.y * p * (1 - p), se * (1 - se) - self.y * q * (1 - q)
        curvature = np.stack([np.stack([aa, cross], axis=1), np.stack([cross, ee], axis=1)], axis=1)
        return np.einsum("ni,nij->nj", slope, chain), np.einsum("nij,nik,njl->nkl", curvature, chain, chain)

    def prior(self, theta):
        return 0.5 * np.sum(((theta - PRIOR_MEAN) / PRIOR_SCALE) ** 2)

    def log_acceptance(self, centre, order, theta, other, limit):
        """Of a symmetric proposal: (P) eq:afmh, truncated at a rate (eq:tfmh-acc-prob)."""
        rise = self.potentials(other) - self.potentials(theta)
        prior = self.prior(other) - self.prior(theta)
        if order == 0:
            factor = np.linalg.norm(other - theta)
        else:
            norms = (np.sum(np.abs(end - centre)) for end in (theta, other))
            factor = sum(norm ** (order + 1) for norm in norms)
        rate = float(np.sum(self.bounds[order + 1])) / math.factorial(order + 1) * factor
        if rate >= limit:
            return min(0.0, float(-np.sum(rise) - prior)), rate
        taylor = np.zeros_like(rise)
        gradients, hessians = self.jets(centre)
        for sign, end in ((-1, theta), (1, other)):
            step = (end - centre).astype(Real)
            if order >= 1:
                taylor = taylor + sign * gradients @ step
            if order >= 2:
                taylor = taylor + sign * np.einsum("j,njk,k->n", step, hessians, step) / 2
        first = min(Real(0), -np.sum(taylor) - prior)
        return float(first - np.sum(np.maximum(rise - taylor, 0))), rate


def test_derivatives_of_the_formula_are_those_of_the_oracle():
    model, oracle = label_model(50), Oracle(50, 1)
    for theta in ([-2.0, 0.3, 1.0, -1.0], [3.0, -8.0, 4.0, 2.0], [-40.0, 30.0, 10.0, -20.0]):
        value, gradient, hessian = derivatives(model, theta)
        gradients, hessians = oracle.jets(theta)
        assert value == pytest.approx(float(np.sum(oracle.potentials(theta))), rel=1e-13)
        np.testing.assert_allclose(gradient, np.float64(gradients.sum(axis=0)), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(hessian, np.float64(hessians.sum(axis=0)), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_acceptance_of_the_example_is_the_papers_and_reversible(order):
    model, oracle = label_model(120, seed=2), Oracle(120, 2)
    walk = tb.proposals.PreconditionedWalk(0.7)
    kernel = tb.kernels.ScalableMH(order=order, proposal=walk) if order else tb.kernels.FactorisedMH(walk)
    prepared = kernel.prepare(model)
    target, metric = prepared.target, prepared.metric
    rng = np.random.default_rng(order)
    pairs = rng.standard_normal((60, 2, 4)) * rng.choice([0.2, 1.0, 2.5], (60, 1, 1))
    rates = [step_rate(target, *pair) for pair in pairs]
    for limit in (math.inf, float(np.mean(np.sort(rates)[29:31]))):
        bound = target.bound._replace(truncation=limit)
        cut = dataclasses.replace(prepared, target=target._replace(bound=bound))
        for z, new in pairs:
            theta, other = (metric.centre + metric.matrix @ end for end in (z, new))
            expected, rate = oracle.log_acceptance(metric.centre, order, theta, other, limit)
            assert step_rate(target, z, new) == pytest.approx(rate, rel=1e-10)
            forth, back = log_acceptance(cut, z, new), log_acceptance(cut, new, z)
            assert forth == pytest.approx(expected, rel=1e-11, abs=1e-10)
            flow = oracle.potentials(other) - oracle.potentials(theta)
            balance = float(np.sum(flow) + oracle.prior(other) - oracle.prior(theta)) + forth - back
            assert abs(balance) < 1e-10 * max(1.0, abs(forth), abs(back))


def test_draws_agree_with_plain_metropolis_hastings():
    """Means, sds and quantiles of 4 parameters, 2 kernels: 32 comparisons, each at 6 standard errors.

    Under normal errors a comparison fails with probability 2e-9, all of them with less than 1e-7; errors of the
    standard errors (4 chains, hundreds of effective draws) leave it well below 1e-5.
    """
    import arviz_stats  # noqa: F401  registers the .azstats accessor

    model = label_model(300, seed=5)

    def estimates(kernel, draws):
        tree = tb.sample(model, kernel, draws=draws, chains=4, seed=8, progress=False)
        assert tree.attrs["bound_violations"] == 0
        beta = tree["posterior"]["beta"]
        stats = {"mean": {}, "sd": {}, "0.05": {"prob": 0.05}, "0.95": {"prob": 0.95}}
        found = [beta.mean(("chain", "draw")), beta.std(("chain", "draw"))]
        found += [beta.quantile(p, ("chain", "draw")) for p in (0.05, 0.95)]
        errors = [
            beta.azstats.mcse(method="quantile" if options else name, **options) for name, options in stats.items()
        ]
        return np.stack([np.asarray(f) for f in found]), np.stack([np.asarray(e) for e in errors]), tree

    full, full_error, tree = estimates(tb.kernels.MetropolisHastings(), 16_000)
    sd = np.sqrt(np.diag(np.asarray(tree["laplace"]["covariance"])))
    mode = np.asarray(tree["laplace"]["mode"])
    gaussian = np.stack([mode, sd, mode - 1.645 * sd, mode + 1.645 * sd])
    for order in (2, 1):
        found, error, tree = estimates(tb.kernels.ScalableMH(order=order), 20_000)
        allowed = 6.0 * np.hypot(error, full_error)
        assert np.all(np.abs(found - full) < allowed)
        assert 1.0 < np.mean(tree["sample_stats"]["rows_touched"].values) < 200.0  # rows were thinned
        if order == 2:  # the comparison is sharp: the Gaussian at the mode would not pass
            assert np.any(np.abs(gaussian - full) > allowed)


def test_priors_that_are_not_normal_are_exact():
    """One parameter, Laplace prior: mean and sd against quadrature, at 6 standard errors.

    They are those of a tenth as many independent draws; under normal errors that fails with probability below 1e-8.
    """
    model = simple("softplus(m*x) - m*x/3", prior=tb.priors.Laplace(0.5, 0.2), bounds={3: 1 / (6 * math.sqrt(3))})
    grid = np.linspace(-4.0, 4.0, 20_001)
    potential = np.abs(grid - 0.5) / 0.2 + np.sum(
        np.logaddexp(0.0, X1[:, None] * grid) - X1[:, None] * grid / 3, axis=0
    )
    weight = np.exp(potential.min() - potential)
    mean = np.sum(weight * grid) / np.sum(weight)
    sd = math.sqrt(np.sum(weight * (grid - mean) ** 2) / np.sum(weight))
    tree = tb.sample(model, tb.kernels.ScalableMH(order=2), draws=20_000, chains=2, seed=1, progress=False)
    beta = np.asarray(tree["posterior"]["beta"])
    error = sd / math.sqrt(beta.size / 10)
    assert abs(beta.mean() - mean) < 6.0 * error
    assert abs(beta.std() - sd) < 6.0 * error


# -- bounds --


def test_bounds_of_the_example_hold_and_are_not_loose():
    """Adversarial search over parameters and rows for the largest derivative, by every multi-index."""
    sympy = pytest.importorskip("sympy")
    from scipy.optimize import minimize

    a, eta, y = sympy.symbols("a eta y")
    x = (sympy.Integer(1), *sympy.symbols("x1 x2"))
    plain = sympy.log(1 + sympy.exp(a)) + sympy.log(1 + sympy.exp(eta))
    plain -= y * sympy.log(sympy.exp(a) + sympy.exp(eta) + sympy.exp(a + eta))
    rng = np.random.default_rng(0)
    largest = {1: 0.0, 2: 0.0, 3: 0.0}
    arguments = (a, eta, *x[1:], y)
    slopes = [sympy.diff(plain, a), *(v * sympy.diff(plain, eta) for v in x)]
    for m, response in itertools.product(largest, (0, 1)):
        if m == 1:
            ratio = sympy.sqrt(sum(s**2 for s in slopes))
            derivatives = [ratio]
        else:
            # A derivative by a component of b is x times one by eta; take the widest column every time.
            widest = sympy.Max(1, sympy.Abs(x[1]), sympy.Abs(x[2]))
            derivatives = [sympy.diff(plain, *[a] * i, *[eta] * (m - i)) * widest ** (m - i) for i in range(m + 1)]
        for derivative in derivatives:
            f = sympy.lambdify(arguments, derivative.subs(y, response), "numpy")

            def loss(v, f=f, response=response, m=m):
                with np.errstate(all="ignore"):
                    value = abs(f(*v, response)) / label_bounds(v[2], v[3])[m]
                return -float(value) if np.isfinite(value) else 0.0

            for _ in range(12):
                start = np.concatenate([4.0 * rng.standard_normal(2), 1.5 * rng.standard_normal(2)])
                largest[m] = max(largest[m], -minimize(loss, start, method="Nelder-Mead").fun)
    assert all(value <= 1.0 + 1e-9 for value in largest.values()), largest
    assert largest[2] > 0.99
    assert largest[1] > 0.9
    assert largest[3] > 0.4


@pytest.mark.parametrize("order", [0, 1, 2])
def test_intensities_stay_below_their_bounds(order):
    from scipy.optimize import minimize

    model = label_model(40, seed=7)
    kernel = tb.kernels.ScalableMH(order=order) if order else tb.kernels.FactorisedMH()
    prepared = kernel.prepare(model)
    rng, worst = np.random.default_rng(order), 0.0
    for i in range(0, 40, 10):

        def loss(v, i=i):
            move, other = v[:4], v[4:]
            if order == 0:
                factor = np.linalg.norm(other - move)
            else:
                factor = np.sum(np.abs(move)) ** (order + 1) + np.sum(np.abs(other)) ** (order + 1)
            return -row_intensity(prepared, i, move, other) / (factor * prepared.target.rows.psi[i] + 1e-12)

        for _ in range(4):
            result = minimize(loss, 3.0 * rng.standard_normal(8), method="Nelder-Mead", options={"maxfev": 1200})
            worst = max(worst, -result.fun)
    assert 0.1 < worst <= 1.0 + 1e-9


@pytest.mark.parametrize("order", [1, 2])
def test_rounding_is_no_violation(order):
    model = label_model(60, seed=3)
    prepared = tb.kernels.ScalableMH(order=order).prepare(model)
    target, rng, above = prepared.target, np.random.default_rng(1), 0
    for size in (1e-3, 1e-5, 1e-7, 1e-9):
        for i in range(60):
            move, other = size * rng.standard_normal((2, 4))
            distance = max(np.sum(np.abs(move)), np.sum(np.abs(other)))
            factor = np.sum(np.abs(move)) ** (order + 1) + np.sum(np.abs(other)) ** (order + 1)
            limit = target.rows.psi[i] * factor
            found = row_intensity(prepared, i, move, other)
            suspect = np.concatenate([[i, found, limit, distance], move, other])
            floor = rounding_floor(model.rows, target, suspect)
            assert found <= limit + floor
            assert not prepared.exceeds(target, suspect)
            assert 0.0 < floor < 1e-11
            above += found > limit
    assert above > 10  # without the floor these would have been taken for broken bounds


def test_a_wrong_bound_ends_the_run():
    model = label_model(700, seed=5)
    model.source.responses[:, model.rows.limits[3]] /= 20.0  # behind the back of the checks at set-up
    with pytest.raises(ExactnessError, match=r"tb\.Factors are too small"):
        tb.sample(model, tb.kernels.ScalableMH(order=2), draws=20_000, chains=1, seed=1, progress=False)


def test_a_bound_of_third_derivatives_that_is_seen_to_be_wrong():
    x1, x2, _ = label_data(700, 5)
    with pytest.raises(InputError, match=r"bounds\[3\]: row 0 has .* a third derivative is about"):
        label_model(700, seed=5, bounds={3: label_bounds(x1, x2)[3] / 20.0})
    with pytest.raises(InputError, match=r"bounds\[3\]: row 0 has 0, but at"):
        label_model(700, seed=5, bounds={3: 0.0})


def test_a_wrong_gradient_is_not_blamed_on_the_hessian():
    def potential(theta, row):
        return 0.5 * (theta[0] + theta[1] * row[0]) ** 2

    def gradient(theta, row, out):
        out[0] = theta[0] + theta[1] * row[0]
        out[1] = theta[0] * row[0] + theta[1] * row[0]  # should have row[0] squared

    def hessian(theta, row, out):
        out[0, 0], out[0, 1], out[1, 0], out[1, 1] = 1.0, row[0], row[0], row[0] ** 2

    with pytest.raises(InputError, match=r"gradient: row \d+ gives .* for 'b'"):
        tb.Factors(
            np.arange(1.0, 9.0)[:, None], potential, ["a", "b"], prior=NORMAL, gradient=gradient, hessian=hessian
        )


def test_a_potential_that_fails_within_a_run_ends_it():
    def potential(theta, row):
        if abs(theta[0]) > 0.2:
            raise ValueError("too far")
        return 0.5 * (theta[0] - row[0]) ** 2

    def gradient(theta, row, out):
        out[0] = theta[0] - row[0]

    def hessian(theta, row, out):
        out[0, 0] = 1.0

    data = np.random.default_rng(1).choice([-1.0, 1.0], (60, 1))
    # The second derivative is 1: a bound of 2 is honest, wherever there is a potential at all.
    model = tb.Factors(data, potential, ["m"], prior=NORMAL, gradient=gradient, hessian=hessian, bounds={2: 2.0})
    with pytest.raises(ExactnessError):
        tb.sample(model, tb.kernels.ScalableMH(order=1, truncation=math.inf), draws=5000, chains=1, progress=False)


# -- the planner, results, the documentation's example, other processes --


def test_the_planner_takes_what_has_bounds():
    x1, x2, _ = label_data(3000, 1)
    bounds = label_bounds(x1, x2)
    chosen = tb.explain(label_model(3000))
    assert (chosen.order, chosen.radius) == (2, None)
    assert "global bounds" in chosen.kernel
    assert any(text.startswith("order 1") for text in chosen.alternatives)
    assert any(text.startswith("plain Metropolis-Hastings") for text in chosen.alternatives)
    assert tb.explain(label_model(3000, bounds=None)).order is None
    kernel = tb.kernels.ScalableMH()
    assert tb.explain(label_model(3000, bounds={2: bounds[2]}), kernel).order == 1


def test_the_example_of_the_documentation(capsys):
    text = (Path(__file__).parents[1] / "docs" / "factors.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    space = {}
    exec(code, space)
    printed = capsys.readouterr().out
    assert "Taylor expansion of order 2" in printed
    tree, model = space["tree"], space["model"]
    assert list(tb.summary(tree).index) == model.names == PARAMETERS
    assert tb.verdict(tree).startswith("The Gaussian approximation was")
    assert tree.attrs["bound_violations"] == 0
    assert tree.attrs["family"] == repr(model.family)
    truth = np.array([math.log(0.1 / 0.9), -1.0, 1.5, -1.0])
    beta = np.asarray(tree["posterior"]["beta"]).reshape(-1, 4)
    # The data have a fixed seed: the posterior covers the truth, at 6 of its standard deviations.
    assert np.all(np.abs(beta.mean(axis=0) - truth) < 6.0 * beta.std(axis=0))
    assert tree["sample_stats"]["rows_touched"].mean() < 100.0  # of 100,000


def test_another_formula_in_another_process_finds_the_kernel_compiled(regressions):
    tb.sample(regressions[1], KERNELS["order 2"], draws=5, chains=1, seed=1, progress=False)
    stats = run_with_rows_at_hand.stats
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) > 0
    script = """
        import numpy as np
        import tallbayes as tb
        from tallbayes.kernels.all_rows import run_with_rows_at_hand

        x = np.linspace(-1.0, 2.0, 200)
        model = tb.Factors({"x": x}, "(m - x)**2/2", ["m"], prior=tb.priors.Flat(), bounds={3: 1.0})
        kernel = tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global())
        tree = tb.sample(model, kernel, draws=4000, chains=1, seed=1, progress=False)
        stats = run_with_rows_at_hand.stats
        print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
        print(float(tree["posterior"]["beta"].mean()), float(tree["posterior"]["beta"].std()))
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=os.environ, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    hits, misses, mean, sd = map(float, result.stdout.split())
    assert (hits, misses) == (1, 0)
    # Normal(0.5, 1 / sqrt(200)); 0.02 is more than 8 standard errors even if a tenth of the draws were effective.
    assert abs(mean - 0.5) < 0.02
    assert abs(sd * math.sqrt(200.0) - 1.0) < 0.25


# -- errors --

X1 = np.linspace(-1.0, 1.0, 30)


def simple(potential="(m - x)**2/2", parameters=("m",), data=None, **options):
    return tb.Factors({"x": X1} if data is None else data, potential, parameters, **{"prior": NORMAL, **options})


def half_square(theta, row):
    return 0.5 * (theta[0] - row[0]) ** 2


def slope(theta, row, out):
    out[0] = theta[0] - row[0]


def one(theta, row, out):
    out[0, 0] = 1.0


def test_functions_given_by_hand_are_accepted():
    simple(half_square, gradient=slope, hessian=one, bounds={2: 1.0})


def wrong_slope(theta, row, out):
    out[0] = 1.001 * (theta[0] - row[0])


def wrong_curvature(theta, row, out):
    out[0, 0] = 0.9


def lopsided(theta, row, out):
    out[0, 0] = out[1, 1] = 1.0
    out[0, 1] = 0.1


def two_squares(theta, row):
    return 0.5 * (theta[0] - row[0]) ** 2 + 0.5 * theta[1] ** 2


def two_slopes(theta, row, out):
    out[0], out[1] = theta[0] - row[0], theta[1]


def not_a_number(theta, row):
    return math.nan


def text(theta, row):
    return "text"


def bound_of_text(row):
    return "text"


BAD = {
    "prior": (lambda: simple(prior=None), r"prior: None was given"),
    "default prior": (lambda: simple(prior=tb.priors.WeaklyInformative()), r"is scaled to the columns"),
    "no prior": (lambda: simple(prior=3.0), r"prior: 3.0 was given"),
    "prior of some": (lambda: simple("m*x + k**2", ["m", "k"], prior={"m": NORMAL}), r"known of each parameter"),
    "no parameter": (lambda: simple(parameters=[]), r"parameters: \[\] was given"),
    "one string": (lambda: simple(parameters="m"), r"parameters: 'm' was given"),
    "same names": (lambda: simple(parameters=["m", "m"]), r"names must differ"),
    "name as column": (lambda: simple("x*m", ["x", "m"]), r"'x' stands for more than one"),
    "bad name": (lambda: simple("m", ["m", "a b"]), r"'a b' cannot stand in a formula"),
    "bad potential": (lambda: simple(3.0), r"potential: 3.0 was given"),
    "unreadable": (lambda: simple("(m - x"), r"cannot be read"),
    "unknown name": (lambda: simple("(m - z)**2"), r"'z' in the formula is no parameter"),
    "not allowed": (lambda: simple("m if x else 1"), r"not allowed in a formula"),
    "not a sign": (lambda: simple("~m"), r"'~m' is not allowed"),
    "remainder": (lambda: simple("m % 2"), r"is not allowed"),
    "string inside": (lambda: simple("m*'a'"), r"is not allowed"),
    "unknown function": (lambda: simple("abs(m - x)"), r"'abs\(m - x\)' is not allowed"),
    "two arguments": (lambda: simple("exp(m, x)"), r"has 2 arguments"),
    "no parameter in it": (lambda: simple("x**2"), r"has no 'm', which is a parameter"),
    "derivatives of a formula": (lambda: simple(gradient=slope), r"leave them out with a formula"),
    "no gradient": (lambda: simple(half_square), r"gradient: None was given"),
    "no hessian": (lambda: simple(half_square, gradient=slope), r"hessian: None was given"),
    "wrong arguments": (
        lambda: simple(slope, gradient=slope, hessian=one),
        r"expected a function potential\(theta",
    ),
    "not compilable": (lambda: simple(text, gradient=slope, hessian=one), r"potential: Numba cannot compile"),
    "wrong gradient": (
        lambda: simple(half_square, gradient=wrong_slope, hessian=one),
        r"gradient: row .*must agree",
    ),
    "wrong hessian": (
        lambda: simple(half_square, gradient=slope, hessian=wrong_curvature),
        r"hessian: row .*differences of the gradient",
    ),
    "lopsided": (
        lambda: simple(two_squares, ["m", "k"], gradient=two_slopes, hessian=lopsided),
        r"not symmetric",
    ),
    "NaN": (lambda: simple(not_a_number, gradient=slope, hessian=one), r"potential: row 0 gives nan"),
    "overflow": (lambda: simple("exp(exp(m))", start=[8.0]), r"potential: row 0 gives inf"),
    "log of negative": (lambda: simple("log(m - x)"), r"potential: row \d+ gives nan"),
    "too large": (
        lambda: simple("m*m*x", data={"x": np.full(30, 1e307)}, start=[3.0]),
        r"sum over all rows .*too large",
    ),
    "text data": (lambda: simple(data={"x": ["a", "b"]}), r"data\['x'\]: dtype"),
    "ragged": (lambda: simple(data={"x": X1, "y": X1[:5]}), r"columns of equal length"),
    "no columns": (lambda: simple(data={}), r"given were none"),
    "one dimension": (lambda: simple(data=X1, columns=["x"]), r"data: shape \(30,\)"),
    "no rows": (lambda: simple(data=np.empty((0, 1)), columns=["x"]), r"data: shape \(0, 1\)"),
    "too many names": (lambda: simple(data=X1[:, None], columns=["x", "z"]), r"2 names were given"),
    "infinite": (lambda: simple(data={"x": [1.0, np.inf]}), r"row 1, column 'x' is inf"),
    "weights": (lambda: simple(weights=-np.ones(30)), r"zero or positive"),
    "no weights": (lambda: simple(weights=np.zeros(30)), r"every row has weight 0"),
    "weights' shape": (lambda: simple(weights=np.ones(4)), r"weights: shape \(4,\)"),
    "start": (lambda: simple(start=[1.0, 2.0]), r"expected 1 finite numbers"),
    "bounds in a list": (lambda: simple(bounds=[1.0]), r"expected a dictionary from orders to bounds"),
    "power": (lambda: simple("(m - x)**100"), r"^potential: the power 100 is too large; expected 64 at most"),
    "number": (lambda: simple("1e400*(m - x)**2"), r"^potential: a number in the formula is inf"),
    "too long": (lambda: simple(" + ".join(["(m - x)**2"] * 500)), r"more than 400 operations"),
    "bound's key": (lambda: simple(bounds={4: 1.0}), r"bounds: 4 was given"),
    "bound's shape": (lambda: simple(bounds={3: np.ones(7)}), r"bounds\[3\]: shape \(7,\)"),
    "negative bound": (lambda: simple(bounds={3: -np.ones(30)}), r"bounds\[3\]: row 0 has -1.0"),
    "bound of text": (lambda: simple(bounds={3: bound_of_text}), r"bounds\[3\]: Numba cannot compile"),
    "infinite bound": (lambda: simple(bounds={3: np.full(30, np.inf)}), r"bounds\[3\]: row 0 is inf"),
    "broken bound of order 1": (lambda: simple(bounds={1: 1e-3}), r"bounds\[1\]: row .*as long as"),
    "broken bound of order 2": (lambda: simple(bounds={2: 0.5}), r"bounds\[2\]: row .*second derivative is 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_refused(case):
    make, message = BAD[case]
    with pytest.raises(InputError, match=message) as error:
        make()
    assert "custom" not in str(error.value)  # that is another door


def test_unknown_sympy_functions_are_refused():
    sympy = pytest.importorskip("sympy")
    with pytest.raises(InputError, match="the function Abs is not known"):
        simple(sympy.Abs(sympy.Symbol("m") - sympy.Symbol("x")))
    with pytest.raises(InputError, match="'z' in the formula"):
        simple(sympy.Symbol("m") * sympy.Symbol("z"))


SMH = tb.kernels.ScalableMH
REFUSED = {
    "no bounds": ({}, SMH(), r"the model has no bounds"),
    "no bound of that order": (
        {2: 1.0},
        SMH(order=2),
        r"needs a bound on derivatives of order 3.*only bounds of order 2",
    ),
    "none at all": ({}, SMH(order=1), r"order 2, and the model has no bounds"),
    "no Lipschitz constant": ({3: 1.0}, tb.kernels.FactorisedMH(), r"FactorisedMH\(\) needs"),
    "order 3": ({3: 1.0}, SMH(order=3), r"order=3 was asked for; tb.Factors has orders 1 and 2"),
    "local": ({3: 1.0}, SMH(order=2, bound=tb.bounds.Local()), r"Local bounds need a family"),
    "local, free order": ({3: 1.0}, SMH(bound=tb.bounds.Local()), r"Local bounds need a family"),
    "zig-zag": ({2: 1.0}, tb.kernels.ZigZag(), r"ZigZag: rows must be functions of one linear predictor"),
    "firefly": ({2: 1.0}, tb.kernels.Firefly(), r"Firefly: rows must be functions of one linear predictor"),
    "sketch": (
        {3: 1.0},
        SMH(order=2, sketch=True),
        r"sketch=True needs local bounds and one linear predictor, which",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_kernels_that_a_model_cannot_have_are_refused(case):
    bounds, kernel, message = REFUSED[case]
    model = simple(bounds=bounds)
    for ask in (tb.sample, tb.explain):
        with pytest.raises(InputError, match=message):
            ask(model, kernel)
    if kernel == SMH():
        with pytest.raises(InputError, match="no bounds"):
            kernel.prepare(model)


def test_where_there_is_no_mode():
    with pytest.raises(NoModeError, match=r"No mode was found.*start="):
        tb.sample(simple("m*x*0 - m", prior=tb.priors.Flat()))
    with pytest.raises(NoModeError, match=r"falls ever more slowly but without end"):
        tb.sample(simple("softplus(-m)", prior=tb.priors.Flat()))
    # A saddle: both components have the same mean, and no gradient says which way to part.
    mixture = "-log(exp(-(m - x)**2/2) + exp(-(k - x)**2/2))"
    data = {"x": np.concatenate([X1 - 4.0, X1 + 4.0])}
    with pytest.raises(NoModeError, match=r"not positive definite: a saddle"):
        tb.sample(simple(mixture, ["m", "k"], data=data))
    # From elsewhere there is one.
    model = simple(mixture, ["m", "k"], data=data, start=[-2.0, 2.0])
    mode = setup_of(model).mode.theta
    np.testing.assert_allclose(mode, [-4.0, 4.0], atol=0.05)


def test_a_formula_needs_sympy(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(tb.errors.MissingPackageError, match=r"tallbayes\[custom\]"):
        simple("(m - 3*x)**2/2")  # not one that this process has compiled before


def test_zigzag_and_firefly_need_one_predictor():
    for kernel in (tb.kernels.ZigZag(), tb.kernels.Firefly()):
        with pytest.raises(InputError, match=f"{type(kernel).__name__}.*one linear predictor"):
            kernel.prepare(simple())
