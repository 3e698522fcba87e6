"""How well chains have mixed: arviz-stats' bulk ESS, tail ESS and R-hat, quickly enough to be found after every run.

The definitions are those of Vehtari et al. (2021) as arviz-stats 0.8 has them, and the numbers are the same. They are
computed here because importing arviz-stats takes longer than most runs do, and its own loops as long as ten thousand
draws.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.sources.threads import available_threads, one_blas_thread, pool

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TAILS = (1.0 - 0.89, 0.89)
"""Quantiles that tail ESS speaks of: arviz-stats' own default, so that its tables show the same numbers."""
MOST, FEWEST_LOOKED_AT = 1_000_000, 1000
"""Numbers of a result that are looked at; draws of each chain that are looked at in any case."""
SHORTEST = 4
"""Draws of a chain below which arviz-stats says nothing."""
LAGS = 16
"""Lags that are tried first: after so many, the correlation of chains that mix well is gone."""
RESOLUTION = float(np.finfo(np.float64).resolution)
"""Numbers that differ by less count as equal."""
SHARED = 2**18
"""Numbers from which on coefficients are shared between threads."""
TOGETHER = 2**16
"""Numbers that are transformed at once."""


class Mixing(NamedTuple):
    """Effective draws and R-hat of each coefficient; NaN where nothing can be said."""

    ess_bulk: Vector
    ess_tail: Vector
    r_hat: Vector
    within: Vector
    """Independent draws that half a chain is worth, whether or not chains agree: R-hat scatters accordingly."""
    every: int
    """Only every so many draws were looked at."""
    draws: int
    """How many draws of each chain that were."""


