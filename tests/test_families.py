"""What every family promises: its formula, its derivatives, their suprema, its support, its posterior."""

import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

import tallbayes as tb
from tallbayes.families.curve import coefficients, jet, mixes, potential
from tallbayes.families.ranges import derivative_range
from tallbayes.families.remainder import remainder, remainder_rounding
from tallbayes.setup.no_mode import refuse_recession
from tallbayes.setup.setup import setup_of

mpmath.mp.dps = 40
softplus = lambda t: mpmath.log(1 + mpmath.exp(t))  # noqa: E731

phi = lambda t: mpmath.erfc(-t / mpmath.sqrt(2)) / 2  # noqa: E731


def remembered(g):
    """The same function, which finds each value once for all families, mixtures and orders of derivative."""
    values = {}

    def known(t):
        key = t, mpmath.mp.prec
        if key not in values:
            values[key] = g(t)
        return values[key]

    return known


probit_pieces = remembered(lambda t: -mpmath.log(phi(-t))), remembered(lambda t: -mpmath.log(phi(t)))
cloglog_pieces = mpmath.exp, remembered(lambda t: -mpmath.log(-mpmath.expm1(-mpmath.exp(t))))

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
    "probit": (
        tb.families.Bernoulli("probit"),
        probit_pieces[0],
        lambda y, eta: -mpmath.log(phi(eta) if y == 1 else phi(-eta)),
        lambda rng, eta: (rng.standard_normal(eta.size) < eta).astype(float),
    ),
    "cloglog": (
        tb.families.Bernoulli("cloglog"),
        cloglog_pieces,
        lambda y, eta: -mpmath.log(-mpmath.expm1(-mpmath.exp(eta))) if y == 1 else mpmath.exp(eta),
        lambda rng, eta: (rng.standard_exponential(eta.size) < np.exp(eta)).astype(float),
    ),
    "binomial": (
        tb.families.Binomial(7),
        softplus,
        lambda y, eta: 7 * softplus(eta) - y * eta,
        lambda rng, eta: rng.binomial(7, 1 / (1 + np.exp(-eta))).astype(float),
    ),
    "binomial-probit": (
        tb.families.Binomial(7, "probit"),
        probit_pieces,
        lambda y, eta: -y * mpmath.log(phi(eta)) - (7 - y) * mpmath.log(phi(-eta)),
        lambda rng, eta: rng.binomial(7, stats.norm.cdf(eta)).astype(float),
    ),
    "binomial-cloglog": (
        tb.families.Binomial(7, "cloglog"),
        cloglog_pieces,
        lambda y, eta: (7 - y) * mpmath.exp(eta) - y * mpmath.log(-mpmath.expm1(-mpmath.exp(eta))),
        lambda rng, eta: rng.binomial(7, -np.expm1(-np.exp(eta))).astype(float),
    ),
    "custom": (
        tb.families.custom("softplus((y - eta)/s) + softplus(-(y - eta)/s)", s=0.5),
        lambda t: softplus(2 * t) + softplus(-2 * t),
        lambda y, eta: softplus(2 * (y - eta)) + softplus(2 * (eta - y)),
        lambda rng, eta: eta + 0.5 * rng.logistic(size=eta.size),
    ),
    "custom-classes": (
        tb.families.custom("softplus(eta) - y*eta", responses=(0, 1)),
        (softplus, lambda t: softplus(t) - t),
        lambda y, eta: softplus(eta) - y * eta,
        lambda rng, eta: (rng.random(eta.size) < 1 / (1 + np.exp(-eta))).astype(float),
    ),
}
# Responses below, at and above every place where the coefficients of a row change their form.
RESPONSES = {
    "bernoulli": [0.0, 1.0],
    "student-t": [-3.0, 0.0, 2.5],
    "poisson": [0.0, 1.0, 2.0, 1000.0],
    "gamma": [1e-3, 1.0, 20.0],
    "negative-binomial": [0.0, 1.0, 2.0, 50.0],
    "gaussian": [-3.0, 0.0, 2.5],
    "pseudo-huber": [-3.0, 0.0, 2.5],
    "probit": [0.0, 1.0],
    "cloglog": [0.0, 1.0],
    "binomial": [0.0, 1.0, 3.0, 6.0, 7.0],
    "binomial-probit": [0.0, 1.0, 3.0, 6.0, 7.0],
    "binomial-cloglog": [0.0, 1.0, 3.0, 6.0, 7.0],
    "custom": [-3.0, 0.0, 2.5],
    "custom-classes": [0.0, 1.0],
}
POINTS = [-30.0, -3.1, -1.0, -0.2, 0.0, 1e-3, 0.7, 2.5, 20.0]
FAR_OUT = [-math.inf, -1e300, -1e100, -1e6, -800.0, -700.0, 700.0, 800.0, 1e6, 1e100, 1e300, math.inf]


