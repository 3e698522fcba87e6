"""What priors of coefficients and of scales have in common."""

from abc import ABC, abstractmethod
from typing import Protocol

from tallbayes.priors.resolved import CoefficientPriors, Vector

SMALLEST_SCALE = 1e-100
"""Smaller prior scales have precisions too large to compute with."""


class Columns(Protocol):
    """What a prior may know of the columns: where each lies, and how far it spreads."""

    @property
    def mean(self) -> Vector:
        """Means."""

    @property
    def spread(self) -> Vector:
        """Difference of the values of a column that has two; standard deviation of others."""

    @property
    def level(self) -> float:
        """How far from 0 the responses lie, where they are on the predictor's scale; else 0."""


class Prior(ABC):
    """What is known of the coefficients before the data."""

    @abstractmethod
    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return the prior of each of the columns' coefficients."""


class ScalePrior(ABC):
    """What is known of a scale before the data, stated for the scale itself."""

    @abstractmethod
    def of_scale(self) -> CoefficientPriors:
        """Return the prior of the scale's logarithm."""
