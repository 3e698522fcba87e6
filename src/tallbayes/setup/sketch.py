r"""A sketch of every row, a byte for each column, that settles most thinning trials without the row itself.

The bound of a row uses :math:`|x_i \cdot (\theta - \hat\theta)| \le a_i |z|`, which is an equality only along one
direction; in d dimensions the left side is typically smaller by :math:`\sqrt d`, and its fourth power by d^2. So
most trials could have been settled by the inner product alone. The sketch keeps the whitened row
:math:`L^{-1} x_i` rounded to whole multiples q of a step s_i, with :math:`\max_j |q_j| = 127`, and z is rounded to
whole multiples :math:`\zeta` of a unit h when it is multiplied with them. Then

.. math:: \frac{|x_i \cdot (\theta - \hat\theta)|}{a_i} \le b(z) = \frac{s_i}{a_i} \left(h |q \cdot \zeta|
          + \tfrac12 \|z\|_1 + \tfrac{127}2 d h + e |z|\right), \qquad
          \lambda_i \le \psi_i \min\left(b(z)^{k+1} + b(z')^{k+1},\ \tfrac{k+1}2 (b(z)^k + b(z')^k)\, b(z' - z)\right) .

The product of whole numbers is exact, and e is what whitened rows themselves may be off, in steps: with many columns
they are computed in single precision (`lines_off`). For a rise to z' or a fall from z that with the one state is
enough: :math:`|r_i(z)| \le \psi_i b(z)^{k+1}`. Rows lie in an order of their own, similar bounds together,
so that they can be tried in bundles (`setup/bundles.py`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_borrowing, compiled_in_line, compiled_within
from tallbayes.models.base import Model
from tallbayes.models.predictors import Linear
from tallbayes.models.products import RoughProducts, in_single_precision, row_lengths, share_lost
from tallbayes.setup.metric import Metric
from tallbayes.sources.base import Block
from tallbayes.sources.threads import in_threads

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LEVELS = 127.0
FINE_LEVELS, LARGEST_SUM = 32767.0, 2.0**31 - 1.0
"""Of a state, whose entries have 16 bits; and of a sum of products, which has 32."""
SMALLEST = 1e-290
"""Units of a state are larger, unless it is zero or next to it."""
LINE, CACHE_LINE = 16, 64
"""Rows are padded to a multiple of this many bytes; lines of a cache have so many."""
SLICE = 2**16
"""Rows that are put into order by themselves: a copy of so many is all the memory it takes."""
STEPS_OF_BOUNDS = 16.0
"""Bounds count as similar if they are equal to so many steps of a factor of two: to 4 %."""
SLACK = 1.0 + 1e-6
"""Covers the rounding of step and psi, and of the few double-precision operations of the ratio."""
TOO_FAR_OFF = -1.0
"""In place of the step of a row that has to be computed more precisely."""


class Sketch(NamedTuple):
    """Rounded whitened rows, in an order of their own."""

    codes: NDArray[np.int8]
    steps: NDArray[np.float32]
    """s_i / a_i of each row, rounded up; 0 if x_i = 0."""
    rows: NDArray[np.int64]
    """Which row is where."""


def draw_sketch(model: Model, metric: Metric, *, threads: int | None = None) -> Sketch:
    """Return the sketch of all rows, in one pass.

    Parameters
    ----------
    model : Model
        The model.
    metric : Metric
        Coordinates of the sketch.
    threads : int or None
        Threads for the pass.

    Returns
    -------
    Sketch
        d bytes (padded), a single-precision number and a whole one for each row, in the order of the data.
    """
    sketch = empty_sketch(model.n, model.d)
    model.source.reduce(_fill, model.predictors, metric.inverse_root, sketch, threads=threads)
    return sketch


def empty_sketch(n: int, d: int) -> Sketch:
    """Return room for the sketch of n rows."""
    return Sketch(aligned_codes(n, d), np.zeros(n, dtype=np.float32), np.arange(n))


def aligned_codes(n: int, d: int) -> NDArray[np.int8]:
    """Return room for the codes of n rows, aligned so that a row of up to 64 columns is one line of the cache."""
    width = -(-d // LINE) * LINE
    room = np.zeros(n * width + CACHE_LINE, dtype=np.int8)
    first_byte = -room.ctypes.data % CACHE_LINE
    return room[first_byte : first_byte + n * width].reshape(n, width)


def put_in_order(sketch: Sketch, psi: Vector, threads: int | None = None) -> None:
    """Put rows with similar bounds together, in the order of the data among each other: in fixed slices, in threads.

    Rows that are equal have equal bounds, and a bundle of them saves nothing; so bounds are not told apart too finely.
    """

    def within(first: int) -> None:
        some = slice(first, first + SLICE)
        with np.errstate(divide="ignore"):
            steps = np.clip(np.rint(STEPS_OF_BOUNDS * np.log2(psi[some])), -32768, 32767).astype(np.int16)
        order = np.argsort(steps, kind="stable")
        for array in sketch:
            array[some] = array[some][order]

    in_threads(within, range(0, psi.size, SLICE), threads)


def _fill(block: Block, predictors: Linear, inverse_root: Matrix, sketch: Sketch) -> None:
    fill_sketch(sketch, block, inverse_root, predictors.roughly_whitened(block, inverse_root))


def fill_sketch(sketch: Sketch, block: Block, inverse_root: Matrix, white: RoughProducts) -> None:
    """Put the codes and steps of a block's rows, which are given whitened, into their places.

    Rows that single precision leaves too far off are whitened anew.
    """
    rows = slice(block.first, block.first + block.count)
    codes, steps = sketch.codes[rows], sketch.steps[rows]
    round_rows(white, codes, steps)
    again = np.flatnonzero(steps == TOO_FAR_OFF)
    if again.size:
        lines = np.dot(block.X[again], inverse_root.T)
        some_codes, some_steps = codes[again], steps[again]
        round_rows(RoughProducts(lines, row_lengths(lines), np.zeros(1)), some_codes, some_steps)
        codes[again], steps[again] = some_codes, some_steps


def round_rows(white: RoughProducts, codes: NDArray[np.int8], steps: NDArray[np.float32]) -> None:
    """Round whitened rows to whole multiples of a step of their own; those too far off have a mark for a step."""
    lines = white.lines
    largest = np.maximum(np.max(lines, axis=1), -np.min(lines, axis=1)).astype(np.float64)
    _round(lines, largest, white.lengths, white.lost, codes, steps)


@compiled
def _round(
    lines: Matrix,
    largest: Vector,
    lengths: Vector,
    lost: Vector,
    codes: NDArray[np.int8],
    steps: NDArray[np.float32],
) -> None:
    """Put codes and steps of whitened rows; a row of zeros has none.

    Nor has one whose square is no number but 0: its length is 0 to everyone.
    """
    most = lines_off(lines.shape[1]) / LEVELS
    for r in range(lines.shape[0]):
        off = lost[min(r, lost.size - 1)]
        if off > 0.0 and not off <= most * largest[r]:
            steps[r] = TOO_FAR_OFF
        elif lengths[r] > 0.0:
            per_step = LEVELS / largest[r]
            # The length is too large by up to two times what may be lost.
            steps[r] = np.float32(1.0 / (per_step * (lengths[r] - 2.0 * off)) * 1.000001)
            for j in range(lines.shape[1]):
                codes[r, j] = np.int8(np.rint(lines[r, j] * per_step))
        else:
            steps[r] = 0.0


@compiled_borrowing
def lines_off(d: int) -> float:
    """Return the length of what a whitened row may be off by, in its steps.

    In single precision it is a share of a sum of d numbers (`rough_products`), which is at most sqrt(d) times their
    length. Where columns are not too correlated they are about as long as the whitened row, which is at most sqrt(d)
    times its largest entry, 127 steps. Rows that are further off are computed in float64.
    """
    return LEVELS * d * share_lost(d) if in_single_precision(d) else 0.0


@compiled_within
def round_state(z: Vector, free: int, whole: NDArray[np.int16]) -> tuple[float, float]:
    """Round a state to whole multiples of a unit, without its free coordinates, at which codes are zero.

    Returns the unit, and how far the unit times the product with a row's codes may be off from L^-1 x_i . z / s_i:
    half of |z|_1 for the rounding of the row, 127 / 2 units for that of each entry of z, and some of |z| for what
    the row itself is off.
    """
    length, square, largest = 0.0, 0.0, 0.0
    for j in range(free, z.size):
        length += abs(z[j])
        square += z[j] * z[j]
        largest = max(largest, abs(z[j]))
    unit, off = largest / fine_levels(z.size), lines_off(z.size)
    if not unit > SMALLEST:  # multiples of it would not be exact
        return 0.0, (LEVELS + 0.5 + off) * length
    for j in range(free, z.size):
        whole[j] = np.int16(np.rint(z[j] / unit))
    return unit, 0.5 * length + 0.5 * LEVELS * (z.size - free) * unit + off * np.sqrt(square)


@compiled_borrowing
def fine_levels(d: int) -> float:
    """Return the largest multiple of its unit that an entry of a state is rounded to: no product overflows."""
    return min(FINE_LEVELS, np.floor(LARGEST_SUM / (LEVELS * d)))


class Rounding(NamedTuple):
    """What rounding does to any state of length 1."""

    farthest_off: float
    """The most that `round_state` says a product may be off."""
    longest: float
    """The length that it may have then."""


def rounding_of_states(d: int) -> Rounding:
    """Return what rounding does to states of so many coordinates."""
    off = 0.5 * d**0.5 + 0.5 * LEVELS * d / fine_levels(d) + lines_off(d)
    return Rounding(off, 1.0 + 0.5 * d**0.5 / fine_levels(d))


@compiled_in_line
def sketch_product(codes: NDArray[np.int8], i: int, whole: NDArray[np.int16]) -> float:
    """Return q . zeta of row i; zeta is padded with zeros."""
    total = np.int32(0)
    for j in range(whole.size):
        # Whole numbers of 32 bits at every turn: a processor multiplies and adds sixteen pairs of them at once.
        total = np.int32(total + np.int32(np.int32(codes[i, j]) * np.int32(whole[j])))
    return np.float64(total)


@compiled_within
def bound_of_both(here: float, there: float, between: float, order: int) -> float:
    """Return a bound of lambda_i from those of |x_i . (theta - centre)| / a_i at z, z' and z' - z; orders 1 to 3."""
    apart = small_power(here, order + 1) + small_power(there, order + 1)
    return min(apart, 0.5 * (order + 1) * (small_power(here, order) + small_power(there, order)) * between)


@compiled_within
def small_power(x: float, exponent: int) -> float:
    """Return x to a power of a few: as many products take less time than the general function."""
    value = x
    for _ in range(exponent - 1):
        value *= x
    return value
