"""Bounds hold everywhere, are as tight as they claim, and a broken one is noticed."""

import dataclasses
import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

import tallbayes as tb
from problems import CASES, beside_the_mode, run, stream
from tallbayes.families.curve import jet, potential
from tallbayes.kernels.target import row_intensity, step_rate
from tallbayes.surrogate.bounds import shift
from tallbayes.families.remainder import remainder, remainder_rounding

FAMILIES = {
    "logistic": tb.families.Bernoulli(),
    "student-1.5": tb.families.StudentT(df=1.5, scale=1.0),
    "student-5": tb.families.StudentT(df=5.0, scale=0.7),
}
ORDERS = [0, 1, 2, 3]


def exact_curve(family, t):
    """g(t) in arbitrary precision."""
    if isinstance(family, tb.families.Bernoulli):
        return mpmath.log(1 + mpmath.exp(t))
    nu = mpmath.mpf(family.df)
    return (nu + 1) / 2 * mpmath.log(1 + t**2 / nu)


def exact_derivatives(family, t):
    """g', g'', g''', g'''' from the Taylor series in arbitrary precision."""
    series = mpmath.taylor(lambda x: exact_curve(family, x), mpmath.mpf(t), 4)
    return [series[m] * mpmath.factorial(m) for m in range(1, 5)]


@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives(family):
    curve = FAMILIES[family].curve
    with mpmath.workdps(60):
        for t in (-30.0, -7.3, -2.0, -1e-3, 0.0, 1e-6, 0.4, 1.3169578969248166, 3.0, 9.9, 33.0):
            exact = exact_derivatives(FAMILIES[family], t)
            value = float(exact_curve(FAMILIES[family], mpmath.mpf(t)))
            assert potential(curve, t, 0.0) == pytest.approx(value, rel=1e-14, abs=1e-300)
            for found, wanted in zip(jet(curve, t, 0.0), exact, strict=True):
                # Relative, but for a rounding of the argument near a root of the derivative.
                assert found == pytest.approx(float(wanted), rel=1e-12, abs=1e-15 * float(exact[1] + 1))


@pytest.mark.parametrize(("family", "m"), list(itertools.product(FAMILIES, [1, 2, 3, 4])))
def test_suprema_and_critical_points(family, m):
    chosen = FAMILIES[family]
    grid = np.concatenate([np.linspace(-12.0, 12.0, 48001), np.linspace(-500.0, 500.0, 2001)])
    values = np.array([jet(chosen.curve, t, 0.0)[m - 1] for t in grid])
    supremum = chosen.supremum(m)
    assert np.max(np.abs(values)) <= supremum * (1 + 1e-12)
    assert np.max(np.abs(values)) >= supremum * (1 - 1e-6)
    # Every sign change of the next difference on the fine grid is near a critical point.
    slope = np.diff(values[:48001])
    turns = grid[1:48000][slope[:-1] * slope[1:] < 0]
    turns = turns[np.abs(values[1:48000][slope[:-1] * slope[1:] < 0]) > 1e-9]
    for turn in turns:
        assert np.min(np.abs(chosen.critical_points(m) - turn)) < 2e-3


@pytest.mark.parametrize("nu", [1.0, 2.5, 5.0, 30.0])
def test_constants_of_the_paper(nu):
    logistic, student = tb.families.Bernoulli(), tb.families.StudentT(df=nu)
    wanted = {
        (logistic, 1): 1.0,
        (logistic, 2): 1 / 4,
        (logistic, 3): 1 / (6 * math.sqrt(3)),
        (student, 1): (nu + 1) / (2 * math.sqrt(nu)),
        (student, 2): (nu + 1) / nu,
        (student, 3): (nu + 1) * (3 + 2 * math.sqrt(2)) / (4 * nu**1.5),
    }
    for (family, m), value in wanted.items():
        assert family.supremum(m) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize(("family", "order"), list(itertools.product(FAMILIES, ORDERS)))
def test_remainders_keep_their_digits(family, order):
    chosen = FAMILIES[family]
    steps = np.concatenate([10.0 ** np.arange(-12.0, 1.5, 0.5), [0.04, 0.06, 0.55, 0.7, 0.785, 0.79, 50.0]])
    with mpmath.workdps(90):
        for t, size, sign in itertools.product((-2.0, 0.0, 0.31, 4.0), steps, (-1.0, 1.0)):
            delta = mpmath.mpf(sign * size)
            series = mpmath.taylor(lambda x: exact_curve(chosen, x), mpmath.mpf(t), order)
            exact = exact_curve(chosen, mpmath.mpf(t) + delta) - sum(c * delta**m for m, c in enumerate(series))
            found = remainder(chosen.curve, t, float(delta), order, 0.0)
            allowed = max(1e-12 * abs(float(exact)), remainder_rounding(chosen.curve, t, float(delta), order, 0.0))
            if size < 0.2:
                # No digit of the bound is lost in a short step.
                bound = chosen.supremum(order + 1) * size ** (order + 1) / math.factorial(order + 1)
                allowed = 1e-12 * abs(float(exact)) + 1e-15 * bound
            assert abs(found - float(exact)) <= allowed, (t, delta)


