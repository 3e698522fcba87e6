r"""Rows of a sketch in bundles: what all rows of a bundle may reject is far less than the sum of their bounds.

A bound :math:`\psi_i |z|^p`, p = k + 1, is attained only where z points along row i, and rows that point elsewhere are
small there. So the rows of a bundle B have a bound together,

.. math:: \sum_{i \in B} \psi_i\, b_i(z)^p \le \Lambda_B |z|^p

with :math:`\Lambda_B` little more than the largest :math:`\psi_i` while B has fewer rows than there are columns. Events
fall on bundles at rate :math:`\Lambda_B |z|^p`, and one of them on row i, which is then read, with probability
:math:`\psi_i b_i(z)^p / (\Lambda_B |z|^p)`, or on none. The proof is in docs/mathematics.md, section 5: with
:math:`v_i = \psi_i^{1/p} s_i q_i / a_i` and their Gram matrix G,

.. math:: \sup_{|z| = 1} \sum_i |v_i \cdot z|^p \le \lambda_{\max}(G),\quad
          \sqrt{\lambda_{\max}(G)\, \lambda_{\max}(G \circ G)},\quad \lambda_{\max}(G \circ G)
          \qquad (p = 2, 3, 4),

and what rounding adds to b_i is added by the triangle inequality of the p-norm.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_sum_in_line, compiled_within
from tallbayes.setup.sketch import SLACK, Rounding, Sketch, rounding_of_states, small_power
from tallbayes.sources.alias import alias_table
from tallbayes.sources.supply import Drawing
from tallbayes.sources.threads import in_threads

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LARGEST = 16
"""Rows of a bundle, at most."""
SIZES = (16, 4, 1)
"""Rows of a bundle, one of which all bundles of a sketch have."""
EVENT_BYTES = 1024
"""An event takes as long as reading so many bytes of codes (`benchmarks/bundles.py`)."""
SAMPLED = 256
"""Bundles by which sizes are compared."""
SLICE = 2**15
"""Rows that a thread describes, or bounds, at a time."""
SCALE, RISES, FALLS = range(3)
"""Entries of a row's facts."""
KEPT, OTHER, LIMIT, MOST_RISES, MOST_FALLS = range(5)
"""Entries of a bundle's line of the table."""


class Bundles(NamedTuple):
    """Rows of a sketch in bundles, as compiled code sees them; empty if there is no sketch."""

    codes: NDArray[np.int8]
    rows: NDArray[np.int64]
    """Which row is where."""
    facts: NDArray[np.float32]
    """For each place psi_i^(1/p) s_i / a_i, rounded up, and how much of psi_i its row can use by rising and falling."""
    table: Matrix
    """For each bundle the two entries of an alias table, Lambda_B, and the largest shares of its rows."""
    size: int
    """Rows of a bundle; the last may have fewer."""

    @property
    def total(self) -> float:
        """The sum of Lambda_B."""
        return float(np.sum(self.table[:, LIMIT]))


def no_bundles() -> Bundles:
    """Return the bundles of a kernel that does without a sketch."""
    codes, facts = np.zeros((0, 0), dtype=np.int8), np.zeros((0, 3), dtype=np.float32)
    return Bundles(codes, np.zeros(0, dtype=np.int64), facts, np.zeros((0, 5)), 1)


def bundled(sketch: Sketch, drawing: Drawing, d: int, order: int, *, threads: int | None = None) -> Bundles:
    """Return the rows of a sketch in bundles of the size that is tried in the least time.

    Parameters
    ----------
    sketch : Sketch
        The rows.
    drawing : Drawing
        Their bounds.
    d : int
        Columns.
    order : int
        Order of the expansion, 1 to 3.
    threads : int or None
        Threads; the bundles do not depend on it.

    Returns
    -------
    Bundles
        The bundles, and a table to draw them from.
    """
    codes, steps, rows = sketch
    assert drawing.psi is not None
    psi, shares, rounding = drawing.psi, drawing.shares, rounding_of_states(d)
    facts = np.empty((rows.size, 3), dtype=np.float32)

    def describe(first: int) -> None:
        some = slice(first, first + SLICE)
        # Rounded up: a single-precision number is off by 6e-8 of itself.
        facts[some, SCALE] = _root(psi[rows[some]], order + 1) * steps[some] * (1.0 + 1e-7)
        facts[some, RISES:] = shares[np.minimum(rows[some], shares.shape[0] - 1)]

    in_threads(describe, range(0, rows.size, SLICE), threads)
    return in_bundles(
        codes, rows, facts, _best_size(codes, facts, order, rounding), order, rounding, threads=threads
    )


