"""Rows that are equal, put together into one with a weight: the posterior is the same, and set-up reads fewer rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.formulas.columns import Labels, Value, codes_of, in_order, levels_of, load
from tallbayes.formulas.tables import one_batch

if TYPE_CHECKING:
    import pyarrow as pa

FEWEST_ROWS = 1000
"""Fewer rows are not worth it."""
TRIED = 2**14
"""Rows that are looked at first."""
WORTH = 0.5
"""It pays if at most this share of the rows are different."""


class Collapsed(NamedTuple):
    """A table of the different rows, in an order that does not depend on that of all rows, and their weights."""

    table: "pa.Table"
    weights: NDArray[np.float64]


def collapse(table: "pa.Table", keys: Sequence[str], weights: NDArray[np.float64] | None) -> Collapsed | None:
    """Return the different rows of a table with their weights; None if that does not pay.

    Parameters
    ----------
    table : pyarrow.Table
        Rows in which nothing is missing.
    keys : sequence of str
        The columns that tell rows apart.
    weights : array or None
        The rows' own weights.

    Returns
    -------
    Collapsed or None
        Rows in the order of their values.
    """
    n = table.num_rows
    if n < FEWEST_ROWS or not keys:
        return None
    tried = np.unique(np.linspace(0, n - 1, min(n, TRIED)).astype(np.int64))
    if _different(table.take(tried), keys) > WORTH * tried.size:
        return None
    import pyarrow as pa

    coded = _coded(table, keys)
    names = coded.column_names
    coded = coded.append_column("row", pa.array(np.arange(n)))
    coded = coded.append_column("weight", pa.array(np.ones(n) if weights is None else weights))
    grouped = coded.group_by(names, use_threads=False).aggregate([("row", "min"), ("weight", "sum")])
    if grouped.num_rows > WORTH * n:
        return None
    grouped = grouped.sort_by([(name, "ascending") for name in names])
    chosen = grouped["row_min"].to_numpy()
    return Collapsed(table.take(chosen), np.asarray(grouped["weight_sum"].to_numpy(), dtype=np.float64))


def _different(table: "pa.Table", keys: Sequence[str]) -> int:
    coded = _coded(table, keys)
    return int(coded.group_by(coded.column_names, use_threads=False).aggregate([]).num_rows)


def _coded(table: "pa.Table", keys: Sequence[str]) -> "pa.Table":
    """Return the columns as numbers: labels by their place in the order of levels."""
    import pyarrow as pa

    batch = one_batch(table.select(list(keys)))
    return pa.table({f"k{j}": pa.array(_numbers(load(batch.column(j), name))) for j, name in enumerate(keys)})


def _numbers(value: Value) -> NDArray[np.float64] | NDArray[np.int64]:
    if isinstance(value, Labels):
        return codes_of(value, in_order(set(levels_of(value))))
    return value + 0.0  # -0.0 and 0.0 are one value
