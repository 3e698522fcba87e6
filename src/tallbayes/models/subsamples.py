"""How many rows are read before all of them are: for a first guess, for a mode, for forecasts."""

import numpy as np

START_ROWS = 20_000
"""Rows from which a starting point is guessed."""
FEW_ROWS = 2048
"""Rows that forecasts are made from."""
SUBSAMPLE, ENOUGH = 20_000, 4
"""Rows of the first subsample, and of how many of its size the data must consist for one to be worth while."""
LARGE, LARGE_TOLERANCE = 5_000_000, 0.1
"""With this many numbers in the design a pass costs more than it gains: a centre this near the mode, on average
over the coefficients and in posterior standard deviations, serves as well."""
MARGIN = 1.25
"""By how much a second subsample is larger than what is expected to save a pass."""


def subsample_sizes(n: int, d: int) -> list[int]:
    """Return the sizes of subsamples to begin with: none, a small one, or also a larger one that saves a pass.

    A subsample of m rows has its mode some sqrt(d n / m) posterior standard deviations from that of all rows, and a
    step with its Hessian leaves sqrt(d / m) of the way: together less than what is tolerated if m is large enough.
    """
    size = max(SUBSAMPLE, 100 * d)
    if n <= ENOUGH * size:
        return []
    larger = int(MARGIN * np.sqrt(d * n) / LARGE_TOLERANCE)
    # A gradient reads each number once; a subsample is copied, and Newton takes a few Hessians of it.
    worth_while = n * d >= LARGE and larger > size and n > max(ENOUGH, d / 2) * larger
    return [size, larger] if worth_while else [size]
