"""Rows of Dask collections: sums are made where the rows are, and merged in a tree.

Workers get plain functions and arrays. What they return depends on the rows alone, and never on which worker made it or
how often it was tried; so a worker that is lost costs the time to do its part again, and nothing else.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.sources.arrays import rows_of_a_block
from tallbayes.sources.base import Block, Source, added, checksum
from tallbayes.sources.mapped import ColumnsToBlock
from tallbayes.sources.threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ARITY = 8
"""Partial results that are merged at a time."""
SHARE = 0.4
"""Of the workers' memory, how much rows may take that are kept there."""


def is_dask(data: Any) -> bool:
    """Return whether data are a collection of Dask."""
    return type(data).__module__.split(".")[0] == "dask" and hasattr(data, "__dask_graph__")


class Partition(NamedTuple):
    """What a worker needs to know of a partition."""

    first: int
    """Number of its first row."""
    number: int
    block_rows: int


class PartitionSum(NamedTuple):
    """What a pass gives for some partitions: a partial result."""

    result: Any
    seen: dict[int, int]
    """A checksum of each partition, by its number."""


class DaskSource(Source):
    """Rows in the partitions of a Dask collection.

    Parameters
    ----------
    partitions : list of Delayed
        The partitions, in the order of their rows.
    to_columns : callable
        A function of a partition that returns its columns by name.
    to_block : ColumnsToBlock
        Which columns are design, response, weights and offset.
    names : sequence of str
        Names of the columns of the design.
    """

    kept = False
    """Whether workers keep the partitions in memory."""

    def __init__(
        self,
        partitions: list[Any],
        to_columns: Callable[[Any], dict[str, Any]],
        to_block: ColumnsToBlock,
        names: Sequence[str],
    ) -> None:
        import dask

        self._dask = dask
        self.names, self._to_columns, self._to_block = list(names), to_columns, to_block
        counts = dask.compute(*[dask.delayed(_rows)(part, to_columns) for part in partitions])
        self._starts = [0, *accumulate(counts)]
        if self.n == 0:
            raise InputError("data: the collection has no rows; at least one is needed.")
        self._partitions = [part for part, count in zip(partitions, counts, strict=True) if count]
        self._starts = [0, *accumulate(count for count in counts if count)]
        self.block_rows = rows_of_a_block(len(self.names))
        self._keep_if_it_fits()

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    def blocks(self) -> Iterator[Block]:
        """Yield all rows, a partition at a time: they are fetched for it."""
        for number, part in enumerate(self._partitions):
            columns = self._dask.delayed(self._to_columns)(part).compute()
            yield from _blocks(columns, self._to_block, self._place(number))

    def reduce(self, part: Callable[..., Any], *arguments: Any, threads: int | None = None) -> Any:
        """Add up a function of each block where the rows are; partial results merge in a tree of fixed shape.

        Parameters
        ----------
        part : callable
            A function of a block and the further arguments.
        *arguments : Any
            What it takes beside the block.
        threads : int or None
            Not used: the cluster has its own.

        Returns
        -------
        Any
            The sum of what the function returned.
        """
        self.passes += 1
        delayed = self._dask.delayed
        shared = delayed(_Given(part, arguments, self._to_columns, self._to_block), traverse=False)
        nodes = [
            delayed(_sum_of_partition, pure=False)(rows, self._place(number), shared)
            for number, rows in enumerate(self._partitions)
        ]
        while len(nodes) > 1:
            groups = (nodes[i : i + ARITY] for i in range(0, len(nodes), ARITY))
            nodes = [delayed(_merged, pure=False)(group) if len(group) > 1 else group[0] for group in groups]
        total: PartitionSum = nodes[0].compute()
        for number, now in total.seen.items():
            if self.seen.setdefault(number, now) != now:
                first, last = self._starts[number], self._starts[number + 1] - 1
                raise InputError(
                    f"{type(self).__name__}: partition {number} (rows {first:,} to {last:,}) is not what it was in the "
                    "first pass; expected the same rows in the same order every time. Leave data alone while a model "
                    "is in use, or persist the collection first."
                )
        if self.listener is not None:
            self.listener(self.n)
        return total.result

    def _place(self, number: int) -> Partition:
        return Partition(int(self._starts[number]), number, self.block_rows)

    def _keep_if_it_fits(self) -> None:
        """Ask workers to keep partitions, if their memory allows it: otherwise every pass reads them again."""
        client: Any = getattr(self._dask.base.get_scheduler(), "__self__", None)
        if not hasattr(client, "scheduler_info"):  # no cluster: threads of this process, or what the user chose
            return
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        room = sum(worker.get("memory_limit") or 0 for worker in workers)
        if 8.0 * self.n * (len(self.names) + 3) < SHARE * room:
            self._partitions, self.kept = list(client.persist(self._partitions)), True


class _Given(NamedTuple):
    """What all partitions are given in a pass."""

    part: Callable[..., Any]
    arguments: tuple[Any, ...]
    to_columns: Callable[[Any], dict[str, Any]]
    to_block: ColumnsToBlock


