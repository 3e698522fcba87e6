"""One pass over the columns that a formula needs: what is missing, which levels there are, where numbers lie."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.formulas.columns import LABELS, Labels, Value, in_order, is_missing, kind_of, levels_of, load
from tallbayes.formulas.expressions import Categories, Expression, evaluate

if TYPE_CHECKING:
    import pyarrow as pa

Vector = NDArray[np.float64]

MOST_KEPT = 2**22
"""Rows from which knots, means and quantiles are taken: all of them, or of more rows so many, spread over all."""

MOST_LEVELS = 5000
"""Levels of a factor, each of which is a column of the design."""

MOST_DESCRIBED = 2**16
"""The same, for columns of which nothing is learned: their quantiles only describe them."""

MOST_STRAY = 0.01
"""Share of rows up to which labels among numbers are taken for strays."""

DROP, ERROR = "drop", "error"
DATA = "data"
"""What the rows that a model is fitted to are called in messages; others are new_data."""


@dataclass
class Numbers:
    """Where the numbers of a column lie: a partial result."""

    every: int
    """Of how many rows one is kept."""
    infinite: int = 0
    """Rows in which the number is infinite; nothing else is known then."""
    count: float = 0.0
    """Rows, those of weight w as w of them."""
    mean: float = 0.0
    square: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    kept: list[Vector] = field(default_factory=list)
    """Values of the rows that are kept for knots and quantiles."""
    weights: list[Vector] = field(default_factory=list)
    """Their weights, if rows have weights."""

    def add(self, values: Vector, rows: NDArray[np.int64], weight: Vector | None = None) -> None:
        """Take in further rows, given their numbers and weights (Chan's formulas)."""
        if not values.size:
            return
        self.infinite += int(np.count_nonzero(np.isinf(values)))
        if self.infinite:
            return
        here = slice(None) if self.every == 1 else rows % self.every == 0
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.kept.append(values[here])
        if weight is not None:
            self.weights.append(weight[here])
        count = float(values.size if weight is None else weight.sum())
        if count == 0.0:
            return
        mean, total = float(np.average(values, weights=weight)), self.count + count
        apart = mean - self.mean
        around = (values - mean) ** 2 if weight is None else weight * (values - mean) ** 2
        self.square += float(np.sum(around)) + apart**2 * self.count * count / total
        self.mean += apart * count / total
        self.count = total

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(self.square / self.count)) if self.count else 0.0

    @property
    def copied(self) -> Vector:
        """The values that were kept, each as often as its weight says."""
        values = np.concatenate(self.kept)
        return values[copies(np.concatenate(self.weights))] if self.weights else values


