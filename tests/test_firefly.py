"""Firefly: its bounds, its marks, its chain, and what it refuses."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import oracle
import rivals
import tallbayes as tb
from problems import CASES, empty_draws, run, stream
from tallbayes.errors import InputError
from tallbayes.families.curve import jet, potential
from tallbayes.kernels.brightness import parabola_curvature, row_excess, sweep
from tallbayes.kernels.firefly import SLOPES
from tallbayes.surrogate.bounds import shift
from tallbayes.surrogate.exact_prior import evaluate_exact
from tallbayes.surrogate.polynomial import evaluate

FAMILIES = {
    "logistic": tb.families.Bernoulli(),
    "student-1.5": tb.families.StudentT(df=1.5, scale=1.0),
    "student-5": tb.families.StudentT(df=5.0, scale=0.7),
    "pseudo-huber": tb.families.PseudoHuber(delta=1.3),
    "gaussian": tb.families.Gaussian(scale=2.0),
    "negative-binomial": tb.families.NegativeBinomial(size=2.0),
}


def relative_excess(family, point, curvature=1.0):
    """(q - g) as a share of the parabola's own rise, at a tangent point and a step."""
    curve, slope = family.curve, SLOPES[type(family.curve)]
    t, delta = point
    kappa = curvature * parabola_curvature(curve, t, slope, 0)
    rise = 0.5 * kappa * delta * delta
    return (potential(curve, t, 0) + jet(curve, t, 0)[0] * delta + rise - potential(curve, t + delta, 0)) / rise


def lowest(family, curvature=1.0):
    """Return the least relative excess that a search from many starts finds; short steps would be rounding."""
    rng = np.random.default_rng(1)
    best = math.inf
    for _ in range(60):
        start = rng.choice([0.3, 3.0, 30.0]) * rng.standard_normal(2)

        def at(point):
            return relative_excess(family, point, curvature) if 1e-3 < abs(point[1]) < 1e4 else 1.0

        best = min(best, minimize(at, start, method="Nelder-Mead", options={"maxfev": 150}).fun)
    return best


@pytest.mark.parametrize("name", FAMILIES)
def test_parabola_lies_above_and_touches(name):
    family = FAMILIES[name]
    assert lowest(family) > -1e-9
    # It touches at the mirror image as well, so no flatter parabola would do: the search finds that out.
    assert lowest(family, curvature=0.999) < -5e-4
    for t in (-3.0, 0.1, 2.0):
        assert abs(relative_excess(family, (t, -2.0 * t))) < 1e-9
    slope, curve = SLOPES[type(family.curve)], family.curve
    for t in (-3.0, -1e-9, 0.0, 1e-7, 0.1, 2.0):
        # Near zero the quotient is a mean of second derivatives: no digits are lost.
        wanted = (jet(curve, t, 0)[0] - slope) / t if abs(t) > 1e-3 else jet(curve, 0.0, 0)[1]
        assert parabola_curvature(curve, t, slope, 0) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_excess_is_the_definition(case):
    prepared, problem = rivals.side(case, tb.kernels.Firefly())
    target, d = prepared.target, problem.centre.size
    points = np.random.default_rng(2).standard_normal((20, d)) * np.linspace(0.1, 4.0, 20)[:, None]
    wanted = np.float64(rivals.excesses(problem, problem.theta(points)))
    assert np.all(wanted >= -1e-16)
    for z, row in zip(points, wanted, strict=True):
        move = np.empty(d)
        shift(target.whitening, z, move)
        X, y, weight, _ = target.rows
        found = [row_excess(target.curve, X, y, weight, target.tangents, i, move) for i in range(problem.n)]
        np.testing.assert_allclose([e for e, _ in found], row, rtol=1e-9, atol=1e-13)
        assert not any(broken for _, broken in found)


