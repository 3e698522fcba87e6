"""A source of rows that are made from the batches of a table, in threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallbayes.errors import InputError
from tallbayes.sources.arrays import log_exposure, rows_of_a_block
from tallbayes.sources.base import Block, Source
from tallbayes.sources.memory import rows_of_columns
from tallbayes.sources.tables import Table, joined_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


class Piece(NamedTuple):
    """Rows of a table that are going to be a block."""

    first: int
    batches: list[Any]


class MappedSource(Source):
    """Rows of a table, made into blocks by a function of a batch.

    Parameters
    ----------
    table : Table
        The table (`tallbayes.sources.tables.open_table`).
    to_block : callable
        A function of a ``pyarrow.RecordBatch`` and the number of its first row that returns a `Block`. It is called in
        threads and perhaps elsewhere, so it can be pickled.
    names : sequence of str
        Names of the columns of the design.
    columns : sequence of str or None
        The columns of the table that the function needs; all by default.
    """

    def __init__(
        self,
        table: Table,
        to_block: Callable[[Any, int], Block],
        names: Sequence[str],
        columns: Sequence[str] | None = None,
    ) -> None:
        self.table, self.to_block, self.names = table, to_block, list(names)
        self.columns = list(table.schema.names if columns is None else columns)
        self.block_rows = rows_of_a_block(len(self.names))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.table.n

    def pieces(self) -> Iterator[Piece]:
        """Yield the batches of each block, and see that they have as many rows as the table said."""
        first = 0
        for batches in self.table.pieces(self.columns, self.block_rows):
            yield Piece(first, batches)
            first += sum(batch.num_rows for batch in batches)
        if first != self.n:
            raise InputError(
                f"{self.table.what} had {first:,} rows in this pass; expected {self.n:,}, as before. Leave data alone "
                "while a model is in use. If it can be read only once, make it a pyarrow.RecordBatchReader and say "
                "where a copy may be written: scratch='/some/directory'."
            )

    def opened(self, piece: Piece) -> Block:
        """Return the block of some batches."""
        try:
            return self.to_block(joined_batch(piece.batches), piece.first)
        except InputError as error:
            raise self.located(error) from None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""
        for piece in self.pieces():
            yield self.opened(piece)

    def located(self, error: InputError) -> InputError:
        """Return an error with the file and row group of the row it is about."""
        place = "" if error.row is None else self.table.place(error.row)
        return InputError(f"{error} The row is in {place}.") if place else error


@dataclass(frozen=True)
class ColumnsToBlock:
    """Makes blocks of columns that are used as they are."""

    design: tuple[str, ...]
    response: str | None
    weights: str | None = None
    offset: str | None = None
    exposure: str | None = None
    """Its logarithm is added to the offset."""

    @property
    def columns(self) -> list[str]:
        """The columns that are needed, each once."""
        beside = (self.response, self.weights, self.offset, self.exposure)
        return list(dict.fromkeys((*self.design, *(name for name in beside if name is not None))))

    def __call__(self, batch: Any, first: int) -> Block:
        """Return the block of a batch whose first row has the given number."""
        return self.of_columns({name: numbers(batch.column(name)) for name in self.columns}, first)

    def of_columns(self, columns: dict[str, Any], first: int) -> Block:
        """Return the block of columns by name, whose first row has the given number."""
        rows = len(next(iter(columns.values())))
        design = rows_of_columns([columns[name] for name in self.design])
        y = np.zeros(rows) if self.response is None else columns[self.response].astype(np.float64, copy=False)
        offset = self._per_row(columns, self.offset, 0.0, first)
        if self.exposure is not None:
            offset = offset + log_exposure(columns[self.exposure], first, f" of column {self.exposure!r}")
        return Block(first, design, y[:, None], self._per_row(columns, self.weights, 1.0, first), offset)

    @staticmethod
    def _per_row(columns: dict[str, Any], name: str | None, default: float, first: int) -> Any:
        if name is None:
            return np.full(1, default)
        values = columns[name].astype(np.float64, copy=False)
        usable = np.isfinite(values) if default == 0.0 else np.isfinite(values) & (values >= 0.0)
        if not np.all(usable):
            i = int(np.argmin(usable))
            wanted = "finite" if default == 0.0 else "finite, and zero or positive"
            what = "offset" if default == 0.0 else "weights"
            raise InputError(
                f"{what}: row {first + i} of column {name!r} is {values[i]}; every value must be {wanted}.",
                row=first + i,
            )
        return values


def numbers(column: Any) -> NDArray[Any]:
    """Return an Arrow array as numbers; what is missing is NaN."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O":  # booleans of which some are missing
        values = np.array([np.nan if value is None else float(value) for value in values])
    return values


def is_numeric(kind: Any) -> bool:
    """Return whether a type of Arrow holds numbers."""
    import pyarrow as pa

    tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null
    return any(test(kind) for test in tests)
