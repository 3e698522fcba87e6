"""Every family against an independent sampler, NumPyro's NUTS, on its own distributions: `make test-external`.

Data have offsets and weights; priors are flat, and Student's t, Laplace and uniform ones together. Compared are
means, standard deviations and 5 and 95 % quantiles of each coefficient. A test is a z-score of 5.5 or less, false
positives 4e-8; 13 families x 2 priors x 3 coefficients x 4 figures make 312 tests, 1.3e-5 in all. Families with
several predictors for each row have 56 parameters, 224 tests: 9e-6 in all. Standard errors are estimated, those of
NUTS from 40 means of batches: at worst a score has Student's t distribution with 39 degrees of freedom, a test 2.6e-6,
all 536 of them 1.4e-3.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tallbayes as tb

pytestmark = pytest.mark.external
numpyro = pytest.importorskip("numpyro")

N, D = 400, 3
BETA = np.array([0.4, -0.3, 0.25])
LARGEST = 5.5


def data(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(N), rng.standard_normal((N, D - 1))])
    offset, weights = 0.3 * rng.standard_normal(N), rng.choice([0.5, 1.0, 2.0], N)
    return rng, X, offset, weights, X @ BETA + offset


def jax_parts():
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist

    numpyro.enable_x64()
    return jax, jnp, dist


def logit(rng, eta):
    return (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)


def normal_cdf(x):
    return np.array([0.5 * math.erfc(-v / math.sqrt(2.0)) for v in x])


def huber(jnp, t, delta):
    return -(delta**2) * (jnp.sqrt(1 + (t / delta) ** 2) - 1)


TRIALS = np.random.default_rng(99).integers(1, 9, N)

# Family, responses given (rng, eta), and NumPyro's log-likelihood of (jnp, dist, eta, y).
FAMILIES = {
    "logit": (
        tb.families.Bernoulli(),
        logit,
        lambda jnp, dist, eta, y: dist.Bernoulli(logits=eta).log_prob(y),
    ),
    "probit": (
        tb.families.Bernoulli("probit"),
        lambda rng, eta: (rng.random(N) < normal_cdf(eta)).astype(float),
        lambda jnp, dist, eta, y: dist.Bernoulli(probs=dist.Normal(0, 1).cdf(eta)).log_prob(y),
    ),
    "cloglog": (
        tb.families.Bernoulli("cloglog"),
        lambda rng, eta: (rng.random(N) < -np.expm1(-np.exp(eta))).astype(float),
        lambda jnp, dist, eta, y: dist.Bernoulli(probs=-jnp.expm1(-jnp.exp(eta))).log_prob(y),
    ),
    "binomial": (
        tb.families.Binomial(TRIALS),
        lambda rng, eta: rng.binomial(TRIALS, 1 / (1 + np.exp(-eta))).astype(float),
        lambda jnp, dist, eta, y: dist.Binomial(TRIALS, logits=eta).log_prob(y),
    ),
    "binomial probit": (
        tb.families.Binomial(TRIALS, "probit"),
        lambda rng, eta: rng.binomial(TRIALS, normal_cdf(eta)).astype(float),
        lambda jnp, dist, eta, y: dist.Binomial(TRIALS, probs=dist.Normal(0, 1).cdf(eta)).log_prob(y),
    ),
    "binomial cloglog": (
        tb.families.Binomial(TRIALS, "cloglog"),
        lambda rng, eta: rng.binomial(TRIALS, -np.expm1(-np.exp(eta))).astype(float),
        lambda jnp, dist, eta, y: dist.Binomial(TRIALS, probs=-jnp.expm1(-jnp.exp(eta))).log_prob(y),
    ),
    "poisson": (
        tb.families.Poisson(),
        lambda rng, eta: rng.poisson(np.exp(eta)).astype(float),
        lambda jnp, dist, eta, y: dist.Poisson(jnp.exp(eta)).log_prob(y),
    ),
    "negative binomial": (
        tb.families.NegativeBinomial(2.5),
        lambda rng, eta: rng.poisson(np.exp(eta) * rng.gamma(2.5, 1 / 2.5, N)).astype(float),
        lambda jnp, dist, eta, y: dist.NegativeBinomial2(jnp.exp(eta), 2.5).log_prob(y),
    ),
    "gamma": (
        tb.families.Gamma(1.7),
        lambda rng, eta: np.exp(eta) * rng.gamma(1.7, 1 / 1.7, N),
        lambda jnp, dist, eta, y: dist.Gamma(1.7, 1.7 / jnp.exp(eta)).log_prob(y),
    ),
    "gaussian": (
        tb.families.Gaussian(0.8),
        lambda rng, eta: eta + 0.8 * rng.standard_normal(N),
        lambda jnp, dist, eta, y: dist.Normal(eta, 0.8).log_prob(y),
    ),
    "student": (
        tb.families.StudentT(3.0, 0.7),
        lambda rng, eta: eta + 0.7 * rng.standard_t(3.0, N),
        lambda jnp, dist, eta, y: dist.StudentT(3.0, eta, 0.7).log_prob(y),
    ),
    "pseudo-huber": (
        tb.families.PseudoHuber(1.3, 0.6),
        lambda rng, eta: eta + 0.6 * rng.laplace(size=N),
        lambda jnp, dist, eta, y: huber(jnp, (y - eta) / 0.6, 1.3),
    ),
    "custom": (
        # NumPyro's own logistic distribution; here only its formula.
        lambda: tb.families.custom("softplus((y - eta)/0.5) + softplus(-(y - eta)/0.5)"),
        lambda rng, eta: eta + 0.5 * rng.logistic(size=N),
        lambda jnp, dist, eta, y: dist.Logistic(eta, 0.5).log_prob(y),
    ),
}


def nuts(X, y, offset, weights, log_likelihood, priors, seed):
    """Draws of NumPyro's NUTS, (chains, draws, coefficients)."""
    jax, jnp, dist = jax_parts()
    from numpyro.infer import MCMC, NUTS

    def model():
        if priors is None:
            beta = numpyro.sample("beta", dist.ImproperUniform(dist.constraints.real_vector, (), (D,)))
        else:
            beta = jnp.stack([numpyro.sample(f"beta{j}", prior(dist)) for j, prior in enumerate(priors)])
            numpyro.deterministic("beta", beta)
        eta = X @ beta + offset
        numpyro.factor("rows", jnp.sum(weights * log_likelihood(jnp, dist, eta, y)))

    chains = MCMC(
        NUTS(model), num_warmup=1000, num_samples=5000, num_chains=2, chain_method="sequential", progress_bar=False
    )
    chains.run(jax.random.PRNGKey(seed))
    return np.asarray(chains.get_samples(group_by_chain=True)["beta"])


