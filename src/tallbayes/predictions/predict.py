"""What to expect of rows, and what may come."""

# Annotations stay text, so that `help` shows them as they are written here.
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.errors import InputError
from tallbayes.predictions.asked import (
    EXPECTED,
    PREDICTIVE,
    Asked,
    ask,
    grid,
    grouping,
    label_of,
    model_of,
    some_draws,
)
from tallbayes.predictions.blocks import Sums, checked_count, every_draw, lines, sums
from tallbayes.predictions.tables import as_array, of_draws, outcomes, with_numbers
from tallbayes.results.summary import checked_probs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import xarray as xr
    from numpy.typing import ArrayLike, NDArray
    from xarray import DataTree

PROBS = (0.05, 0.5, 0.95)
DRAWS = 4000
"""Draws that are used unless more are asked for: quantiles then have an error of a few per cent of a standard
deviation."""
MOST_NUMBERS = 200_000_000
"""Numbers, draws x rows, that are returned at most."""


def predict(
    tree: DataTree,
    model: Any = None,
    new_data: Any = None,
    *,
    kind: str = EXPECTED,
    by: str | Sequence[str] | None = None,
    at: Mapping[str, Any] | None = None,
    average: bool = False,
    offset: ArrayLike | None = None,
    probs: Sequence[float] = PROBS,
    draws: int = DRAWS,
    seed: int = 0,
    as_draws: bool = False,
) -> pd.DataFrame | xr.DataArray:
    """Predict rows: what is expected of them, or what may come, with intervals.

    Goes through the rows in blocks: memory does not grow with rows x draws, and streamed data need one pass.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model. None uses what the result itself knows of it, which suffices for new data.
    new_data : array_like or None
        Rows to predict: an array or frame with the model's columns; None for the model's own.
    kind : str
        "expected": the mean of the response (a probability, a rate); "predictive": random responses, with the noise of
        the family; "linear": the linear predictor.
    by : str or sequence of str or None
        Average over the rows of each group: variables that have few values.
    at : mapping or None
        Values to put in the place of variables in every row, before predicting: ``{"hour": [6, 12]}``. Of several
        values every combination is predicted.
    average : bool
        Whether to average over all rows; without it, and without ``by``, every row is predicted.
    offset : array_like or None
        Known part of the predictor of new rows.
    probs : sequence of float
        Quantiles to show.
    draws : int
        How many draws to use at most, spread evenly over all.
    seed : int
        Seed of random responses.
    as_draws : bool
        Whether to return the draws of each prediction, not a table.

    Returns
    -------
    pandas.DataFrame or xarray.DataArray
        A line for each row or group: its mean over draws (``estimate``), standard deviation and quantiles. Or draws:
        (chain, draw, row or group). Rows of weight w count w times in averages.
    """
    probs, model = checked_probs("predict", probs), model_of("predict", tree, model)
    asked = ask(tree, model, owner="predict", most=draws, kind=kind, seed=seed)
    if new_data is not None and kind == PREDICTIVE and model.family.of_rows(slice(0, 1)) is not model.family:
        raise InputError(
            f"predict: {model.family} is made for the model's own rows; responses of new rows can be drawn if the "
            "model has one number of trials for all. Predict kind='expected'."
        )
    if kind == PREDICTIVE and model.family.labels is not None and (average or by or not as_draws):
        raise InputError(
            f"predict: responses of {model.family} are classes, whose numbers have no mean. Predict "
            "probabilities, with kind='expected', or ask for drawn classes of each row, with as_draws=True."
        )
    groups, settings = grouping("predict", model, by), grid("predict", model, at)
    chains = some_draws("predict", tree, model, draws).shape[0]
    if groups or average:
        labels, values = averages(model, asked, settings, groups, new_data=new_data, offset=offset)
        names = outcomes(model.family, values.shape[1])
        if as_draws:
            return as_array(labels, values, chains, names, "group")
        return of_draws(labels, values, probs, names)
    if as_draws:
        return _draws_of_rows(model, asked, settings, chains, new_data=new_data, offset=offset)
    return _rows(model, asked, settings, probs, new_data=new_data, offset=offset)


