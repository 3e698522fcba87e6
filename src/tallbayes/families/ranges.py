"""The range of a derivative over an interval, from its values at the ends and at its critical points."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled
from tallbayes.families.curve import covers
from tallbayes.families.remainder import derivative

Vector = NDArray[np.float64]


@compiled
def derivative_range(
    curve: Any, m: int, low: float, high: float, critical: Vector, piece: float
) -> tuple[float, float]:
    """Return the least and largest m-th derivative of g on an interval: end points and critical points.

    Where the curve's critical points are not proved, nothing is known.
    """
    if not covers(curve, low, high):
        return -np.inf, np.inf
    at_low = derivative(curve, low, m, piece)
    at_high = derivative(curve, high, m, piece)
    least = min(at_low, at_high)
    largest = max(at_low, at_high)
    for t in critical:
        if low < t < high:
            value = derivative(curve, t, m, piece)
            least = min(least, value)
            largest = max(largest, value)
    return least, largest
