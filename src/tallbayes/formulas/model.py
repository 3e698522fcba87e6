"""Regressions given by a formula and a table."""

# Annotations stay text, so that `help` shows them as they are written here.
from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.families import Binomial, Categorical, Family, Ordinal
from tallbayes.formulas.clusters import DaskTable, rows_on_a_cluster
from tallbayes.formulas.collapse import collapse as put_together
from tallbayes.formulas.expressions import Expression, column, read
from tallbayes.formulas.formula import Formula, read_formula, unique
from tallbayes.formulas.learning import Learned, learn, needed_columns
from tallbayes.formulas.recipe import OFFSET, WEIGHTS, Recipe, ToBlock, Together
from tallbayes.formulas.restored import KIND
from tallbayes.formulas.rows import CompleteTable, check_setting, in_memory, new_family, new_source
from tallbayes.formulas.survey import loaded
from tallbayes.formulas.tables import Opened, gathered, one_batch
from tallbayes.models.regression import Regression, refuse_exposure
from tallbayes.models.stored import family_to_plain
from tallbayes.sources.arrays import log_exposure, numeric
from tallbayes.sources.encoded import EncodedSource
from tallbayes.sources.indexes import refuse_other_order
from tallbayes.sources.mapped import MappedSource
from tallbayes.sources.tables import Table, open_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from tallbayes.models.variables import Setting, Variable
    from tallbayes.priors import Prior
    from tallbayes.sources.base import Source

MOST_IN_MEMORY = 2**30
"""Bytes of a design up to which that of a file is kept in memory."""

MOST_LINES = 40
"""Coefficients that a model prints, at most."""


class Given(NamedTuple):
    """Where the rows of a model come from."""

    table: Table
    """The columns that they are made from."""
    dropped: NDArray[np.int64]
    """Places in the data of rows that were left out, since something is missing in them."""
    together: Together | None = None
    """What became of equal rows if they were put together."""
    apart: Table | None = None
    """The rows before that."""


