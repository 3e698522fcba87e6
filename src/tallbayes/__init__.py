"""Exact Bayesian posteriors of models with very many rows, at about the cost of a point estimate.

>>> import tallbayes as tb
>>> model = tb.Regression(X, y, family=tb.families.Bernoulli())  # doctest: +SKIP
>>> tree = tb.sample(model)  # doctest: +SKIP
>>> tb.summary(tree)  # doctest: +SKIP
"""

from tallbayes import bounds, errors, families, kernels, priors, proposals
from tallbayes.models import Regression
from tallbayes.results.summary import summary
from tallbayes.run.sampler import sample

__all__ = [
    "Regression",
    "bounds",
    "errors",
    "families",
    "kernels",
    "priors",
    "proposals",
    "sample",
    "summary",
]
__version__ = "0.1.0"
