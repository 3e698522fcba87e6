"""The two questions a user asks of a model: what would happen, and what is its posterior."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.code_cache import silence
from tallbayes.compiled import Stopwatch
from tallbayes.errors import InputError
from tallbayes.kernels import Kernel
from tallbayes.models.base import Model
from tallbayes.plan.choose import REHEARSAL_STEPS, Chosen, choose
from tallbayes.plan.explain import Explanation, describe
from tallbayes.results.diagnostics import warn_of_findings
from tallbayes.results.tree import build_tree
from tallbayes.run.chain import Chain, refuse_too_many, room_for, stream_of
from tallbayes.run.progress import choose_progress, listening
from tallbayes.run.sampler import run_chains
from tallbayes.run.trial import TRIAL_SEED, try_out
from tallbayes.setup.setup import setup_of
from tallbayes.sources.base import RANDOM_ACCESS
from tallbayes.sources.supply import RUN, TRIAL, Stream
from tallbayes.sources.threads import available_threads

if TYPE_CHECKING:
    from xarray import DataTree

USUAL_WARMUP = 200
"""Steps that kernels leave out by default, for the number of rows that chains are going to need."""


def explain(
    model: Model,
    kernel: Kernel | None = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    threads: int | None = None,
    verbose: bool = False,
) -> Explanation:
    """Say what `tallbayes.sample` would do with the same arguments: time, memory, effective draws, and how.

    Takes the passes over the rows that `sample` needs before its first draw, and makes some thousand steps. The model
    keeps what was found, so a `sample` that follows takes none of them again.

    Parameters
    ----------
    model : Model
        The model.
    kernel : Kernel or None
        What to fix; everything is chosen by default.
    draws : int
        Draws to keep from each chain.
    chains : int
        Number of chains.
    threads : int or None
        Threads to use; defaults to every core.
    verbose : bool
        Whether to print what else was considered, with the time expected of it.

    Returns
    -------
    Explanation
        Print it, or use its attributes: `seconds`, `memory_megabytes`, `rows_per_draw`, `effective_draws` (low and
        high), `plan` and others.
    """
    _check("explain", model, kernel, {"draws": draws, "chains": chains, "threads": threads})
    streams = {Stream(TRIAL, TRIAL_SEED, 0): REHEARSAL_STEPS}
    before = _passes_of_chains(model)
    chosen, setup_seconds = _plan(model, kernel, draws * chains, threads, streams)
    workers = threads or available_threads()
    trial = try_out(chosen, min(workers, chains))
    return describe(
        chosen,
        draws,
        chains,
        workers,
        setup_seconds=setup_seconds,
        draw_seconds=trial.seconds,
        effective=trial.effective,
        trial_passes=_passes_of_chains(model) - before,
        verbose=verbose,
    )


def sample(
    model: Model,
    kernel: Kernel | None = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    seed: int | None = None,
    warmup: int | None = None,
    progress: bool | None = None,
    threads: int | None = None,
    chunk: int | None = None,
) -> "DataTree":
    """Draw from the exact posterior of a model.

    The same seed gives the same draws, whatever the number of threads and the size of chunks. Ctrl-C ends the
    run early and returns what was drawn.

    Parameters
    ----------
    model : Model
        The model.
    kernel : Kernel or None
        How to move, from `tallbayes.kernels`; chosen by default.
    draws : int
        Draws to keep from each chain, after warm-up.
    chains : int
        Number of independent chains.
    seed : int or None
        Seed of the run; defaults to a fresh one, which is in the result's attributes.
    warmup : int or None
        Steps each chain makes before it keeps draws; the kernel's own number by default.
    progress : bool or None
        False is silent, True always shows. Defaults to a live display in a terminal, and a line now and then
        elsewhere.
    threads : int or None
        Threads to use; defaults to every core.
    chunk : int or None
        Steps between looks at the clock and the keyboard; by default as many as take a moment.

    Returns
    -------
    xarray.DataTree
        ``posterior["beta"]`` (chain, draw, coefficient) and ``sample_stats``, in ArviZ's schema.

    Raises
    ------
    ExactnessError
        If a proved bound was found broken, so that the draws would not be exact.

    Warns
    -----
    SlowMixingWarning
        If chains disagree (R-hat above 1.01 and beyond chance), some coefficient has fewer than 400 effective draws in
        all or 100 for each chain (of short runs: a fifth of its draws), in the bulk or in the tails, or a chain stood
        still for long. It names coefficient and numbers. Runs of fewer than 100 draws are not judged.
    """
    counts = {"draws": draws, "chains": chains, "warmup": warmup, "threads": threads, "chunk": chunk}
    _check("sample", model, kernel, counts)
    refuse_too_many(draws, chains, model.d)
    seeds = _seed_sequence(seed)
    display = choose_progress(progress)
    with display, silence(progress is False), listening(model.source, display):
        started = time.perf_counter()
        display.setting_up(model)
        children = seeds.spawn(chains)
        ahead = draws + (USUAL_WARMUP if warmup is None else warmup)
        streams = {stream_of(RUN, child, number): ahead for number, child in enumerate(children)}
        before = _passes_of_chains(model)
        chosen, _ = _plan(model, kernel, draws * chains, threads, streams)
        prepared = chosen.prepared
        steps = prepared.warmup if warmup is None else warmup
        kept = room_for(chains, draws, model.d)
        runs = [
            Chain(prepared, child, steps, kept, number, chunk, every=chosen.steps)
            for number, child in enumerate(children)
        ]
        setup_seconds = time.perf_counter() - started
        started = time.perf_counter()
        interrupted = run_chains(runs, display, threads or available_threads())
        sampling_seconds = time.perf_counter() - started
    attributes: dict[str, Any] = {
        "setup_seconds": setup_seconds,
        "sampling_seconds": sampling_seconds,
        "interrupted": int(interrupted),
        "seed": str(seeds.entropy),
        "passes": setup_of(model).passes + _passes_of_chains(model) - before,
    }
    try:
        tree = build_tree(chosen, runs, kept, attributes)
    except KeyboardInterrupt:  # every draw is made: a late Ctrl-C must not lose them
        tree = build_tree(chosen, runs, kept, attributes | {"interrupted": 1})
    warn_of_findings(tree)
    return tree


def _plan(
    model: Model, kernel: Kernel | None, draws: int, threads: int | None, streams: dict[Stream, int]
) -> tuple[Chosen, float]:
    """Return a kernel that is ready to run, and the seconds that set-up and choice took, now or before."""
    setup, watch = setup_of(model), Stopwatch()
    if setup.planned is not None and setup.planned[0] == (kernel, draws):  # the same would be chosen again
        return setup.planned[1], setup.seconds
    before = setup.passes
    with watch.running():
        chosen = choose(model, kernel, draws, threads=threads, streams=streams)
    if setup.passes > before:
        setup.seconds += watch.seconds
    if RANDOM_ACCESS in model.source.offers:  # elsewhere every run needs rows of its own
        setup.planned = (kernel, draws), chosen
    return chosen, max(setup.seconds, watch.seconds)


def _passes_of_chains(model: Model) -> int:
    """Return how often all rows were gone through so far, without the passes of the set-up."""
    return model.source.passes - setup_of(model).passes


def _check(owner: str, model: Any, kernel: Any, counts: dict[str, int | None]) -> None:
    """Raise unless the arguments are of their kinds."""
    if not isinstance(model, Model):
        raise InputError(f"{owner}: model is a {type(model).__name__}; expected a tb.Regression or tb.Factors.")
    if kernel is not None and not isinstance(kernel, Kernel):
        raise InputError(f"{owner}: kernel={kernel!r} was given; expected e.g. tb.kernels.ScalableMH(), or None.")
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (whole and value >= least):
            raise InputError(f"{owner}: {name}={value!r} must be a whole number, {least} or more.")


def _seed_sequence(seed: int | None) -> np.random.SeedSequence:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise InputError(f"sample: seed={seed!r} must be a whole number, 0 or more, or None.")
    return np.random.SeedSequence(None if seed is None else int(seed))
