"""Priors of coefficients and scales: what is known of each before the data.

Whatever its shape, a prior is evaluated exactly in every step. Only the search for the mode and the choice of
coordinates use a smooth *stand-in* of priors that have kinks or hard ends: that decides how fast the sampler is,
not what it samples from.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import is_number, positive
from tallbayes.errors import InputError

__all__ = [
    "Cauchy",
    "Exponential",
    "Flat",
    "HalfCauchy",
    "HalfNormal",
    "HalfStudentT",
    "InverseGamma",
    "Laplace",
    "LogNormal",
    "Normal",
    "Prior",
    "ScalePrior",
    "StudentT",
    "Uniform",
    "WeaklyInformative",
]

Vector = NDArray[np.float64]

SMALLEST_SCALE = 1e-100
"""Smaller prior scales have precisions too large to compute with."""

FLAT, NORMAL, STUDENT, LAPLACE, UNIFORM, POWER, HALF_STUDENT = range(7)
"""Kinds of priors, as compiled code knows them. The last two are of the logarithm t of a scale: POWER has the potential
location * exp(scale * t) - shape * t, HALF_STUDENT that of half a Student's t of the scale itself, whose own scale is
exp(location)."""


class CoefficientPriors(NamedTuple):
    """Independent priors of all coefficients in the form the sampler uses, an entry for each."""

    kind: NDArray[np.int64]
    location: Vector
    """Centre; the lower end of a uniform prior."""
    scale: Vector
    """Scale; the upper end of a uniform prior."""
    shape: Vector
    """Degrees of freedom of Student's t; otherwise mostly not used."""

    @property
    def precision(self) -> Vector:
        """Of normal priors; 0 for others."""
        normal = self.kind == NORMAL
        return np.where(normal, 1.0 / np.where(normal, self.scale, 1.0) ** 2, 0.0)

    @property
    def mean(self) -> Vector:
        """Of normal priors; 0 for others."""
        return np.where(self.kind == NORMAL, self.location, 0.0)

    @property
    def centre(self) -> Vector:
        """Of every prior: its location, the middle of a uniform one (its end, if the other is infinite), else 0."""
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (self.location + self.scale)
        ends = np.where(np.isfinite(self.location), self.location, self.scale)
        found = np.where(self.kind == UNIFORM, np.where(np.isfinite(middle), middle, ends), self.location)
        return np.where(self.kind == POWER, 0.0, found)

    @property
    def proper(self) -> NDArray[np.bool_]:
        """Which priors have a finite integral."""
        endless = (self.kind == UNIFORM) & ~(np.isfinite(self.location) & np.isfinite(self.scale))
        return (self.kind != FLAT) & ~endless & ~((self.kind == POWER) & (self.location == 0.0))

    @property
    def smooth(self) -> NDArray[np.bool_]:
        """Which have no kink, no end and no heavy tail: normal, flat, and those of the logarithm of a scale."""
        return ~np.isin(self.kind, (STUDENT, LAPLACE, UNIFORM))

    @property
    def other(self) -> NDArray[np.int64]:
        """Coefficients whose prior is neither flat nor normal."""
        return np.flatnonzero((self.kind != FLAT) & (self.kind != NORMAL))

    def part(self, j: int) -> "CoefficientPriors":
        """Return the prior of one coefficient."""
        one: tuple[Any, ...] = tuple(each[j : j + 1] for each in self)
        return CoefficientPriors(*one)

    def normal_gradient(self, theta: Vector) -> Vector:
        """Return the gradient of the normal priors' potential."""
        return self.precision * (theta - self.mean)

    def stand_in(self, theta: Vector) -> tuple[float, Vector, Vector]:
        """Return potential, gradient and curvature of a smooth prior like this one.

        Normal and flat priors are their own stand-ins; so is Student's t, but for its curvature where that is
        negative. Laplace's |t| becomes sqrt(t^2 + 4), whose curvature at the kink is that of a normal with the same
        variance. The hard ends of a uniform prior become logarithmic walls.
        """
        value, gradient, curvature = np.zeros(theta.size), np.zeros(theta.size), np.zeros(theta.size)
        for kind, function in _STAND_INS.items():
            at = self.kind == kind
            if np.any(at):
                parts = function(theta[at], self.location[at], self.scale[at], self.shape[at])
                value[at], gradient[at], curvature[at] = parts
        return float(np.sum(value)), gradient, curvature

    def inside(self, theta: Vector) -> Vector:
        """Return theta, moved inside the hard ends of uniform priors where it is outside or at one of them."""
        at = self.kind == UNIFORM
        low, high = self.location[at], self.scale[at]
        with np.errstate(invalid="ignore"):
            room = 0.01 * np.where(np.isfinite(high - low), high - low, 1.0)
        moved = theta.copy()
        moved[at] = np.minimum(np.maximum(theta[at], low + room), high - room)
        return moved

    def describe(self, names: Sequence[str], most: int = 6) -> str:
        """Return the priors in words, coefficient by coefficient; at most so many."""
        texts = []
        for j, name in enumerate(names[:most]):
            a, b, c = (f"{float(part[j]):.4g}" for part in (self.location, self.scale, self.shape))
            kind = int(self.kind[j])
            if kind in (POWER, HALF_STUDENT):  # of the logarithm: said of the scale itself
                numbers = (float(part[j]) for part in (self.location, self.scale, self.shape))
                texts.append(f"{name.removeprefix('log(').removesuffix(')')} ~ {_of_a_scale(kind, *numbers)}")
                continue
            texts.append(
                f"{name} ~ "
                + {
                    FLAT: "Flat()",
                    NORMAL: f"Normal({a}, {b})",
                    STUDENT: f"Cauchy({a}, {b})" if self.shape[j] == 1.0 else f"StudentT({c}, {a}, {b})",
                    LAPLACE: f"Laplace({a}, {b})",
                    UNIFORM: f"Uniform({a}, {b})",
                }[kind]
            )
        return ", ".join(texts) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def _of_a_scale(kind: int, location: float, scale: float, shape: float) -> str:
    """Return the prior of a scale in words, from that of its logarithm."""
    if kind == HALF_STUDENT:
        width = math.exp(location)
        text = f"HalfCauchy({width:.4g})" if shape == 1.0 else f"HalfStudentT({shape:.4g}, {width:.4g})"
    elif location == 0.0:
        text = "Flat()"
    elif scale == 2.0:
        text = f"HalfNormal({math.sqrt(0.5 / location):.4g})"
    elif scale == 1.0:
        text = f"Exponential({location:.4g})"
    else:
        of = "square" if scale == -2.0 else "value"
        text = f"InverseGamma({shape / scale:.4g}, {location:.4g}, of={of!r})"
    return text


