"""Rows of a formula as a source: blocks made from batches of a table as they are asked for, or arrays."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tallbayes.errors import InputError
from tallbayes.formulas.columns import codes_of, kind_of
from tallbayes.formulas.recipe import OFFSET, Recipe, ToBlock, needed
from tallbayes.formulas.survey import complete, loaded, refuse_missing, survey
from tallbayes.formulas.tables import Opened
from tallbayes.models.variables import Setting, Shift, known
from tallbayes.sources.arrays import ArraySource, per_row
from tallbayes.sources.base import Block, Source
from tallbayes.sources.indexes import refuse_other_order
from tallbayes.sources.mapped import MappedSource
from tallbayes.sources.tables import Table, open_table


class CompleteTable(Table):
    """The rows of a table in which nothing is missing.

    Parameters
    ----------
    table : Table
        All rows.
    columns : sequence of str
        The columns in which nothing may be missing; others are not there.
    n : int
        How many such rows there are.
    """

    def __init__(self, table: Table, columns: Sequence[str], n: int) -> None:
        import pyarrow as pa

        self.table, self._columns, self._n = table, list(columns), n
        self.schema = pa.schema([table.schema.field(name) for name in columns])
        self.what = table.what

    @property
    def n(self) -> int:
        """Number of rows in which nothing is missing."""
        return self._n

    def read(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the rows that are left of each batch."""
        import pyarrow as pa

        for batch in self.table.read(self._columns, rows):
            whole = complete(batch)
            kept = batch if whole is None else batch.filter(pa.array(whole))
            yield kept.select(list(columns))


def in_memory(table: Table, to_block: ToBlock, names: list[str], columns: Sequence[str]) -> ArraySource:
    """Return all rows as arrays."""
    n = table.n
    recipe = to_block.recipe
    weighted, shifted = to_block.together is not None or recipe.weights is not None, bool(recipe.offsets)
    weight, offset = np.ones(n if weighted else 1), np.zeros(n if shifted else 1)
    arrays = (np.empty((n, len(names))), np.empty((n, 1)), weight, offset)
    MappedSource(table, to_block, names, columns).reduce(_fill, arrays, (True, True, weighted, shifted))
    return ArraySource(*arrays, names)


def _fill(block: Block, arrays: tuple[Any, ...], wanted: tuple[bool, ...]) -> int:
    """Put a block into its place in arrays."""
    rows = slice(block.first, block.first + block.count)
    for array, part, used in zip(arrays, block[1:], wanted, strict=True):
        if used:
            array[rows] = part
    return 0


def check_setting(recipe: Recipe, setting: Setting | None, beside: Sequence[str]) -> None:
    """Raise unless what is set or asked for are variables of the model."""
    for name in [*(setting or {}), *beside]:
        known(recipe.variables, name, "setting" if setting and name in setting else "by")


def new_source(
    recipe: Recipe, new_data: Any, offset: ArrayLike | None, setting: Setting | None, beside: Sequence[str]
) -> Source:
    """Return rows of new data.

    Parameters
    ----------
    recipe : Recipe
        What the formula makes of a row.
    new_data : frame, Arrow table, dictionary or path
        With the columns that the formula needs; those of the response may be absent.
    offset : array_like or None
        In the place of the formula's offset.
    setting : mapping or None
        What to put in the place of variables.
    beside : sequence of str
        Variables that are told beside the response.

    Returns
    -------
    Source
        The rows.
    """
    check_setting(recipe, setting, beside)
    refuse_other_order({"new_data": new_data, "offset": offset})
    opened = Opened(new_data, "new_data")
    if offset is None and OFFSET in recipe.offset_columns:
        raise InputError(
            "new_data: the model's offset was given as an array, and these rows have none. Give offset=..., one number "
            "for each row, or 0."
        )
    columns, has_response = needed(recipe, opened.columns, offset_given=offset is not None)
    # What is set in all rows need not be there.
    table = _with_settings(opened, columns, setting)
    refuse_missing(survey(table, columns, {}), "error", "new_data")
    _refuse_other_kinds(recipe, table)
    given = None if offset is None else per_row(offset, table.n, "offset", 0.0)
    to_block = ToBlock(recipe, has_response, table.n, setting, tuple(beside), offset=given)
    return MappedSource(table, to_block, recipe.names, columns)


def usable_rows(recipe: Recipe, new_data: Any) -> tuple[Any, list[str]]:
    """Return new data without the rows that cannot be predicted, and what was left out and why.

    Parameters
    ----------
    recipe : Recipe
        What the formula makes of a row.
    new_data : frame, Arrow table, dictionary or path
        The data.

    Returns
    -------
    pyarrow.Table
        Rows in which nothing is missing that the terms need, and whose levels the model knows; all of their columns.
    list of str
        How many rows were left out, and because of which column.
    """
    import pyarrow as pa

    opened = Opened(new_data, "new_data")
    columns = [*recipe.predicting, *(name for name in recipe.offset_columns if name != OFFSET)]
    kept, missing, unseen = [], dict[str, int](), dict[str, int]()
    for batch in opened.table(opened.columns, "new_data").batches():
        opened.refuse_unknown(columns, "new_data")
        whole = complete(batch.select(columns), missing)
        left = batch if whole is None else batch.filter(pa.array(whole))
        values = loaded(left.select(columns))
        known_levels = np.ones(left.num_rows, dtype=np.bool_)
        factors = {text: factor for design in recipe.designs for text, factor in design.factors.items()}
        for text, factor in factors.items():
            if factor.levels is not None and left.num_rows:
                found = factor.labels(values)
                seen = codes_of(found, factor.levels) >= 0
                unseen[text] = unseen.get(text, 0) + int(np.count_nonzero(~seen))
                known_levels &= seen
        kept.append(left.filter(pa.array(known_levels)))
    notes = [f"values of {name!r} are missing in {count:,} rows" for name, count in missing.items()]
    notes += [f"{text!r} has levels that the model has not seen in {n:,} rows" for text, n in unseen.items() if n]
    table = pa.Table.from_batches(kept)
    if table.num_rows == 0:
        raise InputError(f"new_data: no row can be predicted: {'; '.join(notes)}.")
    return table, notes


def _with_settings(opened: Opened, columns: Sequence[str], setting: Setting | None) -> Table:
    """Return the columns that new data have, and for those that are set and absent, what they are set to."""
    import pyarrow as pa

    values = {name: value.start if isinstance(value, Shift) else value for name, value in (setting or {}).items()}
    absent = [name for name in columns if name not in opened.columns and values.get(name) is not None]
    present = [name for name in columns if name not in absent]
    table = opened.table(present, "new_data")
    if not absent:
        return table
    whole = pa.Table.from_batches(list(table.batches(present)))
    for name in absent:
        value: Any = values[name]
        whole = whole.append_column(name, pa.array(value if np.ndim(value) else [value] * whole.num_rows))
    return open_table(whole)


def _refuse_other_kinds(recipe: Recipe, table: Table) -> None:
    """Raise if a column holds labels where the model has numbers, or the other way round."""
    for name, about in recipe.variables.items():
        if name not in table.schema.names:  # part of an offset that was given otherwise
            continue
        kind = kind_of(table.schema.field(name).type, name)
        whole = all(isinstance(level, int | float) for level in about.levels)
        if about.kind == "numeric" and kind == "factor":
            raise InputError(f"new_data: column {name!r} holds labels; the model was fitted to numbers.")
        if about.kind == "factor" and kind == "numeric" and not whole:
            raise InputError(
                f"new_data: column {name!r} holds numbers; the model was fitted to labels such as "
                f"{about.levels[0]!r}. Convert it to text."
            )
