"""The contract of a source: rows in fixed blocks, and what can be asked of all of them.

A source is written by saying how many rows it has and giving its blocks, as often as asked. Sums over rows, the
subsample for a first guess, and rows drawn at random come with this class.
"""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.errors import InputError
from tallbayes.sources.memory import writable_view
from tallbayes.sources.threads import Shared, available_threads, give_back_rooms, one_blas_thread, pool

if TYPE_CHECKING:
    from tallbayes.sources.arrays import ArraySource
    from tallbayes.sources.supply import Drawing

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SUPPLY, RANDOM_ACCESS = "supply", "random access"
"""What sources may offer beside passes: rows drawn at random in advance; any row, at any time."""


MANY, NEIGHBOURS = 30_000, 8
"""From so many rows on a subsample is taken by so many neighbours at a time."""
MULTIPLIER, MASK = 6364136223846793005, 2**128 - 1
"""Of checksums."""
STEP = np.uint64(0x9E3779B97F4A7C15)
"""What keys of checksums are made of."""


_ONE_PASS = threading.RLock()
"""Passes over what is read anew every time are made one after the other: chains would only wait for the same disk."""


class Block(NamedTuple):
    """Some consecutive rows."""

    first: int
    """Number of the first of them."""
    X: NDArray[Any]
    """Their part of the design, rows x columns."""
    responses: Matrix
    """Rows x responses of a row: one for regressions."""
    weight: Vector
    """One number for each row, or a single one for all."""
    offset: Vector
    """Likewise."""

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many rows."""
        return int(self.responses.shape[0])

    def converted(self) -> "Block":
        """Return the block as passes take it, in float64 and row by row: the one place where precision matters."""
        return Block(
            self.first, *(writable_view(np.ascontiguousarray(part, dtype=np.float64)) for part in self[1:])
        )


Part = Callable[..., Any]
"""A function of a block and further arguments, at the top level of a module, so that it can be sent elsewhere.

