"""Columns of a table as formulas compute with them: numbers, or labels with their codes."""

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Vector = NDArray[np.float64]

LARGEST_WHOLE = 2**53
"""Larger whole numbers are not all float64."""

SMALL_RANGE = 10_000
"""Range of whole numbers as levels up to which they are looked up in a table."""

NUMERIC, LABELS = "numeric", "factor"
"""Kinds of columns."""


class Labels(NamedTuple):
    """A column of labels: for each row the number of one of the values."""

    codes: NDArray[np.int64]
    values: tuple[Any, ...]

    def where(self, values: Sequence[bool]) -> NDArray[np.bool_]:
        """Return for each row what is said of its value."""
        return np.asarray(values, dtype=np.bool_)[self.codes]


Value = Vector | Labels


def kind_of(kind: "pa.DataType", name: str) -> str:
    """Return whether a column of an Arrow type is one of numbers or of labels, or say why it is neither."""
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return NUMERIC
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_duration(inner) or types.is_interval(inner):
        raise InputError(
            f"data: column {name!r} holds lengths of time ({inner}), neither numbers nor labels. Convert it to "
            "numbers, e.g. data[column].dt.total_seconds() / 86400 for days, or to text."
        )
    if types.is_dictionary(kind):
        return LABELS
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_temporal, types.is_null)
    if any(is_kind(kind) for is_kind in text):
        return LABELS
    raise InputError(f"data: column {name!r} has type {kind}; expected numbers, text, categories or dates.")


def is_boolean(table: Any, name: str) -> bool:
    """Return whether a column of a table holds booleans."""
    from pyarrow import types

    return bool(types.is_boolean(table.schema.field(name).type))


def is_missing(array: "pa.Array") -> NDArray[np.bool_] | None:
    """Return which values of a column are missing, null or NaN; None if there are none."""
    import pyarrow.compute as pc
    from pyarrow import types

    floating = types.is_floating(array.type)
    if array.null_count == 0 and not floating:
        return None
    mask = pc.is_null(array, nan_is_null=floating)
    found = np.asarray(mask.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return found if found.any() else None


def load(array: "pa.Array", name: str) -> Value:
    """Return a column without missing values as numbers or labels."""
    import pyarrow as pa
    from pyarrow import types

    if kind_of(array.type, name) == LABELS:
        return _labels(array)
    if types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif types.is_decimal(array.type):
        array = array.cast(pa.float64())
    numbers = array.to_numpy(zero_copy_only=False)
    _refuse_inexact(numbers, name)
    return np.asarray(numbers, dtype=np.float64)


def _refuse_inexact(numbers: NDArray[Any], name: str) -> None:
    wide = numbers.dtype.kind in "iu" and numbers.dtype.itemsize == 8
    if wide and numbers.size and max(-int(numbers.min()), int(numbers.max())) > LARGEST_WHOLE:
        raise InputError(
            f"data: column {name!r} has whole numbers beyond 2^53, which float64 does not tell apart. If they are "
            "identifiers, convert them to text; if they are quantities, rescale them."
        )


def _labels(array: "pa.Array") -> Labels:
    """Return labels by dictionary encoding; dates as text, so that a file can keep them."""
    from pyarrow import types

    if not types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = np.asarray(array.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    return Labels(codes, tuple(label_values(array.dictionary)))


def label_values(values: "pa.Array") -> list[Any]:
    """Return the values of labels; dates and times as text that does not depend on the unit they are counted in."""
    import pyarrow as pa
    from pyarrow import types

    if not types.is_temporal(values.type):
        return list(values.to_pylist())
    zone = types.is_timestamp(values.type) and values.type.tz is not None
    if zone:
        values = values.cast(pa.timestamp(values.type.unit))  # which is that in UTC
    return [None if text is None else time_text(text, zone) for text in values.cast(pa.string()).to_pylist()]


def time_text(text: str, zone: bool = False) -> str:
    """Return a date, time or both in one form: ``2024-01-02``, ``2024-01-02T10:30:00``, with what seconds need.

    Parameters
    ----------
    text : str
        As Arrow, Python and NumPy write them.
    zone : bool
        Whether it is a time in UTC rather than one of no zone.

    Returns
    -------
    str
        The text; a time in UTC ends in Z and always has its hours.
    """
    day, _, time = text.replace("T", " ").partition(" ")
    if not time and ":" in day:
        return day.rstrip("0").rstrip(".") if "." in day else day
    time = time.rstrip("0").rstrip(".") if "." in time else time
    if zone:
        return f"{day}T{time or '00:00:00'}Z"
    return day if time in {"", "00:00:00", "00:00"} else f"{day}T{time}"


def levels_of(value: Value) -> list[Any]:
    """Return the different values of a column, as JSON has them, in any order."""
    if isinstance(value, Labels):
        used = np.flatnonzero(np.bincount(value.codes, minlength=len(value.values)))
        return [plain_level(value.values[j]) for j in used]
    return [plain_level(level) for level in _different(value)]


def _different(value: Vector) -> Vector:
    """Return the different numbers of a column; whole numbers close together are counted, which takes no sorting."""
    if value.size:
        low = value.min()
        if value.max() - low < SMALL_RANGE:
            above = value - low
            whole = above.astype(np.int64)
            if np.array_equal(whole, above):
                return np.flatnonzero(np.bincount(whole)) + low
    return np.unique(value)


def plain_level(level: Any) -> Any:
    """Return a level as text, bool or number; a whole number is an integer, whatever a file made of it."""
    if isinstance(level, bool | str):
        return level
    if isinstance(level, int | float | np.number):
        number = float(level)
        return int(number) if number.is_integer() else number
    if isinstance(level, dt.datetime) and level.tzinfo is not None:
        return time_text(str(level.astimezone(dt.UTC).replace(tzinfo=None)), True)
    return time_text(str(level)) if isinstance(level, dt.date | dt.time | np.datetime64) else str(level)


def in_order(levels: set[Any]) -> list[Any]:
    """Return levels sorted: numbers by size, text by letters, so that no order of rows or categories matters."""
    return sorted(levels, key=lambda level: (isinstance(level, str), level))


def codes_of(value: Value, levels: Sequence[Any]) -> NDArray[np.int64]:
    """Return for each row the number of its level, -1 for one that is not among the levels."""
    place = {level: number for number, level in enumerate(levels)}
    if isinstance(value, Labels):
        numbered = np.array([place.get(plain_level(v), -1) for v in value.values], dtype=np.int64)
        return numbered[value.codes] if numbered.size else np.zeros(0, dtype=np.int64)
    known = [level for level in levels if not isinstance(level, str)]
    if not known:
        return np.full(value.size, -1, dtype=np.int64)
    numbers, places = np.array(known, dtype=np.float64), np.array([place[level] for level in known], dtype=np.int64)
    low, high = float(numbers.min()), float(numbers.max())
    if high - low < SMALL_RANGE and all(isinstance(level, int) for level in known):
        # Whole numbers close together are looked up in a table, which is several times faster than a search.
        table = np.full(int(high - low) + 1, -1, dtype=np.int64)
        table[(numbers - low).astype(np.int64)] = places
        at = np.clip(value - low, 0.0, high - low).astype(np.int64)
        return np.where(at + low == value, table[at], -1)
    order = np.argsort(numbers)
    nearest = order[np.minimum(np.searchsorted(numbers[order], value), numbers.size - 1)]
    return np.where(numbers[nearest] == value, places[nearest], -1)
