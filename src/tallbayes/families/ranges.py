"""The range of a derivative over an interval, from its values at the ends and at its critical points."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_in_line, compiled_within
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
    least, largest = range_at_ends(curve, m, low, high, float(piece))
    for j in range(extremes.shape[1]):
        if low < extremes[0, j] < high:
            value = extremes[1 + piece, j]
            least = min(least, value)
            largest = max(largest, value)
    return least, largest


@compiled_in_line
def range_at_ends(curve: Any, m: int, low: float, high: float, piece: float) -> tuple[float, float]:
    """Return the lesser and the larger m-th derivative of the two ends of an interval; values are chosen, not branches.

    Where the curve's critical points are not proved, nothing is known. If one end is not a number, nor are both.
    """
    at_low, at_high = derivative(curve, low, m, piece), derivative(curve, high, m, piece)
    rising = at_low < at_high
    least = at_low if rising else at_high
    largest = at_high if rising else at_low
    known = covers(curve, low, high)
    undefined = np.isnan(at_low) or np.isnan(at_high)
    least = least if known else -np.inf
    largest = largest if known else np.inf
    return np.nan if undefined and known else least, np.nan if undefined and known else largest
