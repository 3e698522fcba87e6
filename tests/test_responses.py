"""Means, random responses and log-likelihoods of every family: against scipy's distributions."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

import tallbayes as tb
from tallbayes.errors import InputError

ETA = np.array([-1.3, 0.0, 0.4, 2.1])


def probability(link, eta):
    return {"logit": stats.logistic.cdf, "probit": stats.norm.cdf, "cloglog": lambda e: -np.expm1(-np.exp(e))}[
        link
    ](eta)


def bernoulli(link):
    return lambda eta: stats.bernoulli(probability(link, eta))


# Each family with its distribution, and what a response is multiplied by in the family's own code.
CASES = {
    **{link: (tb.families.Bernoulli(link), bernoulli(link), 1.0) for link in ("logit", "probit", "cloglog")},
    "binomial": (tb.families.Binomial(7), lambda eta: stats.binom(7, probability("logit", eta)), 1 / 7),
    "binomial-probit": (
        tb.families.Binomial(7, "probit"),
        lambda eta: stats.binom(7, probability("probit", eta)),
        1 / 7,
    ),
    "poisson": (tb.families.Poisson(), lambda eta: stats.poisson(np.exp(eta)), 1.0),
    "negative-binomial": (
        tb.families.NegativeBinomial(1.7),
        lambda eta: stats.nbinom(1.7, 1.7 / (1.7 + np.exp(eta))),
        1.0,
    ),
    "gamma": (tb.families.Gamma(2.5), lambda eta: stats.gamma(2.5, scale=np.exp(eta) / 2.5), 1.0),
    "gaussian": (tb.families.Gaussian(0.4), lambda eta: stats.norm(eta, 0.4), 1.0),
    "student-t": (tb.families.StudentT(4.0, 0.7), lambda eta: stats.t(4.0, eta, 0.7), 1.0),
    "pseudo-huber": (
        tb.families.PseudoHuber(1.3, 0.5),
        lambda eta: stats.genhyperbolic(1.0, 1.69, 0.0, loc=eta, scale=0.65),
        1.0,
    ),
    "custom": (tb.families.custom("softplus(eta) - y*eta", responses=(0, 1)), bernoulli("logit"), 1.0),
}


@pytest.fixture(params=CASES, name="case", scope="module")
def _case(request):
    return CASES[request.param]


def test_means(case):
    family, distribution, unit = case
    np.testing.assert_allclose(family.expected(ETA[None]), unit * distribution(ETA).mean(), rtol=1e-12, atol=1e-15)
    assert family.expected(np.zeros((1, 5, 3))).shape == (5, 3)


def test_responses_have_the_familys_distribution(case):
    """Kolmogorov-Smirnov or chi-square, at 1e-4 for each of 12 families: a false alarm in a thousand runs."""
    family, distribution, unit = case
    for eta in (-0.7, 1.1):
        drawn = family.draw(np.random.default_rng(1), np.full((1, 4, 5000), eta))
        assert drawn.shape == (4, 5000)
        values, fixed = drawn.ravel() / unit, distribution(eta)
        if hasattr(fixed.dist, "pdf"):
            assert stats.kstest(values, fixed.cdf).pvalue > 1e-4
            continue
        values = np.round(values)
        most = int(fixed.ppf(0.999))
        expected = np.append(fixed.pmf(np.arange(most)), fixed.sf(most - 1)) * values.size
        assert (
            stats.chisquare(np.bincount(np.minimum(values, most).astype(int), minlength=most + 1), expected).pvalue
            > 1e-4
        )


def test_the_log_likelihood_with_its_constant(case):
    family, distribution, unit = case
    fixed = distribution(0.6)
    logpmf = getattr(fixed, "logpmf", None) if not hasattr(fixed.dist, "pdf") else fixed.logpdf
    y = fixed.rvs(size=6, random_state=np.random.default_rng(2)).astype(np.float64)
    coded = y * unit
    potential = family.rows.jets(coded[:, None], np.full((1, 6), 0.6), 0)[0]
    found = (family.log_constant(coded) - potential) / unit
    np.testing.assert_allclose(found, logpmf(y), rtol=1e-9, atol=1e-12)


def test_extreme_predictors_give_no_warning_and_no_nonsense():
    far = np.array([[-800.0, 800.0]])
    for link in ("logit", "probit", "cloglog"):
        np.testing.assert_array_equal(tb.families.Bernoulli(link).expected(far)[1], 1.0)
        assert 0.0 <= tb.families.Bernoulli(link).expected(far)[0] < 1e-300
    np.testing.assert_array_equal(tb.families.Poisson().expected(far), [0.0, math.inf])
    counts = tb.families.Poisson().draw(np.random.default_rng(0), np.full((1, 1000), math.log(1e17)))
    assert np.mean(counts) == pytest.approx(1e17, rel=1e-8)
    assert np.std(counts) == pytest.approx(math.sqrt(1e17), rel=0.2)


def test_trials_of_each_row():
    family = tb.families.Binomial([1, 1000, 0, 7])
    rng = np.random.default_rng(0)
    drawn = family.draw(rng, np.zeros((1, 2000, 4)))
    np.testing.assert_allclose(drawn.std(axis=0), [0.5, 0.5 / math.sqrt(1000), 0.0, 0.5 / math.sqrt(7)], rtol=0.1)
    part = family.of_rows(slice(1, 3))
    assert part.draw(rng, np.zeros((1, 3, 2))).shape == (3, 2)
    with pytest.raises(InputError, match="4 numbers of trials were given for 3 rows"):
        family.draw(rng, np.zeros((1, 2, 3)))


def test_a_formula_without_probabilities_says_so():
    family = tb.families.custom("softplus((y - eta)/s) + softplus(-(y - eta)/s)", s=0.5)
    unnormalised = tb.families.custom("2*softplus(eta) - y*eta", responses=(0, 1))
    rng = np.random.default_rng(0)
    for each in (family, unnormalised):
        for ask in (each.expected, partial(each.draw, rng), each.log_constant):
            with pytest.raises(InputError, match=r"not known for this family. Predict the linear predictor"):
                ask(np.zeros((1, 3)))


def test_the_hyperbolic_density_integrates_to_one():
    family = tb.families.PseudoHuber(2.0, 0.3)

    def density(y):
        coded = np.array([[y]])
        return math.exp(family.log_constant(coded[0])[0] - family.rows.jets(coded, np.array([[0.5]]), 0)[0, 0])

    assert integrate.quad(density, -20.0, 20.0, points=[0.5])[0] == pytest.approx(1.0, rel=1e-8)
