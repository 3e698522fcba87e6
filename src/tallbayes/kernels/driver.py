"""One chain and its answers: runs chunks of compiled steps, and gives them what they ask for.

`tallbayes.sample`, rehearsals and tests all run chains through this class.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels.base import Prepared
from tallbayes.kernels.state import ALL_ROWS, MORE_ROWS, NOTHING, Draws, after_draws
from tallbayes.sources.supply import REHEARSED, Stream

Vector = NDArray[np.float64]


class Driver:
    """A chain under way.

    Parameters
    ----------
    prepared : Prepared
        Kernel and model.
    rng : numpy.random.Generator
        The chain's own random stream.
    start : array or None
        Where to start, in whitened coordinates; defaults to a draw from a distribution that is wider than the
        posterior, so that chains which do not mix are seen to differ.
    stream : Stream
        Names the supply of rows that is the chain's own, where rows are drawn in advance.
    threads : int or None
        Threads for steps on all rows.
    """

    def __init__(
        self,
        prepared: Prepared,
        rng: np.random.Generator,
        start: Vector | None = None,
        *,
        stream: Stream = REHEARSED,
        threads: int | None = None,
    ) -> None:
        self.prepared, self.rng, self.threads = prepared, rng, threads
        self.target = prepared.target
        self._supply = None if prepared.supply is None else prepared.supply.for_chain(stream)
        z = prepared.start(rng) if start is None else start
        self.state: Any = prepared.initial_state(self.target, z, rng)

    @property
    def violations(self) -> int:
        """Intensities that were above their bound by more than rounding."""
        return int(self.state.violations)

    def advance(self, draws: Draws, budget: int) -> int:
        """Make steps until the draws are full or about `budget` rows were tried; return how many were made."""
        prepared, state, numbers = self.prepared, self.state, self.state.numbers
        numbers["work"] = 0
        done = 0
        while True:
            rest = after_draws(draws, done) if done else draws
            made, request = prepared.run_chunk(self.target, prepared.move, state, self.rng, rest, budget)
            done += made
            if numbers["suspects"][0]:
                self._look_closer()
            if request == ALL_ROWS:
                assert prepared.answer is not None
                prepared.answer(self.target, state, self.threads)
            elif request == MORE_ROWS:
                assert self._supply is not None
                self.target = self.target._replace(rows=self._supply.refill())
                numbers["slot"] = 0
            elif done == draws.accepted.size or numbers["work"][0] >= budget:
                assert request == NOTHING
                return done

    def _look_closer(self) -> None:
        """Count the suspects that are above their bound by more than rounding."""
        assert self.prepared.exceeds is not None
        numbers = self.state.numbers
        suspects = self.state.suspects[: int(numbers["suspects"][0])]
        numbers["violations"] += sum(self.prepared.exceeds(self.target, suspect) for suspect in suspects)
        numbers["suspects"] = 0
