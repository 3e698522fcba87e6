r"""Rows drawn at random, with probability proportional to their bounds, for chains that look at few.

In memory a chain draws a row whenever it needs one, from an alias table over all. From a stream rows are drawn in
advance, during a pass: M slots, each of which every block offers one of its rows to.

A block with total :math:`\Psi_b` offers each slot, independently, its row i with probability
:math:`\psi_i / \Psi_b`; the offer replaces what the slot holds with probability
:math:`\Psi_b / (\Psi_1 + \dots + \Psi_b)`. After the last block a slot holds row i with probability
:math:`\psi_i / \Psi`, and slots are independent of each other (`Slots` says how this is made to merge in any tree).

Compiled code sees both as one tuple of arrays, and takes "the next row" without knowing where it comes from.
"""

import math
import threading
import weakref
from collections import deque
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

SLOTS = 1024
"""Rows drawn in one pass over a stream for a chain, unless a forecast says how many it needs."""
MOST_BYTES = 2**25
"""Of the rows drawn in one pass for a chain, at most."""
FEWEST, SPARE = 256, 2.0
"""Slots of a chain at least, and how many times those that it is expected to need: a further pass costs more."""
REHEARSAL, RUN, TRIAL = 1, 2, 3
"""Kinds of streams."""


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
    steepest: float = math.inf
    """The largest psi_i / a_i^(k+1), if rows have one predictor, which moves by a_i at most: infinite if not known."""


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
    threads : int or None
        Threads for the table to draw from.
    table : bool
        Whether there is one: rows that are drawn in bundles need none.
    """

    endless = True

    def __init__(
        self, source: "ArraySource", drawing: Drawing, threads: int | None = None, *, table: bool = True
    ) -> None:
        assert drawing.psi is not None
        self.rows = whole_rows(source, drawing.psi, drawing.shares, threads=threads, table=table)
        self._alive = source

    def refill(self) -> SuppliedRows:
        """Return the same rows: they are never used up."""
        return self.rows

    def for_chain(self, stream: "Stream") -> "WholeSupply":
        """Return the supply of a chain: all share one."""
        return self


def whole_rows(
    source: "ArraySource",
    psi: Vector,
    shares: NDArray[np.float32] = WHOLE,
    *,
    threads: int | None = None,
    table: bool = True,
) -> SuppliedRows:
    """Return all rows of a source in memory, with a table to draw them from if they are drawn one by one."""
    drawn = alias_table(psi, threads=threads) if table else np.zeros((0, 2))
    return SuppliedRows(describe(source.X), source.responses, source.weight, source.offset, psi, shares, drawn)


class Stream(NamedTuple):
    """Names a stream of rows that nobody else uses: of a chain, or of a rehearsal."""

    kind: int
    """`REHEARSAL`, `RUN` or `TRIAL`."""
    seed: int
    chain: int


REHEARSED = Stream(REHEARSAL, 0, 0)
"""Of rehearsals, which are always the same."""


class Request(NamedTuple):
    """Slots to be filled in a pass."""

    stream: Stream
    refill: int
    """How often slots of the stream were filled before."""
    slots: int


class StreamedSupply:
    """Slots filled by a pass over a stream; each is used once, and another pass fills them again.

    One pass fills slots for every chain that has none left by then. What they hold depends on the chain, on how often
    they were filled and on the rows, and on nothing else: not on threads, nor on which chain was faster.

    Parameters
    ----------
    source : Source
        The rows.
    drawing : Drawing or None
        How to bound the rows of a block; may be set later, before slots are asked for.
    threads : int or None
        Threads for passes.
    slots : int
        How many rows to draw for a chain in its first pass, unless it is said when its stream is reserved.
    most : int or None
        How many to draw for it in any pass; what fits into some memory by default.
    """

    endless = False

    def __init__(
        self,
        source: "Source",
        drawing: Drawing | None,
        threads: int | None = None,
        slots: int = SLOTS,
        most: int | None = None,
    ) -> None:
        self._most = most or most_slots(len(source.names))
        self._source, self.drawing, self._threads, self._slots = source, drawing, threads, slots
        self.rows = empty_rows(WHOLE if drawing is None else drawing.shares)
        self._filled: dict[tuple[Stream, int], KeptRows] = {}
        self._open: dict[Stream, int] = {}
        self._times: dict[Stream, int] = {}
        self._owner: dict[Stream, object] = {}
        self._gone: deque[tuple[Stream, object]] = deque()
        self._lock = threading.Lock()

    @property
    def chain_bytes(self) -> int:
        """Memory of a chain's slots, about."""
        return 8 * (len(self._source.names) + 6) * max(self._open.values(), default=self._slots)

    def reserve(self, streams: dict[Stream, int]) -> tuple[Request, ...]:
        """Say how many slots streams will need, and return what a pass for something else should fill."""
        with self._lock:
            self._forget()
            for stream in streams:  # of an earlier run with the same seed, whose end must not undo this
                self._owner.pop(stream, None)
            self._open |= streams
        return tuple(Request(stream, 0, slots) for stream, slots in streams.items())

    def fill(self, requests: tuple[Request, ...], found: "Slots") -> None:
        """Keep what a pass has drawn for some requests."""
        start = 0
        for request in requests:
            rows = slice(start, start + request.slots)
            self._filled[request.stream, request.refill] = found.supplied(rows)
            self._times[request.stream] = request.refill + 1
            start += request.slots

    def for_chain(self, stream: Stream) -> "ChainSupply":
        """Return a supply for one chain, with slots and random numbers of its own."""
        owner = object()
        with self._lock:
            self._forget()
            if (stream, 0) not in self._filled:
                self._times.pop(stream, None)  # an earlier run of the same seed has used them: draw the same again
            self._open.setdefault(stream, self._slots)
            self._owner[stream] = owner
        return ChainSupply(self, stream, owner)

    def take(self, stream: Stream, refill: int) -> "KeptRows":
        """Return the slots of a stream, filled for the given time; takes a pass unless one has filled them."""
        with self._lock:
            self._forget()
            if (stream, refill) not in self._filled:
                self._pass(stream, refill)
            return self._filled.pop((stream, refill))

    def close(self, stream: Stream, owner: object) -> None:
        """Note that the chain of a stream is gone; may be called at any moment, so nothing is waited for."""
        self._gone.append((stream, owner))

    def _forget(self) -> None:
        while self._gone:
            stream, owner = self._gone.popleft()
            if self._owner.get(stream) is owner:
                self._owner.pop(stream)
                self._open.pop(stream, None)
                for refill in range(self._times.pop(stream, 0)):
                    self._filled.pop((stream, refill), None)

    def _pass(self, stream: Stream, refill: int) -> None:
        """Fill the slots of a stream, and of those others of its run that will soon ask."""
        drawing, most = self.drawing, self._most
        assert drawing is not None
        times = {s: self._times.get(s, 0) for s in self._open if s[:2] == stream[:2]} | {stream: refill}
        requests = tuple(
            # Twice as many every time, since the forecast was too low.
            Request(s, count, int(min(self._open[s] << min(count, 20), max(self._open[s], most))))
            for s, count in times.items()
            if count <= refill and (s, count) not in self._filled
        )
        given = drawing.part, drawing.arguments, requests, no_offers(requests)
        self.fill(requests, self._source.reduce(offer, *given, threads=self._threads))


