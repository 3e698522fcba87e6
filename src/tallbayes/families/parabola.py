r"""Parabolas above a row's potential, which Firefly needs: by address, like the other functions of rows.

Where g(t) - a t is a concave function of t^2, the parabola

.. math:: q(\hat t + \delta) = g(\hat t) + g'(\hat t) \delta + \kappa \delta^2 / 2, \qquad
          \kappa = \frac{g'(\hat t) - a}{\hat t}

touches g at t and lies above it. In terms of the predictor its curvature is K = m s^2 kappa.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from tallbayes.compiled import ByAddress, compiled, compiled_within
from tallbayes.families.curve import coefficients, curve_of, jet
from tallbayes.families.remainder import gauss_jacobi, remainder

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_VECTOR = types.Array(types.float64, 1, "C")
_MATRIX = types.Array(types.float64, 2, "C")
CURVATURES = types.void(_VECTOR, types.float64, _MATRIX, _MATRIX, _VECTOR)
"""``curvatures(parameters, slope, responses, eta, out)``: K of each row's parabola at its predictor."""
EXCESS = types.float64(_VECTOR, _VECTOR, types.float64, types.float64, types.float64)
"""``excess(parameters, response, eta, curvature, step)``: parabola less potential of a row, at eta + step."""

NEAR_ZERO = 0.25
"""Predictors below this share of g's reach take the mean of g'' instead of a quotient that loses digits."""
_NODES, _WEIGHTS = gauss_jacobi(0, 6)


class ParabolaFunctions(NamedTuple):
    """The two functions, by address."""

    curvatures: ByAddress
    excess: ByAddress


@compiled_within
def parabola_curvature(curve: Any, t: float, slope: float, piece: float) -> float:
    """Return (g'(t) - slope) / t, which is the mean of g'' over [0, t] when slope = g'(0)."""
    if abs(t) < NEAR_ZERO * curve.reach:
        total = 0.0
        for q in range(_NODES.size):
            total += _WEIGHTS[q] * jet(curve, t * _NODES[q], piece)[1]
        return total
    return (jet(curve, t, piece)[0] - slope) / t


@cache
def parabolas_of(kind: Any) -> ParabolaFunctions:
    """Return the functions of a kind of curve."""

    def curvatures(parameters: Any, slope: Any, responses: Any, eta: Any, out: Any) -> None:
        curve = curve_of(kind, parameters)
        for r in range(eta.shape[1]):
            m, s, c, _, piece = coefficients(curve, responses[r, 0])
            out[r] = m * s * s * parabola_curvature(curve, s * eta[0, r] + c, slope, piece)

    def excess(parameters: Any, response: Any, eta: Any, curvature: Any, step: Any) -> Any:
        curve = curve_of(kind, parameters)
        m, s, c, _, piece = coefficients(curve, response[0])
        return 0.5 * curvature * step * step - m * remainder(curve, s * eta + c, s * step, 1, piece)

    return ParabolaFunctions(ByAddress(CURVATURES, curvatures), ByAddress(EXCESS, excess))


@compiled
def call_curvatures(
    curvatures: Any, parameters: Vector, slope: float, responses: Matrix, eta: Matrix, out: Vector
) -> None:
    """Call the function by its address."""
    curvatures(parameters, slope, responses, eta, out)
