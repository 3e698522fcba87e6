"""How well chains have mixed: arviz-stats' bulk ESS, tail ESS and R-hat, quickly enough to be found after every run.

The definitions are those of Vehtari et al. (2021) as arviz-stats 0.8 has them, and the numbers are the same. They are
computed here because importing arviz-stats takes longer than most runs do, and its own loops as long as ten thousand
draws.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels.mixing import MOST, TOGETHER, judged_together, used_draws
from tallbayes.quantiles import normal_quantiles
from tallbayes.sources.threads import available_threads, one_blas_thread, pool

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Cube = NDArray[np.float64]

TAILS = (1.0 - 0.89, 0.89)
"""Quantiles that tail ESS speaks of: arviz-stats' own default, so that its tables show the same numbers."""
SHORTEST = 4
"""Draws of a chain below which arviz-stats says nothing."""
LAGS = (4, 16)
"""Lags that are tried first: after so many, the correlation of chains that mix well is gone, or at least small."""
MOST_BITS = 16
"""Of a number's 52 that may make room for its place: the others tell numbers apart, almost always."""
RESOLUTION = float(np.finfo(np.float64).resolution)
"""Numbers that differ by less count as equal."""
SHARED = 2**16
"""Numbers from which on coefficients are shared between threads."""


class Mixing(NamedTuple):
    """Effective draws and R-hat of each coefficient; NaN where nothing can be said."""

    ess_bulk: Vector
    ess_tail: Vector
    r_hat: Vector
    within: Vector
    """Independent draws that half a chain is worth, whether or not chains agree: R-hat scatters accordingly."""
    every: int
    """Only every so many draws were used."""
    draws: int
    """How many draws of each chain that were."""


