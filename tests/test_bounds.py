"""Bounds hold everywhere, are as tight as they claim, and a broken one is noticed."""

import dataclasses
import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

import oracle
import tallbayes as tb
from problems import ALL_CASES, CASES, JOINT, WIDER, Driver, bench, beside_the_mode, run, stream
from tallbayes.compiled import entry_of
from tallbayes.families.curve import jet, potential
from tallbayes.families.remainder import remainder, remainder_rounding
from tallbayes.families.rows import call_remainders
from tallbayes.kernels.monitor import exceeds, rounding_floor
from tallbayes.kernels.state import FACTS, FAR, INTENSITY, LIMIT, ROW, new_state
from tallbayes.kernels.target import STEP, row_of, shifted, state_factors, step_rate
from tallbayes.kernels.thinning import intensity_of, try_row
from tallbayes.plan.forecast import factors_of_pairs
from tallbayes.setup.bounds import distance_from_centre
from tallbayes.setup.bundles import LIMIT as OF_BUNDLE
from tallbayes.setup.bundles import SCALE
from tallbayes.sources.memory import describe, load_row

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
    logistic, student = tb.families.Bernoulli(), tb.families.StudentT(df=nu, scale=1.0)
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
            allowed = max(1e-12 * abs(float(exact)), remainder_rounding(chosen.curve, t, float(delta), 0.0))
            if size < 0.2:
                # No digit of the bound is lost in a short step.
                bound = chosen.supremum(order + 1) * size ** (order + 1) / math.factorial(order + 1)
                allowed = 1e-12 * abs(float(exact)) + 1e-15 * bound
            assert abs(found - float(exact)) <= allowed, (t, delta)


class ReadRows:
    """Some rows of a kernel, read once: what they come to is asked for at very many pairs of states."""

    def __init__(self, prepared, rows):
        self.target, self.rows = prepared.target, prepared.model.rows
        read = [row_of(self.target, i) for i in rows]
        self.psi, self.weight = self.target.rows.psi[rows], [row.weight for row in read]
        self.lines, self.eta = np.array([row.lines for row in read]), np.array([row.eta for row in read])
        self.responses, self.entry = np.array([row.response for row in read]), None

    def ratios(self, z, other):
        """lambda_i / bar lambda_i, from the package's own parts."""
        target = self.target
        factor = step_rate(target, z, other) / target.bound.total
        if not 0.0 < factor < math.inf:
            return np.zeros(self.psi.size)
        left = self.remainders(shifted(target, z), shifted(target, other)).tolist()
        weighted = zip(self.weight, *left, strict=True)
        return np.array([intensity_of(STEP, w * old, w * new) for w, old, new in weighted]) / (factor * self.psi)

    def remainders(self, *moves):
        """What the expansion leaves of each row, by the compiled code for arguments of types that never change."""
        eta, old, new = (
            np.ascontiguousarray(part.T) for part in (self.eta, *(self.lines @ move for move in moves))
        )
        out, pointer = np.empty((2, eta.shape[1])), self.rows.functions.remainders.pointer
        given = pointer, self.rows.parameters, self.responses, eta, old, new, self.target.bound.order, out
        self.entry = self.entry or entry_of(call_remainders, given)
        self.entry(*given)
        return out


def climb(prepared, row, starts, evaluations):
    """The largest ratio of a row that Nelder-Mead finds from the starting pairs."""
    d, read = prepared.model.d, ReadRows(prepared, [row])

    def objective(x):
        return -float(read.ratios(x[:d], x[d:])[0])

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


@cache
def set_up(case):
    """The model of a case with a set-up beside its mode, which all kernels share, as a user's do."""
    model = ALL_CASES[case].model
    return model, beside_the_mode(model, 0.4)


BOUNDS = {"global": tb.bounds.Global(), "local": tb.bounds.Local(2.5), "wide": tb.bounds.Local(12.0)}


