"""Models: data, likelihood family and prior, checked and ready to be sampled."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.families.responses import robust_spread, without_outliers
from tallbayes.priors import CoefficientPriors, Prior, each
from tallbayes.sources import whitened
from tallbayes.sources.arrays import LARGEST_COLUMN, ArraySource, numeric

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

START_ROWS = 20_000
"""Rows from which a starting point is guessed."""


class Model(ABC):
    """What set-up and kernels need of a model: rows, a prior, bounds of rows, and where to look for the mode."""

    source: ArraySource
    names: list[str]
    """Names of the parameters."""
    prior: Prior
    coefficient_priors: CoefficientPriors
    family: Any
    """Has the ``curve`` by whose type compiled code knows a row's potential, and says if that is ``convex``."""
    linear: bool
    """Whether rows enter by one linear predictor, so that columns explain why there is no mode."""
    orders: tuple[int, ...]
    """Orders of expansion that the planner considers, the highest first."""

    @property
    @abstractmethod
    def mode_advice(self) -> str:
        """What to try when the search for the mode fails."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.source.n

    @property
    def d(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def has_local_bounds(self) -> bool:
        """Whether rows can be bounded in a ball, in whitened coordinates."""
        return self.linear

    @abstractmethod
    def starting_point(self, source: ArraySource) -> Vector:
        """Return where the search for the mode of these rows starts."""

    def holding_ridge(self, source: ArraySource) -> Vector:
        """Return precisions that keep the mode of a few rows finite; none by default."""
        return np.zeros(self.d)

    @abstractmethod
    def global_bounds(self, m: int, threads: int | None = None) -> Vector:
        """Return psi of every row from suprema of derivatives of order m over the whole space."""

    @abstractmethod
    def local_bounds(
        self, m: int, centre: Vector, inverse_root: Matrix, radius: float, threads: int | None = None
    ) -> tuple[Vector, NDArray[np.float32]]:
        """Return psi and shares of every row, from suprema within a ball around the centre."""

    def subsample(self, size: int) -> Self:
        """Return the same model of ``size`` of its rows, for forecasts."""
        part = copy.copy(self)
        part.source = self.source.subsample(size)
        return part


class Regression(Model):
    """A regression: y depends on X through the linear predictor ``X @ beta + offset``.

    The columns are used as given: none is added (give a column of ones for an intercept), centred or scaled.
    A float32 or float64 design of any memory order is not copied.

    Parameters
    ----------
    X : array_like
        Design, rows x columns; an array or a data frame of numbers.
    y : array_like
        Response, one for each row.
    family : Family
        Likelihood, from `tallbayes.families`.
    prior : Prior or sequence of Prior or mapping or None
        Prior of the coefficients, from `tallbayes.priors`: one for all, a list with one for each column, or a
        dictionary from names to priors. None, and a column that the dictionary leaves out, give
        ``WeaklyInformative()``; `tallbayes.explain` prints what that is for these data.
    offset : array_like or None
        Known part of each row's predictor.
    weights : array_like or None
        Frequency weights: a row of weight 3 counts as three rows.
    names : sequence of str or None
        Names of the columns. None takes those of a data frame, or x0, x1, ...
    """

    linear = True
    orders = (3, 2)

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        family: Family,
        prior: Prior | Sequence[Prior] | Mapping[str, Prior] | None = None,
        *,
        offset: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(family, Family):
            raise InputError(f"family: {family!r} was given; expected e.g. tb.families.Bernoulli().")
        if names is None and hasattr(X, "columns"):
            names = [str(column) for column in X.columns]
        design = _design(X)
        self.names = _names(names, design.shape[1])
        self.family = family
        response = _response(y, design.shape[0], family)
        self.source = ArraySource(design, response, weights, offset, self.names)
        coded, weight = family.encode(response, self.source.rows.weight)
        self.source.rows = self.source.rows._replace(y=coded, weight=np.atleast_1d(weight))
        self.prior = each(prior, self.names)
        weight = self.source.rows.weight
        self.coefficient_priors = self.prior.resolve(design, family.predictor_scale(response, weight), weight)

    @property
    def mode_advice(self) -> str:
        """A proper prior, where there is none, and a look at the data."""
        proper = bool(np.all(self.coefficient_priors.proper))
        prior = "" if proper else "Give the coefficients a proper prior, e.g. prior=tb.priors.Normal(0, 2.5). "
        return (
            f"{prior}Look for responses, offsets and weights out of all proportion, and for columns on very "
            "different scales; rescale them so that typical values are near 1."
        )

    def starting_point(self, source: ArraySource) -> Vector:
        """Return least squares on the family's guess of the predictor."""
        rows = source.rows
        first = slice(0, START_ROWS)
        X = rows.X[first].astype(np.float64)
        target = self.family.starting_predictor(rows.y[first])
        if rows.offset.size > 1:  # a start must not be led astray by a few rows whose offsets are extreme
            target = without_outliers(target - rows.offset[first], robust_spread(target, np.ones(1)))
        else:
            target = target - rows.offset
        # Normal equations on scaled columns, with a ridge for those that depend on others: a start may be rough.
        scale = np.sqrt(np.mean(X**2, axis=0))
        scale[scale == 0.0] = 1.0
        X /= scale
        ridge = 1e-8 * X.shape[0] * np.eye(X.shape[1])
        return np.asarray(np.linalg.solve(X.T @ X + ridge, X.T @ target) / scale, dtype=np.float64)

    def holding_ridge(self, source: ArraySource) -> Vector:
        """Return a ridge that keeps a coefficient finite when the rows do not speak of it."""
        X = source.rows.X
        spread = np.sqrt(np.einsum("ij,ij->j", X, X, dtype=np.float64) / X.shape[0])  # no copy of the rows
        return np.asarray((spread / 5.0) ** 2 + 1e-8 * np.max(spread) ** 2)

    def global_bounds(self, m: int, threads: int | None = None) -> Vector:
        """Return the paper's constants, or say that the family has none."""
        if not math.isfinite(self.family.supremum(m)):
            raise InputError(
                f"{self.family} has no global bound of order {m - 1}: its derivative of order {m} is "
                "unbounded. Use bound=tb.bounds.Local()."
            )
        psi = np.empty(self.n)
        rows, curve, critical = self.source.rows, self.family.curve, self.family.critical_points(m)
        self.source.map_parts(
            lambda first, last: whitened.fill_global_bounds(rows, curve, m, critical, first, last, psi), threads
        )
        return psi

    def local_bounds(
        self, m: int, centre: Vector, inverse_root: Matrix, radius: float, threads: int | None = None
    ) -> tuple[Vector, NDArray[np.float32]]:
        """Return constants that hold while the predictor stays within the ball."""
        psi = np.empty(self.n)
        shares = np.ones((self.n if m % 2 == 0 else 1, 2), dtype=np.float32)
        where = self.source.rows, self.family.curve, centre, inverse_root
        critical = self.family.critical_points(m)
        self.source.map_parts(
            lambda first, last: whitened.fill_local_bounds(*where, m, radius, critical, first, last, psi, shares),
            threads,
        )
        return psi, shares

    def __repr__(self) -> str:
        """Describe the model in a line."""
        return f"Regression({self.n:,} rows x {self.d} columns, {self.family}, {self.prior})"


