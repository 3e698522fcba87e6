r"""A sketch of every row, a byte for each column, that settles most thinning trials without the row itself.

The bound of a row uses :math:`|x_i \cdot (\theta - \hat\theta)| \le a_i |z|`, which is an equality only along one
direction; in d dimensions the left side is typically smaller by :math:`\sqrt d`, and its fourth power by d^2. So
most trials could have been settled by the inner product alone. The sketch keeps the whitened row
:math:`L^{-1} x_i` rounded to whole multiples q of a step s_i, with :math:`\max_j |q_j| = 127`. Then

.. math:: \frac{|x_i \cdot (\theta - \hat\theta)|}{a_i} \le b(z) = \frac{s_i}{a_i} \left(|q \cdot z|
          + \tfrac12 \|z\|_1\right), \qquad
          \lambda_i \le \psi_i \min\left(b(z)^{k+1} + b(z')^{k+1},\ (k+1) \max(b(z), b(z'))^k\, b(z' - z)\right) .

A trial with uniform u rejects if :math:`u \bar\lambda_i < \lambda_i`. Where u times the bound exceeds the right
side it cannot, and the row is not looked at: the decision is the same, only cheaper. Events for a rise to z' or a
fall from z need only the product with that one state: :math:`|r_i(z)| \le \psi_i b(z)^{k+1}`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_sum
from tallbayes.models import Model
from tallbayes.sources.rows import Rows
from tallbayes.sources.sums import TILE, load_tile
from tallbayes.sources.whitened import whiten_tile
from tallbayes.surrogate.expansion import Whitening

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LEVELS = 127.0
LINE, CACHE_LINE = 16, 64
"""Rows are padded to a multiple of this many bytes; lines of a cache have so many."""
STEP_FACT = 2
"""Column of `Sketch.facts` with the step."""
SLACK = 1.0 + 1e-6
"""Covers the rounding of step and psi, and of the few double-precision operations of the ratio."""


class Sketch(NamedTuple):
    """Rounded whitened rows; empty if there is no sketch."""

    codes: NDArray[np.int8]
    facts: NDArray[np.float32]
    """What else a trial needs of a row, side by side: its two shares, and s_i / a_i, rounded up (0 if x_i = 0)."""


def no_sketch() -> Sketch:
    """Return the sketch of a kernel that does without."""
    return Sketch(np.zeros((0, 0), dtype=np.int8), np.zeros((0, 4), dtype=np.float32))


def draw_sketch(
    model: Model, whitening: Whitening, shares: NDArray[np.float32], *, threads: int | None = None
) -> Sketch:
    """Return the sketch of all rows, in one pass.

    Parameters
    ----------
    model : Model
        The model.
    whitening : Whitening
        Coordinates of the sketch.
    shares : ndarray
        Shares of the rows' bounds, a line for each row or one for all.
    threads : int or None
        Threads for the pass.

    Returns
    -------
    Sketch
        d bytes (padded) and four single-precision numbers for each row.
    """
    width = -(-model.d // LINE) * LINE
    # Aligned, so that a row of up to 64 columns is one line of the cache.
    room = np.zeros(model.n * width + CACHE_LINE, dtype=np.int8)
    first_byte = -room.ctypes.data % CACHE_LINE
    codes = room[first_byte : first_byte + model.n * width].reshape(model.n, width)
    facts = np.zeros((model.n, 4), dtype=np.float32)
    facts[:, :2] = shares
    model.source.map_parts(
        lambda first, last: _fill(model.source.rows, whitening.inverse_root, first, last, codes, facts), threads
    )
    return Sketch(codes, facts)


@compiled
def _fill(
    rows: Rows,
    inverse_root: Matrix,
    first: int,
    last: int,
    codes: NDArray[np.int8],
    facts: NDArray[np.float32],
) -> None:
    X = rows.X
    d = inverse_root.shape[0]
    tile, white = np.empty((d, TILE)), np.empty((d, TILE))
    square, largest = np.empty(TILE), np.empty(TILE)
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        load_tile(X, start, count, tile)
        whiten_tile(tile, count, inverse_root, white)
        square[:count] = 0.0
        largest[:count] = 0.0
        for j in range(d):
            for r in range(count):
                square[r] += white[j, r] * white[j, r]
                largest[r] = max(largest[r], abs(white[j, r]))
        for r in range(count):
            if largest[r] > 0.0:
                unit = largest[r] / LEVELS
                facts[start + r, STEP_FACT] = np.float32(unit / np.sqrt(square[r]) * 1.000001)
                for j in range(d):
                    codes[start + r, j] = np.int8(np.rint(white[j, r] / unit))


@compiled_sum
def sketch_products(
    codes: NDArray[np.int8],
    i: int,
    z: NDArray[np.float32],
    other: NDArray[np.float32],
    change: NDArray[np.float32],
) -> tuple[float, float, float]:
    """Return q . z, q . z' and q . (z' - z) of row i, in single precision; all three are padded with zeros.

    The third is not the difference of the first two, which would lose the digits of a short step.
    """
    here = np.float32(0.0)
    there = np.float32(0.0)
    between = np.float32(0.0)
    for j in range(z.size):
        q = np.float32(codes[i, j])
        here += q * z[j]
        there += q * other[j]
        between += q * change[j]
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
    return SLACK * (step * (abs(product) + error)) ** (order + 1)


@compiled
def sketch_ratio(
    step: float,
    here: float,
    there: float,
    between: float,
    error: float,
    other_error: float,
    change_error: float,
    order: int,
) -> float:
    """Return an upper bound of lambda_i / psi_i, from the products of z, z' and z' - z and how far they are off."""
    b = step * (abs(here) + error)
    other = step * (abs(there) + other_error)
    change = step * (abs(between) + change_error)
    far = max(b, other)
    power = far**order
    return SLACK * min(b ** (order + 1) + other ** (order + 1), (order + 1) * power * change)
