"""Priors in the form that samplers use: numbers for each coefficient, and smooth stand-ins where there are kinks."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]

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

    def part(self, j: int, count: int = 1) -> "CoefficientPriors":
        """Return the prior of one coefficient, or of some from there on."""
        some: tuple[Any, ...] = tuple(each[j : j + count] for each in self)
        return CoefficientPriors(*some)

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


def resolved(kind: int, location: ArrayLike, scale: ArrayLike, shape: ArrayLike, d: int) -> CoefficientPriors:
    """Return priors of one kind for d coefficients, of numbers for all of them or one for each."""
    parts = [np.array(np.broadcast_to(np.asarray(part, dtype=np.float64), d)) for part in (location, scale, shape)]
    return CoefficientPriors(np.full(d, kind), *parts)