@pytest.mark.parametrize("case", CASES)
def test_marks_summed_out_leave_the_posterior(case):
    """The joint density from the kernel's own parts, over all sets of marks, is the posterior."""
    prepared, problem = rivals.side(case, tb.kernels.Firefly(proposal=tb.proposals.PreconditionedWalk(1.0)))
    target, d = prepared.target, problem.centre.size
    X, y, weight, _ = target.rows
    points = np.vstack([np.zeros(d), np.random.default_rng(3).standard_normal((30, d)) * 2.0])
    log_sums = []
    for z in points:
        move = np.empty(d)
        shift(target.whitening, z, move)
        e = np.array(
            [row_excess(target.curve, X, y, weight, target.tangents, i, move)[0] for i in range(problem.n)]
        )
        few = min(problem.n, 8)
        # All 2^8 sets of the first rows by enumeration; the other rows one by one.
        marks = np.array(list(itertools.product([0, 1], repeat=few)))
        some = np.log(np.sum(np.prod(np.where(marks == 1, np.expm1(e[:few]), 1.0), axis=1)))
        value = evaluate(target.collapsed, z) + evaluate_exact(target.exact, z)
        log_sums.append(-value + some + np.sum(np.log1p(np.expm1(e[few:]))))
    wanted = -np.float64(problem.potential(problem.theta(points)))
    found = np.array(log_sums)
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=0, atol=1e-9)


def transition(e, q_db):
    """Each row's own transition matrix of a sweep, from dark (0) and bright (1)."""
    up, down = q_db * min(1.0, math.expm1(e) / q_db), min(1.0, q_db / math.expm1(e))
    return np.array([[1 - up, up], [down, 1 - down]])


@pytest.mark.parametrize("q_db", [0.15, 1.0])
def test_sweep_against_enumeration(q_db):
    """From every set of marks of four rows, where a sweep leads. False positives: 1e-7 for each q_db."""
    prepared, _ = rivals.side("student-normal", tb.kernels.Firefly(), by=2.5)
    X, y, weight, _ = prepared.target.rows
    move = np.array([-1.1])
    all_e = np.array(
        [row_excess(prepared.target.curve, X, y, weight, prepared.target.tangents, i, move)[0] for i in range(30)]
    )
    chosen = np.argsort(np.abs(np.log(np.expm1(all_e) / q_db)))[:4]  # neither always dark nor always bright
    e = all_e[chosen]
    X, y, tangents = X[chosen].copy(), y[chosen].copy(), prepared.target.tangents[chosen].copy()
    marks = list(itertools.product([0, 1], repeat=4))
    matrices = [transition(value, q_db) for value in e]
    T = np.array(
        [[np.prod([m[a, b] for m, a, b in zip(matrices, old, new, strict=True)]) for new in marks] for old in marks]
    )
    stationary = np.array(
        [np.prod([math.expm1(v) if b else 1.0 for v, b in zip(e, m, strict=True)]) for m in marks]
    )
    np.testing.assert_allclose(stationary[:, None] * T, (stationary[:, None] * T).T, rtol=1e-12)
    rng, repeats = stream(4), 1500
    counts = np.zeros((16, 16))
    for a, old in enumerate(marks):
        rows = sorted(range(4), key=lambda i: -old[i])
        for _ in range(repeats):
            order, excess = np.array(rows), e[rows].copy()
            bright, excess, looked, broken = sweep(
                prepared.target.curve, X, y, weight, tangents, q_db, move, order, sum(old), excess, rng
            )
            new = np.zeros(4, dtype=int)
            new[order[:bright]] = 1
            counts[a, marks.index(tuple(new))] += 1
            np.testing.assert_allclose(excess[:bright], e[order[:bright]], rtol=1e-12)
            assert sorted(order) == [0, 1, 2, 3]
            assert looked <= 4 - sum(old)
            assert broken == 0
    expected = repeats * T
    likely = expected > 5.0
    assert np.all(counts[expected == 0.0] == 0.0)
    score = np.sum((counts[likely] - expected[likely]) ** 2 / expected[likely])
    assert score < stats.chi2.isf(1e-7, np.count_nonzero(likely))
    assert np.count_nonzero(likely) > 60


REPLAYS = [
    ("logistic-normal", 0.15, tb.proposals.PreconditionedWalk(0.7), oracle.preconditioned_walk, (0.7,)),
    ("student-flat", 0.4, tb.proposals.CrankNicolson(0.5), oracle.crank_nicolson, (0.5,)),
    ("logistic-flat", 0.02, tb.proposals.FirstOrderReversible(1.7), oracle.first_order_reversible, (1.7,)),
]


