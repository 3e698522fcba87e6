r"""What compiled code and passes over rows need of a likelihood: three functions of rows, called by address.

The potential of a row is a function of its q predictors eta = A_i theta and of its response. Everything else (the
family, its parameters, the map from the response) is behind these functions, so no kernel and no pass is compiled
for a family, and a family compiles three short functions.

Arrays over rows have a row in each column: ``eta`` is q x rows. Derivatives are packed by order, and within an
order by their indices a >= b >= c: ``packed_size(q, order)`` lines, U itself first.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from tallbayes.compiled import ByAddress, compiled, compiled_borrowing, compiled_in_line
from tallbayes.families.curve import coefficients, curve_of, jet, may_mix, potential
from tallbayes.families.ranges import derivative_range, range_at_ends
from tallbayes.families.remainder import remainder, remainder_rounding

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_VECTOR = types.Array(types.float64, 1, "C")
_MATRIX = types.Array(types.float64, 2, "C")
JETS = types.void(_VECTOR, _MATRIX, _MATRIX, types.int64, types.int64, types.boolean, _MATRIX)
"""``jets(parameters, responses, eta, first, last, majorise, out)``: derivatives of U of orders first to last, U itself
being of order 0. With ``majorise``, second derivatives of a parabola that touches U and lies above it."""
BOUNDS = types.void(_VECTOR, _MATRIX, _MATRIX, _MATRIX, _MATRIX, types.float64, types.int64, _MATRIX)
"""``bounds(parameters, extremes, responses, eta, norms, radius, m, out)``: the largest rise (line 0), fall (line 1) and
absolute value (line 2) of the m-th derivative of U along any move of predictor j by at most norms[j], at any point
within the box eta[j] +- radius norms[j]; the whole space if the radius is infinite. The absolute value bounds the m-th
derivative along m different moves as well."""
REMAINDERS = types.void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR, types.int64, _VECTOR)
"""``remainders(parameters, response, eta, old, new, order, out)``: what the expansion around eta leaves of one row at
eta + old and at eta + new. At order 0 only their difference means anything."""


def packed_size(q: int, order: int) -> int:
    """Return how many different derivatives of order 0 to ``order`` a function of q variables has."""
    return math.comb(q + order, order)


class RowFunctions(NamedTuple):
    """The three functions, by address; they compile when they are first called."""

    jets: ByAddress
    bounds: ByAddress | None
    """None where bounds are the user's."""
    remainders: ByAddress


class Extremes:
    """Critical points of derivatives with the values there, computed once; can be sent to other processes.

    Parameters
    ----------
    compute : callable
        Returns them, of an order of derivative.
    """

    def __init__(self, compute: Callable[[int], Matrix]) -> None:
        self._compute, self._found = compute, dict[int, Matrix]()

    def __call__(self, m: int) -> Matrix:
        """Return those of the derivative of order m."""
        if m not in self._found:
            self._found[m] = self._compute(m)
        return self._found[m]


class RowsByAddress(ABC):
    """A likelihood as rows know it: three functions, and their parameters as plain numbers."""

    sums: Matrix | None = None
    """Sums of predictors whose norms bounds are a function of; None for the predictors themselves."""

    @property
    @abstractmethod
    def functions(self) -> RowFunctions:
        """The functions."""

    @property
    @abstractmethod
    def parameters(self) -> Vector:
        """Their parameters."""

    @abstractmethod
    def extremes(self, m: int) -> Matrix:
        """Return what bounds on derivatives of order m need to know of where these have their extremes."""

    @abstractmethod
    def rounding(
        self, response: Vector, eta: Vector, old: Vector, new: Vector, order: int
    ) -> tuple[float, Callable[[Vector], float]]:
        """Return how far rounding can be off in a row's two remainders, and how errors of its predictors count.

        The second is a function of the sums of absolute products that make up the predictors: by how much, relatively
        and in units of rounding, derivatives move.
        """

    def jets(self, responses: Matrix, eta: Matrix, order: int, *, first: int = 0, majorise: bool = False) -> Matrix:
        """Return derivatives of U up to an order, from U itself on or from a higher one, packed; rows in columns."""
        return call_jets(self, responses, eta, first, order, majorise)

    def bounds(self, responses: Matrix, eta: Matrix, norms: Matrix, radius: float, m: int) -> Matrix:
        """Return the largest rise, fall and absolute value of the m-th derivative in a box, for rows in columns."""
        out = np.empty((3, eta.shape[1]))
        extremes = self.extremes(m)
        assert self.functions.bounds is not None
        pointer = self.functions.bounds.pointer
        call_bounds(pointer, self.parameters, extremes, responses, eta, norms, radius, m, out)
        return out

    def remainders(self, responses: Matrix, eta: Matrix, old: Matrix, new: Matrix, order: int) -> Matrix:
        """Return what the expansion leaves of each row at eta + old and at eta + new; rows in columns."""
        out = np.empty((2, eta.shape[1]))
        pointer = self.functions.remainders.pointer
        call_remainders(pointer, self.parameters, responses, eta, old, new, order, out)
        return out


