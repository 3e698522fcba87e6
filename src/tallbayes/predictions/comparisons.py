"""Contrasts and slopes: how what is expected changes with a variable."""

# Annotations stay text, so that `help` shows them as they are written here.
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import is_number
from tallbayes.errors import InputError
from tallbayes.models.variables import BeyondError, Shift, known
from tallbayes.predictions.asked import Asked, Rows, ask, grid, grouping, model_of, some_draws
from tallbayes.predictions.blocks import described, every_draw, tiles
from tallbayes.predictions.predict import DRAWS, MOST_NUMBERS, PROBS, checked_count, group_means
from tallbayes.predictions.tables import as_array, of_draws, outcomes, with_numbers
from tallbayes.results.summary import checked_probs
from tallbayes.sources.base import Block, Source, _in_order
from tallbayes.sources.threads import available_threads, one_blas_thread

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from xarray import DataTree

Array = NDArray[np.float64]

DIFFERENCE, RATIO = "difference", "ratio"
STEP = 1e-4
"""Slopes are central differences over this share of a standard deviation on either side: their error, of the order of
its square, is far below that of any draw."""


class Contrast(NamedTuple):
    """Two settings of a variable, to be compared."""

    label: str
    low: Any
    high: Any
    divisor: float = 1.0


def comparisons(
    tree: DataTree,
    model: Any,
    variable: str | Mapping[str, Any],
    *,
    comparison: str = DIFFERENCE,
    by: str | Sequence[str] | None = None,
    at: Mapping[str, Any] | None = None,
    average: bool = True,
    new_data: Any = None,
    offset: ArrayLike | None = None,
    probs: Sequence[float] = PROBS,
    draws: int = DRAWS,
    as_draws: bool = False,
) -> pd.DataFrame | xr.DataArray:
    """Compare what is expected for different values of a variable, all else as it is in each row.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model. None uses what the result itself knows of it, which suffices for new data.
    variable : str or mapping
        The variable: a factor is compared level by level with its first one, a variable of two values from the smaller
        to the larger one, any other from its value in each row to one more. One in a B-spline, which is not defined
        beyond the data, is compared from its lower to its upper quartile. Or what to compare:
        ``{"hour": (6, 18)}``, ``{"carrier": ["AA", "UA"]}``, a step ``{"hour": 3}``, ``{"hour": "sd"}``,
        ``{"hour": "iqr"}`` (from the lower to the upper quartile), ``{"carrier": "pairwise"}``.
    comparison : str
        "difference", or "ratio"; of averages, the ratio of the averages.
    by : str or sequence of str or None
        Average over the rows of each group: variables that have few values.
    at : mapping or None
        Values to put in the place of other variables in every row; of several values, every combination.
    average : bool
        Whether to average over rows; if not, every row is compared.
    new_data : array_like or None
        Rows to compare; None for the model's own.
    offset : array_like or None
        Known part of the predictor of new rows.
    probs : sequence of float
        Quantiles to show.
    draws : int
        How many draws to use at most, spread evenly over all.
    as_draws : bool
        Whether to return the draws of each comparison, not a table.

    Returns
    -------
    pandas.DataFrame or xarray.DataArray
        A line for each contrast (and group, setting or row), with its mean over draws (``estimate``), standard
        deviation and quantiles. Or draws: (chain, draw, group or row).
    """
    if comparison not in {DIFFERENCE, RATIO}:
        raise InputError(f"comparisons: comparison={comparison!r} is not known; use 'difference' or 'ratio'.")
    model = model_of("comparisons", tree, model)
    name, contrasts = _contrasts(model, variable, comparison)
    question = _Question("comparisons", name, contrasts, comparison, tree, model, draws, average, by, at)
    try:
        return _answer(question, checked_probs("comparisons", probs), as_draws, new_data, offset)
    except BeyondError as error:
        raise InputError(
            f"comparisons: {name!r}, {contrasts[0].label}, leaves in some rows the values that a spline was made for. "
            f"{error} Or compare two values between these: {{{name!r}: 'iqr'}}, {{{name!r}: (low, high)}}."
        ) from None