class FormulaRegression(Regression):
    """A regression given by a formula; `tallbayes.glm` makes it.

    Parameters
    ----------
    source : Source
        Design, response, offset and weights of the rows.
    family : Family
        The likelihood.
    prior : Prior or sequence of Prior or mapping or None
        By coefficient, by term, or by the beginning of names.
    recipe : Recipe
        What the formula makes of a row, with levels, knots and means.
    notes : sequence of str
        What was decided about the data.
    columns : Given
        The table that the rows are made from, and what became of those of the data.
    """

    def __init__(
        self,
        source: Source,
        family: Family,
        prior: Prior | Sequence[Prior] | Mapping[str, Prior] | None,
        *,
        recipe: Recipe,
        notes: Sequence[str],
        columns: Given,
    ) -> None:
        scale = None if recipe.scale is None else recipe.scale.names
        self.recipe, self.notes = recipe, tuple(notes)
        super().__init__(source, None, family, prior, scale_design=scale)
        self._given = columns

    def _terms(self) -> dict[str, list[str]]:
        """Return the coefficients of each term, those of a second predictor as ``scale_beta[term]``."""
        found, scale = dict(self.recipe.design.terms), self.recipe.scale
        group = self.structure.outputs[-1].name
        for term, columns in ({} if scale is None else scale.terms).items():
            found[f"{group}[{term}]"] = [f"{group}[{column}]" for column in columns]
        return found

    @property
    def formula(self) -> str:
        """The formula, as it was given."""
        return self.recipe.text

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is called: the family's, or that of a log response."""
        logged = self.recipe.response.expression.call in {"log", "np.log"}
        return "ratio of responses" if logged and not self.family.ratio else self.family.ratio

    @property
    def rows_given(self) -> int:
        """Rows of the data, without those that were dropped; ``n`` of them are different if equal ones are together."""
        together = self._given.together
        return self.n if together is None else int(together.times.sum())

    @property
    def terms(self) -> dict[str, list[str]]:
        """The coefficients of each term."""
        return self.recipe.design.terms

    @property
    def variables(self) -> dict[str, Variable]:
        """What is known of each column of the data that the terms need: its levels, or where its numbers lie."""
        return self.recipe.variables

    def rows_of(
        self,
        new_data: Any = None,
        *,
        offset: ArrayLike | None = None,
        setting: Setting | None = None,
        beside: Sequence[str] = (),
        each: bool = False,
    ) -> Source:
        """Return rows to predict: the model's own, or new ones, with some variables set to other values.

        Parameters
        ----------
        new_data : frame, Arrow table, dictionary or path, or None
            Data with the columns that the formula needs; None for the model's own rows.
        offset : array_like or None
            In the place of the offset of new rows.
        setting : mapping or None
            What to put in the place of columns of the data: a value for all rows, one for each, or a `Shift`.
        beside : sequence of str
            Columns whose values, before they are set, stand beside the response: as further columns of a block's
            responses (of a factor, the numbers of its levels).
        each : bool
            Whether rows are taken one by one: equal ones of the model, put together, are apart again, and weights
            of new ones are not needed.

        Returns
        -------
        Source
            The rows; responses are zero if there are none.
        """
        if new_data is not None:
            return new_source(self.recipe, new_data, offset=offset, setting=setting, beside=beside, each=each)
        if offset is not None:
            raise InputError("offset: an offset was given without new_data; the model's own rows have theirs.")
        check_setting(self.recipe, setting, beside)
        apart = self._given.apart if each else None
        if not setting and not beside and apart is None:
            return self.source
        table, together = (self._given.table, self._given.together) if apart is None else (apart, None)
        to_block = ToBlock(self.recipe, True, table.n, setting, tuple(beside), together)
        made = MappedSource(table, to_block, self.recipe.names, self.recipe.fitting)
        family = self.family_of(each=each)
        return made if type(family).encode is Family.encode else EncodedSource(made, family.encode)

    def family_of(self, new_data: Any = None, *, each: bool = False) -> Family:
        """Return the family that responses of rows are drawn from: a Binomial with their trials.

        Parameters
        ----------
        new_data : frame, Arrow table, dictionary or path, or None
            The rows, as for `rows_of`; None for the model's own.
        each : bool
            Whether equal rows of the model, put together, are apart again.

        Returns
        -------
        Family
            For these rows alone if they have trials of their own.
        """
        if new_data is not None:
            return new_family(self.family, self.recipe, new_data)
        apart = self._given.apart if each else None
        return self.family if apart is None else _with_trials(self.family, self.recipe, apart)

    @property
    def row_numbers(self) -> NDArray[np.int64] | None:
        """Places of the rows in the data, from 0 on, if some were dropped; None if rows have their own numbers."""
        gone = self._given.dropped
        return np.delete(np.arange(self.rows_given + gone.size), gone) if gone.size else None

    def to_json(self) -> str:
        """Return the formula with its levels, knots and means, and the family, so that new rows can be predicted."""
        about = {
            "kind": KIND,
            "family": family_to_plain(self.family),
            "names": self.names,
            "notes": list(self.notes),
            "rows": self.rows_given,
            "recipe": self.recipe.plain(),
        }
        return json.dumps(about)

    def __repr__(self) -> str:
        """Describe the model: what was given, rows, what was decided about the data, coefficients and priors."""
        lines = [
            f"{self.formula}",
            *([f"scale   {self.recipe.scale_text}"] if self.recipe.scale_text else []),
            f"family  {self.family!r}",
            *(f"{what:7} {text}" for what, text in self.recipe.beside.items()),
            f"rows    {self.rows_given:,}, {counted(self.d, 'coefficient')}",
            *(f"note    {note}" for note in self.notes),
            "",
        ]
        told = []
        for j, name in enumerate(self.names[:MOST_LINES]):
            told.append(self.coefficient_priors.part(j).describe([name]).rpartition(" ~ "))
        width = max(len(name) for name, _, _ in told)
        lines += [f"{name:{width}}  ~ {text}" for name, _, text in told]
        if self.d > MOST_LINES:
            lines.append(f"... and {self.d - MOST_LINES} more; model.names has all of them")
        return "\n".join(lines)


