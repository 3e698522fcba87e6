"""Tables of named columns that can be read again and again: files, and whatever gives Arrow streams.

A table is what a source of rows is made from: batches of columns, in a fixed order, cut at fixed numbers of rows
whatever the cuts of the file are. So nothing depends on row groups.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallbayes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

ROWS = 65536
"""Rows of a batch, unless another number is asked for."""


class Table(ABC):
    """Columns with names and types, of which batches of rows can be read as often as needed."""

    schema: pa.Schema
    """Names and types of the columns."""
    what: str
    """What the table is, for messages."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of rows."""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows of some columns in a fixed order, in batches of any size, about ``rows`` rows each."""

    def place(self, row: int) -> str:
        """Return where a row is to be found, in words; nothing if there is no better name than its number."""
        return ""

    def pieces(self, columns: Sequence[str], rows: int = ROWS) -> Iterator[list[pa.RecordBatch]]:
        """Yield all rows, each time exactly ``rows`` of them (the last time, the rest), as batches to be joined."""
        piece: list[Any] = []
        held = 0
        for batch in self.read(list(columns), rows):
            start = 0
            while batch.num_rows - start:
                more = min(rows - held, batch.num_rows - start)
                piece.append(batch if more == batch.num_rows else batch.slice(start, more))
                held, start = held + more, start + more
                if held == rows:
                    yield piece
                    piece, held = [], 0
        if piece:
            yield piece

    def batches(self, columns: Sequence[str] | None = None, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
        """Yield all rows in batches of exactly ``rows`` rows, the last one of the rest.

        Parameters
        ----------
        columns : sequence of str or None
            The columns to read; all by default.
        rows : int
            Rows of a batch.

        Yields
        ------
        pyarrow.RecordBatch
            The columns in the order asked for.
        """
        for piece in self.pieces(self.schema.names if columns is None else columns, rows):
            yield joined_batch(piece)

    def refuse_missing(self, columns: Iterable[str]) -> None:
        """Raise if a column is not there, or there more than once."""
        for name in columns:
            count = self.schema.names.count(name)
            if count != 1:
                known = ", ".join(map(repr, self.schema.names[:20])) + (", ..." if len(self.schema) > 20 else "")
                raise InputError(
                    f"{self.what}: {'no' if count == 0 else 'more than one'} column is called {name!r}; expected one "
                    f"of {known}."
                )


def joined_batch(piece: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return consecutive batches as one."""
    if len(piece) == 1:
        return piece[0]
    import pyarrow as pa

    return pa.Table.from_batches(piece).combine_chunks().to_batches()[0]


def is_path(data: Any) -> bool:
    """Return whether data are given by where they are: a path, or several."""
    several = isinstance(data, list | tuple) and len(data) > 0
    return isinstance(data, str | os.PathLike) or (several and all(isinstance(p, str | os.PathLike) for p in data))


def is_tabular(data: Any) -> bool:
    """Return whether data can be opened as a table of named columns."""
    kind = type(data)
    lazy = kind.__module__.split(".")[0] == "polars" and kind.__name__ == "LazyFrame"
    return (
        is_path(data) or isinstance(data, Table) or lazy or hasattr(data, "__arrow_c_stream__") or _is_dataset(data)
    )


def _is_dataset(data: Any) -> bool:
    return type(data).__module__ == "pyarrow._dataset"


def open_table(
    data: Any, columns: Sequence[str] | None = None, *, scratch: str | os.PathLike[str] | None = None
) -> Table:
    """Return data as a table that can be read as often as needed.

    Parameters
    ----------
    data : path, list of paths, Dataset, LazyFrame, relation, Arrow table or stream
        Parquet files, a folder of them (partitioned or not), or a pattern such as ``"trips/*.parquet"``; a pyarrow
        Dataset; a polars LazyFrame or a DuckDB relation, which are asked anew for every pass; anything else that
        gives an Arrow stream.
    columns : sequence of str or None
        The columns that will be needed; all of them by default. Others are not read.
    scratch : path or None
        A directory for a copy of what can be read only once, such as a RecordBatchReader. It is deleted with the table.

    Returns
    -------
    Table
        The table.
    """
    from tallbayes.sources.files import FileTable
    from tallbayes.sources.streams import StreamTable, is_one_shot, spilled

    if isinstance(data, Table):
        table = data
    elif is_path(data):
        table = FileTable.of_paths(data, columns)
    elif _is_dataset(data):
        table = FileTable(data, columns)
    elif is_one_shot(data):
        if scratch is None:
            raise InputError(
                f"data: a {type(data).__name__} was given, which can be read only once; expected something that can be "
                "read again, since passes over all rows are needed. Say where a copy may be written: "
                "scratch='/some/directory'; or give the file or query that it comes from."
            )
        table = spilled(data, Path(scratch), columns)
    elif is_tabular(data):
        table = StreamTable(data)
    else:
        raise InputError(
            f"data: a {type(data).__name__} was given; expected a path, a pyarrow Dataset, a polars LazyFrame, a "
            "DuckDB relation, or something else that gives an Arrow stream."
        )
    table.refuse_missing(columns or [])
    return table
