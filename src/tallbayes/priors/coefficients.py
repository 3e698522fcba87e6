"""Priors of coefficients, and the default, which is scaled to the data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import positive
from tallbayes.errors import InputError
from tallbayes.priors.base import SMALLEST_SCALE, Columns, Prior, ScalePrior
from tallbayes.priors.resolved import (
    FLAT,
    LAPLACE,
    NORMAL,
    POWER,
    STUDENT,
    UNIFORM,
    CoefficientPriors,
    Vector,
    resolved,
)


@dataclass(frozen=True)
class Flat(Prior, ScalePrior):
    """Constant density: the posterior is the normalised likelihood, which must be integrable."""

    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return no prior for every coefficient."""
        return resolved(FLAT, 0.0, 1.0, 0.0, columns.mean.size)

    def of_scale(self) -> CoefficientPriors:
        """Return a density of the logarithm that grows like the scale: a constant one of the scale."""
        return resolved(POWER, 0.0, 1.0, 1.0, 1)


@dataclass(frozen=True)
class _LocationScale(Prior):
    """What priors with a mean and a scale have in common."""

    mean: ArrayLike = 0.0
    scale: ArrayLike = 1.0
    _kind: ClassVar[int]
    _shape: ClassVar[float] = 0.0

    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return the prior of each coefficient, after checking shapes and signs."""
        mean, scale = _numbers(type(self).__name__, columns.mean.size, mean=self.mean, scale=self.scale)
        return resolved(self._kind, mean, scale, self._shape, columns.mean.size)


class Normal(_LocationScale):
    """Independent normal priors.

    Parameters
    ----------
    mean : array_like
        One mean for all coefficients, or one for each.
    scale : array_like
        One standard deviation for all coefficients, or one for each; positive.
    """

    _kind = NORMAL


@dataclass(frozen=True)
class StudentT(Prior):
    """Independent Student's t priors: like the normal one, with tails that let a large effect through.

    Parameters
    ----------
    df : array_like
        Degrees of freedom, one number or one for each coefficient; positive.
    mean : array_like
        Centre, one for all coefficients or one for each.
    scale : array_like
        Scale, one for all coefficients or one for each; positive.
    """

    df: ArrayLike
    mean: ArrayLike = 0.0
    scale: ArrayLike = 1.0

    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return the prior of each coefficient, after checking shapes and signs."""
        mean, scale, df = _numbers("StudentT", columns.mean.size, mean=self.mean, scale=self.scale, df=self.df)
        return resolved(STUDENT, mean, scale, df, columns.mean.size)


class Cauchy(_LocationScale):
    """Independent Cauchy priors: Student's t with one degree of freedom.

    Parameters
    ----------
    mean : array_like
        Centre, one for all coefficients or one for each.
    scale : array_like
        Scale, one for all coefficients or one for each; positive.
    """

    _kind, _shape = STUDENT, 1.0


class Laplace(_LocationScale):
    """Independent Laplace (double exponential) priors, the Bayesian lasso's.

    Parameters
    ----------
    mean : array_like
        Centre, one for all coefficients or one for each.
    scale : array_like
        Scale b of the density exp(-abs(x - mean) / b) / (2 b), one for all coefficients or one for each; positive.
    """

    _kind = LAPLACE


@dataclass(frozen=True)
class Uniform(Prior):
    """Constant density between hard bounds, zero beyond them.

    Parameters
    ----------
    low : array_like
        Lower end, one for all coefficients or one for each; may be ``-math.inf``.
    high : array_like
        Upper end, one for all coefficients or one for each; may be ``math.inf``, but not both ends may be infinite.
    """

    low: ArrayLike
    high: ArrayLike

    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return the prior of each coefficient, after checking shapes and order."""
        d = columns.mean.size
        low, high = (_one_or_each("Uniform", name, v, d) for name, v in (("low", self.low), ("high", self.high)))
        if np.any(np.isnan(low)) or np.any(np.isnan(high)) or not np.all(low < high):
            raise InputError(f"Uniform prior: low={self.low!r} must be below high={self.high!r}.")
        if np.any(np.isinf(low) & np.isinf(high)):
            raise InputError("Uniform prior: low and high are both infinite; use Flat() for no prior.")
        return resolved(UNIFORM, low, high, 0.0, d)


@dataclass(frozen=True)
class Each(Prior):
    """A prior of its own for each coefficient, as a dictionary or a list given to `Regression` becomes.

    Parameters
    ----------
    priors : tuple of Prior
        One for each column.
    """

    priors: tuple[Prior, ...]

    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return each coefficient's own prior."""
        different = {id(prior): prior for prior in self.priors}  # a default that many share is resolved once
        resolved = {key: prior.resolve(columns, response_scale) for key, prior in different.items()}
        chosen = [resolved[id(prior)] for prior in self.priors]
        parts = zip(*([part[j] for part in found] for j, found in enumerate(chosen)), strict=True)
        kind, *numbers = (np.array(part) for part in parts)
        return CoefficientPriors(kind, *numbers)


