"""A forecast for each kernel, from a sample of rows and of pairs of states: no pass over all rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels import Kernel, MetropolisHastings, ScalableMH, costs
from tallbayes.models.base import Model
from tallbayes.models.subsamples import FEW_ROWS
from tallbayes.proposals import CrankNicolson
from tallbayes.setup.bounds import AllBounds, Bound, Global, Local, default_radius
from tallbayes.setup.bundles import Bundles, bundled
from tallbayes.setup.metric import Metric
from tallbayes.setup.setup import setup_of
from tallbayes.setup.sketch import draw_sketch, put_in_order
from tallbayes.sources.base import RANDOM_ACCESS, Block
from tallbayes.sources.supply import most_slots
from tallbayes.sources.threads import in_threads

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PAIRS, FEW_PAIRS = 256, 12
SURROGATE_STEPS = 7.0
"""Trials on the surrogate for each step on all rows: the default of `SurrogateSteps`."""


class Forecast(NamedTuple):
    """What a kernel is expected to do with a model."""

    name: str
    kernel: Kernel
    rows: float
    """Rows drawn in a step; a sketch settles most of them unread."""
    acceptance: float
    setup: float
    """Nanoseconds before the first step, beyond the mode."""
    per_draw: float
    """Nanoseconds for one effective draw."""
    events: float = 0.0
    """Rows drawn in a step at random, read or not: what a supply that is filled in advance must hold; with a sketch,
    bundles of rows."""

    def total(self, draws: int) -> float:
        """Return the nanoseconds for so many effective draws, set-up included."""
        return self.setup + draws * self.per_draw


def forecast(model: Model, metric: Metric, draws: int, *, thinning_only: bool) -> list[Forecast]:
    """Return a forecast for each kernel that the planner knows, made for independent proposals.

    Parameters
    ----------
    model : Model
        The model.
    metric : Metric
        Centre and coordinates.
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
    setup = setup_of(model)
    if setup.tails.whole:
        return [_on_different_rows(n, d, setup.tails.rows.table.shape[0])]
    part = setup.few_rows(FEW_ROWS)
    block = part.source.whole.converted()  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    here, there = rng.standard_normal((PAIRS, d)), rng.standard_normal((PAIRS, d))

    def of_order(order: int) -> list[Forecast]:
        # At order 1 the proposal is a walk.
        goal = there if order > 1 else here + there
        few = here[:FEW_PAIRS], goal[:FEW_PAIRS]
        product, ratio = _acceptances(part, block, metric, n / part.n, order, *few)
        thinning = _thinning(model, part, metric, order, product, here, goal, draws)
        others = [] if thinning_only else _on_all_rows(n, d, order, ratio, costs.reading(model.source))
        return [thinning, *others]

    # Trials on a cubic must be kept in a region, which a tail of several coefficients leaves.
    orders = [order for order in model.orders if order < 3 or not setup.tails.tied]
    found = [forecast for forecasts in in_threads(of_order, orders) for forecast in forecasts]
    if not thinning_only:
        # A walk that is accepted a quarter of the time has about one effective draw in 4 d.
        walk = 4.0 * d * (n * costs.full_row(d) + costs.reading(model.source))
        found.append(Forecast("a walk on all rows", MetropolisHastings(), float(n), 0.25, 0.0, walk))
    return found


def _acceptances(
    part: Model, block: Block, metric: Metric, share: float, order: int, here: Matrix, there: Matrix
) -> tuple[float, float]:
    """Return how much of its proposals a product over the rows accepts, and a single ratio of all rows."""
    eta = part.predictors.at(block, metric.centre)
    product = ratio = 0.0
    for z, other in zip(metric.shift(here), metric.shift(there), strict=True):
        old, new = part.predictors.moves(block, z), part.predictors.moves(block, other)
        before, after = part.rows.remainders(block.responses, eta, old, new, order)
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(block.weight * (after - before), nan=np.inf, posinf=np.inf, neginf=-np.inf)
        rises, falls = np.sum(np.maximum(change, 0.0)), np.sum(np.maximum(-change, 0.0))
        product += float(np.exp(-share * rises))
        ratio += float(np.exp(min(0.0, share * (falls - rises)))) if np.isfinite(rises) else 0.0
    return product / len(here), ratio / len(here)


