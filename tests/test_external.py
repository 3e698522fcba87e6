"""Every family against an independent sampler, NumPyro's NUTS, on its own distributions: `make test-external`.

Data have offsets and weights; priors are flat, and Student's t, Laplace and uniform ones together. Compared are
means, standard deviations and 5 and 95 % quantiles of each coefficient. A test is a z-score of 5.5 or less, false
positives 4e-8; 13 families x 2 priors x 3 coefficients x 4 figures make 312 tests, 1.3e-5 in all.
"""

import math

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
