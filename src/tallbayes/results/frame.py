"""A table of numbers that prints itself with what is to be said of it. Loads pandas."""

from collections.abc import Callable
from html import escape
from typing import Any

import pandas as pd


class SummaryFrame(pd.DataFrame):
    """A data frame that, printed, is followed by what its ``attrs`` say: what is exponentiated, and the trust."""

    @property
    def _constructor(self) -> Callable[..., "SummaryFrame"]:
        return SummaryFrame

    def __str__(self) -> str:
        """Return the whole table, in few digits, and the sentences."""
        return f"{_shortened(self).to_string()}{self._words()}"

    def __repr__(self) -> str:
        """Return the whole table, in few digits, and the sentences."""
        return str(self)

    def _repr_html_(self) -> str:
        return f"{_shortened(self).to_html()}<p>{escape(self._words())}</p>"

    def _words(self) -> str:
        return "".join(f"\n\n{self.attrs[name]}" for name in ("exponentiated", "trust") if name in self.attrs)


def _shortened(frame: Any) -> pd.DataFrame:
    """Return the numbers as they are read: effective draws are whole, others have four digits."""
    plain = pd.DataFrame(frame).astype(object)
    for name in plain.columns:
        form = "{:,.0f}" if str(name).startswith("ess") else "{:.3f}" if name == "r_hat" else "{:.4g}"
        plain[name] = [form.format(v) if isinstance(v, float) else v for v in plain[name]]
    plain.attrs = {}
    return plain
