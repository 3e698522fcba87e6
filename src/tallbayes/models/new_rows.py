"""Rows that a regression was not fitted to: checked, and in the order of its columns."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.sources.arrays import ArraySource, design_matrix, per_row
from tallbayes.sources.base import Block, Source
from tallbayes.sources.indexes import refuse_other_order
from tallbayes.sources.profile import refuse_infinite


def for_new_rows(family: Family, *, trials_unknown: bool = False) -> Family:
    """Return the family of a model, from which responses of new rows are drawn; raise if it is made for its rows.

    Parameters
    ----------
    family : Family
        The likelihood.
    trials_unknown : bool
        Whether it had a number of trials for each of the model's rows, which a result does not keep.

    Returns
    -------
    Family
        The same.
    """
    if trials_unknown or family.of_rows(slice(0, 1)) is not family:
        raise InputError(
            f"predict: {type(family).__name__} with trials of each row is made for the model's own rows; responses of "
            "new rows can be drawn if the model has one number of trials for all, or a formula with a column for them, "
            "'p(successes, trials) ~ ...'. Predict kind='expected', the probability of a success."
        )
    return family


def new_rows(
    data: Any, names: list[str], offset: ArrayLike | None, has_offset: bool, owner: str = "new_data"
) -> Source:
    """Return new rows as a source, with responses of zero.

    Parameters
    ----------
    data : array_like or Source
        An array with the model's columns in their order, a frame that has them by name, or a source of rows.
    names : list of str
        The model's columns.
    offset : array_like or None
        Known part of each row's predictor.
    has_offset : bool
        Whether the model was fitted with an offset, so that none must be forgotten.
    owner : str
        What to call the data in error messages.

    Returns
    -------
    Source
        The rows.
    """
    if isinstance(data, Source):
        if list(data.names) != names:
            raise InputError(f"{owner}: a source with columns {data.names} was given; the model has {names}.")
        if offset is not None:
            raise InputError("offset: an offset was given beside a source of rows, which has it in its blocks.")
        return data
    refuse_other_order({owner: data, "offset": offset})
    design = design_matrix(_columns(data, names, owner))
    if design.shape[1] != len(names):
        raise InputError(
            f"{owner}: {counted(design.shape[1], 'column')} were given; the model has {len(names)}: {', '.join(names)}."
        )
    if has_offset and offset is None:
        raise InputError(
            f"{owner}: the model has an offset, and none was given for these rows. Give offset=..., one number for "
            "each row (of an exposure, its logarithm), or 0."
        )
    n = design.shape[0]
    known = per_row(offset, n, "offset", 0.0)
    source = ArraySource(design, np.zeros((n, 1)), np.ones(1), known, names)
    if design.dtype.kind == "f" and not np.all(np.isfinite(design)):
        refuse_infinite(Block(0, design, source.responses, source.weight, known), names, owner)
    return source


def _columns(data: Any, names: list[str], owner: str) -> NDArray[Any] | Any:
    """Return the model's columns of a frame, in their order; anything else as it is."""
    if isinstance(data, dict):
        _refuse_missing(list(data), names, owner)
        rows = max((np.size(data[name]) for name in names), default=1)
        return np.column_stack([np.broadcast_to(np.asarray(data[name]), rows) for name in names])
    columns = getattr(data, "columns", None)
    if columns is None:
        return data
    if hasattr(data, "column_names"):  # an Arrow table, whose columns are arrays
        _refuse_missing(list(data.column_names), names, owner)
        return np.column_stack([np.asarray(data.column(name)) for name in names])
    _refuse_missing([str(column) for column in columns], names, owner)
    by_name = {str(column): column for column in columns}
    return data[[by_name[name] for name in names]]


def _refuse_missing(given: list[str], names: list[str], owner: str) -> None:
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"{owner}: there is no column {missing[0]!r}, which the model has; it has {given[:20]}.")
