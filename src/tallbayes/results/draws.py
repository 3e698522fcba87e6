"""Draws as vectors of a model's parameters."""

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError

if TYPE_CHECKING:
    from xarray import DataTree


def parameter_draws(tree: "DataTree", model: Any) -> NDArray[np.float64]:
    """Return the draws of a result as parameter vectors of a model.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model
        The model, or one restored from the result: something with ``names``.

    Returns
    -------
    array
        Chains x draws x parameters, in the order of the model.
    """
    names, draws = coefficient_draws(tree)
    if names == list(model.names):
        return draws
    missing = [name for name in model.names if name not in names]
    if missing or len(names) != len(model.names):
        raise InputError(
            f"tree: its coefficients are {', '.join(names[:20])}; the model has {', '.join(model.names[:20])}. "
            "Give the model that the result was drawn from."
        )
    return draws[:, :, [names.index(name) for name in model.names]]


def coefficient_draws(tree: "DataTree", owner: str = "tree") -> tuple[list[str], NDArray[np.float64]]:
    """Return the names of coefficients, and their draws, chains x draws x coefficients; no copy is made.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`, or any tree with ``posterior["beta"]``.
    owner : str
        What an error message begins with.

    Returns
    -------
    list of str
        The names.
    array
        The draws.
    """
    try:
        beta = tree["posterior"]["beta"].transpose("chain", "draw", "coefficient")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise InputError(f"{owner}: the tree has no posterior['beta']; give a result of tb.sample.") from None
    return [str(name) for name in np.asarray(beta["coefficient"])], np.asarray(beta)


def named_draws(tree: "DataTree", owner: str = "tree") -> tuple[list[str], NDArray[np.float64]]:
    """Return the names of all parameters, and their draws: coefficients first, then e.g. a scale.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`, or any tree with ``posterior["beta"]``.
    owner : str
        What an error message begins with.

    Returns
    -------
    list of str
        The names; an array's entries are called ``name[label]``.
    array
        Chains x draws x parameters; a copy only if there are parameters beside coefficients.
    """
    names, draws = coefficient_draws(tree, owner)
    others = []
    for name, variable in tree["posterior"].data_vars.items():
        if name == "beta" or not {"chain", "draw"} <= set(variable.dims):
            continue
        values = np.asarray(variable.transpose("chain", "draw", ...), dtype=np.float64)
        others.append(values.reshape(*draws.shape[:2], -1))
        names = [*names, *_labels(str(name), variable)]
    return names, np.concatenate([draws, *others], axis=2) if others else draws


def _labels(name: str, variable: Any) -> list[str]:
    """Return what the entries of a variable are called."""
    inner = [dim for dim in variable.dims if dim not in {"chain", "draw"}]
    if not inner:
        return [name]
    labels = [[str(label) for label in np.asarray(variable[dim])] for dim in inner]
    return [f"{name}[{', '.join(each)}]" for each in product(*labels)]