def joined(*parts: CoefficientPriors) -> CoefficientPriors:
    """Return priors of several sets of parameters as one."""
    return CoefficientPriors(*(np.concatenate(every) for every in zip(*parts, strict=True)))


Parts = tuple[Vector, Vector, Vector]


def _normal(theta: Vector, mean: Vector, scale: Vector, _: Vector) -> Parts:
    t = (theta - mean) / scale
    return 0.5 * t * t, t / scale, scale**-2.0


def _student(theta: Vector, mean: Vector, scale: Vector, df: Vector) -> Parts:
    t = (theta - mean) / scale
    q = df + t * t
    # Beyond t^2 = df the curvature is negative; the weight of iteratively reweighted least squares is not.
    curvature = np.where(t * t < 0.5 * df, (df + 1.0) * (df - t * t) / q**2, (df + 1.0) / q)
    return 0.5 * (df + 1.0) * np.log1p(t * t / df), (df + 1.0) * t / q / scale, curvature / scale**2


def _laplace(theta: Vector, mean: Vector, scale: Vector, _: Vector) -> Parts:
    t = (theta - mean) / scale
    length = np.hypot(t, 2.0)
    return length, t / length / scale, 4.0 / length**3 / scale**2


def _uniform(theta: Vector, low: Vector, high: Vector, _: Vector) -> Parts:
    value, gradient, curvature = np.zeros(theta.size), np.zeros(theta.size), np.zeros(theta.size)
    for end, sign in ((low, 1.0), (high, -1.0)):
        room = sign * (theta - end)
        wall = np.isfinite(end)
        inside = wall & (room > 0.0)
        value[wall & ~inside] = np.inf
        value[inside] -= np.log(room[inside])
        gradient[inside] -= sign / room[inside]
        curvature[inside] += room[inside] ** -2.0
    return value, gradient, curvature


