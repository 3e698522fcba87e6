"""Families whose rows have several predictors: likelihoods, derivatives, remainders, bounds, posteriors, refusals."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import oracle
import tallbayes as tb
from tallbayes.families import amounts, dispersed, ordinal_probit
from tallbayes.models import passes
from tallbayes.models.predictors import Several

FLAT = tb.priors.Flat()


def _logistic(t):
    return 1 / (1 + mpmath.exp(-t))


def _inflated(y):
    def potential(eta, zeta):
        p, mean = _logistic(zeta), mpmath.exp(eta)
        return -mpmath.log(p + (1 - p) * mpmath.exp(-mean)) if y == 0 else -mpmath.log(1 - p) + mean - y * eta

    return potential


def _hurdle(y):
    def potential(eta, zeta):
        p, mean = _logistic(zeta), mpmath.exp(eta)
        return -mpmath.log(p) if y == 0 else -mpmath.log((1 - p) / (1 - mpmath.exp(-mean))) + mean - y * eta

    return potential


def _dispersed(y):
    def potential(eta, tau):
        f, mean = mpmath.exp(tau), mpmath.exp(eta)
        gammas = mpmath.loggamma(f) - mpmath.loggamma(y + f)
        return gammas - f * mpmath.log(f / (f + mean)) - y * mpmath.log(mean / (f + mean))

    return potential


def _amount(y):
    def potential(eta, tau):
        a, s = mpmath.exp(tau), eta - mpmath.log(y)
        return a * (s + mpmath.exp(-s)) + mpmath.loggamma(a) - a * tau

    return potential


def _ordered(y):
    def potential(a, b):
        return -mpmath.log((_logistic(a) if y < 3 else 1) - (_logistic(b) if y > 0 else 0))

    return potential


def _ordered_normal(y):
    def potential(a, b):
        return -mpmath.log((mpmath.ncdf(a) if y < 3 else 1) - (mpmath.ncdf(b) if y > 0 else 0))

    return potential


FAMILIES = {
    "inflated": (tb.families.ZeroInflatedPoisson(), _inflated, (0.0, 3.0), ((0.4, -0.6), (2.0, 0.9), (-2.0, -1.5))),
    "hurdle": (tb.families.HurdlePoisson(), _hurdle, (0.0, 1.0, 4.0), ((0.4, -0.6), (2.0, 0.9), (-2.5, -1.5))),
    "dispersed": (
        tb.families.NegativeBinomial(),
        _dispersed,
        (0.0, 1.0, 6.0),
        ((0.4, -0.6), (2.0, 1.5), (-1.0, 0.3)),
    ),
    "amounts": (tb.families.Gamma(), _amount, (1.0, 4.0), ((0.4, -0.6), (2.0, 1.5), (-1.0, 0.3), (0.1, 3.2))),
    "ordered": (tb.families.Ordinal(4), _ordered, (0.0, 1.0, 3.0), ((0.7, -0.6), (2.5, 2.1), (-0.5, -2.0))),
    "ordered-probit": (
        tb.families.Ordinal(4, "probit"),
        _ordered_normal,
        (0.0, 1.0, 3.0),
        ((0.7, -0.6), (2.5, 2.1), (-0.5, -2.0), (6.0, -1.0), (-4.0, -4.6)),
    ),
}
NAMES_AND_ROWS = [(name, y, at) for name, (_, _, ys, points) in FAMILIES.items() for y in ys for at in points]


@pytest.mark.parametrize(("name", "y", "at"), NAMES_AND_ROWS)
def test_rows_are_the_likelihood(name, y, at):
    """Derivatives up to order 3, and remainders of every order, against high precision."""
    family, potential = FAMILIES[name][:2]
    rows, exact = family.rows, potential(int(y))
    with mpmath.workdps(50):
        centre = [mpmath.mpf(part) for part in at]
        found = rows.jets(np.array([[y]]), np.array(at)[:, None], 3)[:, 0]
        wanted = [mpmath.diff(exact, centre, (m - b, b)) for m in range(1, 4) for b in range(m + 1)]
        np.testing.assert_allclose(found[1:], [float(w) for w in wanted], rtol=1e-11, atol=1e-11)
        shift = [part + 0.3 for part in at]
        other = rows.jets(np.array([[y]]), np.array(shift)[:, None], 0)[0, 0]
        change = exact(*(part + mpmath.mpf(0.3) for part in centre)) - exact(*centre)
        assert other - found[0] == pytest.approx(float(change), abs=1e-12)
        for order, size in itertools.product(range(4), (1e-6, 1e-3, 0.02, 0.3)):
            move = [mpmath.mpf(size * part) for part in (0.7, 0.4)]
            series = mpmath.taylor(lambda s, v=move: exact(centre[0] + s * v[0], centre[1] + s * v[1]), 0, order)
            left = float(exact(centre[0] + move[0], centre[1] + move[1]) - sum(series))
            given = np.array(at)[:, None], np.zeros((2, 1)), np.array([float(part) for part in move])[:, None]
            got = rows.remainders(np.array([[y]]), *given, order)
            own, _ = rows.rounding(np.array([y]), *(part[:, 0] for part in given), order)
            allowed = 1e-10 * abs(left) + (own if size > 0.01 else 1e-14 * size ** (order + 1))
            assert abs(got[1, 0] - got[0, 0] - left) <= allowed, (order, size)


@pytest.mark.parametrize("name", FAMILIES)
def test_jets_do_not_depend_on_the_rows_before(name):
    """What rows have in common, such as a shape, is found once: rows together are what each is by itself."""
    family, _, ys, points = FAMILIES[name]
    counts = (0.0, 1.0, 2.0, 63.0, 64.0, 65.0, 500.0) if name == "dispersed" else ys
    pairs = [(y, at) for at in points for y in counts] + [(y, at) for y in counts for at in points]
    responses, eta = np.array([[y] for y, _ in pairs]), np.array([at for _, at in pairs]).T.copy()
    for first, last in ((0, 0), (0, 2), (1, 2), (3, 3)):
        single = [
            family.rows.jets(responses[i : i + 1], eta[:, i : i + 1].copy(), last, first=first)
            for i in range(len(pairs))
        ]
        together = family.rows.jets(responses, eta, last, first=first)
        np.testing.assert_array_equal(together, np.concatenate(single, axis=1))


def along(rows, y, points, unit, m):
    """The m-th derivative along a move, at many points; of order 4 by differences of the third."""
    order = min(m, 3)

    def plain(shift):
        at = np.ascontiguousarray(points + shift * np.array(unit)[:, None])
        jets = rows.jets(np.full((points.shape[1], 1), y), at, order, first=order)
        return sum(math.comb(order, b) * jets[b] * unit[0] ** (order - b) * unit[1] ** b for b in range(order + 1))

    return plain(0.0) if m < 4 else (plain(1e-4) - plain(-1e-4)) / 2e-4


@pytest.mark.parametrize(("name", "m"), list(itertools.product(FAMILIES, [1, 2, 3, 4])))
def test_bounds_hold_and_are_reached(name, m):
    """Search a box for a derivative beyond its bound, along any move; in a tiny box one predictor reaches it."""
    family, _, ys, points = FAMILIES[name]
    rows, pairs = family.rows, family.rows.sums is not None
    s, t = (part.ravel() for part in np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 41)))
    for y, at, norms, radius in itertools.product(ys, points, ([0.3, 0.2], [0.02, 0.05], [0.1, 0.0]), (1e-3, 0.8)):
        lengths = [*norms, norms[0] + norms[1]] if pairs else norms
        given = np.array([[y]]), np.array(at)[:, None], np.array(lengths)[:, None]
        rise, fall, whole = rows.bounds(*given, radius, m)[:, 0]
        if not math.isfinite(whole):
            assert name.startswith("ordered")  # cut points could meet in the box
            continue
        assert max(rise, fall) <= whole * (1 + 1e-12)
        box = np.array([at[0] + s * radius * norms[0], at[1] + t * radius * norms[1]])
        units = [norms, [norms[0], -norms[1]], [0.6 * norms[0], 0.8 * norms[1]]]
        found = np.concatenate([along(rows, y, box, unit, m) for unit in units])
        slack = 1e-5 * whole + 1e-10
        assert np.max(found) <= (rise if m % 2 == 0 else whole) + slack
        assert -np.min(found) <= (fall if m % 2 == 0 else whole) + slack
        if norms[1] == 0.0 and radius < 0.01 and not pairs:
            assert np.max(np.abs(found)) >= 0.98 * whole - 1e-3 * norms[0] ** m


COUNTS = {
    "inflated": oracle.zero_inflated,
    "hurdle": oracle.hurdle,
    "dispersed": oracle.dispersed,
    "amounts": oracle.amount,
}


def brute_force(name, y, at, norms, radius, m, points):
    """Rise, fall and absolute value along unit moves, from the oracle's mixed derivatives on a grid over each box."""
    share = np.linspace(-1.0, 1.0, points)
    s, t = (part.ravel()[:, None] for part in np.meshgrid(share, share))
    grid = at[0] + s * radius * norms[0], at[1] + t * radius * norms[1]
    counts = np.broadcast_to(y, grid[0].shape)
    found = oracle.mixed_derivatives(COUNTS[name], counts, *grid, m).reshape(m + 1, -1, y.size)
    ends = [(np.maximum(part.max(axis=0), 0.0), np.maximum(-part.min(axis=0), 0.0)) for part in found]
    return oracle.along_moves(ends, norms)


