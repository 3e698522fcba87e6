"""Likelihood families: one scalar function each."""

from tallbayes.families.base import Family
from tallbayes.families.bernoulli import Bernoulli
from tallbayes.families.student_t import StudentT

__all__ = ["Bernoulli", "Family", "StudentT"]
