"""Data of any kind as a table of the columns that a formula needs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.errors import InputError
from tallbayes.formulas.clusters import DaskTable
from tallbayes.sources.clusters import is_dask
from tallbayes.sources.indexes import refuse_other_order
from tallbayes.sources.tables import Table, is_path, is_tabular, open_table

if TYPE_CHECKING:
    import pyarrow as pa

CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.bz2", ".tsv.bz2")
MOST_CSV_BYTES = 2**28
"""CSV files up to this size are read at once, so that the types of columns are judged by all rows."""


class Opened:
    """Data as they were given: which columns there are, and a table of some of them.

    Parameters
    ----------
    data : frame, Arrow table, dictionary, path, or anything else that gives an Arrow stream
        The data.
    what : str
        What they are called in messages.
    """

    def __init__(self, data: Any, what: str = "data") -> None:
        self.what = what
        self._table: Table | None = None
        self._frame: Any = None
        if _is_csv(data):
            data = _read_csv(Path(data), what)
        if isinstance(data, Mapping):
            data = _from_mapping(data, what)
        if is_dask(data):
            self._table = DaskTable(data)
            self.columns = list(self._table.schema.names)
        elif _is_streamed(data):
            self._table = open_table(data)
            self.columns = list(self._table.schema.names)
        else:
            self._frame = _frame(data, what)
            self.columns = [str(name) for name in self._frame.columns]

    @property
    def in_memory(self) -> bool:
        """Whether all of the data are in memory already."""
        return self._table is None

    def refuse_unknown(self, needed: Sequence[str], where: str) -> None:
        """Raise if a column that is needed is not there, or there twice."""
        for name in needed:
            if name not in self.columns:
                close = get_close_matches(name, self.columns, n=1)
                separator = next(
                    (mark for mark in ";\t|" if len(self.columns) == 1 and mark in self.columns[0]), None
                )
                if separator is not None:
                    raise InputError(
                        f"{where}: {self.what} has no column {name!r}, but one alone, {self.columns[0]!r}: its "
                        f"fields seem to be separated by {separator!r}. CSV files are read with commas, TSV files with "
                        f"tabs; read others first, e.g. data=pd.read_csv(path, sep={separator!r})."
                    )
                raise InputError(
                    f"{where}: {self.what} has no column {name!r}{f'; is it {close[0]!r}?' if close else '.'} It has "
                    f"{', '.join(self.columns[:30])}{', ...' if len(self.columns) > 30 else ''}."
                )
            if self.columns.count(name) > 1:
                raise InputError(f"{where}: {self.what} has {self.columns.count(name)} columns called {name!r}.")

    def table(self, needed: Sequence[str], where: str = "formula") -> Table:
        """Return a table that has some columns."""
        self.refuse_unknown(needed, where)
        if self._table is not None:
            return self._table
        return open_table(self._arrow(needed))

    def _arrow(self, needed: Sequence[str]) -> "pa.Table":
        import narwhals as nw
        import pyarrow as pa

        by_name = {str(name): name for name in self._frame.columns}
        chosen = (
            self._frame.select([nw.col(by_name[name]).alias(name) for name in needed]) if needed else self._frame
        )
        if isinstance(chosen, nw.LazyFrame):
            chosen = chosen.collect()
        if not len(chosen):
            raise InputError(f"{self.what}: it has no rows; at least one is needed.")
        try:
            made = chosen.to_arrow()
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                f"{self.what}: a column holds values of different kinds ({str(error).splitlines()[0]}). Give every "
                "column one type: numbers, text or categories."
            ) from None
        made = made.rename_columns([str(name) for name in made.column_names])
        return made.select(list(needed)) if needed else made


def _is_streamed(data: Any) -> bool:
    """Return whether data are read block by block: files, data sets and queries, not frames in memory."""
    import narwhals as nw

    if is_path(data) or isinstance(data, Table):
        return True
    known = nw.dependencies.is_into_dataframe(data) or nw.dependencies.is_into_series(data)
    if type(data).__name__ == "RecordBatchReader" or known:
        return False
    return is_tabular(data)


def _frame(data: Any, what: str) -> Any:
    """Return data in memory as narwhals knows them."""
    import narwhals as nw

    if type(data).__name__ == "RecordBatchReader":
        data = data.read_all()
    try:
        return nw.from_native(data)
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(line.strip("- ") for line in str(error).splitlines()[1:])
        raise InputError(f"{what}: names of columns must differ; found {twice}. Rename or drop some.") from None
    except TypeError:
        raise InputError(
            f"{what}: a {type(data).__name__} was given; expected a data frame (pandas, polars), an Arrow table, a "
            "dictionary of columns, or the path of Parquet files or of a CSV file."
        ) from None


def _from_mapping(data: Mapping[Any, Any], what: str) -> "pa.Table":
    """Return a dictionary of columns as a table; a single value counts for every row."""
    import pyarrow as pa

    if not data:
        raise InputError(f"{what}: an empty dictionary was given; expected columns by name.")
    lengths = {str(name): len(values) for name, values in data.items() if not _is_single(values)}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{what}: its columns have different lengths: {lengths}.")
    refuse_other_order({f"{what}[{str(name)!r}]": values for name, values in data.items()})
    rows = next(iter(lengths.values()), 1)
    columns = {}
    for name, values in data.items():
        try:
            columns[str(name)] = pa.array(values if str(name) in lengths else [values] * rows, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                f"{what}: column {str(name)!r} cannot be used ({str(error).splitlines()[0]})."
            ) from None
    return pa.table(columns)


def _is_single(value: Any) -> bool:
    return isinstance(value, str | bytes) or not hasattr(value, "__len__") or np.shape(value) == ()


def _is_csv(data: Any) -> bool:
    return isinstance(data, str | os.PathLike) and str(data).lower().endswith(CSV_ENDINGS)


def _read_csv(path: Path, what: str) -> Any:
    """Return a CSV file: an empty field is missing, as NA and NaN are. A large one is read block by block."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import csv

    if not path.is_file():
        raise InputError(f"{what}: there is no file {str(path)!r}.")
    parsing = csv.ParseOptions(delimiter="\t" if ".tsv" in path.name.lower() else ",")
    converting = csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    try:
        if path.stat().st_size > MOST_CSV_BYTES:
            kind = ds.CsvFileFormat(parse_options=parsing, convert_options=converting)
            return ds.dataset(path, format=kind)
        reading = csv.ReadOptions(block_size=MOST_CSV_BYTES)
        return csv.read_csv(path, read_options=reading, parse_options=parsing, convert_options=converting)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{what}: {str(path)!r} cannot be read as CSV ({str(error).splitlines()[0]}).") from None


def one_batch(table: "pa.Table") -> "pa.RecordBatch":
    """Return a table as a single batch."""
    import pyarrow as pa

    whole = table.unify_dictionaries().combine_chunks()
    batches = whole.to_batches()
    if len(batches) == 1:
        return batches[0]
    arrays = [pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([]) for column in whole.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=whole.schema)


def gathered(batches: Iterator["pa.RecordBatch"]) -> "pa.Table":
    """Return batches as one table in memory."""
    import pyarrow as pa

    return pa.Table.from_batches(list(batches)).unify_dictionaries()
