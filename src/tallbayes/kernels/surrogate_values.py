"""The surrogate, less the proposal's G, at one proposal or at a block of them; called by address.

Where the two cancel, as for an expansion of order 2 and a normal proposal, there is nothing to evaluate; where there
are no long tails, no core rows and no tables. What is not needed does not compile.
"""

from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress, compiled_within
from tallbayes.kernels.state import BLOCK
from tallbayes.kernels.target import Terms
from tallbayes.kernels.types import BLOCK_VALUES, TABLE_WALK, VALUE
from tallbayes.setup.exact_prior import add_exact, evaluate_exact
from tallbayes.setup.polynomial import add_cubic, evaluate_one
from tallbayes.setup.tables import draw_from_table, table_excess


def _value(terms: Any, z: Any, scratch: Any) -> Any:
    """Return the value at z."""
    return _polynomial_and_prior(terms, z, scratch)


def _value_with_tails(terms: Any, z: Any, scratch: Any) -> Any:
    """Return the value at z, core rows and tables included."""
    total = _polynomial_and_prior(terms, z, scratch)
    rows, order, remainders, parameters = terms.core
    d = z.size
    at_centre, move, response, pair = np.empty(1), np.empty(1), np.empty(1), np.empty(2)
    for i in range(rows.shape[0]):
        move[0] = 0.0
        for j in range(d):
            move[0] += rows[i, j] * z[j]
        at_centre[0], response[0] = rows[i, d], rows[i, d + 2]
        remainders(parameters, response, at_centre, move, move, order, pair)
        total += rows[i, d + 1] * pair[0]
    return total - table_excess(terms.tables, z)


@compiled_within
def _polynomial_and_prior(terms: Any, z: Any, scratch: Any) -> Any:
    linear, isotropic, quadratic, _, padded = terms.polynomial
    facts, rows, constant, _ = terms.exact
    value = evaluate_one(linear, isotropic, quadratic, padded, z, scratch)
    return value + evaluate_exact(facts, rows, constant, z) if facts.size > 0 else value


def _block_values(terms: Any, z: Any, values: Any, rng: Any) -> None:
    """Put the values at the columns of z into values, with SIMD along the columns."""
    _polynomials_and_priors(terms, z, values)


def _block_values_with_tails(terms: Any, z: Any, values: Any, rng: Any) -> None:
    """Draw the tabulated coordinates of the columns of z, and put the values there, core rows included, into values."""
    tables = terms.tables
    for t in range(tables.axes.size):
        for b in range(BLOCK):
            z[tables.axes[t], b] = draw_from_table(tables, t, rng)
    _polynomials_and_priors(terms, z, values)
    rows, order, remainders, parameters = terms.core
    d = z.shape[0]
    moves, point = np.empty(BLOCK), np.empty(d)
    at_centre, here, there, response, pair = np.empty(1), np.empty(1), np.empty(1), np.empty(1), np.empty(2)
    for i in range(rows.shape[0]):
        for b in range(BLOCK):
            moves[b] = 0.0
        for j in range(d):
            x = rows[i, j]
            for b in range(BLOCK):
                moves[b] += x * z[j, b]
        at_centre[0], response[0] = rows[i, d], rows[i, d + 2]
        weight = rows[i, d + 1]
        for b in range(0, BLOCK, 2):  # the function takes two points at a time
            here[0], there[0] = moves[b], moves[b + 1]
            remainders(parameters, response, at_centre, here, there, order, pair)
            values[b] += weight * pair[0]
            values[b + 1] += weight * pair[1]
    for b in range(BLOCK):
        for j in range(d):
            point[j] = z[j, b]
        values[b] -= table_excess(terms.tables, point)


@compiled_within
def _polynomials_and_priors(terms: Any, z: Any, values: Any) -> None:
    linear, isotropic, quadratic, cubic, _ = terms.polynomial
    facts, rows, constant, _ = terms.exact
    inner = np.empty(BLOCK)
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
        add_exact(facts, rows, constant, z, values)


def _zero(terms: Any, z: Any, scratch: Any) -> Any:
    """Return zero."""
    return 0.0


def _zeros(terms: Any, z: Any, values: Any, rng: Any) -> None:
    """Put zeros into values."""
    for b in range(BLOCK):
        values[b] = 0.0


def _walk_along_tables(terms: Any, drift: Any, scale: Any, z: Any, proposed: Any, rng: Any) -> Any:
    """Walk along tabulated axes, where what was drawn ahead is not normal: the noise is drawn anew.

    Returns what puts back the tables' G, in place of the normal densities' that a walk has put back already.
    """
    axes, correction = terms.tables.axes, 0.0
    for t in range(axes.size):
        j = axes[t]
        correction += 0.5 * (proposed[j] - drift[j]) ** 2
        proposed[j] = z[j] + scale * rng.standard_normal()
        correction -= 0.5 * (proposed[j] - drift[j]) ** 2
    return correction + table_excess(terms.tables, z) - table_excess(terms.tables, proposed)


def _no_walk(terms: Any, drift: Any, scale: Any, z: Any, proposed: Any, rng: Any) -> Any:
    """Stand in where there are no tables."""
    return 0.0


_WALK, _NO_WALK = ByAddress(TABLE_WALK, _walk_along_tables), ByAddress(TABLE_WALK, _no_walk)
_WITH_TAILS = ByAddress(VALUE, _value_with_tails), ByAddress(BLOCK_VALUES, _block_values_with_tails), _WALK
_GENERAL = ByAddress(VALUE, _value), ByAddress(BLOCK_VALUES, _block_values), _NO_WALK
_NOTHING = ByAddress(VALUE, _zero), ByAddress(BLOCK_VALUES, _zeros), _NO_WALK


def evaluators(terms: Terms) -> tuple[Any, Any, Any]:
    """Return the addresses of what evaluates one proposal, a block of them, and walks along tables."""
    tails = terms.core.size or terms.tables.axes.size
    nothing = terms.polynomial.is_zero and not terms.exact.facts.size
    one, block, walk = _WITH_TAILS if tails else _NOTHING if nothing else _GENERAL
    return one.pointer, block.pointer, walk.pointer
