"""What a chain carries from step to step, what it asks for, and where it writes its draws."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.setup.polynomial import LANES, WIDTH

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BLOCK = WIDTH
"""Steps whose normal random numbers are drawn at once."""

LARGEST_CHUNK = 32768
"""Steps of a chunk, at most: room for so many draws belongs to every chain."""

NOTHING, MORE_ROWS, ALL_ROWS = range(3)
"""What a chain may ask for when a chunk ends: nothing (the draws are full, or the budget is spent), more of the rows
drawn at random, or the change of the log-likelihood between two points, over all rows."""

BETWEEN, THINNING, WAITING = range(3)
"""Stages of a step: none is under way; its rows are being tried; the answer for all rows is awaited."""

BATCH = 32
"""Trials of rows that are made together, so that waits for memory overlap."""

SUSPECTS = 64
"""Intensities above their bound that are kept for a closer look; a chunk ends when there is no room for more."""
ROW, INTENSITY, LIMIT, FAR, FACTS = range(5)
"""Entries of a suspect, before its two states."""

NUMBERS = np.dtype(
    [
        ("value", np.float64),  # surrogate, less the proposal's G, at z
        ("distance", np.float64),  # norm of z that the bound is a function of
        ("clock", np.float64),  # exponential time left until the next event
        ("proposed_value", np.float64),
        ("proposed_distance", np.float64),
        ("correction", np.float64),  # to the log ratio, where the proposal is not reversible for G
        ("pending", np.float64),  # rate still to be consumed by the step under way
        ("answer", np.float64),  # log acceptance ratio over all rows, as the driver found it
        ("potential", np.float64),  # negative log-likelihood at z, if the last step was on all rows; else NaN
        ("proposed_potential", np.float64),
        ("exposure", np.float64),  # expected rows of all steps so far: rates, n for each step on all rows
        ("used", np.int64),  # columns of the noise that have been used
        ("turn", np.int64),  # steps since the last walk
        ("rows", np.int64),  # rows evaluated in the step under way
        ("slot", np.int64),  # supplied rows that have been used
        ("suspects", np.int64),
        ("violations", np.int64),  # intensities that exceeded their bound by more than rounding, ever
        ("stage", np.int64),
        ("work", np.int64),  # rows and steps since the chunk began
    ],
    align=True,
)
"""The scalars of a state."""


class Ahead(NamedTuple):
    """What was drawn ahead, for a block of steps."""

    noise: Matrix
    """A column for each step: normal random numbers, or proposals if they do not depend on z."""
    values: Vector
    """Surrogate, less the proposal's G, at the columns of noise, if they are proposals."""
    distances: Vector
    """Norms of the columns of noise, if they are proposals."""


class Room(NamedTuple):
    """Where a step puts what it computes of rows; nothing that the next step needs, but the suspects."""

    suspects: Matrix
    """A line for each intensity above its bound: row, intensity, limit, distance; both states, less the centre."""
    move: Vector
    """Theta less the centre at z."""
    other: Vector
    """Theta less the centre at the proposal."""
    row: Vector
    """A row of the design, or a candidate."""
    ends: Matrix
    """A row's predictors at the centre, and how far they move to z and to the proposal; a line for each."""
    pair: Vector
    """A row's two remainders."""
    drawn: NDArray[np.int64]
    """Rows of a batch of trials, and the kinds of their events; a line for each trial."""
    chances: Matrix
    """Two numbers of each trial of a batch."""


class State(NamedTuple):
    """All that the next step needs beside the target and the random stream; compiled code changes it in place."""

    z: Vector
    proposed: Vector
    numbers: NDArray[np.void]
    """One record of NUMBERS."""
    ahead: Ahead
    room: Room
    padded: Vector
    """Scratch for the surrogate, zero beyond d."""

    @property
    def suspects(self) -> Matrix:
        """Intensities above their bound, for a closer look."""
        return self.room.suspects

    @property
    def violations(self) -> int:
        """Intensities that exceeded their bound by more than rounding, ever."""
        return int(self.numbers["violations"][0])

    @property
    def exposure(self) -> float:
        """Expected rows of all steps so far."""
        return float(self.numbers["exposure"][0])


def new_state(z: Vector, predictors: int = 1) -> State:
    """Return the state of a chain that is about to start at z, with room for so many predictors of a row."""
    d = z.size
    numbers = np.zeros(1, dtype=NUMBERS).view(np.recarray)
    numbers["used"] = BLOCK
    numbers["potential"] = np.nan
    ahead = Ahead(np.empty((d, BLOCK)), np.empty(BLOCK), np.empty(BLOCK))
    suspects = np.empty((SUSPECTS, FACTS + 2 * d))
    batch = np.empty((BATCH, 2), dtype=np.int64), np.empty((BATCH, 2))
    room = Room(suspects, np.empty(d), np.empty(d), np.empty(d), np.empty((3, predictors)), np.empty(2), *batch)
    return State(z.copy(), np.empty(d), numbers, ahead, room, np.zeros(d + LANES))


DRAW_BYTES = 8 + 1 + 1
"""Of a draw beside its coefficients: rows touched, whether it was accepted, and whether on all rows."""


class Draws(NamedTuple):
    """Where a chunk writes: one entry for each step."""

    z: Matrix
    accepted: NDArray[np.bool_]
    rows_touched: NDArray[np.int64]
    full_pass: NDArray[np.bool_]


def empty_draws(steps: int, d: int) -> Draws:
    """Return room for the draws of some steps."""
    return Draws(
        np.empty((steps, d)),
        np.empty(steps, dtype=np.bool_),
        np.empty(steps, dtype=np.int64),
        np.empty(steps, dtype=np.bool_),
    )


def after_draws(draws: Draws, steps: int) -> Draws:
    """Return what room is left after some steps."""
    return Draws(draws.z[steps:], draws.accepted[steps:], draws.rows_touched[steps:], draws.full_pass[steps:])


def first_draws(draws: Draws, steps: int) -> Draws:
    """Return room for fewer steps."""
    return Draws(draws.z[:steps], draws.accepted[:steps], draws.rows_touched[:steps], draws.full_pass[:steps])
