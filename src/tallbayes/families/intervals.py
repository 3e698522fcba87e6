"""Interval arithmetic on the extended real line, with ends rounded outwards by python-flint (Arb).

Ends may be infinite: a set then holds arbitrarily large numbers, but never infinity itself, so that 0 times an
unbounded set is 0. What Arb cannot enclose (NaN) becomes the whole line, which proves nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from tallbayes.errors import MissingPackageError
from tallbayes.families.formula import heads, load_sympy

PRECISION = 320
"""Bits; enough for the cancellation between Mills ratios within the range where they are subtracted."""


@cache
def load_flint() -> Any:
    """Import python-flint, or say how to get it."""
    try:
        import flint
    except ImportError:
        raise MissingPackageError(
            "tb.families.custom needs SymPy and python-flint: pip install 'tallbayes[custom]'"
        ) from None
    return flint


@contextmanager
def precisely() -> Iterator[None]:
    """Compute with so many bits within a block."""
    context = load_flint().ctx
    before, context.prec = context.prec, PRECISION
    try:
        yield
    finally:
        context.prec = before


class Interval(NamedTuple):
    """The real numbers from lo to hi, which are exact Arb numbers or infinite."""

    lo: Any
    hi: Any


def number(value: float) -> Any:
    """Return a float as an exact Arb number."""
    return load_flint().arb(value)


def interval(lo: float, hi: float) -> Interval:
    """Return the interval between two floats, perhaps infinite."""
    return Interval(number(lo), number(hi))


def whole() -> Interval:
    """Return the whole line: nothing is known."""
    return interval(float("-inf"), float("inf"))


def _hull(*balls: Any) -> Interval:
    if any(ball.is_nan() for ball in balls):
        return whole()
    lows, highs = [ball.lower() for ball in balls], [ball.upper() for ball in balls]
    lo, hi = lows[0], highs[0]
    for low in lows[1:]:
        lo = low if low < lo else lo
    for high in highs[1:]:
        hi = high if high > hi else hi
    if lo.is_nan() or hi.is_nan():
        return whole()
    return Interval(lo, hi)


def add(a: Interval, b: Interval) -> Interval:
    """Return a + b."""
    lo, hi = (a.lo + b.lo).lower(), (a.hi + b.hi).upper()
    return Interval(number(float("-inf")) if lo.is_nan() else lo, number(float("inf")) if hi.is_nan() else hi)


def _times(a: Any, b: Any) -> Any:
    return number(0.0) if a == 0 or b == 0 else a * b


def multiply(a: Interval, b: Interval) -> Interval:
    """Return a b."""
    return _hull(_times(a.lo, b.lo), _times(a.lo, b.hi), _times(a.hi, b.lo), _times(a.hi, b.hi))


def power(a: Interval, exponent: Any) -> Interval:
    """Return a to a rational power; a fractional one needs a >= 0."""
    p, q = int(exponent.p), int(exponent.q)
    if p < 0:
        return _reciprocal(power(a, -exponent))
    if q == 1 and p % 2 == 1:
        return _hull(_end_power(a.lo, p, 1), _end_power(a.hi, p, 1))
    if a.lo < 0:
        if q > 1:
            return whole()
        ends = _hull(_end_power(abs(a.lo), p, 1), _end_power(abs(a.hi), p, 1))
        return Interval(number(0.0), ends.hi) if a.hi > 0 else ends
    return _hull(_end_power(a.lo, p, q), _end_power(a.hi, p, q))


def _end_power(x: Any, p: int, q: int) -> Any:
    if not x.is_finite() or x == 0:
        return x if p % 2 == 1 or x == 0 else abs(x)
    return x**p if q == 1 else (x**p).root(q)


def _reciprocal(a: Interval) -> Interval:
    one, infinite = number(1.0), number(float("inf"))
    if (a.lo < 0 and a.hi > 0) or (a.lo == 0 and a.hi == 0):
        return whole()
    ends = [
        number(0.0) if not end.is_finite() else (infinite if a.lo == 0 else -infinite) if end == 0 else one / end
        for end in a
    ]
    return _hull(*ends)


def _expit(x: Any) -> Any:
    return 1 / (1 + (-x).exp())


def _softplus(x: Any) -> Any:
    return x.exp().log1p() if x < 0 else x + (-x).exp().log1p()


def _bose_slope(x: Any) -> Any:
    if x < 1e-20:
        half = number(0.5)
        return (half - x / 24) + load_flint().arb(0, 1) * (x / 24)  # 1/2 - x/12 to 1/2
    return (1 - x / x.expm1()) / x


def _bose(x: Any) -> Any:
    return x / x.expm1()


def hazard(x: Any) -> Any:
    """Return the density over the upper tail of a standard normal."""
    two = load_flint().arb(2)
    return (two / load_flint().arb.pi()).sqrt() * (-x * x / 2).exp() / (x / two.sqrt()).erfc()


# Name: function of a finite end, limits at the ends of its domain, where the domain begins. All are monotone.
_MONOTONE: dict[str, tuple[Callable[[Any], Any], float | None, float | None, float]] = {
    "exp": (lambda x: x.exp(), 0.0, float("inf"), float("-inf")),
    "log": (lambda x: x.log(), float("-inf"), float("inf"), 0.0),
    "atan": (lambda x: x.atan(), None, None, float("-inf")),
    "expit": (_expit, 0.0, 1.0, float("-inf")),
    "softplus": (_softplus, 0.0, float("inf"), float("-inf")),
    "log1mexp": (lambda x: (-(-x).expm1()).log(), float("-inf"), 0.0, 0.0),
    "bose_slope": (_bose_slope, 0.5, 0.0, 0.0),
    "bose": (_bose, 1.0, 0.0, 0.0),
    "hazard": (hazard, 0.0, float("inf"), float("-inf")),
    "log_ndtr": (lambda x: ((-x / load_flint().arb(2).sqrt()).erfc() / 2).log(), float("-inf"), 0.0, float("-inf")),
}


def apply(name: str, a: Interval) -> Interval:
    """Return the range of a monotone function over an interval."""
    function, below, above, start = _MONOTONE[name]
    if a.lo < start:
        return whole()
    ends = []
    for end in a:
        if end == start or not end.is_finite():
            limit = below if end == start or end < 0 else above
            if limit is None:  # atan
                ends.append(load_flint().arb.pi() / 2 * (1 if end > 0 else -1))
            else:
                ends.append(number(limit))
        else:
            ends.append(function(end))
    return _hull(*ends)


def mills(n: int, a: Interval) -> Interval:
    """Return the range of K_n, which falls: n / (x + K_{n+1}), K_1 = hazard - x; positive arguments only."""
    if not a.lo > 0:
        return whole()
    ends = []
    for x in a:
        if not x.is_finite():
            ends.append(number(0.0))
            continue
        k = hazard(x) - x
        for j in range(1, n):
            k = j / k - x
        ends.append(k)
    return _hull(*ends)


def scaled_mills(n: int, u: Interval) -> Interval:
    """Return the range of x K_n(x) for x = 1 / u: k_n = n / (1 + u^2 k_{n+1}), begun deep with 0 <= k <= n."""
    square = multiply(u, u)
    k = Interval(number(0.0), number(float(n + 24)))
    one = interval(1.0, 1.0)
    for j in range(n + 23, n - 1, -1):
        k = multiply(interval(float(j), float(j)), _reciprocal(add(one, multiply(square, k))))
    return k


Tape = list[tuple[Any, ...]]


def tape(
    expression: Any, inputs: dict[Any, str], values: dict[str, float]
) -> Callable[[dict[str, Interval]], Interval]:
    """Return a function from ranges of the inputs to a range of the expression."""
    sympy = load_sympy()
    own = heads()
    steps: Tape = []
    known: dict[Any, int] = {}

    def put(*step: Any) -> int:
        steps.append(step)
        return len(steps) - 1

    def visit(e: Any) -> int:
        if e in known:
            return known[e]
        if e in inputs:
            at = put("input", inputs[e])
        elif e.is_Symbol:
            at = put("constant", interval(values[e.name], values[e.name]))
        elif e.is_Rational:
            ratio = number(0.0) + load_flint().arb(int(e.p)) / int(e.q)
            at = put("constant", Interval(ratio.lower(), ratio.upper()))
        elif e in (sympy.pi, sympy.E):
            constant = load_flint().arb.pi() if e == sympy.pi else load_flint().arb(1).exp()
            at = put("constant", Interval(constant.lower(), constant.upper()))
        elif e.is_Atom:
            at = put("constant", whole())  # not a real number: a root of something negative, say
        elif e.is_Add or e.is_Mul:
            at = visit(e.args[0])
            for part in e.args[1:]:
                at = put(add if e.is_Add else multiply, at, visit(part))
        elif e.is_Pow and e.exp.is_Rational:
            at = put("power", visit(e.base), e.exp)
        elif e.is_Pow:
            at = put("apply", "exp", put(multiply, visit(e.exp), visit(sympy.log(e.base))))
        elif isinstance(e, own.mills):
            at = put("mills", int(e.args[0]), visit(e.args[1]))
        elif e.is_Function and e.func.__name__ == "scaled_mills":
            at = put("scaled", int(e.args[0]), visit(e.args[1]))
        else:
            at = put("apply", "exp" if e.func is sympy.exp else e.func.__name__, visit(e.args[0]))
        known[e] = at
        return at

    visit(expression)

    def run(ranges: dict[str, Interval]) -> Interval:
        out: list[Interval] = []
        for step in steps:
            match step:
                case ("input", name):
                    out.append(ranges[name])
                case ("constant", value):
                    out.append(value)
                case ("power", at, exponent):
                    out.append(power(out[at], exponent))
                case ("apply", name, at):
                    out.append(apply(name, out[at]))
                case ("mills", n, at):
                    out.append(mills(n, out[at]))
                case ("scaled", n, at):
                    out.append(scaled_mills(n, out[at]))
                case (function, a, b):
                    out.append(function(out[a], out[b]))
        return out[-1]

    return run