def _design(X: ArrayLike) -> NDArray[Any]:
    array = numeric(X, "X")
    if array.ndim != 2:
        raise InputError(f"X: shape {array.shape} was given; expected two dimensions, rows x columns.")
    if 0 in array.shape:
        raise InputError(f"X: shape {array.shape} was given; at least one row and one column are needed.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return array


def _response(y: ArrayLike, n: int, family: Family) -> NDArray[np.float64]:
    array = numeric(y, "y")
    if array.shape == (n, 1):
        array = array[:, 0]
    if array.shape != (n,):
        raise InputError(f"y: shape {array.shape} was given; X has {n} rows, so ({n},) was expected.")
    response = np.ascontiguousarray(array, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(response))
    if bad.size:
        raise InputError(
            f"y: row {bad[0]} is {response[bad[0]]}; every response must be finite. Drop such rows first."
        )
    huge = np.flatnonzero(np.abs(response) > LARGEST_COLUMN)
    if huge.size:
        raise InputError(
            f"y: row {huge[0]} is {response[huge[0]]:.3g}, whose powers no float64 holds. Rescale the response."
        )
    outside = np.flatnonzero(family.unsupported(response))
    if outside.size:
        i = int(outside[0])
        raise InputError(
            f"y: row {i} is {response[i]:g} ({outside.size} such rows); {family} takes {family.support}."
        )
    return response


def _names(names: Sequence[str] | None, d: int) -> list[str]:
    if isinstance(names, str):
        raise InputError(f"names: {names!r} was given; expected a list with one name for each of the {d} columns.")
    result = [str(name) for name in names] if names is not None else [f"x{j}" for j in range(d)]
    if len(result) != d:
        raise InputError(f"names: {len(result)} were given; X has {d} columns.")
    repeated = sorted({name for name in result if result.count(name) > 1})
    if repeated:
        raise InputError(f"names: {repeated[0]!r} stands for more than one column; names must differ.")
    return result