@pytest.mark.parametrize("replay", REPLAYS, ids=lambda r: r[0])
def test_compiled_chain_is_the_plain_one(replay):
    case, q_db, move, density, arguments = replay
    prepared, problem = rivals.side(case, tb.kernels.Firefly(q_db=q_db, proposal=move))
    start = 0.5 * np.random.default_rng(5).standard_normal(problem.centre.size)
    rng = stream(5)
    state = prepared.initial_state(prepared.target, start, rng)
    state, draws = run(prepared, state, rng, 1500)
    expected = rivals.firefly(problem, density(problem, *arguments), q_db, start, stream(5), 1500)
    np.testing.assert_array_equal(draws.accepted, expected.accepted)
    np.testing.assert_array_equal(draws.rows_touched, expected.rows_touched)
    np.testing.assert_allclose(draws.z, expected.z, rtol=0, atol=1e-11)
    assert state.violations == 0
    assert 0.02 < np.mean(draws.accepted) < 0.98
    assert np.std(draws.rows_touched) > 0.5


def test_broken_bound_is_noticed():
    prepared, _ = rivals.side("student-flat", tb.kernels.Firefly(q_db=0.5))
    tangents = prepared.target.tangents.copy()
    tangents[:, 1] *= 0.9
    target = prepared.target._replace(tangents=tangents)
    rng = stream(6)
    state = prepared.initial_state(target, np.zeros(3), rng)
    state, _ = prepared.run_chunk(target, prepared.proposal, state, rng, empty_draws(500, 3), 2**62)
    assert state.violations > 0


@pytest.mark.parametrize("case", ["logistic-normal", "student-flat"])
def test_where_a_chunk_ends_changes_nothing(case):
    prepared, problem = rivals.side(case, tb.kernels.Firefly())
    d, chunks = problem.centre.size, np.random.default_rng(7)

    def begin():
        rng = stream(7)
        return rng, prepared.initial_state(prepared.target, np.zeros(d), rng)

    rng, state = begin()
    _, whole = run(prepared, state, rng, 300)
    rng, state = begin()
    parts, left = [], 300
    while left:
        room = empty_draws(min(left, int(chunks.integers(1, 20))), d)
        state, done = prepared.run_chunk(
            prepared.target, prepared.proposal, state, rng, room, int(chunks.integers(1, 60))
        )
        parts.append([field[:done] for field in room])
        left -= done
    for field in range(4):
        np.testing.assert_array_equal(np.concatenate([part[field] for part in parts]), whole[field])


def test_tables_grow_with_the_bright_set():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((3000, 2))
    y = X @ [1.0, -1.0] + rng.standard_normal(3000)
    model = tb.Regression(X, y, tb.families.StudentT(df=4.0), tb.priors.Flat())
    prepared = tb.kernels.Firefly(q_db=0.9).prepare(model, threads=1)
    numbers = stream(8)
    near = prepared.initial_state(prepared.target, np.zeros(2), numbers)
    assert near.bright == 0
    # At the mode every row is dark; from a point far away, thousands turn bright in the first sweep.
    state, _ = run(prepared, near._replace(z=np.array([60.0, 60.0])), numbers, 1)
    move = np.empty(2)
    shift(prepared.target.whitening, state.z, move)
    rows = prepared.target.rows
    e = [
        row_excess(prepared.target.curve, rows.X, rows.y, rows.weight, prepared.target.tangents, int(i), move)[0]
        for i in state.order[: state.bright]
    ]
    assert state.bright > 1000
    np.testing.assert_array_equal(state.excess[: state.bright], e)
    assert sorted(state.order) == list(range(3000))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.kernels.Firefly(q_db=0.0), r"q_db=0\.0 must satisfy 0 < q_db <= 1"),
        (lambda: tb.kernels.Firefly(q_db=1.5), r"q_db=1\.5"),
        (lambda: tb.kernels.Firefly(q_db=True), "q_db=True"),
        (lambda: tb.kernels.Firefly(proposal="walk"), "Firefly: proposal='walk' was given"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("family", [tb.families.Poisson(), tb.families.Gamma(shape=2.0)])
def test_families_without_such_a_bound(family):
    model = tb.Regression(np.ones((5, 1)), np.arange(1.0, 6.0), family)
    with pytest.raises(InputError, match="no lower bound that is the exponential of a parabola"):
        tb.sample(model, tb.kernels.Firefly(), draws=5, progress=False)
