"""Choose a kernel, set it up, and rehearse it: everything that happens before the first draw."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from tallbayes.kernels import Kernel, costs
from tallbayes.kernels.base import Behaviour, Prepared
from tallbayes.kernels.driver import Driver
from tallbayes.kernels.mixing import FEWEST, effective_draws
from tallbayes.kernels.state import Draws, empty_draws
from tallbayes.models.base import Model
from tallbayes.plan.forecast import Forecast, forecast
from tallbayes.quantiles import chi_square_tail
from tallbayes.setup.setup import setup_of
from tallbayes.sources.base import RANDOM_ACCESS
from tallbayes.sources.supply import REHEARSED, SLOTS, Stream, slots_for
from tallbayes.sources.threads import available_threads, one_blas_thread

REHEARSAL_STEPS, SKETCHED_STEPS = 1500, 3000
"""Steps of a rehearsal; more with a sketch, where few of many events read a row, and each costs little."""
MOST_ROWS, LONGEST = 1_000_000, 12_000
"""Rows that a rehearsal may evaluate. If these are few it is longer, up to so many steps: their posterior may have
heavy tails, which a chain visits seldom."""
REHEARSED_CHAINS = 2
"""Chains that make them, side by side, where rows are in memory."""
BURN_IN = 0.2
"""Share of a rehearsal that is left out: its chain starts from the Gaussian approximation."""
WIDER = 1.25
"""By how much a ball is made larger at a time: rows per step then grow by at most its fourth power, 2.4."""
WORTH_A_RACE = 0.5
"""Another plan is set up and rehearsed too if its forecast is below this share of what the rehearsed one needs."""
MOST_WORK = 2e8
"""Nanoseconds that a rehearsal of steps on all rows may take."""
SLOW, WANTED = 0.3, 0.5
"""Effective draws per step below which a draw is made of several steps, and how many it then is to be worth."""
MOST_STEPS, MOST_WAIT = 64, 2e9
"""Steps of a draw, at most; and the nanoseconds that all draws may take by that."""
MOST_FOR_TAILS = 6e10
"""Nanoseconds that draws may take, by the costs of rows, where each is accepted on all rows for the tails' sake."""
LEAST_IN_TAILS = 0.05
"""Effective draws per step of such a kernel in a rehearsal, at least."""
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
    """What single steps did."""
    stuck: str = ""
    """What was forecast to be best but did not move, and how little."""
    steps: int = 1
    """Steps that a draw is made of: more than one where a posterior is skewed, and steps are cheap."""

    @property
    def per_draw(self) -> Rehearsal:
        """What draws did, or would have done."""
        seen, k = self.rehearsal, self.steps
        return Rehearsal(
            seen.steps // k,
            1.0 - (1.0 - seen.acceptance) ** k,
            k * seen.rows_per_draw,
            min(k * seen.full_per_million, 1e6),
            min(k * seen.efficiency, 1.0),
        )

    def nanoseconds(self) -> float:
        """Return the cost of a draw, from what the rehearsal did and the bundles drawn from a sketch."""
        sketched = self.forecasts and self.prepared.plan.get("sketch", False)
        seen = self.rehearsal
        behaviour = Behaviour(
            seen.acceptance,
            seen.rows_per_draw,
            seen.full_per_million * 1e-6,
            self.forecasts[0].events if sketched else 0.0,
            self.prepared.target.bundles.size if sketched else 1,
        )
        return self.steps * self.prepared.nanoseconds(behaviour)


