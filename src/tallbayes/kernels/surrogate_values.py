"""The surrogate, less the proposal's G, at one proposal or at a block of them; called by address.

Where the two cancel, as for an expansion of order 2 and a normal proposal, there is nothing to evaluate; where there
are no long tails, no core rows and no tables. What is not needed does not compile.
"""

from functools import partial
from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled, compiled_fused, compiled_within, compiled_within_with_arrays
from tallbayes.kernels.addressed import (
    CORE_PARAMETERS,
    CORE_ROWS,
    CUBIC,
    EXACT_CONSTANT,
    EXACT_FACTS,
    EXACT_ROWS,
    ISOTROPIC,
    LINEAR,
    PADDED,
    PRIOR_ISOTROPIC,
    PRIOR_LINEAR,
    PRIOR_QUADRATIC,
    QUADRATIC,
    TABLE_FACTS,
    TABLE_LINES,
)
from tallbayes.kernels.look_ahead import propose_block, put_distances
from tallbayes.kernels.state import BLOCK
from tallbayes.kernels.target import Terms
from tallbayes.kernels.types import LOOK_AHEAD, TABLE_WALK, VALUE
from tallbayes.setup.core import PREDICTOR, RESPONSE, TAYLOR, WEIGHT
from tallbayes.setup.exact_prior import add_exact, evaluate_exact
from tallbayes.setup.polynomial import add_cubic, evaluate_one
from tallbayes.setup.tables import AXIS, draw_from_table, table_excess
from tallbayes.sources.memory import matrix_at, vector_at


def _value(terms: Any, z: Any, scratch: Any) -> Any:
    """Return the value at z."""
    return _polynomial_and_prior(terms, z, scratch)


def _value_with_tails(terms: Any, z: Any, scratch: Any) -> Any:
    """Return the value at z, core rows and tables included."""
    total = _polynomial_and_prior(terms, z, scratch)
    places, _, jets = terms
    rows, parameters = matrix_at(places[CORE_ROWS]), vector_at(places[CORE_PARAMETERS])
    d = z.size
    moves = np.empty(BLOCK)
    eta, responses, out = np.empty((1, BLOCK)), np.empty((BLOCK, 1)), np.empty((1, BLOCK))
    for first in range(0, rows.shape[0], BLOCK):
        some = rows[first : min(first + BLOCK, rows.shape[0])]
        for i in range(BLOCK):
            row = some[
                min(i, some.shape[0] - 1)
            ]  # the last one again, which is not counted, where there are no more
            moves[i] = _product(row, z)
            eta[0, i], responses[i, 0] = row[d + PREDICTOR] + moves[i], row[d + RESPONSE]
        jets(parameters, responses, eta, 0, 0, False, out)
        for i in range(some.shape[0]):
            total += some[i, d + WEIGHT] * (out[0, i] - _expansion(some, i, d + TAYLOR, moves[i]))
    return total - table_excess(matrix_at(places[TABLE_LINES]), matrix_at(places[TABLE_FACTS]), z)


@compiled_fused
def _product(row: Any, z: Any) -> float:
    """Return the product of a row's first entries with z."""
    total = 0.0
    for j in range(z.size):
        total += row[j] * z[j]
    return total


@compiled_fused
def _expansion(rows: Any, i: int, first: int, move: float) -> float:
    """Return the expansion of a core row."""
    return rows[i, first] + move * (rows[i, first + 1] + move * (rows[i, first + 2] + move * rows[i, first + 3]))


@compiled_within
def _polynomial_and_prior(terms: Any, z: Any, scratch: Any) -> Any:
    places, numbers, _ = terms
    linear, quadratic, padded = vector_at(places[LINEAR]), matrix_at(places[QUADRATIC]), vector_at(places[PADDED])
    facts, rows = matrix_at(places[EXACT_FACTS]), matrix_at(places[EXACT_ROWS])
    value = evaluate_one(linear, numbers[ISOTROPIC], quadratic, padded, z, scratch)
    return value + evaluate_exact(facts, rows, numbers[EXACT_CONSTANT], z) if facts.size > 0 else value


@compiled
def prior_value(terms: Any, z: Any, scratch: Any) -> Any:
    """Return the priors, less the proposal's G, at z."""
    places, numbers, _ = terms
    linear, quadratic = vector_at(places[PRIOR_LINEAR]), matrix_at(places[PRIOR_QUADRATIC])
    facts, rows = matrix_at(places[EXACT_FACTS]), matrix_at(places[EXACT_ROWS])
    value = evaluate_one(linear, numbers[PRIOR_ISOTROPIC], quadratic, linear[:0], z, scratch)
    if facts.size > 0:
        value += evaluate_exact(facts, rows, numbers[EXACT_CONSTANT], z)
    return value - table_excess(matrix_at(places[TABLE_LINES]), matrix_at(places[TABLE_FACTS]), z)


def _look_ahead(terms: Any, whitening: Any, bound: Any, move: Any, ahead: Any, rng: Any) -> None:
    """Draw a block of noise; where proposals do not depend on the state, make them, with value and distance."""
    if propose_block(move, ahead, rng):
        _polynomials_and_priors(terms, ahead.noise, ahead.values)
        put_distances(whitening, bound, ahead)


def _look_ahead_with_tails(terms: Any, whitening: Any, bound: Any, move: Any, ahead: Any, rng: Any) -> None:
    """Do the same, core rows and tables included."""
    if propose_block(move, ahead, rng):
        _block_values_with_tails(terms, ahead.noise, ahead.values, rng)
        put_distances(whitening, bound, ahead)