def slopes(
    tree: DataTree,
    model: Any,
    variable: str,
    *,
    by: str | Sequence[str] | None = None,
    at: Mapping[str, Any] | None = None,
    average: bool = True,
    new_data: Any = None,
    offset: ArrayLike | None = None,
    probs: Sequence[float] = PROBS,
    draws: int = DRAWS,
    as_draws: bool = False,
) -> pd.DataFrame | xr.DataArray:
    """Return the slope of what is expected along a numeric variable, all else as it is in each row.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model. None uses what the result itself knows of it, which suffices for new data.
    variable : str
        The variable.
    by : str or sequence of str or None
        Average over the rows of each group: variables that have few values.
    at : mapping or None
        Values to put in the place of variables in every row, that of the slope itself too; of several values, every
        combination.
    average : bool
        Whether to average over rows; if not, each row has its slope.
    new_data : array_like or None
        Rows; None for the model's own.
    offset : array_like or None
        Known part of the predictor of new rows.
    probs : sequence of float
        Quantiles to show.
    draws : int
        How many draws to use at most, spread evenly over all.
    as_draws : bool
        Whether to return the draws of each slope, not a table.

    Returns
    -------
    pandas.DataFrame or xarray.DataArray
        A line for each group, setting or row, with its mean over draws (``estimate``), standard deviation and
        quantiles. Or draws: (chain, draw, group or row).
    """
    model = model_of("slopes", tree, model)
    if not isinstance(variable, str):
        raise InputError(f"slopes: variable={variable!r} was given; expected the name of one variable.")
    known(model.variables, variable, "slopes")
    about = model.variables[variable]
    if about.kind != "numeric":
        raise InputError(f"slopes: {variable!r} is a factor, which has no slope. Use tb.comparisons.")
    step = STEP * (about.sd or abs(about.mean or 0.0) or 1.0)
    slope = Contrast(f"d/d{variable}", Shift(-step, tiny=True), Shift(step, tiny=True), 2.0 * step)
    question = _Question("slopes", variable, [slope], DIFFERENCE, tree, model, draws, average, by, at)
    return _answer(question, checked_probs("slopes", probs), as_draws, new_data, offset)


# -- what is compared --


def _contrasts(model: Any, variable: Any, comparison: str) -> tuple[str, list[Contrast]]:
    """Return the variable's name and its contrasts."""
    if isinstance(variable, Mapping) and len(variable) == 1:
        name, wish = next(iter(variable.items()))
    elif isinstance(variable, str):
        name, wish = variable, None
    else:
        raise InputError(
            f"comparisons: variable={variable!r} was given; expected the name of a variable, or a dictionary with one "
            "entry, e.g. {'hour': (6, 18)}."
        )
    known(model.variables, name, "comparisons")
    about = model.variables[name]
    sign = "-" if comparison == DIFFERENCE else "/"
    if about.kind == "factor":
        pairs = _pairs_of_levels(name, about.levels, wish)
    elif wish is None and len(about.levels) == 2:
        pairs = [about.levels]
    elif wish is None and name in getattr(getattr(model, "recipe", None), "bounded", ()):
        return name, _numeric_contrast(name, about, "iqr", sign)
    elif wish is None or is_number(wish):
        step = 1.0 if wish is None else float(wish)
        return name, [Contrast(f"+{step:g}", Shift(0.0), Shift(step))]
    else:
        return name, _numeric_contrast(name, about, wish, sign)
    return name, [Contrast(f"{_text(high)} {sign} {_text(low)}", low, high) for low, high in pairs]


def _pairs_of_levels(name: str, levels: tuple[Any, ...], wish: Any) -> list[tuple[Any, Any]]:
    if wish == "pairwise":
        return list(combinations(levels, 2))
    chosen = levels if wish is None or wish == "reference" else wish
    if isinstance(chosen, str) or not isinstance(chosen, Sequence) or len(chosen) < 2:
        raise InputError(f"comparisons: {name!r}: {wish!r} was given; expected 'pairwise' or two levels or more.")
    for level in chosen:
        if level not in levels:
            raise InputError(
                f"comparisons: {name!r} has no level {level!r}; it has {', '.join(map(repr, levels))}."
            )
    named = [levels[levels.index(level)] for level in chosen]  # False and True for 0 and 1 where levels are those
    return [(named[0], level) for level in named[1:]]


def _numeric_contrast(name: str, about: Any, wish: Any, sign: str) -> list[Contrast]:
    if wish == "sd" and about.sd is not None:
        return [Contrast("+1 sd", Shift(-0.5 * about.sd), Shift(0.5 * about.sd))]
    if wish == "iqr" and about.quantiles is not None:
        low, high = about.quantiles[0.25], about.quantiles[0.75]
        return [Contrast(f"{_text(high)} {sign} {_text(low)} (quartiles)", low, high)]
    if not isinstance(wish, str) and np.ndim(wish) == 1 and len(wish) == 2 and all(map(_is_value, wish)):
        low, high = (about.label(value) if about.boolean else float(value) for value in wish)
        return [Contrast(f"{_text(high)} {sign} {_text(low)}", low, high)]
    raise InputError(
        f"comparisons: {name!r}: {wish!r} was given; expected two numbers, a step, 'sd' or 'iqr' (the latter two of a "
        "model whose data are known)."
    )


def _is_value(value: Any) -> bool:
    """Return whether a numeric variable can be set to it: a number, or a boolean."""
    return is_number(value) or isinstance(value, bool | np.bool_)


def _text(value: Any) -> str:
    return f"{value:g}" if is_number(value) else str(value)


# -- answers --


class _Question(NamedTuple):
    owner: str
    name: str
    contrasts: list[Contrast]
    comparison: str
    tree: Any
    model: Any
    draws: int
    average: bool
    by: Any
    at: Any