What it returns is added up: a number, an array, a tuple of such, or something with a method ``merged(other)``."""


class Source(ABC):
    """Rows that can be gone through, in the same order and the same blocks every time.

    A subclass sets ``names``, and has ``n`` and ``blocks``; see `Block` for what a block is made of. Give it to
    ``tb.Regression(source, None, family)``.
    """

    names: list[str]
    """Names of the columns."""
    offers: frozenset[str] = frozenset({SUPPLY})
    """What kernels can ask for beside passes."""
    passes: int = 0
    """How often all rows were gone through so far."""
    watched: bool = True
    """Whether rows might be others the next time, so that every pass compares them with the first."""
    converts = False
    """Whether a pass makes float64 of each block, row by row, beside the rows as they are kept."""
    copied_bytes = 0
    """Of a copy of the data that is kept, because the data are of a kind that compiled code does not read."""
    listener: Callable[[int], None] | None = None
    """Told during a pass how many rows are done: for a display of progress."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of rows."""

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yield all rows, in blocks whose borders never change."""

    @property
    def together(self) -> int:
        """How many blocks a thread takes at a time."""
        return 1

    def reduce(self, part: Part, *arguments: Any, threads: int | None = None) -> Any:
        """Add up a function of each block, in the order of the blocks: the same result for any number of threads.

        Parameters
        ----------
        part : callable
            A function of a block and the further arguments.
        *arguments : Any
            What it takes beside the block.
        threads : int or None
            Threads to use; defaults to every core.

        Returns
        -------
        Any
            The sum of what the function returned.
        """
        self.passes += 1
        workers = threads or available_threads()
        with one_blas_thread(), _ONE_PASS if self.watched else nullcontext():
            if RANDOM_ACCESS in self.offers and self.listener is None:
                groups = list(self._groups())
                total = Shared(groups, lambda group: self._sum(part, group, arguments)[1], _plus).total(workers)
            else:
                total = self._sum_in_turn(part, arguments, workers)
        give_back_rooms()
        return total

    def _sum_in_turn(self, part: Part, arguments: tuple[Any, ...], workers: int) -> Any:
        """Do so where pieces come one after the other, in this thread, or somebody is told how many rows are done."""
        total: Any = None
        done = 0
        for rows, result in _in_order(self._groups(), lambda group: self._sum(part, group, arguments), workers):
            total = _plus(total, result)
            done += rows
            if self.listener is not None:
                self.listener(done)
        return total

    def pieces(self) -> Iterator[Any]:
        """Yield all rows as `opened` takes them: blocks, unless making a block is work for threads."""
        yield from self.checked_blocks()

    def opened(self, piece: Any) -> Block:
        """Return the block of a piece; called in threads."""
        return piece

    def located(self, error: InputError) -> InputError:
        """Return an error about a row, with the place where the row is to be found."""
        return error

    def _sum(self, part: Part, group: list[Any], arguments: tuple[Any, ...]) -> tuple[int, Any]:
        """Return the rows of a group of pieces, and what a part gives for them."""
        total, rows = None, 0
        for piece in group:
            block = self.opened(piece).converted()
            rows += block.count
            if self.watched:
                self.refuse_change(block)
            try:
                result = part(block, *arguments)
            except InputError as error:
                raise self.located(error) from None
            total = _plus(total, result)
        return rows, total

    @cached_property
    def seen(self) -> dict[int, int]:
        """A checksum of each block, by its first row, as the first pass found it."""
        return {}

    def refuse_change(self, block: Block) -> None:
        """Raise if a block is not what it was in the first pass."""
        now = checksum(block)
        if self.seen.setdefault(block.first, now) != now:
            raise self.located(
                InputError(
                    f"{type(self).__name__}: rows {block.first:,} to {block.first + block.count - 1:,} are not what "
                    "they were in the first pass; expected the same rows in the same order every time. Leave data "
                    "alone while a model is in use, and make the model anew if they have changed. A query whose order "
                    "of rows is not fixed is best written to a Parquet file first.",
                    row=block.first,
                )
            )

    def checked_blocks(self) -> Iterator[Block]:
        """Yield all rows, or raise if the source does not keep its word: as many rows as it said, in every pass."""
        name, rows, blocks = type(self).__name__, 0, self.blocks()
        if not hasattr(blocks, "__iter__"):
            raise InputError(
                f"{name}: blocks() returned a {type(blocks).__name__}; expected blocks, one after another."
            )
        for block in blocks:
            _refuse_no_block(block, name)
            shapes = [np.shape(part) for part in (block.responses, block.weight, block.offset)]
            count = shapes[0][0] if shapes[0] else 0
            one_or_each = all(shape in {(1,), (count,)} for shape in shapes[1:])
            if len(shapes[0]) != 2 or count == 0 or not one_or_each or block.first != rows:
                raise InputError(
                    f"{name}: a block that begins at row {block.first} has responses, weight and offset of shapes "
                    f"{shapes}; expected row {rows}, responses of (rows, 1), at least one row, and one weight and "
                    "offset for each row, or arrays of a single one."
                )
            rows += count
            yield block
        if rows != self.n:
            raise InputError(
                f"{name}: its blocks had {rows:,} rows in this pass; expected {self.n:,}, as its n says. A source must "
                "yield the same rows every time it is asked."
            )

    def _groups(self) -> Iterator[list[Block]]:
        pieces = self.pieces()
        while group := list(islice(pieces, self.together)):
            yield group

    def sampled(self, size: int) -> NDArray[np.int64]:
        """Return the numbers of the rows of a subsample: one at random, always the same, of each of equal ranges.

        Of many rows a few neighbours at a time, which are read several times faster from memory.
        """
        rng = np.random.default_rng(0)
        if size < MANY or self.n < 2 * size:
            places = np.arange(size) + rng.random(size)
            return np.minimum((places * (self.n / size)).astype(np.int64), self.n - 1)
        spots = size // NEIGHBOURS
        places = np.arange(spots) + rng.random(spots)
        first = np.minimum((places * (self.n / spots)).astype(np.int64), self.n - NEIGHBOURS)
        return (first[:, None] + np.arange(NEIGHBOURS)).ravel()

    def subsample(self, size: int) -> "ArraySource":
        """Return a source in memory of about ``size`` rows, spread over all; takes a pass, unless it is kept."""
        if size not in self.kept_samples:
            self.keep_samples({size: self.reduce(gather_rows, self.sampled(size))})
        return self.kept_samples[size]

    @cached_property
    def kept_samples(self) -> "dict[int, ArraySource]":
        """Subsamples that a pass has gathered, by their size."""
        return {}

    def keep_samples(self, found: "dict[int, GatheredRows]") -> None:
        """Keep subsamples that were gathered in a pass for something else."""
        from tallbayes.sources.arrays import ArraySource

        for size, rows in found.items():
            self.kept_samples[size] = ArraySource.of_block(joined(rows.parts), self.names)

    def supply(self, drawing: "Drawing | None", *, threads: int | None = None) -> Any:
        """Return rows drawn at random, with probability proportional to their bounds, ahead of a chain."""
        from tallbayes.sources.supply import StreamedSupply

        return StreamedSupply(self, drawing, threads)


def _refuse_no_block(block: Any, name: str) -> None:
    """Raise unless something is a block, and its arrays are of numbers that a float64 holds."""
    if not isinstance(block, Block):
        raise InputError(
            f"{name}: blocks() yielded a {type(block).__name__}; expected tallbayes.sources.base.Block(first, X, "
            "responses, weight, offset)."
        )
    for part, values in zip(Block._fields[1:], block[1:], strict=True):
        if np.asarray(values).dtype.kind not in "buif":
            raise InputError(
                f"{name}: {part} of the block that begins at row {block.first} is of dtype {np.asarray(values).dtype}; "
                "expected real numbers."
            )


def take(block: Block, rows: NDArray[np.int64]) -> Block:
    """Return copies of some rows of a block."""
    return Block(
        block.first,
        block.X[rows],
        block.responses[rows],
        block.weight if block.weight.size == 1 else block.weight[rows],
        block.offset if block.offset.size == 1 else block.offset[rows],
    )


def joined(parts: list[Block]) -> Block:
    """Return several blocks as one, with a number for each row where parts differ in that."""

    def column(name: str) -> Vector:
        single = [getattr(part, name) for part in parts]
        if all(values.size == 1 and values[0] == single[0][0] for values in single):
            return single[0]
        return np.concatenate([np.broadcast_to(v, p.count) for v, p in zip(single, parts, strict=True)])

    return Block(
        parts[0].first,
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.responses for part in parts]),
        column("weight"),
        column("offset"),
    )


class GatheredRows(NamedTuple):
    """Some rows of some blocks: a partial result, which merges with that of later blocks."""

    parts: list[Block]

    def merged(self, other: "GatheredRows") -> "GatheredRows":
        """Return the rows of both."""
        self.parts.extend(other.parts)
        return self


def gather_rows(block: Block, chosen: NDArray[np.int64]) -> GatheredRows:
    """Return those rows of a block whose numbers are among the chosen, which are sorted."""
    low, high = np.searchsorted(chosen, [block.first, block.first + block.count])
    return GatheredRows([take(block, chosen[low:high] - block.first)] if high > low else [])


def checksum(block: Block) -> int:
    """Return a number made of the bits of all numbers of a block that is in float64.

    Another value of any one of them gives another, and so do numbers that change places, all but certainly.
    """
    total = 0
    for part in (array for array in block[1:] if array.size):
        with np.errstate(over="ignore"):  # which is said if compilation is switched off
            plain, keyed = _sums_of_bits(part.view(np.uint64).reshape(-1))
        total = (total * MULTIPLIER + (int(plain) << 64) + int(keyed) + 1) & MASK
    return total


@compiled
def _sums_of_bits(words: NDArray[np.uint64]) -> tuple[Any, Any]:
    """Return the sum of some integers, which sees any single change; and one that depends on their places.

    For the second a key is added to each integer, and its lower half then multiplied by its upper half: numbers that
    differ in their sign alone, which change the last bit only, are seen to change places as well. Keys follow no line:
    the numbers of a row move as far as each other, and what they change would cancel. One exchange in some 2^32 is not
    seen.
    """
    plain, keyed, place = np.uint64(0), np.uint64(0), np.uint64(0)
    lower, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for i in range(words.size):
        place += STEP
        key = (place & lower) * (place >> half)
        with_key = words[i] + (key ^ (key >> half))
        plain += words[i]
        keyed += (with_key & lower) * (with_key >> half)
    return plain, keyed


def _plus(total: Any, more: Any) -> Any:
    """Return the sum of the results so far, None before the first, and the next."""
    return more if total is None else added(total, more)


def added(total: Any, more: Any) -> Any:
    """Return the sum of two results of parts; arrays are added in place."""
    if total is None:
        return None
    if hasattr(total, "merged"):
        return total.merged(more)
    if isinstance(total, tuple):
        return tuple(added(a, b) for a, b in zip(total, more, strict=True))
    if isinstance(total, np.ndarray):
        total += more
        return total
    return total + more


def _in_order(groups: Iterator[Any], function: Callable[[Any], Any], workers: int) -> Iterator[Any]:
    """Apply a function in threads and yield the results in order; few groups are held at a time."""
    if workers <= 1:
        yield from map(function, groups)
        return
    first = next(groups, None)
    second = next(groups, None)
    if second is None:  # nothing to share
        if first is not None:
            yield function(first)
        return
    waiting = deque(pool(workers).submit(function, group) for group in (first, second))
    try:
        for group in groups:
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
            waiting.append(pool(workers).submit(function, group))
        while waiting:
            yield waiting.popleft().result()
    finally:
        for left in waiting:
            left.cancel()