@pytest.mark.parametrize(
    ("case", "order", "bound"),
    [
        *itertools.product(["logistic-normal", "student-flat"], ORDERS, BOUNDS),
        *itertools.product(["poisson", "cloglog", "negative-binomial", "probit", "gamma"], [1, 3], ["local"]),
        *itertools.product(JOINT, ORDERS, ["local", "wide"]),
    ],
)
def test_no_row_exceeds_its_bound(case, order, bound):
    model, setup = set_up(case)
    prepared = kernel_of(order, BOUNDS[bound]).prepare(model, setup=setup)
    rng = np.random.default_rng(order)
    d = model.d
    reach = {"global": 6.0, "local": 2.4, "wide": 6.0}[bound]
    pairs = rng.standard_normal((60, 2 * d))
    pairs *= reach * rng.random((60, 1)) ** 2 / np.linalg.norm(pairs, axis=1, keepdims=True)
    pairs[::3, d:] = pairs[::3, :d] * (1 + 1e-2 * rng.standard_normal((20, 1)))
    rows = np.flatnonzero(prepared.target.rows.psi)
    read = ReadRows(prepared, rows)
    reached = np.array([read.ratios(p[:d], p[d:]) for p in pairs])
    assert np.max(reached) <= 1 + 1e-9
    # Climb from the best pair of each of the most promising rows.
    for i in np.argsort(-reached.max(axis=0))[:4]:
        start = pairs[np.argmax(reached[:, i])]
        assert climb(prepared, rows[i], [start], 250) <= 1 + 1e-9


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
    prepared = kernel_of(order, choice).prepare(model, threads=1)
    assert abs(prepared.target.centre[0]) < 1e-4
    unit = 1.0 if bound == "global" else 5.0
    apart = [[a * unit, b * unit] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0) if a != b]
    best = climb(prepared, 0, np.array(apart), 200)
    assert best <= 1 + 1e-9
    assert best >= 0.99
    if bound == "local" and order > 0:
        # Steps much shorter than the distance from the centre: the second form of the bound.
        near = [[a, a * b] for a in (-4.0, 4.0) for b in (0.999, 1.001)]
        reached = [float(ReadRows(prepared, [0]).ratios(np.array([a]), np.array([b]))[0]) for a, b in near]
        assert 0.99 <= max(reached) <= 1 + 1e-9


@pytest.mark.parametrize("bound", [tb.bounds.Global(), tb.bounds.Local(6.0)])
@pytest.mark.parametrize("order", ORDERS)
def test_tiny_steps_are_no_violation(order, bound):
    for case, scale in itertools.product(("logistic-normal", "student-flat"), (1e-8, 1e-5, 1e-2)):
        prepared = kernel_of(order, bound).prepare(CASES[case].model, threads=1)
        target, zero = prepared.target, np.zeros(prepared.target.centre.size)
        # Weights are raised until events are frequent: ratios stay as they are.
        boost = 3.0 / step_rate(target, zero, np.full(zero.size, scale))
        weight = np.broadcast_to(target.rows.weight, target.rows.psi.shape) * boost
        loud = target._replace(
            rows=target.rows._replace(weight=np.ascontiguousarray(weight), psi=target.rows.psi * boost),
            bound=target.bound._replace(total=target.bound.total * boost, steepest=target.bound.steepest * boost),
        )
        near = prepared.move._replace(keep=0.0, drift=zero, scale=scale)
        driver = Driver(dataclasses.replace(prepared, target=loud, move=near), stream(order), zero)
        draws = run(driver, 2000)
        assert draws.rows_touched.sum() > 300
        assert driver.violations == 0


@pytest.mark.parametrize("order", [1, 2, 3])
def test_badly_conditioned_designs_are_no_violation(order):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(400), 1e5 + rng.standard_normal(400)])
    y = (rng.random(400) < 0.4).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    kernel = tb.kernels.ScalableMH(order=order, bound=tb.bounds.Local(), truncation=math.inf)
    tree = tb.sample(model, kernel, draws=20_000, chains=1, seed=1, progress=False)
    assert tree.attrs["bound_violations"] == 0
    assert np.sum(tree["sample_stats"]["rows_touched"].values) > 150


