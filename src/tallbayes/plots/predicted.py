"""Pictures of predictions: along a variable, and beside the responses that were observed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.models.variables import known
from tallbayes.plots.canvas import CHAINS, EXACT, GREY, figure, tidy
from tallbayes.predictions.asked import LINEAR, PREDICTIVE, Asked, Rows, ask, grid, model_of
from tallbayes.predictions.blocks import every_draw
from tallbayes.predictions.predict import averages
from tallbayes.predictions.tables import of_draws
from tallbayes.results.summary import title

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import DataTree

POINTS, ROWS = 25, 2000
"""Values of a numeric variable that are predicted; rows that are averaged over, a sample of all."""
PREDICTIVE_ROWS = 500
"""Rows that single responses are drawn for, a sample of all."""
REPLICATES = 100
"""Sets of responses that are drawn to be compared with those observed."""
PROBS = (0.05, 0.25, 0.75, 0.95)


def plot_predictions(
    tree: "DataTree",
    model: Any,
    variable: str,
    *,
    by: str | None = None,
    at: Mapping[str, Any] | None = None,
    new_data: Any = None,
    kind: str = "expected",
    draws: int = 1000,
) -> "Figure":
    """Draw what is expected against a variable, with bands, on average over rows; or what a single response may be.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model. None uses what the result itself knows of it, with new data.
    variable : str
        The variable: every row is set to each of its values in turn; 25 between the 1 % and the 99 % quantile of a
        numeric one.
    by : str or None
        A second variable of few values: a line for each.
    at : mapping or None
        Values to put in the place of other variables.
    new_data : array_like or None
        Rows to average over, by default the model's own; of more than 2,000 a sample.
    kind : str
        As in `predict`: "expected" or "linear", averages over rows with the uncertainty of the coefficients; or
        "predictive", a single new response of a row taken at random, with the noise of the family.
    draws : int
        How many draws to use at most.

    Returns
    -------
    matplotlib.figure.Figure
        Mean, 50 % and 90 % intervals. Responses of several classes are refused.
    """
    model = model_of("plot_predictions", tree, model)
    known(model.variables, variable, "plot_predictions")
    values = _values(model.variables[variable])
    setting: dict[str, Any] = {**(at or {}), variable: values}
    if by is not None:
        known(model.variables, by, "plot_predictions: by")
        levels = model.variables[by].levels
        if not levels:
            raise InputError(
                f"plot_predictions: by={by!r} has many values; give one with few, or at={{{by!r}: [...]}}."
            )
        setting[by] = list(levels)
    if model.family.labels is not None and kind != LINEAR:
        raise InputError(
            f"plot_predictions: {model.family} has several classes; responses of several classes are not drawn. Use "
            "tb.predict(..., at={...})."
        )
    rows = Rows(model, new_data)
    asked = ask(tree, model, owner="plot_predictions", most=draws, kind=kind, rows=rows)
    settings = grid("plot_predictions", model, setting)
    table = single_responses(rows, asked, settings) if kind == PREDICTIVE else _averages(rows, asked, settings)
    made = figure(6.4, 4.0)
    axes = made.subplots()
    numeric = model.variables[variable].kind == "numeric" and len(values) > 2
    groups = [(None, table)] if by is None else list(table.groupby(by, sort=False))
    for number, (name, part) in enumerate(groups):
        place = (
            part[variable].to_numpy() if numeric else np.arange(len(part)) + 0.12 * (number - (len(groups) - 1) / 2)
        )
        (_band if numeric else _bars)(axes, place, part, CHAINS[number % len(CHAINS)], name)
    if not numeric:
        axes.set_xticks(range(len(values)), [f"{v:g}" if isinstance(v, float) else str(v) for v in values])
    if by is not None:
        axes.legend(title=by, frameon=False, fontsize=9)
    axes.set_xlabel(variable)
    what = "single response" if kind == PREDICTIVE else f"{kind} value"
    axes.set_ylabel(f"{what}, 50 % and 90 % interval")
    tidy(axes)
    return made


def _averages(rows: Rows, asked: Asked, settings: list[dict[str, Any]]) -> Any:
    """Return a table of averages over rows, with their uncertainty."""
    labels, found = averages(rows, asked, settings, [], ROWS)
    if found.shape[1] > 1:
        raise InputError(
            f"plot_predictions: {asked.family} has several predictors for each row, which are not drawn; use "
            "tb.predict(..., at={...})."
        )
    return of_draws(labels, found, PROBS, [])


def single_responses(rows: Rows, asked: Asked, settings: list[dict[str, Any]]) -> Any:
    """Return a table of single new responses: their quantiles over draws and rows together.

    Parameters
    ----------
    rows : Rows
        Which rows one is taken from at random, by their weights.
    asked : Asked
        What to predict: responses.
    settings : list of dict
        What variables are set to.

    Returns
    -------
    pandas.DataFrame
        A line for each setting: the mean of responses, and quantiles.
    """
    import pandas as pd

    lines = []
    for setting in settings:
        source = rows.source(setting)
        size = min(source.n, PREDICTIVE_ROWS)
        sample, chosen = source.subsample(size), source.sampled(size)
        drawn = sample.reduce(every_draw, replace(asked, family=asked.family.of_rows(chosen))).whole[:, 0]
        weight = np.repeat(np.broadcast_to(sample.weight, drawn.shape[0]), drawn.shape[1])
        low_to_high = np.argsort(drawn, axis=None)
        share = np.cumsum(weight[low_to_high]) / weight.sum()
        places = np.minimum(np.searchsorted(share, PROBS), share.size - 1)
        quantiles = drawn.ravel()[low_to_high][places]
        mean = float(np.average(drawn.ravel(), weights=weight))
        lines.append({**setting, "estimate": mean, **dict(zip(map(title, PROBS), quantiles.tolist(), strict=True))})
    return pd.DataFrame(lines)


def plot_ppc(tree: "DataTree", model: Any, *, rows: int = ROWS, seed: int = 0) -> "Figure":
    """Compare observed responses with responses drawn from the model: a posterior predictive check.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model
        The model it was drawn from, with its data.
    rows : int
        Rows that are used, a sample of all.
    seed : int
        Seed of the responses.

    Returns
    -------
    matplotlib.figure.Figure
        The histogram of the observed responses; for each bar, the range that 90 % of a hundred drawn sets of responses
        have, and their mean.
    """
    model = model_of("plot_ppc", tree, model)
    if not hasattr(model, "source"):
        raise InputError(
            "plot_ppc: the model without its data was given; expected the one the result was drawn from."
        )
    own = Rows(model, each=True)
    source = own.source()
    sample = source.subsample(min(rows, source.n))
    asked = ask(tree, model, owner="plot_ppc", most=REPLICATES, kind=PREDICTIVE, seed=seed, rows=own)
    asked = replace(asked, family=asked.family.of_rows(source.sampled(sample.n)))
    drawn = sample.reduce(every_draw, asked).whole[:, 0].T
    observed = sample.responses[:, 0]
    classes = _classes(model)
    edges = _edges(observed, drawn) if classes is None else np.arange(len(classes) + 1) - 0.5
    heights = (
        np.array([np.histogram(np.clip(each, edges[0], edges[-1]), edges)[0] for each in drawn]) / observed.size
    )
    made = figure(6.4, 4.0)
    axes = made.subplots()
    seen = np.histogram(np.clip(observed, edges[0], edges[-1]), edges)[0] / observed.size
    axes.stairs(seen, edges, fill=True, color=GREY, alpha=0.35, label=f"observed ({counted(observed.size, 'row')})")
    middle = 0.5 * (edges[1:] + edges[:-1])
    low, high = np.quantile(heights, [0.05, 0.95], axis=0)
    axes.vlines(middle, low, high, color=EXACT, linewidth=2.0)
    axes.plot(middle, heights.mean(axis=0), "o", color=EXACT, markersize=4, label="drawn: mean and 90 % of sets")
    if classes is not None or (
        edges.size < 12 and np.all(np.diff(edges) == 1.0)
    ):  # a bar for each of a few whole numbers
        axes.set_xticks(middle, classes)
    axes.set_xlabel("response")
    axes.set_ylabel("share of rows")
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    return made


def _classes(model: Any) -> list[str] | None:
    """Return the names of a response's classes: of a family of several, or of text of two levels."""
    recipe = getattr(model, "recipe", None)
    levels = model.family.labels or (None if recipe is None else recipe.response.levels)
    return None if levels is None else [str(level) for level in levels]