PRIORS = {
    "flat": (tb.priors.Flat(), None),
    "others": (
        [tb.priors.StudentT(3.0, 0.0, 0.2), tb.priors.Laplace(0.0, 0.05), tb.priors.Uniform(0.2, 1.0)],
        [
            lambda dist: dist.StudentT(3.0, 0.0, 0.2),
            lambda dist: dist.Laplace(0.0, 0.05),
            lambda dist: dist.Uniform(0.2, 1.0),
        ],
    ),
}


def error(f):
    """Standard error of the mean of correlated draws, (chains, draws), by batch means."""
    batches = f.reshape(-1, 250).mean(axis=1)
    return float(np.std(batches, ddof=1)) / math.sqrt(batches.size)


def z_scores(ours, theirs):
    """Of means, standard deviations, and of the share of draws below the pooled 5 and 95 % quantiles."""
    pooled = np.concatenate([ours.ravel(), theirs.ravel()])
    centre = pooled.mean()
    figures = [lambda b: b, lambda b: (b - centre) ** 2]
    figures += [lambda b, q=q: (b <= np.quantile(pooled, q)).astype(float) for q in (0.05, 0.95)]
    for figure in figures:
        a, b = figure(ours), figure(theirs)
        yield float(a.mean() - b.mean()) / math.hypot(error(a), error(b))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", FAMILIES)
def test_draws_agree_with_nuts(name, prior):
    family, responses, log_likelihood = FAMILIES[name]
    family = family() if name == "custom" else family
    seed = 10 + list(FAMILIES).index(name)
    rng, X, offset, weights, eta = data(seed)
    y = responses(rng, eta)
    ours, theirs = PRIORS[prior]
    model = tb.Regression(X, y, family, ours, offset=offset, weights=weights)
    tree = tb.sample(model, draws=20_000, chains=2, seed=seed, progress=False)
    beta = np.asarray(tree["posterior"]["beta"])
    reference = nuts(X, y, offset, weights, log_likelihood, theirs, seed)
    for j in range(D):
        scores = list(z_scores(beta[..., j], reference[..., j]))
        assert np.max(np.abs(scores)) < LARGEST, (model.names[j], scores)
    assert tree.attrs["bound_violations"] == 0


# -- several predictors for each row --

ROWS = 1000
SPREAD = np.array([-0.3, 0.4])
"""Coefficients of the log scale, where it has any."""


class Unknowns(NamedTuple):
    """A family with its responses, and the same model on NumPyro's own distributions.

    The model samples each unknown under the name that the posterior has for it, and returns log-likelihoods of rows.
    """

    family: Any
    responses: Callable
    """Of (rng, X, eta)."""
    log_likelihood: Callable
    """Of (jnp, dist, X, eta, y); eta has the offset, and is missing where there is no common predictor."""
    has_offset: bool = True
    design: Callable | None = None
    """The design of the scale, from X."""
    intercept: bool = True