def shrunk(monkeypatch, share):
    """Make local bounds smaller than they ought to be."""
    honest = tb.bounds.Local.of_rows

    def less(self, *arguments, **options):
        found = honest(self, *arguments, **options)
        sums = type(found.sums)(*(share * part for part in found.sums))
        return found._replace(sums=sums, drawing=found.drawing._replace(psi=share * found.drawing.psi))

    monkeypatch.setattr(tb.bounds.Local, "of_rows", less)


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_a_bound_that_is_too_small_stops_the_run(order, sketch, monkeypatch):
    shrunk(monkeypatch, 0.5)
    rng = np.random.default_rng(8)
    X, y = np.ones((60, 1)), (rng.random(60) < 0.7).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    proposal, bound = tb.proposals.PreconditionedWalk(1.0), tb.bounds.Local(4.0)
    kernel = tb.kernels.ScalableMH(order, bound, proposal, truncation=math.inf, sketch=sketch)
    with pytest.raises(tb.errors.ExactnessError, match="exceeded their proved bound"):
        tb.sample(model, kernel, draws=20_000, chains=1, seed=1, progress=False)


@pytest.mark.parametrize("sketch", [False, True])
def test_an_honest_bound_does_not_stop_the_run(sketch):
    rng = np.random.default_rng(8)
    X, y = np.ones((60, 1)), (rng.random(60) < 0.7).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    proposal, bound = tb.proposals.PreconditionedWalk(1.0), tb.bounds.Local(4.0)
    kernel = tb.kernels.ScalableMH(1, bound, proposal, truncation=math.inf, sketch=sketch)
    tree = tb.sample(model, kernel, draws=20_000, chains=1, seed=1, progress=False)
    assert tree.attrs["bound_violations"] == 0


SETTLED = ["logistic-normal", "student-flat", "poisson", "gamma", "cloglog", "negative-binomial", "single-twelve"]


@pytest.mark.parametrize("case", SETTLED)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_steepest_row_is_the_one_with_the_largest_derivative(case, order):
    """The largest derivative over its interval: 1 % less would settle trials that reject."""
    b = bench(case, f"SMH{order}-local", "walk", math.inf, 3.0)
    problem = b.problem
    lengths = np.linalg.norm(problem.X @ problem.unwhiten, axis=1)
    constants = oracle.local_constants(problem, order, 3.0)
    steepest = np.max(constants[lengths > 0] / lengths[lengths > 0] ** (order + 1))
    assert b.prepared.target.bound.steepest == pytest.approx(float(steepest), rel=1e-4)


@pytest.mark.parametrize("case", SETTLED)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_rows_that_move_little_are_settled_as_their_remainders_would(case, order):
    b = bench(case, f"SMH{order}-local", "walk", math.inf, 3.0)
    found = []
    for steepest in (b.prepared.target.bound.steepest, math.inf, 0.0):
        target = b.prepared.target._replace(bound=b.prepared.target.bound._replace(steepest=steepest))
        driver = Driver(dataclasses.replace(b.prepared, target=target), stream(5), np.zeros(b.problem.centre.size))
        found.append(run(driver, 3000))
    settled, computed, all_settled = found
    for field in range(4):
        np.testing.assert_array_equal(settled[field], computed[field])
    assert np.sum(settled.rows_touched) > 100
    # A chain in which nothing can reject is another one: rows are settled by this number indeed.
    assert not np.array_equal(all_settled.accepted, settled.accepted)


