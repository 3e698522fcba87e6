"""The Taylor expansion of the negative log posterior around the centre, in whitened coordinates."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.models.products import packed_indices
from tallbayes.setup.exact_prior import ExactPrior, exact_prior
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import Polynomial, polynomial

Vector = NDArray[np.float64]


class Expansion(NamedTuple):
    """Polynomials in z, without constants, for the prior and for the surrogate; and what is no polynomial."""

    order: int
    prior: Polynomial
    """Normal priors."""
    surrogate: Polynomial
    """Normal priors plus the likelihood's Taylor expansion."""
    exact: ExactPrior
    """Other priors, to be added to either."""


def expand(model: Model, metric: Metric, order: int, cubic: Vector | None) -> Expansion:
    """Return the Taylor expansion of the given order, 0 to 3 (order 0 is the prior alone).

    Parameters
    ----------
    model : Model
        The model.
    metric : Metric
        Coordinates and centre of the expansion.
    order : int
        0 for the plain factorisation, 1, 2, or 3.
    cubic : array or None
        The third-order term, for order 3 (`third_order_term`).

    Returns
    -------
    Expansion
        The prior and the surrogate as polynomials in z.
    """
    exact = exact_prior(model.coefficient_priors, metric.centre, metric.matrix)
    prior = polynomial(metric.prior_gradient, quadratic=metric.prior_hessian)
    if order == 0:
        return Expansion(0, prior, prior, exact)
    gradient = metric.gradient - metric.stand_in_gradient
    if order == 1:
        return Expansion(1, prior, polynomial(gradient, quadratic=metric.prior_hessian), exact)
    surrogate = polynomial(
        gradient, isotropic=1.0, quadratic=-metric.stand_in_hessian, cubic=cubic if order == 3 else None
    )
    return Expansion(order, prior, surrogate, exact)


def third_order_term(model: Model, metric: Metric, *, threads: int | None = None) -> Vector:
    """Return the packed coefficients of the cubic term, in one pass: third derivatives times multiplicity / 6."""
    total = model.source.reduce(
        passes.third_derivatives, model.rows, model.predictors, metric.centre, metric.inverse_root, threads=threads
    )
    return cubic_from(model, metric, total)


def cubic_from(model: Model, metric: Metric, thirds: Any) -> Vector:
    """Return the packed coefficients of the cubic term from what the third derivatives are made of."""
    a, b, c = packed_indices(model.d)
    multiplicity = np.where((a == b) & (b == c), 1.0, np.where((a == b) | (b == c), 3.0, 6.0))
    return np.asarray(model.predictors.packed_third(thirds, metric.inverse_root) * multiplicity / 6.0)
