"""Data by the names of their columns, as a source of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallbayes.errors import InputError
from tallbayes.sources.clusters import is_dask
from tallbayes.sources.mapped import ColumnsToBlock, MappedSource, is_numeric
from tallbayes.sources.tables import is_tabular, open_table

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from tallbayes.sources.base import Source
    from tallbayes.sources.tables import Table


def by_columns(data: Any, response: Any) -> bool:
    """Return whether data are given with the names of columns, and not as arrays."""
    if is_dask(data):
        return hasattr(data, "columns") and isinstance(response, str)
    return is_tabular(data) and (isinstance(response, str) or not hasattr(data, "__array__"))


def open_source(
    data: Any,
    *,
    response: str | None,
    design: Sequence[str] | None = None,
    offset: str | None = None,
    weights: str | None = None,
    exposure: str | None = None,
    scale_design: Sequence[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Source:
    """Return data as a source of rows, by the names of columns, for ``tb.Regression(source, None, family)``.

    Rows are read block by block whenever a pass over them is needed: they need not fit into memory.

    Parameters
    ----------
    data : path, list of paths, Dataset, LazyFrame, relation, Arrow table or stream, Dask data frame
        Where the rows are (`tallbayes.sources.tables.open_table`).
    response : str or None
        Column of the response; None if there is none, for predictions.
    design : sequence of str or None
        Columns of the design, in the order of the coefficients; all others by default. None is added.
    offset : str or None
        Column of the known part of each row's predictor.
    weights : str or None
        Column of frequency weights.
    exposure : str or None
        Column of exposures, of counts: their logarithm is added to the offset.
    scale_design : sequence of str or None
        Columns of a second design, that of a scale, which stands at the end of the first one; both may have a column.
    scratch : path or None
        A directory for a copy of what can be read only once.

    Returns
    -------
    Source
        The rows.
    """
    beside = {"response": response, "weights": weights, "offset": offset, "exposure": exposure}
    _refuse_other_names(beside, design)
    if scale_design is not None:
        if design is None:
            raise InputError("design: None was given with a scale_design; expected a list of the names of columns.")
        _refuse_other_names({}, scale_design, "scale_design")
        design = [*design, *scale_design]
    if is_dask(data):
        return _of_dask_frame(data, beside, design)
    named = [name for name in beside.values() if name is not None]
    table = open_table(data, None if design is None else list(dict.fromkeys((*design, *named))), scratch=scratch)
    if design is None:
        table.refuse_missing(named)
        design = [name for name in table.schema.names if name not in named]
    to_block = ColumnsToBlock(tuple(design), **beside)
    _refuse_other_types(table, to_block.columns)
    return MappedSource(table, to_block, list(design), to_block.columns)


def _of_dask_frame(frame: Any, beside: dict[str, str | None], design: Sequence[str] | None) -> Source:
    """Return the rows of a Dask data frame."""
    if not hasattr(frame, "columns"):
        raise InputError("data: a Dask array was given with names of columns; expected a Dask data frame.")
    from tallbayes.sources.clusters import of_frame

    named = tuple(beside.values())
    design = [str(name) for name in frame.columns if name not in named] if design is None else design
    return of_frame(frame, ColumnsToBlock(tuple(design), **beside))


def _refuse_other_names(given: dict[str, Any], design: Sequence[str] | None, owner: str = "design") -> None:
    """Raise unless columns are given by their names, each once."""
    for what, name in given.items():
        if name is not None and not isinstance(name, str):
            raise InputError(
                f"{what}: a {type(name).__name__} was given; expected the name of a column, since the data are a table."
            )
    if design is None:
        return
    wrong = isinstance(design, str) or not all(isinstance(name, str) for name in design) or len(design) == 0
    if wrong:
        raise InputError(f"{owner}: {design!r} was given; expected a list of the names of columns, at least one.")
    repeated = sorted({name for name in design if list(design).count(name) > 1})
    if repeated:
        raise InputError(f"{owner}: {repeated[0]!r} is named more than once; expected different columns.")


def _refuse_other_types(table: Table, columns: Sequence[str]) -> None:
    """Raise if a column does not hold numbers."""
    for name in columns:
        kind = table.schema.field(name).type
        if not is_numeric(kind):
            raise InputError(
                f"{table.what}: column {name!r} is of type {kind}; expected numbers. Use tb.glm, which makes columns "
                "of categories and dates, or name the columns of the design: design=[...]."
            )
