"""Rows that are equal, put together into one with a weight: the posterior is the same, and set-up reads fewer rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.formulas.columns import Labels, Value, codes_of, in_order, levels_of, load
from tallbayes.formulas.recipe import Together
from tallbayes.formulas.tables import one_batch

if TYPE_CHECKING:
    import pyarrow as pa

Vector = NDArray[np.float64]

FEWEST_ROWS = 1000
"""Fewer rows are not worth it."""
TRIED = 2**14
"""Rows that are read first."""
WORTH = 0.5
"""It pays if at most this share of the rows are different."""


class Collapsed(NamedTuple):
    """A table of the different rows, in an order that does not depend on that of all rows, and their weights."""

    table: "pa.Table"
    together: Together


def collapse(
    table: "pa.Table", keys: Sequence[str], values: Sequence[Vector], weights: Vector | None
) -> Collapsed | None:
    """Return the different rows of a table with their weights; None if that does not pay.

    Parameters
    ----------
    table : pyarrow.Table
        Rows in which nothing is missing.
    keys : sequence of str
        Columns that tell rows apart.
    values : sequence of array
        Further numbers that tell them apart: responses, as the formula has them.
    weights : array or None
        The rows' own weights.

    Returns
    -------
    Collapsed or None
        Rows in the order of their values.
    """
    n = table.num_rows
    if n < FEWEST_ROWS:
        return None
    tried = np.unique(np.linspace(0, n - 1, min(n, TRIED)).astype(np.int64))
    if _estimated(_grouped(table.take(tried), keys, [each[tried] for each in values], None), n) > WORTH * n:
        return None
    grouped = _grouped(table, keys, values, weights)
    if grouped.num_rows > WORTH * n:
        return None
    names = [name for name in grouped.column_names if name.startswith("k")]
    grouped = grouped.sort_by([(name, "ascending") for name in names])
    weights, times = (
        np.asarray(grouped[name].to_numpy(), dtype=np.float64) for name in ("weight_sum", "row_count")
    )
    return Collapsed(table.take(grouped["row_min"]), Together(weights, times))


def _grouped(
    table: "pa.Table", keys: Sequence[str], values: Sequence[Vector], weights: Vector | None
) -> "pa.Table":
    """Return the different rows, as numbers, with the first row and the weight of each."""
    import pyarrow as pa

    n = table.num_rows
    numbers = list(values)
    if keys:
        batch = one_batch(table.select(list(keys)))
        numbers += [_numbers(load(batch.column(j), name)) for j, name in enumerate(keys)]
    columns = {f"k{j}": pa.array(each) for j, each in enumerate(numbers)}
    names = list(columns)
    columns["row"] = pa.array(np.arange(n))
    columns["weight"] = pa.array(np.ones(n) if weights is None else weights)
    wanted = [("row", "min"), ("row", "count"), ("weight", "sum")]
    return pa.table(columns).group_by(names, use_threads=False).aggregate(wanted)


def _estimated(sample: "pa.Table", n: int) -> float:
    """Return about how many different rows there are, from those of a sample and how often they are in it (Chao)."""
    counts = np.asarray(sample["weight_sum"].to_numpy())
    once, twice = (int(np.count_nonzero(counts == times)) for times in (1, 2))
    if counts.sum() >= n:
        return float(counts.size)
    return counts.size + once * max(once - 1, 0) / (2.0 * (twice + 1.0))


def _numbers(value: Value) -> Vector:
    """Return a column as numbers: labels by their place in the order of levels."""
    if isinstance(value, Labels):
        return codes_of(value, in_order(set(levels_of(value)))).astype(np.float64)
    return value + 0.0  # -0.0 and 0.0 are one value