def attaining():
    """Gaussian rows in one dimension at order 1: in short steps their intensities reach their bounds."""
    rng = np.random.default_rng(9)
    X = rng.uniform(0.5, 1.5, (40, 1))
    model = tb.Regression(X, rng.standard_normal(40), tb.families.Gaussian(scale=1.0), tb.priors.Normal(0.0, 3.0))
    return model, tb.proposals.PreconditionedWalk(0.01), tb.bounds.Local(5.0)


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.99])
def test_a_bound_that_is_one_percent_too_small_is_noticed(share, sketch, monkeypatch):
    # Steps of a hundredth: lambda_i is 0.5 % below a right bound, so 0.5 % above one that is 1 % too small.
    shrunk(monkeypatch, share)
    model, proposal, bound = attaining()
    prepared = tb.kernels.ScalableMH(1, bound, proposal, math.inf, sketch=sketch).prepare(model, threads=1)
    driver = Driver(prepared, stream(3), np.array([1.0]))
    draws = run(driver, 40_000)
    assert draws.rows_touched.sum() > 50
    if share == 1.0:
        assert driver.violations == 0
    else:
        assert driver.violations > 10


@pytest.mark.parametrize("share", [1.0, 0.99])
@pytest.mark.parametrize("what", ["pieces", "limits"])
def test_a_bundle_that_is_one_percent_too_small_is_noticed(what, share):
    # The root of a piece is lowered, so pieces by 2 %: rounding to bytes lifts them by 1.2 %.
    model, proposal, bound = attaining()
    prepared = tb.kernels.ScalableMH(1, bound, proposal, math.inf, sketch=True).prepare(model, threads=1)
    bundles = prepared.target.bundles
    if what == "pieces":
        bundles.facts[:, SCALE] *= np.float32(share)
    else:
        bundles.table[:, OF_BUNDLE] *= share
    driver = Driver(prepared, stream(3), np.array([1.0]))
    draws = run(driver, 40_000)
    assert draws.rows_touched.sum() > 50
    assert driver.violations > 10 if share < 1.0 else driver.violations == 0


@pytest.mark.parametrize("case", ["logistic-normal", "student-flat", "poisson", "cloglog", "single-twelve"])
@pytest.mark.parametrize("bound", [tb.bounds.Global(), tb.bounds.Local(4.0)])
@pytest.mark.parametrize("order", [1, 3])
def test_the_rounding_floor_is_small_and_no_more(case, bound, order):
    # What is above its bound by 1e-9 breaks it; what is above by a unit in the last place does not.
    model = ALL_CASES[case].model
    if bound == tb.bounds.Global() and case in ("poisson", "cloglog"):
        bound = tb.bounds.Local(2.0)
    target = kernel_of(order, bound).prepare(model, threads=1).target
    rng = np.random.default_rng(1)
    for i in np.flatnonzero(target.rows.psi)[:10]:
        z, other = rng.standard_normal((2, model.d))
        suspect = np.empty(FACTS + 2 * model.d)
        limit = float(target.rows.psi[i] * sum(state_factors(target, z, other)))
        if math.isinf(limit):
            z, other = 0.1 * z, 0.1 * other
            limit = float(target.rows.psi[i] * sum(state_factors(target, z, other)))
        far = max(
            distance_from_centre(target.bound.local, target.bound.free, target.whitening, point)
            for point in (z, other)
        )
        suspect[[ROW, INTENSITY, LIMIT, FAR]] = i, limit, limit, far
        suspect[FACTS : FACTS + model.d], suspect[FACTS + model.d :] = shifted(target, z), shifted(target, other)
        assert 0.0 < rounding_floor(model.rows, target, suspect) < 1e-9 * limit + 1e-12
        suspect[INTENSITY] = limit * (1.0 + 2.3e-16)
        assert not exceeds(model.rows, target, suspect)
        suspect[INTENSITY] = limit * (1.0 + 1e-9) + 2e-12
        assert exceeds(model.rows, target, suspect)
        suspect[INTENSITY] = math.nan
        assert exceeds(model.rows, target, suspect)