@pytest.fixture(params=FAMILIES, name="entry")
def _entry(request):
    return FAMILIES[request.param]


def pieces(entry):
    """The family's pieces, each with its g."""
    family, g = entry[:2]
    found = list(zip(family.pieces, g if isinstance(g, tuple) else (g,), strict=True))
    if mixes(family.curve):
        found.append((0.3, lambda t: mpmath.mpf(0.3) * g[1](t) + (1 - mpmath.mpf(0.3)) * g[0](t)))
    return found


def test_curve_and_derivatives(entry):
    family = entry[0]
    for piece, g in pieces(entry):
        for t in POINTS:
            with mpmath.workdps(240 if abs(t) > 10 else 60):
                series = mpmath.taylor(g, mpmath.mpf(t), 4)
            # Relative to g, or to its slope where a sum of terms of this size cancels.
            assert potential(family.curve, t, piece) == pytest.approx(float(series[0]), rel=1e-13, abs=1e-16)
            for m, value in enumerate(jet(family.curve, t, piece), start=1):
                wanted = float(series[m] * math.factorial(m))
                assert value == pytest.approx(wanted, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize(
    ("link", "points"), [("probit", (-36.0, -9.0, 1.9, 1.999, 2.0, 2.3, 2.8, 6.0, 20.0)), ("cloglog", (-34.0, 3.5))]
)
def test_tails_keep_their_digits(link, points):
    # Relative accuracy where derivatives are tiny, or differences of nearly equal terms.
    piece, g = pieces(FAMILIES[link])[-1]
    curve = FAMILIES[link][0].curve
    for t in points:
        with mpmath.workdps(int(t * t / 4) + 60):
            series = mpmath.taylor(g, mpmath.mpf(t), 4)
        found = (potential(curve, t, piece), *jet(curve, t, piece))
        for m in range(5):
            assert found[m] == pytest.approx(float(series[m] * math.factorial(m)), rel=1e-12, abs=0.0)


def test_probit_far_out():
    # g = t^2 / 2 + log t + const + 1 / t^2 - ..., beyond the reach of erfc.
    curve = tb.families.Bernoulli("probit").curve
    for t in (700.0, 1e4):
        first = t + 1 / t - 2 / t**3
        wanted = (first, 1 - 1 / t**2 + 6 / t**4, 2 / t**3 - 24 / t**5, -6 / t**4 + 120 / t**6)
        assert jet(curve, t, 0.0) == pytest.approx(wanted, rel=1e-12)
        assert potential(curve, t, 0.0) == pytest.approx(
            t * t / 2 + math.log(t * math.sqrt(2 * math.pi)), rel=1e-10
        )


@pytest.mark.parametrize(("link", "low", "high"), [("probit", -6.0, 8.0), ("cloglog", -6.0, 3.0)])
def test_critical_points_of_links(link, low, high):
    # Sign changes of the next derivative on a grid, refined: the constants in the source, to full precision.
    family, (_, g) = FAMILIES[link][0], pieces(FAMILIES[link])[-1]
    with mpmath.workdps(40):
        grid = [mpmath.mpf(low) + (mpmath.mpf(high) - low) * i / 70 for i in range(71)]
        table = [mpmath.taylor(g, t, 5) for t in grid]
        for m in range(1, 5):
            roots = [
                mpmath.findroot(
                    lambda t, m=m: mpmath.taylor(g, t, m + 1)[m + 1], ends, solver="anderson", tol=1e-28
                )
                for ends, (a, b) in zip(itertools.pairwise(grid), itertools.pairwise(table), strict=True)
                if a[m + 1] * b[m + 1] < 0
            ]
            assert family.critical_points(m) == pytest.approx([float(r) for r in roots], rel=2e-16, abs=2e-17)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_are_the_likelihood(name):
    family, _, likelihood, respond = FAMILIES[name]
    responses = np.concatenate([RESPONSES[name], respond(np.random.default_rng(1), np.array([-0.5, 0.0, 0.8]))])
    rows_are_the_likelihood(family, likelihood, responses)


@pytest.mark.parametrize("size", [3.0, 0.5])
def test_dispersed_counts_around_their_size(size):
    """Below the size a count has one form, above it another; here is one at it, too."""
    family = tb.families.NegativeBinomial(size)
    responses = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 30.0])
    sides = coefficients(family.curve, responses)[1]
    assert set(sides) == {-1.0, 1.0}
    rows_are_the_likelihood(
        family, lambda y, eta: (y + size) * mpmath.log(size + mpmath.exp(eta)) - y * eta, responses
    )


