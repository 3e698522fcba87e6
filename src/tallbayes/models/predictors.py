r"""How parameters become the predictors of a row, eta_i = A_i theta, and how derivatives come back.

A row's potential is a function of its q predictors. Passes over rows go through one of these classes, so that they
need not know what A_i is: one line of the design (`Linear`, q = 1), or every parameter by itself (`Identity`,
q = d, for rows that are any function of the parameters).
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.products import row_lengths, times_transposed, weighted_gram
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Predictors(ABC):
    """The map from parameters to the predictors of a row; arrays have a row of data in each column."""

    linear: bool
    """Whether there is one predictor, x_i . theta + offset_i: what compiled chains compute themselves."""

    @abstractmethod
    def count(self, d: int) -> int:
        """Return q, the number of predictors of a row."""

    @abstractmethod
    def at(self, block: Block, theta: Vector) -> Matrix:
        """Return the predictors of each row, q x rows, offsets included."""

    def at_many(self, block: Block, thetas: Matrix) -> NDArray[np.float64]:
        """Return the predictors of each row at several points, which are in lines: q x points x rows."""
        return np.stack([self.at(block, theta) for theta in thetas], axis=1)

    @abstractmethod
    def moves(self, block: Block, change: Vector) -> Matrix:
        """Return how far predictors move when theta moves by ``change``, q x rows."""

    @abstractmethod
    def norms(self, block: Block, inverse_root: Matrix) -> Matrix:
        """Return how far each predictor moves at most for a unit step in whitened coordinates, q x rows."""

    @abstractmethod
    def gradient(self, block: Block, slopes: Matrix) -> Vector:
        """Return the gradient in theta, from first derivatives in the predictors, q x rows."""

    @abstractmethod
    def hessian(self, block: Block, curvatures: Matrix, inverse_root: Matrix | None = None) -> Matrix:
        """Return the Hessian in theta, or in whitened coordinates, from packed second derivatives."""


class Linear(Predictors):
    """One linear predictor for each row."""

    linear = True

    def count(self, d: int) -> int:
        """Return one."""
        return 1

    def at(self, block: Block, theta: Vector) -> Matrix:
        """Return x_i . theta + offset_i."""
        return np.asarray((block.X @ theta + block.offset)[None])

    def at_many(self, block: Block, thetas: Matrix) -> NDArray[np.float64]:
        """Return x_i . theta + offset_i at each point, by one product of matrices."""
        out = block.X @ thetas.T
        if block.offset.size > 1 or block.offset[0] != 0.0:
            out += block.offset[:, None]
        return np.asarray(out.T[None])  # the draws of a row are beside each other in memory

    def moves(self, block: Block, change: Vector) -> Matrix:
        """Return x_i . change."""
        return np.asarray((block.X @ change)[None])

    def norms(self, block: Block, inverse_root: Matrix) -> Matrix:
        """Return a_i = |L^-1 x_i|."""
        white = self.whitened(block, inverse_root)
        return row_lengths(white)[None]

    def gradient(self, block: Block, slopes: Matrix) -> Vector:
        """Return the slopes' sum of rows."""
        return np.asarray(slopes[0] @ block.X)

    def hessian(self, block: Block, curvatures: Matrix, inverse_root: Matrix | None = None) -> Matrix:
        """Return X' C X, or that of the whitened rows."""
        rows = block.X if inverse_root is None else self.whitened(block, inverse_root)
        return weighted_gram(rows, curvatures[0])

    def whitened(self, block: Block, inverse_root: Matrix) -> Matrix:
        """Return L^-1 x_i in each line."""
        return times_transposed(block.X, inverse_root)


class Identity(Predictors):
    """Every parameter is a predictor of every row; there is no design."""

    linear = False

    def count(self, d: int) -> int:
        """Return the number of parameters."""
        return d

    def at(self, block: Block, theta: Vector) -> Matrix:
        """Return theta for each row."""
        return np.repeat(theta[:, None], block.count, axis=1)

    def moves(self, block: Block, change: Vector) -> Matrix:
        """Return the change for each row."""
        return np.repeat(change[:, None], block.count, axis=1)

    def norms(self, block: Block, inverse_root: Matrix) -> Matrix:
        """Return the length of each column of L^-1."""
        return np.repeat(np.linalg.norm(inverse_root, axis=0)[:, None], block.count, axis=1)

    def gradient(self, block: Block, slopes: Matrix) -> Vector:
        """Return the sum of the slopes."""
        return np.asarray(np.sum(slopes, axis=1))

    def hessian(self, block: Block, curvatures: Matrix, inverse_root: Matrix | None = None) -> Matrix:
        """Return the sum of the rows' matrices, in whitened coordinates if asked for."""
        sums = np.sum(curvatures, axis=1)
        d = round((np.sqrt(8.0 * sums.size + 1.0) - 1.0) / 2.0)
        matrix = np.zeros((d, d))
        matrix[np.tril_indices(d)] = sums
        matrix += np.tril(matrix, -1).T
        return matrix if inverse_root is None else inverse_root @ matrix @ inverse_root.T
