"""scikit-learn estimators on top of `tallbayes.sample`; scikit-learn, the extra ``[sklearn]``, loads when one is used.

>>> import tallbayes as tb
>>> tb.estimators.BayesianClassifier().fit(X, y).predict_proba(X)  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallbayes.errors import MissingPackageError

if TYPE_CHECKING:
    from tallbayes.estimators.classifier import BayesianClassifier
    from tallbayes.estimators.regressors import BayesianRegressor, CountRegressor, RobustRegressor

__all__ = ["BayesianClassifier", "BayesianRegressor", "CountRegressor", "RobustRegressor"]

_HOMES = {"BayesianClassifier": "classifier"} | dict.fromkeys(__all__[1:], "regressors")


def __getattr__(name: str) -> Any:
    """Load an estimator, and scikit-learn with it, when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import_module("sklearn")
    except ImportError:
        raise MissingPackageError("Estimators need scikit-learn: pip install 'tallbayes[sklearn]'.") from None
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the estimators."""
    return __all__