def rows_are_the_likelihood(family, likelihood, responses):
    """Compare compiled rows, their derivatives and their remainders with a textbook's likelihood."""
    eta = np.array([-1.0, 0.3, 2.0])
    for y in responses:
        coded, weight = family.encode(np.array([y]), np.ones(1))
        m, s, c, l, piece = coefficients(family.curve, float(coded[0]))
        values = [weight * (m * potential(family.curve, s * e + c, piece) + l * e) for e in eta]
        wanted = [float(likelihood(mpmath.mpf(float(y)), mpmath.mpf(e))) for e in eta]
        assert np.diff(np.ravel(values)) == pytest.approx(np.diff(wanted), rel=1e-11)
        again = np.full((3, 1), coded[0])
        jets = weight * family.rows.jets(again, eta[None].copy(), 3)
        assert np.diff(jets[0]) == pytest.approx(np.diff(wanted), rel=1e-11)
        exact = [mpmath.taylor(lambda e, y=y: likelihood(mpmath.mpf(float(y)), e), mpmath.mpf(e), 3) for e in eta]
        for order in range(1, 4):
            slopes = [float(series[order] * math.factorial(order)) for series in exact]
            # A slope of one row is a difference of terms of about the size of its response.
            assert jets[order] == pytest.approx(slopes, rel=1e-10, abs=1e-13 * max(1.0, abs(y)))
        steps = np.array([[1e-5, -0.01, 0.4]])
        for order in range(4):
            before, after = weight * family.rows.remainders(again, eta[None].copy(), -steps, steps, order)
            change = []
            for e, step, series in zip(eta, steps[0], exact, strict=True):
                ends = [likelihood(mpmath.mpf(float(y)), mpmath.mpf(e) + h) for h in (-step, step)]
                odd = sum(2 * series[k] * mpmath.mpf(step) ** k for k in range(1, order + 1, 2))
                change.append(float(ends[1] - ends[0] - odd))
            rounding = 1e-14 * np.max(np.abs(jets[0]), initial=1.0)
            assert after - before == pytest.approx(change, rel=1e-9, abs=rounding)


def test_bounds_of_mixtures_hold():
    """Search for a derivative of a row with successes and failures that exceeds its bound, along any move."""
    rng = np.random.default_rng(8)
    for link, m in itertools.product(("probit", "cloglog"), range(1, 5)):
        family = tb.families.Binomial(10, link)
        tightest = 0.0
        for share in (0.0, 0.1, 0.5, 0.9, 1.0):
            for _ in range(8):
                eta, norm, radius = 2.0 * rng.standard_normal(), rng.random() + 0.1, 3.0 * rng.random()
                response, centre, norms = (np.array([[x]]) for x in (share, eta, norm))
                rise, fall, _ = family.rows.bounds(response, centre, norms, radius, m)[:, 0] / norm**m

                def value(t, share=share, link=link, m=m):
                    return jet(tb.families.Binomial(10, link).curve, float(t), share)[m - 1]

                ends = eta - radius * norm, eta + radius * norm
                found = np.array([value(t) for t in np.linspace(*ends, 60)])
                for at, sign in ((found.argmin(), 1.0), (found.argmax(), -1.0)):
                    width = (ends[1] - ends[0]) / 59
                    place = ends[0] + width * at
                    near = max(ends[0], place - width), min(ends[1], place + width)
                    best = minimize_scalar(lambda t, s=sign: s * value(t), bounds=near, method="bounded")
                    found = np.append(found, value(best.x))
                slack = 1e-12 * max(rise, fall)
                assert max(0.0, found.max()) <= rise + slack
                assert max(0.0, -found.min()) <= fall + slack
                if share in (0.0, 1.0):  # of one class alone the bound is the supremum
                    assert max(0.0, found.max()) >= rise * (1.0 - 1e-6) - 1e-12
                    assert max(0.0, -found.min()) >= fall * (1.0 - 1e-6) - 1e-12
                tightest = max(tightest, np.max(np.abs(found)) / max(rise, fall, 1e-300))
        assert tightest > 0.99
        if math.isfinite(family.supremum(m)):
            everywhere = family.rows.bounds(np.array([[0.5]]), np.zeros((1, 1)), np.ones((1, 1)), math.inf, m)
            assert np.max(everywhere) <= family.supremum(m) * (1 + 1e-12)
            wide = [abs(jet(family.curve, t, 0.5)[m - 1]) for t in np.linspace(-30.0, 30.0, 3001)]
            assert np.max(everywhere) >= max(wide) * (1 - 1e-12)