@compiled_within_with_arrays
def _block_values_with_tails(terms: Any, z: Any, values: Any, rng: Any) -> None:
    """Draw the tabulated coordinates of the columns of z, and put the values there, core rows included, into values."""
    places, _, jets = terms
    lines, facts = matrix_at(places[TABLE_LINES]), matrix_at(places[TABLE_FACTS])
    for t in range(facts.shape[0]):
        axis = int(facts[t, AXIS])
        for b in range(BLOCK):
            z[axis, b] = draw_from_table(lines, facts, t, rng)
    _polynomials_and_priors(terms, z, values)
    rows, parameters = matrix_at(places[CORE_ROWS]), vector_at(places[CORE_PARAMETERS])
    d = z.shape[0]
    moves, point = np.empty(BLOCK), np.empty(d)
    eta, responses, out = np.empty((1, BLOCK)), np.empty((BLOCK, 1)), np.empty((1, BLOCK))
    for i in range(rows.shape[0]):
        _put_moves(rows[i], z, moves)
        for b in range(BLOCK):
            responses[b, 0] = rows[i, d + RESPONSE]
            eta[0, b] = rows[i, d + PREDICTOR] + moves[b]
        jets(parameters, responses, eta, 0, 0, False, out)
        weight = rows[i, d + WEIGHT]
        for b in range(BLOCK):
            values[b] += weight * (out[0, b] - _expansion(rows, i, d + TAYLOR, moves[b]))
    for b in range(BLOCK):
        for j in range(d):
            point[j] = z[j, b]
        values[b] -= table_excess(lines, facts, point)


@compiled_fused
def _put_moves(row: Any, z: Any, moves: Any) -> None:
    """Put the products of a row with the columns of z into moves, two lines of z at a time: memory is what costs."""
    d = z.shape[0]
    odd = d % 2
    for b in range(BLOCK):
        moves[b] = row[0] * z[0, b] if odd else 0.0
    for j in range(odd, d, 2):
        one, other = row[j], row[j + 1]
        for b in range(BLOCK):
            moves[b] += one * z[j, b] + other * z[j + 1, b]


@compiled_within_with_arrays
def _polynomials_and_priors(terms: Any, z: Any, values: Any) -> None:
    """Put the values at the columns of z into values, with SIMD along the columns."""
    places, numbers, _ = terms
    linear, quadratic, cubic = vector_at(places[LINEAR]), matrix_at(places[QUADRATIC]), vector_at(places[CUBIC])
    facts, rows = matrix_at(places[EXACT_FACTS]), matrix_at(places[EXACT_ROWS])
    isotropic, inner = numbers[ISOTROPIC], np.empty(BLOCK)
    for b in range(BLOCK):
        values[b] = 0.0
    for i in range(z.shape[0]):
        for b in range(BLOCK):
            inner[b] = linear[i] + 0.5 * isotropic * z[i, b]
        if quadratic.size > 0:
            for j in range(z.shape[0]):
                for b in range(BLOCK):
                    inner[b] += 0.5 * quadratic[i, j] * z[j, b]
        for b in range(BLOCK):
            values[b] += z[i, b] * inner[b]
    if cubic.size > 0:
        add_cubic(cubic, z, inner, values)
    if facts.size > 0:
        add_exact(facts, rows, numbers[EXACT_CONSTANT], z, values)


def _zero(terms: Any, z: Any, scratch: Any) -> Any:
    """Return zero."""
    return 0.0


def _look_ahead_at_nothing(terms: Any, whitening: Any, bound: Any, move: Any, ahead: Any, rng: Any) -> None:
    """Do the same where there is nothing to evaluate."""
    if propose_block(move, ahead, rng):
        for b in range(BLOCK):
            ahead.values[b] = 0.0
        put_distances(whitening, bound, ahead)


def _walk_along_tables(terms: Any, drift: Any, scale: Any, z: Any, proposed: Any, rng: Any) -> Any:
    """Walk along tabulated axes, where what was drawn ahead is not normal: the noise is drawn anew.

    Returns what puts back the tables' G, in place of the normal densities' that a walk has put back already.
    """
    lines, facts = matrix_at(terms.places[TABLE_LINES]), matrix_at(terms.places[TABLE_FACTS])
    correction = 0.0
    for t in range(facts.shape[0]):
        j = int(facts[t, AXIS])
        correction += 0.5 * (proposed[j] - drift[j]) ** 2
        proposed[j] = z[j] + scale * rng.standard_normal()
        correction -= 0.5 * (proposed[j] - drift[j]) ** 2
    return correction + table_excess(lines, facts, z) - table_excess(lines, facts, proposed)


def _no_walk(terms: Any, drift: Any, scale: Any, z: Any, proposed: Any, rng: Any) -> Any:
    """Stand in where there are no tables."""
    return 0.0


_borrowing = partial(ByAddress, borrowing=True)
_WALK, _NO_WALK = _borrowing(TABLE_WALK, _walk_along_tables), _borrowing(TABLE_WALK, _no_walk)
_WITH_TAILS = ByAddress(VALUE, _value_with_tails), _borrowing(LOOK_AHEAD, _look_ahead_with_tails), _WALK
_GENERAL = _borrowing(VALUE, _value), _borrowing(LOOK_AHEAD, _look_ahead), _NO_WALK
_NOTHING = _borrowing(VALUE, _zero), _borrowing(LOOK_AHEAD, _look_ahead_at_nothing), _NO_WALK


def evaluators(terms: Terms) -> tuple[Any, Any, Any]:
    """Return the addresses of what evaluates one proposal, makes a block of them, and walks along tables."""
    tails = terms.core.size or terms.tables.axes.size
    nothing = terms.polynomial.is_zero and not terms.exact.facts.size
    one, ahead, walk = _WITH_TAILS if tails else _NOTHING if nothing else _GENERAL
    return one.pointer, ahead.pointer, walk.pointer