def mixing_of(draws: NDArray[np.float64], most: int = MOST) -> Mixing:
    """Return bulk ESS, tail ESS and R-hat of every coefficient, as arviz-stats does.

    Of a huge result, only every so many draws are looked at. R-hat is then a little less sharp. An ESS that is small
    comes out as it is, because draws that are next to each other say the same there; one that is large comes out
    smaller.

    Parameters
    ----------
    draws : array
        Chains x draws x coefficients.
    most : int
        Numbers that are looked at, unless that leaves fewer than a thousand draws of a chain.

    Returns
    -------
    Mixing
        NaN for fewer than four draws; and R-hat is NaN where nothing moved. One chain has an R-hat too, of its two
        halves, where arviz-stats has none.
    """
    chains, length, d = draws.shape
    every = max(1, min(-(-draws.size // max(most, 1)), length // FEWEST_LOOKED_AT))
    seen = draws[:, ::every]
    found = np.full((4, d), np.nan)
    if seen.shape[1] >= SHORTEST:
        scores = _normal_scores(2 * chains * (seen.shape[1] // 2))
        found[:] = np.transpose(
            for_each(lambda j: _of_one(np.ascontiguousarray(seen[:, :, j]), scores), d, seen.size)
        )
    bulk, tail, r_hat, within = found
    return Mixing(bulk, tail, r_hat, within, every, seen.shape[1])


def for_each(function: Callable[[int], Any], d: int, numbers: int) -> list[Any]:
    """Return what a function says of each of d coefficients; in threads, if there are numbers enough to share."""
    with one_blas_thread():  # products of so few numbers gain nothing from more
        workers = available_threads() if numbers > SHARED else 1
        return list(pool(workers).map(function, range(d)) if workers > 1 else map(function, range(d)))


def mean_error(draws: NDArray[np.float64]) -> float:
    """Return the Monte Carlo standard error of the mean of one coefficient, as arviz-stats does.

    Parameters
    ----------
    draws : array
        Chains x draws.

    Returns
    -------
    float
        NaN for fewer than four draws.
    """
    half = draws.shape[1] // 2
    if draws.shape[1] < SHORTEST:
        return float("nan")
    with np.errstate(divide="ignore", invalid="ignore"):
        effective, _ = _ess(np.concatenate((draws[:, :half], draws[:, -half:])))
        return float(draws.std(ddof=1) / np.sqrt(effective))


def _of_one(x: Matrix, scores: Vector) -> tuple[float, float, float, float]:
    """Return the numbers of `Mixing` for one coefficient; x has a line for each chain."""
    half = x.shape[1] // 2
    halves = np.concatenate((x[:, :half], x[:, -half:]))  # of an odd number of draws the middle one is left out
    flat = halves.ravel()
    order = np.argsort(flat)
    ordered = flat[order]
    bulk = _scored(ordered, order, scores).reshape(halves.shape)
    # Distances from the median: both sides of it are in order already, and a stable sort merges them.
    middle = flat.size // 2
    folded = np.abs(ordered - 0.5 * (ordered[middle - 1] + ordered[middle]))
    outwards = np.concatenate((np.arange(middle - 1, -1, -1), np.arange(middle, flat.size)))
    outwards = outwards[np.argsort(folded[outwards], kind="stable")]
    spread = _scored(folded[outwards], order[outwards], scores).reshape(halves.shape)
    low, high = _quantiles(ordered if x.shape[1] % 2 == 0 else np.sort(x, axis=None))
    with np.errstate(divide="ignore", invalid="ignore"):
        ess_bulk, within = _ess(bulk)
        ess_tail = min(_ess((halves <= bound).astype(np.float64))[0] for bound in (low, high))
        return ess_bulk, ess_tail, max(_r_hat(bulk), _r_hat(spread)), within / halves.shape[0]


def _quantiles(ordered: Vector) -> Vector:
    """Return the quantiles that tail ESS speaks of, as NumPy interpolates them, of numbers in order."""
    place = np.array(TAILS) * (ordered.size - 1)
    below = np.floor(place).astype(np.intp)
    above, share = np.minimum(below + 1, ordered.size - 1), place - below
    step = (
        ordered[above] - ordered[below]
    )  # from the nearer end, as NumPy does: rounding decides between neighbours
    return np.where(share < 0.5, ordered[below] + share * step, ordered[above] - (1.0 - share) * step)


def _normal_scores(size: int) -> Vector:
    """Return the normal quantile of every rank that size numbers can have: 1, 3/2, 2, ... size."""
    from scipy.special import ndtri

    ranks = 0.5 * np.arange(2, 2 * size + 1)
    return np.asarray(ndtri((ranks - 0.375) / (size + 0.25)))


def _scored(ordered: Vector, order: NDArray[np.intp], scores: Vector) -> Vector:
    """Return the normal scores of numbers, given in order and with their places; equal numbers share their rank."""
    out = np.empty(ordered.size)
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if first.size == ordered.size:
        out[order] = scores[::2]
    else:
        end = np.append(first[1:], ordered.size)
        out[order] = np.repeat(scores[first + end - 1], end - first)
    return out


def _r_hat(z: Matrix) -> float:
    length = z.shape[1]
    between, within = length * z.mean(axis=1).var(ddof=1), z.var(axis=1, ddof=1).mean()
    return float(np.sqrt((between / within + length - 1.0) / length))


def _ess(x: Matrix) -> tuple[float, float]:
    """Return the effective sample size of chains of equal length, and what it would be if they all agreed."""
    length = x.shape[1]
    means = np.add.reduce(x, axis=1) / length
    centred, between = x - means[:, None], float(means.var(ddof=1))
    covariance = _first_covariances(centred) if length > 4 * LAGS else _all_covariances(centred)
    # Numbers that vary by more than this differ by more: only otherwise arviz-stats' own rule is needed.
    if not covariance[0] > RESOLUTION and x.max() - x.min() < RESOLUTION:
        return float(x.size), float(x.size)
    time = _autocorrelation_time(covariance, between, length)
    if np.isnan(time):
        covariance = _all_covariances(centred)
        time = _autocorrelation_time(covariance, between, length)
    alone = _autocorrelation_time(covariance, 0.0, length)  # correlations are smaller then: no more lags are needed
    least = 1.0 / float(np.log10(x.size))
    return x.size / max(time, least), x.size / max(alone, least)


def _autocorrelation_time(covariance: Vector, between: float, length: int) -> float:
    """Return the time by Geyer's initial monotone sequence, as arviz-stats does; NaN if more lags are needed."""
    within = covariance[0] * length / (length - 1.0)
    correlation = 1.0 - (within - covariance) / (covariance[0] + between)
    correlation[0] = 1.0
    pairs = correlation[: covariance.size - covariance.size % 2].reshape(-1, 2).sum(axis=1)
    falls = np.flatnonzero(~(pairs > 0.0))
    if not falls.size and covariance.size < length:
        return float("nan")
    # The first pair that is not positive, or the last one that arviz-stats would go to.
    last = min(int(falls[0]) if falls.size else length, max((length - 3) // 2, 0))
    rest = correlation[2 * last] if correlation[2 * last] > 0.0 or pairs[last] >= 0.0 else 0.0
    return float(-1.0 + 2.0 * np.minimum.accumulate(pairs[:last]).sum() + rest)


def _first_covariances(centred: Matrix) -> Vector:
    """Return the autocovariances at a few lags, the mean over chains: all that chains which mix well need."""
    chains, length = centred.shape
    apart = np.zeros((chains, length + LAGS))  # zeros between chains: one product for all of them
    apart[:, :length] = centred
    line = apart.ravel()
    sums = [np.dot(line[: line.size - lag], line[lag:]) for lag in range(LAGS)]
    return np.array(sums) / (chains * length)


def _all_covariances(centred: Matrix) -> Vector:
    """Return the autocovariance at every lag, the mean over chains."""
    from scipy.fft import irfft, next_fast_len, rfft

    chains, length = centred.shape
    size = next_fast_len(2 * length, real=True)
    power = np.zeros(size // 2 + 1)
    step = max(1, TOGETHER // length)
    for first in range(0, chains, step):
        waves = rfft(centred[first : first + step], n=size, axis=1)
        power += np.sum(waves.real**2 + waves.imag**2, axis=0)
    return np.asarray(irfft(power, n=size)[:length] / (chains * length))
