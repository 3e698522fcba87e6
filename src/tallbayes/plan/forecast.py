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
    rng = np.random.default_rng(0)
    here, there = rng.standard_normal((PAIRS, d)), rng.standard_normal((PAIRS, d))
    found = []
    for order in model.orders:
        # At order 1 the proposal is a walk.
        goal = there if order > 1 else here + there
        few = here[:FEW_PAIRS], goal[:FEW_PAIRS]
        product, ratio = _acceptances(model, part, basis, order, *few)
        found.append(_thinning(model, part, basis, order, product, here, goal, draws))
        if not thinning_only:
            found.extend(_on_all_rows(n, d, order, ratio))
    if not thinning_only:
        # A walk that is accepted a quarter of the time has about one effective draw in 4 d.
        walk = 4.0 * d * n * costs.full_row(d)
        found.append(Forecast("a walk on all rows", MetropolisHastings(), float(n), 0.25, 0.0, walk))
    return found


def _acceptances(
    model: Model, part: Model, basis: Basis, order: int, here: Matrix, there: Matrix
) -> tuple[float, float]:
    """Return how much of its proposals a product over the rows accepts, and a single ratio of all rows."""
    whitening, share = basis.whitening, model.n / part.n
    rises, falls = _intensities(
        part.source.rows, model.family.curve, whitening.centre, whitening.matrix, order, here, there
    )
    product = float(np.mean(np.exp(-share * rises)))
    return product, float(np.mean(np.exp(np.minimum(0.0, share * (falls - rises)))))


def _thinning(
    model: Model, part: Model, basis: Basis, order: int, accepted: float, here: Matrix, there: Matrix, draws: int
) -> Forecast:
    """Return the forecast of a kernel that looks at some rows only, with a sketch if the draws pay for it."""
    n, d, whitening = model.n, model.d, basis.whitening
    local, share = model.has_local_bounds, n / part.n
    kind = Local(default_radius(n, d)) if local else Global()
    psi, shares, radius = kind.row_bounds(part, whitening, order, threads=1)
    total = share * float(np.sum(psi))
    rates = _rates(Bound(local, order, total, total, total, radius, float(n)), whitening.matrix, here, there)
    # Of the events, those that a row's share does not clear; rises and falls are alike for independent pairs.
    used = float(np.sum(psi * np.mean(shares, axis=1))) * share / total if total > 0.0 else 1.0
    full = rates >= n
    thinned = np.where(full, 0.0, rates)
    events, any_event = float(np.mean(thinned)), float(np.mean(1.0 - np.exp(-thinned)))
    passes = float(np.mean(full)) * _full_pass(n, d)
    plain = passes + events * (costs.EVENT + used * costs.random_row(n, d))
    sketched = passes + any_event * costs.sketched_step(n, d)
    sketched += events * (costs.EVENT + used * costs.sketched_row(d))
    sketch = local and REPEATS * draws * (plain - sketched) > costs.sketch(n, d)
    step = costs.step(d, order) + (sketched if sketch else plain)
    return Forecast(
        f"order {order}" + (", sketched" if sketch else ""),
        ScalableMH(order=order, sketch=sketch) if local else ScalableMH(order=order, bound=kind),
        float(np.mean(np.where(full, n, used * rates))),
        accepted,
        costs.expansion(n, d, order) + (costs.sketch(n, d) if sketch else 0.0),
        step / (_efficiency(accepted) if order > 1 else max(accepted, 1e-3) / d),
    )


def _on_all_rows(n: int, d: int, order: int, ratio: float) -> list[Forecast]:
    """Return the forecast of a kernel that proposes from an expansion and accepts on all rows."""
    # Proposals from an expansion stick in the tails of a posterior that is far from it: count that twice.
    efficiency = _efficiency(ratio) * ratio**2
    if order == 3:
        name, kernel = "order 3, accepted on all rows", ScalableMH(order=3, truncation=0.0)
        per_draw = (7.0 * costs.step(d, order) + _full_pass(n, d)) / efficiency
        return [Forecast(name, kernel, float(n), ratio, costs.expansion(n, d, order), per_draw)]
    if order == 2:
        other = MetropolisHastings(CrankNicolson(0.0, walk_every=4))
        per_draw = n * costs.full_row(d) / efficiency
        return [Forecast("plain Metropolis-Hastings", other, float(n), ratio, 0.0, per_draw)]
    return []


def _full_pass(n: int, d: int) -> float:
    """Return the cost of a full step of a thinning kernel, which evaluates both ends."""
    return 2.0 * n * costs.full_row(d)


def _efficiency(acceptance: float) -> float:
    """Return the effective draws per draw of an independence sampler that accepts such a share, about."""
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
