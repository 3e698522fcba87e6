"""Choose a kernel, set it up, and rehearse it: everything that happens before the first draw."""

from dataclasses import dataclass, replace

import numpy as np

from tallbayes.kernels import Kernel, ScalableMH
from tallbayes.kernels.base import Prepared
from tallbayes.kernels.state import Draws
from tallbayes.models import Regression
from tallbayes.plan.forecast import Forecast, forecast
from tallbayes.surrogate.basis import find_basis
from tallbayes.surrogate.bounds import Global, Local

REHEARSAL_STEPS = 1500
REHEARSAL_ROWS = 20_000
"""Rows that a rehearsal may look at; more if that is only a few hundred steps of a small model."""
BURN_IN = 0.2
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


@dataclass(frozen=True)
class Chosen:
    """A kernel that is ready to run, with the reasons for it."""

    kernel: Kernel
    prepared: Prepared
    forecasts: list[Forecast]
    """Of every kernel that was considered, the best first; empty if the user left nothing open."""
    rehearsal: Rehearsal


def choose(model: Regression, kernel: Kernel | None, draws: int, *, threads: int | None = None) -> Chosen:
    """Fill in what the user left open, set the kernel up, and rehearse it.

    Parameters
    ----------
    model : Regression
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
    if kernel is None or (isinstance(kernel, ScalableMH) and kernel.order is None):
        forecasts = forecast(model, basis, draws, thinning_only=kernel is not None)
        forecasts.sort(key=lambda f: f.total(draws))
        best = forecasts[0].kernel
        kernel = best if kernel is None else _filled(kernel, best)
    prepared = kernel.prepare(model, threads=threads, basis=basis)
    rehearsal = rehearse(model, prepared)
    for _ in range(3):
        radius = prepared.target.bound.radius
        local = isinstance(kernel, ScalableMH) and (kernel.bound is None or kernel.bound == Local())
        wasted = rehearsal.full_per_million * 1e-6 * model.n
        if (
            not local
            or prepared.target.bound.truncation == 0.0
            or wasted <= TOO_MANY_PASSES * max(rehearsal.rows_per_draw - wasted, 0.1)
        ):
            break
        # The posterior reaches further than a Gaussian: take a larger ball.
        kernel = replace(kernel, bound=Local(1.25 * radius))  # type: ignore[type-var]
        prepared = kernel.prepare(model, threads=threads, basis=basis)
        rehearsal = rehearse(model, prepared)
    return Chosen(kernel, prepared, forecasts, rehearsal)


def _filled(kernel: ScalableMH, best: Kernel) -> Kernel:
    """Return the user's kernel with order and sketch as in the best, where they were left open."""
    assert isinstance(best, ScalableMH)
    sketch = best.sketch and not isinstance(kernel.bound, Global) if kernel.sketch is None else kernel.sketch
    return replace(kernel, order=best.order, sketch=sketch)


def rehearse(model: Regression, prepared: Prepared) -> Rehearsal:
    """Run a prepared kernel for a moment, always on the same random stream, and report what it did."""
    from scipy.special import chdtrc

    n, d = model.n, model.d
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(20190)))
    state = prepared.initial_state(prepared.target, rng.standard_normal(d), rng)
    budget = max(REHEARSAL_ROWS, min(300 * n, 2_000_000))
    out = Draws(
        np.empty((REHEARSAL_STEPS, d)),
        np.empty(REHEARSAL_STEPS, dtype=np.bool_),
        np.empty(REHEARSAL_STEPS, dtype=np.int64),
        np.empty(REHEARSAL_STEPS, dtype=np.bool_),
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
    return Rehearsal(
        steps,
        float(np.mean(out.accepted[first:steps])),
        state.exposure / steps if few else float(np.mean(rows)),
        1e6 * max(seen, outside),
    )
