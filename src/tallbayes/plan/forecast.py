"""A forecast for each order, from a sample of rows and of pairs of states: no pass over all rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.target import row_intensity
from tallbayes.models import Regression
from tallbayes.plan import costs
from tallbayes.sources.rows import Rows
from tallbayes.sources.whitened import fill_local_bounds
from tallbayes.surrogate.basis import Basis
from tallbayes.surrogate.bounds import Bound, default_radius, shift, state_factor

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROWS, PAIRS, FEW_PAIRS = 2048, 256, 12
FULL = 0
"""The "order" of plain Metropolis-Hastings."""


class Forecast(NamedTuple):
    """What a kernel is expected to do with a model, with independent proposals."""

    order: int
    """FULL stands for plain Metropolis-Hastings."""
    rows: float
    """Rows looked at in a step."""
    acceptance: float
    setup: float
    """Nanoseconds before the first step, beyond the mode."""
    per_draw: float
    """Nanoseconds for one effective draw."""

    def total(self, draws: int) -> float:
        """Return the nanoseconds for so many effective draws, set-up included."""
        return self.setup + draws * self.per_draw


def forecast(model: Regression, basis: Basis, orders: tuple[int, ...]) -> list[Forecast]:
    """Return a forecast for each order.

    Parameters
    ----------
    model : Regression
        The model.
    basis : Basis
        Its mode and coordinates.
    orders : tuple of int
        Orders to look at, 1 to 3; FULL stands for plain Metropolis-Hastings.

    Returns
    -------
    list of Forecast
        In the order of `orders`.
    """
    n, d = model.n, model.d
    part = model.source if n <= ROWS else model.source.subsample(ROWS)
    share = n / part.n
    rng = np.random.default_rng(0)
    here, there = rng.standard_normal((PAIRS, d)), rng.standard_normal((PAIRS, d))
    whitening, curve = basis.whitening, model.family.curve
    radius = default_radius(n, d)
    found = []
    for order in orders:
        k = 2 if order == FULL else order  # what plain Metropolis-Hastings rejects is the remainder of order 2
        few = here[:FEW_PAIRS], there[:FEW_PAIRS]
        rises, falls = _intensities(part.rows, curve, whitening.centre, whitening.matrix, k, *few)
        if order == FULL:
            acceptance = float(np.mean(np.minimum(1.0, np.exp(share * (falls - rises)))))
            found.append(_forecast(order, float(n), acceptance, 0.0, n * costs.full_row(d)))
            continue
        psi = np.empty(part.n)
        critical = model.family.critical_points(k + 1)
        inverse = whitening.inverse_root
        fill_local_bounds(part.rows, curve, whitening.centre, inverse, k + 1, radius, critical, 0, part.n, psi)
        bound = Bound(True, k, share * float(np.sum(psi)), radius, float(n))
        rates = _rates(bound, whitening.matrix, here, there)
        full = rates >= n
        rows = float(np.mean(np.where(full, n, rates)))
        looking = np.where(full, 2.0 * n * costs.full_row(d), np.minimum(rates, n) * costs.random_row(n, d))
        acceptance = float(np.mean(np.exp(-share * rises)))
        cost = costs.step(d, order) + float(np.mean(looking))
        found.append(_forecast(order, rows, acceptance, costs.expansion(n, d, order), cost))
    return found


def _forecast(order: int, rows: float, acceptance: float, setup: float, cost: float) -> Forecast:
    efficiency = max(acceptance / (2.0 - acceptance), 1e-3)  # of an independence sampler
    return Forecast(order, rows, acceptance, setup, cost / efficiency)


@compiled
def _rates(bound: Bound, whitening: Matrix, here: Matrix, there: Matrix) -> Vector:
    rates = np.empty(here.shape[0])
    for p in range(rates.size):
        distance, other = np.sqrt(np.sum(here[p] ** 2)), np.sqrt(np.sum(there[p] ** 2))
        rates[p] = bound.total * state_factor(bound, whitening, here[p], distance, there[p], other)
    return rates


@compiled
def _intensities(
    rows: Rows, curve: object, centre: Vector, whitening: Matrix, order: int, here: Matrix, there: Matrix
) -> tuple[Vector, Vector]:
    """Return for each pair the sum of the rows' intensities, and that of the step back."""
    X, y, weight, offset = rows
    pairs, d = here.shape
    rises, falls = np.zeros(pairs), np.zeros(pairs)
    move, other = np.empty(d), np.empty(d)
    for p in range(pairs):
        shift(whitening, here[p], move)
        shift(whitening, there[p], other)
        for i in range(X.shape[0]):
            rises[p] += row_intensity(curve, order, X, y, weight, offset, centre, i, move, other)
            falls[p] += row_intensity(curve, order, X, y, weight, offset, centre, i, other, move)
    return rises, falls