def copies(weights: Vector) -> NDArray[np.int64]:
    """Return the rows of a table in which each stands as often as its weight says.

    Of weights that are not whole, or very large ones, so many rows at equal distances in that table.

    Parameters
    ----------
    weights : array
        Weights of all rows, zero or more.

    Returns
    -------
    array
        Numbers of rows, in their order.
    """
    ends = np.cumsum(weights)
    total = float(ends[-1]) if ends.size else 0.0
    if total == 0.0:
        return np.arange(weights.size)
    whole = total <= MOST_KEPT and np.array_equal(weights, np.rint(weights))
    size = int(total) if whole else min(MOST_KEPT, max(MOST_KEPT // 4, 4 * weights.size))
    places = (np.arange(size) + 0.5) * (total / size)
    return np.minimum(np.searchsorted(ends, places, side="right"), weights.size - 1)


@dataclass
class Survey:
    """What a pass has found."""

    rows: int
    kinds: dict[str, str]
    missing: dict[str, int] = field(default_factory=dict)
    """Rows in which a column is missing, of columns where there are any."""
    kept: int = 0
    """Rows in which nothing is missing."""
    levels: dict[str, set[Any]] = field(default_factory=dict)
    """Of label columns, by name, and of categorical factors, by text."""
    numbers: dict[str, Numbers] = field(default_factory=dict)
    every: int = 1
    """Of how many rows one was kept for knots and quantiles."""
    incomplete: list[NDArray[np.int64]] = field(default_factory=list)
    """Numbers of the rows in which something is missing."""

    @property
    def dropped(self) -> int:
        """Rows in which something is missing."""
        return self.rows - self.kept

    def ordered(self, name: str) -> tuple[Any, ...]:
        """Return the levels of a column or factor in their order."""
        return tuple(in_order(self.levels[name]))

    def sample(self, columns: Sequence[str]) -> dict[str, Value]:
        """Return the rows that were kept, of some columns of numbers, each as often as its weight says.

        Splines reach to the ends of all rows. Of columns from which nothing is learned fewer rows are kept: where they
        are asked for together with others, rows do not belong together, but are as many.
        """
        used = {name: self.numbers[name] for name in columns if name in self.numbers}
        values = {name: numbers.copied for name, numbers in used.items()}
        if any(
            n.every > 1 or values[name].min() > n.low or values[name].max() < n.high for name, n in used.items()
        ):
            values = {name: np.append(values[name], [n.low, n.high]) for name, n in used.items()}
        shortest = min((each.size for each in values.values()), default=0)
        return {name: each[:shortest] for name, each in values.items()}

    def describe_missing(self) -> str:
        """Return in words how many rows miss what."""
        parts = ", ".join(f"{name!r} in {count:,}" for name, count in sorted(self.missing.items()))
        return f"{self.dropped:,} of {counted(self.rows, 'row')} (column {parts})"


def complete(batch: "pa.RecordBatch", missing: dict[str, int] | None = None) -> NDArray[np.bool_] | None:
    """Return which rows of a batch miss nothing, None if all; counts what is missing by column."""
    whole: NDArray[np.bool_] | None = None
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        absent = is_missing(array)
        if absent is None:
            continue
        if missing is not None:
            missing[name] = missing.get(name, 0) + int(absent.sum())
        whole = ~absent if whole is None else whole & ~absent
    return whole


def loaded(batch: "pa.RecordBatch") -> dict[str, Value]:
    """Return the columns of a batch in which nothing is missing."""
    return {name: load(array, name) for name, array in zip(batch.schema.names, batch.columns, strict=True)}


def survey(
    table: Any,
    columns: Sequence[str],
    factors: Mapping[str, Expression],
    learning: Sequence[str] = (),
    weigh: Callable[[Mapping[str, Value]], Vector] | None = None,
) -> Survey:
    """Go through a table once.

    Parameters
    ----------
    table : Table
        With ``n``, ``schema`` and ``batches(columns)``.
    columns : sequence of str
        The columns that are needed.
    factors : mapping
        Factors that are categorical, whatever their column holds, by their text.
    learning : sequence of str
        Columns from which transforms learn.
    weigh : callable or None
        Gives the weights of rows from their columns, if they have any.

    Returns
    -------
    Survey
        What was found.
    """
    kinds = {name: kind_of(table.schema.field(name).type, name) for name in columns}
    found = Survey(table.n, kinds, every=max(1, -(-table.n // MOST_KEPT)))
    for name, kind in kinds.items():
        if kind == LABELS:
            found.levels[name] = set()
        else:
            found.numbers[name] = Numbers(found.every if name in learning else max(1, table.n // MOST_DESCRIBED))
    found.levels.update({text: set() for text in factors})
    first = 0
    for batch in table.batches(columns):
        whole = complete(batch, found.missing)
        left = batch if whole is None else batch.filter(whole)
        if whole is not None:
            found.incomplete.append(first + np.flatnonzero(~whole))
        first += batch.num_rows
        rows = np.arange(found.kept, found.kept + left.num_rows)  # among those that miss nothing
        found.kept += left.num_rows
        values = loaded(left)
        weight = None if weigh is None else np.broadcast_to(weigh(values), left.num_rows)
        _take_in(found, table, values, rows, factors, weight)
    return found


def _take_in(
    found: Survey,
    table: Any,
    values: dict[str, Value],
    rows: NDArray[np.int64],
    factors: Mapping[str, Expression],
    weight: Vector | None,
) -> None:
    for name, value in values.items():
        if isinstance(value, Labels):
            found.levels[name].update(levels_of(value))
        else:
            found.numbers[name].add(value, rows, weight)
    for text, expression in factors.items():
        made = evaluate(expression, values, {})
        labels = made.values if isinstance(made, Categories) else made
        found.levels[text].update(levels_of(labels))
        if len(found.levels[text]) > MOST_LEVELS:
            if expression.name is not None:
                refuse_stray(table, expression.name)
            raise InputError(
                f"formula: {text!r} has more than {MOST_LEVELS:,} levels, each a column of the design. If it is a "
                "number, use it without C(...); if it is an identifier, leave it out or group its levels."
            )


def refuse_stray(table: Any, name: str) -> None:
    """Raise if a column is text, and nearly all of its rows are numbers: a stray label makes labels of them.

    Parameters
    ----------
    table : Table
        With ``schema`` and ``batches(columns)``.
    name : str
        The column.
    """
    from pyarrow import types

    kind = table.schema.field(name).type
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        return
    rows = others = 0
    first: tuple[str, int] | None = None
    for batch in table.batches([name]):
        labels = load(batch.column(0).fill_null(""), name)
        assert isinstance(labels, Labels)
        other = labels.where([value != "" and not _is_number(value) for value in labels.values])
        if first is None and other.any():
            at = int(np.argmax(other))
            first = labels.values[labels.codes[at]], rows + at
        others += int(np.count_nonzero(other))
        rows += batch.num_rows
        if others > MOST_STRAY * table.n:
            return
    if first is not None:
        raise InputError(
            f"data: column {name!r} is text, and numbers in all but {counted(others, 'row')} of {rows:,}: the first "
            f"that is none is {first[0]!r} in row {first[1]:,}. Mend it, or leave it empty if it is missing; if they "
            f"are levels, write C({name})."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_missing(found: Survey, missing: str, what: str = DATA) -> None:
    """Raise if rows miss something and that was not allowed, or if no row is left."""
    if found.dropped and missing == ERROR:
        drop = "with missing='drop'" if what == DATA else "first (on the command line: --unusable drop)"
        raise InputError(
            f"{what}: values are missing in {found.describe_missing()}. Drop these rows {drop}, or fill them in."
        )
    for name, numbers in found.numbers.items():
        if numbers.infinite:
            raise InputError(
                f"{what}: column {name!r} is infinite in {counted(numbers.infinite, 'row')}; expected finite numbers. "
                "Drop these rows, or put other values there."
            )
    if found.kept == 0:
        reason = f"values are missing in {found.describe_missing()}" if found.dropped else "it has no rows"
        raise InputError(f"{what}: no row is left: {reason}.")
