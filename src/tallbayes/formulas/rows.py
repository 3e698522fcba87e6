"""Rows of a formula as a source: blocks made from batches of a table as they are asked for, or arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import counted, is_number
from tallbayes.errors import InputError
from tallbayes.families import Binomial, Family
from tallbayes.formulas.columns import LABELS, Labels, Value, codes_of, is_boolean, kind_of
from tallbayes.formulas.design import shortened
from tallbayes.formulas.formula import unique
from tallbayes.formulas.recipe import OFFSET, Recipe, ToBlock, needed
from tallbayes.formulas.survey import Survey, complete, loaded, refuse_missing, survey
from tallbayes.formulas.tables import Opened
from tallbayes.models.new_rows import for_new_rows
from tallbayes.models.variables import BOOLEAN, Setting, Shift, Variable, known
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
    """Raise unless what is set or asked for are variables of the model, and levels that it knows."""
    for name in [*(setting or {}), *beside]:
        known(recipe.variables, name, "setting" if setting and name in setting else "by")
    for name, value in (setting or {}).items():
        if not isinstance(value, Shift) and np.ndim(value) == 0:
            _refuse_unseen_level(recipe, name, value)


def _refuse_unseen_level(recipe: Recipe, name: str, value: Any) -> None:
    """Raise if a column is set in all rows to a level that a factor of it alone does not know."""
    value = value.item() if isinstance(value, np.generic) else value
    labels = recipe.variables[name].kind == "factor" and not is_number(value)
    if not labels and not is_number(value):  # what is not a number is refused later
        return
    column: Value = Labels(np.zeros(1, dtype=np.int64), (value,)) if labels else np.array([float(value)])
    for factor in (factor for design in recipe.designs for factor in design.factors.values()):
        if factor.levels is None or set(factor.expression.columns) != {name}:
            continue
        if codes_of(factor.labels({name: column}), factor.levels).min() < 0:
            raise InputError(
                f"setting: {name!r} is set to {value!r}, a level of {factor.expression.text!r} that the model has not "
                f"seen; it knows {shortened(factor.levels)}."
            )


def new_source(
    recipe: Recipe,
    new_data: Any,
    *,
    offset: ArrayLike | None = None,
    setting: Setting | None = None,
    beside: Sequence[str] = (),
    each: bool = False,
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
        Variables that are told beside the response, or other columns of the new data.
    each : bool
        Whether rows are taken one by one: their weights are not needed then.

    Returns
    -------
    Source
        The rows.
    """
    refuse_other_order({"new_data": new_data, "offset": offset})
    opened = Opened(new_data, "new_data")
    others = [name for name in beside if name in opened.columns]
    check_setting(recipe, setting, [name for name in beside if name not in others])
    if offset is None and OFFSET in recipe.offset_columns:
        raise InputError(
            "new_data: the model's offset was given as an array, and these rows have none. Give offset=..., one number "
            "for each row, or 0."
        )
    columns, has_response = needed(recipe, opened.columns, offset_given=offset is not None)
    weighing = () if each else recipe.weighing(opened.columns)
    columns = list(unique([*columns, *weighing, *others]))
    # What is set in all rows need not be there.
    table = _with_settings(opened, columns, setting)
    surveyed = survey(table, columns, {})
    refuse_missing(surveyed, "error", "new_data")
    _refuse_other_kinds(recipe, table)
    given = None if offset is None else per_row(offset, table.n, "offset", 0.0)
    found = {name: _beside(recipe, name, table, surveyed) for name in others}
    to_block = ToBlock(recipe, has_response, table.n, setting, tuple(beside), offset=given, new=True, found=found)
    return MappedSource(table, to_block, recipe.names, columns)


def _beside(recipe: Recipe, name: str, table: Table, surveyed: Survey) -> Variable:
    """Return what is known of a column to group new rows by: the model's levels, and those it has beside them."""
    about = recipe.variables.get(name)
    if surveyed.kinds[name] == LABELS:
        known_levels = about.levels if about is not None else ()
        return Variable("factor", (*known_levels, *(v for v in surveyed.ordered(name) if v not in known_levels)))
    if about is not None:
        return about
    return Variable("numeric", BOOLEAN if is_boolean(table, name) else ())


def new_family(family: Family, recipe: Recipe, new_data: Any, *, trials_unknown: bool = False) -> Family:
    """Return the family that responses of new rows are drawn from.

    Parameters
    ----------
    family : Family
        That of the model.
    recipe : Recipe
        What the formula makes of a row.
    new_data : frame, Arrow table, dictionary or path
        The rows.
    trials_unknown : bool
        Whether the family had a number of trials for each of the model's rows, which a result does not keep.

    Returns
    -------
    Family
        That of the model, or of successes out of trials with the trials of these rows.
    """
    trials = recipe.response.trials
    if trials is None:
        return for_new_rows(family, trials_unknown=trials_unknown)
    assert isinstance(family, Binomial)
    if not trials.columns:
        return replace(family, trials=recipe.response.trials_of({})[0])
    opened = Opened(new_data, "new_data")
    missing = [name for name in trials.columns if name not in opened.columns]
    if missing:
        raise InputError(
            f"new_data: there is no column {missing[0]!r}, which has the number of trials of each row; responses "
            "cannot be drawn without it. Add it, or predict kind='expected', the probability of a success."
        )
    table = opened.table(trials.columns, "new_data")
    refuse_missing(survey(table, trials.columns, {}), "error", "new_data")
    parts = [recipe.response.trials_of(loaded(batch)) for batch in table.batches(trials.columns)]
    return replace(family, trials=np.concatenate(parts))


class Usable(NamedTuple):
    """Those of some new rows that can be predicted."""

    table: Any
    """They, with all of their columns: a ``pyarrow.Table``."""
    numbers: NDArray[np.int64]
    """Their places among all rows that were given, from 0 on."""
    notes: list[str]
    """How many rows were left out, and because of which column."""


def usable_rows(recipe: Recipe, new_data: Any) -> Usable:
    """Return new data without the rows that cannot be predicted, and what was left out and why.

    Parameters
    ----------
    recipe : Recipe
        What the formula makes of a row.
    new_data : frame, Arrow table, dictionary or path
        The data.

    Returns
    -------
    Usable
        Rows in which nothing is missing that the terms need, and whose levels the model knows.
    """
    import pyarrow as pa

    opened = Opened(new_data, "new_data")
    columns = [*recipe.predicting, *(name for name in recipe.offset_columns if name != OFFSET)]
    columns = list(unique([*columns, *recipe.weighing(opened.columns)]))
    kept, missing, unseen, numbers, first = [], dict[str, int](), dict[str, int](), [], 0
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
        complete_rows = np.arange(batch.num_rows) if whole is None else np.flatnonzero(whole)
        numbers.append(first + complete_rows[known_levels])
        first += batch.num_rows
    notes = [f"values of {name!r} are missing in {counted(count, 'row')}" for name, count in missing.items()]
    notes += [
        f"{text!r} has levels that the model has not seen in {counted(n, 'row')}" for text, n in unseen.items() if n
    ]
    table = pa.Table.from_batches(kept)
    if table.num_rows == 0:
        raise InputError(f"new_data: no row can be predicted: {'; '.join(notes)}.")
    return Usable(table, np.concatenate(numbers), notes)


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
