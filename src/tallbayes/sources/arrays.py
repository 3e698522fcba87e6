"""A source of rows held in arrays: validation, and sums over all rows in threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.compiled import compiled_sum
from tallbayes.errors import InputError
from tallbayes.sources import sums
from tallbayes.sources.rows import Rows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Part = TypeVar("Part")

PARTS = 64
"""Sums run over at most this many fixed ranges of rows, added in order: the same result for any threads."""
SMALLEST_PART = 4096
MANY, NEIGHBOURS = 100_000, 8
"""From so many rows on a subsample is taken by so many neighbours at a time."""
SMALLEST_COLUMN, LARGEST_COLUMN = 1e-75, 1e75
"""Columns whose largest absolute value is not between these are refused: fourth powers must not overflow."""


def available_threads() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ArraySource:
    """Rows in memory.

    Parameters
    ----------
    X : array_like
        Design, rows x columns.
    y : array_like
        Response.
    weights : array_like or None
        Frequency weight of each row; None means 1.
    offset : array_like or None
        Known part of each row's linear predictor; None means 0.
    names : list of str
        Names of the columns, for error messages.
    """

    def __init__(
        self,
        X: NDArray[Any],
        y: Vector,
        weights: ArrayLike | None,
        offset: ArrayLike | None,
        names: list[str],
    ) -> None:
        n = X.shape[0]
        self.names = names
        self.largest = _largest_values(X, names)
        self.rows = Rows(
            writable_view(X),
            writable_view(y),
            per_row(weights, n, "weights", 1.0),
            per_row(offset, n, "offset", 0.0),
        )
        negative = np.flatnonzero(self.rows.weight < 0.0)
        if negative.size:
            i = int(negative[0])
            raise InputError(
                f"weights: row {i} has weight {self.rows.weight[i]}; weights must be zero or positive."
            )
        if not np.any(self.rows.weight):
            raise InputError("weights: every row has weight 0, so the data say nothing.")

    @classmethod
    def of_rows(cls, rows: Rows, names: list[str]) -> "ArraySource":
        """Return a source of rows that need no checks."""
        source = object.__new__(cls)
        source.names, source.rows = names, rows
        return source

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rows.X.shape[0])

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.rows.X.shape[1])

    def map_parts(self, function: Callable[[int, int], Part], threads: int | None = None) -> list[Part]:
        """Apply a function of (first, last) to fixed ranges of rows in threads; results in order."""
        size = max(SMALLEST_PART, -(-self.n // PARTS))
        ranges = [(first, min(first + size, self.n)) for first in range(0, self.n, size)]
        workers = min(threads or available_threads(), len(ranges))
        if workers <= 1:
            return [function(first, last) for first, last in ranges]
        return list(_pool(workers).map(lambda part: function(*part), ranges))

    def potential(self, curve: Any, theta: Vector, threads: int | None = None) -> float:
        """Return the potential (minus log-likelihood) at theta."""
        parts = self.map_parts(
            lambda first, last: sums.sum_potential(self.rows, curve, theta, first, last), threads
        )
        return float(sum(parts))

    def derivatives(
        self, curve: Any, theta: Vector, *, majorise: bool = False, threads: int | None = None
    ) -> tuple[float, Vector, Matrix]:
        """Return potential, gradient and Hessian at theta in one pass."""

        def part(first: int, last: int) -> tuple[float, Vector, Matrix]:
            gradient, hessian = np.zeros(theta.size), np.zeros((theta.size, theta.size))
            value = sums.sum_derivatives(self.rows, curve, theta, majorise, first, last, gradient, hessian)
            return value, gradient, hessian

        values, gradients, lower = zip(*self.map_parts(part, threads), strict=True)
        half = _ordered_sum(lower)
        return sum(values), _ordered_sum(gradients), half + np.tril(half, -1).T

    def sampled(self, size: int) -> NDArray[np.int64]:
        """Return the indices of the rows of a subsample.

        One at random, always the same, from each of as many equal ranges; or, of many, a few neighbours, which are
        read several times faster.
        """
        run = NEIGHBOURS if size >= MANY and self.n >= 2 * size else 1
        spots = size // run
        places = np.arange(spots) + np.random.default_rng(0).random(spots)
        first = np.minimum((places * (self.n / spots)).astype(np.int64), self.n - run)
        return (first[:, None] + np.arange(run)).ravel()

    def subsample(self, size: int) -> "ArraySource":
        """Return a source of about ``size`` rows, spread over all."""
        chosen = self.sampled(size)
        rows = self.rows
        return ArraySource.of_rows(
            Rows(
                np.ascontiguousarray(rows.X[chosen]),
                rows.y[chosen],
                rows.weight if rows.weight.size == 1 else rows.weight[chosen],
                rows.offset if rows.offset.size == 1 else rows.offset[chosen],
            ),
            self.names,
        )


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Return threads that are kept: starting them anew for every pass costs more than a small pass."""
    return ThreadPoolExecutor(workers, thread_name_prefix="tallbayes-rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def _ordered_sum(parts: tuple[NDArray[np.float64], ...]) -> NDArray[np.float64]:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def per_row(values: ArrayLike | None, n: int, what: str, default: float) -> Vector:
    """Return one float64 for each row, or the single default."""
    if values is None:
        return np.full(1, default)
    array = numeric(values, what).astype(np.float64, copy=False)
    if array.ndim == 0:
        array = np.full(1, float(array))
    if array.shape not in {(n,), (1,)}:
        raise InputError(f"{what}: shape {array.shape} was given; expected ({n},), one number for each row.")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(f"{what}: row {int(bad[0])} is {array[bad[0]]}; every value must be finite.")
    return writable_view(np.ascontiguousarray(array))


def numeric(values: Any, what: str) -> NDArray[Any]:
    """Return an array of numbers, or say what was found instead."""
    if hasattr(values, "toarray"):
        raise InputError(f"{what}: a sparse matrix was given; expected an array. Convert it with .toarray().")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{what}: some values are masked. Drop or impute such rows first.")
    _refuse_other_columns(values, what)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and hasattr(values, "to_numpy") and len(array):
            # A frame of numbers of different kinds, perhaps with missing ones, which are found later.
            array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError) as error:
        raise InputError(f"{what}: not a table of numbers ({error}).") from None
    if array.dtype.kind not in "buif":
        raise InputError(
            f"{what}: dtype {array.dtype} was given; expected numbers. Encode categories as 0/1 columns "
            "and convert with .astype(float)."
        )
    return array


