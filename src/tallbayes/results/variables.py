"""From a model's parameters to the variables of a result, and back."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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


def shown_draws(tree: "DataTree") -> tuple[list[str], Draws]:
    """Return all variables of a result side by side, with their names: chains x draws x names."""
    posterior = tree["posterior"]
    names, parts = [], []
    for output in _outputs(tree):
        values = posterior[output.name].transpose("chain", "draw", ...)
        if output.labels is None:
            names.append(output.name)
            parts.append(np.asarray(values)[:, :, None])
        else:
            labels = [str(name) for name in np.asarray(values[output.dimension])]
            plain = output.name == "beta"
            names.extend(labels if plain else [f"{output.name}: {label}" for label in labels])
            parts.append(np.asarray(values))
    return names, parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def theta_draws(tree: "DataTree") -> Draws:
    """Return the draws of the parameters themselves, as a chain moves them: logarithms of scales."""
    posterior, parts = tree["posterior"], []
    for output in _outputs(tree):
        values: Any = np.asarray(posterior[output.name].transpose("chain", "draw", ...))
        values = values[:, :, None] if output.labels is None else values
        parts.append(np.log(values) if output.log else values)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _outputs(tree: "DataTree") -> list[Output]:
    """Return what the tree says of its variables; a tree of another origin has coefficients only."""
    text = tree.attrs.get("parameters")
    if text is None:
        return [Output("beta", 0, int(tree["posterior"]["beta"].sizes["coefficient"]), ())]
    return [Output(**entry) for entry in json.loads(text)]
