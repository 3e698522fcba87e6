"""Choose a kernel, set it up, and rehearse it: everything that happens before the first draw."""

from dataclasses import dataclass, replace

import numpy as np

from tallbayes.kernels import Kernel, MetropolisHastings, ScalableMH
from tallbayes.kernels.base import Prepared
from tallbayes.kernels.state import Draws
from tallbayes.models import Model
from tallbayes.plan import costs
from tallbayes.plan.forecast import Forecast, forecast
from tallbayes.results.mixing import FEWEST, effective_draws
from tallbayes.surrogate.basis import Basis, find_basis
from tallbayes.surrogate.bounds import Global, Local

REHEARSAL_STEPS, SKETCHED_STEPS = 1500, 6000
"""Steps of a rehearsal; more with a sketch, where few of many events look at a row, and each costs little."""
REHEARSAL_ROWS = 20_000
"""Rows that a rehearsal may look at; more if that is only a few hundred steps of a small model."""
BURN_IN = 0.2
STICKY, MOST_WORK = 0.1, 2e8
"""Effective draws per step below which a walk on all rows is tried too, if it takes fewer nanoseconds than this."""
TOO_MANY_PASSES = 0.5
"""Rows' worth of full passes, as a share of the rows drawn, above which a larger ball is tried."""


@dataclass(frozen=True)
class Rehearsal:
    """What the kernel did in a short run of its own, on a random stream of its own."""

    steps: int
    acceptance: float
    rows_per_draw: float
    full_per_million: float
    """Steps on all rows in a million: those seen, and the Gaussian tail outside the ball."""
    efficiency: float
    """Effective draws per step, roughly."""


@dataclass(frozen=True)
class Chosen:
    """A kernel that is ready to run, with the reasons for it."""

    kernel: Kernel
    prepared: Prepared
    forecasts: list[Forecast]
    """Of every kernel that was considered, the best first; empty if the user left nothing open."""
    rehearsal: Rehearsal
    stuck: str = ""
    """What was forecast to be best but did not move, and how little."""


def choose(model: Model, kernel: Kernel | None, draws: int, *, threads: int | None = None) -> Chosen:
    """Fill in what the user left open, set the kernel up, and rehearse it.

    Parameters
    ----------
    model : Model
        The model.
    kernel : Kernel or None
        What the user fixed; None leaves everything open.
    draws : int
        Draws wanted from all chains together: a long run pays for a longer set-up.
    threads : int or None
        Threads for passes over the rows.

    Returns
    -------
    Chosen
        The kernel, prepared, with forecasts and rehearsal. The same model always gets the same one.
    """
    basis = find_basis(model, threads=threads)
    forecasts: list[Forecast] = []
    open_choice = kernel is None
    if kernel is None or (isinstance(kernel, ScalableMH) and kernel.order is None):
        forecasts = forecast(model, basis, draws, thinning_only=kernel is not None)
        forecasts.sort(key=lambda f: f.total(draws))
        best = forecasts[0].kernel
        kernel = best if kernel is None else _filled(kernel, best)
    prepared = kernel.prepare(model, threads=threads, basis=basis)
    chosen = Chosen(kernel, prepared, forecasts, rehearse(model, prepared))
    chosen_freely = isinstance(kernel, ScalableMH) and kernel.bound in (None, Local()) and kernel.truncation != 0.0
    if chosen_freely and prepared.target.bound.local:
        chosen = _with_room(model, chosen, basis, threads)
    return _unstuck(model, chosen, basis, threads) if open_choice else chosen


def _with_room(model: Model, chosen: Chosen, basis: Basis, threads: int | None) -> Chosen:
    """Enlarge the ball while the posterior reaches further than a Gaussian, and it pays."""
    for _ in range(3):
        rehearsal = chosen.rehearsal
        wasted = rehearsal.full_per_million * 1e-6 * model.n
        if wasted <= TOO_MANY_PASSES * max(rehearsal.rows_per_draw - wasted, 0.1):
            break
        wider = replace(chosen.kernel, bound=Local(1.25 * chosen.prepared.target.bound.radius))  # type: ignore[type-var]
        prepared = wider.prepare(model, threads=threads, basis=basis)
        again = rehearse(model, prepared)
        if again.rows_per_draw >= rehearsal.rows_per_draw:
            break
        chosen = Chosen(wider, prepared, chosen.forecasts, again)
    return chosen


