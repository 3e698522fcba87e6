"""What a user may ask about: the variables of a model, and how they may be set for predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Quantiles of a numeric variable that are kept."""
BOOLEAN = (False, True)
"""Values of a column of booleans, which formulas compute with as 0 and 1."""


@dataclass(frozen=True)
class Variable:
    """What is known of a variable."""

    kind: str
    """"numeric" or "factor"."""
    levels: tuple[Any, ...] = ()
    """Levels of a factor, the reference first; the values of a numeric variable that has only two."""
    mean: float | None = None
    sd: float | None = None
    quantiles: Mapping[float, float] | None = None
    """By probability, those of `LEVELS`."""

    @property
    def boolean(self) -> bool:
        """Whether its values are False and True."""
        return len(self.levels) == 2 and all(isinstance(level, bool) for level in self.levels)

    def label(self, value: Any) -> Any:
        """Return what a value is called that a block has as a number: a factor's level, a boolean, or the number."""
        if self.boolean and value in BOOLEAN:
            return bool(value)
        return self.levels[int(value)] if self.kind == "factor" else float(value)


@dataclass(frozen=True)
class Shift:
    """A setting of a numeric variable: its own value in each row, or one for all rows, plus an amount."""

    amount: float
    start: float | None = None
    """What the amount is added to; None for each row's own value."""
    tiny: bool = False
    """Whether it is half the step of a slope, which splines may follow beyond the ends of their data."""

    def of(self, old: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values of rows, given their own."""
        start = np.asarray(old, dtype=np.float64) if self.start is None else np.full(old.shape, self.start)
        return start + self.amount


class BeyondError(InputError):
    """A value lies outside the data that a spline was learned from."""


Setting = Mapping[str, "float | str | bool | Shift | NDArray[Any]"]
"""What is put in the place of variables: one value for all rows, one for each, or a `Shift`."""


def known(names: Mapping[str, Any] | list[str], name: str, owner: str) -> None:
    """Raise, naming those there are, unless a variable is known."""
    if name not in names:
        every = ", ".join(repr(each) for each in list(names)[:20])
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        raise InputError(f"{owner}: {name!r} is not a variable of the model; it has {every}{more}.")


def column_values(value: Any, old: NDArray[Any], rows: slice, n: int, name: str) -> NDArray[np.float64]:
    """Return a numeric variable's values in some rows of a block, as a setting has them."""
    if isinstance(value, Shift):
        return value.of(old)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError(f"setting: {name!r} is {value!r}; expected a number, or one for each row.") from None
    if array.ndim > 1 or (array.ndim == 1 and array.size != n) or not np.all(np.isfinite(array)):
        raise InputError(
            f"setting: {name!r} has shape {array.shape}, or a value that is not finite; expected a finite number, or "
            f"one for each of {n:,} rows."
        )
    return np.broadcast_to(array if array.ndim == 0 else array[rows], old.shape)
