r"""Rows whose potential is any function of the parameters: every parameter is a predictor, and there is no design.

What passes and chains call by address is compiled around the user's three functions, in each process anew: nothing
cached on disk can hold the formula of another model.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import ByAddress
from tallbayes.families.rows import JETS, REMAINDERS, RowFunctions, call_jets, call_remainders

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROUNDING = 16.0
"""How many units in the last place, for each parameter, a user's function may be off in each of its terms."""


@dataclass(frozen=True, eq=False)
class FactorRows:
    """Rows given by three compiled functions of the parameters and the row.

    Parameters
    ----------
    potential : callable
        ``potential(theta, row)``.
    gradient : callable
        ``gradient(theta, row, out)``.
    hessian : callable
        ``hessian(theta, row, out)``.
    functions : RowFunctions
        The same, as passes and chains call them.
    limits : dict
        The user's bounds by order of derivative: a number for all rows, or the number of a column of the responses.
    """

    potential: Callable[..., Any]
    gradient: Callable[..., Any]
    hessian: Callable[..., Any]
    functions: RowFunctions
    limits: dict[int, float | int]

    @property
    def parameters(self) -> Vector:
        """None that are used: the functions have theirs inside."""
        return np.zeros(1)

    def jets(self, responses: Matrix, eta: Matrix, order: int, *, first: int = 0, majorise: bool = False) -> Matrix:
        """Return U, its gradient and its second derivatives, or from a higher order on, packed; rows in columns."""
        return call_jets(self, responses, eta, first, order, majorise)

    def remainders(self, responses: Matrix, eta: Matrix, old: Matrix, new: Matrix, order: int) -> Matrix:
        """Return 0 and the change of the remainder from eta + old to eta + new; rows in columns."""
        out = np.empty((2, eta.shape[1]))
        pointer = self.functions.remainders.pointer
        call_remainders(pointer, self.parameters, responses, eta, old, new, order, out)
        return out

    def global_bounds(self, X: Matrix, responses: Matrix, weight: Vector, m: int) -> Vector:
        """Return the user's bounds, times weights, over m!."""
        limit = self.limits[m]
        size = responses[:, limit] if isinstance(limit, int) else np.full(responses.shape[0], limit)
        return np.asarray(weight * size / math.factorial(m))

    def jet(self, row: Vector, theta: Vector) -> tuple[float, Vector, Matrix]:
        """Return potential, gradient and Hessian of one row."""
        gradient, hessian = np.zeros(theta.size), np.zeros((theta.size, theta.size))
        self.gradient(theta, row, gradient)
        self.hessian(theta, row, hessian)
        return float(self.potential(theta, row)), gradient, hessian

    def rounding(
        self,
        row: Vector,
        weight: float,
        centre: Vector,
        move: Vector,
        other: Vector,
        order: int,
        psi: float,
        distance: float,
        limit: float,
    ) -> float:
        r"""Return how far rounding alone can lift a computed lambda_i above its bound `limit`.

        The functions are taken to be backward stable: what they return is right, to e = ROUNDING (d + 2) eps, at
        parameters that are off by e, relatively. So U is off by at most :math:`e (|U| + \sum_j |\partial_j U|
        |\theta_j|)` at each of the two states, and the Taylor polynomial by

        .. math:: e \sum_j |s_j| \Big( |g_j| + \sum_k |H_{jk}| (|\hat\theta_k| + |s_k|) \Big)
                  + e\, \bar U_{k+1} \|\hat\theta\|_1 \|s\|_1^k, \qquad s = |move| + |other|

        (the last term, for an error of the highest derivative, is e (k + 1)! psi |centre|_1 distance^k, twice). An
        excess that goes unnoticed is below this number, so it changes a log acceptance by no more than rounding does.
        """
        unit = ROUNDING * (centre.size + 2) * float(np.finfo(np.float64).eps)
        size = 0.0
        for step in (move, other):
            value, gradient, _ = self.jet(row, centre + step)
            size += abs(value) + float(np.abs(gradient) @ (np.abs(centre) + np.abs(centre + step)))
        _, gradient, hessian = self.jet(row, centre)
        steps = np.abs(move) + np.abs(other)
        size += float(steps @ (np.abs(gradient) + np.abs(hessian) @ (steps + np.abs(centre))))
        highest = 2.0 * math.factorial(order + 1) * psi * float(np.sum(np.abs(centre))) * distance**order
        floor = unit * (weight * size + highest + (order + 2) * limit)
        return floor if math.isfinite(floor) else 0.0


def around(potential: Any, gradient: Any, hessian: Any) -> RowFunctions:
    """Return what passes and chains call by address, compiled around three compiled functions of a row."""

    def jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
        d = eta.shape[0]
        theta, slope, curvature = np.empty(d), np.empty(d), np.empty((d, d))
        for r in range(eta.shape[1]):
            at = 0
            for j in range(d):
                theta[j] = eta[j, r]
            if first == 0:
                out[0, r] = potential(theta, responses[r])
                at = 1
            if first <= 1 <= last:
                slope[:] = 0.0
                gradient(theta, responses[r], slope)
                for j in range(d):
                    out[at + j, r] = slope[j]
                at += d
            if last == 2:
                curvature[:] = 0.0
                hessian(theta, responses[r], curvature)
                for j in range(d):
                    for k in range(j + 1):
                        out[at, r] = curvature[j, k]
                        at += 1

    def remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
        # With the step s = new - old, the change of the Taylor polynomial is (g + H (old + new) / 2) . s: no
        # difference of squares. A value that is not a number becomes infinite, which no bound allows.
        d = eta.size
        room = np.empty((d + 3, d))
        here, there, slope, curvature = room[0], room[1], room[2], room[3:]
        for j in range(d):
            here[j] = eta[j] + old[j]
            there[j] = eta[j] + new[j]
        change = potential(there, response) - potential(here, response)
        if order >= 1:
            slope[:] = 0.0
            gradient(eta, response, slope)
            if order >= 2:
                curvature[:] = 0.0
                hessian(eta, response, curvature)
                for j in range(d):
                    for k in range(j):
                        slope[j] += 0.5 * curvature[j, k] * (old[k] + new[k])
                        slope[k] += 0.5 * curvature[j, k] * (old[j] + new[j])
                    slope[j] += 0.5 * curvature[j, j] * (old[j] + new[j])
            for j in range(d):
                change -= slope[j] * (new[j] - old[j])
        out[0] = 0.0
        out[1] = change if math.isfinite(change) else math.inf

    return RowFunctions(ByAddress(JETS, jets, keep=False), None, ByAddress(REMAINDERS, remainders, keep=False))