def _answer(
    question: _Question, probs: tuple[float, ...], as_draws: bool, new_data: Any, offset: ArrayLike | None
) -> Any:
    owner, model = question.owner, question.model
    asked = ask(question.tree, model, owner=owner, most=question.draws)
    groups, settings = grouping(owner, model, question.by, new_data), grid(owner, model, question.at)
    chains = some_draws(owner, question.tree, model, question.draws).shape[0]
    rows = Rows(model, new_data, offset, each=not (groups or question.average))
    if not question.average and not groups:
        return _row_by_row(question, asked, settings, probs, chains if as_draws else 0, rows)
    labels, values = _averaged(question, asked, settings, groups, rows)
    names = outcomes(model.family, values.shape[1])
    return as_array(labels, values, chains, names, "group") if as_draws else of_draws(labels, values, probs, names)


def _settings(question: _Question, settings: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Contrast]]:
    """Yield each setting of the other variables with each contrast, from the value that the setting gives to it."""
    for setting in settings:
        for contrast in question.contrasts:
            fixed = setting.get(question.name)
            if fixed is not None:
                if not isinstance(contrast.low, Shift):
                    raise InputError(
                        f"{question.owner}: at has a value for {question.name!r}, whose values are compared. Leave it "
                        "out."
                    )
                ends = [replace(end, start=_number(fixed, question)) for end in (contrast.low, contrast.high)]
                yield setting, contrast._replace(low=ends[0], high=ends[1])
            else:
                yield setting, contrast


def _number(value: Any, question: _Question) -> float:
    """Return the value that a contrast starts from, as a number."""
    if not is_number(value):
        raise InputError(f"{question.owner}: at has {value!r} for {question.name!r}; expected a number.")
    return float(value)


def _compared(question: _Question, contrast: Contrast, low: Array, high: Array) -> Array:
    if question.comparison == RATIO:
        with np.errstate(divide="ignore", invalid="ignore"):
            return high / low
    return (high - low) / contrast.divisor


def _averaged(
    question: _Question, asked: Asked, settings: list[dict[str, Any]], groups: list[str], rows: Rows
) -> tuple[list[dict[str, Any]], Array]:
    """Compare averages, each of which takes a pass; one that several contrasts need is found once."""
    labels: list[dict[str, Any]] = []
    values: list[Array] = []
    found: dict[str, dict[tuple[Any, ...], Array]] = {}

    def means(setting: dict[str, Any]) -> dict[tuple[Any, ...], Array]:
        key = repr(sorted(setting.items()))
        if key not in found:
            found[key] = group_means(rows, asked, setting, groups)
        return found[key]

    for setting, contrast in _settings(question, settings):
        low = means({**setting, question.name: contrast.low})
        high = means({**setting, question.name: contrast.high})
        for key in low:
            told = dict(zip(groups, key, strict=True))
            labels.append({"variable": question.name, "contrast": contrast.label, **told, **setting})
            values.append(_compared(question, contrast, low[key], high[key]))
    return labels, np.array(values)


def _row_by_row(
    question: _Question,
    asked: Asked,
    settings: list[dict[str, Any]],
    probs: tuple[float, ...],
    chains: int,
    rows: Rows,
) -> Any:
    """Compare every row; with chains, return draws."""
    import pandas as pd

    tables, parts, labels = [], [], []
    for setting, contrast in _settings(question, settings):
        low, high = (rows.source({**setting, question.name: end}) for end in (contrast.low, contrast.high))
        about = {"variable": question.name, "contrast": contrast.label, **setting}
        if chains:
            checked_count(question.owner, low.n * asked.thetas.shape[0], MOST_NUMBERS)
            ends = [source.reduce(every_draw, asked).whole for source in (low, high)]
            parts.append(_compared(question, contrast, *ends))
            labels += [{"row_number": i, **about} for i in rows.numbers(low.n).tolist()]
            continue
        described_rows = partial(_pair_of_blocks, question=question, contrast=contrast, asked=asked, probs=probs)
        numbers = np.concatenate(list(_in_pairs(low, high, described_rows)))
        count = numbers.shape[1]
        frame = pd.DataFrame({"row": np.repeat(rows.numbers(low.n), count), **about})
        if count > 1:
            frame["outcome"] = np.tile(outcomes(question.model.family, count), numbers.shape[0])
        tables.append(with_numbers(frame, numbers, probs))
    if chains:
        values = np.concatenate(parts)
        return as_array(labels, values, chains, outcomes(question.model.family, values.shape[1]), "row")
    return pd.concat(tables, ignore_index=True)


def _in_pairs(low: Source, high: Source, function: Any) -> Iterator[Array]:
    pairs = zip(low.checked_blocks(), high.checked_blocks(), strict=True)
    with one_blas_thread():
        yield from _in_order(pairs, function, available_threads())


def _pair_of_blocks(
    pair: tuple[Block, Block], question: _Question, contrast: Contrast, asked: Asked, probs: tuple[float, ...]
) -> Array:
    low, high = (tiles(block.converted(), asked) for block in pair)
    return np.concatenate(
        [described(_compared(question, contrast, a, b), probs) for (_, a), (_, b) in zip(low, high, strict=True)]
    )
