"""Rows as a model takes them: with an intercept, weighted, and few of them in one order whatever order they came in."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.sources.arrays import per_row

Vector = NDArray[np.float64]

INTERCEPT = "Intercept"
"""What the intercept is called, as formulas have it."""
MOST_SORTED = 10_000
"""Rows up to which equal ones are put together and all are sorted, which takes some milliseconds."""

EXACT = 1e-10
"""Residuals that are so small beside the responses are taken for rounding."""
FEW, FEW_PER_COLUMN = 2000, 4
"""Rows that are tried first, and for each column, to see whether the columns fit every response."""


class Rows(NamedTuple):
    """Design and responses; weights, or None where all are 1."""

    X: NDArray[Any]
    y: NDArray[Any]
    weights: Vector | None


def weighted_rows(X: NDArray[Any], y: NDArray[Any], sample_weight: Any) -> Rows:
    """Return the rows that have a weight; of small sets, equal rows as one, in the order of their values.

    A row of weight 3 and three equal rows are the same data, in any order: the posterior is the same. The draws from it
    are the same too, to the last bit, if the sampler is given the same rows; of small sets it is.

    Parameters
    ----------
    X : array
        Design, rows x columns.
    y : array
        Responses.
    sample_weight : array_like or None
        Frequency weights.

    Returns
    -------
    Rows
        What the model is made of.
    """
    n = X.shape[0]
    weights = None if sample_weight is None else _checked(sample_weight, n)
    if weights is not None and np.any(weights == 0.0):
        kept = weights > 0.0
        X, y, weights = X[kept], y[kept], weights[kept]
    if X.shape[0] <= MOST_SORTED:
        X, y, weights = _put_together(X, y, np.ones(X.shape[0]) if weights is None else weights)
    if weights is not None and np.all(weights == 1.0):
        weights = None
    return Rows(X, y, weights)


def with_intercept(X: NDArray[Any]) -> NDArray[Any]:
    """Return a design with a column of ones before the others, in numbers of the same kind."""
    design = np.empty((X.shape[0], X.shape[1] + 1), dtype=X.dtype)
    design[:, 0], design[:, 1:] = 1, X
    return design


def fits_exactly(rows: Rows, intercept: bool) -> bool:
    """Return whether the columns can fit every response, to rounding.

    Of many rows some are tried first, which is enough unless they are fitted exactly. If others are not fitted by the
    coefficients that were found, as where a level is in none of the rows that were tried, these join them.

    Parameters
    ----------
    rows : Rows
        The different rows, as `weighted_rows` gives them.
    intercept : bool
        Whether there is an intercept beside the columns.

    Returns
    -------
    bool
        Whether there are coefficients that leave nothing but rounding.
    """
    n, columns = rows.y.size, rows.X.shape[1] + bool(intercept)
    if n <= columns:
        return True
    rounding = EXACT * float(np.max(np.abs(rows.y)))
    tried = _spread_over(np.arange(n), max(FEW, FEW_PER_COLUMN * columns))
    for _ in range(columns + 1):  # whatever joins is not fitted yet, so that each time a column more is pinned down
        design, y = _some(rows, tried, intercept)
        found = np.asarray(np.linalg.lstsq(design, y, rcond=None)[0], dtype=np.float64)
        if np.max(np.abs(y - design @ found)) > rounding:
            return False
        others = _not_fitted(rows, found, intercept, rounding)
        if not others.size:
            return True
        tried = np.union1d(tried, _spread_over(others, max(FEW, FEW_PER_COLUMN * columns)))
    return False


def _spread_over(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return some of the rows at even distances, or all of few."""
    return rows if rows.size <= most else rows[np.linspace(0, rows.size - 1, most).astype(np.int64)]


def _some(rows: Rows, chosen: Any, intercept: bool) -> tuple[NDArray[np.float64], Vector]:
    """Return design and responses of some rows."""
    design = rows.X[chosen]
    return (with_intercept(design) if intercept else design).astype(np.float64), rows.y[chosen].astype(np.float64)


def _not_fitted(rows: Rows, found: Vector, intercept: bool, rounding: float) -> NDArray[np.int64]:
    """Return the rows that coefficients leave more of than rounding."""
    bad = []
    for first in range(0, rows.y.size, MOST_SORTED):
        design, y = _some(rows, slice(first, first + MOST_SORTED), intercept)
        bad.append(first + np.flatnonzero(np.abs(y - design @ found) > rounding))
    return np.concatenate(bad)


def _checked(sample_weight: Any, n: int) -> Vector:
    """Return a weight for each row, or raise if one is negative or all are zero."""
    weights = np.broadcast_to(per_row(sample_weight, n, "sample_weight", 1.0), n)
    negative = np.flatnonzero(weights < 0.0)
    if negative.size:
        i = int(negative[0])
        raise InputError(f"sample_weight: row {i} has {weights[i]}; weights must be 0 or more.")
    if not np.any(weights):
        raise InputError("sample_weight: every weight is zero, so the data say nothing.")
    return weights


def _put_together(X: NDArray[Any], y: NDArray[Any], weights: Vector) -> Rows:
    """Return the different rows in the order of their values, each with the weight of all that equal it."""
    order = np.lexsort((weights, y, *X.T[::-1]))  # by weight last: sums are rounded alike in any order of rows
    X, y, weights = X[order], y[order], weights[order]
    new = np.ones(y.size, dtype=np.bool_)
    new[1:] = np.any(X[1:] != X[:-1], axis=1) | (y[1:] != y[:-1])
    return Rows(X[new], y[new], np.add.reduceat(weights, np.flatnonzero(new)))
