"""Scalar functions that generated families are made of: no overflow, no cancellation, limits at infinity."""

import math

from tallbayes.compiled import compiled


@compiled
def exp(x: float) -> float:
    """e^x; infinite where that is too large for a number."""
    if x > 709.0:
        return math.inf
    return math.exp(x)


@compiled
def expit(x: float) -> float:
    """1 / (1 + e^-x)."""
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@compiled
def softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@compiled
def log1mexp(x: float) -> float:
    """log(1 - e^-x) of a positive x."""
    if x <= 0.0:
        return -math.inf
    if x < 0.7:
        return math.log(-math.expm1(-x))
    return math.log1p(-math.exp(-x))


@compiled
def bose(x: float) -> float:
    """X / (e^x - 1) of x >= 0."""
    if x > 1e-300:
        e = math.exp(-x)
        return x * e / -math.expm1(-x) if e > 0.0 else 0.0
    return 1.0


@compiled
def bose_slope(x: float) -> float:
    """(1 - bose(x)) / x of x >= 0: by its power series where that would cancel."""
    if x < 0.5:
        z = x * x
        tail = 1.0 / 1209600.0 - z * (1.0 / 47900160.0 - z * (691.0 / 1307674368000.0 - z / 74724249600.0))
        return 0.5 - x * (1.0 / 12.0 - z * (1.0 / 720.0 - z * (1.0 / 30240.0 - z * tail)))
    return (1.0 - bose(x)) / x


@compiled
def hazard(x: float) -> float:
    """Density over upper tail of a standard normal."""
    if x < 25.0:
        return 0.7978845608028654 * math.exp(-0.5 * x * x) / math.erfc(x * 0.7071067811865476)
    return x + 1.0 / (x + 2.0 / (x + 3.0 / (x + 4.0 / (x + 5.0 / x))))


@compiled
def mills(n: float, x: float) -> float:
    """K_n of families/probit.py, for x of 2.75 or more."""
    last = n + float(int(360.0 / (x * x))) + 12.0
    k = 2.0 * last / (x + math.sqrt(x * x + 4.0 * last)) if x < 1e100 else 0.0
    while last > n:
        last -= 1.0
        k = last / (x + k)
    return k


@compiled
def log_ndtr(x: float) -> float:
    """Log of the standard normal's distribution function."""
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x * 0.7071067811865476))
    if x > -25.0:
        return math.log(0.5 * math.erfc(-x * 0.7071067811865476))
    return -0.5 * x * x - math.log(hazard(-x)) - 0.9189385332046728


@compiled
def times(a: float, b: float) -> float:
    """Return the product, 0 where a factor is 0: one that has vanished wins over one that has overflowed."""
    if a == 0.0 or b == 0.0:
        return 0.0
    return a * b
