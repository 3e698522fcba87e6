r"""Which coefficients have long tails, and which rows and coordinates they ask for.

A coefficient of which few rows speak has a skewed posterior with a tail that no expansion at the mode shows. Such
coefficients come first among the coordinates: z_1 moves the first one alone, the others being given. If all rows in
which they appear are core rows, then no other row depends on these coordinates at all.

A coefficient whose prior is no normal, but of which many rows speak, comes last: it is then a function of the last
coordinate alone, so that a kink or a wall of its prior stays where it is.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.models.predictors import Linear
from tallbayes.setup.core import DistinctRows, gather
from tallbayes.setup.mode import Mode
from tallbayes.sources.base import RANDOM_ACCESS, Block

Vector = NDArray[np.float64]

SCREENED = 0.15
"""Coefficients whose skewness could be larger than this are examined more closely."""
SKEWED = 0.15
"""Skewness of the conditional posterior of a coefficient from which on it has a tail."""
MOST_CORE = 4096
"""Different core rows, at most: a proposal then takes some 0.2 ms."""
MOST_WHOLE = 512
"""Different rows of a model, at most, for all of them to be core rows if any coefficient is skewed."""
REPEATED = 0.25
"""Share of different rows in a subsample up to which all rows are gone through for different ones."""
FELT = 0.01
"""Share of the prior in the curvature along a coefficient, from which on its shape is felt."""


class Tails(NamedTuple):
    """What long tails ask for."""

    first: NDArray[np.int64]
    """Coefficients of which few rows speak, the core rows."""
    last: NDArray[np.int64]
    """Coefficients whose prior is no normal."""
    rows: DistinctRows
    """All rows in which one of the first appears."""
    whole: bool = False
    """Whether these are all rows: there are few different ones, and the surrogate is the posterior itself."""
    tied: bool = False
    """Whether some core row speaks of two skewed coefficients: they have a tail in common."""

    def order(self, d: int) -> NDArray[np.int64]:
        """Return all coefficients in the order of their coordinates."""
        rest = np.setdiff1d(np.arange(d), np.concatenate([self.first, self.last]))
        return np.concatenate([self.first, rest, self.last])


def find_tails(model: Model, mode: Mode, few: Model, *, threads: int | None = None) -> Tails:
    """Return the coefficients with long tails, in no pass where there are none, and otherwise two or three.

    Parameters
    ----------
    model : Model
        The model.
    mode : Mode
        Its mode.
    few : Model
        The same of a few of its rows.
    threads : int or None
        Threads for passes over rows.

    Returns
    -------
    Tails
        Coefficients and core rows.
    """
    empty, nobody = np.empty(0, dtype=np.int64), DistinctRows(np.empty((0, model.d + 2)), np.empty(0), MOST_CORE)
    last = _felt_priors(model, mode)
    if not model.predictors.linear:
        return Tails(empty, last if model.predictors.designed else empty, nobody)
    scale = np.sqrt(np.diag(mode.hessian))
    candidates = np.flatnonzero(model.profile.largest * _steepening(few, mode) > SCREENED * scale)
    first, found = empty, nobody
    if candidates.size:
        given = model.rows, model.predictors, mode.theta, candidates
        known = None
        if RANDOM_ACCESS in model.source.offers:
            thirds, counts = model.source.reduce(passes.third_along_columns, *given, threads=threads)
        else:  # a pass costs more than rows that turn out not to be wanted
            (thirds, counts), known = model.source.reduce(_thirds_and_rows, *given, threads=threads)
        skewness = np.abs(thirds) / scale[candidates] ** 3
        skewed = skewness > SKEWED
        if np.linalg.norm(skewness) > SKEWED and (whole := _few_different(model, few, last, threads)) is not None:
            return whole._replace(tied=_share_rows(whole.rows, candidates[skewed]))
        chosen, counts = candidates[skewed], counts[skewed]
        chosen = chosen[np.argsort(counts, kind="stable")]
        first, found = _gathered(model, chosen, np.sort(counts), threads, known)
        if first.size:
            first = np.append(
                first, _of_the_same_rows(model, np.setdiff1d(candidates, first), first, threads, known)
            )
    return Tails(first, np.setdiff1d(last, first), found if first.size else nobody, tied=_share_rows(found, first))


def _of_the_same_rows(
    model: Model,
    others: NDArray[np.int64],
    first: NDArray[np.int64],
    threads: int | None,
    known: DistinctRows | None,
) -> NDArray[np.int64]:
    """Return the columns among some that appear in core rows only: interactions share the tail of their level."""
    if not others.size:
        return others
    if known is None:
        outside = model.source.reduce(_rows_outside, others, first, threads=threads)
    elif known.too_many:  # a pass costs more than such a column is worth
        return others[:0]
    else:
        left = np.all(known.table[:, first] == 0.0, axis=1)
        outside = np.count_nonzero(known.table[left][:, others], axis=0)
    return others[np.asarray(outside) == 0]


def _rows_outside(block: Block, columns: NDArray[np.int64], first: NDArray[np.int64]) -> Vector:
    """Return in how many rows without any of the first columns each of some others appears."""
    left = np.all(block.X[:, first] == 0.0, axis=1)
    return np.count_nonzero(block.X[left][:, columns], axis=0).astype(np.float64)


def _share_rows(rows: DistinctRows, columns: NDArray[np.int64]) -> bool:
    """Return whether two of some columns are not zero in the same row."""
    return bool(np.any(np.count_nonzero(rows.table[:, columns], axis=1) > 1))


def _few_different(model: Model, few: Model, last: NDArray[np.int64], threads: int | None) -> Tails | None:
    """Return all coefficients and all rows, if there are few different ones, as in a design of factors."""
    every = np.arange(model.d)
    block = few.source.whole.converted()  # type: ignore[attr-defined]
    if gather(block, every, block.count).table.shape[0] > max(REPEATED * block.count, 1.0):
        return None
    found = model.source.reduce(gather, every, MOST_WHOLE, threads=threads)
    if found.too_many:
        return None
    # The rarest first: coordinates that move one coefficient, and few of its rows.
    counts = found.weight @ (found.table[:, : model.d] != 0.0)
    order = np.argsort(counts, kind="stable")
    return Tails(order[~np.isin(order, last)], last, found, whole=True)


def _steepening(few: Model, mode: Mode) -> float:
    """Return about the largest |U'''| / U'' of a row, by which skewness is bounded."""
    block = few.source.whole.converted()  # type: ignore[attr-defined]
    jets = few.rows.jets(block.responses, few.predictors.at(block, mode.theta), 3, first=2)
    curvature = np.abs(jets[0])
    floor = 0.1 * float(np.mean(curvature))
    return float(np.max(np.abs(jets[1]) / np.maximum(curvature, floor), initial=0.0)) if floor > 0.0 else 0.0


def _felt_priors(model: Model, mode: Mode) -> NDArray[np.int64]:
    """Return the coefficients whose prior is no normal, and is felt beside the likelihood."""
    prior = model.coefficient_priors
    _, _, curvature = prior.stand_in(mode.theta)
    other = np.setdiff1d(prior.other, np.flatnonzero(prior.smooth))
    variances = np.diag(np.linalg.inv(mode.hessian))
    return np.asarray(other[curvature[other] * variances[other] > FELT])


def _thirds_and_rows(
    block: Block, rows: Any, predictors: Linear, theta: Vector, columns: NDArray[np.int64]
) -> tuple[tuple[Vector, Vector], DistinctRows]:
    """Return third derivatives along some coefficients, and the rows in which they appear, as long as they are few."""
    return (
        passes.third_along_columns(block, rows, predictors, theta, columns),
        gather(block, columns, MOST_CORE),
    )


def _gathered(
    model: Model,
    columns: NDArray[np.int64],
    counts: Vector,
    threads: int | None,
    known: DistinctRows | None,
) -> tuple[NDArray[np.int64], DistinctRows]:
    """Return as many of the columns as have few different rows, the rarest first, and these rows.

    If the rows of these and other columns are known already, none is gathered.
    """
    within = int(np.searchsorted(np.cumsum(counts), MOST_CORE, side="right"))
    tries = [columns] if within == columns.size else [columns, columns[:within]]
    for some in tries:
        if some.size:
            if known is not None and not known.too_many:
                found = known.with_any(some)
            else:
                found = model.source.reduce(gather, some, MOST_CORE, threads=threads)
            if not found.too_many:
                return some, found
    return columns[:0], DistinctRows(np.empty((0, model.d + 2)), np.empty(0), MOST_CORE)