def averages(
    model: Any, asked: Asked, settings: list[dict[str, Any]], groups: list[str], **rows: Any
) -> tuple[list[dict[str, Any]], NDArray[np.float64]]:
    """Return averages over rows by group, for every setting.

    Parameters
    ----------
    model : Model
        The model.
    asked : Asked
        What to predict.
    settings : list of dict
        What variables are set to.
    groups : list of str
        Variables to group by.
    **rows : Any
        Which rows: ``new_data`` and ``offset``; and a ``sample``, so many of them.

    Returns
    -------
    list of dict
        What each line is of: values of groups, and of the setting.
    array
        Lines x outcomes x draws.
    """
    labels, values = [], []
    for setting in settings:
        for key, mean in group_means(model, asked, setting, groups, **rows).items():
            told = {name: label_of(model, name, value) for name, value in zip(groups, key, strict=True)}
            labels.append({**told, **setting})
            values.append(mean)
    return labels, np.array(values)


def group_means(
    model: Any, asked: Asked, setting: Mapping[str, Any], groups: list[str], **rows: Any
) -> dict[tuple[float, ...], NDArray[np.float64]]:
    """Return the average over the rows of each group, outcomes x draws, in one pass.

    Parameters
    ----------
    model : Model
        The model.
    asked : Asked
        What to predict.
    setting : mapping
        What variables are set to.
    groups : list of str
        Variables to group by.
    **rows : Any
        Which rows: ``new_data`` and ``offset``; and a ``sample``, so many of them.

    Returns
    -------
    dict
        By the values of the group, in their order.
    """
    given, size = rows.pop("new_data", None), rows.pop("sample", None)
    source = model.rows_of(given, setting=setting or None, **_beside(groups), **rows)
    if size is not None and source.n > size:
        asked = replace(asked, family=asked.family.of_rows(source.sampled(size)))
        source = source.subsample(size)
    found: Sums = source.reduce(sums, asked, len(groups))
    return found.means()


def _beside(groups: list[str]) -> dict[str, Any]:
    return {"beside": groups} if groups else {}


def _rows(
    model: Any,
    asked: Asked,
    settings: list[dict[str, Any]],
    probs: tuple[float, ...],
    *,
    new_data: Any,
    offset: ArrayLike | None,
) -> pd.DataFrame:
    """Return a table with a line for each row and setting."""
    import pandas as pd

    tables = []
    for setting in settings:
        source = model.rows_of(new_data, offset=offset, setting=setting or None)
        numbers = source.reduce(lines, asked, probs).whole
        count = numbers.shape[1]
        columns: dict[str, Any] = {"row": np.repeat(np.arange(numbers.shape[0]), count)}
        columns |= setting
        if count > 1:
            columns["outcome"] = np.tile(outcomes(model.family, count), numbers.shape[0])
        tables.append(with_numbers(pd.DataFrame(columns), numbers, probs))
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def _draws_of_rows(
    model: Any,
    asked: Asked,
    settings: list[dict[str, Any]],
    chains: int,
    *,
    new_data: Any,
    offset: ArrayLike | None,
) -> xr.DataArray:
    """Return every draw of every row, if they are not too many."""
    labels: list[dict[str, Any]] = []
    parts = []
    for setting in settings:
        source = model.rows_of(new_data, offset=offset, setting=setting or None)
        checked_count("predict", source.n * asked.thetas.shape[0] * len(settings), MOST_NUMBERS)
        parts.append(source.reduce(every_draw, asked).whole)
        labels += [{"row": i, **setting} for i in range(source.n)]
    values = np.concatenate(parts)
    if len(settings) > 1:  # a row appears several times: its number is a label, not the dimension's own
        labels = [{("row_number" if key == "row" else key): v for key, v in label.items()} for label in labels]
    return as_array(labels, values, chains, outcomes(model.family, values.shape[1]), "row")
