r"""Coordinates in which the posterior is close to a standard normal.

With H = L L' the Hessian of the negative log posterior at the centre, z = L' (theta - centre), so that theta =
centre + W z with W = L^-T, and the second-order surrogate is gradient . z + |z|^2 / 2.

L is lower triangular in some order of the coefficients: moving the first coordinate of z moves the first of them alone,
and the last coefficient is moved by the last coordinate alone.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.setup.mode import Mode

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BADLY_CONDITIONED = 1e-5
"""Least eigenvalue of the scaled Hessian below which whitening is repeated on whitened rows: rounding of the sums,
about 1e-16 / 1e-5 of the identity, is then no longer small beside what the expansion leaves out."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A centre, and the matrix that whitens around it."""

    centre: Vector
    root: Matrix
    """L, whose rows are in the order of the coefficients."""
    inverse_root: Matrix
    """L^-1, whose columns are."""
    order: NDArray[np.int64]
    """The order in which L is lower triangular."""
    gradient: Vector
    """Of the negative log posterior at the centre, in z; almost zero at a mode."""
    prior_gradient: Vector
    """Of normal priors, in z."""
    prior_hessian: Matrix
    stand_in_gradient: Vector
    """Of what stands in for other priors: part of the gradient and of the Hessian, not of the posterior."""
    stand_in_hessian: Matrix

    @property
    def d(self) -> int:
        """Number of parameters."""
        return int(self.centre.size)

    @property
    def triangular(self) -> bool:
        """Whether L is lower triangular in the order of the coefficients themselves."""
        return bool(np.array_equal(self.order, np.arange(self.d)))

    @cached_property
    def matrix(self) -> Matrix:
        """W = L^-T: theta = centre + W z."""
        return np.ascontiguousarray(self.inverse_root.T)

    def shift(self, z: Vector) -> Vector:
        """Return theta - centre of a point z, or of the points in the lines of a matrix."""
        return np.asarray(z @ self.inverse_root)

    def theta(self, z: Vector) -> Vector:
        """Return the parameters at a point z, or at the points in the lines of a matrix."""
        return self.centre + self.shift(z)

    def whiten(self, vector: Vector) -> Vector:
        """Return L^-1 of a gradient in theta: the same gradient in z."""
        return np.asarray(self.inverse_root @ vector)

    @property
    def newton_point(self) -> Vector:
        """Where the quadratic expansion has its minimum: the mode, but for its third derivatives."""
        return np.asarray(self.centre - self.inverse_root.T @ self.gradient)

    @cached_property
    def covariance(self) -> Matrix:
        """Of the Gaussian approximation: the inverse of the Hessian."""
        return np.asarray(self.inverse_root.T @ self.inverse_root)

    @property
    def variances(self) -> Vector:
        """Of the Gaussian approximation."""
        return np.asarray(np.sum(self.inverse_root**2, axis=0))


def metric_at(
    model: Model, mode: Mode, order: NDArray[np.int64] | None = None, *, threads: int | None = None
) -> Metric:
    """Return whitened coordinates at a mode, or at any point where the Hessian is positive definite.

    Parameters
    ----------
    model : Model
        The model.
    mode : Mode
        Its mode, with the derivatives there.
    order : array or None
        The order of the coefficients in which L is lower triangular; defaults to their own.
    threads : int or None
        Threads for the further pass that badly conditioned designs need.

    Returns
    -------
    Metric
        Coordinates in which the Hessian is the identity, to rounding.
    """
    prior = model.coefficient_priors
    _, slope, curvature = prior.stand_in(mode.theta)
    other = np.isin(np.arange(model.d), prior.other)
    order = np.arange(model.d) if order is None else order
    hessian = mode.hessian[np.ix_(order, order)]
    scale = np.sqrt(np.diag(hessian))
    correlation = hessian / np.outer(scale, scale)
    root = scale[:, None] * np.linalg.cholesky(correlation)
    back = np.argsort(order)
    if np.linalg.eigvalsh(correlation)[0] < BADLY_CONDITIONED:
        # Cancellation leaves W' H W off the identity; a second factor, from whitened rows, repairs it.
        inverse = np.ascontiguousarray(_inverse_lower(root)[:, back])
        likelihood = model.source.reduce(
            passes.whitened_hessian, model.rows, model.predictors, mode.theta, inverse, threads=threads
        )
        root = root @ np.linalg.cholesky(likelihood + (inverse * curvature) @ inverse.T)
    inverse = np.ascontiguousarray(_inverse_lower(root)[:, back])
    return Metric(
        mode.theta,
        np.ascontiguousarray(root[back]),
        inverse,
        order,
        inverse @ mode.gradient,
        inverse @ prior.normal_gradient(mode.theta),
        (inverse * prior.precision) @ inverse.T,
        inverse @ np.where(other, slope, 0.0),
        (inverse * np.where(other, curvature, 0.0)) @ inverse.T,
    )


def _inverse_lower(root: Matrix) -> Matrix:
    return np.ascontiguousarray(np.tril(np.linalg.solve(root, np.eye(root.shape[0]))))