def _values(variable: Any) -> list[Any]:
    if variable.levels:
        return list(variable.levels)
    if variable.quantiles is None:
        raise InputError("plot_predictions: the range of the variable is not known; give its values as at={...}.")
    return [float(v) for v in np.linspace(variable.quantiles[0.01], variable.quantiles[0.99], POINTS)]


def _edges(observed: NDArray[np.float64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return borders of bars: one for each whole number if these are few, else thirty; far tails in the last ones."""
    both = np.concatenate([observed, drawn[:10].ravel()])
    low, high = np.quantile(both, [0.005, 0.995])
    if np.all(both == np.round(both)) and high - low < 40:
        return np.arange(np.floor(low) - 0.5, np.ceil(high) + 1.5)
    return np.linspace(low, high, 31) if high > low else np.array([low - 0.5, low + 0.5])


def _band(axes: Any, x: NDArray[Any], part: Any, colour: str, name: Any) -> None:
    axes.fill_between(x, part["5%"], part["95%"], color=colour, alpha=0.18, linewidth=0)
    axes.fill_between(x, part["25%"], part["75%"], color=colour, alpha=0.3, linewidth=0)
    axes.plot(x, part["estimate"], color=colour, linewidth=1.8, label=None if name is None else str(name))


def _bars(axes: Any, x: NDArray[Any], part: Any, colour: str, name: Any) -> None:
    axes.vlines(x, part["5%"], part["95%"], color=colour, linewidth=1.4)
    axes.vlines(x, part["25%"], part["75%"], color=colour, linewidth=4.0)
    axes.plot(x, part["estimate"], "o", color=colour, markersize=5, label=None if name is None else str(name))
