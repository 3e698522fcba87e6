"""The surrogate, less the proposal's G, at one proposal or at a block of them; called by address.

Where the two cancel, as for an expansion of order 2 and a normal proposal, there is nothing to evaluate, and what would
evaluate it does not compile.
"""

from typing import Any

import numpy as np

from tallbayes.compiled import ByAddress
from tallbayes.kernels.state import BLOCK
from tallbayes.kernels.types import BLOCK_VALUES, VALUE
from tallbayes.setup.exact_prior import ExactPrior, add_exact, evaluate_exact
from tallbayes.setup.polynomial import Polynomial, add_cubic, evaluate_one


def _value(surrogate: Any, exact: Any, z: Any, scratch: Any) -> Any:
    """Return the value at z."""
    linear, isotropic, quadratic, _, padded = surrogate
    facts, rows, constant, _ = exact
    value = evaluate_one(linear, isotropic, quadratic, padded, z, scratch)
    return value + evaluate_exact(facts, rows, constant, z) if facts.size > 0 else value


def _block_values(surrogate: Any, exact: Any, z: Any, values: Any) -> None:
    """Put the values at the columns of z into values, with SIMD along the columns."""
    linear, isotropic, quadratic, cubic, _ = surrogate
    facts, rows, constant, _ = exact
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


def _zero(surrogate: Any, exact: Any, z: Any, scratch: Any) -> Any:
    """Return zero."""
    return 0.0


def _zeros(surrogate: Any, exact: Any, z: Any, values: Any) -> None:
    """Put zeros into values."""
    for b in range(BLOCK):
        values[b] = 0.0


_GENERAL = ByAddress(VALUE, _value), ByAddress(BLOCK_VALUES, _block_values)
_NOTHING = ByAddress(VALUE, _zero), ByAddress(BLOCK_VALUES, _zeros)


def evaluators(surrogate: Polynomial, exact: ExactPrior) -> tuple[Any, Any]:
    """Return the addresses of what evaluates one proposal, and a block of them."""
    one, block = _NOTHING if surrogate.is_zero and not exact.facts.size else _GENERAL
    return one.pointer, block.pointer
