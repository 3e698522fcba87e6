"""A forecast for each kernel, from a sample of rows and of pairs of states: no pass over all rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.errors import InputError
from tallbayes.kernels import Kernel, MetropolisHastings, ScalableMH
from tallbayes.kernels.target import row_intensity
from tallbayes.models import Model
from tallbayes.plan import costs
from tallbayes.proposals import CrankNicolson
from tallbayes.sources.rows import Rows
from tallbayes.surrogate.basis import Basis
from tallbayes.surrogate.bounds import (
    Bound,
    Global,
    Local,
    default_radius,
    distance_from_centre,
    shift,
    state_factor,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROWS, PAIRS, FEW_PAIRS = 2048, 256, 12
REPEATS = 2.0
"""Draws reckoned for each one asked for: draws are correlated, and who samples once often samples again."""


class Forecast(NamedTuple):
    """What a kernel is expected to do with a model."""

    name: str
    kernel: Kernel
    rows: float
    """Rows drawn in a step; a sketch settles most of them without a look."""
    acceptance: float
    setup: float
    """Nanoseconds before the first step, beyond the mode."""
    per_draw: float
    """Nanoseconds for one effective draw."""

    def total(self, draws: int) -> float:
        """Return the nanoseconds for so many effective draws and their REPEATS, set-up included."""
        return self.setup + REPEATS * draws * self.per_draw


def forecast(model: Model, basis: Basis, draws: int, *, thinning_only: bool) -> list[Forecast]:
    """Return a forecast for each kernel that the planner knows, made for independent proposals.

    Parameters
    ----------
    model : Model
        The model.
    basis : Basis
        Its mode and coordinates.
    draws : int
        Draws wanted from all chains together, for choices that pay only in long runs.
    thinning_only : bool
        Whether to leave out kernels that make a pass over all rows in every step.

    Returns
    -------
    list of Forecast
        One for each kernel.
    """
    n, d = model.n, model.d
    if thinning_only and not model.orders:
        raise InputError(
            "ScalableMH: the model has no bounds of its rows. Give some, e.g. tb.Factors(..., bounds={3: ...}), or "
            "use tb.kernels.MetropolisHastings()."
        )
    part = model if n <= ROWS else model.subsample(ROWS)
    share = n / part.n
    rng = np.random.default_rng(0)
    here, there = rng.standard_normal((PAIRS, d)), rng.standard_normal((PAIRS, d))
    whitening, curve = basis.whitening, model.family.curve
    radius = default_radius(n, d)
    local = model.has_local_bounds
    kind = Local(radius) if local else Global()
    found = []
    for order in model.orders:
        # At order 1 the proposal is a walk.
        goal = there if order > 1 else here + there
        few = here[:FEW_PAIRS], goal[:FEW_PAIRS]
        rises, falls = _intensities(part.source.rows, curve, whitening.centre, whitening.matrix, order, *few)
        psi, shares, reach = kind.row_bounds(part, whitening, order, threads=1)
        total = share * float(np.sum(psi))
        rates = _rates(Bound(local, order, total, total, total, reach, float(n)), whitening.matrix, here, goal)
        # Of the events, those that a row's share does not clear; rises and falls are alike for independent pairs.
        used = float(np.sum(psi * np.mean(shares, axis=1))) * share / total if total > 0.0 else 1.0
        full = rates >= n
        rows = float(np.mean(np.where(full, n, used * rates)))
        pass_cost = 2.0 * n * costs.full_row(d)
        events = np.where(full, 0.0, rates)
        passes = float(np.mean(full)) * pass_cost
        plain = passes + float(np.mean(events)) * (costs.EVENT + used * costs.random_row(n, d))
        sketched = passes + float(np.mean(events)) * (costs.EVENT + used * costs.sketched_row(d))
        sketch = local and draws * (plain - sketched) > costs.sketch(n, d)
        looking = sketched if sketch else plain
        product = float(np.mean(np.exp(-share * rises)))
        ratio = float(np.mean(np.minimum(1.0, np.exp(share * (falls - rises)))))
        step, setup = costs.step(d, order), costs.expansion(n, d, order)
        # An independence sampler that accepts a share a of its proposals has about a / (2 - a) effective draws.
        found.append(
            Forecast(
                f"order {order}" + (", sketched" if sketch else ""),
                ScalableMH(order=order, sketch=sketch) if local else ScalableMH(order=order, bound=kind),
                rows,
                product,
                setup + (costs.sketch(n, d) if sketch else 0.0),
                (step + looking) / (_efficiency(product) if order > 1 else max(product, 1e-3) / d),
            )
        )
        if thinning_only:
            continue
        if order == 3:
            name, kernel = "order 3, accepted on all rows", ScalableMH(order=3, truncation=0.0)
            per_draw = (7.0 * step + pass_cost) / (_efficiency(ratio) * ratio**2)
            found.append(Forecast(name, kernel, float(n), ratio, setup, per_draw))
        elif order == 2:
            # Proposals from a Gaussian stick in the tails of a posterior that is far from one: count that twice.
            name, other = "plain Metropolis-Hastings", MetropolisHastings(CrankNicolson(0.0, walk_every=4))
            per_draw = n * costs.full_row(d) / (_efficiency(ratio) * ratio**2)
            found.append(Forecast(name, other, float(n), ratio, 0.0, per_draw))
    if not thinning_only:
        # A walk that is accepted a quarter of the time has about one effective draw in 4 d.
        walk = 4.0 * d * n * costs.full_row(d)
        found.append(Forecast("a walk on all rows", MetropolisHastings(), float(n), 0.25, 0.0, walk))
    return found


def _efficiency(acceptance: float) -> float:
    return max(acceptance / (2.0 - acceptance), 1e-3)


@compiled
def _rates(bound: Bound, whitening: Matrix, here: Matrix, there: Matrix) -> Vector:
    rates = np.empty(here.shape[0])
    for p in range(rates.size):
        distance = distance_from_centre(bound, whitening, here[p])
        other = distance_from_centre(bound, whitening, there[p])
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
