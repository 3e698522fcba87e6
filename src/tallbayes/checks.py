"""Checks of arguments: numbers (Python's or NumPy's, not bool) and parts; and counts in what is said of them."""

import math
from numbers import Integral, Real
from typing import Any

from tallbayes.errors import InputError


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, infinite or NaN perhaps."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_count(value: Any, least: int) -> bool:
    """Return whether a value is a whole number, `least` or more."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def positive(owner: str, name: str, value: Any) -> None:
    """Raise unless the value is a positive, finite number."""
    if not (is_number(value) and math.isfinite(value) and value > 0.0):
        raise InputError(f"{owner}: {name}={value!r} must be a positive, finite number.")


def instance_or_none(owner: str, name: str, value: Any, kinds: tuple[type, ...], example: str) -> None:
    """Raise unless the value is None or one of the kinds."""
    if value is not None and not isinstance(value, kinds):
        raise InputError(f"{owner}: {name}={value!r} was given; expected e.g. {example}, or None.")


def counted(count: int | str, noun: str) -> str:
    """Return a count, or its text, with what is counted: in the singular for one."""
    text = count if isinstance(count, str) else f"{count:,}"
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"
