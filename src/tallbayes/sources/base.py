"""The contract of a source: rows in fixed blocks, and what can be asked of all of them.

A source is written by saying how many rows it has and giving its blocks, as often as asked. Sums over rows, the
subsample for a first guess, and rows drawn at random come with this class.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.sources.memory import writable_view
from tallbayes.sources.threads import available_threads, one_blas_thread, pool

if TYPE_CHECKING:
    from tallbayes.sources.arrays import ArraySource
    from tallbayes.sources.supply import Drawing

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SUPPLY, RANDOM_ACCESS = "supply", "random access"
"""What sources may offer beside passes: rows drawn at random in advance; any row, at any time."""


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
        total: Any = None
        with one_blas_thread():
            for result in _in_order(self._groups(), lambda group: _sum(part, group, arguments), workers):
                total = result if total is None else added(total, result)
        return total

    def checked_blocks(self) -> Iterator[Block]:
        """Yield all rows, or raise if the source does not keep its word: as many rows as it said, in every pass."""
        name, rows = type(self).__name__, 0
        for block in self.blocks():
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
        blocks = self.checked_blocks()
        while group := list(islice(blocks, self.together)):
            yield group

    def sampled(self, size: int) -> NDArray[np.int64]:
        """Return the numbers of the rows of a subsample: one at random, always the same, of each of equal ranges."""
        places = np.arange(size) + np.random.default_rng(0).random(size)
        return np.minimum((places * (self.n / size)).astype(np.int64), self.n - 1)

    def subsample(self, size: int) -> "ArraySource":
        """Return a source in memory of about ``size`` rows, spread over all; takes a pass."""
        from tallbayes.sources.arrays import ArraySource

        chosen = self.sampled(size)
        self.passes += 1
        parts = []
        for block in self.checked_blocks():
            low, high = np.searchsorted(chosen, [block.first, block.first + block.count])
            if high > low:
                parts.append(take(block, chosen[low:high] - block.first))
        return ArraySource.of_block(joined(parts), self.names)

    def supply(self, drawing: "Drawing", *, seed: int, threads: int | None = None) -> Any:
        """Return rows drawn at random, with probability proportional to their bounds, ahead of a chain."""
        from tallbayes.sources.supply import StreamedSupply

        return StreamedSupply(self, drawing, seed, threads)


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


def _sum(part: Part, group: list[Block], arguments: tuple[Any, ...]) -> Any:
    total: Any = None
    for block in group:
        result = part(block.converted(), *arguments)
        total = result if total is None else added(total, result)
    return total


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
