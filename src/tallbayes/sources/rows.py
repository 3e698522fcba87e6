"""Rows in memory, as compiled code sees them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled


class Rows(NamedTuple):
    """The design, used as given (float32 or float64, any memory order), with what belongs to each row."""

    X: NDArray[Any]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    """One number for each row, or a single one for all."""
    offset: NDArray[np.float64]
    """One number for each row, or a single one for all."""


@compiled
def entry(values: NDArray[np.float64], i: int) -> float:
    """Return the i-th value of an array that may hold a single value for all rows."""
    if values.size == 1:
        return values[0]
    return values[i]


@compiled
def dot_row(X: NDArray[Any], i: int, v: NDArray[np.float64]) -> float:
    """Return x_i . v in float64; four running sums, so that an addition need not wait for the last."""
    d = v.size
    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
    j = 0
    while j + 4 <= d:
        t0 += np.float64(X[i, j]) * v[j]
        t1 += np.float64(X[i, j + 1]) * v[j + 1]
        t2 += np.float64(X[i, j + 2]) * v[j + 2]
        t3 += np.float64(X[i, j + 3]) * v[j + 3]
        j += 4
    while j < d:
        t0 += np.float64(X[i, j]) * v[j]
        j += 1
    return (t0 + t1) + (t2 + t3)