def mixing_of(draws: NDArray[np.float64], most: int = MOST) -> Mixing:
    """Return bulk ESS, tail ESS and R-hat of every coefficient, as arviz-stats does.

    Of a huge result, only every so many draws are used. R-hat is then a little less sharp. An ESS that is small
    comes out as it is, because draws that are next to each other say the same there; one that is large comes out
    smaller.

    Parameters
    ----------
    draws : array
        Chains x draws x coefficients.
    most : int
        Numbers that are used, unless that leaves fewer than a thousand draws of a chain.

    Returns
    -------
    Mixing
        NaN for fewer than four draws; and R-hat is NaN where nothing moved. One chain has an R-hat too, of its two
        halves, where arviz-stats has none.
    """
    chains, length, d = draws.shape
    every = used_draws(chains, length, d, most)
    seen = draws[:, ::every]
    found = np.full((4, d), np.nan)
    if seen.shape[1] >= SHORTEST:
        half = seen.shape[1] // 2
        scores = _normal_scores(2 * chains * half)
        some = judged_together(2 * chains * half, d, available_threads())

        def of_group(group: int) -> None:
            columns = slice(group * some, min((group + 1) * some, d))
            x = np.moveaxis(seen[:, :, columns], 2, 0)
            found[:, columns] = _of_some(np.concatenate((x[:, :, :half], x[:, :, -half:]), axis=1), x, scores)

        for_each(of_group, -(-d // some), seen.size)
    bulk, tail, r_hat, within = found
    return Mixing(bulk, tail, r_hat, within, every, seen.shape[1])


def for_each(function: Callable[[int], Any], d: int, numbers: int) -> list[Any]:
    """Return what a function says of each of d coefficients, or groups; in threads, if numbers are enough to share."""
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
        effective = _effective(_Centred(np.concatenate((draws[:, :half], draws[:, -half:]))[None]))[0]
        return float(draws.std(ddof=1) / np.sqrt(effective[0]))


def _of_some(halves: Cube, x: Cube, scores: Vector) -> Matrix:
    """Return the numbers of `Mixing`, four lines, for some coefficients.

    Parameters
    ----------
    halves : array
        Coefficients x halves of chains x draws; of an odd number of draws the middle one is left out.
    x : array
        Coefficients x chains x draws, with it.
    scores : array
        Normal scores of ranks.
    """
    flat = halves.reshape(halves.shape[0], -1)
    ordered, places = _sorted(flat)
    bulk = _Centred(_scored(ordered, places, scores).reshape(halves.shape))
    # Distances from the median: both sides of it are in order already, and a stable sort merges them.
    middle = flat.shape[1] // 2
    folded = np.abs(ordered - 0.5 * (ordered[:, middle - 1] + ordered[:, middle])[:, None])
    folded = np.concatenate((folded[:, middle - 1 :: -1], folded[:, middle:]), axis=1)
    places = np.concatenate((places[:, middle - 1 :: -1], places[:, middle:]), axis=1)
    outwards = _among_all(np.argsort(folded, axis=1, kind="stable"))
    spread = _scored(folded.ravel()[outwards], places.ravel()[outwards], scores).reshape(halves.shape)
    tails = _quantiles(ordered if halves.size == x.size else np.sort(x.reshape(x.shape[0], -1), axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ess_bulk, within = _effective(bulk)
        of_tails = [_effective(_Centred((halves <= tail[:, None, None]).astype(np.float64)))[0] for tail in tails]
        of_bulk, of_spread = _r_hat(bulk), _r_hat(_Centred(spread))
        r_hat = np.where(of_spread > of_bulk, of_spread, of_bulk)  # distances that are all the same have none
        return np.stack((ess_bulk, np.minimum(*of_tails), r_hat, within / halves.shape[1]))


def _among_all(order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Make of places in each line places among the numbers of all lines, in place."""
    order += order.shape[1] * np.arange(order.shape[0])[:, None]
    return order


def _sorted(flat: Matrix) -> tuple[Matrix, NDArray[np.intp]]:
    """Return the numbers of each line in order, and where they were among those of all lines.

    Integers sort faster alone than numbers sort with their places. So the last bits of each number, as an integer of
    the same order, make room for its place; where that was a bit too many, numbers are sorted as they are.
    """
    bits = int(flat.shape[1] - 1).bit_length()
    if bits <= MOST_BITS:
        key = flat.view(np.int64)
        key = key ^ (
            (key >> 63) & np.int64(2**63 - 1)
        )  # integers in the order of the numbers, also of negative ones
        key &= ~np.int64(2**bits - 1)
        key |= np.arange(flat.shape[1])
        key.sort(axis=1)
        key &= np.int64(2**bits - 1)
        places = _among_all(key)
        ordered = flat.ravel()[places]
        if np.all(ordered[:, 1:] >= ordered[:, :-1]):
            return ordered, places
    places = _among_all(np.argsort(flat, axis=1))
    return flat.ravel()[places], places


def _quantiles(ordered: Matrix) -> Matrix:
    """Return the quantiles that tail ESS speaks of, two lines, as NumPy interpolates them, of lines in order."""
    place = np.array(TAILS) * (ordered.shape[1] - 1)
    below = np.floor(place).astype(np.intp)
    above, share = np.minimum(below + 1, ordered.shape[1] - 1), place - below
    step = ordered[:, above] - ordered[:, below]
    # From the nearer end, as NumPy does: rounding decides between neighbours.
    return np.where(share < 0.5, ordered[:, below] + share * step, ordered[:, above] - (1.0 - share) * step).T


def _normal_scores(size: int) -> Vector:
    """Return the normal quantile of every rank that size numbers can have: 1, 3/2, 2, ... size."""
    below = 0.5 * np.arange(2, size + 1)  # the middle, whose quantile is 0
    low = normal_quantiles((below - 0.375) / (size + 0.25))
    return np.concatenate([low, [0.0], -low[::-1]])


def _scored(ordered: Matrix, places: NDArray[np.intp], scores: Vector) -> Vector:
    """Return the normal scores of lines of numbers, given in order and with their places; equals share their rank."""
    lines, size = ordered.shape
    each = np.empty((lines, size))
    each[:] = scores[::2]
    equal = np.zeros((lines, size), dtype=np.bool_)  # to the number before it
    np.equal(ordered[:, 1:], ordered[:, :-1], out=equal[:, 1:])
    later = np.flatnonzero(equal)
    if later.size:
        # Each group of equals is a first one and later ones, side by side.
        apart = np.flatnonzero(np.diff(later) > 1)
        first, last = later[np.append(0, apart + 1)] - 1, later[np.append(apart, later.size - 1)]
        shared = scores[first + last - 2 * size * (first // size)]
        each.ravel()[first] = shared
        each.ravel()[later] = np.repeat(shared, last - first)
    out = np.empty(lines * size)
    out[places] = each
    return out


class _Centred:
    """Chains of some coefficients less their means, as covariances need them."""

    def __init__(self, x: Cube) -> None:
        self.coefficients, self.chains, self.length = x.shape
        means = np.add.reduce(x, axis=2) / self.length
        self.between = means.var(axis=1, ddof=1)
        # Zeros between chains: one product for all of them.
        self.apart = np.empty((self.coefficients, self.chains, self.length + LAGS[-1]))
        self.apart[:, :, self.length :] = 0.0
        np.subtract(x, means[:, :, None], out=self.apart[:, :, : self.length])
        self.lines = self.apart.reshape(self.coefficients, -1)
        self.variance = self.covariances(0, 1)[:, 0]
        """Within chains, without Bessel's correction."""
        self.varies = self.variance > RESOLUTION
        """Numbers that vary by more differ by more: only the others need a closer check."""
        for k in np.flatnonzero(~self.varies):
            self.varies[k] = not np.ptp(x[k]) < RESOLUTION

    def covariances(self, first: int, last: int) -> Matrix:
        """Return the autocovariances of each coefficient from one lag up to another, the mean over chains."""
        size = self.lines.shape[1]
        sums = [np.vecdot(self.lines[:, : size - lag], self.lines[:, lag:]) for lag in range(first, last)]
        return np.stack(sums, axis=1) / (self.chains * self.length)

    def all_covariances(self, k: int) -> Vector:
        """Return the autocovariance of one coefficient at every lag, the mean over chains."""
        size = _fast_length(2 * self.length)
        power = np.zeros(size // 2 + 1)
        step = max(1, TOGETHER // self.length)
        for first in range(0, self.chains, step):
            waves = np.fft.rfft(self.apart[k, first : first + step, : self.length], n=size, axis=1)
            power += np.sum(waves.real**2 + waves.imag**2, axis=0)
        return np.asarray(np.fft.irfft(power, n=size)[: self.length] / (self.chains * self.length))


def _fast_length(least: int) -> int:
    """Return a length of at least that, of which Fourier transforms are fast: small primes, at most a seventh more."""
    doublings = max((least - 1).bit_length() - 5, 0)
    return next(m << doublings for m in (16, 18, 20, 21, 24, 25, 27, 28, 30, 32) if m << doublings >= least)


def _r_hat(z: _Centred) -> Vector:
    length, within = z.length, z.variance * z.length / (z.length - 1.0)
    return np.asarray(np.sqrt((length * z.between / within + length - 1.0) / length))


def _effective(x: _Centred) -> tuple[Vector, Vector]:
    """Return the effective sample size of each coefficient, and what it would be if its chains all agreed."""
    size = x.chains * x.length
    found, least = np.full((2, x.coefficients), float(size)), 1.0 / float(np.log10(size))
    few = LAGS if x.length > 4 * LAGS[-1] else ()
    known, left = np.empty((x.coefficients, 0)), np.flatnonzero(x.varies)
    for lags in (*few, x.length):
        if lags != x.length and left.size:
            known = np.concatenate((known, x.covariances(known.shape[1], lags)), axis=1)
        waiting = []
        for k in left:
            covariance = (known[k] if lags != x.length else x.all_covariances(int(k))).tolist()
            time = _autocorrelation_time(covariance, float(x.between[k]), x.length)
            if math.isnan(time):
                waiting.append(k)
                continue
            alone = _autocorrelation_time(
                covariance, 0.0, x.length
            )  # correlations are smaller: no more lags needed
            found[:, k] = size / max(time, least), size / max(alone, least)
        left = np.array(waiting, dtype=np.intp)
    return found[0], found[1]


def _autocorrelation_time(covariance: list[float], between: float, length: int) -> float:
    """Return the time by Geyer's initial monotone sequence, as arviz-stats does; NaN if more lags are needed."""
    within, overall = covariance[0] * length / (length - 1.0), covariance[0] + between
    if not overall > 0.0:
        return 0.0
    last = max((length - 3) // 2, 0)  # the pair that arviz-stats goes to at most
    total, least = -1.0, math.inf
    for pair in range(len(covariance) // 2):
        even = 1.0 - (within - covariance[2 * pair]) / overall if pair else 1.0
        both = even + 1.0 - (within - covariance[2 * pair + 1]) / overall
        if pair == last or not both > 0.0:
            return total + (even if even > 0.0 or both >= 0.0 else 0.0)
        least = min(least, both)
        total += 2.0 * least
    return math.nan
