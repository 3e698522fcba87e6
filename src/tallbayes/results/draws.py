"""From a model's parameters to the variables of a result, and back."""

import json
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.families.structure import Output

if TYPE_CHECKING:
    from xarray import DataTree

Draws = NDArray[np.float64]
"""Chains x draws x parameters, or some of them."""


def variable(output: Output, theta: Draws) -> tuple[tuple[str, ...], Draws]:
    """Return a variable of a result, its dimensions first, from the draws of all parameters."""
    values = theta[:, :, output.first : output.first + output.count]
    values = np.exp(values) if output.log else values
    if output.labels is None:
        return ("chain", "draw"), values[:, :, 0]
    return ("chain", "draw", output.dimension), values


def shown_names(outputs: Sequence[Output]) -> list[str]:
    """Return what the parameters of a model are called in a result, in the order of `named_draws`."""
    names: list[str] = []
    for output in outputs:
        if output.labels is None:
            names.append(output.name)
        else:
            plain = output.name == "beta"
            names.extend(label if plain else f"{output.name}[{label}]" for label in output.labels)
    return names


def parameter_draws(tree: "DataTree", model: Any) -> Draws:
    """Return the draws of a result as parameter vectors of a model, as a chain moves them: logarithms of scales.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model
        The model, or one restored from the result: something with ``outputs``.

    Returns
    -------
    array
        Chains x draws x parameters, in the order of the model; no copy where there are coefficients alone.
    """
    coefficient_draws(tree)  # says so if there are none
    parts = [_moved(output, _in_order(tree, output)) for output in model.outputs]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def theta_draws(tree: "DataTree", owner: str = "tree") -> Draws:
    """Return the same of the model that the tree itself tells of.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    owner : str
        What an error message begins with.

    Returns
    -------
    array
        Chains x draws x parameters.
    """
    _, draws = coefficient_draws(tree, owner)
    text = tree.attrs.get("parameters")
    if text is None:  # a tree of another origin has coefficients only
        return draws
    outputs = [Output(**entry) for entry in json.loads(text)]
    parts = [draws if output.name == "beta" else _moved(output, _values(tree, output)) for output in outputs]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def coefficient_draws(tree: "DataTree", owner: str = "tree") -> tuple[list[str], Draws]:
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


def named_draws(tree: "DataTree", owner: str = "tree") -> tuple[list[str], Draws]:
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


def _values(tree: "DataTree", output: Output) -> Draws:
    """Return a variable's draws, chains x draws x entries."""
    values = np.asarray(tree["posterior"][output.name].transpose("chain", "draw", ...))
    return values[:, :, None] if output.labels is None else values


def _moved(output: Output, values: Draws) -> Draws:
    """Return the parameters that a variable is made of."""
    return np.log(values) if output.log else values


def _in_order(tree: "DataTree", output: Output) -> Draws:
    """Return a variable's draws with its entries as a model has them; raise if the tree has others."""
    posterior = tree["posterior"]
    found = posterior.data_vars.get(output.name)
    if found is None or (output.labels is None) != (found.ndim == 2):
        raise InputError(
            f"tree: its posterior has {', '.join(map(str, posterior.data_vars))}; the model has {output.name!r}. Give "
            "the model that the result was drawn from."
        )
    values = _values(tree, output)
    if output.labels is None:
        return values
    names, wanted = [str(name) for name in np.asarray(found[output.dimension])], list(output.labels)
    if names == wanted:
        return values
    if sorted(names) != sorted(wanted):
        raise InputError(
            f"tree: its coefficients are {', '.join(names[:20])}; the model has {', '.join(wanted[:20])}. "
            "Give the model that the result was drawn from."
        )
    return values[:, :, [names.index(name) for name in wanted]]