def choose(
    model: Model,
    kernel: Kernel | None,
    draws: int,
    *,
    threads: int | None = None,
    streams: Mapping[Stream, int] = MappingProxyType({}),
) -> Chosen:
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
    streams : mapping
        Chains that will draw rows, where these are drawn in advance, with how many steps each will make.

    Returns
    -------
    Chosen
        The kernel, prepared, with forecasts and rehearsal. The same model always gets the same one.
    """
    with one_blas_thread():  # small matrices gain nothing from more, and threads that wait for them lose
        return _choose(model, kernel, draws, threads, streams)


def _choose(
    model: Model, kernel: Kernel | None, draws: int, threads: int | None, streams: Mapping[Stream, int]
) -> Chosen:
    setup = setup_of(model, threads=threads)
    forecasts: list[Forecast] = []
    open_choice = kernel is None
    if kernel is not None:
        kernel.refuse_mismatch(model)
    if kernel is None or kernel.is_open:
        forecasts = forecast(model, setup.metric, draws, thinning_only=kernel is not None)
        forecasts.sort(key=lambda f: f.total(draws))
        best = forecasts[0].kernel
        kernel = best if kernel is None else kernel.filled(best)
    setup.streams = _slots(model, forecasts, streams)
    chosen = _rehearsed(kernel, model, forecasts, threads)
    chosen = _with_room(chosen, threads)
    if not open_choice:
        return chosen
    return _with_steps(_into_tails(_raced(chosen, draws, threads), draws, threads), draws)


def _slots(model: Model, forecasts: list[Forecast], streams: Mapping[Stream, int]) -> dict[Stream, int]:
    """Return how many rows are to be drawn in advance for each chain, and for a rehearsal."""
    if RANDOM_ACCESS in model.source.offers:
        return {}
    steps = {REHEARSED: REHEARSAL_STEPS, **streams}
    if not forecasts:
        return dict.fromkeys(steps, SLOTS)
    return {stream: slots_for(forecasts[0].events, count, model.d) for stream, count in steps.items()}


def _rehearsed(kernel: Kernel, model: Model, forecasts: list[Forecast], threads: int | None) -> Chosen:
    """Prepare a kernel and rehearse it: only once, where rows come by passes."""
    prepared, setup = kernel.prepare(model, threads=threads), setup_of(model, threads=threads)
    if RANDOM_ACCESS in model.source.offers:
        return Chosen(kernel, prepared, forecasts, rehearse(prepared))
    found = setup.once(("rehearsal", kernel), lambda: rehearse(prepared), of_chains=True)
    if prepared.supply is not None:
        prepared.supply.reserve(setup.streams)
    return Chosen(kernel, prepared, forecasts, found)


def _with_room(chosen: Chosen, threads: int | None) -> Chosen:
    """Enlarge the ball while the posterior reaches further than a Gaussian, and it pays."""
    n = chosen.prepared.model.n
    kernel = chosen.kernel
    for _ in range(3):
        rehearsal, radius = chosen.rehearsal, chosen.prepared.plan.get("radius", np.inf)
        wasted = rehearsal.full_per_million * 1e-6 * n
        if not np.isfinite(radius) or wasted <= TOO_MANY_PASSES * max(rehearsal.rows_per_draw - wasted, 0.1):
            break
        wider = kernel.widened(WIDER * radius)
        if wider is None:
            break
        again = _rehearsed(wider, chosen.prepared.model, chosen.forecasts, threads)
        if again.rehearsal.rows_per_draw >= rehearsal.rows_per_draw:
            break
        chosen = again
    return chosen


def _raced(chosen: Chosen, draws: int, threads: int | None) -> Chosen:
    """Rehearse the next best plans as well, where their forecasts are far better than what the first one did.

    What the first one's set-up took is spent, so only its draws count; the other's forecast includes set-up. Forecasts
    are made for a Gaussian posterior: rehearsals see a skewed one, where chains may stick.
    """
    model, tried = chosen.prepared.model, {chosen.forecasts[0].name}
    rest = [f for f in chosen.forecasts if f.name not in tried and _can_be_rehearsed(f, model)]
    for other in sorted(rest, key=lambda f: f.total(draws)):
        left = draws * chosen.nanoseconds() / chosen.rehearsal.efficiency
        if other.total(draws) > WORTH_A_RACE * left:
            break
        prepared = other.kernel.prepare(model, threads=threads)
        again = Chosen(other.kernel, prepared, [other], rehearse(prepared))
        if draws * again.nanoseconds() / again.rehearsal.efficiency < left:
            efficiency = chosen.rehearsal.efficiency
            why = (
                f"{chosen.forecasts[0].name}: its chains mixed worse than foreseen in a rehearsal (about "
                f"{efficiency:.1g} effective draws per step)"
            )
            ordered = [other, *(f for f in chosen.forecasts if f is not other)]
            chosen = Chosen(other.kernel, prepared, ordered, again.rehearsal, stuck=why)
    return chosen


def _into_tails(chosen: Chosen, draws: int, threads: int | None) -> Chosen:
    """Take a kernel that follows a skewed posterior into its tails, where draws on all rows can be waited for.

    Rehearsals do not show what is missed: a chain that was never in a tail mixes well.
    """
    model, setup = chosen.prepared.model, setup_of(chosen.prepared.model, threads=threads)
    if draws * model.n * costs.full_row(model.d) > MOST_FOR_TAILS:
        return chosen
    kernel = chosen.kernel.into_tails(model, setup)
    if kernel is None:
        return chosen
    again = _rehearsed(kernel, model, chosen.forecasts, threads)
    why = f"{chosen.forecasts[0].name}: chains that thin rows miss the tails of so skewed a posterior"
    least = LEAST_IN_TAILS if model.predictors.linear else chosen.rehearsal.efficiency / 2
    return replace(again, stuck=why) if again.rehearsal.efficiency >= least else chosen


def _with_steps(chosen: Chosen, draws: int) -> Chosen:
    """Make every draw of several steps where single ones are worth little and cost little: few rows, much skewness.

    Draws that are worth more make summaries, plots and files smaller; and chains that move little for long are hard to
    tell from chains that are stuck.
    """
    efficiency = chosen.rehearsal.efficiency
    if efficiency >= SLOW or RANDOM_ACCESS not in chosen.prepared.model.source.offers:
        return chosen
    affordable = int(MOST_WAIT / (draws * chosen.nanoseconds()))
    return replace(chosen, steps=max(1, min(math.ceil(WANTED / efficiency), affordable, MOST_STEPS)))


def _can_be_rehearsed(forecast: Forecast, model: Model) -> bool:
    """Return whether a moment is enough for a rehearsal: not if every step reads very many rows."""
    return forecast.rows < model.n or REHEARSAL_STEPS * model.n * costs.full_row(model.d) <= MOST_WORK


def rehearse(prepared: Prepared) -> Rehearsal:
    """Run a prepared kernel for a moment, always on the same random streams, and report what it did."""
    n, d = prepared.model.n, prepared.model.d
    sketched = prepared.plan.get("sketch", False)  # then most rows are not read, and cost little
    chains = REHEARSED_CHAINS if RANDOM_ACCESS in prepared.model.source.offers else 1
    length = max(SKETCHED_STEPS if sketched else REHEARSAL_STEPS, min(MOST_ROWS // n, LONGEST)) // chains

    def run(chain: int) -> tuple[Draws, int, float]:
        driver = Driver(prepared, np.random.Generator(np.random.SFC64(np.random.SeedSequence([20190, chain]))))
        out = empty_draws(length, d)
        made = max(driver.advance(out, MOST_ROWS // chains), 1)
        return out, made, driver.state.exposure

    # Threads of its own: those of passes may be needed by steps on all rows.
    with ThreadPoolExecutor(min(chains, available_threads())) as threads:
        ran = list(threads.map(run, range(chains)))
    made = min(steps for _, steps, _ in ran)
    first = int(BURN_IN * made)
    z, accepted, rows, full = (
        np.stack([getattr(out, name)[first:made] for out, _, _ in ran]) for name in Draws._fields
    )
    # Few events say little about their mean; the expected numbers of all steps say it exactly.
    few, expected = rows.sum() < 1000, sum(exposure for _, _, exposure in ran) / sum(steps for _, steps, _ in ran)
    spread = np.sqrt(np.mean(z[:, :, prepared.free :] ** 2)) if d > prepared.free else 1.0
    radius = prepared.plan.get("radius", np.inf)
    bounded = d - prepared.free  # coordinates that the ball is about
    ball = (radius / max(float(spread), 1.0)) ** 2
    outside = chi_square_tail(bounded, ball) if np.isfinite(radius) and bounded else 0.0
    kept = z.shape[0] * z.shape[1]
    efficiency = float(np.min(effective_draws(z))) / kept if z.shape[1] >= FEWEST else 1.0
    return Rehearsal(
        sum(steps for _, steps, _ in ran),
        float(np.mean(accepted)),
        expected if few else float(np.mean(rows)),
        1e6 * max(float(np.mean(full)), outside),
        max(min(efficiency, 1.0), 1e-6),
    )
