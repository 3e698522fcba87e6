r"""The probit's curve: minus the log of a normal tail.

With Mills' continued fraction :math:`K_n = n / (t + K_{n+1})` the derivative of g is :math:`h = t + K_1`. As
:math:`K_n' = -K_n D_n` with :math:`D_n = K_{n+1} - K_n`, the higher derivatives are products and sums of the
:math:`K_n` in which nothing cancels, however far out t is; the plain formula :math:`g'' = h (h - t)` and its
derivatives lose all digits there.
"""

import math
from typing import Any, NamedTuple

from tallbayes.families.curve import CurveFunctions, register_curve

FRACTION = 2.0
"""From here on the continued fraction is used."""
TERMS = 500.0
"""It takes at most 12 + TERMS / t^2 terms for full precision, of all four derivatives."""


class ProbitCurve(NamedTuple):
    """g(t) = -log Phi(-t), with t = -eta for y = 1 and t = eta for y = 0."""

    reach: float = 2.8
    """Just below the distance from the real line to the nearest zero of Phi."""


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """Minus the log of the probability that a standard normal exceeds t."""
    if t < 0.0:
        return -math.log1p(-0.5 * math.erfc(-t * 0.7071067811865476))
    if t < 25.0:
        return -math.log(0.5 * math.erfc(t * 0.7071067811865476))
    k = 1.0 / (t + 2.0 / (t + 3.0 / (t + 4.0 / (t + 5.0 / t))))
    return 0.5 * t * t + math.log(t + k) + 0.9189385332046728  # log sqrt(2 pi)


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return the hazard h of a standard normal and its derivatives."""
    if t < -40.0:
        return 0.0, 0.0, 0.0, 0.0  # below the smallest number
    if t < FRACTION:
        h = 0.7978845608028654 * math.exp(-0.5 * t * t) / math.erfc(t * 0.7071067811865476)  # sqrt(2 / pi)
        v = h - t
        g2 = h * v
        p = v * v + (g2 - 1.0)
        g3 = h * p
        return h, g2, g3, g2 * p + h * (2.0 * v * (g2 - 1.0) + g3)
    # Begin where K_n' is about 0: K_n (t + K_n) = n.
    last = int(TERMS / (t * t)) + 12
    k4 = 2.0 * last / (t + math.sqrt(t * t + 4.0 * last)) if t < 1e100 else 0.0
    for n in range(last - 1, 3, -1):
        k4 = n / (t + k4)
    k3 = 3.0 / (t + k4)
    k2 = 2.0 / (t + k3)
    k1 = 1.0 / (t + k2)
    d1, d2, d3 = k2 - k1, k3 - k2, k4 - k3
    g2 = 1.0 - k1 * d1
    scale = g2 * k1 * k2
    return t + k1, g2, scale * d2, scale * (d2 * (k1 * k2 * d2 - d1 - d2 + k2) - k3 * d3)


def coefficients(curve: Any, y: Any) -> Any:
    """S = 1 - 2 y: the two classes are mirror images."""
    return 1.0, 1.0 - 2.0 * y, 0.0, 0.0, 0.0


register_curve(ProbitCurve, CurveFunctions(potential, jet, coefficients))

# Roots of the derivative of order m + 1, by mpmath's root finder in 50 digits on Taylor coefficients of g;
# tests/test_families.py repeats that, and proves with interval arithmetic that there are no others.
CRITICAL = {
    1: [],
    2: [],
    3: [-1.0023693422683706],
    4: [-2.0712889388088740, 0.029833620926059145],
}
