"""A source of rows held in arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.errors import InputError
from tallbayes.sources.base import RANDOM_ACCESS, SUPPLY, Block, Source, take
from tallbayes.sources.memory import KINDS, writable_view
from tallbayes.sources.supply import Drawing, WholeSupply

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BLOCK_NUMBERS = 2**19
"""Numbers of the design in a block: four megabytes, which stay in the cache, and keep threads from waiting for each
other."""
FEWEST_ROWS, MOST_ROWS = 1024, 65536
"""Rows of a block: enough for a matrix product to be fast, few enough to share between threads."""
SHARED = 4
"""Into about so many blocks fewer rows are cut."""
GROUPS = 32
"""Blocks are added up in at most so many groups, so that sums as large as a cubic are made in place."""

RESPONSE = "y"
FOR_RESPONSES = (
    "Of two classes give 0 and 1, of several classes or levels their numbers from 0 on, in the order of their names in "
    "Categorical([...]) or Ordinal([...]), e.g. [names.index(label) for label in y]; or use tb.glm, which takes text."
)
"""What to do where a response holds labels."""
WITHOUT_WEIGHT = "weights: every row has weight 0, so the data say nothing."


def rows_of_a_block(columns: int) -> int:
    """Return the fixed number of rows in a block: a power of two."""
    rows = BLOCK_NUMBERS // max(columns, 1)
    return int(min(MOST_ROWS, max(FEWEST_ROWS, 2 ** (rows.bit_length() - 1))))


class ArraySource(Source):
    """Rows in memory, used as they are: no copy of the design is made.

    Parameters
    ----------
    X : array
        Design, rows x columns, of a dtype that compiled code reads (`sources/memory.py`).
    responses : array
        Rows x responses, float64.
    weight : array
        Frequency weight of each row, or a single one for all.
    offset : array
        Known part of each row's linear predictor, or a single one for all.
    names : list of str
        Names of the columns, for error messages.
    """

    offers = frozenset({SUPPLY, RANDOM_ACCESS})
    watched = False

    def __init__(
        self, X: NDArray[Any], responses: Matrix, weight: Vector, offset: Vector, names: list[str]
    ) -> None:
        self.X, self.responses, self.weight, self.offset = X, responses, weight, offset
        self.names = names
        # A few blocks at least, for threads to share: also of the subsamples that a mode is first looked for in.
        shared = 2 ** (self.n // SHARED).bit_length()
        self.block_rows = min(rows_of_a_block(X.shape[1]), max(FEWEST_ROWS, shared))
        self.converts = X.dtype != np.float64 or not X.flags.c_contiguous

    @classmethod
    def of_block(cls, block: Block, names: list[str]) -> "ArraySource":
        """Return a source of the rows of one block."""
        return cls(block.X, block.responses, block.weight, block.offset, names)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def together(self) -> int:
        """How many blocks a thread takes at a time."""
        return -(-self.n // (self.block_rows * GROUPS))

    @property
    def whole(self) -> Block:
        """All rows as one block, not converted."""
        return Block(0, self.X, self.responses, self.weight, self.offset)

    def blocks(self) -> Iterator[Block]:
        """Yield views of the arrays."""
        for first in range(0, self.n, self.block_rows):
            rows = slice(first, min(first + self.block_rows, self.n))
            yield Block(
                first,
                self.X[rows],
                self.responses[rows],
                self.weight if self.weight.size == 1 else self.weight[rows],
                self.offset if self.offset.size == 1 else self.offset[rows],
            )

    def subsample(self, size: int) -> "ArraySource":
        """Return a source of about ``size`` rows, spread over all; takes no pass."""
        if size >= self.n:
            return self
        return ArraySource.of_block(take(self.whole, self.sampled(size)), self.names)

    def supply(self, drawing: Drawing | None, *, threads: int | None = None, table: bool = True) -> Any:
        """Return all rows, any of which a chain may draw at any time, from a table if it has one."""
        assert drawing is not None
        return WholeSupply(self, drawing, threads, table=table)


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


def log_exposure(values: NDArray[Any], first: int = 0, where: str = "") -> Vector:
    """Return the logarithm of exposures, which the offset of counts is, or raise if one is not positive."""
    exposure = values.astype(np.float64, copy=False)
    bad = np.flatnonzero(~(np.isfinite(exposure) & (exposure > 0.0)))
    if bad.size:
        i = int(bad[0])
        raise InputError(
            f"exposure: row {first + i}{where} is {exposure[i]:g}; every exposure must be positive and finite. Drop "
            "rows that were not exposed.",
            row=first + i,
        )
    return np.log(exposure)


def frequency_weights(values: ArrayLike | None, n: int) -> Vector:
    """Return weights that can be used: none negative, and not all of them zero."""
    weight = per_row(values, n, "weights", 1.0)
    negative = np.flatnonzero(weight < 0.0)
    if negative.size:
        i = int(negative[0])
        raise InputError(f"weights: row {i} has weight {weight[i]}; weights must be zero or positive.")
    if not np.any(weight):
        raise InputError(WITHOUT_WEIGHT)
    return weight


def design_matrix(X: ArrayLike, what: str = "X") -> NDArray[Any]:
    """Return a design as compiled code can read it: no copy, unless its numbers are of a rare kind."""
    array = numeric(X, what)
    if array.ndim != 2:
        raise InputError(f"{what}: shape {array.shape} was given; expected two dimensions, rows x columns.")
    if 0 in array.shape:
        raise InputError(f"{what}: shape {array.shape} was given; at least one row and one column are needed.")
    return array if array.dtype in KINDS else array.astype(np.float64)


def numeric(values: Any, what: str) -> NDArray[Any]:
    """Return an array of numbers, or say what was found instead."""
    if hasattr(values, "toarray"):
        raise InputError(f"{what}: a sparse matrix was given; expected an array. Convert it with .toarray().")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{what}: some values are masked. Drop or impute such rows first.")
    _refuse_other_columns(values, what)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and hasattr(values, "iloc") and len(array):
            # A frame of numbers of different kinds, perhaps with missing ones, which are found later.
            array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        elif array.dtype.kind == "O" and hasattr(values, "columns") and len(array):
            array = array.astype(np.float64)  # another table of numbers: decimals, or missing ones
    except (ValueError, TypeError) as error:
        advice = f" {FOR_RESPONSES}" if what == RESPONSE else ""
        raise InputError(f"{what}: not a table of numbers ({error}).{advice}") from None
    if array.dtype.kind not in "buif":
        advice = "Encode categories as 0/1 columns and convert with .astype(float)."
        raise InputError(
            f"{what}: dtype {array.dtype} was given; expected numbers. {FOR_RESPONSES if what == RESPONSE else advice}"
        )
    return array


def column_names(X: Any) -> list[str] | None:
    """Return the names that the columns of a data frame or an Arrow table have; None of an array."""
    if is_arrow(X):
        return [str(name) for name in X.schema.names]
    return [str(column) for column in X.columns] if hasattr(X, "columns") else None


def is_arrow(data: Any) -> bool:
    """Return whether data are an Arrow table, or a batch of one, in memory."""
    return type(data).__module__.split(".")[0] == "pyarrow" and hasattr(data, "schema") and hasattr(data, "columns")


def _refuse_other_columns(frame: Any, what: str) -> None:
    """Name the first column of a data frame or an Arrow table that does not hold numbers."""
    for name, dtype, numbers in _kinds(frame):
        if not numbers:
            advice = (
                "Encode categories as 0/1 columns, e.g. with pandas.get_dummies, use tb.glm, which does that, or drop "
                "the column."
            )
            raise InputError(
                f"{what}: column {name!r} has dtype {dtype}; expected numbers. "
                f"{FOR_RESPONSES if what == RESPONSE else advice}"
            )


def _kinds(frame: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield name, type, and whether it holds numbers, of each column."""
    if is_arrow(frame):
        import pyarrow.types as of

        tests = of.is_integer, of.is_floating, of.is_boolean, of.is_decimal, of.is_null
        for field in frame.schema:
            yield str(field.name), field.type, any(test(field.type) for test in tests)
    elif hasattr(frame, "columns") and hasattr(frame, "dtypes"):
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
            if hasattr(dtype, "is_numeric"):  # polars
                yield str(name), dtype, dtype.is_numeric() or str(dtype) in {"Boolean", "Null"}
            else:
                yield str(name), dtype, getattr(dtype, "kind", "f") in "buif"