def glm(
    formula: str,
    data: Any,
    family: Family,
    prior: Prior | Sequence[Prior] | Mapping[str, Prior] | None = None,
    *,
    scale_formula: str | None = None,
    offset: str | ArrayLike | None = None,
    weights: str | ArrayLike | None = None,
    exposure: str | ArrayLike | None = None,
    missing: str = "error",
    collapse: bool = True,
    stream: bool | None = None,
) -> FormulaRegression:
    """Make a regression from a formula and a table.

    Levels of factors, knots of splines and means are taken from the data once and kept with the model, also in a
    result that is saved. Levels are sorted, so that their order in the data does not matter. The model prints itself.

    Parameters
    ----------
    formula : str
        Such as ``"late ~ bs(hour, df=5) + C(month) + distance * origin"``, as formulaic, patsy and R have them:
        columns, ``+ - * : **``, categorical columns or ``C(...)``, ``I(...)``, functions such as ``log``, ``bs``,
        ``cr``, ``poly``, ``scale``, ``center``, and ``offset(...)``. A response of text with two levels counts the
        second as the event; successes out of trials are ``p(successes, trials)``. No other Python is ever run.
    data : frame, Arrow table, dictionary or path
        A data frame (pandas, polars or another that narwhals knows), an Arrow table or stream, a dictionary of
        columns, or the path of a Parquet or CSV file.
    family : Family
        Likelihood, from `tallbayes.families`.
    prior : Prior or sequence of Prior or mapping or None
        As for `Regression`; keys of a dictionary are coefficients, terms (``"C(month)"``, all of its coefficients), or
        the beginning of names with a star (``"bs(hour*"``); of one class: ``"green: x"``, ``"green: C(month)"``.
    scale_formula : str or None
        Formula of the log scale, without a response, of families whose scale is unknown: ``"~ hour"``.
    offset : str or array_like or None
        Known part of each row's predictor: an expression of columns such as ``"log(exposure)"``, or numbers.
    weights : str or array_like or None
        Frequency weights: a column, or numbers. A row of weight 3 counts as three rows.
    exposure : str or array_like or None
        Of counts, how long or how much each row was at risk: a column, an expression, or numbers. The same as an offset
        of its logarithm, which new rows have too if it is a column.
    missing : str
        What becomes of rows in which a column that is needed is missing: "error" refuses the data and says how many
        rows miss which columns; "drop" leaves them out, and the model says so.
    collapse : bool
        Whether to put equal rows together into one with a weight where at most half of the rows are different. The
        posterior is the same. Rows that are streamed are left as they are.
    stream : bool or None
        Whether to read rows block by block in every pass instead of keeping the design in memory. By default that is
        done for files, data sets and queries whose design would take more than a gigabyte.

    Returns
    -------
    FormulaRegression
        The model, for `explain`, `sample` and predictions.
    """
    if not isinstance(family, Family):
        raise InputError(f"family: {family!r} was given; expected e.g. tb.families.Bernoulli().")
    if missing not in {"error", "drop"}:
        raise InputError(f"missing: {missing!r} was given; expected 'error' or 'drop'.")
    if exposure is not None:
        refuse_exposure(family)
    opened = Opened(data)
    read = read_formula(formula, opened.columns)
    scale = None if scale_formula is None else _of_scale(scale_formula, opened.columns, family)
    given = {"offset": offset, "weights": weights, "exposure": exposure}
    table, offsets, weighing = _table(opened, data, read, scale, given)
    learned = learn(read, table, family, offsets=offsets, weights=weighing, scale=scale, missing=missing)
    learned = replace(learned, recipe=replace(learned.recipe, beside=_as_given(given)))
    recipe, n = learned.recipe, learned.survey.kept
    family = _with_labels(family, recipe)
    if learned.survey.dropped and isinstance(family, Binomial) and np.ndim(family.trials) == 1:
        raise InputError(
            f"family: trials were given for each row, and {counted(learned.survey.dropped, 'row')} would be dropped. "
            "Put the trials into the data: 'p(successes, trials) ~ ...' with family=tb.families.Binomial()."
        )
    if learned.survey.dropped:
        table = CompleteTable(table, recipe.fitting, n)
    size = 8 * n * len(recipe.names)
    if stream if stream is not None else not (opened.in_memory or size <= MOST_IN_MEMORY):
        return _streamed(table, learned, family, prior)
    return _in_memory(gathered(table.batches(recipe.fitting)), learned, family, prior, collapse)