def test_mixed_rows_are_not_separated():
    """A row with both successes and failures rises both ways; rows of one class each may be separated."""
    X, step = np.array([[-1.0], [1.0], [2.0]]), np.array([-1.0])
    for link in ("probit", "cloglog"):
        family, prior = tb.families.Binomial(4, link), tb.priors.Flat()
        refuse_recession(tb.Regression(X, [0.0, 3.0, 4.0], family, prior), step)
        with pytest.raises(tb.errors.NoModeError, match="separated"):
            refuse_recession(tb.Regression(X, [0.0, 4.0, 4.0], family, prior), step)


def test_suprema_are_valid_and_tight(entry):
    family = entry[0]
    grid = np.linspace(-40.0, 40.0, 20_001)
    table = np.abs([jet(family.curve, float(t), p) for p in family.pieces for t in grid])
    for m in range(1, 5):
        largest = float(table[:, m - 1].max())
        supremum = family.supremum(m)
        assert largest <= supremum * (1 + 1e-12)
        if math.isfinite(supremum) and supremum > 0.0:
            assert largest >= 0.95 * supremum


def test_no_interval_exceeds_its_range(entry):
    # The search for a larger derivative within intervals, short and long, finds none, and comes close. Intervals
    # are random ones, and some around each critical point, of which an end alone is not enough.
    family = entry[0]
    rng = np.random.default_rng(6)
    for m, piece in itertools.product(range(1, 5), family.pieces):
        critical, extremes = family.critical_points(m), family.extremes(m)
        lows = 6 * rng.standard_normal(12)
        intervals = [(low, low + min(20.0, float(np.exp(2 * rng.standard_normal())))) for low in lows.tolist()]
        for at, width in itertools.product(critical.tolist(), (1e-2, 0.3, 2.0)):
            left = float(rng.uniform(0.2, 0.8))
            intervals.append((at - left * width, at + (1.0 - left) * width))
        for low, high in intervals:
            least, largest = derivative_range(family.curve, m, low, high, extremes, piece)

            def value(t, m=m, piece=piece):
                return jet(family.curve, float(t), piece)[m - 1]

            found = np.array([value(t) for t in np.linspace(low, high, 200)])
            width = (high - low) / 199
            for at, sign in ((found.argmin(), 1.0), (found.argmax(), -1.0)):
                ends = max(low, low + width * (at - 1)), min(high, low + width * (at + 1))
                best = minimize_scalar(lambda t, s=sign: s * value(t), bounds=ends, method="bounded")
                found = np.append(found, value(best.x))
            slack = 1e-12 * max(abs(least), abs(largest))
            assert found.min() >= least - slack
            assert found.max() <= largest + slack
            near = 1e-6 * max(abs(least), abs(largest)) + 1e-300
            assert found.min() <= least + near
            assert found.max() >= largest - near


class Misled:
    """A family with something else in place of its extremes."""

    def __init__(self, family, change):
        self.family, self.extremes = family, lambda m: change(family.extremes(m))

    def __getattr__(self, name):
        return getattr(self.family, name)


@pytest.mark.parametrize("name", ["bernoulli", "student-t", "probit", "cloglog", "custom"])
@pytest.mark.parametrize("line", ["points", "first piece", "last piece"])
@pytest.mark.parametrize("share", [0.99, 1.01])
def test_extremes_that_are_off_by_one_per_cent_are_seen(name, line, share):
    at = {"points": 0, "first piece": 1, "last piece": -1}[line]

    def change(extremes):
        wrong = extremes.copy()
        wrong[at] = share * extremes[at] + (share - 1.0) * (at == 0)  # a point may be at zero
        return wrong

    with pytest.raises(AssertionError):
        test_no_interval_exceeds_its_range((Misled(FAMILIES[name][0], change),))