def _unstuck(model: Model, chosen: Chosen, basis: Basis, threads: int | None) -> Chosen:
    """Take a walk on all rows if chains stick and it does better: few rows have tails that no expansion shows."""
    walk = MetropolisHastings()
    work = REHEARSAL_STEPS * model.n * costs.full_row(model.d)
    if chosen.rehearsal.efficiency >= STICKY or work > MOST_WORK or chosen.kernel == walk:
        return chosen
    prepared = walk.prepare(model, threads=threads, basis=basis)
    best, efficiency = chosen.forecasts[0], chosen.rehearsal.efficiency
    why = f"{best.name}: its chains stuck in a rehearsal (about {efficiency:.1g} effective draws per step)"
    as_forecast = [f for f in chosen.forecasts if f.kernel == walk]
    other = Chosen(walk, prepared, as_forecast, rehearse(model, prepared), stuck=why)
    times = [nanoseconds(model, c.prepared, c.rehearsal, 0.0) / c.rehearsal.efficiency for c in (chosen, other)]
    return other if times[1] < times[0] else chosen


def nanoseconds(model: Model, prepared: Prepared, rehearsal: Rehearsal, drawn: float) -> float:
    """Return the cost of a step, from what the rehearsal did and the rows drawn from a sketch."""
    n, d = model.n, model.d
    order = prepared.plan.get("order")
    if order is None and rehearsal.full_per_million > 0.0:
        return n * costs.full_row(d)
    if order is None:
        return costs.step(d, 1) + rehearsal.rows_per_draw * costs.random_row(n, d)
    passes = rehearsal.full_per_million * 1e-6
    rows = max(rehearsal.rows_per_draw - passes * n, 0.0)
    sketched = drawn * costs.sketched_row(d) + min(1.0, drawn) * costs.sketched_step(n, d)
    trials, every = prepared.proposal.inner, prepared.proposal.walk_every
    inner = (trials - 1) * (costs.step(d, order) + costs.cubic(d)) if trials > 1 else 0.0
    walks = costs.walk(d, order) / every if every else 0.0
    looking = rows * costs.random_row(n, d) + sketched + passes * 2 * n * costs.full_row(d)
    return costs.step(d, order) + inner + walks + looking


def _filled(kernel: ScalableMH, best: Kernel) -> Kernel:
    """Return the user's kernel with order and sketch as in the best, where they were left open."""
    assert isinstance(best, ScalableMH)
    sketch = best.sketch and not isinstance(kernel.bound, Global) if kernel.sketch is None else kernel.sketch
    return replace(kernel, order=best.order, sketch=sketch)


def rehearse(model: Model, prepared: Prepared) -> Rehearsal:
    """Run a prepared kernel for a moment, always on the same random stream, and report what it did."""
    from scipy.special import chdtrc

    n, d = model.n, model.d
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(20190)))
    state = prepared.initial_state(prepared.target, rng.standard_normal(d), rng)
    sketched = prepared.target.sketch.facts.size > 0  # then most rows are not looked at, and cost little
    budget = max(REHEARSAL_ROWS * (10 if sketched else 1), min(1000 * n, 1_000_000))
    room = SKETCHED_STEPS if sketched else REHEARSAL_STEPS
    out = Draws(
        np.empty((room, d)),
        np.empty(room, dtype=np.bool_),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.bool_),
    )
    state, steps = prepared.run_chunk(prepared.target, prepared.proposal, state, rng, out, budget)
    steps = max(steps, 1)
    first = int(BURN_IN * steps)
    rows = out.rows_touched[first:steps]
    # Few events say little about their mean; the expected numbers of all steps say it exactly.
    few = rows.sum() < 1000
    spread = np.sqrt(np.mean(out.z[first:steps] ** 2))
    bound = prepared.target.bound
    outside = float(chdtrc(d, (bound.radius / max(spread, 1.0)) ** 2)) if np.isfinite(bound.radius) else 0.0
    seen = float(np.mean(out.full_pass[first:steps]))
    kept = out.z[None, first:steps]
    efficiency = float(np.min(effective_draws(kept))) / kept.shape[1] if kept.shape[1] >= FEWEST else 1.0
    return Rehearsal(
        steps,
        float(np.mean(out.accepted[first:steps])),
        state.exposure / steps if few else float(np.mean(rows)),
        1e6 * max(seen, outside),
        max(min(efficiency, 1.0), 1e-6),
    )