def two_classes(y, eta):
    """The two functions of the family below."""
    zero, one = eta.softplus(), (eta * eta + 1).log() * 3
    return oracle.Series(*(np.where(y == 1, a, b) for a, b in zip(one.c, zero.c, strict=True)))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_each_response_of_a_custom_family_has_its_own_bounds(order):
    # Suprema differ by factors of 10 and more: a bound taken from the other class is far off.
    family = tb.families.custom("(1 - y)*softplus(eta) + 3*y*log1p(eta**2)", responses=(0, 1))
    rng = np.random.default_rng(10)
    X, y = rng.standard_normal((30, 2)), (np.arange(30) % 2).astype(float)
    weights, offset = rng.choice([0.5, 1.0, 2.0], 30), 0.5 * rng.standard_normal(30)
    model = tb.Regression(X, y, family, tb.priors.Normal(0.0, 0.5), weights=weights, offset=offset)
    grid = np.linspace(-40.0, 40.0, 80_001)
    rows = oracle.Formula(two_classes)
    m = order + 1
    suprema = [float(np.max(np.abs(rows.derivatives(np.float64(c), grid)[m]))) for c in (0, 1)]
    assert max(suprema) > 5.0 * min(suprema)
    found = kernel_of(order, tb.bounds.Global()).prepare(model, threads=1).target.rows.psi
    size = np.max(np.abs(X), axis=1) ** m
    wanted = weights * np.where(y == 1, suprema[1], suprema[0]) * size / math.factorial(m)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
    assert np.all(found >= wanted * (1.0 - 1e-12))
    prepared = kernel_of(order, tb.bounds.Local(3.0)).prepare(model, threads=1)
    problem = oracle.Problem(
        *(X, y, rows, np.zeros(2), np.full(2, 4.0), weights, offset, prepared.metric.centre), ()
    )
    np.testing.assert_allclose(
        prepared.target.rows.psi, oracle.local_constants(problem, order, 3.0), rtol=1e-6, atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.uint8, np.bool_, np.int32, np.int64])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_rows_are_read_as_they_are(dtype, layout):
    rng = np.random.default_rng(13)
    numbers = rng.standard_normal((20, 5)) if np.dtype(dtype).kind == "f" else rng.integers(0, 100, (20, 5))
    X = np.asarray(numbers.astype(dtype), order=layout)
    design, row = describe(X), np.empty(5)
    for i in range(20):
        load_row(design, i, row)
        np.testing.assert_array_equal(row, X[i].astype(np.float64))


def both_precisions(case):
    """A model on a design in single precision, and on the same numbers in double precision."""
    chosen = WIDER[case]
    assert chosen.X.dtype == np.float32
    return chosen.model, dataclasses.replace(chosen, X=chosen.X.astype(np.float64)).model


@pytest.mark.parametrize("case", ["single-logistic", "single-poisson", "single-twelve"])
def test_remainders_of_single_precision_rows_are_those_of_the_same_numbers(case):
    single, double = (kernel_of(1, tb.bounds.Local(4.0)).prepare(m, threads=1) for m in both_precisions(case))
    np.testing.assert_array_equal(single.target.rows.psi, double.target.rows.psi)
    rng = np.random.default_rng(14)
    z, other = rng.standard_normal((2, single.model.d))
    for order in (1, 2, 3):
        found = []
        for prepared in (single, double):
            target = prepared.target
            read = [row_of(target, i) for i in range(prepared.model.n)]
            eta, old, new = (
                np.array(part).T
                for part in (
                    [row.eta for row in read],
                    [row.moved(target, shifted(target, z)) for row in read],
                    [row.moved(target, shifted(target, other)) for row in read],
                )
            )
            responses = np.array([row.response for row in read])
            found.append(prepared.model.rows.remainders(responses, eta, old, new, order))
        np.testing.assert_array_equal(*found)


def tried(prepared, z, other):
    """What a compiled trial computes as the intensity of every row, to the last bit.

    Bounds of zero make every positive intensity a suspect, and suspects are kept.
    """
    target = prepared.target
    rows = target.rows._replace(psi=np.zeros(prepared.model.n))
    found = np.zeros(prepared.model.n)
    state = new_state(z)
    state.room.move[:], state.room.other[:] = shifted(target, z), shifted(target, other)
    for i in range(prepared.model.n):
        try_row(
            rows, target.likelihood, state.numbers, state.room, target.bound.order, i, STEP, 1.0, 1.0, 0.5, np.inf
        )
        if state.numbers["suspects"][0]:
            assert state.suspects[0, ROW] == i
            found[i] = state.suspects[0, INTENSITY]
            state.numbers["suspects"] = 0
    assert state.numbers["rows"][0] == prepared.model.n
    return found