def with_scale(noise):
    def log_likelihood(jnp, dist, X, eta, y):
        return noise(jnp, dist, eta, numpyro.sample("scale", dist.HalfNormal(3.0)), y)

    return log_likelihood


def spread_gaussian(jnp, dist, X, eta, y):
    gamma = numpyro.sample("scale_beta", dist.Normal(0.2, 1.5).expand([2]).to_event(1))
    return dist.Normal(eta, jnp.exp(X[:, :2] @ gamma)).log_prob(y)


def overdispersed(jnp, dist, X, eta, y):
    size = numpyro.sample("size", dist.LogNormal(0.5, 1.0))
    return dist.NegativeBinomial2(jnp.exp(eta), size).log_prob(y)


def amounts(jnp, dist, X, eta, y):
    shape = numpyro.sample("shape", dist.LogNormal(0.5, 1.0))
    return dist.Gamma(shape, shape / jnp.exp(eta)).log_prob(y)


def four_classes(jnp, dist, X, eta, y):
    beta = numpyro.sample("beta", dist.Normal(0.1, 2.0).expand([3, D]).to_event(2))
    logits = jnp.concatenate([jnp.zeros((ROWS, 1)), X @ beta.T], axis=1)
    return dist.Categorical(logits=logits).log_prob(y.astype(int))


def five_levels(jnp, dist, X, eta, y):
    cut = numpyro.sample("cut", dist.ImproperUniform(dist.constraints.ordered_vector, (), (4,)))
    numpyro.factor("cuts", jnp.sum(dist.Normal(0.0, 10.0).log_prob(cut)))
    return dist.OrderedLogistic(eta, cut).log_prob(y.astype(int))


def five_normal_levels(jnp, dist, X, eta, y):
    """NumPyro has none: differences of its normal's distribution function."""
    cut = numpyro.sample("cut", dist.ImproperUniform(dist.constraints.ordered_vector, (), (4,)))
    numpyro.factor("cuts", jnp.sum(dist.Normal(0.0, 10.0).log_prob(cut)))
    ends, level, below = (
        jnp.concatenate([jnp.array([-50.0]), cut, jnp.array([50.0])]),
        y.astype(int),
        dist.Normal().cdf,
    )
    low, high = ends[level] - eta, ends[level + 1] - eta
    return jnp.log(jnp.where(low > 0.0, below(-low) - below(-high), below(high) - below(low)))


def inflated(jnp, dist, X, eta, y):
    logit = numpyro.sample("zero_logit", dist.Normal(0.0, 2.0))
    return dist.ZeroInflatedDistribution(dist.Poisson(jnp.exp(eta)), gate_logits=logit).log_prob(y.astype(int))


def hurdle(jnp, dist, X, eta, y):
    """NumPyro has none: a coin for zero or not, and a Poisson count given that it is not 0."""
    coin = dist.Bernoulli(logits=numpyro.sample("zero_logit", dist.Normal(0.0, 2.0)))
    mean = jnp.exp(eta)
    count = dist.Poisson(mean).log_prob(jnp.maximum(y, 1.0)) - jnp.log(-jnp.expm1(-mean))
    return jnp.where(y == 0.0, coin.log_prob(1.0), coin.log_prob(0.0) + count)


def classes_of(rng, X, eta):
    scores = np.column_stack([np.zeros(ROWS), X @ np.array([BETA, -BETA, BETA[::-1]]).T])
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(float)


def positive_count(rng, mean):
    """Of a Poisson distribution, given that it is not 0: drawn until it is not."""
    y = np.zeros(mean.size)
    while np.any(y == 0.0):
        y = np.where(y == 0.0, rng.poisson(mean), y)
    return y


