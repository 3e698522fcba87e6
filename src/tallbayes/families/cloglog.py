r"""The complementary log-log's curve: one piece for each class.

A response of 0 has g = e^t. For 1 it is :math:`g = -\log(1 - e^{-x})`, :math:`x = e^t`. With
:math:`u = x / (e^x - 1)` and :math:`q = 1 - x - u` its derivative is -u, and u' = u q, q' = -x - u q.
"""

import math
from typing import Any, NamedTuple

from tallbayes.families.curve import CurveFunctions, register_curve


class CloglogCurve(NamedTuple):
    """g(t) = e^t for y = 0 and -log(1 - exp(-e^t)) for y = 1, with t = eta."""

    reach: float = 0.5
    """The nearest singularity is pi / 2 away, but the second piece falls so fast that quadrature needs less."""


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """e^t or -log(1 - exp(-e^t)), without overflow or cancellation."""
    if piece == 0.0:
        return math.exp(min(t, 709.0)) if t <= 709.0 else math.inf
    if t > 7.0:
        return 0.0  # below the smallest number
    x = math.exp(t)
    if t < -30.0:
        return 0.5 * x - t
    if x < 0.7:
        return -math.log(-math.expm1(-x))
    return -math.log1p(-math.exp(-x))


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Return the derivatives; q is computed without cancellation by its power series where x is small."""
    if piece == 0.0:
        e = math.exp(min(t, 709.0)) if t <= 709.0 else math.inf
        return e, e, e, e
    if t > 7.0:
        return 0.0, 0.0, 0.0, 0.0  # below the smallest number
    x = math.exp(t)
    if x < 0.5:
        # 1 - u = x / 2 - sum of B_2j x^2j / (2j)!, with Bernoulli's numbers.
        z = x * x
        tail = 1.0 / 1209600.0 - z * (1.0 / 47900160.0 - z * (691.0 / 1307674368000.0 - z / 74724249600.0))
        even = z * (1.0 / 12.0 - z * (1.0 / 720.0 - z * (1.0 / 30240.0 - z * tail)))
        u = 1.0 - (0.5 * x - even)
        q = -0.5 * x - even
    else:
        e = math.exp(-x)
        u = x * e / (1.0 - e)
        q = 1.0 - x - u
    q1 = -x - u * q
    r = q * q + q1
    q2 = -x - u * r
    return -u, -u * q, -u * r, -u * (q * r + 2.0 * q * q1 + q2)


def coefficients(curve: Any, y: Any) -> Any:
    """Return the response itself as the piece."""
    return 1.0, 1.0, 0.0, 0.0, y


register_curve(CloglogCurve, CurveFunctions(potential, jet, coefficients))

# Roots of the derivative of order m + 1 of the piece of y = 1 (e^t has none), by mpmath's root finder in 50 digits
# on Taylor coefficients of g; tests/test_families.py repeats that, and proves that there are no others.
CRITICAL = {
    1: [],
    2: [0.62082965456557214],
    3: [-0.19894156695829578, 1.4266906535862953],
    4: [-0.94006322717471200, 0.91164299062698523, 1.8540543276938443],
}
