"""The acceptance probability, assembled from the kernel's own parts, is the paper's; detailed balance holds."""

import itertools
import math

import numpy as np
import pytest

import oracle
from problems import CASES, JOINT, PROPOSALS, RULES, WIDER, Enumeration, bench
from tallbayes.kernels.target import step_rate

TOLERANCE = 1e-10
PAIRS = 200
COMBINATIONS = list(itertools.product(CASES, RULES, PROPOSALS))
WIDER_COMBINATIONS = [
    *((case, "MH", "walk") for case in WIDER),
    # Gaussian rows are parabolas: nothing is left of them beyond order 1.
    *((case, f"SMH{k}-local", "walk") for case in WIDER for k in (1, 2, 3) if case != "gaussian" or k == 1),
    *((case, "FMH-local", "first-order") for case in ("poisson", "cloglog", "single-twelve")),
    *((case, "MH", "walk") for case in JOINT),
    *(
        (case, f"SMH{k}-local", move)
        for case in JOINT
        for k, move in ((1, "walk"), (2, "independent"), (3, "walk"))
    ),
    *((case, "FMH-local", "crank-nicolson") for case in JOINT),
    *((case, "SMH2-global", "crank-nicolson") for case in ("twelve", "single-twelve", "single-logistic")),
]


def pairs(problem, radius, seed):
    """Pairs of whitened points from near the centre to far out: inside, outside and across the ball."""
    rng = np.random.default_rng(seed)
    d = problem.centre.size
    far = 1.6 * (radius or 2.5)

    def points():
        direction = rng.standard_normal((PAIRS, d))
        return direction / np.linalg.norm(direction, axis=1, keepdims=True)

    z = points() * far * rng.random((PAIRS, 1)) ** 2
    other = points() * far * rng.random((PAIRS, 1)) ** 2
    # A third of the pairs are short steps, where the second form of the local bound is the smaller one.
    short = np.arange(PAIRS) % 3 == 0
    other[short] = z[short] + 0.1 * (rng.random((PAIRS, 1)) * points())[short]
    return z, other


@pytest.mark.parametrize(("case", "rule", "proposal"), COMBINATIONS + WIDER_COMBINATIONS)
def test_acceptance_is_the_papers_and_reversible(case, rule, proposal):
    b = bench(case, rule, proposal)
    z, other = pairs(b.problem, b.rule.radius, seed=5)
    theta, proposed = b.problem.theta(z), b.problem.theta(other)
    assert np.linalg.norm(b.problem.gradient @ b.problem.unwhiten) > 0.1  # not at the mode
    expected = oracle.acceptance(b.problem, b.rule, b.proposal, theta, proposed)
    expected_back = oracle.acceptance(b.problem, b.rule, b.proposal, proposed, theta)
    enumeration = Enumeration(b.prepared)
    limits = [b.prepared.target.bound.truncation]
    if b.rule.order is not None:
        assert limits == [math.inf]
        found = enumeration.rate(z, other)
        np.testing.assert_allclose(found, expected.rate, rtol=1e-9)
        np.testing.assert_array_equal(found, enumeration.rate(other, z))
        one_by_one = [step_rate(b.prepared.target, *pair) for pair in zip(z, other, strict=True)]
        np.testing.assert_array_equal(found, one_by_one)
        if b.rule.radius is not None:
            assert 0.2 < np.mean(np.isinf(found)) < 0.8
        # Half-way between two rates, so that rounding does not decide on which side of R a pair is.
        ordered = np.sort(found[np.isfinite(found)])
        limits.append(float(np.mean(ordered[[ordered.size // 2 - 1, ordered.size // 2]])))
    flow = b.proposal.log_density(theta, proposed) - b.proposal.log_density(proposed, theta)
    flow += np.float64(b.problem.potential(proposed) - b.problem.potential(theta))
    for limit in limits:
        forth = enumeration.log_acceptance(z, other, limit)
        back = enumeration.log_acceptance(other, z, limit)
        np.testing.assert_allclose(forth, expected.log(limit), rtol=1e-11, atol=TOLERANCE)
        np.testing.assert_allclose(back, expected_back.log(limit), rtol=1e-11, atol=TOLERANCE)
        # Detailed balance: pi(theta) q(theta, theta') alpha(theta, theta') is symmetric.
        np.testing.assert_allclose(flow + forth - back, 0.0, atol=TOLERANCE)


@pytest.mark.parametrize(("case", "proposal"), list(itertools.product(CASES, PROPOSALS)))
def test_what_is_proposed_is_the_papers_gaussian(case, proposal):
    b = bench(case, "SMH2-local", proposal)
    move, W = b.prepared.move, b.prepared.target.whitening
    d = b.problem.centre.size
    root = W @ (move.root if move.root.size else move.scale * np.eye(d))
    drift = (1.0 - move.keep) * b.problem.centre + W @ move.drift
    np.testing.assert_allclose(move.keep, b.proposal.A, rtol=1e-14)
    np.testing.assert_allclose(drift, b.proposal.b, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(root @ root.T, b.proposal.root @ b.proposal.root.T, rtol=1e-11, atol=1e-13)


BOUNDED = [(case, rule) for case in CASES for rule in RULES if rule != "MH"] + [
    (case, rule) for case in WIDER | JOINT for rule in ("FMH-local", "SMH1-local", "SMH2-local", "SMH3-local")
]


@pytest.mark.parametrize(("case", "rule"), BOUNDED)
def test_bounds_of_rows_are_the_papers(case, rule):
    b = bench(case, rule, "walk")
    psi = b.prepared.target.rows.psi
    np.testing.assert_allclose(psi, b.rule.constants(b.problem), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(b.prepared.target.bound.total, np.sum(psi), rtol=1e-14)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "MH"])
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_stationary_law_on_a_grid_is_the_target(rule, proposal):
    # One coefficient: a grid that reaches beyond the ball, half of it under truncation.
    b = bench("student-normal", rule, proposal)
    grid = np.linspace(-4.0, 4.0, 41)[:, None]
    theta = b.problem.theta(grid)
    first, second = (index.ravel() for index in np.meshgrid(range(41), range(41), indexing="ij"))
    rate = b.rule.rate(b.problem, theta[first], theta[second])
    limit = float(np.median(rate[np.isfinite(rate)])) * 1.0001
    accept = np.exp(Enumeration(b.prepared).log_acceptance(grid[first], grid[second], limit)).reshape(41, 41)
    propose = np.exp(b.proposal.log_density(theta[first], theta[second])).reshape(41, 41)
    # On a grid the proposal's density needs one common constant, so that no row of the matrix exceeds one.
    P = propose * accept / propose.sum(axis=1).max()
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(P, 1.0 - P.sum(axis=1))
    assert np.min(P) >= 0.0
    target = np.exp(-np.float64(b.problem.potential(theta) - b.problem.potential(theta).min()))
    target /= target.sum()
    A = np.vstack([P.T - np.eye(41), np.ones(41)])
    stationary = np.linalg.lstsq(A, np.append(np.zeros(41), 1.0), rcond=None)[0]
    assert np.abs(stationary - target).sum() < 1e-9