@pytest.mark.parametrize("case", ["single-logistic", "single-poisson", "single-twelve"])
def test_trials_of_single_precision_rows_are_those_of_the_same_numbers(case):
    rng = np.random.default_rng(17)
    prepared = [kernel_of(2, tb.bounds.Local(4.0)).prepare(m, threads=1) for m in both_precisions(case)]
    model, target = prepared[1].model, prepared[1].target
    for _ in range(5):
        z, other = rng.standard_normal((2, model.d))
        single, double = (tried(p, z, other) for p in prepared)
        np.testing.assert_array_equal(single, double)
        block = model.source.whole.converted()
        old, new = (model.predictors.moves(block, shifted(target, point)) for point in (z, other))
        left = model.rows.remainders(block.responses, model.predictors.at(block, target.centre), old, new, 2)
        wanted = np.maximum(block.weight * (left[1] - left[0]), 0.0)
        np.testing.assert_allclose(double, wanted, rtol=1e-9, atol=1e-14)
        assert np.sum(double > 0.0) > 5


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("case", ["single-logistic", "single-poisson", "single-twelve"])
def test_chains_on_single_precision_rows_are_those_of_the_same_numbers(case, sketch):
    # Order 1 and steps of a standard deviation: many rows are evaluated in each step.
    draws = []
    for model in both_precisions(case):
        move = tb.proposals.PreconditionedWalk(1.0)
        kernel = tb.kernels.ScalableMH(1, tb.bounds.Local(6.0), move, truncation=math.inf, sketch=sketch)
        draws.append(run(Driver(kernel.prepare(model, threads=1), stream(15)), 3000))
    assert draws[0].rows_touched.sum() > 1000
    for single, double in zip(*draws, strict=True):
        np.testing.assert_array_equal(single, double)


@pytest.mark.parametrize("case", ["student-flat", "scale-student"])
def test_shares_are_not_rounded_down(case):
    """A share in single precision that is below its number would leave out events that reject."""
    model, radius = ALL_CASES[case].model, 2.0
    prepared = kernel_of(1, tb.bounds.Local(radius)).prepare(model, threads=1)
    metric, shares = prepared.metric, prepared.target.rows.shares.astype(np.float64)
    block = model.source.whole.converted()
    norms = model.predictors.norms(block, metric.inverse_root, model.rows.sums)
    eta = model.predictors.at(block, metric.centre)
    rise, fall, size = model.rows.bounds(block.responses, eta, norms, radius, 2)
    some = size > 0.0
    exact = np.stack([rise, fall], axis=1)[some] / size[some, None]
    assert np.all(shares[some] >= exact)
    np.testing.assert_allclose(shares[some], exact, rtol=2e-6, atol=1e-300)
    assert np.sum((exact > 0.0) & (exact < 1.0)) >= 10  # numbers that have to be rounded


@pytest.mark.parametrize("bound", [tb.bounds.Global(), tb.bounds.Local(2.0)])
@pytest.mark.parametrize("order", ORDERS)
def test_factors_of_many_pairs_are_those_of_each(bound, order):
    prepared = kernel_of(order, bound).prepare(CASES["student-flat"].model, threads=1)
    rng = np.random.default_rng(16)
    here, there = rng.standard_normal((2, 300, 3)) * rng.uniform(0.05, 1.5, (2, 300, 1))
    there[::3] = here[::3] * (1.0 + 1e-3 * rng.standard_normal((100, 1)))
    found = factors_of_pairs(prepared.target.bound, prepared.metric, here, there)
    wanted = [sum(state_factors(prepared.target, *pair)) for pair in zip(here, there, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.any(np.isinf(found)) == bound.local
    assert np.mean(np.isfinite(found)) > 0.2
