"""Predictions of a block of rows: by tiles, so that memory does not grow with rows x draws."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.models.order_statistics import describe_lines
from tallbayes.predictions.asked import EXPECTED, LINEAR, PREDICTIVE, Asked
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Array = NDArray[np.float64]

TILE = 2**15
"""Numbers, draws x rows, that are predicted at once: memory of larger arrays comes from the system anew every time, and
that takes longer than the arithmetic."""
MOST_GROUPS = 5000
"""Groups that rows may be averaged by."""


def tiles(block: Block, asked: Asked) -> Iterator[tuple[slice, Array]]:
    """Yield some rows of a block at a time with their predictions: outcomes x draws x rows.

    There is one outcome, but for families of several classes: their probabilities are expected of each.
    """
    rng = np.random.default_rng([asked.seed, block.first])
    family = asked.family  # rows have their own where responses are drawn, of their own trials
    if asked.kind == PREDICTIVE:
        family = family.of_rows(slice(block.first, block.first + block.count))
    step = max(1, TILE // asked.thetas.shape[0])
    for first in range(0, block.count, step):
        rows = slice(first, min(first + step, block.count))
        part = Block(
            block.first + first,
            block.X[rows],
            block.responses[rows],
            block.weight if block.weight.size == 1 else block.weight[rows],
            block.offset if block.offset.size == 1 else block.offset[rows],
        )
        eta = asked.predictors.at_many(part, asked.thetas)
        if asked.kind == LINEAR:
            values = eta
        elif asked.kind == EXPECTED:
            values = family.expected(eta)
        else:
            values = family.of_rows(rows).draw(rng, eta)
        yield rows, values if values.ndim == 3 else values[None]


# -- averages over rows --


@dataclass
class Sums:
    """Weighted sums of predictions by group: a partial result, which merges with that of other rows."""

    values: dict[tuple[float, ...], Array]
    """By the values that make up the group: outcomes x draws."""
    weights: dict[tuple[float, ...], float]
    rows: int

    def merged(self, other: "Sums") -> "Sums":
        """Return the sums over both sets of rows."""
        for key, values in other.values.items():
            if key in self.values:
                self.values[key] += values
                self.weights[key] += other.weights[key]
            else:
                self.values[key], self.weights[key] = values, other.weights[key]
        if len(self.values) > MOST_GROUPS:
            raise InputError(
                f"by: there are more than {MOST_GROUPS:,} groups. Group by variables with few values, or cut a numeric "
                "one into ranges."
            )
        self.rows += other.rows
        return self

    def means(self) -> dict[tuple[float, ...], Array]:
        """Return the weighted mean of each group, outcomes x draws, in the order of the groups."""
        return {key: self.values[key] / self.weights[key] for key in sorted(self.values) if self.weights[key] > 0.0}


def sums(block: Block, asked: Asked, groups: int) -> Sums:
    """Return weighted sums over the rows of a block, by the last ``groups`` columns of its responses."""
    keys = block.responses[:, block.responses.shape[1] - groups :] if groups else np.zeros((block.count, 0))
    found, number = np.unique(keys, axis=0, return_inverse=True)
    number, weight = number.ravel(), np.broadcast_to(block.weight, block.count)
    totals: dict[int, Array] = {}
    for rows, values in tiles(block, asked):
        here, place = np.arange(len(found)), number[rows]
        if here.size > place.size:  # more groups than rows in the tile: those that are there
            here, place = np.unique(place, return_inverse=True)
        share = np.zeros((place.size, here.size))
        share[np.arange(place.size), place] = weight[rows]
        added = values @ share  # outcomes x draws x groups of this tile
        for k, group in enumerate(here.tolist()):
            totals[group] = totals[group] + added[..., k] if group in totals else added[..., k].copy()
    weights = np.bincount(number, weights=weight, minlength=len(found))
    by_key = [tuple(key) for key in found.tolist()]
    return Sums(
        {key: totals[group] for group, key in enumerate(by_key)},
        dict(zip(by_key, weights.tolist(), strict=True)),
        block.count,
    )


# -- row by row --


@dataclass
class Lines:
    """Results for consecutive rows: a partial result, to which that of the next rows is appended."""

    parts: list[Array]

    def merged(self, other: "Lines") -> "Lines":
        """Return the results for both sets of rows."""
        self.parts.extend(other.parts)
        return self

    @property
    def whole(self) -> Array:
        """All rows in one array."""
        return np.concatenate(self.parts)


def lines(block: Block, asked: Asked, probs: tuple[float, ...]) -> Lines:
    """Return mean, standard deviation and quantiles over draws of each row: rows x outcomes x numbers."""
    return Lines([described(values, probs) for _, values in tiles(block, asked)])


def every_draw(block: Block, asked: Asked) -> Lines:
    """Return all predictions: rows x outcomes x draws."""
    return Lines([np.moveaxis(values, 2, 0).copy() for _, values in tiles(block, asked)])


def described(values: Array, probs: tuple[float, ...]) -> Array:
    """Return mean, standard deviation and quantiles over draws.

    Parameters
    ----------
    values : array
        Outcomes x draws x rows.
    probs : tuple of float
        Probabilities of the quantiles.

    Returns
    -------
    array
        Rows x outcomes x (2 + quantiles).
    """
    draws = np.ascontiguousarray(np.moveaxis(values, 1, -1), dtype=np.float64)  # outcomes x rows x draws
    last = draws.shape[-1] - 1
    places = np.asarray(probs, dtype=np.float64) * last
    low = np.floor(places).astype(np.int64)
    wanted = np.unique(np.concatenate([low, np.minimum(low + 1, last)]))
    found = np.empty((draws.shape[0] * draws.shape[1], 2 + wanted.size))
    describe_lines(draws.reshape(-1, last + 1), wanted, found)
    share = places - low  # NumPy's own quantiles: between two draws
    below = found[:, 2 + np.searchsorted(wanted, low)]
    above = found[:, 2 + np.searchsorted(wanted, np.minimum(low + 1, last))]
    with np.errstate(invalid="ignore"):  # infinity minus infinity: both are the quantile
        between = np.where((below == above) | (share == 0.0), below, below * (1.0 - share) + above * share)
    out = np.concatenate([found[:, :2], between], axis=1)
    return np.moveaxis(out.reshape(*draws.shape[:2], -1), 1, 0)


def checked_count(owner: str, numbers: int, most: int) -> None:
    """Raise if more numbers were asked for than memory is likely to hold."""
    if numbers > most:
        raise InputError(
            f"{owner}: {numbers:,} numbers, draws x rows, were asked for; up to {most:,} are given. Average over rows "
            "(by=..., average=True), give fewer rows as new_data, or use fewer draws=."
        )
