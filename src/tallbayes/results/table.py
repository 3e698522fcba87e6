"""Tables for the terminal."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


def summary_table(frame: "pd.DataFrame") -> "Table":
    """Return a summary as a table for the terminal.

    Parameters
    ----------
    frame : pandas.DataFrame
        What `tallbayes.summary` returned.

    Returns
    -------
    rich.table.Table
        One line for each coefficient.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("\ncoefficient", no_wrap=True)
    for title in map(str, frame.columns):
        two_lines = title.replace("_", "\n") if title.startswith(("ess", "mcse")) else f"\n{title}"
        words = title == "trust"
        table.add_column(two_lines, justify="left" if words else "right", no_wrap=not words)
    for name, values in zip(frame.index, frame.to_numpy(), strict=True):
        cells = [_number(str(title), value) for title, value in zip(frame.columns, values, strict=True)]
        table.add_row(str(name), *cells)
    return table


def facts_table(facts: Iterable[Sequence[str]]) -> "Table":
    """Return names and values in two columns.

    Parameters
    ----------
    facts : iterable of (str, str)
        What to show, in order.

    Returns
    -------
    rich.table.Table
        One line for each fact.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, value in facts:
        table.add_row(name, Text(value))
    return table


def _number(title: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if title.startswith("ess"):
        return f"{value:,.0f}"
    if title.startswith("mcse"):
        return f"{value:.1e}"
    return f"{value:.3f}"