def boxes(size, seed):
    """Random counts, points and lengths of lines, some of which are 0."""
    rng = np.random.default_rng(seed)
    y = rng.choice([0.0, 0.0, 1.0, 2.0, 3.0, 7.0, 12.0], size)
    at = np.stack([0.3 + 1.2 * rng.standard_normal(size), 1.2 * rng.standard_normal(size)])
    norms = np.exp(rng.uniform(math.log(0.02), math.log(0.6), (2, size)))
    norms[rng.integers(0, 2, size), np.arange(size)] *= rng.choice([0.0, 1.0], size, p=[0.4, 0.6])
    return y, at, norms


def search(name, m, size, points, *less):
    """Whether bounds, times each `less`, are right in boxes that are nearly points, and hold in larger ones.

    In a point they are the derivatives themselves; interval arithmetic may be wider by the size of the box, here 1e-7,
    times that of its terms. Larger boxes are searched in extended precision.
    """
    rows, (y, at, norms) = FAMILIES[name][0].rows, boxes(size, seed=m)
    y = y + 0.4 if name == "amounts" else y

    def bounds(radius):
        return rows.bounds(np.ascontiguousarray(y[:, None]), at, norms, radius, m)

    exact = brute_force(name, y, at, norms, 1e-7, m, 2)
    allowed = 1e-4 * np.max(exact, axis=0) + 1e-5 * (1.0 + y) * np.sum(norms, axis=0) ** m
    larger = [(brute_force(name, y, at, norms, radius, m, points), bounds(radius)) for radius in (0.003, 1.0)]
    return verdicts(less, (exact, bounds(1e-7), allowed), larger)


