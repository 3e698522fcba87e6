r"""Rows drawn at random, with probability proportional to their bounds, for chains that look at few.

In memory a chain draws a row whenever it needs one, from an alias table over all. From a stream rows are drawn in
advance, during a pass: M slots, each of which every block offers one of its rows to.

A block with total :math:`\Psi_b` offers each slot, independently, its row i with probability
:math:`\psi_i / \Psi_b`; the offer replaces what the slot holds with probability
:math:`\Psi_b / (\Psi_1 + \dots + \Psi_b)`. After the last block a slot holds row i with probability
:math:`\psi_i / \Psi`, and slots are independent of each other.

Compiled code sees both as one tuple of arrays, and takes "the next row" without knowing where it comes from.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.sources.alias import WHOLE, alias_table
from tallbayes.sources.memory import describe

if TYPE_CHECKING:
    from tallbayes.sources.arrays import ArraySource
    from tallbayes.sources.base import Block, Source

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SLOTS = 4096
"""Rows drawn in one pass over a stream for a chain, unless it is known to need more."""


class Drawing(NamedTuple):
    """With which probabilities rows are drawn."""

    part: Callable[..., "RowBounds"]
    """A function of a block and the arguments that returns the bounds of its rows."""
    arguments: tuple[Any, ...]
    psi: Vector | None
    """The bounds of all rows, where they are kept."""
    shares: NDArray[np.float32]
    """Their shares; one line for all rows, or one for each."""


class RowBounds(NamedTuple):
    """Bounds of some rows."""

    psi: Vector
    shares: NDArray[np.float32]
    """How much of psi_i a remainder can use by rising, and by falling; one line for all rows, or one for each."""


class SuppliedRows(NamedTuple):
    """Rows as compiled code sees them: all of them with a table to draw from, or slots to be used up in order."""

    design: NDArray[np.int64]
    """Where the rows of the design are (`sources/memory.py`)."""
    responses: Matrix
    weight: Vector
    offset: Vector
    psi: Vector
    shares: NDArray[np.float32]
    table: Matrix
    """For each row, the probability of keeping it once it was chosen uniformly, and the row taken otherwise (a
    float, so that both lie side by side: one wait for memory). Empty for slots."""


class WholeSupply:
    """All rows in memory.

    Parameters
    ----------
    source : ArraySource
        The rows.
    drawing : Drawing
        Their bounds.
    """

    endless = True

    def __init__(self, source: "ArraySource", drawing: Drawing) -> None:
        assert drawing.psi is not None
        self.rows = whole_rows(source, drawing.psi, drawing.shares)
        self._alive = source

    def refill(self) -> SuppliedRows:
        """Return the same rows: they are never used up."""
        return self.rows

    def for_chain(self, chain: int) -> "WholeSupply":
        """Return the supply of a chain: all share one."""
        return self


def whole_rows(source: "ArraySource", psi: Vector, shares: NDArray[np.float32] = WHOLE) -> SuppliedRows:
    """Return all rows of a source in memory, with a table to draw them from."""
    table = alias_table(psi)
    return SuppliedRows(describe(source.X), source.responses, source.weight, source.offset, psi, shares, table)


class StreamedSupply:
    """Slots filled by a pass over a stream; each is used once, and another pass fills them again.

    Parameters
    ----------
    source : Source
        The rows.
    drawing : Drawing
        How to bound the rows of a block.
    seed : int
        Seed of the draws.
    threads : int or None
        Not used: blocks come one after the other.
    slots : int
        How many rows to draw in a pass.
    """

    endless = False

    def __init__(
        self, source: "Source", drawing: Drawing, seed: int, threads: int | None = None, slots: int = SLOTS
    ) -> None:
        self._source, self._drawing, self._seed, self._slots = source, drawing, seed, slots
        self._rng = np.random.default_rng(seed)
        self._alive: Any = None
        self.rows = empty_rows(self._drawing.shares)

    def for_chain(self, chain: int) -> "StreamedSupply":
        """Return a supply for one chain, with slots and random numbers of its own."""
        seed = int(np.random.SeedSequence((self._seed, chain)).generate_state(1)[0])
        return StreamedSupply(self._source, self._drawing, seed, slots=self._slots)

    def refill(self) -> SuppliedRows:
        """Fill every slot anew, in one pass."""
        self._source.passes += 1
        slots: Slots | None = None
        for block in self._source.checked_blocks():
            offered = _offer(block.converted(), self._drawing, self._slots, self._rng)
            slots = offered if slots is None else slots.merged(offered, self._rng)
        if slots is None or slots.rows is None:
            self.rows = empty_rows(self._drawing.shares)
        else:
            self._alive = slots.rows.X
            rows = slots.rows
            self.rows = SuppliedRows(
                describe(rows.X),
                rows.responses,
                rows.weight,
                rows.offset,
                slots.psi,
                slots.shares,
                np.empty((0, 2)),
            )
        return self.rows


class Slots(NamedTuple):
    """Slots filled from some blocks: a partial result, which merges with that of others."""

    total: float
    """Sum of the bounds of the blocks' rows."""
    rows: "Block | None"
    """The slots' rows; None while no row had a bound above zero."""
    psi: Vector
    shares: NDArray[np.float32]

    def merged(self, other: "Slots", rng: np.random.Generator) -> "Slots":
        """Return slots filled from both: each takes the other's row with the other's share of the total."""
        if other.rows is None:
            return self
        if self.rows is None:
            return other
        total = self.total + other.total
        new = rng.random(self.psi.size) * total < other.total
        rows = self.rows._replace(
            X=np.where(new[:, None], other.rows.X, self.rows.X),
            responses=np.where(new[:, None], other.rows.responses, self.rows.responses),
            weight=np.where(new, other.rows.weight, self.rows.weight),
            offset=np.where(new, other.rows.offset, self.rows.offset),
        )
        psi, shares = np.where(new, other.psi, self.psi), np.where(new[:, None], other.shares, self.shares)
        return Slots(total, rows, psi, shares)


