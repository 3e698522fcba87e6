"""Exponential and logarithm without branches and without calls: a loop over rows that uses them is compiled to SIMD.

The C library's functions take one number at a time, and a loop that calls them, or that chooses between branches for
each row, cannot take several rows at once. These are as accurate, to about a unit in the last place
(`tests/test_straight_line.py`), and two to four times as fast in a loop. What depends on a number is chosen by value.
"""

import math
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from tallbayes.compiled import FUSED, compiled_in_line

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, the first of 33 bits: its product with a whole number below 2^20 is exact."""
SHIFT = 6755399441055744.0
"""1.5 x 2^52: adding it rounds to a whole number, which is then in the last bits."""
SMALLEST, LARGEST = -746.0, 710.0
"""Beyond these e^x is 0 and infinite."""
WHOLE, WHOLE_BITS = 4503599627370496.0, 0x4330000000000000
"""2^52, and its bits: a whole number below 2^52 is put into the last ones."""
ROOT_HALF_BITS, ONE_BITS, FRACTION = 0x3FE6A09E00000000, 0x3FF0000000000000, 0x000FFFFFFFFFFFFF
"""Bits of sqrt(1/2), rounded, and of 1; and which bits are a number's fraction."""


def _as_float(typing_context: Any, bits: Any) -> Any:
    """Return the number with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


def _as_bits(typing_context: Any, number: Any) -> Any:
    """Return the bits of a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


_to_float: Any = intrinsic(_as_float)
_to_bits: Any = intrinsic(_as_bits)


@compiled_in_line
def _power_of_two(shifted: float) -> Any:
    """Return 2^k of a whole number k that SHIFT was added to, -1022 <= k <= 1023."""
    return _to_float((_to_bits(shifted) + types.uint64(1023)) << types.uint64(52))


def _exp(x: Any) -> Any:
    """e^x = 2^k e^r with |r| <= ln(2) / 2, and e^r by its power series."""
    x = SMALLEST if x < SMALLEST else x  # not a number stays what it is
    x = LARGEST if x > LARGEST else x
    shifted = x * LOG2_E + SHIFT
    k = shifted - SHIFT
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    # Even and odd powers by themselves: two short chains of sums are done in the time of one.
    q = r * r
    even = ((((1.0 / 479001600.0) * q + 1.0 / 3628800.0) * q + 1.0 / 40320.0) * q + 1.0 / 720.0) * q + 1.0 / 24.0
    odd = (
        (((1.0 / 6227020800.0) * q + 1.0 / 39916800.0) * q + 1.0 / 362880.0) * q + 1.0 / 5040.0
    ) * q + 1.0 / 120.0
    p = q * ((even * q + 0.5) + r * (odd * q + 1.0 / 6.0)) + r + 1.0
    # In two factors, neither of which overflows or vanishes before the result does.
    half = 0.5 * k + SHIFT
    rest = (k - (half - SHIFT)) + SHIFT
    return p * _power_of_two(half) * _power_of_two(rest)


def _log1p(x: Any) -> Any:
    """log(1 + x) = k ln 2 + 2 artanh(s), s = f / (2 + f), for 1 + x = 2^k (1 + f) near 1, and artanh by its series."""
    y = 1.0 + x
    lost = 1.0 - (y - x) if x > 1.0 else x - (y - 1.0)
    bits = _to_bits(y) + types.uint64(ONE_BITS - ROOT_HALF_BITS)
    k = (_to_float((bits >> types.uint64(52)) | types.uint64(WHOLE_BITS)) - WHOLE) - 1023.0
    f = _to_float((bits & types.uint64(FRACTION)) + types.uint64(ROOT_HALF_BITS)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    q = z * z
    even = (((2.0 / 19.0) * q + 2.0 / 15.0) * q + 2.0 / 11.0) * q + 2.0 / 7.0
    odd = (((2.0 / 21.0) * q + 2.0 / 17.0) * q + 2.0 / 13.0) * q + 2.0 / 9.0
    p = 2.0 / 3.0 + z * (2.0 / 5.0 + z * (even + z * odd))
    found = (k * LN2_LOW + (lost / y + s * (p * z)) + 2.0 * s) + k * LN2_HIGH
    return found if x < math.inf else x


def exp(x: Any) -> Any:
    """e^x: 0 or infinite where that is too small or too large for a number."""
    return math.exp(x) if not x > LARGEST else math.inf


def log1p(x: Any) -> Any:
    """log(1 + x), for x of 0 or more."""
    return math.log1p(x)


@overload(exp, jit_options=FUSED)
def _exp_in_loops(x: Any) -> Any:
    return _exp


@overload(log1p, jit_options=FUSED)
def _log1p_in_loops(x: Any) -> Any:
    return _log1p
