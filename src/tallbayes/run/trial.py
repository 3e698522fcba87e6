"""A trial: short chains, as in a run, that say how long steps take on this machine and how well they mix."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from tallbayes.compiled import Stopwatch
from tallbayes.plan.choose import Chosen
from tallbayes.plan.effective import effective_range
from tallbayes.run.chain import Chain, room_for
from tallbayes.sources.base import RANDOM_ACCESS
from tallbayes.sources.supply import TRIAL

MOST_STEPS, NANOSECONDS = 40_000, 1e8
"""Steps of a trial, at most: so many, or what takes so long on an ordinary core. No clock decides, so the same model
always gets the same trial."""
WARM_UP = 0.2
"""Share of a trial that is left out: chains start from the Gaussian approximation, and threads and memory are new."""
TRIAL_SEED = 20191
LOOKED_AT = 10_000
"""Draws whose autocorrelations are computed: enough to know effective draws to some per cent."""


class Trial(NamedTuple):
    """What a trial found."""

    steps: int
    seconds: float
    """For one step of each chain, by this machine's clock; compilation does not count."""
    effective: tuple[float, float] | None
    """Effective draws per draw of the worst coefficient, low and high; None if there were too few steps to say."""


def try_out(chosen: Chosen, together: int = 1) -> Trial:
    """Run chains for a moment, always on the same random streams.

    Parameters
    ----------
    chosen : Chosen
        A kernel that is ready to run.
    together : int
        Chains to run at the same time: threads share memory, and often the core they run on.

    Returns
    -------
    Trial
        What a step takes, and how well steps mix.
    """
    prepared = chosen.prepared
    steps = max(1, min(MOST_STEPS, int(NANOSECONDS / chosen.nanoseconds())))
    if (
        RANDOM_ACCESS not in prepared.model.source.offers
    ):  # rows come by passes: no more of them than were rehearsed
        steps, together = min(steps, chosen.rehearsal.steps), 1
    warmup = int(WARM_UP * steps)
    kept = room_for(together, steps - warmup, prepared.model.d)
    seeds = enumerate(np.random.SeedSequence(TRIAL_SEED).spawn(together))
    chains = [
        Chain(prepared, seed, warmup, kept, number, None, TRIAL, every=chosen.steps) for number, seed in seeds
    ]
    watch = Stopwatch()
    with ThreadPoolExecutor(together) as pool:
        list(pool.map(_warm_up, chains))
        with watch.running():
            list(pool.map(_finish, chains))
    return Trial(steps, watch.seconds / (steps - warmup), effective_range(kept.beta[0, :LOOKED_AT]))


def _warm_up(chain: Chain) -> None:
    while chain.done < chain.warmup:
        chain.advance()


def _finish(chain: Chain) -> None:
    while not chain.finished:
        chain.advance()
