"""Checks of proposals' arguments."""

import math

from tallbayes.errors import InputError


def positive(owner: str, name: str, value: float) -> None:
    """Raise unless the value is a positive, finite number."""
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0.0):
        raise InputError(f"{owner}: {name}={value!r} must be a positive, finite number.")
