"""What predictions are made of: a model, some of its draws as parameter vectors, and what to predict from them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_count
from tallbayes.errors import InputError
from tallbayes.models import stored
from tallbayes.models.variables import BOOLEAN, known
from tallbayes.results.draws import parameter_draws
from tallbayes.sources.base import Source

if TYPE_CHECKING:
    from xarray import DataTree

EXPECTED, PREDICTIVE, LINEAR = "expected", "predictive", "linear"
KINDS = (EXPECTED, PREDICTIVE, LINEAR)


@dataclass(frozen=True, eq=False)
class Asked:
    """A model and the draws to predict with; small enough to be sent along with every block."""

    family: Any
    predictors: Any
    thetas: NDArray[np.float64]
    """Draws x parameters: one chain after the other."""
    kind: str = EXPECTED
    seed: int = 0


class Rows(NamedTuple):
    """Which rows to predict: those of the model, or new ones."""

    model: Any
    new_data: Any = None
    offset: Any = None
    each: bool = False
    """Whether one by one: equal rows that a formula put together are apart then."""

    def source(self, setting: Mapping[str, Any] | None = None, beside: Sequence[str] = ()) -> Source:
        """Return the rows with some variables set to other values, others told beside their responses."""
        source: Source = self.model.rows_of(
            self.new_data, offset=self.offset, setting=setting or None, beside=beside, **self._each
        )
        return source

    def family(self) -> Any:
        """Return the family that their responses are drawn from."""
        return self.model.family_of(self.new_data, **self._each)

    def numbers(self, n: int) -> NDArray[np.int64]:
        """Return the places of the rows in the data they were given in, from 0 on."""
        numbers = getattr(self.model, "row_numbers", None) if self.new_data is None else None
        return np.arange(n) if numbers is None else numbers

    @property
    def _each(self) -> dict[str, bool]:
        return {"each": self.each} if hasattr(self.model, "recipe") else {}


def model_of(owner: str, tree: "DataTree", model: Any) -> Any:
    """Return the model, or the one that is kept in a result; raise if neither can predict.

    Parameters
    ----------
    owner : str
        What an error message begins with.
    tree : xarray.DataTree
        The result.
    model : Model or None
        The model.

    Returns
    -------
    Any
        Something with ``family``, ``names``, ``variables``, ``predicting`` and ``rows_of``.
    """
    if model is None:
        text = getattr(tree, "attrs", {}).get("model")
        if text is None:
            raise InputError(f"{owner}: model=None was given, and the tree has no model in it. Give the model.")
        if json.loads(text).get("kind") == stored.KIND:
            return stored.restore(text)
        return import_module("tallbayes.formulas").restore(text)
    if not hasattr(model, "rows_of"):
        raise InputError(
            f"{owner}: model is a {type(model).__name__}; expected a regression, e.g. tb.Regression, whose rows can be "
            "predicted."
        )
    return model


def some_draws(owner: str, tree: "DataTree", model: Any, most: int) -> NDArray[np.float64]:
    """Return chains x draws x parameters: all draws, or as many as were asked for, at equal distances.

    Parameters
    ----------
    owner : str
        What an error message begins with.
    tree : xarray.DataTree
        The result.
    model : Model
        The model.
    most : int
        How many draws to use, of all chains together; at least one of each.

    Returns
    -------
    array
        The parameter vectors.
    """
    if not is_count(most, 1):
        raise InputError(f"{owner}: draws={most!r} must be a whole number, 1 or more.")
    draws = parameter_draws(tree, model)
    chains, length, _ = draws.shape
    if length == 0:
        raise InputError(f"{owner}: the tree has no draws.")
    wanted = max(1, most // chains)
    if wanted >= length:
        return draws
    return draws[:, np.linspace(0, length - 1, wanted).round().astype(np.int64)]


def ask(
    tree: "DataTree", model: Any, *, owner: str, most: int, kind: str = EXPECTED, seed: int = 0, rows: Any = None
) -> Asked:
    """Return what to send along with blocks.

    Parameters
    ----------
    tree : xarray.DataTree
        The result.
    model : Model
        The model.
    owner : str
        What an error message begins with.
    most : int
        How many draws to use.
    kind : str
        What to predict.
    seed : int
        Seed of random responses.
    rows : Rows or None
        Which rows responses are drawn of; not needed for anything else.

    Returns
    -------
    Asked
        The question.
    """
    if kind not in KINDS:
        raise InputError(f"{owner}: kind={kind!r} is not known; use one of {', '.join(map(repr, KINDS))}.")
    if not is_count(seed, 0):
        raise InputError(f"{owner}: seed={seed!r} must be a whole number, 0 or more.")
    draws = some_draws(owner, tree, model, most)
    thetas = np.ascontiguousarray(draws.reshape(-1, draws.shape[2]), dtype=np.float64)
    family = model.family if rows is None or kind != PREDICTIVE else rows.family()
    return Asked(family, model.predicting, thetas, kind, int(seed))


def grid(owner: str, model: Any, at: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return every combination of the values that variables are to be set to.

    Parameters
    ----------
    owner : str
        What an error message begins with.
    model : Model
        The model.
    at : mapping or None
        A value, or a list of values, by variable.

    Returns
    -------
    list of dict
        Settings; an empty one if nothing is to be set.
    """
    if at is None:
        return [{}]
    if not isinstance(at, Mapping):
        raise InputError(f"{owner}: at={at!r} was given; expected a dictionary, e.g. {{'x': [0, 1]}}.")
    choices = []
    for name, values in at.items():
        known(model.variables, name, f"{owner}: at")
        several = not isinstance(values, str) and np.ndim(values) > 0
        boolean = model.variables[name].boolean
        each = list(values) if several else [values]
        choices.append([bool(value) if boolean and value in BOOLEAN else value for value in each])
        if not choices[-1]:
            raise InputError(f"{owner}: at has no value for {name!r}.")
    return [dict(zip(at, each, strict=True)) for each in product(*choices)]


def grouping(owner: str, model: Any, by: Any, new_data: Any = None) -> list[str]:
    """Return the variables to group rows by, as a list; raise if one is not known.

    Parameters
    ----------
    owner : str
        What an error message begins with.
    model : Model
        The model.
    by : str or sequence of str or None
        What the user gave.
    new_data : Any
        New rows, if there are any: those of a formula may have further columns to be grouped by.

    Returns
    -------
    list of str
        The variables.
    """
    names = [] if by is None else [by] if isinstance(by, str) else list(by)
    if new_data is None or not hasattr(model, "recipe"):
        for name in names:
            known(model.variables, name, f"{owner}: by")
    return names
