"""The contract of a model: what set-up and kernels need of it."""

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.structure import Output
from tallbayes.models.predictors import Predictors
from tallbayes.priors import Prior
from tallbayes.priors.resolved import CoefficientPriors
from tallbayes.sources.base import Source

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Model(ABC):
    """Rows, their likelihood as a function of predictors, a prior, and where to look for the mode."""

    source: Source
    names: list[str]
    """Names of the parameters."""
    prior: Prior
    coefficient_priors: CoefficientPriors
    family: Any
    """What rows are, for people; says if their potential is ``convex``."""
    rows: Any
    """What rows are, for passes and compiled code (`families/rows.py`)."""
    predictors: Predictors
    """How parameters become the rows' predictors."""
    profile: Any
    """Facts about the columns, of regressions (`sources/profile.py`)."""
    checking_passes: int = 0
    """Passes over the rows that checked the data."""
    orders: tuple[int, ...]
    """Orders of expansion that the planner considers, the highest first."""

    @property
    @abstractmethod
    def mode_advice(self) -> str:
        """What to try when the search for the mode fails."""

    @property
    def identity(self) -> list[Any]:
        """What tells this model from others beside its rows, parameters and priors, in plain values."""
        return [self.n, self.names, repr(self.family), type(self).__name__]

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The parameters as variables of a result."""
        return (Output("beta", 0, self.d, tuple(self.names)),)

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is called; empty if it has no meaning."""
        return "exp(coefficient)"

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.source.n

    @property
    def rows_given(self) -> int:
        """Rows of the data; a model may put equal ones together, and then has fewer."""
        return self.n

    @property
    def d(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def has_local_bounds(self) -> bool:
        """Whether rows can be bounded in a ball, in whitened coordinates."""
        return self.predictors.designed

    @abstractmethod
    def starting_point(self, source: Source) -> Vector:
        """Return where the search for the mode of these rows, in memory, starts."""

    def refuse_improper(self, threads: int | None) -> None:  # noqa: B027
        """Raise if rows show that the posterior does not exist, although a search might find a mode."""

    def reason_without_mode(self, theta: Vector) -> str:
        """Return why there is no mode, as far as it shows where a search is; empty if it does not."""
        return ""

    def holding_ridge(self, source: Source) -> Vector:
        """Return precisions that keep the mode of a few rows finite; none by default."""
        return np.zeros(self.d)

    @abstractmethod
    def refuse_bounds(self, m: int, *, local: bool) -> None:
        """Raise if rows have no bounds of that kind on derivatives of order m."""

    def part_of(self, source: Source) -> Self:
        """Return the same model of some of its rows, for forecasts."""
        part = copy.copy(self)
        part.__dict__.pop("setup", None)
        part.source = source
        return part