def ratios(target, z, other, rows):
    """lambda_i / bar lambda_i of the given rows, from the package's own parts."""
    factor = step_rate(target, z, other) / target.bound.total
    if not 0.0 < factor < math.inf:
        return np.zeros(len(rows))
    move, new = np.empty(z.size), np.empty(z.size)
    shift(target.whitening, z, move)
    shift(target.whitening, other, new)
    parts = (target.curve, target.bound.order, *target.rows, target.centre)
    found = [row_intensity(*parts, i, move, new) / (factor * target.sampler.psi[i]) for i in rows]
    return np.array(found)


def climb(target, rows, starts, evaluations):
    """The largest ratio that Nelder-Mead finds from the starting pairs."""
    d = target.centre.size

    def objective(x):
        return -float(np.max(ratios(target, x[:d], x[d:], rows)))

    best = 0.0
    for start in starts:
        options = {"maxfev": evaluations, "xatol": 1e-9, "fatol": 1e-12}
        best = max(best, -float(minimize(objective, start, method="Nelder-Mead", options=options).fun))
    return best


def kernel_of(order, bound):
    """A kernel of the order with the bound; its proposal does not matter here."""
    proposal = tb.proposals.PreconditionedWalk(1.0)
    if order == 0:
        return tb.kernels.FactorisedMH(proposal=proposal, bound=bound, truncation=math.inf)
    return tb.kernels.ScalableMH(order=order, proposal=proposal, bound=bound, truncation=math.inf)


BOUNDS = {"global": tb.bounds.Global(), "local": tb.bounds.Local(2.5), "wide": tb.bounds.Local(12.0)}


@pytest.mark.parametrize(
    ("case", "order", "bound"), list(itertools.product(["logistic-normal", "student-flat"], ORDERS, BOUNDS))
)
def test_no_row_exceeds_its_bound(case, order, bound):
    model = CASES[case].model
    basis = beside_the_mode(model, 0.4)
    target = kernel_of(order, BOUNDS[bound]).prepare(model, threads=1, basis=basis).target
    rng = np.random.default_rng(order)
    d = target.centre.size
    reach = {"global": 6.0, "local": 2.4, "wide": 6.0}[bound]
    pairs = rng.standard_normal((60, 2 * d))
    pairs *= reach * rng.random((60, 1)) ** 2 / np.linalg.norm(pairs, axis=1, keepdims=True)
    pairs[::3, d:] = pairs[::3, :d] * (1 + 1e-2 * rng.standard_normal((20, 1)))
    rows = np.flatnonzero(target.sampler.psi)
    reached = np.array([ratios(target, p[:d], p[d:], rows) for p in pairs])
    assert np.max(reached) <= 1 + 1e-9
    # Climb from the best pair of each of the most promising rows.
    for i in np.argsort(-reached.max(axis=0))[:4]:
        start = pairs[np.argmax(reached[:, i])]
        assert climb(target, [rows[i]], [start], 250) <= 1 + 1e-9


# Predictors at which |g^(m)|, m = order + 1, is largest (the logistic's slope: far out).
PEAKS = {
    ("logistic", 0): 9.0,
    ("logistic", 1): 0.0,
    ("logistic", 2): 1.3169578969248166,
    ("logistic", 3): 0.0,
    ("student-5", 0): math.sqrt(5.0),
    ("student-5", 1): 0.0,
    ("student-5", 2): math.sqrt(5.0) * math.tan(math.pi / 8),
    ("student-5", 3): 0.0,
}


