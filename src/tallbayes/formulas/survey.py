"""One pass over the columns that a formula needs: what is missing, which levels there are, where numbers lie."""

from collections.abc import Mapping, Sequence
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

MOST_KEPT = 2**22
"""Rows from which knots, means and quantiles are taken: all of them, or of more rows so many, spread over all."""

MOST_LEVELS = 5000
"""Levels of a factor, each of which is a column of the design."""

MOST_DESCRIBED = 2**16
"""The same, for columns of which nothing is learned: their quantiles only describe them."""

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
    count: int = 0
    mean: float = 0.0
    square: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    kept: list[NDArray[np.float64]] = field(default_factory=list)
    """Values of the rows that are kept for knots and quantiles."""

    def add(self, values: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        """Take in further rows, given their numbers (Chan's formulas)."""
        if not values.size:
            return
        self.infinite += int(np.count_nonzero(np.isinf(values)))
        if self.infinite:
            return
        mean, total = float(np.mean(values)), self.count + values.size
        apart = mean - self.mean
        self.square += float(np.sum((values - mean) ** 2)) + apart**2 * self.count * values.size / total
        self.mean += apart * values.size / total
        self.count = total
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.kept.append(values[rows % self.every == 0] if self.every > 1 else values)

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(self.square / max(self.count, 1)))


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

    @property
    def dropped(self) -> int:
        """Rows in which something is missing."""
        return self.rows - self.kept

    def ordered(self, name: str) -> tuple[Any, ...]:
        """Return the levels of a column or factor in their order."""
        return tuple(in_order(self.levels[name]))

    def sample(self, columns: Sequence[str]) -> dict[str, Value]:
        """Return the rows that were kept, of some columns of numbers; splines reach to the ends of all rows."""
        used = {name: self.numbers[name] for name in columns if name in self.numbers}
        ends = {name: [] if n.every == 1 else [np.array([n.low, n.high])] for name, n in used.items()}
        return {name: np.concatenate(numbers.kept + ends[name]) for name, numbers in used.items()}

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
    table: Any, columns: Sequence[str], factors: Mapping[str, Expression], learning: Sequence[str] = ()
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
    for batch in table.batches(columns):
        whole = complete(batch, found.missing)
        left = batch if whole is None else batch.filter(whole)
        rows = np.arange(found.kept, found.kept + left.num_rows)  # among those that miss nothing
        found.kept += left.num_rows
        _take_in(found, loaded(left), rows, factors)
    return found


def _take_in(
    found: Survey, values: dict[str, Value], rows: NDArray[np.int64], factors: Mapping[str, Expression]
) -> None:
    for name, value in values.items():
        if isinstance(value, Labels):
            found.levels[name].update(levels_of(value))
        else:
            found.numbers[name].add(value, rows)
    for text, expression in factors.items():
        made = evaluate(expression, values, {})
        labels = made.values if isinstance(made, Categories) else made
        found.levels[text].update(levels_of(labels))
        if len(found.levels[text]) > MOST_LEVELS:
            raise InputError(
                f"formula: {text!r} has more than {MOST_LEVELS:,} levels, each a column of the design. If it is a "
                "number, use it without C(...); if it is an identifier, leave it out or group its levels."
            )


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