def verdicts(less, point, larger):
    """For each factor `less` of the bounds: whether they are precise in a point, and hold in larger boxes."""
    exact, bound, allowed = point
    return [
        (
            bool(np.all(np.abs(factor * bound - exact) <= allowed)),
            all(np.all(found <= factor * wide * (1 + 1e-9) + 1e-12) for found, wide in larger),
        )
        for factor in less
    ]


@pytest.mark.parametrize(("name", "m"), list(itertools.product(COUNTS, [1, 2, 3, 4])))
def test_no_box_breaks_a_bound(name, m):
    """Random counts, points and boxes; both parts of the search would notice bounds that are 1 % too small."""
    assert search(name, m, 150, 7, 1.0, 0.99) == [(True, True), (False, False)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "m"), list(itertools.product(COUNTS, [1, 2, 3, 4])))
def test_no_box_breaks_a_bound_long(name, m):
    assert search(name, m, 1000, 15, 1.0) == [(True, True)]


def search_levels(m, size, points, *less):
    """The same for a level between two cut points with a probit link, in the coordinates that its bounds are made in.

    These are its width h and the point c that is at the level's mean in the centre of the box.
    """
    rng = np.random.default_rng(20 + m)
    b, h = 1.2 * rng.standard_normal(size), np.exp(rng.uniform(math.log(0.2), math.log(3.0), size))
    mean = stats.truncnorm.mean(b, b + h)
    share = (mean - b) / h
    norms = np.exp(rng.uniform(math.log(0.02), math.log(0.3), (2, size)))
    norms[1] = np.minimum(norms[1], 0.4 * h) * rng.choice([0.0, 1.0], size, p=[0.3, 0.7])

    def potential(y, c, width):
        return oracle.ordinal_probit(y, c + width * (1 - share), c - width * share, 3)

    def found(radius, points):
        grid = [np.linspace(-1.0, 1.0, points) * radius] * 2
        shape = (m + 1, size)
        every = [
            oracle.mixed_derivatives(potential, 1.0, mean + s * norms[0], h + t * norms[1], m).reshape(shape)
            for s, t in itertools.product(*grid)
        ]
        ends = zip(np.max(every, axis=0), -np.min(every, axis=0), strict=True)
        return oracle.along_moves([(np.maximum(up, 0.0), np.maximum(down, 0.0)) for up, down in ends], norms)

    def bounds(radius):
        lengths = np.stack([norms[0], norms[0], norms[1]])
        rows = tb.families.Ordinal(3, "probit").rows
        return rows.bounds(np.ones((size, 1)), np.stack([b + h, b]), lengths, radius, m)

    exact = found(1e-7, 2)
    allowed = 1e-4 * np.max(exact, axis=0) + 1e-5 * (norms[0] + norms[1] / h) ** m
    larger = [(found(radius, points), bounds(radius)) for radius in (0.003, 1.0)]
    return verdicts(less, (exact, bounds(1e-7), allowed), larger)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_no_box_of_a_level_breaks_a_bound(m):
    assert search_levels(m, 100, 5, 1.0, 0.99) == [(True, True), (False, False)]


