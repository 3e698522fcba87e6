"""Start at the truth, run a few steps: under an exact kernel no expectation moves.

theta_0 is drawn from the prior and y from the model given theta_0, so theta_0 is a draw from the posterior given
y, and so is every later state of the chain. The mean of f(theta_L) - f(theta_0) over many replicates is tested
against zero for f = theta, theta^2, U and R = log(surrogate / posterior).
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import oracle
import tallbayes as tb
from problems import Driver, JointCase, LogisticNoise, directly, in_batches, in_reservoirs, run, setup_at, stream
from tallbayes.kernels.state import empty_draws
from tallbayes.setup.mode import Mode

STEPS = 6
LIMIT = 5.3  # abs(z); false positives 1.2e-7 for each of about 130 numbers

N, D = 12, 2
PRIOR = tb.priors.Normal([0.3, -0.2], [1.0, 0.8])
CENTRE = np.array([0.5, -0.1])
"""Where every replicate expands: exactness holds for any centre."""

KERNELS = {
    "MH": tb.kernels.MetropolisHastings(proposal=tb.proposals.PreconditionedWalk(1.2)),
    "FMH": tb.kernels.FactorisedMH(
        proposal=tb.proposals.PreconditionedWalk(0.7), bound=tb.bounds.Global(), truncation=8.0
    ),
    "SMH1": tb.kernels.ScalableMH(
        order=1, proposal=tb.proposals.RandomWalk(2.0), bound=tb.bounds.Local(2.5), truncation=math.inf
    ),
    "SMH2": tb.kernels.ScalableMH(
        order=2, proposal=tb.proposals.CrankNicolson(0.0), bound=tb.bounds.Local(3.0), truncation=math.inf
    ),
    "SMH2-global": tb.kernels.ScalableMH(
        order=2, proposal=tb.proposals.CrankNicolson(0.3, antithetic=True), bound=tb.bounds.Global(), truncation=6.0
    ),
    "SMH3": tb.kernels.ScalableMH(
        order=3, proposal=tb.proposals.PreconditionedWalk(1.0), bound=tb.bounds.Local(3.0), truncation=10.0
    ),
    "surrogate": tb.kernels.ScalableMH(
        order=3, proposal=tb.proposals.SurrogateSteps(3, 0.8, walk_every=4), bound=tb.bounds.Local(2.5)
    ),
}
ORDER = {"MH": 2, "FMH": 2, "SMH1": 1, "SMH2": 2, "SMH2-global": 2, "SMH3": 3, "surrogate": 3}


def prior_draw(rng, *size):
    return np.asarray(PRIOR.mean) + np.asarray(PRIOR.scale) * rng.standard_normal((*size, D))


def z_scores(rows, X, responses, order, before, after):
    """z of the mean change of theta, theta^2, U and R."""
    at_centre = [np.asarray(part, dtype=float) for part in rows.derivatives(responses, X @ CENTRE)]

    def observe(theta):
        step = (theta - CENTRE) @ X.T
        value = np.asarray(rows.derivatives(responses, theta @ X.T, 0)[0], dtype=float)
        taylor = sum(at_centre[m] * step**m / math.factorial(m) for m in range(1, order + 1))
        prior = np.sum(((theta - PRIOR.mean) / PRIOR.scale) ** 2, axis=1) / 2
        return np.column_stack([theta, theta**2, value.sum(axis=1) + prior, (value - taylor).sum(axis=1)])

    changes = observe(after) - observe(before)
    return np.mean(changes, axis=0) / np.std(changes, axis=0) * math.sqrt(len(changes))


def logistic(name, replicates, seed, batches=None):
    """z-scores for logistic regression.

    The model is prepared once: for this family only the gradient depends on the responses, so each replicate
    puts its responses and its gradient in place. The target stays the same object: how it is passed to compiled code
    is found out once.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    X[0] = [2.5, 1.0]
    y = (np.arange(N) % 2).astype(float)
    model = tb.Regression(X, y, tb.families.Bernoulli(), PRIOR)
    setup = setup_at(model, Mode(CENTRE, 0.0, np.zeros(D), np.eye(D), 0), CENTRE)
    prepared = KERNELS[name].prepare(model, setup=setup)
    metric = prepared.metric
    # Supplied rows are drawn by their bounds, which do not depend on the responses: one supply is for all.
    y = prepared.target.rows.responses[:, 0]
    prepared = batches(prepared) if batches else directly(prepared)
    target, move = prepared.target, prepared.move
    slope = 1.0 / (1.0 + np.exp(-X @ CENTRE))
    fixed = np.asarray(PRIOR.scale) ** -2.0 * (CENTRE - np.asarray(PRIOR.mean))
    expands = name in {"SMH1", "SMH3"}
    moves = name in {"SMH2", "SMH2-global", "surrogate"}
    if expands:
        terms = target.surrogate.terms
        expansion = terms.polynomial._replace(linear=np.empty(D))
        target = target._replace(surrogate=target.surrogate._replace(terms=terms._replace(polynomial=expansion)))
    if moves:
        move = move._replace(drift=np.empty(D))
        target = target._replace(prior=target.prior._replace(linear=np.empty(D)))
    chain = dataclasses.replace(prepared, target=target, move=move)
    before = prior_draw(rng, replicates)
    responses = (rng.random((replicates, N)) < 1.0 / (1.0 + np.exp(-before @ X.T))).astype(float)
    gradients = ((slope - responses) @ X + fixed) @ metric.inverse_root.T
    starts, ends = (before - CENTRE) @ metric.root, np.empty((replicates, D))
    random, draws = stream(seed), empty_draws(STEPS, D)
    for r in range(replicates):
        y[:], gradient = responses[r], gradients[r]
        if expands:
            target.surrogate.terms.polynomial.linear[:] = gradient
        if moves:
            # G, which is taken off both polynomials, has the gradient as its linear part.
            move.drift[:] = -(1.0 - move.keep) * gradient
            target.prior.linear[:] = metric.prior_gradient - gradient
        driver = Driver(chain, random, starts[r])
        assert driver.advance(draws, 2**62) == STEPS
        assert driver.violations == 0
        ends[r] = draws.z[-1]
    after = CENTRE + ends @ target.whitening.T
    return z_scores(oracle.Logistic(), X, responses, ORDER[name], before, after)