@dataclass(frozen=True, eq=False)
class Rows(RowsByAddress):
    """Rows of one predictor, whose potential is a curve.

    Parameters
    ----------
    curve : NamedTuple
        The curve of `families/curve.py`.
    known : callable
        Of the curve, by order of derivative: critical points, and each piece's values there.
    """

    curve: Any
    known: Callable[[int], Matrix]

    @property
    def functions(self) -> RowFunctions:
        """The functions of this kind of curve."""
        kind: Any = type(self.curve)
        return of_curve(kind)

    @cached_property
    def parameters(self) -> Vector:
        """The curve's parameters, in order."""
        return np.array(self.curve, dtype=np.float64)

    def extremes(self, m: int) -> Matrix:
        """Return critical points, and each piece's values there."""
        return self.known(m)

    def rounding(
        self, response: Vector, eta: Vector, old: Vector, new: Vector, order: int
    ) -> tuple[float, Callable[[Vector], float]]:
        """Return how far rounding can be off in a row's two remainders, and how errors of its predictor count."""
        m, s, c, _, piece = coefficients(self.curve, float(response[0]))
        t = float(s * eta[0] + c)
        own = sum(remainder_rounding(self.curve, t, float(s * step[0]), piece) for step in (old, new))

        def per_predictor(products: Vector) -> float:
            return float((order + 2) * (abs(c) + abs(s) * products[0]) / self.curve.reach)

        return float(m * own), per_predictor

    def global_bounds(self, X: Matrix, responses: Matrix, weight: Vector, m: int) -> Vector:
        """Return the paper's constants: suprema over the whole line, largest |x_ij| (|x_i| for m = 1)."""
        size = np.sqrt(np.einsum("ij,ij->i", X, X)) if m == 1 else np.max(np.abs(X), axis=1)
        steepest = self.bounds(responses, np.zeros((1, size.size)), np.ascontiguousarray(size[None]), math.inf, m)
        return np.asarray(weight * np.max(steepest, axis=0) / math.factorial(m))


@cache
def of_curve(kind: Any) -> RowFunctions:
    """Return the functions of rows that are w [m g(s eta + c) + l eta] of one predictor, without the weight w.

    Loops are short and choose values rather than branches, so that they are compiled to SIMD.
    """

    def jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
        curve = curve_of(kind, parameters)
        if first == 0:
            for r in range(eta.shape[1]):
                m, s, c, l, piece = coefficients(curve, responses[r, 0])
                out[0, r] = m * potential(curve, s * eta[0, r] + c, piece) + l * eta[0, r]
        if last == 0:
            return
        for r in range(eta.shape[1]):
            m, s, c, l, piece = coefficients(curve, responses[r, 0])
            t = s * eta[0, r] + c
            g1, g2, g3, _ = jet(curve, t, piece)
            if majorise and abs(t) > 1e-8:
                g2 = g1 / t
            if first <= 1:
                out[1 - first, r] = m * s * g1 + l
            if first <= 2 <= last:
                out[2 - first, r] = m * s * s * g2
            if last == 3:
                out[3 - first, r] = m * s * s * s * g3

    def bounds(
        parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
    ) -> None:
        curve = curve_of(kind, parameters)
        for r in range(eta.shape[1]):
            _, s, c, _, piece = coefficients(curve, responses[r, 0])
            t = s * eta[0, r] + c
            half = abs(s) * radius * norms[0, r] if radius < math.inf else math.inf
            out[0, r], out[1, r] = range_at_ends(curve, m, t - half, t + half, piece)
        for j in range(extremes.shape[1]):
            for r in range(eta.shape[1]):
                _, s, c, _, piece = coefficients(curve, responses[r, 0])
                t = s * eta[0, r] + c
                half = abs(s) * radius * norms[0, r] if radius < math.inf else math.inf
                value, inside = extremes[1 + int(piece), j], abs(extremes[0, j] - t) < half
                least, largest = out[0, r], out[1, r]
                out[0, r] = value if inside & (value < least) else least
                out[1, r] = value if inside & (value > largest) else largest
        for r in range(eta.shape[1]):
            multiple, s, _, l, _ = coefficients(curve, responses[r, 0])
            out[0, r], out[1, r], out[2, r] = along(multiple, s, l, norms[0, r], m, out[0, r], out[1, r])

    def bounds_of_mixtures(
        parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
    ) -> None:
        curve = curve_of(kind, parameters)
        for r in range(eta.shape[1]):
            multiple, s, c, l, piece = coefficients(curve, responses[r, 0])
            t = s * eta[0, r] + c
            half = abs(s) * radius * norms[0, r] if radius < math.inf else math.inf
            least, largest = derivative_range(curve, m, t - half, t + half, extremes, piece)
            out[0, r], out[1, r], out[2, r] = along(multiple, s, l, norms[0, r], m, least, largest)

    def remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
        curve = curve_of(kind, parameters)
        m, s, c, l, piece = coefficients(curve, response[0])
        t = s * eta[0] + c
        out[0] = m * remainder(curve, t, s * old[0], order, piece)
        out[1] = m * remainder(curve, t, s * new[0], order, piece)
        if order == 0:
            out[0] += l * old[0]
            out[1] += l * new[0]

    over_box = bounds_of_mixtures if may_mix(kind) else bounds
    return RowFunctions(
        ByAddress(JETS, jets, borrowing=True),
        ByAddress(BOUNDS, over_box, borrowing=True),
        ByAddress(REMAINDERS, remainders, borrowing=True),
    )


