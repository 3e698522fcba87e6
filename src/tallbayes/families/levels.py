"""What rows of ordered levels have in common, whatever their link."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tallbayes.families.base import Vector
from tallbayes.families.rows import RowsByAddress


@dataclass(frozen=True, eq=False)
class LevelRows(RowsByAddress):
    """Rows of ordered levels, with the cut points above and below each as predictors.

    Parameters
    ----------
    levels : int
        How many levels there are.
    """

    levels: int
    sums = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])

    @property
    def parameters(self) -> Vector:
        """The number of levels."""
        return np.array([float(self.levels)])

    @abstractmethod
    def rounded(self, level: int, eta: Vector, move: Vector, apart: float, order: int) -> float:
        """Return how far rounding can be off in a remainder; of a level between others, with its cuts so far apart."""

    def inside(self, level: int) -> bool:
        """Return whether there are levels on both sides of one."""
        return 0 < level < self.levels - 1

    def rounding(
        self, response: Vector, eta: Vector, old: Vector, new: Vector, order: int
    ) -> tuple[float, Callable[[Vector], float]]:
        """Return how far rounding can be off in a row's two remainders, and how errors of its predictors count."""
        level = int(response[0])
        apart = float(eta[0] - eta[1]) if self.inside(level) else 1.0

        def per_predictor(products: Vector) -> float:
            return (order + 2) * float(np.sum(products)) * (1.0 + (1.0 / apart if apart > 0.0 else math.inf))

        return sum(self.rounded(level, eta, move, apart, order) for move in (old, new)), per_predictor