@pytest.mark.parametrize(
    ("family", "order", "bound"),
    [(*key, bound) for key, bound in itertools.product(PEAKS, ["global", "local"])],
)
def test_bounds_are_attained_in_one_dimension(family, order, bound):
    # Row 0 sits at the peak of the derivative, so its ratio tends to 1: one state at the centre, or a short step.
    peak = PEAKS[family, order]
    chosen = FAMILIES[family]
    X, rng = np.ones((40, 1)), np.random.default_rng(7)
    X[1:, 0] = rng.standard_normal(39)
    if family == "logistic":
        y, offset = (rng.random(40) < 0.5).astype(float), np.zeros(40)
        y[0], offset[0] = 0.0, peak
    else:
        y, offset = rng.standard_normal(40), np.zeros(40)
        y[0] = peak * chosen.scale
    model = tb.Regression(X, y, chosen, tb.priors.Normal(0.0, 1e-3), offset=offset)
    # A prior this narrow puts the centre at zero.
    choice = tb.bounds.Global() if bound == "global" else tb.bounds.Local(30.0)
    target = kernel_of(order, choice).prepare(model, threads=1).target
    assert abs(target.centre[0]) < 1e-4
    unit = 1.0 if bound == "global" else 5.0
    apart = [[a * unit, b * unit] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0) if a != b]
    best = climb(target, [0], np.array(apart), 200)
    assert best <= 1 + 1e-9
    assert best >= 0.99
    if bound == "local" and order > 0:
        # Steps much shorter than the distance from the centre: the second form of the bound.
        near = [[a, a * b] for a in (-4.0, 4.0) for b in (0.999, 1.001)]
        reached = [float(ratios(target, np.array([a]), np.array([b]), [0])[0]) for a, b in near]
        assert 0.99 <= max(reached) <= 1 + 1e-9


@pytest.mark.parametrize("bound", [tb.bounds.Global(), tb.bounds.Local(6.0)])
@pytest.mark.parametrize("order", ORDERS)
def test_tiny_steps_are_no_violation(order, bound):
    for case, scale in itertools.product(("logistic-normal", "student-flat"), (1e-8, 1e-5, 1e-2)):
        prepared = kernel_of(order, bound).prepare(CASES[case].model, threads=1)
        target, zero = prepared.target, np.zeros(prepared.target.centre.size)
        # Weights are raised until events are frequent: ratios stay as they are.
        boost = 3.0 / step_rate(target, zero, np.full(zero.size, scale))
        weight = np.broadcast_to(target.rows.weight, target.sampler.psi.shape) * boost
        loud = target._replace(
            rows=target.rows._replace(weight=np.ascontiguousarray(weight)),
            bound=target.bound._replace(total=target.bound.total * boost),
            sampler=target.sampler._replace(psi=target.sampler.psi * boost),
        )
        near = prepared.proposal._replace(keep=0.0, drift=zero, scale=scale)
        tiny = dataclasses.replace(prepared, target=loud, proposal=near)
        rng = stream(order)
        state, draws = run(tiny, tiny.initial_state(loud, zero, rng), rng, 2000)
        assert draws.rows_touched.sum() > 300
        assert state.violations == 0


@pytest.mark.parametrize("order", [1, 2, 3])
def test_badly_conditioned_designs_are_no_violation(order):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(400), 1e5 + rng.standard_normal(400)])
    y = (rng.random(400) < 0.4).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    kernel = tb.kernels.ScalableMH(order=order, bound=tb.bounds.Local(), truncation=math.inf)
    tree = tb.sample(model, kernel, draws=10_000, chains=1, seed=1, progress=False)
    assert tree.attrs["bound_violations"] == 0
    assert np.sum(tree["sample_stats"]["rows_touched"].values) > 150


@pytest.mark.parametrize("order", [1, 2])
def test_a_bound_that_is_too_small_stops_the_run(order, monkeypatch):
    honest = tb.bounds.Local.row_bounds

    def halved(self, *arguments, **options):
        found = honest(self, *arguments, **options)
        return found._replace(psi=found.psi / 2.0)

    monkeypatch.setattr(tb.bounds.Local, "row_bounds", halved)
    rng = np.random.default_rng(8)
    X, y = np.ones((60, 1)), (rng.random(60) < 0.7).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    proposal = tb.proposals.PreconditionedWalk(1.0)
    kernel = tb.kernels.ScalableMH(order=order, bound=tb.bounds.Local(4.0), proposal=proposal, truncation=math.inf)
    with pytest.raises(tb.errors.ExactnessError, match="exceeded their proved bound"):
        tb.sample(model, kernel, draws=20_000, chains=1, seed=1, progress=False)


def test_an_honest_bound_does_not_stop_the_run():
    rng = np.random.default_rng(8)
    X, y = np.ones((60, 1)), (rng.random(60) < 0.7).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    proposal = tb.proposals.PreconditionedWalk(1.0)
    kernel = tb.kernels.ScalableMH(order=1, bound=tb.bounds.Local(4.0), proposal=proposal, truncation=math.inf)
    tree = tb.sample(model, kernel, draws=20_000, chains=1, seed=1, progress=False)
    assert tree.attrs["bound_violations"] == 0