def _refuse_other_columns(frame: Any, what: str) -> None:
    """Name the first column of a pandas data frame that does not hold numbers."""
    if not (hasattr(frame, "columns") and hasattr(frame, "dtypes")):
        return
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if getattr(dtype, "kind", "f") not in "buif":
            raise InputError(
                f"{what}: column {str(name)!r} has dtype {dtype}; expected numbers. Encode categories as 0/1 "
                "columns, e.g. with pandas.get_dummies, or drop the column."
            )


class _Memory:
    """An array's memory without its read-only flag; keeps the array alive."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def writable_view(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same memory without a read-only flag, for which kernels would be compiled a second time.

    Compiled code never writes to rows.
    """
    return array if array.flags.writeable else np.asarray(_Memory(array))


@compiled_sum
def _zero_if_finite(X: NDArray[Any], first: int, last: int) -> float:
    """Return 0, or NaN if a value is not finite: inf * 0 and NaN * 0 are NaN, and the loop stays SIMD."""
    total = 0.0
    for i in range(first, last):
        for j in range(X.shape[1]):
            total += X[i, j] * 0.0
    return total


def _largest_values(X: NDArray[Any], names: list[str]) -> Vector:
    """Return the largest absolute value of each column, after checking that every value can be used."""
    X = writable_view(X)
    largest = np.zeros(X.shape[1])
    for first in range(0, X.shape[0], 65536):
        last = min(first + 65536, X.shape[0])
        if _zero_if_finite(X, first, last) == 0.0:
            np.maximum(largest, np.max(np.abs(X[first:last]), axis=0), out=largest)
            continue
        i, j = np.argwhere(~np.isfinite(X[first:last]))[0]
        raise InputError(
            f"X: row {first + i}, column {names[j]!r} is {X[first + i, j]}; every value must be finite. "
            "Drop or impute such rows first."
        )
    for j, size in enumerate(largest):
        if size == 0.0:
            raise InputError(
                f"X: column {names[j]!r} is zero in every row, so the data say nothing about its "
                "coefficient. Drop the column."
            )
        if not SMALLEST_COLUMN < size < LARGEST_COLUMN:
            raise InputError(
                f"X: column {names[j]!r} has values up to {size:.3g}, whose powers no float64 holds. Rescale "
                "the column so that typical values are near 1."
            )
    return largest