def _of_scale(text: str, available: Sequence[str], family: Family) -> Formula:
    """Return the formula of the scale, or raise if the family has none to estimate."""
    found = read_formula(text, available, response=False)
    if found.offsets:
        raise InputError(f"scale_formula: {text!r} has an offset, which belongs to the location; leave it out.")
    try:
        family.structure(["x"], ["z"])
    except InputError:
        raise InputError(
            f"scale_formula: {text!r} was given with {family!r}, which has no scale to be estimated; leave it out, or "
            "leave the scale open, e.g. tb.families.StudentT(scale=None)."
        ) from None
    return found


def _with_labels(family: Family, recipe: Recipe) -> Family:
    """Return a family of classes with the names of the response's levels, in their order."""
    levels = recipe.response.levels
    if levels is None or not isinstance(family, Categorical | Ordinal):
        return family
    names = tuple(str(level) for level in levels)
    given = family.classes if isinstance(family, Categorical) else family.levels
    if given is not None and given != len(names) and given != names:
        raise InputError(
            f"family: {family!r} was given; the response {recipe.response.expression.text!r} has {len(names)} levels: "
            f"{', '.join(map(repr, names))}. Give the family these names, in the order you want, or none."
        )
    return replace(family, classes=names) if isinstance(family, Categorical) else replace(family, levels=names)


def _table(
    opened: Opened, data: Any, formula: Formula, scale: Formula | None, given: dict[str, Any]
) -> tuple[Table, tuple[Expression, ...], Expression | None]:
    """Return the columns that are needed, arrays given beside the data among them, and how to find those."""
    refuse_other_order({"data": data, **given})
    beside: dict[str, Any] = {}
    found: dict[str, list[Expression]] = {OFFSET: [], WEIGHTS: []}
    for what, name in (("offset", OFFSET), ("weights", WEIGHTS), ("exposure", OFFSET)):
        value = given[what]
        if value is None:
            continue
        if isinstance(value, str):
            found[name].append(_expression(value, opened.columns, what))
            continue
        numbers = numeric(value, what)
        if what == "exposure":
            numbers = log_exposure(np.atleast_1d(numbers)).reshape(numbers.shape)
        if name not in beside:
            found[name].append(column(name))
        beside[name] = beside[name] + numbers if name in beside else numbers
    offsets, weighing = tuple(found[OFFSET]), next(iter(found[WEIGHTS]), None)
    names = needed_columns(formula, offsets, weighing, scale)
    if not beside:
        return opened.table(names), offsets, weighing
    needed = [name for name in names if name not in beside]
    whole = gathered(opened.table(needed).batches(needed))
    for name, values in beside.items():
        whole = _appended(whole, name, values)
    return open_table(whole), offsets, weighing


def _as_given(beside: dict[str, Any]) -> dict[str, str]:
    """Return in words what was given beside the formula: a column, an expression, a number, or an array."""
    told = {}
    for what in ("offset", "exposure", "weights"):
        value = beside[what]
        if value is not None:
            told[what] = str(value) if isinstance(value, str) or np.ndim(value) == 0 else "an array"
    return told


def _expression(text: str, columns: Sequence[str], what: str) -> Expression:
    """Return a column or an expression; of an exposure its logarithm."""
    known = text in columns
    if what != "exposure":
        return column(text) if known else read(text)
    return read(f"log(`{text}`)" if known and not text.isidentifier() else f"log({text})")


def _appended(table: Any, name: str, values: Any) -> Any:
    import pyarrow as pa

    what = name.strip("()")
    if values.ndim == 0:
        values = np.full(table.num_rows, float(values))
    if values.shape != (table.num_rows,):
        raise InputError(
            f"{what}: shape {values.shape} was given; expected ({table.num_rows},), one for each row of the data."
        )
    return table.append_column(name, pa.array(values.astype(np.float64)))