def _power(theta: Vector, factor: Vector, power: Vector, slope: Vector) -> Parts:
    with np.errstate(over="ignore"):
        value = factor * np.exp(power * theta)
    return value - slope * theta, power * value - slope, power**2 * value


def _half_student(theta: Vector, location: Vector, _: Vector, df: Vector) -> Parts:
    t = 2.0 * (theta - location) - np.log(df)  # log of the square over df
    share = 1.0 / (1.0 + np.exp(-np.clip(t, -700.0, 700.0)))
    value = 0.5 * (df + 1.0) * np.logaddexp(0.0, t) - theta
    return value, (df + 1.0) * share - 1.0, 2.0 * (df + 1.0) * share * (1.0 - share)


_STAND_INS = {
    NORMAL: _normal,
    STUDENT: _student,
    LAPLACE: _laplace,
    UNIFORM: _uniform,
    POWER: _power,
    HALF_STUDENT: _half_student,
}


class Columns(Protocol):
    """What a prior may know of the columns: where each lies, and how far it spreads."""

    @property
    def mean(self) -> Vector:
        """Means."""

    @property
    def spread(self) -> Vector:
        """Difference of the values of a column that has two; standard deviation of others."""

    @property
    def level(self) -> float:
        """How far from 0 the responses lie, where they are on the predictor's scale; else 0."""


class Prior(ABC):
    """What is known of the coefficients before the data."""

    @abstractmethod
    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return the prior of each of the columns' coefficients."""


def _resolved(kind: int, location: ArrayLike, scale: ArrayLike, shape: ArrayLike, d: int) -> CoefficientPriors:
    parts = [np.array(np.broadcast_to(np.asarray(part, dtype=np.float64), d)) for part in (location, scale, shape)]
    return CoefficientPriors(np.full(d, kind), *parts)


class ScalePrior(ABC):
    """What is known of a scale before the data, stated for the scale itself."""

    @abstractmethod
    def of_scale(self) -> CoefficientPriors:
        """Return the prior of the scale's logarithm."""


@dataclass(frozen=True)
class Flat(Prior, ScalePrior):
    """Constant density: the posterior is the normalised likelihood, which must be integrable."""

    def resolve(self, columns: Columns, response_scale: float) -> CoefficientPriors:
        """Return no prior for every coefficient."""
        return _resolved(FLAT, 0.0, 1.0, 0.0, columns.mean.size)

    def of_scale(self) -> CoefficientPriors:
        """Return a density of the logarithm that grows like the scale: a constant one of the scale."""
        return _resolved(POWER, 0.0, 1.0, 1.0, 1)


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
        return _resolved(self._kind, mean, scale, self._shape, columns.mean.size)


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
        return _resolved(STUDENT, mean, scale, df, columns.mean.size)


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
        return _resolved(UNIFORM, low, high, 0.0, d)


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
    priors are.

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
        mean, spread = columns.mean, columns.spread
        constant = spread <= 1e-12 * np.abs(mean)
        scale = np.empty(columns.mean.size)
        scale[~constant] = self.strength * response_scale / spread[~constant]
        push = float(np.sum((mean[~constant] * scale[~constant]) ** 2))
        widest = math.sqrt((10.0 * response_scale) ** 2 + columns.level**2 + push)
        with np.errstate(divide="ignore"):
            scale[constant] = widest / np.abs(mean[constant])
        return _resolved(NORMAL, 0.0, scale, 0.0, columns.mean.size)