def student(name, replicates, seed):
    """z-scores for robust regression, where everything is prepared anew for each replicate."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) / 2
    family = tb.families.StudentT(df=3.0, scale=1.5)
    draws = stream(seed)
    before, after, responses = (np.empty((replicates, size)) for size in (D, D, N))
    for r in range(replicates):
        theta = prior_draw(rng)
        y = X @ theta + 1.5 * rng.standard_t(3.0, N)
        model = tb.Regression(X, y, family, PRIOR)
        setup = setup_at(model, Mode(CENTRE, 0.0, np.zeros(D), np.eye(D), 0), CENTRE)
        prepared = KERNELS[name].prepare(model, setup=setup)
        driver = Driver(prepared, draws, prepared.metric.root.T @ (theta - CENTRE))
        out = run(driver, STEPS)
        assert driver.violations == 0
        before[r], after[r] = theta, CENTRE + prepared.target.whitening @ out.z[-1]
        responses[r] = y
    return z_scores(oracle.Student(3.0, 1.5), X, responses, ORDER[name], before, after)


@pytest.mark.parametrize("name", KERNELS)
def test_no_expectation_moves(name):
    scores = logistic(name, 20_000, seed=11)
    assert np.all(np.abs(scores) < LIMIT), scores


def test_no_expectation_moves_in_batches():
    # Rows seven at a time; all rows are asked for.
    scores = logistic("SMH3", 3000, seed=16, batches=in_batches)
    assert np.all(np.abs(scores) < LIMIT), scores


def test_no_expectation_moves_from_reservoirs():
    # The supply of a file, seven rows in a pass.
    scores = logistic("SMH3", 1000, seed=18, batches=in_reservoirs)
    assert np.all(np.abs(scores) < LIMIT), scores


@pytest.mark.long
@pytest.mark.parametrize("name", ["SMH1", "SMH2-global", "SMH3"])
def test_no_expectation_moves_in_batches_long(name):
    scores = logistic(name, 100_000, seed=17, batches=in_batches)
    assert np.all(np.abs(scores) < LIMIT), scores


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_no_expectation_moves_long(name):
    scores = logistic(name, 500_000, seed=12)
    assert np.all(np.abs(scores) < LIMIT), scores


@pytest.mark.parametrize("name", ["SMH2", "surrogate"])
def test_no_expectation_moves_student(name):
    scores = student(name, 1500, seed=13)
    assert np.all(np.abs(scores) < LIMIT), scores


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_no_expectation_moves_student_long(name):
    scores = student(name, 40_000, seed=14)
    assert np.all(np.abs(scores) < LIMIT), scores


class Several(NamedTuple):
    """A family of several predictors: priors of all its parameters, the truth, and what is drawn from it."""

    family: Any
    kernel: str
    centre: tuple[float, ...]
    """Expansions are around it; it is the mean of the priors too, whose sd is SD."""
    responses: Callable
    """Of (rng, predictors), (n, q); the predictors of an ordinal row are all cut points less x . beta."""
    columns: int = 1
    rows: int = 16
    spread: bool = False
    """Whether the second predictor has columns of its own."""


SD = 0.5
_ON_LOG = tb.priors.LogNormal(0.1, SD)
_AS_IS = tb.priors.Normal(0.1, SD)


def _positive(rng, mean):
    """Poisson counts given that they are not 0, by inversion."""
    from scipy import stats

    zero = np.exp(-mean)
    return np.maximum(stats.poisson.ppf(zero + (1 - zero) * rng.random(mean.size), mean), 1.0)


def _hyperbolic(rng, size, delta):
    """Noise with the density of the pseudo-Huber loss, which SciPy knows by another name."""
    from scipy import stats

    return delta * stats.genhyperbolic(1.0, delta**2, 0.0).rvs(size, random_state=rng)


SEVERAL = {
    "gaussian": Several(
        tb.families.Gaussian(_ON_LOG),
        "SMH3",
        (0.1, 0.1, 0.1),
        lambda rng, eta: eta[:, 0] + np.exp(eta[:, 1]) * rng.standard_normal(len(eta)),
        columns=2,
    ),
    "student": Several(
        tb.families.StudentT(5.0, _ON_LOG),
        "SMH1",
        (0.1, 0.1),
        lambda rng, eta: eta[:, 0] + np.exp(eta[:, 1]) * rng.standard_t(5.0, len(eta)),
    ),
    "huber": Several(
        tb.families.PseudoHuber(1.2, _ON_LOG),
        "SMH2",
        (0.1, 0.1),
        lambda rng, eta: eta[:, 0] + np.exp(eta[:, 1]) * _hyperbolic(rng, len(eta), 1.2),
    ),
    "scale-design": Several(
        tb.families.Gaussian(_AS_IS),
        "SMH2",
        (0.1, 0.1, 0.1),
        lambda rng, eta: eta[:, 0] + np.exp(eta[:, 1]) * rng.standard_normal(len(eta)),
        spread=True,
    ),
    "custom": Several(
        LogisticNoise(_ON_LOG),
        "SMH3",
        (0.1, 0.1),
        lambda rng, eta: eta[:, 0] + np.exp(eta[:, 1]) * rng.logistic(size=len(eta)),
    ),
    "softmax": Several(
        tb.families.Categorical(3),
        "SMH2",
        (0.1, 0.1, 0.1, 0.1),
        lambda rng, eta: np.argmax(np.column_stack([0 * eta[:, 0], eta]) + rng.gumbel(size=(len(eta), 3)), axis=1),
        columns=2,
    ),
    "ordinal": Several(
        tb.families.Ordinal(3, cuts=_AS_IS),
        "SMH3",
        (0.1, -0.5, 0.7),
        lambda rng, eta: np.sum(rng.logistic(size=(len(eta), 1)) > eta, axis=1),
        rows=40,
    ),
    "ordinal-probit": Several(
        tb.families.Ordinal(3, "probit", cuts=_AS_IS),
        "SMH3",
        (0.1, -0.5, 0.7),
        lambda rng, eta: np.sum(rng.standard_normal((len(eta), 1)) > eta, axis=1),
        rows=40,
    ),
    "inflated": Several(
        tb.families.ZeroInflatedPoisson(_AS_IS),
        "surrogate",
        (0.1, 0.1),
        lambda rng, eta: rng.poisson(np.exp(eta[:, 0])) * (rng.random(len(eta)) > 1 / (1 + np.exp(-eta[:, 1]))),
    ),
    "hurdle": Several(
        tb.families.HurdlePoisson(_AS_IS),
        "SMH3",
        (0.1, 0.1),
        lambda rng, eta: _positive(rng, np.exp(eta[:, 0])) * (rng.random(len(eta)) > 1 / (1 + np.exp(-eta[:, 1]))),
    ),
    "dispersed": Several(
        tb.families.NegativeBinomial(_ON_LOG),
        "SMH1",
        (0.1, 0.1),
        lambda rng, eta: rng.poisson(np.exp(eta[:, 0] - eta[:, 1]) * rng.gamma(np.exp(eta[:, 1]))),
    ),
    "amounts": Several(
        tb.families.Gamma(_ON_LOG),
        "SMH2",
        (0.1, 0.1),
        lambda rng, eta: np.exp(eta[:, 0] - eta[:, 1]) * rng.gamma(np.exp(eta[:, 1])),
    ),
}


def several(name, replicates, seed):
    """z-scores for families of several predictors; all is prepared anew for each replicate.

    A replicate is left out if no ball can be put around the centre, or a response is missing that the family must
    have: that depends on y alone, and given y theta_0 is a draw from the posterior still.
    """
    setting, rng, draws = SEVERAL[name], np.random.default_rng(seed), stream(seed)
    n, p, centre = setting.rows, setting.columns, np.array(setting.centre)
    X = 0.2 + rng.standard_normal((n, p)) / 2
    Z = np.column_stack([np.ones(n), rng.standard_normal(n) / 2]) if setting.spread else None
    ordered = name.startswith("ordinal")
    family = setting.family.made() if isinstance(setting.family, LogisticNoise) else setting.family
    changes, d = [], centre.size
    while len(changes) < replicates:
        theta = 0.1 + SD * rng.standard_normal(d)
        if ordered:
            theta[p:] = np.sort(theta[p:])  # the prior within the order
        second = theta[p:] - X @ theta[:p, None] if ordered else None
        if name == "softmax":
            second = X @ theta.reshape(2, p).T
        if second is None:
            second = np.column_stack([X @ theta[:p], np.broadcast_to(theta[p], n) if Z is None else Z @ theta[p:]])
        y = setting.responses(rng, second).astype(float)
        try:
            model = tb.Regression(X, y, family, _AS_IS, scale_design=Z)
            setup = setup_at(model, Mode(centre, 0.0, np.zeros(d), np.eye(d), 0), centre)
        except (np.linalg.LinAlgError, tb.errors.InputError):
            continue
        prepared = KERNELS[setting.kernel].prepare(model, setup=setup)
        driver = Driver(directly(prepared), draws, prepared.metric.root.T @ (theta - centre))
        out = run(driver, STEPS)
        assert driver.violations == 0
        after = centre + prepared.target.whitening @ out.z[-1]
        problem = JointCase(X, y, setting.family, _AS_IS, scale_design=Z).problem(centre)
        both = np.array([theta, after])
        rows = np.float64(problem.row_potentials(both).sum(axis=1))
        left = rows - np.float64(problem.row_expansions(both, ORDER[setting.kernel]).sum(axis=1))
        values = np.column_stack([both, both**2, rows, left])
        changes.append(values[1] - values[0])
    changes = np.array(changes)
    return np.mean(changes, axis=0) / np.std(changes, axis=0) * math.sqrt(len(changes)), changes


@pytest.mark.parametrize("name", SEVERAL)
def test_no_expectation_moves_with_several_predictors(name):
    scores, changes = several(name, 250, seed=19)
    assert np.all(np.abs(scores) < LIMIT), scores
    assert np.mean(np.any(changes != 0.0, axis=1)) > 0.5  # chains moved


@pytest.mark.long
@pytest.mark.parametrize("name", SEVERAL)
def test_no_expectation_moves_with_several_predictors_long(name):
    scores, _ = several(name, 20_000, seed=20)
    assert np.all(np.abs(scores) < LIMIT), scores


def test_the_test_has_power():
    # A chain that samples the surrogate instead of the posterior moves R: independent draws from the Gaussian.
    rng = np.random.default_rng(15)
    X = rng.standard_normal((N, D))
    changes = []
    for _ in range(2000):
        theta = prior_draw(rng)
        y = (rng.random(N) < 1.0 / (1.0 + np.exp(-X @ theta))).astype(float)
        problem = oracle.Problem(
            X,
            y,
            oracle.Logistic(),
            np.asarray(PRIOR.mean),
            np.asarray(PRIOR.scale) ** -2.0,
            np.ones(N),
            np.zeros(N),
            CENTRE,
        )
        gaussian = oracle.crank_nicolson(problem, 0.0)
        other = gaussian.b + gaussian.root @ rng.standard_normal(D)
        both = np.array([theta, other])
        R = np.float64(problem.potential(both) - problem.surrogate(both, 2))
        changes.append(R[1] - R[0])
    assert abs(np.mean(changes)) / np.std(changes) * math.sqrt(20_000) > LIMIT
