r"""The Taylor expansion of the potential around the mode, in whitened coordinates.

With H = L L' the Hessian of the whole potential at the centre, z = L' (theta - centre), so that theta =
centre + W z with W = L^-T, and the second-order surrogate is linear . z + |z|^2 / 2.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.models import Model
from tallbayes.sources import whitened
from tallbayes.surrogate.exact_prior import ExactPrior, exact_prior
from tallbayes.surrogate.mode import Mode
from tallbayes.surrogate.polynomial import Polynomial, packed_size, polynomial

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int64]

BADLY_CONDITIONED = 1e-5
"""Least eigenvalue of the scaled Hessian below which whitening is repeated on whitened rows."""


class Whitening(NamedTuple):
    """Coordinates in which the posterior is close to a standard normal."""

    centre: Vector
    root: Matrix
    """L, lower triangular."""
    inverse_root: Matrix
    """L^-1, lower triangular."""
    gradient: Vector
    """Of the whole potential at the centre, in z; almost zero at a mode."""
    prior_gradient: Vector
    """Of normal priors, in z."""
    prior_hessian: Matrix
    stand_in_gradient: Vector
    """Of what stands in for other priors: part of the gradient and of the Hessian, not of the posterior."""
    stand_in_hessian: Matrix

    @property
    def matrix(self) -> Matrix:
        """W = L^-T: theta = centre + W z."""
        return np.ascontiguousarray(self.inverse_root.T)


def whiten(model: Model, mode: Mode, *, threads: int | None = None) -> Whitening:
    """Return whitened coordinates at the mode.

    Parameters
    ----------
    model : Model
        The model.
    mode : Mode
        Its mode, or any point where the Hessian is positive definite.
    threads : int or None
        Threads for the second pass that badly conditioned designs need.

    Returns
    -------
    Whitening
        Coordinates in which the Hessian is the identity, to rounding.
    """
    prior = model.coefficient_priors
    _, slope, curvature = prior.stand_in(mode.theta)
    other = np.isin(np.arange(model.d), prior.other)
    scale = np.sqrt(np.diag(mode.hessian))
    correlation = mode.hessian / np.outer(scale, scale)
    root = scale[:, None] * np.linalg.cholesky(correlation)
    if np.linalg.eigvalsh(correlation)[0] < BADLY_CONDITIONED:
        # Cancellation leaves W' H W off the identity; a second factor, from whitened rows, repairs it.
        inverse = _inverse_lower(root)

        def part(first: int, last: int) -> Matrix:
            hessian = np.zeros((model.d, model.d))
            whitened.sum_whitened_hessian(
                model.source.rows, model.family.curve, mode.theta, inverse, first, last, hessian
            )
            return hessian

        lower = sum(model.source.map_parts(part, threads), np.zeros((model.d, model.d)))
        hessian = lower + np.tril(lower, -1).T + (inverse * curvature) @ inverse.T
        root = root @ np.linalg.cholesky(hessian)
    inverse = _inverse_lower(root)
    return Whitening(
        mode.theta,
        root,
        inverse,
        inverse @ mode.gradient,
        inverse @ prior.normal_gradient(mode.theta),
        (inverse * prior.precision) @ inverse.T,
        inverse @ np.where(other, slope, 0.0),
        (inverse * np.where(other, curvature, 0.0)) @ inverse.T,
    )


def _inverse_lower(root: Matrix) -> Matrix:
    return np.ascontiguousarray(np.tril(np.linalg.solve(root, np.eye(root.shape[0]))))


class Expansion(NamedTuple):
    """Polynomials in z, without constants, for the prior and for the surrogate; and what is no polynomial."""

    order: int
    prior: Polynomial
    """Normal priors."""
    surrogate: Polynomial
    """Normal priors plus the likelihood's Taylor expansion."""
    exact: ExactPrior
    """Other priors, to be added to either."""


def expand(model: Model, whitening: Whitening, order: int, *, threads: int | None = None) -> Expansion:
    """Return the Taylor expansion of the given order, 0 to 3 (order 0 is the prior alone).

    Parameters
    ----------
    model : Model
        The model.
    whitening : Whitening
        Coordinates and centre of the expansion.
    order : int
        0 for the plain factorisation, 1, 2, or 3.
    threads : int or None
        Threads for the pass that order 3 takes.

    Returns
    -------
    Expansion
        The prior and the surrogate as polynomials in z.
    """
    w = whitening
    exact = exact_prior(model.coefficient_priors, w.centre, w.matrix)
    prior = polynomial(w.prior_gradient, quadratic=w.prior_hessian)
    if order == 0:
        return Expansion(0, prior, prior, exact)
    gradient = w.gradient - w.stand_in_gradient
    if order == 1:
        return Expansion(1, prior, polynomial(gradient, quadratic=w.prior_hessian), exact)
    cubic = _cubic(model, w, threads) if order == 3 else None
    surrogate = polynomial(gradient, isotropic=1.0, quadratic=-w.stand_in_hessian, cubic=cubic)
    return Expansion(order, prior, surrogate, exact)


def _cubic(model: Model, whitening: Whitening, threads: int | None) -> Vector:
    """Return the packed coefficients of the cubic term: sums of third derivatives times multiplicity / 6."""
    size = packed_size(model.d)

    def part(first: int, last: int) -> Vector:
        packed = np.zeros(size)
        whitened.sum_cubic(
            model.source.rows,
            model.family.curve,
            whitening.centre,
            whitening.inverse_root,
            first,
            last,
            packed,
        )
        return packed

    total = sum(model.source.map_parts(part, threads), np.zeros(size))
    a, b, c = (np.concatenate(index) for index in zip(*_packed_indices(model.d), strict=True))
    multiplicity = np.where((a == b) & (b == c), 1.0, np.where((a == b) | (b == c), 3.0, 6.0))
    return total * multiplicity / 6.0


def _packed_indices(d: int) -> list[tuple[Indices, Indices, Indices]]:
    return [(np.full(b + 1, a), np.full(b + 1, b), np.arange(b + 1)) for a in range(d) for b in range(a + 1)]