@pytest.mark.parametrize(("b", "h"), [(-0.5, 1.0), (-1.5, 3.0), (0.4, 0.3), (2.0, 2.5), (-4.0, 1.0)])
def test_moments_lie_in_their_ranges(b, h):
    """Moments of w at many points of a box, the anchor's share of the level being that of the centre."""
    parts, low, high = np.empty((2, 9)), np.empty(11), np.empty(11)
    mean = float(stats.truncnorm.mean(b, b + h))
    share = (mean - b) / h
    for wide, turn in ((0.3, 0.0), (0.0, 0.4 * h), (0.2, 0.2 * h)):
        ordinal_probit.put_ranges(b + h, b, share, wide, turn, low, high)
        for s, t in itertools.product(np.linspace(-1, 1, 9), repeat=2):
            width = h + t * turn
            ordinal_probit.put_parts(mean + s * wide, share * width, (1 - share) * width, parts)
            moments = [parts[0, j] + (-1) ** j * parts[1, j] for j in range(1, 9)]
            assert np.all(low[3:] <= np.array(moments) + 1e-14)
            assert np.all(moments <= high[3:] + 1e-14)


def size_sums(y, f):
    """Sums of (j / (f + j))^k over j < y, k = 1 to 4, from polygamma functions in many digits."""
    above, found = mpmath.mpf(f), []
    parts = [mpmath.mpf(y), mpmath.digamma(above + y) - mpmath.digamma(above)]
    for i in (1, 2, 3):
        change = mpmath.polygamma(i, above) - mpmath.polygamma(i, above + y)
        parts.append((-1) ** (i + 1) * change / mpmath.factorial(i))
    for k in range(1, 5):
        found.append(sum(math.comb(k, i) * (-above) ** i * parts[i] for i in range(k + 1)))
    return found


@pytest.mark.parametrize("y", [2, 64, 65, 66, 1000, 10**6, 10**9, 10**15])
def test_sums_of_large_counts(y):
    """A count of a thousand million is as accurate as one of two, and no pass takes longer for it."""
    sums = np.empty(4)
    with mpmath.workdps(150):
        for f in (1e-8, 0.3, 1.0, 7.0, 50.0, 300.0, 1e4, 1e8, 1e12):
            dispersed.put_sums(float(y), f, sums)
            for k, exact in enumerate(size_sums(y, f)):
                assert abs(sums[k] / exact - 1) < 2e-14, (f, k)
            whole = mpmath.loggamma(mpmath.mpf(f) + y) - mpmath.loggamma(mpmath.mpf(f) + 1) - mpmath.loggamma(y)
            assert abs(dispersed.log_sum(float(y), f) / whole - 1) < 4e-15