def each(prior: Any, names: Sequence[str]) -> Prior:
    """Return the prior that a user's argument stands for: one for all, one for each, or some by name."""
    if prior is None:
        return WeaklyInformative()
    if isinstance(prior, Prior):
        return prior
    if isinstance(prior, Mapping):
        unknown = [str(name) for name in prior if str(name) not in names]
        if unknown:
            raise InputError(f"prior: {unknown[0]!r} is not a coefficient; the names are {', '.join(names)}.")
        listed = {str(name): value for name, value in prior.items()}
        prior = [listed.get(name) for name in names]
    if isinstance(prior, Sequence) and not isinstance(prior, str):
        if len(prior) != len(names):
            raise InputError(
                f"prior: {len(prior)} were given; expected one for each of the {len(names)} coefficients."
            )
        default = WeaklyInformative()
        prior = [default if value is None else value for value in prior]
        wrong = [value for value in prior if not isinstance(value, Prior)]
        if not wrong:
            return Each(tuple(prior))
        prior = wrong[0]
    raise InputError(
        f"prior: {prior!r} was given; expected e.g. tb.priors.Normal(0, 2.5), a list with one for each "
        "coefficient, a dictionary from names to priors, or None for the default."
    )


def _one_or_each(owner: str, name: str, value: ArrayLike, d: int) -> Vector:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{owner} prior: {name}={value!r} must be a number, or numbers.") from None
    if array.shape not in {(), (1,), (d,)}:
        raise InputError(
            f"{owner} prior: {name} has shape {array.shape}; expected one number, or one for each of "
            f"the {d} coefficients."
        )
    return np.broadcast_to(array, d).astype(np.float64)


def _numbers(owner: str, d: int, **values: ArrayLike) -> list[Vector]:
    """Return the parameters of a prior, one number for each coefficient, after checking shapes and signs."""
    parts = []
    for name, value in values.items():
        array = _one_or_each(owner, name, value, d)
        if not np.all(np.isfinite(array)):
            raise InputError(f"{owner} prior: {name}={value!r} must be finite.")
        if name != "mean" and np.any(array <= SMALLEST_SCALE):
            hint = "; use Flat() for no prior" if name == "scale" else ""
            raise InputError(f"{owner} prior: {name}={value!r} must be positive (above {SMALLEST_SCALE:g}){hint}.")
        parts.append(array)
    return parts


def constant_columns(columns: Columns) -> NDArray[np.bool_]:
    """Return which columns have one value, but for rounding."""
    return columns.spread <= 1e-12 * np.abs(columns.mean)


def weak_scales(columns: Columns, effect: float, reach: float, alike: int = 1) -> Vector:
    """Return default prior scales of the coefficients of one predictor; infinite for a column of zeros.

    Those of columns that vary let a column's spread have such an effect. A constant may move by `reach`, and as far as
    these push it: columns whose means are far from 0 would else have no effect, as the constant could not make up.
    Where so many constants are pushed alike, as cut points are, all hold the effect back, and each has to yield more.
    """
    constant = constant_columns(columns)
    scale = np.empty(columns.mean.size)
    scale[~constant] = effect / columns.spread[~constant]
    push = float(np.sum((columns.mean[~constant] * scale[~constant]) ** 2))
    with np.errstate(divide="ignore"):
        scale[constant] = math.sqrt(reach**2 + alike * push) / np.abs(columns.mean[constant])
    return scale


@dataclass(frozen=True)
class WeaklyInformative(Prior):
    """Normal priors scaled to the data: the default.

    Every coefficient has mean 0. Its standard deviation depends on what its column is:

    - of two values, whatever they are (a 0/1 dummy): ``strength * unit / difference of the values``. The effect of one
      value against the other has the same prior however rare one of them is.
    - of more values: ``strength * unit / standard deviation of the column``. The effect of a change by one standard
      deviation has that prior.
    - constant (an intercept): ``sqrt((10 * unit)^2 + level^2 + sum of (mean * scale)^2) / absolute value``, the sum
      over all columns that are not constant, of their means and of the scales above: an intercept is free to move as
      far as these can push it, to where the responses lie, and ten units more.

    The unit is how far the family says that predictors typically spread: 1 for logit, probit, cloglog and log links,
    the spread of the responses where they are on the predictor's scale. There the level is their median's distance
    from 0, else it is 0. A row of weight zero does not count, nor do its values. `tallbayes.explain` prints what the
    priors are. Cut points are constants, too, beside the columns of their predictor, and the sum counts once for each
    of them. Constants of a log scale and of the log odds of zeros follow the rule with numbers of their own
    (docs/families.md).

    Parameters
    ----------
    strength : float
        Prior standard deviation, in units of the response, of the effect of one value against the other, or of one
        standard deviation.
    """

    strength: float = 2.5

    def __post_init__(self) -> None:
        positive("WeaklyInformative", "strength", self.strength)

    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return scales from the columns' means and spreads; infinite for a column of zeros."""
        return self.of_predictor(columns, response_scale)

    def of_predictor(self, columns: Columns, response_scale: float, alike: int = 1) -> CoefficientPriors:
        """Return the priors of a predictor's coefficients; of constants of which so many take turns, as cut points."""
        reach = math.hypot(10.0 * response_scale, columns.level)
        scale = weak_scales(columns, self.strength * response_scale, reach, alike)
        return resolved(NORMAL, 0.0, scale, 0.0, columns.mean.size)