def _rows(partition: Any, to_columns: Callable[[Any], dict[str, Any]]) -> int:
    return len(next(iter(to_columns(partition).values())))


def _blocks(columns: dict[str, Any], to_block: ColumnsToBlock, place: Partition) -> Iterator[Block]:
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, place.block_rows):
        some = {name: values[start : start + place.block_rows] for name, values in columns.items()}
        yield to_block.of_columns(some, place.first + start).converted()


def _sum_of_partition(partition: Any, place: Partition, given: _Given) -> PartitionSum:
    """Return what a part gives for the rows of a partition, with their checksum."""
    total, check = None, 0
    try:
        with one_blas_thread():
            for block in _blocks(given.to_columns(partition), given.to_block, place):
                check ^= checksum(block) + block.first
                result = given.part(block, *given.arguments)
                total = result if total is None else added(total, result)
    except InputError as error:
        raise InputError(f"{error} (Partition {place.number}.)", row=error.row) from None
    return PartitionSum(total, {place.number: check})


def _merged(parts: list[PartitionSum]) -> PartitionSum:
    """Add up partial results; they are not changed, since a scheduler may use them again."""
    total, seen = copy.deepcopy(parts[0].result), dict(parts[0].seen)
    for part in parts[1:]:
        total = added(total, part.result)
        seen |= part.seen
    return PartitionSum(total, seen)


@dataclass(frozen=True)
class FrameColumns:
    """Takes columns from a partition that is a pandas data frame."""

    columns: tuple[str, ...]

    def __call__(self, frame: Any) -> dict[str, Any]:
        """Return the columns by name, what is missing as NaN."""
        return {name: frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in self.columns}


@dataclass(frozen=True)
class ArrayColumns:
    """Takes columns from a partition that is a design and arrays beside it."""

    names: tuple[str, ...]
    beside: tuple[str, ...]

    def __call__(self, arrays: list[Any]) -> dict[str, Any]:
        """Return the columns by name."""
        design, *others = (np.asarray(array) for array in arrays)
        return {name: design[:, j] for j, name in enumerate(self.names)} | dict(
            zip(self.beside, others, strict=True)
        )


def of_frame(frame: Any, to_block: ColumnsToBlock) -> DaskSource:
    """Return the rows of a Dask data frame."""
    known = list(frame.columns)
    for name in to_block.columns:
        if known.count(name) != 1:
            raise InputError(
                f"data: {'no' if name not in known else 'more than one'} column is called {name!r}; expected one of "
                f"{', '.join(map(repr, known[:20]))}."
            )
        kind = frame.dtypes[name]
        if getattr(kind, "kind", "f") not in "buif":
            raise InputError(
                f"data: column {name!r} is of type {kind}; expected numbers. Use tb.glm, which makes columns of "
                "categories, or name the columns of the design: design=[...]."
            )
    partitions = frame[to_block.columns].to_delayed()
    return DaskSource(list(partitions), FrameColumns(tuple(to_block.columns)), to_block, to_block.design)


def of_arrays(X: Any, beside: dict[str, Any], names: Sequence[str] | None = None) -> DaskSource:
    """Return the rows of a Dask array; response, weights and offset are arrays too.

    Parameters
    ----------
    X : dask.array.Array
        Design, rows x columns.
    beside : dict
        One-dimensional arrays: ``response``, and perhaps ``weights``, ``offset`` and ``exposure``.
    names : sequence of str or None
        Names of the columns; x0, x1, ... by default.

    Returns
    -------
    DaskSource
        The rows.
    """
    import dask
    import dask.array as da

    if X.ndim != 2:
        raise InputError(f"X: {counted(X.ndim, 'dimension')} were given; expected two, rows x columns.")
    if np.isnan(X.shape[0]):
        X.compute_chunk_sizes()
    X = X.rechunk({1: -1})
    columns = tuple(names) if names is not None else tuple(f"x{j}" for j in range(X.shape[1]))
    others: dict[str, Any] = {}
    for what, values in beside.items():
        if values is None:
            continue
        array = values if is_dask(values) else da.from_array(np.asarray(values))
        if array.ndim == 1 and np.isnan(array.shape[0]):
            array.compute_chunk_sizes()
        if array.shape != (X.shape[0],):
            raise InputError(f"{what}: shape {array.shape} was given; X has {X.shape[0]:,} rows, so one for each.")
        others[what] = array.rechunk((X.chunks[0],))
    parts = zip(X.to_delayed()[:, 0], *(array.to_delayed() for array in others.values()), strict=True)
    partitions = [dask.delayed(list)(part) for part in parts]
    beside_names = tuple(f"({what})" for what in others)  # no column of the design is called that
    to_block = ColumnsToBlock(columns, *(f"({what})" if what in others else None for what in BESIDE))
    return DaskSource(partitions, ArrayColumns(columns, beside_names), to_block, columns)


BESIDE = ("response", "weights", "offset", "exposure")
"""Arrays beside a design, in the order in which `ColumnsToBlock` has their columns."""