def _positive(owner: str, **values: float) -> None:
    """Raise unless the parameters of a scale's prior are positive, and neither tiny nor infinite."""
    for name, value in values.items():
        positive(f"{owner} prior", name, value)
        if not SMALLEST_SCALE < value < 1.0 / SMALLEST_SCALE:
            raise InputError(f"{owner} prior: {name}={value!r} must be between {SMALLEST_SCALE:g} and its inverse.")


@dataclass(frozen=True)
class HalfNormal(ScalePrior):
    """The positive half of a normal around zero, for a scale.

    Parameters
    ----------
    scale : float
        Standard deviation of that normal; positive.
    """

    scale: float

    def __post_init__(self) -> None:
        _positive("HalfNormal", scale=self.scale)

    def of_scale(self) -> CoefficientPriors:
        """Return exp(2 t) / (2 scale^2) - t."""
        return _resolved(POWER, 0.5 / float(self.scale) ** 2, 2.0, 1.0, 1)


@dataclass(frozen=True)
class HalfStudentT(ScalePrior):
    """The positive half of a Student's t around zero, for a scale.

    Parameters
    ----------
    df : float
        Degrees of freedom; positive.
    scale : float
        Scale of that Student's t; positive.
    """

    df: float
    scale: float

    def __post_init__(self) -> None:
        _positive("HalfStudentT", df=self.df, scale=self.scale)

    def of_scale(self) -> CoefficientPriors:
        """Return (df + 1) / 2 log(1 + exp(2 t) / (df scale^2)) - t."""
        return _resolved(HALF_STUDENT, math.log(self.scale), 1.0, self.df, 1)


@dataclass(frozen=True)
class HalfCauchy(ScalePrior):
    """The positive half of a Cauchy around zero, for a scale: half a Student's t with one degree of freedom.

    Parameters
    ----------
    scale : float
        Scale of that Cauchy; positive.
    """

    scale: float

    def __post_init__(self) -> None:
        _positive("HalfCauchy", scale=self.scale)

    def of_scale(self) -> CoefficientPriors:
        """Return that of half a Student's t."""
        return HalfStudentT(1.0, self.scale).of_scale()


@dataclass(frozen=True)
class Exponential(ScalePrior):
    """An exponential distribution, for a scale.

    Parameters
    ----------
    rate : float
        One over its mean; positive.
    """

    rate: float

    def __post_init__(self) -> None:
        _positive("Exponential", rate=self.rate)

    def of_scale(self) -> CoefficientPriors:
        """Return rate exp(t) - t."""
        return _resolved(POWER, float(self.rate), 1.0, 1.0, 1)


@dataclass(frozen=True)
class LogNormal(ScalePrior):
    """A scale whose logarithm is normal.

    Parameters
    ----------
    mean : float
        Mean of the logarithm.
    sd : float
        Standard deviation of the logarithm; positive.
    """

    mean: float
    sd: float

    def __post_init__(self) -> None:
        _positive("LogNormal", sd=self.sd)
        if not (is_number(self.mean) and math.isfinite(self.mean)):
            raise InputError(f"LogNormal prior: mean={self.mean!r} must be a finite number, of the logarithm.")

    def of_scale(self) -> CoefficientPriors:
        """Return a normal."""
        return _resolved(NORMAL, float(self.mean), float(self.sd), 0.0, 1)


@dataclass(frozen=True)
class InverseGamma(ScalePrior):
    """An inverse gamma distribution, for the square of a scale (a variance) or for the scale itself.

    Parameters
    ----------
    shape : float
        Shape a of the density x^(-a - 1) exp(-b / x); positive.
    scale : float
        Scale b; positive.
    of : str
        What has that density: "square", or "value".
    """

    shape: float
    scale: float
    of: str = "square"

    def __post_init__(self) -> None:
        _positive("InverseGamma", shape=self.shape, scale=self.scale)
        if self.of not in ("square", "value"):
            raise InputError(f"InverseGamma prior: of={self.of!r} was given; expected 'square' or 'value'.")

    def of_scale(self) -> CoefficientPriors:
        """Return b exp(-k t) + k a t, k = 2 for the square."""
        k = 2.0 if self.of == "square" else 1.0
        return _resolved(POWER, float(self.scale), -k, -k * float(self.shape), 1)
