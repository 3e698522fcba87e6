"""Priors of coefficients and scales: what is known of each before the data.

Whatever its shape, a prior is evaluated exactly in every step. Only the search for the mode and the choice of
coordinates use a smooth *stand-in* of priors that have kinks or hard ends: that decides how fast the sampler is,
not what it samples from.
"""

from tallbayes.priors.base import Prior, ScalePrior
from tallbayes.priors.coefficients import (
    Cauchy,
    Flat,
    Laplace,
    Normal,
    StudentT,
    Uniform,
    WeaklyInformative,
)
from tallbayes.priors.scales import Exponential, HalfCauchy, HalfNormal, HalfStudentT, InverseGamma, LogNormal

__all__ = [
    "Cauchy",
    "Exponential",
    "Flat",
    "HalfCauchy",
    "HalfNormal",
    "HalfStudentT",
    "InverseGamma",
    "Laplace",
    "LogNormal",
    "Normal",
    "Prior",
    "ScalePrior",
    "StudentT",
    "Uniform",
    "WeaklyInformative",
]