def _thinning(
    model: Model, part: Model, metric: Metric, order: int, accepted: float, here: Matrix, there: Matrix, draws: int
) -> Forecast:
    """Return the forecast of a kernel that evaluates some rows only, with a sketch if the draws pay for it."""
    n, d = model.n, model.d
    local, share = model.has_local_bounds, n / part.n
    kind = Local(default_radius(n, d)) if local else Global()
    bounds = kind.of_rows(part, metric, order, threads=1)
    sums, radius = bounds.sums, bounds.radius
    total = share * sums.total
    rates = total * factors_of_pairs(Bound(local, order, *sums, radius, float(n)), metric, here, there)
    # Of the events, those that a row's share does not clear; rises and falls are alike for independent pairs.
    used = 0.5 * (sums.rising + sums.falling) / sums.total if total > 0.0 else 1.0
    full = ~(rates < n)
    thinned = np.where(full, 0.0, rates)
    events, any_event = float(np.mean(thinned)), float(np.mean(1.0 - np.exp(-thinned)))
    reading = costs.reading(model.source)
    passes = float(np.mean(full)) * (_full_pass(n, d) + reading)
    plain = passes + events * (costs.EVENT + used * costs.random_row(n, d) + reading / most_slots(d))
    step, sketch = plain, False
    can_sketch = local and model.predictors.linear and RANDOM_ACCESS in model.source.offers
    if can_sketch and draws * (plain - passes) > costs.sketch(n, d):
        bundles = _bundles_of(part, metric, bounds, order)
        bundle_events = events * bundles.total / sums.total
        sketched = passes + any_event * costs.sketched_step(n, d) + bundle_events * costs.bundle(d, bundles.size)
        sketch = draws * (plain - sketched) > costs.sketch(n, d)
        if sketch:
            step, events = sketched, bundle_events
    step += costs.step(d, order)
    return Forecast(
        f"order {order}" + (", sketched" if sketch else ""),
        ScalableMH(order=order, sketch=sketch, core=True) if local else ScalableMH(order=order, bound=kind),
        float(np.mean(np.where(full, n, used * rates))),
        accepted,
        costs.expansion(n, d, order) + (costs.sketch(n, d) if sketch else 0.0),
        step / (_efficiency(accepted) if order > 1 else max(accepted, 1e-3) / d),
        events,
    )


def _bundles_of(part: Model, metric: Metric, bounds: AllBounds, order: int) -> Bundles:
    """Return bundles of a few rows, which are like those of all."""
    sketch = draw_sketch(part, metric, threads=1)
    assert bounds.drawing.psi is not None
    put_in_order(sketch, bounds.drawing.psi, threads=1)
    return bundled(sketch, bounds.drawing, part.d, order, threads=1)


def factors_of_pairs(bound: Bound, metric: Metric, here: Matrix, there: Matrix) -> Vector:
    """Return phi of many pairs of states, as `event_factors` has it for one."""
    k = bound.order
    if bound.local:
        distances = [np.linalg.norm(z, axis=1) for z in (here, there)]
        length = np.linalg.norm(there - here, axis=1)
    else:
        distances = [np.sum(np.abs(metric.shift(z)), axis=1) for z in (here, there)]
        length = np.linalg.norm(metric.shift(there - here), axis=1)
    far = np.maximum(*distances)
    apart = distances[0] ** (k + 1) + distances[1] ** (k + 1)
    if k == 0:
        phi = length
    elif bound.local:
        phi = np.minimum(apart, (k + 1) * far**k * length)
    else:
        phi = apart
    return np.where(far > bound.radius, np.inf, phi)


def _on_all_rows(n: int, d: int, order: int, ratio: float, reading: float) -> list[Forecast]:
    """Return the forecast of a kernel that proposes from an expansion and accepts on all rows."""
    # Proposals from an expansion stick in the tails of a posterior that is far from it: count that twice.
    efficiency = _efficiency(ratio) * ratio**2
    if order == 3:
        name, kernel = "order 3, accepted on all rows", ScalableMH(order=3, truncation=0.0, core=True)
        per_draw = (SURROGATE_STEPS * costs.step(d, order) + _full_pass(n, d) + reading) / efficiency
        return [Forecast(name, kernel, float(n), ratio, costs.expansion(n, d, order), per_draw)]
    if order == 2:
        other = MetropolisHastings(CrankNicolson(0.0, walk_every=4))
        per_draw = (n * costs.full_row(d) + reading) / efficiency
        return [Forecast("plain Metropolis-Hastings", other, float(n), ratio, 0.0, per_draw)]
    return []


def _on_different_rows(n: int, d: int, different: int) -> Forecast:
    """Return the forecast where every different row is in the core: the surrogate is the posterior."""
    per_draw = costs.step(d, 2) + different * costs.core_row(d)
    kernel = ScalableMH(order=2, sketch=False, core=True)
    return Forecast("every different row", kernel, float(different), 1.0, costs.expansion(n, d, 2), per_draw)


def _full_pass(n: int, d: int) -> float:
    """Return the cost of a full step of a thinning kernel, which evaluates both ends."""
    return 2.0 * n * costs.full_row(d)


def _efficiency(acceptance: float) -> float:
    """Return the effective draws per draw of an independence sampler that accepts such a share, about."""
    return max(acceptance / (2.0 - acceptance), 1e-3)
