"""Exact Bayesian posteriors of models with very many rows, at about the cost of a point estimate.

>>> import tallbayes as tb
>>> model = tb.Regression(X, y, family=tb.families.Bernoulli())  # doctest: +SKIP
>>> tree = tb.sample(model)  # doctest: +SKIP
>>> tb.summary(tree)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from tallbayes.on_demand import on_demand

if TYPE_CHECKING:
    from tallbayes import bounds, errors, estimators, families, kernels, plots, priors, proposals, sources
    from tallbayes.api import explain, sample
    from tallbayes.factors import Factors
    from tallbayes.formulas import glm
    from tallbayes.models.regression import Regression
    from tallbayes.plan.explain import Explanation as Explanation
    from tallbayes.plots import plot_densities as plot_densities
    from tallbayes.plots import plot_forest as plot_forest
    from tallbayes.plots import plot_ppc as plot_ppc
    from tallbayes.plots import plot_predictions as plot_predictions
    from tallbayes.plots import plot_rank as plot_rank
    from tallbayes.plots import plot_trace as plot_trace
    from tallbayes.predictions.arviz import to_arviz
    from tallbayes.predictions.comparisons import comparisons, slopes
    from tallbayes.predictions.loo import compare, loo
    from tallbayes.predictions.predict import predict
    from tallbayes.reporting.page import report
    from tallbayes.results.files import load, save
    from tallbayes.results.summary import summary
    from tallbayes.results.verdict import laplace_check as laplace_check
    from tallbayes.results.verdict import verdict

__all__ = [
    "Factors",
    "Regression",
    "bounds",
    "compare",
    "comparisons",
    "errors",
    "estimators",
    "explain",
    "families",
    "glm",
    "kernels",
    "load",
    "loo",
    "plots",
    "predict",
    "priors",
    "proposals",
    "report",
    "sample",
    "save",
    "slopes",
    "sources",
    "summary",
    "to_arviz",
    "verdict",
]
__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(
        ("bounds", "errors", "estimators", "families", "kernels", "plots", "priors", "proposals", "sources"), ""
    ),
    **dict.fromkeys(("explain", "sample"), "api"),
    "Factors": "factors",
    "glm": "formulas",
    "Regression": "models.regression",
    "Explanation": "plan.explain",
    **dict.fromkeys(
        ("plot_densities", "plot_forest", "plot_ppc", "plot_predictions", "plot_rank", "plot_trace"), "plots"
    ),
    "to_arviz": "predictions.arviz",
    **dict.fromkeys(("comparisons", "slopes"), "predictions.comparisons"),
    **dict.fromkeys(("compare", "loo"), "predictions.loo"),
    "predict": "predictions.predict",
    "report": "reporting.page",
    **dict.fromkeys(("load", "save"), "results.files"),
    "summary": "results.summary",
    **dict.fromkeys(("laplace_check", "verdict"), "results.verdict"),
}
__getattr__, __dir__ = on_demand(__name__, _HOMES)