def _streamed(table: Table, learned: Learned, family: Family, prior: Any) -> FormulaRegression:
    """Return a model whose rows are read block by block, on a cluster where they are there."""
    recipe = learned.recipe
    family = _with_trials(family, recipe, table)
    to_block, names, columns = ToBlock(recipe, n=table.n), recipe.names, recipe.fitting
    whole = table.table if isinstance(table, CompleteTable) else table
    source: Source
    if isinstance(whole, DaskTable):
        source = rows_on_a_cluster(whole, to_block, names, columns)
    else:
        source = MappedSource(table, to_block, names, columns)
    notes = [*learned.notes, "rows are read block by block in every pass"]
    return FormulaRegression(
        source, family, prior, recipe=recipe, notes=notes, columns=Given(table, _dropped(learned))
    )


def _in_memory(table: Any, learned: Learned, family: Family, prior: Any, together: bool) -> FormulaRegression:
    """Return a model whose design is in memory, equal rows put together where that pays."""
    recipe, found = learned.recipe, None
    for_each_row = isinstance(family, Binomial) and np.ndim(family.trials) == 1
    if together and not for_each_row:
        keys = unique([*recipe.predicting, *recipe.offset_columns])
        found = put_together(table, keys, _responses(table, recipe), _weights(table, recipe))
    if found is None:
        return _held(table, learned, family, prior)
    _refuse_weightless(found.together.weights)
    try:
        return _held(found.table, learned, family, prior, together=found.together, apart=open_table(table))
    except InputError as error:
        if error.row is not None:  # which has another number there: go through the rows of the data
            _streamed(open_table(table), learned, family, prior)
        raise


def _dropped(learned: Learned) -> NDArray[np.int64]:
    """Return the places of rows that were left out."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *learned.survey.incomplete])


def _held(
    table: Any,
    learned: Learned,
    family: Family,
    prior: Any,
    *,
    together: Together | None = None,
    apart: Table | None = None,
) -> FormulaRegression:
    """Return a model whose design is in memory, of rows as they are or put together."""
    recipe, notes, held = learned.recipe, list(learned.notes), open_table(table)
    if together is not None:
        notes.append(
            f"{int(together.times.sum()):,} rows put together into {held.n:,} different ones with weights (not if "
            "collapse=False)"
        )
    family = _with_trials(family, recipe, held)
    source = in_memory(held, ToBlock(recipe, n=held.n, together=together), recipe.names, recipe.fitting)
    _refuse_weightless(source.weight)
    given = Given(held, _dropped(learned), together, apart)
    return FormulaRegression(source, family, prior, recipe=recipe, notes=notes, columns=given)


def _refuse_weightless(weights: Any) -> None:
    if not np.any(weights):
        raise InputError("weights: every row has weight 0, so the data say nothing.")


def _with_trials(family: Family, recipe: Recipe, table: Table) -> Family:
    """Return the family with the trials of each row, if the formula has them."""
    if recipe.response.trials is None:
        return family
    assert isinstance(family, Binomial)
    batches = table.batches(recipe.response.expression.columns)
    parts = [np.broadcast_to(recipe.response.trials_of(loaded(batch)), batch.num_rows) for batch in batches]
    return replace(family, trials=np.concatenate(parts))


def _responses(table: Any, recipe: Recipe) -> list[Any]:
    """Return responses, and trials if there are any, of all rows."""
    columns = loaded(one_batch(table.select(list(recipe.response.expression.columns))))
    found = [recipe.response.values(columns)]
    if recipe.response.trials is not None:
        found.append(recipe.response.trials_of(columns))
    return [np.array(np.broadcast_to(each, table.num_rows)) for each in found]


def _weights(table: Any, recipe: Recipe) -> Any:
    """Return the weights of all rows, None if they have none."""
    if recipe.weights is None:
        return None
    found = recipe.weight(loaded(one_batch(table.select(list(recipe.weights.columns)))))
    return np.array(np.broadcast_to(found, table.num_rows))
