"""The range of a derivative over an interval, from its values at the ends and at its critical points."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_within
from tallbayes.families.curve import covers, mixes
from tallbayes.families.remainder import derivative

Matrix = NDArray[np.float64]


@compiled_within
def derivative_range(
    curve: Any, m: int, low: float, high: float, extremes: Matrix, piece: float
) -> tuple[float, float]:
    """Return numbers between which the m-th derivative of g lies on an interval.

    They are its least and largest value. Of a mixture of two pieces, they are the mixture of the two pieces'
    ranges, which may be a little wider. ``extremes`` are the family's.
    """
    if not (mixes(curve) and 0.0 < piece < 1.0):
        return range_of_piece(curve, m, low, high, extremes, int(piece))
    least, largest = 0.0, 0.0
    for k in range(2):  # not written out: the function would compile anew for each constant
        share = piece if k == 1 else 1.0 - piece
        one, other = range_of_piece(curve, m, low, high, extremes, k)
        least += share * one
        largest += share * other
    return least, largest


@compiled_within
def range_of_piece(
    curve: Any, m: int, low: float, high: float, extremes: Matrix, piece: int
) -> tuple[float, float]:
    """Return the least and largest m-th derivative of one piece on an interval: end points and critical points.

    Where the curve's critical points are not proved, nothing is known.
    """
    if not covers(curve, low, high):
        return -np.inf, np.inf
    at_low = derivative(curve, low, m, float(piece))
    at_high = derivative(curve, high, m, float(piece))
    least = min(at_low, at_high)
    largest = max(at_low, at_high)
    for j in range(extremes.shape[1]):
        if low < extremes[0, j] < high:
            value = extremes[1 + piece, j]
            least = min(least, value)
            largest = max(largest, value)
    return least, largest
