"""Dask data frames under a formula: what is learned goes through the partitions, rows are made where they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tallbayes.errors import InputError
from tallbayes.formulas.recipe import ToBlock
from tallbayes.formulas.survey import complete
from tallbayes.sources.clusters import DaskSource
from tallbayes.sources.tables import Table


class DaskTable(Table):
    """The rows of a Dask data frame, fetched a partition at a time.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The data frame.
    """

    what = "the Dask data frame"

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self._lengths = [int(length) for length in frame.map_partitions(len).compute()]
        if not self.n:
            raise InputError(f"{self.what}: there are no rows in it; at least one is needed.")
        number = next(i for i, length in enumerate(self._lengths) if length)
        self.schema = _arrow(frame.partitions[number].compute()).schema

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(self._lengths)

    def read(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the partitions in their order."""
        chosen = self.frame[list(columns)]
        for number, length in enumerate(self._lengths):
            if length:
                yield from _arrow(chosen.partitions[number].compute()).to_batches(max_chunksize=rows)


def _arrow(frame: Any) -> Any:
    """Return a pandas data frame as an Arrow table."""
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"data: a partition cannot be read ({str(error).splitlines()[0]}).") from None


@dataclass(frozen=True)
class CompleteColumns:
    """Takes columns from a partition, of the rows in which nothing is missing."""

    columns: tuple[str, ...]

    def __call__(self, frame: Any) -> dict[str, Any]:
        """Return the columns by name, as Arrow arrays."""
        import pyarrow as pa

        batches = _arrow(frame[list(self.columns)]).combine_chunks().to_batches()
        if not batches:
            return {name: pa.array([]) for name in self.columns}
        whole = complete(batches[0])
        batch = batches[0] if whole is None else batches[0].filter(pa.array(whole))
        return dict(zip(self.columns, batch.columns, strict=True))


def rows_on_a_cluster(table: DaskTable, to_block: ToBlock, names: list[str], columns: Sequence[str]) -> DaskSource:
    """Return the rows of a Dask data frame, made where its partitions are."""
    partitions = list(table.frame[list(columns)].to_delayed())
    return DaskSource(partitions, CompleteColumns(tuple(columns)), to_block, names)  # type: ignore[arg-type]
