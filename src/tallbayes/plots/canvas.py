"""What all pictures have in common: figures without a window, few lines, colours that can be told apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXACT, GAUSSIAN, GREY = "#2a6f97", "#d1495b", "#6c757d"
CHAINS = ("#2a6f97", "#d1495b", "#edae49", "#52796f", "#7b5ea7", "#8d6346")
"""Colours of chains, in turn."""
COLUMNS = 3
"""Panels beside each other."""


def figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError("Pictures need matplotlib: pip install 'tallbayes[plot]'.") from None
    return Figure(figsize=(width, height), layout="constrained")


def panels(count: int, *, width: float = 4.2, height: float = 2.9) -> tuple["Figure", list[Any]]:
    """Return a figure with so many panels, at most three beside each other, and the panels."""
    across = min(count, COLUMNS)
    down = -(-count // across)
    made = figure(width * across, height * down)
    grid = made.subplots(down, across, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return made, list(grid[:count])


def tidy(axes: Any, *, left: bool = True) -> None:
    """Take away what carries no meaning."""
    for side in ("right", "top") if left else ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    if not left:
        axes.set_yticks([])


def chosen(
    owner: str, names: list[str], wanted: Sequence[str] | None, first: NDArray[Any], count: int
) -> list[int]:
    """Return which parameters to show: those wanted, or the first few of an order.

    Parameters
    ----------
    owner : str
        What an error message begins with.
    names : list of str
        All parameters.
    wanted : sequence of str or None
        Those asked for.
    first : array
        Numbers of all parameters, those to show first at the front.
    count : int
        How many to show.

    Returns
    -------
    list of int
        Their numbers.
    """
    if wanted is None:
        return [int(j) for j in first[:count]]
    asked = [wanted] if isinstance(wanted, str) else list(wanted)
    unknown = [name for name in asked if name not in names]
    if unknown or not asked:
        raise InputError(f"{owner}: names={wanted!r} was given; the parameters are {', '.join(names[:30])}.")
    return [names.index(name) for name in asked]


def in_order(d: int) -> NDArray[np.int64]:
    """Return parameters as they come."""
    return np.arange(d)