def test_remainders_keep_their_digits(entry):
    family = entry[0]
    for piece, g in pieces(entry):
        for t in (-4.0, 0.3, 3.0):
            series = mpmath.taylor(g, mpmath.mpf(t), 3)
            for delta in (1e-9, -1e-4, 0.03, 0.4, -2.0):
                for k in range(4):
                    taylor = sum(series[j] * mpmath.mpf(delta) ** j for j in range(k + 1))
                    wanted = float(g(mpmath.mpf(t) + mpmath.mpf(delta)) - taylor)
                    slack = remainder_rounding(family.curve, t, delta, piece)
                    found = remainder(family.curve, t, delta, k, piece)
                    assert found == pytest.approx(wanted, rel=1e-10, abs=slack)


def test_no_warning_and_no_nan_far_out(entry):
    family = entry[0]
    for (piece, _), t in itertools.product(pieces(entry), FAR_OUT):
        assert not math.isnan(potential(family.curve, t, piece))
        assert not any(math.isnan(value) for value in jet(family.curve, t, piece))


@pytest.mark.parametrize(
    ("family", "y"),
    [
        (tb.families.Poisson(), 1e15),
        (tb.families.Poisson(), 0.0),
        (tb.families.NegativeBinomial(1e-6), 1e15),
        (tb.families.NegativeBinomial(1e9), 0.0),
        (tb.families.Gamma(3.0), 1e-300),
        (tb.families.Gamma(1e-6), 1e15),
        (tb.families.Binomial(10**15), 1e15),
        (tb.families.Binomial(10**15, "probit"), 1e15 - 1),
        (tb.families.Binomial(10**15, "cloglog"), 1.0),
        (tb.families.StudentT(4.0, 1e-9), 1e6),
        (tb.families.Gaussian(1e-9), 1e6),
        (tb.families.PseudoHuber(1.0, 1e-9), 1e6),
    ],
)
def test_extreme_responses_and_scales(family, y):
    coded, weight = family.encode(np.array([y]), np.ones(1))
    m, s, c, l, piece = coefficients(family.curve, float(coded[0]))
    for eta in (-700.0, -1.0, 0.0, 30.0, 700.0):
        values = (potential(family.curve, s * eta + c, piece), *jet(family.curve, s * eta + c, piece), m, l)
        assert not any(math.isnan(value) for value in values)
        assert np.isfinite(weight).all()


BATCHES = 40


@cache
def quadrature_case(name):
    """A model of one coefficient, its posterior mean and variance by quadrature, once for all tests of a family."""
    family, _, _, respond = FAMILIES[name]
    rng = np.random.default_rng(3)
    X = np.abs(rng.standard_normal((40, 1))) + 0.2
    offset = 0.3 * rng.standard_normal(40)
    y = respond(rng, 0.4 * X[:, 0] + offset)
    weights = rng.choice([0.5, 1.0, 2.0], 40)
    model = tb.Regression(X, y, family, tb.priors.Normal(0.3, 1.0), offset=offset, weights=weights)
    grid = np.linspace(-2.0, 2.5, 361)  # several points for each standard deviation: the sum is exact to rounding
    eta = grid[:, None] * X[:, 0] + offset
    y, weights = model.source.responses[:, 0], model.source.weight  # as the family codes them
    m, s, c, l, piece = coefficients(family.curve, y)
    rows = np.frompyfunc(lambda t, p: potential(family.curve, t, p), 2, 1)(s * eta + c, piece).astype(float)
    energy = (weights * (m * rows + l * eta)).sum(axis=1) + 0.5 * (grid - 0.3) ** 2
    mass = np.exp(energy.min() - energy)
    mass /= mass.sum()
    mean = mass @ grid
    return model, mean, mass @ (grid - mean) ** 2


