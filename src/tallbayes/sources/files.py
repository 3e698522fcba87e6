"""Tables in Parquet files: read by pyarrow in threads of its own, ahead of whoever sums."""

from __future__ import annotations

import glob
import os
from bisect import bisect_right
from collections import deque
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallbayes.errors import InputError
from tallbayes.sources.tables import Table
from tallbayes.sources.threads import available_threads, pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

SUFFIXES = (".parquet", ".parq", ".pq")
"""Of the files of a folder that are read."""
AHEAD, PORTION = 2, 2**17
"""Portions of a file that are decoded in advance beside one for each thread, and their rows, or one row group."""
GIGANTIC = 2**22
"""Rows of a row group from which on it is decoded page by page and not as a whole, to hold less of it."""


class FileTable(Table):
    """The rows of a pyarrow data set.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        The data set.
    columns : sequence of str or None
        The columns that will be needed, whose types must be the same in every file.
    """

    def __init__(self, dataset: Any, columns: Sequence[str] | None = None) -> None:
        self._dataset, self.schema = dataset, dataset.schema
        self.what = _described(dataset)
        try:
            self._fragments = list(dataset.get_fragments())
        except ValueError as error:  # a filter, or columns that are computed
            raise InputError(
                f"{self.what}: the files of this data set cannot be read one by one ({error}). Expected a data set "
                "without a filter or a projection: write the rows that are wanted to a Parquet file, or give a query "
                "that yields them, such as a polars LazyFrame."
            ) from None
        self._stamps = {path: _stamp(path) for path in getattr(dataset, "files", [])}
        if columns is not None:
            self.refuse_missing(columns)
        self._counts = [self._checked(fragment, columns) for fragment in self._fragments]
        self._starts = [0, *accumulate(self._counts)]
        if self.n == 0:
            raise InputError(f"{self.what}: there are no rows in it; at least one is needed.")

    @classmethod
    def of_paths(cls, paths: Any, columns: Sequence[str] | None = None) -> FileTable:
        """Return the table in one file, several, those of a folder, or those that a pattern fits."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        remote = isinstance(paths, str) and "://" in paths
        files = paths if remote else _files(paths)
        try:
            options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)  # where pages have checksums
            parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
            dataset = ds.dataset(files, format=parquet, partitioning="hive")
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(files, error) from None
        return cls(dataset, columns)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._starts[-1]

    def read(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the rows, file by file."""
        import pyarrow as pa

        done = 0
        try:
            for batch in self._batches(list(columns), rows):
                done += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise self._broken(list(columns), done, error) from None

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Yield batches, decoded in the threads that sums are made in, a few row groups ahead of these.

        A scanner of pyarrow reads as far ahead as its disk is fast, so that a file that does not fit would be held.
        """
        workers = available_threads()
        waiting: deque[Future[list[Any]]] = deque()
        try:
            for fragment, groups in self._portions(rows):
                if groups is None:
                    while waiting:
                        yield from waiting.popleft().result()
                    yield from self._page_by_page(fragment, columns, rows)
                    continue
                waiting.append(pool(workers).submit(self._decoded, fragment, groups, columns, rows))
                if len(waiting) > workers + AHEAD:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for left in waiting:
                left.cancel()

    def _portions(self, rows: int) -> Iterator[tuple[Any, list[int] | None]]:
        """Yield files with numbers of row groups, of about so many rows; with None to be read page by page."""
        for fragment, count in zip(self._fragments, self._counts, strict=True):
            groups = getattr(fragment, "row_groups", None)
            if groups is None or any(group.num_rows > GIGANTIC for group in groups):
                yield fragment, None
                continue
            ids: list[int] = []
            held = 0
            for group in groups if count else []:
                if ids and held + group.num_rows > max(rows, PORTION):
                    yield fragment, ids
                    ids, held = [], 0
                ids.append(group.id)
                held += group.num_rows
            if ids:
                yield fragment, ids

    def _decoded(self, fragment: Any, groups: list[int], columns: list[str], rows: int) -> list[Any]:
        part = fragment.subset(row_group_ids=groups)
        table = part.to_table(schema=self.schema, columns=columns, use_threads=False)
        return list(table.to_batches(max_chunksize=rows))

    def _page_by_page(self, fragment: Any, columns: list[str], rows: int) -> Iterator[Any]:
        """Yield the rows of a file whose row groups are too large to be held, or that has none."""
        import pyarrow.parquet as pq

        inside = set(columns) <= set(fragment.physical_schema.names)
        if hasattr(fragment, "row_groups") and inside:
            with fragment.open() as stream:
                file = pq.ParquetFile(stream, buffer_size=2**20, pre_buffer=False)
                yield from (batch.select(columns) for batch in file.iter_batches(batch_size=rows, columns=columns))
        else:
            yield from fragment.to_batches(schema=self.schema, columns=columns, batch_size=rows, batch_readahead=1)

    def place(self, row: int) -> str:
        """Return file and row group."""
        at = min(bisect_right(self._starts, row) - 1, len(self._fragments) - 1)
        fragment, left = self._fragments[at], row - self._starts[at]
        path = getattr(fragment, "path", None)
        if path is None:
            return ""
        for group in getattr(fragment, "row_groups", []):
            if left < group.num_rows:
                return f"{path}, row group {group.id}"
            left -= group.num_rows
        return str(path)

    def _checked(self, fragment: Any, columns: Sequence[str] | None) -> int:
        """Return how many rows a file has, after seeing that it can be read and has the columns as others have."""
        import pyarrow as pa

        path = getattr(fragment, "path", None)
        try:
            physical = fragment.physical_schema
            count = fragment.count_rows()
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path or self.what, error) from None
        if path is None:
            return int(count)
        parts = _partition_columns(self._dataset, fragment)
        for name in (self.schema.names if columns is None else columns) if count else []:
            if name in parts:
                continue
            wanted = self.schema.field(name).type
            if name not in physical.names:
                raise InputError(
                    f"{path}: no column is called {name!r}, which other files of the table have; expected the same "
                    "columns in every file. Leave the file out, or write it anew."
                )
            found = physical.field(name).type
            if found != wanted:
                raise InputError(
                    f"{path}: column {name!r} is of type {found}; in {self._fragments[0].path} it is {wanted}. "
                    "Expected one type in all files: write one of them anew, with the column cast."
                )
        return int(count)

    def _broken(self, columns: list[str], done: int, error: Exception) -> InputError:
        """Return the error of a file that could not be read to its end, after finding the row group."""
        import pyarrow as pa

        changed = [path for path, stamp in self._stamps.items() if _stamp(path) != stamp]
        if changed:
            return InputError(
                f"{changed[0]}: the file is {'another one' if os.path.exists(changed[0]) else 'gone'} since the model "
                "was made. Leave data alone while a model is in use; make the model anew."
            )
        at = min(bisect_right(self._starts, done) - 1, len(self._fragments) - 1)
        for fragment in self._fragments[at:]:
            for group in getattr(fragment, "row_groups", []):
                try:
                    part = fragment.subset(row_group_ids=[group.id])
                    for _ in part.to_batches(schema=self.schema, columns=columns):
                        pass
                except (pa.ArrowException, OSError) as reason:
                    return _unreadable(f"{fragment.path}, row group {group.id}", reason)
        return _unreadable(getattr(self._fragments[at], "path", self.what), error)


def _stamp(path: str) -> tuple[int, int] | None:
    """Return size and time of a local file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _files(paths: Any) -> list[str]:
    """Return the files that are meant, in a fixed order."""
    found: list[str] = []
    for path in map(os.fspath, paths if isinstance(paths, list | tuple) else [paths]):
        if os.path.isdir(path):
            inside = [p for p in Path(path).rglob("*") if p.suffix in SUFFIXES and not _hidden(p.relative_to(path))]
            if not inside:
                raise InputError(f"{path}: there are no Parquet files in this folder (names that end in .parquet).")
            found += sorted(os.fspath(p) for p in inside)
        elif os.path.isfile(path):
            found.append(path)
        elif glob.has_magic(path):
            inside = [Path(p) for p in sorted(glob.glob(path, recursive=True))]
            if not inside:
                raise InputError(f"{path}: no file has a name that fits this pattern.")
            found += _files([os.fspath(p) for p in inside])
        else:
            raise InputError(f"{path}: there is no such file or folder.")
    return found


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _partition_columns(dataset: Any, fragment: Any) -> set[str]:
    """Return the columns that a file has by where it is."""
    import pyarrow.dataset as ds

    return set(ds.get_partition_keys(fragment.partition_expression))


def _described(dataset: Any) -> str:
    files = getattr(dataset, "files", [])
    return f"{files[0]} and {len(files) - 1} more" if len(files) > 1 else files[0] if files else "data"


def _unreadable(where: Any, error: Exception) -> InputError:
    where = where if isinstance(where, str) else where[0] if len(where) == 1 else f"one of {len(where)} files"
    reason = str(error).strip().split("\n", maxsplit=1)[0].rstrip(".")
    return InputError(
        f"{where}: this could not be read as Parquet ({reason}). It is no Parquet file, or damaged or cut off: "
        "write it anew, or leave it out."
    )
