"""Likelihood families: functions of one linear predictor, or of several."""

from typing import TYPE_CHECKING

from tallbayes.on_demand import on_demand

if TYPE_CHECKING:
    from tallbayes.families.base import Family
    from tallbayes.families.bernoulli import Bernoulli
    from tallbayes.families.binomial import Binomial
    from tallbayes.families.categorical import Categorical
    from tallbayes.families.exponential import Gamma, Poisson
    from tallbayes.families.from_formula import custom
    from tallbayes.families.gaussian import Gaussian
    from tallbayes.families.negative_binomial import NegativeBinomial
    from tallbayes.families.ordinal import Ordinal
    from tallbayes.families.pseudo_huber import PseudoHuber
    from tallbayes.families.student_t import StudentT
    from tallbayes.families.zeros import HurdlePoisson, ZeroInflatedPoisson

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Family",
    "Gamma",
    "Gaussian",
    "HurdlePoisson",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "PseudoHuber",
    "StudentT",
    "ZeroInflatedPoisson",
    "custom",
]

_HOMES = {
    "Family": "base",
    "Bernoulli": "bernoulli",
    "Binomial": "binomial",
    "Categorical": "categorical",
    "Gamma": "exponential",
    "Poisson": "exponential",
    "custom": "from_formula",
    "Gaussian": "gaussian",
    "NegativeBinomial": "negative_binomial",
    "Ordinal": "ordinal",
    "PseudoHuber": "pseudo_huber",
    "StudentT": "student_t",
    "HurdlePoisson": "zeros",
    "ZeroInflatedPoisson": "zeros",
}
__getattr__, __dir__ = on_demand(__name__, _HOMES)
