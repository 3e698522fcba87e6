"""What one pass tells of the columns: that they can be used, how large they are, where they lie, how they spread."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_sum, compiled_within
from tallbayes.errors import InputError
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SMALLEST_COLUMN, LARGEST_COLUMN = 1e-75, 1e75
"""Columns whose largest absolute value is not between these are refused: fourth powers must not overflow."""
SAMPLE = 65536
"""Responses kept for their spread: all of them up to so many, and of more a sample spread over all rows."""
FEW_ROWS, TILE = 8, 16384
"""Rows, and then numbers of the design, after which it is seen how many values columns have: a few rows tell most."""


class Profile(NamedTuple):
    """Facts about rows: a partial result, which merges with that of others."""

    weight: float
    """Sum of the weights."""
    rows: int
    """How many rows have one that is not zero."""
    largest: Vector
    """Largest absolute value of each column."""
    mean: Vector
    """Weighted mean of each column."""
    square: Vector
    """Weighted sum of squared deviations from it."""
    values: Matrix
    """The two values of each column in rows with a weight, the smaller one first. Twice the same if there is only one,
    inf and -inf if no row has a weight, NaN if there are more than two."""
    sample: tuple[tuple[Vector, Vector], ...]
    """Parts of a sample of the responses, each with its weights; one number if all of the part are equal."""

    def merged(self, other: "Profile") -> "Profile":
        """Return the facts about both sets of rows (Chan's formulas)."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0.0 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # columns that are too large are refused in the end
            apart = other.mean - self.mean
            mean, square = self.mean + share * apart, self.square + other.square + self.weight * share * apart**2
        values = self.values.copy()
        _add_values(values, other.values)
        return Profile(
            weight,
            self.rows + other.rows,
            np.maximum(self.largest, other.largest),
            mean,
            square,
            values,
            self.sample + other.sample,
        )

    @property
    def responses(self) -> Vector:
        """A sample of the responses."""
        return np.concatenate([responses for responses, _ in self.sample])

    @property
    def weights(self) -> Vector:
        """The weights of the sample; one number if all are equal."""
        first = self.sample[0][1]
        if all(weights.size == 1 and weights[0] == first[0] for _, weights in self.sample):
            return first
        return np.concatenate([np.broadcast_to(weights, responses.shape) for responses, weights in self.sample])

    @property
    def sd(self) -> Vector:
        """Weighted standard deviation of each column."""
        return np.sqrt(self.square / max(self.weight, 1e-300))

    @property
    def spread(self) -> Vector:
        """Difference of the values of a column that has two; standard deviation of others."""
        low, high = self.values
        return np.where(high > low, high - low, self.sd)


def profile_block(block: Block, names: list[str], n: int, further: int = 0) -> Profile:
    """Return the facts about a block, or raise if it holds a value that cannot be used.

    Its last columns, so many as `further` says, are those of a scale_design.
    """
    d = block.X.shape[1]
    # A row that counts: then a column that is constant where weights are not zero has no spread at all.
    origin = block.X[int(np.argmax(block.weight > 0.0)) if block.weight.size > 1 else 0].copy()
    other, many, sums = origin.copy(), np.zeros(d, dtype=np.bool_), np.zeros((3, d))
    _column_sums(block.X, block.weight, origin, other, many, sums)
    largest, total, square = sums
    if not np.all(np.isfinite(sums)):
        refuse_infinite(block, names, further=further)
    weight = float(np.sum(block.weight)) * (block.count if block.weight.size == 1 else 1)
    with np.errstate(over="ignore", invalid="ignore"):  # columns that are too large are refused in the end
        shift = total / weight if weight > 0.0 else np.zeros(d)
        spread = np.maximum(square - weight * shift**2, 0.0)
    values = np.array([np.minimum(origin, other), np.maximum(origin, other)])
    if weight == 0.0:  # no row counts, nor does the origin
        values[0], values[1] = np.inf, -np.inf
    every = -(-n // SAMPLE)
    sample = slice(-block.first % every, None, every)
    return Profile(
        weight,
        int(np.count_nonzero(block.weight)) * (block.count if block.weight.size == 1 else 1),
        largest,
        origin + shift,
        spread,
        values,
        (
            (
                block.responses[sample, 0].copy(),
                block.weight if block.weight.size == 1 else block.weight[sample].copy(),
            ),
        ),
    )


def _design_of(column: int, names: list[str], what: str, further: int) -> str:
    """Return what the design of a column is called in messages."""
    return "scale_design" if column >= len(names) - further else what


def refuse_infinite(block: Block, names: list[str], what: str = "X", further: int = 0) -> None:
    """Name the first value of a block that is not finite, if there is one."""
    found = np.argwhere(~np.isfinite(block.X))
    if found.size:
        i, j = found[0]
        raise InputError(
            f"{_design_of(int(j), names, what, further)}: row {block.first + i}, column {names[j]!r} is "
            f"{block.X[i, j]}; every value must be finite. Drop or impute such rows first.",
            row=int(block.first + i),
        )


def refuse_unusable_columns(largest: Vector, names: list[str], further: int = 0) -> None:
    """Raise if a column is zero everywhere, or so large or small that powers of it are no float64."""
    for j, size in enumerate(largest):
        what = _design_of(j, names, "X", further)
        if size == 0.0:
            raise InputError(
                f"{what}: column {names[j]!r} is zero in every row, so the data say nothing about its "
                "coefficient. Drop the column."
            )
        if not SMALLEST_COLUMN < size < LARGEST_COLUMN:
            raise InputError(
                f"{what}: column {names[j]!r} has values up to {size:.3g}, whose powers no float64 holds. Rescale "
                "the column so that typical values are near 1."
            )


@compiled_sum
def _column_sums(
    X: Matrix, weight: Vector, origin: Vector, other: Vector, many: NDArray[np.bool_], sums: Matrix
) -> None:
    """Put the largest absolute value, and weighted sums of x - origin and its square, into the lines of sums.

    A value that is not finite makes a sum that is not. Whether columns have more than two values in rows with a weight
    is seen at hardly any cost: the last line is a sum of w |x - origin| |x - other|. While a column had one value, and
    since it has had many, `other` is its origin, and that is the sum of squares. After a second value `other` is that
    one, and the sum stays zero until there is a third; the squares then follow from the line before. In the end `other`
    is NaN where there are many.
    """
    n, d = X.shape
    rows = max(TILE // d, FEW_ROWS)
    for before in range(FEW_ROWS - rows, n, rows):
        start, stop = max(before, 0), min(before + rows, n)
        watch = False  # with no column of two values the same sum takes less time
        for j in range(d):
            watch |= other[j] != origin[j]
        for i in range(start, stop):
            w = weight[0] if weight.size == 1 else weight[i]
            for j in range(d):
                x = X[i, j]
                apart = x - origin[j]
                sums[0, j] = max(sums[0, j], abs(x))
                sums[1, j] += w * apart
                sums[2, j] += w * (abs(apart * (x - other[j])) if watch else apart * apart)
        for j in range(d):
            if sums[2, j] != 0.0 and not many[j]:
                _one_value_more(X, weight, start, stop, j, origin, other, many, sums)
    for j in range(d):
        if many[j]:
            other[j] = np.nan
        else:
            sums[2, j] = (other[j] - origin[j]) * sums[1, j]


@compiled_within
def _one_value_more(
    X: Matrix,
    weight: Vector,
    start: int,
    stop: int,
    j: int,
    origin: Vector,
    other: Vector,
    many: NDArray[np.bool_],
    sums: Matrix,
) -> None:
    """Take up a column's second value, or see that it has many, in rows that have just been added."""
    total = square = 0.0
    candidate = other[j]
    for i in range(start, stop):
        w = weight[0] if weight.size == 1 else weight[i]
        x = X[i, j]
        apart = x - origin[j]
        total += w * apart
        square += w * apart * apart
        if w > 0.0 and x != origin[j] and x != candidate:
            many[j] |= candidate != origin[j]
            candidate = x
    if many[j]:
        sums[2, j] = (other[j] - origin[j]) * (sums[1, j] - total) + square
        other[j] = origin[j]
    else:
        sums[2, j] = 0.0
        other[j] = candidate


def _add_values(values: Matrix, more: Matrix) -> None:
    """Add the values of columns to those of other rows, both as a profile has them."""
    low, high = np.minimum(values[0], more[0]), np.maximum(values[1], more[1])
    every = np.concatenate([values, more])
    few = np.all((every == low) | (every == high) | np.isinf(every), axis=0)
    values[0], values[1] = np.where(few, low, np.nan), np.where(few, high, np.nan)
