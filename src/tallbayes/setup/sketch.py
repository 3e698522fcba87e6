r"""A sketch of every row, a byte for each column, that settles most thinning trials without the row itself.

The bound of a row uses :math:`|x_i \cdot (\theta - \hat\theta)| \le a_i |z|`, which is an equality only along one
direction; in d dimensions the left side is typically smaller by :math:`\sqrt d`, and its fourth power by d^2. So
most trials could have been settled by the inner product alone. The sketch keeps the whitened row
:math:`L^{-1} x_i` rounded to whole multiples q of a step s_i, with :math:`\max_j |q_j| = 127`. Then

.. math:: \frac{|x_i \cdot (\theta - \hat\theta)|}{a_i} \le b(z) = \frac{s_i}{a_i} \left(|q \cdot z|
          + \tfrac12 \|z\|_1\right), \qquad
          \lambda_i \le \psi_i \min\left(b(z)^{k+1} + b(z')^{k+1},\ (k+1) \max(b(z), b(z'))^k\, b(z' - z)\right) .

A trial with uniform u rejects if :math:`u \bar\lambda_i < \lambda_i`. Where u times the bound exceeds the right
side it cannot, and the row is not read: the decision is the same, only cheaper. Events for a rise to z' or a
fall from z need only the product with that one state: :math:`|r_i(z)| \le \psi_i b(z)^{k+1}`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_sum, compiled_within
from tallbayes.models.base import Model
from tallbayes.models.predictors import Linear
from tallbayes.setup.metric import Metric
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LEVELS = 127.0
LINE, CACHE_LINE = 16, 64
"""Rows are padded to a multiple of this many bytes; lines of a cache have so many."""
SLACK = 1.0 + 1e-6
"""Covers the rounding of step and psi, and of the few double-precision operations of the ratio."""


class Sketch(NamedTuple):
    """Rounded whitened rows; empty if there is no sketch."""

    codes: NDArray[np.int8]
    steps: NDArray[np.float32]
    """s_i / a_i of each row, rounded up; 0 if x_i = 0."""


def no_sketch() -> Sketch:
    """Return the sketch of a kernel that does without."""
    return Sketch(np.zeros((0, 0), dtype=np.int8), np.zeros(0, dtype=np.float32))


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
        d bytes (padded) and a single-precision number for each row.
    """
    sketch = empty_sketch(model.n, model.d)
    model.source.reduce(_fill, model.predictors, metric.inverse_root, sketch, threads=threads)
    return sketch


def empty_sketch(n: int, d: int) -> Sketch:
    """Return room for the sketch of n rows."""
    return Sketch(aligned_codes(n, d), np.zeros(n, dtype=np.float32))


def aligned_codes(n: int, d: int) -> NDArray[np.int8]:
    """Return room for the codes of n rows, aligned so that a row of up to 64 columns is one line of the cache."""
    width = -(-d // LINE) * LINE
    room = np.zeros(n * width + CACHE_LINE, dtype=np.int8)
    first_byte = -room.ctypes.data % CACHE_LINE
    return room[first_byte : first_byte + n * width].reshape(n, width)


def sketch_bytes(n: int, d: int) -> int:
    """Return the memory that a sketch takes."""
    return n * (-(-d // LINE) * LINE + 4)


def _fill(block: Block, predictors: Linear, inverse_root: Matrix, sketch: Sketch) -> None:
    fill_sketch(sketch, block, predictors.whitened(block, inverse_root))


def fill_sketch(sketch: Sketch, block: Block, white: Matrix) -> None:
    """Put the codes and steps of a block's rows, which are given whitened, into their places."""
    rows = slice(block.first, block.first + block.count)
    _round(white, sketch.codes[rows], sketch.steps[rows])


@compiled
def _round(white: Matrix, codes: NDArray[np.int8], steps: NDArray[np.float32]) -> None:
    """Round whitened rows to whole multiples of a step of their own; a row of zeros has none."""
    for r in range(white.shape[0]):
        largest, square = 0.0, 0.0
        for j in range(white.shape[1]):
            largest = max(largest, abs(white[r, j]))
            square += white[r, j] * white[r, j]
        if largest > 0.0:
            per_step = LEVELS / largest
            steps[r] = np.float32(1.0 / (per_step * np.sqrt(square)) * 1.000001)
            for j in range(white.shape[1]):
                codes[r, j] = np.int8(np.rint(white[r, j] * per_step))


@compiled_sum
def sketch_products(codes: NDArray[np.int8], i: int, points: NDArray[np.float32]) -> tuple[float, float, float]:
    """Return q . z, q . z' and q . (z' - z) of row i, in single precision; all three are padded with zeros.

    The third is not the difference of the first two, which would lose the digits of a short step.
    """
    here = np.float32(0.0)
    there = np.float32(0.0)
    between = np.float32(0.0)
    for j in range(points.shape[1]):
        q = np.float32(codes[i, j])
        here += q * points[0, j]
        there += q * points[1, j]
        between += q * points[2, j]
    return np.float64(here), np.float64(there), np.float64(between)


@compiled_sum
def sketch_product(codes: NDArray[np.int8], i: int, v: NDArray[np.float32]) -> float:
    """Return q . v of row i, in single precision; v is padded with zeros."""
    total = np.float32(0.0)
    for j in range(v.size):
        total += np.float32(codes[i, j]) * v[j]
    return np.float64(total)


@compiled
def sketch_error(d: int) -> float:
    """Return e such that a single-precision q . v is off from L^-1 x_i . v / s_i by at most e |v|_1.

    Half for the rounding of the row to q; and, for |q_j| <= 127, (d + 3) 127 units of 2^-24 for that of v to single
    precision, of the d products and of their sum.
    """
    return 0.5 + (d + 3) * LEVELS * 2.0**-24


@compiled
def one_sided_ratio(step: float, product: float, error: float, order: int) -> float:
    """Return an upper bound of |r_i(z)| / psi_i, from the product with z and how far it is off."""
    return SLACK * _power(step * (abs(product) + error), order + 1)


@compiled
def sketch_ratio(step: float, here: float, there: float, between: float, errors: Vector, order: int) -> float:
    """Return an upper bound of lambda_i / psi_i, from the products of z, z' and z' - z and how far they are off."""
    b = step * (abs(here) + errors[0])
    other = step * (abs(there) + errors[1])
    change = step * (abs(between) + errors[2])
    far = max(b, other)
    power = _power(far, order)
    return SLACK * min(_power(b, order + 1) + _power(other, order + 1), (order + 1) * power * change)


@compiled_within
def _power(x: float, exponent: int) -> float:
    """Return x to a power of a few: as many products take less time than the general function."""
    value = x
    for _ in range(exponent - 1):
        value *= x
    return value