def in_bundles(
    codes: NDArray[np.int8],
    rows: NDArray[np.int64],
    facts: NDArray[np.float32],
    size: int,
    order: int,
    rounding: Rounding,
    *,
    threads: int | None = None,
) -> Bundles:
    """Return rows in bundles of a given size."""
    table = np.empty((-(-rows.size // size), 5))

    def bound(first: int) -> None:
        put_limits(codes, facts, size, order, rounding, first, table[first : first + SLICE // size, LIMIT:])

    in_threads(bound, range(0, table.shape[0], SLICE // size), threads)
    table[:, :LIMIT] = alias_table(table[:, LIMIT], threads=threads)
    return Bundles(codes, rows, facts, table, size)


def _root(x: Vector, power: int) -> Vector:
    """Return the root of a power of 2, 3 or 4: each has a function of its own, faster than the general one."""
    return np.cbrt(x) if power == 3 else np.sqrt(x) if power == 2 else np.sqrt(np.sqrt(x))


def _best_size(codes: NDArray[np.int8], facts: NDArray[np.float32], order: int, rounding: Rounding) -> int:
    """Return the size whose events cost least in all, by a sample: larger bundles have fewer events of more rows."""
    n, width = codes.shape
    places = (np.arange(0, n // LARGEST, max(n // LARGEST // SAMPLED, 1)) * LARGEST)[:, None] + np.arange(LARGEST)
    if places.size == 0:
        return 1
    some_codes, some_facts = codes[places.ravel()], facts[places.ravel()]
    costs = []
    for size in SIZES:
        found = np.empty((places.size // size, 3))
        put_limits(some_codes, some_facts, size, order, rounding, 0, found)
        costs.append(float(np.sum(found[:, 0])) * (EVENT_BYTES + size * width))
    return SIZES[int(np.argmin(costs))]


@compiled
def put_limits(
    codes: NDArray[np.int8],
    facts: NDArray[np.float32],
    size: int,
    order: int,
    rounding: Rounding,
    first: int,
    out: Matrix,
) -> None:
    """Put Lambda_B and the largest shares of bundles, from a first one on, into the lines of out."""
    gram, squares, other = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    directions = np.empty((2, size))
    root = 1.0 / (order + 1)
    for b in range(out.shape[0]):
        start = (first + b) * size
        count = min(size, codes.shape[0] - start)
        off, rises, falls = 0.0, 0.0, 0.0
        for r in range(count):
            off += small_power(facts[start + r, SCALE] * rounding.farthest_off, order + 1)
            rises = max(rises, np.float64(facts[start + r, RISES]))
            falls = max(falls, np.float64(facts[start + r, FALLS]))
        largest = _put_gram(codes, facts, start, count, gram)
        along = 1.0
        if order > 1:
            for r in range(count):
                for s in range(count):
                    squares[r, s] = gram[r, s] * gram[r, s]
            along *= largest_eigenvalue(squares, directions, count)
        if order < 3:  # by the fourth power of the matrix, in which signs hardly matter
            _put_square(gram, count, other)
            _put_square(other, count, gram)
            along *= np.sqrt(np.sqrt(largest_eigenvalue(gram, directions, count)))
        if order == 2:
            along = np.sqrt(along)
        # Gram is in units of the largest square of a length, `along` in its power (order + 1) / 2.
        limit = small_power(rounding.longest * np.sqrt(largest) * along**root + off**root, order + 1)
        out[b, 0], out[b, 1], out[b, 2] = SLACK * SLACK * limit, rises, falls


@compiled_within
def _put_gram(codes: NDArray[np.int8], facts: NDArray[np.float32], start: int, count: int, out: Matrix) -> float:
    """Put the products of the vectors v_i of a bundle into out, in units of the largest of them; return that."""
    largest = 0.0
    for r in range(count):
        for s in range(r + 1):
            out[r, s] = (
                _product_of_codes(codes, start + r, start + s) * facts[start + r, SCALE] * facts[start + s, SCALE]
            )
        largest = max(largest, out[r, r])
    for r in range(count):
        for s in range(r + 1):
            out[r, s] = out[s, r] = out[r, s] / largest if largest > 0.0 else 0.0
    return largest


@compiled_within
def _product_of_codes(codes: NDArray[np.int8], i: int, k: int) -> float:
    """Return the product of the codes of two rows."""
    total = np.int32(0)
    for j in range(codes.shape[1]):
        total = np.int32(total + np.int32(np.int32(codes[i, j]) * np.int32(codes[k, j])))
    return np.float64(total)


@compiled_within
def largest_eigenvalue(matrix: Matrix, directions: Matrix, count: int) -> float:
    """Return an upper bound of the largest eigenvalue of a symmetric matrix, and of that without its signs.

    For a matrix without negative entries it is at most max_i (M x)_i / x_i for every positive x (Collatz and Wielandt),
    here after two steps of the power method from the diagonal. Lines of zeros have no part in it.
    """
    x, y, largest = directions[0], directions[1], 0.0
    for i in range(count):
        x[i] = matrix[i, i]
    for _ in range(3):
        largest, scale = 0.0, 0.0
        for i in range(count):
            y[i] = 0.0
            for j in range(count):
                y[i] += abs(matrix[i, j]) * x[j]
            if x[i] > 0.0:
                largest = max(largest, y[i] / x[i])
            scale = max(scale, y[i])
        if scale == 0.0:
            return 0.0
        for i in range(count):
            x[i] = y[i] / scale
    return largest


@compiled_within
def _put_square(matrix: Matrix, count: int, out: Matrix) -> None:
    """Put the square of a symmetric matrix into out."""
    for i in range(count):
        for j in range(i + 1):
            out[i, j] = out[j, i] = _product_of_lines(matrix, i, j, count)


@compiled_sum_in_line
def _product_of_lines(matrix: Matrix, i: int, j: int, count: int) -> float:
    total = 0.0
    for k in range(count):
        total += matrix[i, k] * matrix[j, k]
    return total