def test_large_counts_are_sampled():
    """Counts around 1e9 with size 3: six posterior standard deviations (2e-9 each)."""
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(2000), rng.standard_normal(2000)])
    y = np.round(np.exp(X @ [20.0, 0.5]) * rng.gamma(3.0, 1 / 3.0, 2000))
    model = tb.Regression(X, y, tb.families.NegativeBinomial(), tb.priors.Normal(0, 50))
    tree = tb.sample(model, draws=500, chains=2, seed=1, progress=False)
    table = tb.summary(tree)
    assert np.all(np.abs(table["mean"] - [20.0, 0.5, 3.0]) < 6 * table["sd"])
    assert tree.attrs["bound_violations"] == 0


def test_binets_function():
    """With four derivatives, times powers of the shape, for any shape."""
    found = np.empty(5)
    with mpmath.workdps(80):
        for a in (1e-300, 1e-9, 1e-3, 0.2, 0.999, 1.0, 1.7, 4.2, 11.99, 12.0, 80.0, 1e5, 1e12):
            amounts.put_binet(a, found)
            x = mpmath.mpf(a)
            value = mpmath.loggamma(x) - (x - 0.5) * mpmath.log(x) + x - mpmath.log(2 * mpmath.pi) / 2
            slopes = [
                mpmath.digamma(x) - mpmath.log(x) + 1 / (2 * x),
                mpmath.polygamma(1, x) - 1 / x - 1 / (2 * x**2),
            ]
            slopes += [mpmath.polygamma(2, x) + 1 / x**2 + 1 / x**3, mpmath.polygamma(3, x) - 2 / x**3 - 3 / x**4]
            for m, exact in enumerate([value, *slopes]):
                assert abs(found[m] / ((-x) ** m * exact) - 1) < 1e-13 if m or exact > 1e-3 else True, (a, m)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_softmax_is_the_likelihood(classes):
    rng, rows = np.random.default_rng(classes), tb.families.Categorical(classes).rows
    q = classes - 1
    for y in range(classes):
        eta = rng.standard_normal(q)

        def value(x, y=y):
            return math.log(1.0 + np.sum(np.exp(x))) - (x[y - 1] if y else 0.0)

        jets = rows.jets(np.array([[float(y)]]), eta[:, None], 3)[:, 0]
        assert jets[0] == pytest.approx(value(eta), rel=1e-13)
        h = 1e-5
        for j in range(q):
            step = h * np.eye(q)[j]
            assert jets[1 + j] == pytest.approx((value(eta + step) - value(eta - step)) / (2 * h), abs=1e-9)
            ends = [rows.jets(np.array([[float(y)]]), (eta + sign * step)[:, None], 3)[:, 0] for sign in (1, -1)]
            slope = (ends[0] - ends[1]) / (2 * h)
            at, third = 1 + q, 1 + q + q * (q + 1) // 2
            for k in range(j + 1):
                assert jets[at + j * (j + 1) // 2 + k] == pytest.approx(slope[1 + k], abs=1e-8)
            for k, l in itertools.combinations_with_replacement(range(j, -1, -1), 2):
                place = third + j * (j + 1) * (j + 2) // 6 + k * (k + 1) // 2 + l
                assert jets[place] == pytest.approx(slope[at + k * (k + 1) // 2 + l], abs=1e-8)


def test_cumulants_on_an_interval():
    """No distribution on [0, 1] that a search finds has cumulants beyond the bounds; two points reach them."""
    rng = np.random.default_rng(4)
    best = np.zeros(4)
    for _ in range(20_000):
        size = int(rng.integers(2, 5))
        x, p = rng.random(size) ** rng.choice([0.2, 1.0, 3.0]), rng.dirichlet(np.full(size, rng.choice([0.3, 1.0])))
        x[:2] = [0.0, 1.0] if rng.random() < 0.7 else x[:2]
        c = x - p @ x
        second, third, fourth = (p @ c**k for k in (2, 3, 4))
        best = np.maximum(best, [second, abs(third), fourth - 3 * second**2, 3 * second**2 - fourth])
    limits = np.array([1 / 4, 1 / (6 * math.sqrt(3)), 1 / 12, 1 / 8])
    assert np.all(best <= limits)
    assert np.all(best[[0, 1, 3]] > 0.95 * limits[[0, 1, 3]])


def test_passes_of_cut_points_are_those_of_their_lines():
    rng = np.random.default_rng(9)
    n, p, levels = 40, 2, 4
    X, y = rng.standard_normal((n, p)), rng.integers(0, levels, n).astype(float)
    model = tb.Regression(X, y, tb.families.Ordinal(levels), offset=0.1 * rng.standard_normal(n))
    assert isinstance(model.predictors, Several)
    block, d = model.source.whole.converted(), model.d
    lines = np.zeros((n, 2, d))
    for i, level in enumerate(y.astype(int)):
        for j, cut in enumerate((level, level - 1)):
            if 0 <= cut < levels - 1:
                lines[i, j, :p], lines[i, j, p + cut] = -X[i], 1.0
    theta = np.array([0.3, -0.2, -1.0, 0.1, 1.2])
    eta = np.einsum("nqd,d->qn", lines, theta) - block.offset * np.any(lines != 0.0, axis=2).T
    np.testing.assert_allclose(model.predictors.at(block, theta), eta, atol=1e-13)
    jets = model.rows.jets(block.responses, np.ascontiguousarray(eta), 3)
    _, gradient, hessian = passes.derivatives(block, model.rows, model.predictors, theta)
    np.testing.assert_allclose(gradient, np.einsum("qn,nqd->d", jets[1:3], lines), atol=1e-11)
    second = np.array([[jets[3], jets[4]], [jets[4], jets[5]]])
    np.testing.assert_allclose(hessian, np.einsum("qrn,nqd,nre->de", second, lines, lines), atol=1e-10)
    inverse = np.linalg.inv(np.linalg.cholesky(np.eye(d) * 4.0 + 0.5))
    white = lines @ inverse.T
    apart = np.linalg.norm(white[:, 0] - white[:, 1], axis=1)
    np.testing.assert_allclose(model.predictors.norms(block, inverse, model.rows.sums)[2], apart, rtol=1e-12)
    third = np.array([[[jets[6 + a + b + c] for c in (0, 1)] for b in (0, 1)] for a in (0, 1)])
    wanted = np.einsum("qrsn,nqa,nrb,nsc->abc", third, white, white, white)
    found = model.predictors.packed_third(
        passes.third_derivatives(block, model.rows, model.predictors, theta, inverse), inverse
    )
    entries = [wanted[a, b, c] for a in range(d) for b in range(a + 1) for c in range(b + 1)]
    np.testing.assert_allclose(found, entries, atol=1e-10)


def test_posteriors_of_intercepts_are_those_of_quadrature():
    """Draws of models with two parameters against a grid: means and sds, six standard errors (2e-9 each)."""
    rng = np.random.default_rng(12)
    ones, counts = np.ones((60, 1)), np.where(rng.random(60) < 0.3, 0, rng.poisson(2.0, 60)).astype(float)
    models = {
        "zero_logit": tb.Regression(ones, counts, tb.families.ZeroInflatedPoisson(tb.priors.Normal(0, 2)), FLAT),
        "shape": tb.Regression(ones, counts + 0.3, tb.families.Gamma(tb.priors.LogNormal(0.5, 1.0)), FLAT),
        "size": tb.Regression(ones, counts, tb.families.NegativeBinomial(tb.priors.LogNormal(0.5, 1.0)), FLAT),
        "scale": tb.Regression(ones, counts, tb.families.StudentT(4.0, tb.priors.HalfNormal(3.0)), FLAT),
    }
    for name, model in models.items():
        tree = tb.sample(model, draws=4000, chains=2, seed=3, progress=False)
        first = np.asarray(tree["posterior"]["beta"]).ravel()
        second = np.asarray(tree["posterior"][name]).ravel()
        theta = [first, np.log(second) if name in ("size", "scale", "shape") else second]
        grids = [np.linspace(part.mean() - 9 * part.std(), part.mean() + 9 * part.std(), 121) for part in theta]
        values = np.zeros((121, 121))
        mesh = np.stack([part.ravel() for part in np.meshgrid(*grids, indexing="ij")])
        for count, times in zip(*np.unique(model.source.responses, return_counts=True), strict=True):
            found = model.rows.jets(np.full((mesh.shape[1], 1), count), mesh, 0)[0]
            values += times * found.reshape(values.shape)
        values += np.array([model.coefficient_priors.stand_in(np.array([0.0, t]))[0] for t in grids[1]])
        density = np.exp(values.min() - values)
        density /= density.sum()
        table = tb.summary(tree)
        for axis, (draws, grid) in enumerate(zip(theta, grids, strict=True)):
            marginal = density.sum(axis=1 - axis)
            mean = marginal @ grid
            sd = math.sqrt(marginal @ (grid - mean) ** 2)
            error = sd / math.sqrt(float(table["ess_bulk"].min()))
            assert abs(draws.mean() - mean) < 6 * error, name
            assert abs(draws.std() - sd) < 6 * error, name
        assert tree.attrs["bound_violations"] == 0


def test_what_is_expected_and_drawn_agree():
    """Means of many draws, five standard errors (6e-7 each)."""
    rng = np.random.default_rng(13)
    size = 40_000
    for family in (tb.families.ZeroInflatedPoisson(), tb.families.HurdlePoisson()):
        eta = np.array([[0.7], [-0.4]]) * np.ones((2, size))
        draws = family.draw(rng, eta)
        assert abs(draws.mean() - family.expected(eta)[0]) < 5 * draws.std() / math.sqrt(size)
    for family, eta in (
        (tb.families.Categorical(3), np.array([[0.5], [-0.3]])),
        (tb.families.Ordinal(3), np.array([[-0.5], [0.9]])),
        (tb.families.Ordinal(3, "probit"), np.array([[-0.5], [0.9]])),
    ):
        shares = family.expected(eta * np.ones((2, size)))
        assert np.allclose(shares.sum(axis=0), 1.0)
        found = np.bincount(family.draw(rng, eta * np.ones((2, size))).astype(int), minlength=3)
        assert stats.chisquare(found, size * shares[:, 0]).pvalue > 1e-6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X, y: tb.families.Categorical(1), "expected a number of 2 or more"),
        (lambda X, y: tb.families.Categorical(["a", "a"]), "expected a number of 2 or more"),
        (lambda X, y: tb.families.Ordinal(2), "expected a number of 3 or more"),
        (lambda X, y: tb.families.Ordinal(3, "cloglog"), "expected 'logit' or 'probit'"),
        (lambda X, y: tb.Regression(X, y, tb.families.Gamma()), "positive numbers"),
        (lambda X, y: tb.Regression(X, y + 1.0, tb.families.Gamma(), scale_design=X), "has no scale"),
        (lambda X, y: tb.Regression(X, y + 0.5, tb.families.Categorical(3)), "whole numbers from 0 to 2"),
        (lambda X, y: tb.Regression(X, y + 5.0, tb.families.Ordinal(4)), "from 0 to 3, .*subtract 1"),
        (
            lambda X, y: tb.Regression(X, 2 * y, tb.families.Ordinal()),
            "are 0, 2, 4; expected 0, 1, 2, .* without a gap",
        ),
        (lambda X, y: tb.Regression(X, y + 1.0, tb.families.Ordinal()), "are 1, 2, 3; expected .* Subtract 1, or"),
        (lambda X, y: tb.Regression(X, y + 1.0, tb.families.Ordinal(3)), "Subtract 1, or"),
        (lambda X, y: tb.Regression(X, y - 1.0, tb.families.Ordinal(list("abc"))), "Add 1, or"),
        (lambda X, y: tb.Regression(X, 10 * y + 10, tb.families.Ordinal()), "10, 20, 30; .* return_inverse=True"),
        (lambda X, y: tb.Regression(X, y, tb.families.Ordinal(4)), "no response has level 3 of 4, .* Merge it"),
        (
            lambda X, y: tb.Regression(X, y, tb.families.Ordinal(list("abcd"))),
            r"no response has level 3 \('d'\) of 4",
        ),
        (lambda X, y: tb.Regression(X, y + 1.0, tb.families.Ordinal(4)), "level 0 of 4, .* or subtract 1"),
        (lambda X, y: tb.Regression(X, y > 0.0, tb.families.Ordinal()), "are 0 and 1; expected three .*Bernoulli"),
        (
            lambda X, y: tb.Regression(X, y, tb.families.Categorical(3), offset=y + 1.0),
            "no predictor that it belongs to",
        ),
        (lambda X, y: tb.Regression(X, y, tb.families.Poisson(), scale_design=X), "has no scale"),
        (lambda X, y: tb.Regression(X, y, tb.families.Gaussian(1.0), scale_design=X), "whose scale is known"),
        (lambda X, y: tb.Regression(X, y, tb.families.Gaussian(), scale_design=X[:5]), "5 rows were given"),
        (
            lambda X, y: tb.Regression(X, y, tb.families.Gaussian(tb.priors.HalfNormal(1)), scale_design=X),
            "prior of the coefficients of the log scale",
        ),
        (lambda X, y: tb.Regression(X, y, tb.families.ZeroInflatedPoisson(3)), "expected a prior such as"),
        (lambda X, y: tb.Regression(X, np.where(y > 1, np.nan, y), tb.families.Categorical()), "row 2 is nan"),
        (lambda X, y: tb.Regression(X, np.where(y > 1, np.nan, y), tb.families.Ordinal()), "row 2 is nan"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 2)), (np.arange(30) % 3).astype(float)
    with pytest.raises(tb.errors.InputError, match=words):
        make(X, y)


ENDLESS = {
    "size": (tb.families.NegativeBinomial(tb.priors.Flat()), None),
    "zero_logit": (tb.families.ZeroInflatedPoisson(tb.priors.Flat()), None),
    "zero_logit up to a number": (tb.families.ZeroInflatedPoisson(tb.priors.Uniform(-np.inf, 3.0)), None),
    "zero_logit_beta": (tb.families.ZeroInflatedPoisson(tb.priors.Flat()), np.ones((30, 1))),
}


@pytest.mark.parametrize("which", ENDLESS)
def test_no_posterior_is_made_of_a_limit_that_data_never_rule_out(which):
    family, design = ENDLESS[which]
    X, y = np.random.default_rng(2).standard_normal((30, 2)), (np.arange(30) % 3).astype(float)
    with pytest.raises(tb.errors.NoModeError, match=r"counts are Poisson, .* the posterior does not exist"):
        tb.Regression(X, y, family, scale_design=design)


def test_what_data_do_rule_out_may_be_flat():
    X, y = np.random.default_rng(2).standard_normal((30, 2)), (np.arange(30) % 3).astype(float)
    for family, design in (
        (tb.families.HurdlePoisson(tb.priors.Flat()), None),
        (tb.families.ZeroInflatedPoisson(tb.priors.Uniform(-8.0, np.inf)), None),
        (tb.families.ZeroInflatedPoisson(tb.priors.Flat()), X[:, :1]),
    ):
        assert tb.Regression(X, y, family, scale_design=design).d > 2


def test_classes_and_levels_are_named():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((30, 2)), (np.arange(30) % 3).astype(float)
    assert tb.Regression(X, y, tb.families.Categorical()).names == ["1: x0", "1: x1", "2: x0", "2: x1"]
    named = tb.Regression(X, y, tb.families.Categorical(["red", "green", "blue"]), names=["a", "b"])
    assert named.names == ["green: a", "green: b", "blue: a", "blue: b"]
    levels = tb.Regression(X, y, tb.families.Ordinal(["low", "middle", "high"]))
    assert levels.names == ["x0", "x1", "cut[low|middle]", "cut[middle|high]"]
    assert levels.outputs[1].labels == ("low|middle", "middle|high")


def test_a_constant_beside_cut_points_needs_a_prior():
    rng = np.random.default_rng(3)
    X, y = np.column_stack([np.full(30, 2.0), rng.standard_normal(30)]), (np.arange(30) % 3).astype(float)
    ordinal, normal = tb.families.Ordinal(), tb.priors.Normal(0, 1)
    for prior in (None, tb.priors.Flat(), {"x1": normal}, [None, normal], {"x0": tb.priors.Flat()}):
        with pytest.raises(
            tb.errors.InputError, match=r"column 'x0' is 2 in every row; Ordinal has cut .* Drop the"
        ):
            tb.Regression(X, y, ordinal, prior)
    for prior in (normal, {"x0": normal}, [normal, None]):
        assert tb.Regression(X, y, ordinal, prior).d == 4
    assert tb.Regression(X, y, tb.families.Categorical()).d == 4
