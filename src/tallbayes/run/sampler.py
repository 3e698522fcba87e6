"""`sample`: set up once, then run chains in threads, chunk by chunk."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.errors import ExactnessError, InputError
from tallbayes.kernels import Kernel
from tallbayes.models import Model
from tallbayes.plan.choose import choose
from tallbayes.results.mixing import warn_of_slow_mixing
from tallbayes.results.tree import build_tree
from tallbayes.run.chain import Chain
from tallbayes.run.progress import Progress, choose_progress
from tallbayes.sources.arrays import available_threads

if TYPE_CHECKING:
    from xarray import DataTree


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
        How to move, from `tallbayes.kernels`; None chooses.
    draws : int
        Draws to keep from each chain, after warm-up.
    chains : int
        Number of independent chains.
    seed : int or None
        Seed of the run; None takes a fresh one, which is in the result's attributes.
    warmup : int or None
        Steps each chain makes before it keeps draws; None chooses.
    progress : bool or None
        False is silent, True always shows; None shows a live display in a terminal, and a line now and then
        elsewhere.
    threads : int or None
        Threads to use; None takes every core.
    chunk : int or None
        Steps between looks at the clock and the keyboard; None chooses.

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
        If some coefficient has fewer than 100 effective draws for each chain, and than a tenth of its draws.
    """
    if not isinstance(model, Model):
        raise InputError(f"sample: model is a {type(model).__name__}; expected a tb.Regression or tb.Factors.")
    if kernel is not None and not isinstance(kernel, Kernel):
        raise InputError(f"sample: kernel={kernel!r} was given; expected e.g. tb.kernels.ScalableMH(), or None.")
    counts = {"draws": draws, "chains": chains, "warmup": warmup, "threads": threads, "chunk": chunk}
    for name, value in counts.items():
        _check_count(name, value, least=0 if name == "warmup" else 1)
    seeds = _seed_sequence(seed)
    display = choose_progress(progress)
    with display:
        started = time.perf_counter()
        display.setting_up(model)
        chosen = choose(model, kernel, draws * chains, threads=threads)
        prepared = chosen.prepared
        steps = prepared.warmup if warmup is None else warmup
        runs = [Chain(prepared, child, steps, draws, chunk) for child in seeds.spawn(chains)]
        setup_seconds = time.perf_counter() - started
        started = time.perf_counter()
        interrupted = _run(runs, display, threads or available_threads())
        sampling_seconds = time.perf_counter() - started
    attributes: dict[str, Any] = {
        "setup_seconds": setup_seconds,
        "sampling_seconds": sampling_seconds,
        "interrupted": int(interrupted),
        "seed": str(seeds.entropy),
    }
    try:
        tree = build_tree(model, chosen, runs, attributes)
    except KeyboardInterrupt:  # every draw is made: a late Ctrl-C must not lose them
        tree = build_tree(model, chosen, runs, attributes | {"interrupted": 1})
    warn_of_slow_mixing(np.asarray(tree["posterior"]["beta"]), model.names)
    return tree


def _run(runs: list[Chain], display: Progress, threads: int) -> bool:
    """Advance all chains in rounds of one chunk each; return whether the run was interrupted."""
    try:
        with ThreadPoolExecutor(min(threads, len(runs))) as pool:
            while active := [run for run in runs if not run.finished]:
                # Leaving the block on an interrupt waits for the chunks under way, so no chain is torn.
                list(pool.map(Chain.advance, active))
                _refuse_violations(runs)
                display.update([run.status() for run in runs])
    except KeyboardInterrupt:
        _refuse_violations(runs)
        if min(run.kept for run in runs) == 0:
            raise
        return True
    return False


def _refuse_violations(runs: list[Chain]) -> None:
    """Raise if any chain has found a bound broken."""
    if violations := sum(run.state.violations for run in runs):
        raise ExactnessError(
            f"{violations} remainder(s) exceeded their proved bound: the draws would not be exact and are "
            "withheld. Bounds that you gave to tb.Factors are too small; otherwise please report the family and "
            "the data. tb.kernels.MetropolisHastings() needs no bounds."
        )


def _check_count(name: str, value: int | None, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"sample: {name}={value!r} must be a whole number, {least} or more.")


def _seed_sequence(seed: int | None) -> np.random.SeedSequence:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise InputError(f"sample: seed={seed!r} must be a whole number, 0 or more, or None.")
    return np.random.SeedSequence(None if seed is None else int(seed))
