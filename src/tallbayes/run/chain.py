"""One chain of a run: the chunks it makes, and the draws it keeps."""

import os
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.kernels.base import Prepared
from tallbayes.kernels.coefficients import form_theta
from tallbayes.kernels.driver import Driver
from tallbayes.kernels.state import DRAW_BYTES, LARGEST_CHUNK, Draws, empty_draws, first_draws
from tallbayes.sources.supply import RUN, Stream

CHUNK_SECONDS = 0.08
"""Chunks are cut to about this long: compiled code does not see Ctrl-C, and progress is shown in between."""
FIRST_BUDGET = 20_000


class Status(NamedTuple):
    """What a chain shows of itself while it runs."""

    steps: int
    """Steps made, warm-up included."""
    total: int
    warmup: int
    acceptance: float
    rows_per_step: float
    full_passes: int
    every: int = 1
    """Steps for each draw that is kept."""


class Draw(NamedTuple):
    """Where the draws of all chains are kept, a chain in each line: what the result is made of."""

    beta: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    rows_touched: NDArray[np.int64]
    full_pass: NDArray[np.bool_]


PAGE, FETCHED = 512, 2**26
"""Numbers in a page of memory; and how many numbers are fetched from the system before the first step, at most."""


def refuse_too_many(draws: int, chains: int, d: int) -> None:
    """Raise if draws take more memory than the machine has: before a set-up is made for them."""
    wanted, there = chains * draws * (8 * d + DRAW_BYTES), memory_of_machine()
    if wanted > there:
        raise InputError(
            f"sample: draws={draws:,} from {chains} chain{'s' * (chains > 1)} of {d} parameter{'s' * (d > 1)} take "
            f"{wanted / 1e9:,.0f} GB, and this machine has {there / 1e9:,.0f} GB. Draw fewer: some thousand effective "
            "draws give every mean, sd and quantile to a few per cent of an sd."
        )


def memory_of_machine() -> float:
    """Return the bytes of memory that there are; where the system does not tell, what an array may have at most."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 2.0**47


def room_for(chains: int, draws: int, d: int) -> Draw:
    """Return room for the draws of all chains.

    A system hands out memory when it is first written to, which can take as long as the draws themselves. So some of
    it is written to here; the rest of a very long run comes as it is needed.
    """
    room = Draw(
        np.empty((chains, draws, d)),
        np.zeros((chains, draws), dtype=np.bool_),
        np.zeros((chains, draws), dtype=np.int64),
        np.zeros((chains, draws), dtype=np.bool_),
    )
    for part in room:
        part.reshape(-1)[:FETCHED:PAGE] = 0
    return room


def stream_of(kind: int, seed: np.random.SeedSequence, number: int) -> Stream:
    """Return the name of a chain's rows, where these are drawn in advance."""
    entropy = seed.entropy
    return Stream(kind, int(entropy) if isinstance(entropy, int | np.integer) else 0, number)


class Chain:
    """A chain under way.

    Parameters
    ----------
    prepared : Prepared
        Kernel and model.
    seed : numpy.random.SeedSequence
        The chain's own seed, spawned from the run's.
    warmup : int
        Steps to make before draws are kept.
    kept : Draw
        Where draws are kept.
    number : int
        Number of the chain.
    chunk : int or None
        Steps in a chunk; None measures how many fit in a short time. It does not change the draws.
    kind : int
        Whether it belongs to a run or to a trial, for rows of its own.
    every : int
        Steps that a draw is made of: where the last of them leads is kept.
    """

    def __init__(
        self,
        prepared: Prepared,
        seed: np.random.SeedSequence,
        warmup: int,
        kept: Draw,
        number: int,
        chunk: int | None,
        kind: int = RUN,
        *,
        every: int = 1,
    ) -> None:
        d = prepared.metric.d
        self.prepared = prepared
        stream = stream_of(kind, seed, number)
        self.driver = Driver(prepared, np.random.Generator(np.random.SFC64(seed)), stream=stream)
        self.warmup = warmup
        self.every = every
        self.total = warmup + every * kept.accepted.shape[1]
        self.done = 0
        self._kept = Draw(*(part[number] for part in kept))
        self._chunk = chunk
        self._budget = FIRST_BUDGET if chunk is None else np.iinfo(np.int64).max
        self._scratch = empty_draws(min(max(chunk or 0, 1024), self.total), d)
        self._accepted = self._rows = self._full = 0

    @property
    def finished(self) -> bool:
        """Whether every draw has been made."""
        return self.done >= self.total

    @property
    def kept(self) -> int:
        """Draws made after warm-up."""
        return max(0, self.done - self.warmup) // self.every

    def advance(self) -> None:
        """Run one chunk of compiled steps, never across the end of warm-up."""
        goal = self.warmup if self.done < self.warmup else self.total
        steps = min(goal - self.done, self._chunk or LARGEST_CHUNK)
        if self._scratch.accepted.size < steps:
            self._scratch = empty_draws(steps, self.prepared.metric.d)
        out = first_draws(self._scratch, steps)
        started = time.perf_counter()
        made = self.driver.advance(out, self._budget)
        seconds = time.perf_counter() - started
        if self._chunk is None and made < steps:
            growth = min(8.0, max(0.25, CHUNK_SECONDS / max(seconds, 1e-6)))
            self._budget = max(1, int(self._budget * growth))
        self._accepted += int(np.count_nonzero(out.accepted[:made]))
        self._rows += int(np.sum(out.rows_touched[:made]))
        self._full += int(np.count_nonzero(out.full_pass[:made]))
        if self.done >= self.warmup:
            self._keep(first_draws(out, made))
        self.done += made

    def _keep(self, out: Draws) -> None:
        """Keep the draws that end among some steps: whether any step of a draw was accepted, and its rows in all."""
        metric = self.prepared.metric
        given = metric.centre, metric.inverse_root, metric.triangular
        if self.every == 1:
            here = slice(self.kept, self.kept + out.accepted.size)
            form_theta(*given, out.z, self._kept.beta[here])
            self._kept.accepted[here] = out.accepted
            self._kept.rows_touched[here] = out.rows_touched
            self._kept.full_pass[here] = out.full_pass
            return
        made = self.done - self.warmup + np.arange(out.accepted.size)  # steps before each of these
        ends = np.ascontiguousarray(out.z[(made + 1) % self.every == 0])
        form_theta(*given, ends, self._kept.beta[self.kept : self.kept + len(ends)])
        draw = made // self.every
        np.logical_or.at(self._kept.accepted, draw, out.accepted)
        np.add.at(self._kept.rows_touched, draw, out.rows_touched)
        np.logical_or.at(self._kept.full_pass, draw, out.full_pass)

    def status(self) -> Status:
        """Return what is worth showing now."""
        steps = max(self.done, 1)
        rates = self._accepted / steps, self._rows / steps
        return Status(self.done, self.total, self.warmup, *rates, self._full, self.every)