class ChainSupply:
    """The slots of one chain.

    Parameters
    ----------
    shared : StreamedSupply
        Where they come from.
    stream : Stream
        Which they are.
    owner : object
        What tells this chain from another of the same stream.
    """

    endless = False

    def __init__(self, shared: StreamedSupply, stream: Stream, owner: object) -> None:
        self._shared, self._stream, self._refills = shared, stream, 0
        self._alive: Matrix | None = None
        weakref.finalize(self, shared.close, stream, owner).atexit = False

    def refill(self) -> SuppliedRows:
        """Return slots that were never used."""
        rows, self._alive = self._shared.take(self._stream, self._refills)
        self._refills += 1
        return rows


def most_slots(d: int) -> int:
    """Return how many slots a chain may have at a time."""
    return max(64, MOST_BYTES // (8 * (d + 6)))


def slots_for(events: float, steps: int, d: int) -> int:
    """Return how many slots a chain should have that draws so many rows in a step, on average."""
    return int(min(max(FEWEST, SPARE * events * steps), most_slots(d)))


class Slots(NamedTuple):
    r"""Slots filled from some blocks: a partial result, which merges with that of others in any order.

    A slot's key is an exponential variable divided by :math:`\Psi_b`, one for each block. The least of independent
    exponential variables with rates :math:`\Psi_b` belongs to block b with probability :math:`\Psi_b / \Psi`. So of two
    partial results a slot takes the one with the smaller key: the same as replacing it with the new block's share of
    the total, but without random numbers of its own, and hence the same in any tree.
    """

    key: Vector
    """Infinite while no row had a bound above zero."""
    design: Matrix
    facts: Matrix
    """Of each slot's row: psi, weight, offset, and then its responses."""
    shares: NDArray[np.float32]

    def merged(self, other: "Slots") -> "Slots":
        """Return slots filled from both."""
        new = np.flatnonzero(other.key < self.key)
        parts: Any = zip(self, other, strict=True)
        for mine, its in parts:
            mine[new] = its[new]
        return self

    def supplied(self, rows: slice) -> "KeptRows":
        """Return some of the slots as compiled code takes them; none if no row had a bound above zero."""
        # Copies: a chain's slots are let go when they are used up, whatever others hold.
        design = self.design[rows].copy()
        if not np.all(np.isfinite(self.key[rows])):
            return KeptRows(empty_rows(self.shares), design)
        psi, weight, offset = (self.facts[rows, k].copy() for k in range(3))
        responses = self.facts[rows, 3:].copy()
        shares = self.shares[rows].copy()
        return KeptRows(
            SuppliedRows(describe(design), responses, weight, offset, psi, shares, np.empty((0, 2))), design
        )


class KeptRows(NamedTuple):
    """Slots, and the memory that their design is in."""

    rows: SuppliedRows
    design: Matrix


def offer(
    block: "Block",
    part: Callable[..., RowBounds],
    arguments: tuple[Any, ...],
    requests: tuple[Request, ...],
    best: Vector,
) -> Slots:
    """Draw a row of a block for every slot, in proportion to the rows' bounds."""
    return offered(block, part(block, *arguments), requests, best)


def no_offers(requests: tuple[Request, ...]) -> Vector:
    """Return the smallest key that each slot was offered before the first block."""
    return np.full(sum(request.slots for request in requests), np.inf)


def offered(block: "Block", bounds: RowBounds, requests: tuple[Request, ...], best: Vector) -> Slots:
    """Draw a row of a block whose bounds are known for every slot.

    Parameters
    ----------
    block : Block
        The rows.
    bounds : RowBounds
        Their bounds.
    requests : tuple of Request
        The slots.
    best : array
        The smallest keys that slots were offered so far, which is kept up to date: a slot that this block loses need
        not be filled. What it holds changes no result.

    Returns
    -------
    Slots
        Of this block; those that another block has won already have an infinite key.
    """
    psi, shares = bounds.psi, bounds.shares
    sums = np.cumsum(psi)
    total = float(sums[-1])
    places, keys = [], []
    for stream, refill, count in requests:
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence([*stream, refill, block.first])))
        keys.append(rng.standard_exponential(count))
        places.append(rng.random(count))
    key, place = np.concatenate(keys), np.concatenate(places)
    key = key / total if 0.0 < total < np.inf else np.full(key.size, np.inf)
    slots = Slots(
        key,
        np.empty((key.size, block.X.shape[1])),
        np.empty((key.size, 3 + block.responses.shape[1])),
        np.empty((key.size, 2), dtype=np.float32),
    )
    # A slot for which another block has offered a smaller key need not be filled. Threads may find an old key here,
    # which is larger: then a row is gathered in vain. A block whose offers were lost with a worker makes them again.
    wanted = (key <= best) & (key < np.inf)
    chosen = np.flatnonzero(wanted)
    if chosen.size:
        np.minimum(best, key, out=best)
        # The last row with a bound above zero is where rounding of the sums may lead, never one without.
        last = int(np.flatnonzero(psi)[-1])
        rows = np.minimum(np.searchsorted(sums, place[chosen] * total, side="right"), last)
        for column, values in enumerate((psi, block.weight, block.offset)):
            slots.facts[chosen, column] = values[rows] if values.size > 1 else values[0]
        slots.facts[chosen, 3:] = block.responses[rows]
        slots.design[chosen] = block.X[rows]
        slots.shares[chosen] = shares[rows] if shares.shape[0] > 1 else shares[0]
    key[~wanted] = np.inf
    return slots


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