def _offer(block: "Block", drawing: Drawing, slots: int, rng: np.random.Generator) -> Slots:
    """Draw a row of a block for every slot, in proportion to the rows' bounds."""
    psi, shares = drawing.part(block, *drawing.arguments)
    sums = np.cumsum(psi)
    total = float(sums[-1])
    if not total > 0.0:
        return Slots(0.0, None, psi, shares)
    # The last row with a bound above zero is where rounding of the sums may lead, never one without.
    last = int(np.flatnonzero(psi)[-1])
    chosen = np.minimum(np.searchsorted(sums, rng.random(slots) * total, side="right"), last)
    rows = block._replace(
        X=block.X[chosen],
        responses=np.ascontiguousarray(block.responses[chosen]),
        weight=np.broadcast_to(block.weight, psi.shape)[chosen].copy(),
        offset=np.broadcast_to(block.offset, psi.shape)[chosen].copy(),
    )
    return Slots(total, rows, psi[chosen], np.broadcast_to(shares, (psi.size, 2))[chosen].copy())


def all_rows(source: "ArraySource") -> SuppliedRows:
    """Return all rows of a source in memory for a kernel that goes through them and draws none."""
    nothing = empty_rows()
    return nothing._replace(
        design=describe(source.X), responses=source.responses, weight=source.weight, offset=source.offset
    )


def empty_rows(shares: NDArray[np.float32] = WHOLE) -> SuppliedRows:
    """Return no rows at all: of a kernel that never draws any, or of slots that are yet to be filled."""
    nothing = np.empty((0, 1))
    design = np.zeros(5, dtype=np.int64)
    return SuppliedRows(design, nothing, np.ones(1), np.zeros(1), np.empty(0), shares[:1], np.empty((0, 2)))