def agrees(beta, mean, variance):
    """Compare mean and variance of draws with quadrature, by the t of batch means: false positives 1e-7 each."""
    for values, wanted in ((beta, mean), ((beta - mean) ** 2, variance)):
        batches = values.reshape(BATCHES, -1).mean(axis=1)
        error = np.std(batches, ddof=1) / math.sqrt(BATCHES)
        assert abs(np.mean(batches) - wanted) < stats.t.isf(0.5e-7, BATCHES - 1) * error
        spread = math.sqrt(variance) if values is beta else math.sqrt(2.0) * variance
        assert error < 0.05 * spread  # the comparison says something: a third of a standard deviation is seen


@pytest.mark.parametrize("name", FAMILIES)
def test_posterior_agrees_with_quadrature(name):
    """Two numbers for each of fourteen families, false positives 1e-7 for each: 3e-6 in all."""
    model, mean, variance = quadrature_case(name)
    tree = tb.sample(model, draws=4000, chains=2, seed=4, threads=1, progress=False)
    agrees(tree["posterior"]["beta"].values[..., 0], mean, variance)
    assert tree.attrs["bound_violations"] == 0


SMH = tb.kernels.ScalableMH
BY_KERNEL = [
    ("binomial", tb.kernels.Firefly()),
    ("binomial", tb.kernels.ZigZag()),
    ("binomial-probit", tb.kernels.ZigZag()),
    ("binomial-probit", SMH(1, tb.bounds.Global(), truncation=math.inf)),
    ("binomial-probit", SMH(2, tb.bounds.Local(6.0), truncation=math.inf)),
    ("binomial-cloglog", SMH(1, tb.bounds.Local(6.0), truncation=math.inf)),
    ("binomial-cloglog", SMH(3, tb.bounds.Local(6.0), truncation=math.inf)),
]


@pytest.mark.parametrize(("name", "kernel"), BY_KERNEL, ids=repr)
def test_grouped_trials_by_every_kernel(name, kernel):
    """Rows are thinned here, so bounds matter. Two numbers for each of seven, false positives 1e-7 for each."""
    model, mean, variance = quadrature_case(name)
    tree = tb.sample(model, kernel, draws=8000, chains=2, seed=5, threads=1, progress=False)
    agrees(tree["posterior"]["beta"].values[..., 0], mean, variance)
    assert tree.attrs["bound_violations"] == 0
    assert tree["sample_stats"]["rows_touched"].values.mean() > 0.02
    assert tree["sample_stats"]["full_pass"].values.mean() < 0.01


@pytest.mark.parametrize("name", FAMILIES)
def test_posterior_agrees_with_quadrature_closely(name):
    """The same with twenty thousand draws of four chains, and the errors that `tb.summary` states."""
    model, mean, variance = quadrature_case(name)
    table = tb.summary(tb.sample(model, draws=20_000, chains=4, seed=4, progress=False))
    # Two z-tests for each of fourteen families, each with a false-positive rate of 1e-7.
    assert abs(table["mean"].iloc[0] - mean) < 5.33 * table["mcse_mean"].iloc[0]
    relative = 1.0 / math.sqrt(2.0 * table["ess_tail"].iloc[0])
    assert abs(table["sd"].iloc[0] / math.sqrt(variance) - 1.0) < 5.33 * 1.5 * relative


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_are_repeated_rows(name):
    family, _, _, respond = FAMILIES[name]
    rng = np.random.default_rng(9)
    X = np.column_stack([np.ones(60), rng.standard_normal(60)])
    offset = 0.2 * rng.standard_normal(60)
    y = respond(rng, X @ [0.2, 0.4] + offset)
    repeats = rng.choice([0, 1, 3], 60)
    prior = tb.priors.Normal(0.1, 1.5)
    weighted = tb.Regression(X, y, family, prior, offset=offset, weights=repeats)
    again = [np.repeat(values, repeats, axis=0) for values in (X, y, offset)]
    repeated = tb.Regression(again[0], again[1], family, prior, offset=again[2])
    setups = [setup_of(model, threads=1) for model in (weighted, repeated)]
    # The search stops within 1e-8 standard deviations of the mode: one more Newton step squares that.
    modes = [setup.mode.theta - np.linalg.solve(setup.mode.hessian, setup.mode.gradient) for setup in setups]
    assert modes[0] == pytest.approx(modes[1], rel=1e-10)
    metric = setups[1].metric
    assert setups[0].metric.root == pytest.approx(metric.root, rel=1e-7)
    for order, bound in itertools.product(range(4), (tb.bounds.Local(4.0), tb.bounds.Global())):
        if bound == tb.bounds.Local(4.0) or math.isfinite(family.supremum(order + 1)):
            found = [bound.of_rows(model, metric, order, threads=1) for model in (weighted, repeated)]
            assert found[0].sums.total == pytest.approx(found[1].sums.total, rel=1e-10, abs=1e-300)
            assert found[0].drawing.psi.sum() == pytest.approx(found[1].sums.total, rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_binomial_is_bernoulli_in_groups(link):
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(50), rng.standard_normal(50)])
    trials = rng.integers(0, 6, 50)
    y = rng.binomial(trials, 0.4)
    single = np.concatenate([np.repeat([1.0, 0.0], [a, b - a]) for a, b in zip(y, trials, strict=True)])
    prior = tb.priors.Normal(0, 1)
    grouped = setup_of(
        tb.Regression(X, y, tb.families.Binomial(trials, link), prior, weights=np.full(50, 2.0)), threads=1
    )
    one_by_one = tb.Regression(
        np.repeat(X, trials, axis=0), single, tb.families.Bernoulli(link), prior, weights=2.0
    )
    wanted = setup_of(one_by_one, threads=1)
    # The search stops within 1e-8 standard deviations of the mode: one more Newton step squares that.
    modes = [s.mode.theta - np.linalg.solve(s.mode.hessian, s.mode.gradient) for s in (grouped, wanted)]
    assert modes[0] == pytest.approx(modes[1], rel=1e-10)
    exactly = 1e-10 if link == "logit" else 1e-7
    assert grouped.mode.theta == pytest.approx(wanted.mode.theta, rel=exactly)
    assert grouped.mode.hessian == pytest.approx(wanted.mode.hessian, rel=exactly)
    for order in range(4):
        radius = tb.bounds.Local(3.0)
        found, least = (
            radius.of_rows(s.model, wanted.metric, order, threads=1).sums.total for s in (grouped, wanted)
        )
        # The sum of the bounds of both classes, or less where the linear term of a logit is known.
        assert found <= least * (1 + 1e-9)


