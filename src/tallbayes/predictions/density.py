"""Log-likelihoods of rows, with their normalising constants."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.predictions.blocks import Lines
from tallbayes.sources.base import Block

Array = NDArray[np.float64]


class Likelihood(NamedTuple):
    """What log-likelihoods are made of."""

    family: Any
    rows: Any
    """The functions of rows (`families/rows.py`)."""
    predictors: Any


def log_likelihood(block: Block, likelihood: Likelihood, thetas: Array) -> Array:
    """Return the log-likelihood of each row at several points, which are in lines: points x rows.

    Parameters
    ----------
    block : Block
        Rows, converted.
    likelihood : Likelihood
        The model.
    thetas : array
        Parameter vectors.

    Returns
    -------
    array
        Of a binomial response, that of all its trials.
    """
    family = likelihood.family.of_rows(slice(block.first, block.first + block.count))
    trials = np.broadcast_to(np.asarray(getattr(family, "trials", 1.0)), block.count)
    copies = np.broadcast_to(block.weight, block.count)
    if np.any(copies != trials):
        i = int(np.flatnonzero(copies != trials)[0])
        raise InputError(
            f"loo: row {block.first + i} has a frequency weight of {copies[i] / max(trials[i], 1.0):g}. Leaving one "
            "row out means nothing where a row stands for several: give every row its own line, with collapse=False if "
            "tb.glm put equal rows together."
        )
    eta = likelihood.predictors.at_many(block, thetas)
    q, points, rows = eta.shape
    flat = np.ascontiguousarray(eta).reshape(q, points * rows)
    responses = np.ascontiguousarray(np.tile(block.responses, (points, 1)))
    potential = likelihood.rows.jets(responses, flat, 0)[0].reshape(points, rows)
    return np.asarray(trials * (family.log_constant(block.responses[:, 0]) - potential))


def densities(
    block: Block, likelihood: Likelihood, thetas: Array, chosen: NDArray[np.int64]
) -> tuple[Lines, Lines]:
    """Return the log-likelihood of each row at the mean of some points, and of chosen rows at all of them.

    Parameters
    ----------
    block : Block
        Rows, converted.
    likelihood : Likelihood
        The model.
    thetas : array
        Parameter vectors.
    chosen : array
        Numbers of rows, which rise.

    Returns
    -------
    Lines
        One number for each row of the block.
    Lines
        Rows x points, for those of the chosen rows that are in the block.
    """
    low, high = np.searchsorted(chosen, [block.first, block.first + block.count])
    # One by one: a family may differ by row.
    found = [_one_row(block, i - block.first, likelihood, thetas) for i in chosen[low:high].tolist()]
    at_mean = log_likelihood(block, likelihood, thetas.mean(axis=0, keepdims=True))[0]
    return Lines([at_mean]), Lines([np.array(found).reshape(len(found), thetas.shape[0])])


def _one_row(block: Block, i: int, likelihood: Likelihood, thetas: Array) -> Array:
    one = slice(i, i + 1)
    row = Block(
        block.first + i,
        block.X[one],
        block.responses[one],
        block.weight if block.weight.size == 1 else block.weight[one],
        block.offset if block.offset.size == 1 else block.offset[one],
    )
    return log_likelihood(row, likelihood, thetas)[:, 0]
