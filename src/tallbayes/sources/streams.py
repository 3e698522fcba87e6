"""Tables that give their rows as an Arrow stream, anew for every pass; and copies of what can be read only once."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.sources.files import FileTable
from tallbayes.sources.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPILLED_ROWS = 2**18
"""Rows of a row group of a copy."""


def is_one_shot(data: Any) -> bool:
    """Return whether data are gone once they have been read."""
    iterator = hasattr(data, "__next__") and not hasattr(data, "sql")
    return type(data).__name__ == "RecordBatchReader" or iterator


class StreamTable(Table):
    """Rows of something that can be asked for an Arrow stream as often as needed.

    Parameters
    ----------
    data : Any
        A polars LazyFrame, or an object with ``__arrow_c_stream__``: a DuckDB relation, an Arrow table.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self.what = f"the {type(data).__name__}"
        self._lazy = hasattr(data, "collect_batches")
        self.schema = self._schema()
        self._n = self._count()
        if self._n == 0:
            raise InputError(f"{self.what}: there are no rows in it; at least one is needed.")

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._n

    def read(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Ask for the stream, of some columns where that can be said, and yield its batches."""
        try:
            for batch in self._ask(list(columns), rows):
                yield batch if batch.schema.names == list(columns) else batch.select(list(columns))
        except InputError:
            raise
        except Exception as error:  # engines raise whatever they like
            raise self._failed(error) from error

    def _ask(self, columns: list[str], rows: int) -> Iterator[Any]:
        import pyarrow as pa

        if self._lazy:
            for frame in self._data.select(columns).collect_batches(maintain_order=True, chunk_size=rows):
                yield from frame.to_arrow(compat_level=_plain_types()).to_batches()
            return
        data = self._data
        if _is_relation(data):
            data = data.project(", ".join('"' + name.replace('"', '""') + '"' for name in columns))
        if isinstance(data, pa.Table):
            yield from data.select(columns).to_batches(max_chunksize=rows)
            return
        yield from pa.RecordBatchReader.from_stream(data)

    def _schema(self) -> Any:
        import pyarrow as pa

        try:
            if self._lazy:
                return self._data.limit(0).collect().to_arrow(compat_level=_plain_types()).schema
            if _is_relation(self._data):
                return pa.RecordBatchReader.from_stream(self._data.limit(0)).schema
            return pa.RecordBatchReader.from_stream(self._data).schema
        except Exception as error:  # engines raise whatever they like
            raise self._failed(error) from error

    def _count(self) -> int:
        """Return the number of rows: by asking the engine, or by a pass."""
        if _is_relation(self._data):
            return int(self._data.aggregate("count(*)").fetchall()[0][0])
        if hasattr(self._data, "num_rows"):
            return int(self._data.num_rows)
        if self._lazy:
            import polars

            return int(self._data.select(polars.len()).collect().item())
        return sum(batch.num_rows for batch in self._ask(list(self.schema.names), 2**16))

    def _failed(self, error: Exception) -> InputError:
        reason = str(error).strip().split("\n", maxsplit=1)[0].rstrip(".")
        return InputError(
            f"{self.what} did not give its rows as an Arrow stream ({type(error).__name__}: {reason}). Try it on its "
            "own, or write its result to a Parquet file and give that. If it can be read only once, make it a "
            "pyarrow.RecordBatchReader and say where a copy may be written: scratch='/some/directory'."
        )


def _is_relation(data: Any) -> bool:
    """Return whether data are a query of DuckDB."""
    return type(data).__name__ == "DuckDBPyRelation"


def _plain_types() -> Any:
    """Return how polars is told to give types that every reader knows."""
    import polars

    return polars.CompatLevel.oldest()


def spilled(data: Any, directory: Path, columns: Sequence[str] | None = None) -> FileTable:
    """Write what can be read only once to a file, which is deleted with the table that is returned.

    Parameters
    ----------
    data : RecordBatchReader or iterator of RecordBatch
        The rows.
    directory : Path
        Where to write.
    columns : sequence of str or None
        The columns to keep; all by default.

    Returns
    -------
    FileTable
        The table in the file.
    """
    import pyarrow as pa

    if not directory.is_dir():
        raise InputError(f"scratch: {directory} is not a directory; expected one with room for a copy of the data.")
    try:
        handle, name = tempfile.mkstemp(dir=directory, prefix="tallbayes-", suffix=".parquet")
    except OSError as error:
        raise InputError(
            f"scratch: nothing can be written to {directory} ({error.strerror}); expected a directory with room for a "
            "copy of the data."
        ) from None
    os.close(handle)
    path = Path(name)
    rows = 0
    try:
        rows = _written(data, path, columns)
        if rows == 0:
            raise InputError("data: the stream has no rows; at least one is needed.")
        table = FileTable.of_paths(path, columns)
    except (OSError, pa.ArrowException) as error:
        path.unlink(missing_ok=True)
        reason = str(error).strip().split("\n", maxsplit=1)[0].rstrip(".")
        raise InputError(
            f"scratch: a copy of the stream could not be written to {directory} ({reason}). Nothing is left of it. "
            f"Choose a directory with more room than {counted(rows, 'row')}, and note that the stream has been used up."
        ) from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    weakref.finalize(table, path.unlink, missing_ok=True)
    return table


def _written(data: Any, path: Path, columns: Sequence[str] | None) -> int:
    """Write batches to a file, in row groups of a fixed size, and return how many rows they had."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    reader = data if not hasattr(data, "__arrow_c_stream__") else pa.RecordBatchReader.from_stream(data)
    writer, rows = None, 0
    try:
        for batch in _until_it_fails(reader):
            part = batch if columns is None else _selected(batch, columns)
            if writer is None:
                # Uncompressed: it is written once and read a few times.
                writer = pq.ParquetWriter(path, part.schema, compression="none", use_dictionary=False)
            writer.write_batch(part, row_group_size=SPILLED_ROWS)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _until_it_fails(reader: Any) -> Iterator[Any]:
    """Yield the batches of a stream, and say it if the stream itself fails."""
    import pyarrow as pa

    rows = 0
    batches = iter(reader)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            if "KeyboardInterrupt" in str(
                error
            ):  # a reader of Python's generators puts it into an error of its own
                raise KeyboardInterrupt from None
            reason = str(error).strip().split("\n", maxsplit=1)[0].rstrip(".")
            raise InputError(
                f"data: the stream failed after {counted(rows, 'row')} ({reason}). Nothing is left of its copy; mend "
                "what yields the rows, and give the stream anew."
            ) from error
        rows += batch.num_rows
        yield batch


def _selected(batch: Any, columns: Sequence[str]) -> Any:
    missing = [name for name in columns if name not in batch.schema.names]
    if missing:
        known = ", ".join(map(repr, batch.schema.names))
        raise InputError(f"data: the stream has no column {missing[0]!r}; expected one of {known}.")
    return batch.select(list(columns))