@compiled_in_line
def along(
    multiple: float, s: float, l: float, norm: float, m: int, least: float, largest: float
) -> tuple[float, float, float]:
    """Return the largest rise, fall and absolute value along a move, from the range of g's m-th derivative."""
    power, size = multiple * s, norm
    if m >= 2:
        power, size = power * s, size * norm
    if m >= 3:
        power, size = power * s, size * norm
    if m >= 4:
        power, size = power * s, size * norm
    rise = power * (largest if power >= 0.0 else least)
    fall = -power * (least if power >= 0.0 else largest)
    if m == 1:
        rise, fall = rise + l, fall - l
    rise = size * (0.0 if rise < 0.0 else rise)  # not a number stays what it is
    fall = size * (0.0 if fall < 0.0 else fall)
    return rise, fall, fall if fall > rise else rise


def call_jets(rows: Any, responses: Matrix, eta: Matrix, first: int, last: int, majorise: bool) -> Matrix:
    """Return derivatives of rows that have `functions` and `parameters`."""
    q = eta.shape[0]
    lines = packed_size(q, last) - (packed_size(q, first - 1) if first else 0)
    out = np.empty((lines, eta.shape[1]))
    jets_by_address(rows.functions.jets.pointer, rows.parameters, responses, eta, first, last, majorise, out)
    return out


@compiled_borrowing
def jets_by_address(
    jets: Any,
    parameters: Vector,
    responses: Matrix,
    eta: Matrix,
    first: int,
    last: int,
    majorise: bool,
    out: Matrix,
) -> None:
    """Call the function by its address."""
    jets(parameters, responses, eta, first, last, majorise, out)


@compiled_borrowing
def call_bounds(
    bounds: Any,
    parameters: Vector,
    extremes: Matrix,
    responses: Matrix,
    eta: Matrix,
    norms: Matrix,
    radius: float,
    m: int,
    out: Matrix,
) -> None:
    """Call the function by its address."""
    bounds(parameters, extremes, responses, eta, norms, radius, m, out)


@compiled
def call_remainders(
    remainders: Any,
    parameters: Vector,
    responses: Matrix,
    eta: Matrix,
    old: Matrix,
    new: Matrix,
    order: int,
    out: Matrix,
) -> None:
    """One row after the other: the function takes one, as a chain needs it."""
    q = eta.shape[0]
    at, before, after, pair = np.empty(q), np.empty(q), np.empty(q), np.empty(2)
    for r in range(eta.shape[1]):
        for p in range(q):
            at[p] = eta[p, r]
            before[p] = old[p, r]
            after[p] = new[p, r]
        remainders(parameters, responses[r], at, before, after, order, pair)
        out[0, r] = pair[0]
        out[1, r] = pair[1]