SEVERAL = {
    "gaussian": Unknowns(
        tb.families.Gaussian(tb.priors.HalfNormal(3.0)),
        lambda rng, X, eta: eta + 0.8 * rng.standard_normal(ROWS),
        with_scale(lambda jnp, dist, eta, scale, y: dist.Normal(eta, scale).log_prob(y)),
    ),
    "student": Unknowns(
        tb.families.StudentT(4.0, tb.priors.HalfNormal(3.0)),
        lambda rng, X, eta: eta + 0.7 * rng.standard_t(4.0, ROWS),
        with_scale(lambda jnp, dist, eta, scale, y: dist.StudentT(4.0, eta, scale).log_prob(y)),
    ),
    "pseudo-huber": Unknowns(
        tb.families.PseudoHuber(1.3, tb.priors.HalfNormal(3.0)),
        lambda rng, X, eta: eta + 0.6 * rng.laplace(size=ROWS),
        with_scale(lambda jnp, dist, eta, scale, y: huber(jnp, (y - eta) / scale, 1.3) - jnp.log(scale)),
    ),
    "heteroscedastic gaussian": Unknowns(
        tb.families.Gaussian(tb.priors.Normal(0.2, 1.5)),
        lambda rng, X, eta: eta + np.exp(X[:, :2] @ SPREAD) * rng.standard_normal(ROWS),
        spread_gaussian,
        design=lambda X: X[:, :2],
    ),
    "negative binomial": Unknowns(
        tb.families.NegativeBinomial(tb.priors.LogNormal(0.5, 1.0)),
        lambda rng, X, eta: rng.poisson(np.exp(0.5 + eta) * rng.gamma(2.5, 1 / 2.5, ROWS)).astype(float),
        overdispersed,
    ),
    "four classes": Unknowns(tb.families.Categorical(4), classes_of, four_classes, has_offset=False),
    "five levels": Unknowns(
        tb.families.Ordinal(5, cuts=tb.priors.Normal(0, 10)),
        lambda rng, X, eta: np.searchsorted([-1.2, -0.4, 0.5, 1.6], eta + rng.logistic(size=ROWS)).astype(float),
        five_levels,
        intercept=False,
    ),
    "zero-inflated": Unknowns(
        tb.families.ZeroInflatedPoisson(tb.priors.Normal(0.0, 2.0)),
        lambda rng, X, eta: np.where(rng.random(ROWS) < 0.3, 0.0, rng.poisson(np.exp(0.4 + eta))),
        inflated,
    ),
    "hurdle": Unknowns(
        tb.families.HurdlePoisson(tb.priors.Normal(0.0, 2.0)),
        lambda rng, X, eta: np.where(rng.random(ROWS) < 0.3, 0.0, positive_count(rng, np.exp(eta))),
        hurdle,
    ),
    "gamma": Unknowns(
        tb.families.Gamma(tb.priors.LogNormal(0.5, 1.0)),
        lambda rng, X, eta: np.exp(eta) * rng.gamma(1.7, 1 / 1.7, ROWS),
        amounts,
    ),
    "five probit levels": Unknowns(
        tb.families.Ordinal(5, "probit", cuts=tb.priors.Normal(0, 10)),
        lambda rng, X, eta: np.searchsorted([-1.0, -0.3, 0.4, 1.2], eta + rng.standard_normal(ROWS)).astype(float),
        five_normal_levels,
        intercept=False,
    ),
}


def nuts_of_several(setting, X, y, offset, weights, seed):
    """Draws of NumPyro's NUTS, by the names of the unknowns."""
    jax, jnp, dist = jax_parts()
    from numpyro.infer import MCMC, NUTS

    def model():
        eta = None
        if setting.has_offset:
            eta = X @ numpyro.sample("beta", dist.Normal(0.1, 2.0).expand([D]).to_event(1)) + offset
        numpyro.factor("rows", jnp.sum(weights * setting.log_likelihood(jnp, dist, X, eta, y)))

    chains = MCMC(
        NUTS(model), num_warmup=1000, num_samples=5000, num_chains=2, chain_method="sequential", progress_bar=False
    )
    chains.run(jax.random.PRNGKey(seed))
    return chains.get_samples(group_by_chain=True)


@pytest.mark.parametrize("name", SEVERAL)
def test_unknowns_agree_with_nuts(name):
    """Every unknown of a family with several predictors, the scale and the like as the posterior reports them."""
    setting = SEVERAL[name]
    seed = 40 + list(SEVERAL).index(name)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, D))
    X[:, 0] = 1.0 if setting.intercept else X[:, 0]
    offset, weights = 0.3 * rng.standard_normal(ROWS), rng.choice([0.5, 1.0, 2.0], ROWS)
    y = setting.responses(rng, X, X @ BETA + offset)
    model = tb.Regression(
        X,
        y,
        setting.family,
        tb.priors.Normal(0.1, 2.0),
        offset=offset if setting.has_offset else None,
        weights=weights,
        scale_design=setting.design(X) if setting.design else None,
    )
    tree = tb.sample(model, draws=20_000, chains=2, seed=seed, progress=False)
    reference = nuts_of_several(setting, X, y, offset, weights, seed)
    assert set(tree["posterior"].data_vars) == set(reference)
    for unknown, drawn in reference.items():
        ours = np.asarray(tree["posterior"][unknown]).reshape(2, 20_000, -1)
        theirs = np.asarray(drawn).reshape(2, 5000, -1)
        assert ours.shape[2] == theirs.shape[2]
        for j in range(ours.shape[2]):
            scores = list(z_scores(ours[..., j], theirs[..., j]))
            assert np.max(np.abs(scores)) < LARGEST, (unknown, j, scores)
    assert tree.attrs["bound_violations"] == 0
