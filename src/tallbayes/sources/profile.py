"""What one pass tells of the columns: that they can be used, how large they are, where they lie, how they spread."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_sum
from tallbayes.errors import InputError
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SMALLEST_COLUMN, LARGEST_COLUMN = 1e-75, 1e75
"""Columns whose largest absolute value is not between these are refused: fourth powers must not overflow."""
SAMPLE = 65536
"""Responses kept for their spread: all of them up to so many, and of more a sample spread over all rows."""


class Profile(NamedTuple):
    """Facts about rows: a partial result, which merges with that of others."""

    weight: float
    """Sum of the weights."""
    largest: Vector
    """Largest absolute value of each column."""
    mean: Vector
    """Weighted mean of each column."""
    square: Vector
    """Weighted sum of squared deviations from it."""
    sample: tuple[tuple[Vector, Vector], ...]
    """Parts of a sample of the responses, each with its weights; one number if all of the part are equal."""

    def merged(self, other: "Profile") -> "Profile":
        """Return the facts about both sets of rows (Chan's formulas)."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0.0 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # columns that are too large are refused in the end
            apart = other.mean - self.mean
            mean, square = self.mean + share * apart, self.square + other.square + self.weight * share * apart**2
        return Profile(
            weight,
            np.maximum(self.largest, other.largest),
            mean,
            square,
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


def profile_block(block: Block, names: list[str], n: int) -> Profile:
    """Return the facts about a block, or raise if it holds a value that cannot be used."""
    d = block.X.shape[1]
    sums = np.zeros((3, d))
    # A row that counts: then a column that is constant where weights are not zero has no spread at all.
    origin = block.X[int(np.argmax(block.weight > 0.0)) if block.weight.size > 1 else 0].copy()
    _column_sums(block.X, block.weight, origin, sums)
    largest, total, square = sums
    if not np.all(np.isfinite(sums)):
        refuse_infinite(block, names)
    weight = float(np.sum(block.weight)) * (block.count if block.weight.size == 1 else 1)
    with np.errstate(over="ignore", invalid="ignore"):  # columns that are too large are refused in the end
        shift = total / weight if weight > 0.0 else np.zeros(d)
        spread = np.maximum(square - weight * shift**2, 0.0)
    every = -(-n // SAMPLE)
    sample = slice(-block.first % every, None, every)
    return Profile(
        weight,
        largest,
        origin + shift,
        spread,
        (
            (
                block.responses[sample, 0].copy(),
                block.weight if block.weight.size == 1 else block.weight[sample].copy(),
            ),
        ),
    )


def refuse_infinite(block: Block, names: list[str], what: str = "X") -> None:
    """Name the first value of a block that is not finite, if there is one."""
    found = np.argwhere(~np.isfinite(block.X))
    if found.size:
        i, j = found[0]
        raise InputError(
            f"{what}: row {block.first + i}, column {names[j]!r} is {block.X[i, j]}; every value must be finite. "
            "Drop or impute such rows first."
        )


def refuse_unusable_columns(largest: Vector, names: list[str]) -> None:
    """Raise if a column is zero everywhere, or so large or small that powers of it are no float64."""
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


@compiled_sum
def _column_sums(X: Matrix, weight: Vector, origin: Vector, sums: Matrix) -> None:
    """Put the largest absolute value, and weighted sums of x - origin and its square, into the lines of sums.

    A value that is not finite makes a sum that is not.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        w = weight[0] if weight.size == 1 else weight[i]
        for j in range(d):
            x = X[i, j]
            apart = x - origin[j]
            sums[0, j] = max(sums[0, j], abs(x))
            sums[1, j] += w * apart
            sums[2, j] += w * apart * apart + 0.0 * x
