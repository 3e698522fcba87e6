"""Predictions as tables: one line for each row or group, with what it is and what is said of it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.predictions.blocks import described
from tallbayes.results.summary import title

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Array = NDArray[np.float64]

OUTCOME = "outcome"
"""The column that tells the classes of a response apart."""


def outcomes(family: Any, count: int) -> list[Any]:
    """Return what the outcomes of a family are called: classes, or predictors."""
    for names in (family.labels, family.predictor_labels):
        if names is not None and len(names) == count:
            return list(names)
    return list(range(count))


def table(
    labels: list[dict[str, Any]], numbers: Array, probs: tuple[float, ...], names: list[Any]
) -> "pd.DataFrame":
    """Return a table.

    Parameters
    ----------
    labels : list of dict
        What each line is of.
    numbers : array
        Lines x outcomes x (mean, sd, quantiles).
    probs : tuple of float
        Probabilities of the quantiles.
    names : list
        Names of the outcomes; one outcome needs none.

    Returns
    -------
    pandas.DataFrame
        A line for each label, or for each label and outcome.
    """
    import pandas as pd

    count = numbers.shape[1]
    columns: dict[str, Any] = {}
    for key in labels[0] if labels else []:
        columns[key] = [label[key] for label in labels for _ in range(count)]
    if count > 1:
        columns[OUTCOME] = [name for _ in labels for name in names]
    return with_numbers(pd.DataFrame(columns, index=range(len(labels) * count)), numbers, probs)


def with_numbers(frame: "pd.DataFrame", numbers: Array, probs: tuple[float, ...]) -> "pd.DataFrame":
    """Return a table with estimates, standard deviations and quantiles as further columns."""
    flat = numbers.reshape(-1, numbers.shape[-1])
    for k, name in enumerate(["estimate", "sd", *(title(p) for p in probs)]):
        frame[name] = flat[:, k]
    return frame


def of_draws(
    labels: list[dict[str, Any]], draws: Array, probs: tuple[float, ...], names: list[Any]
) -> "pd.DataFrame":
    """Return a table of draws: lines x outcomes x draws."""
    values = np.transpose(draws, (1, 2, 0))  # outcomes x draws x lines
    return table(labels, described(values, probs), probs, names)


def as_array(labels: list[dict[str, Any]], draws: Array, chains: int, names: list[Any], dim: str) -> "xr.DataArray":
    """Return draws with the labels as coordinates.

    Parameters
    ----------
    labels : list of dict
        What each line is of.
    draws : array
        Lines x outcomes x draws, one chain after the other.
    chains : int
        Number of chains.
    names : list
        Names of the outcomes.
    dim : str
        What lines are: "row" or "group".

    Returns
    -------
    xarray.DataArray
        With dimensions (chain, draw, dim), and ``outcome`` where there are several.
    """
    import xarray as xr

    lines, count, size = draws.shape
    values = np.moveaxis(draws.reshape(lines, count, chains, size // chains), (0, 1), (2, 3))
    coordinates: dict[str, Any] = {
        key: (dim, np.array([label[key] for label in labels])) for key in (labels[0] if labels else [])
    }
    dims = ["chain", "draw", dim]
    if count > 1:
        return xr.DataArray(
            values, dims=[*dims, OUTCOME], coords={**coordinates, OUTCOME: names}, name="prediction"
        )
    return xr.DataArray(values[..., 0], dims=dims, coords=coordinates, name="prediction")
