"""Models: data, likelihood family and prior, checked and ready to be sampled."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.priors import Prior, each
from tallbayes.sources.arrays import ArraySource, numeric


class Regression:
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
        dictionary from names to priors. None, and a column that the dictionary leaves out, gives
        ``WeaklyInformative()``; `tallbayes.explain` prints what that is for these data.
    offset : array_like or None
        Known part of each row's predictor.
    weights : array_like or None
        Frequency weights: a row of weight 3 counts as three rows.
    names : sequence of str or None
        Names of the columns. None takes those of a data frame, or x0, x1, ...
    """

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
    def n(self) -> int:
        """Number of rows."""
        return self.source.n

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.source.d

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