@pytest.mark.parametrize(
    ("trials", "message"),
    [
        ([1, 2, 3], "3 numbers of trials were given for 2 rows"),
        ([1, 2.5], "trials=2.5 in row 1 is not a whole number"),
        (-1, "trials=-1 is not a whole number"),
        (math.nan, "trials=nan is not"),
        ([[1, 2]], r"shape \(1, 2\)"),
        ("many", "dtype"),
        ([0, 0], "no row with a positive weight has any trials"),
    ],
)
def test_trials_that_cannot_be(trials, message):
    with pytest.raises(tb.errors.InputError, match=message):
        tb.Regression(np.ones((2, 1)), [0.0, 0.0], tb.families.Binomial(trials))


@pytest.mark.parametrize("family", [tb.families.Poisson(), tb.families.Bernoulli("cloglog")])
def test_unbounded_families_refuse_global_bounds(family):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((100, 2))
    model = tb.Regression(X, rng.binomial(1, 0.4, 100), family, tb.priors.Normal(0, 1))
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
        (tb.families.Bernoulli("probit"), 2.0),
        (tb.families.Bernoulli("cloglog"), 0.5),
        (tb.families.Binomial(3), 4.0),
        (tb.families.Binomial(3), 0.5),
        (tb.families.Binomial([1, 0]), 1.0),
        (tb.families.Binomial(3, "cloglog"), 4.0),
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
        (lambda: tb.families.Binomial(3, "log"), "Binomial: link='log' is not known; use one of 'logit'"),
        (lambda: tb.families.Bernoulli("log"), "link='log' is not known; use one of 'logit', 'probit', 'cloglog'"),
    ],
)
def test_bad_parameters(make, argument):
    with pytest.raises(tb.errors.InputError, match=argument):
        make()


@pytest.mark.parametrize(
    "family", [tb.families.Gaussian, tb.families.NegativeBinomial, tb.families.Gamma, tb.families.PseudoHuber]
)
@pytest.mark.parametrize("value", [[1.0, 2.0], "1", None, True, 0.0, -1.0, math.inf, math.nan])
def test_parameters_of_families_are_positive_numbers(family, value):
    if value is None and family is not tb.families.PseudoHuber:
        return  # unknown
    with pytest.raises(tb.errors.InputError, match="must be a positive, finite number"):
        family(value)
