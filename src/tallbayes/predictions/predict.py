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
    Rows,
    ask,
    grid,
    grouping,
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
    groups, settings = grouping("predict", model, by, new_data), grid("predict", model, at)
    rows = Rows(model, new_data, offset, each=not (groups or average))
    asked = ask(tree, model, owner="predict", most=draws, kind=kind, seed=seed, rows=rows)
    if kind == PREDICTIVE and model.family.labels is not None and (average or by or not as_draws):
        raise InputError(
            f"predict: responses of {model.family} are classes, whose numbers have no mean. Predict "
            "probabilities, with kind='expected', or ask for drawn classes of each row, with as_draws=True."
        )
    chains = some_draws("predict", tree, model, draws).shape[0]
    if groups or average:
        labels, values = averages(rows, asked, settings, groups)
        names = outcomes(model.family, values.shape[1])
        if as_draws:
            return as_array(labels, values, chains, names, "group")
        return of_draws(labels, values, probs, names)
    if as_draws:
        return _draws_of_rows(rows, asked, settings, chains)
    return _rows(rows, asked, settings, probs)


def averages(
    rows: Rows, asked: Asked, settings: list[dict[str, Any]], groups: list[str], sample: int | None = None
) -> tuple[list[dict[str, Any]], NDArray[np.float64]]:
    """Return averages over rows by group, for every setting.

    Parameters
    ----------
    rows : Rows
        Which rows.
    asked : Asked
        What to predict.
    settings : list of dict
        What variables are set to.
    groups : list of str
        Variables to group by.
    sample : int or None
        How many of the rows to average over, if they are more.

    Returns
    -------
    list of dict
        What each line is of: values of groups, and of the setting.
    array
        Lines x outcomes x draws.
    """
    labels, values = [], []
    for setting in settings:
        for key, mean in group_means(rows, asked, setting, groups, sample).items():
            labels.append({**dict(zip(groups, key, strict=True)), **setting})
            values.append(mean)
    return labels, np.array(values)


def group_means(
    rows: Rows, asked: Asked, setting: Mapping[str, Any], groups: list[str], sample: int | None = None
) -> dict[tuple[Any, ...], NDArray[np.float64]]:
    """Return the average over the rows of each group, outcomes x draws, in one pass.

    Parameters
    ----------
    rows : Rows
        Which rows.
    asked : Asked
        What to predict.
    setting : mapping
        What variables are set to.
    groups : list of str
        Variables to group by.
    sample : int or None
        How many of the rows to average over, if they are more.

    Returns
    -------
    dict
        By the labels of the group, in the order of their values.
    """
    source = rows.source(setting, groups)
    to_block = getattr(source, "to_block", None)
    about = [rows.model.variables[name] if to_block is None else to_block.variable(name) for name in groups]
    if sample is not None and source.n > sample:
        if asked.kind == PREDICTIVE:
            asked = replace(asked, family=asked.family.of_rows(source.sampled(sample)))
        source = source.subsample(sample)
    found: Sums = source.reduce(sums, asked, len(groups))
    means = found.means()
    if not means:
        raise InputError("predict: every row has weight 0, or no trials, so there is nothing to average over.")
    return {tuple(v.label(value) for v, value in zip(about, key, strict=True)): each for key, each in means.items()}


def _rows(rows: Rows, asked: Asked, settings: list[dict[str, Any]], probs: tuple[float, ...]) -> pd.DataFrame:
    """Return a table with a line for each row and setting."""
    import pandas as pd

    tables = []
    for setting in settings:
        source = rows.source(setting)
        numbers = source.reduce(lines, asked, probs).whole
        count = numbers.shape[1]
        columns: dict[str, Any] = {"row": np.repeat(rows.numbers(source.n), count)}
        columns |= setting
        if count > 1:
            columns["outcome"] = np.tile(outcomes(asked.family, count), numbers.shape[0])
        tables.append(with_numbers(pd.DataFrame(columns), numbers, probs))
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def _draws_of_rows(rows: Rows, asked: Asked, settings: list[dict[str, Any]], chains: int) -> xr.DataArray:
    """Return every draw of every row, if they are not too many."""
    labels: list[dict[str, Any]] = []
    parts = []
    for setting in settings:
        source = rows.source(setting)
        checked_count("predict", source.n * asked.thetas.shape[0] * len(settings), MOST_NUMBERS)
        parts.append(source.reduce(every_draw, asked).whole)
        labels += [{"row": i, **setting} for i in rows.numbers(source.n).tolist()]
    values = np.concatenate(parts)
    if len(settings) > 1:  # a row appears several times: its number is a label, not the dimension's own
        labels = [{("row_number" if key == "row" else key): v for key, v in label.items()} for label in labels]
    return as_array(labels, values, chains, outcomes(asked.family, values.shape[1]), "row")
