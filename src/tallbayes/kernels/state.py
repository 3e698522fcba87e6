"""What a chain carries from step to step, and where it writes its draws."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.surrogate.polynomial import WIDTH

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BLOCK = WIDTH
"""Steps whose normal random numbers are drawn at once."""

IDLE = -1.0
"""Value of `pending` between steps."""


class State(NamedTuple):
    """What the next step needs; a chain is a pure function of its state and its random stream."""

    z: Vector
    value: float
    """Surrogate polynomial (plain Metropolis-Hastings: potential) at z."""
    distance: float
    """Norm of z that the bound is a function of."""
    clock: float
    """Exponential time left until the next event."""
    noise: Matrix
    """Normal random numbers, a column for each step of the block; proposals, if they do not depend on z."""
    values: Vector
    """Surrogate polynomial at the columns of noise, if they are proposals."""
    distances: Vector
    """Norms of the columns of noise, if they are proposals."""
    used: int
    """Columns of noise that have been used."""
    proposed: Vector
    proposed_value: float
    proposed_distance: float
    pending: float
    """Rate still to be consumed by the step under way, or IDLE."""
    looked: int
    """Rows looked at in the step under way."""
    violations: int
    """Intensities that exceeded their bound by more than rounding, ever."""
    turn: int = 0
    """Steps since the last walk."""
    exposure: float = 0.0
    """Expected rows of all steps so far: rates of those that were thinned, n for each full pass."""


class Draws(NamedTuple):
    """Where a chunk writes: one entry for each step."""

    z: Matrix
    accepted: NDArray[np.bool_]
    rows_touched: NDArray[np.int64]
    full_pass: NDArray[np.bool_]
