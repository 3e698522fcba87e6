"""One chain: its random stream, its state, and the draws it has made."""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.kernels.base import Prepared
from tallbayes.kernels.state import Draws

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

CHUNK_SECONDS = 0.08
"""Chunks are cut to about this long: compiled code does not see Ctrl-C, and progress is shown in between."""
LARGEST_CHUNK = 32768
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
    draws : int
        Draws to keep.
    chunk : int or None
        Steps in a chunk; None measures how many fit in a short time. It does not change the draws.
    """

    def __init__(
        self, prepared: Prepared, seed: np.random.SeedSequence, warmup: int, draws: int, chunk: int | None
    ) -> None:
        d = prepared.whitening.centre.size
        self.prepared = prepared
        self.rng = np.random.Generator(np.random.SFC64(seed))
        self.state = prepared.initial_state(prepared.target, self.rng.standard_normal(d), self.rng)
        self.warmup = warmup
        self.total = warmup + draws
        self.done = 0
        self.beta = np.empty((draws, d))
        self.accepted = np.zeros(draws, dtype=np.bool_)
        self.rows_touched = np.zeros(draws, dtype=np.int64)
        self.full_pass = np.zeros(draws, dtype=np.bool_)
        self._chunk = chunk
        self._budget = FIRST_BUDGET if chunk is None else np.iinfo(np.int64).max
        self._scratch = _scratch(min(max(chunk or 0, 1024), self.total), d)
        self._accepted = self._rows = self._full = 0

    @property
    def finished(self) -> bool:
        """Whether every draw has been made."""
        return self.done >= self.total

    @property
    def kept(self) -> int:
        """Draws made after warm-up."""
        return max(0, self.done - self.warmup)

    def advance(self) -> None:
        """Run one chunk of compiled steps, never across the end of warm-up."""
        goal = self.warmup if self.done < self.warmup else self.total
        steps = min(goal - self.done, self._chunk or LARGEST_CHUNK)
        if self._scratch.accepted.size < steps:
            self._scratch = _scratch(steps, self.beta.shape[1])
        out = _first(self._scratch, steps)
        started = time.perf_counter()
        self.state, made = self.prepared.run_chunk(
            self.prepared.target, self.prepared.proposal, self.state, self.rng, out, self._budget
        )
        seconds = time.perf_counter() - started
        if self._chunk is None and made < steps:
            growth = min(8.0, max(0.25, CHUNK_SECONDS / max(seconds, 1e-6)))
            self._budget = max(1, int(self._budget * growth))
        self._accepted += int(np.count_nonzero(out.accepted[:made]))
        self._rows += int(np.sum(out.rows_touched[:made]))
        self._full += int(np.count_nonzero(out.full_pass[:made]))
        if self.done >= self.warmup:
            kept = slice(self.kept, self.kept + made)
            whitening = self.prepared.target.whitening
            form_theta(self.prepared.whitening.centre, whitening, out.z[:made], self.beta[kept])
            self.accepted[kept] = out.accepted[:made]
            self.rows_touched[kept] = out.rows_touched[:made]
            self.full_pass[kept] = out.full_pass[:made]
        self.done += made

    def status(self) -> Status:
        """Return what is worth showing now."""
        steps = max(self.done, 1)
        return Status(self.done, self.total, self.warmup, self._accepted / steps, self._rows / steps, self._full)


def _scratch(steps: int, d: int) -> Draws:
    return Draws(
        np.empty((steps, d)),
        np.empty(steps, dtype=np.bool_),
        np.empty(steps, dtype=np.int64),
        np.empty(steps, dtype=np.bool_),
    )


def _first(draws: Draws, steps: int) -> Draws:
    return Draws(draws.z[:steps], draws.accepted[:steps], draws.rows_touched[:steps], draws.full_pass[:steps])


@compiled
def form_theta(centre: Vector, whitening: Matrix, z: Matrix, theta: Matrix) -> None:
    """Put centre + W z of every row of z into theta; W is upper triangular.

    Not a library's matrix product, whose rounding can depend on how many rows it gets: the draws must not
    depend on the size of a chunk.
    """
    steps, d = z.shape
    transposed = np.ascontiguousarray(whitening.T)
    for r in range(steps):
        for i in range(d):
            theta[r, i] = centre[i]
        for j in range(d):
            for i in range(j + 1):
                theta[r, i] += transposed[j, i] * z[r, j]
