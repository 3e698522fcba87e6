r"""What compiled code needs to know of a family: one scalar function and the map from response to row.

Up to a constant, the potential of row i (minus its log-likelihood) is

.. math:: U_i(\theta) = w_i \, [\, m_i \, g(s_i \eta_i + c_i) + l_i \eta_i \,], \qquad
          \eta_i = x_i \cdot \theta + \mathrm{offset}_i

with one function g, the *curve*, for the whole family. Where the classes of a response need different functions
(complementary log-log), g has *pieces*: the row's response also says which piece is its g. A curve is a
NamedTuple of g's parameters, all of them floats; its functions below are found by its type, in compiled code (where
they are inlined) and in plain Python alike.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload
from numba.np.unsafe.ndarray import to_fixed_tuple

from tallbayes.compiled import IN_LINE


def everywhere(curve: Any, low: Any, high: Any) -> Any:
    """Say that the critical points are known on every interval."""
    return True


def never(curve: Any) -> Any:
    """Say that a row has one piece."""
    return False


def twice(curve: Any, u: Any) -> Any:
    """Say that a curve is singular at imaginary numbers alone."""
    return 2.0


class CurveFunctions(NamedTuple):
    """The functions of a curve; their argument names are part of the contract."""

    potential: Callable[[Any, Any, Any], Any]
    """``potential(curve, t, piece)``: g(t)."""
    jet: Callable[[Any, Any, Any], Any]
    """``jet(curve, t, piece)``: the derivatives (g', g'', g''', g'''') at t; at t = +-inf, their limits."""
    coefficients: Callable[[Any, Any], Any]
    """``coefficients(curve, y)``: (m, s, c, l, piece) of a row with response y; m is not negative. A curve of one
    piece returns 0.0 for it, a constant that compiled code drops."""
    covers: Callable[[Any, Any, Any], Any] = everywhere
    """``covers(curve, low, high)``: whether the family's critical points are all there are in an interval of t."""
    mixed: Callable[[Any, Any, Any, Any], Any] | None = None
    """``mixed(curve, u, a, b)``: h_ab of `families/algebraic.py`, of curves that noise of unknown scale may have."""
    mixes: Callable[[Any], Any] = never
    """``mixes(curve)``: whether a row's g may be a mixture of two pieces: for ``piece`` between 0 and 1, that share
    of piece 1 and the rest of piece 0."""
    turning: Callable[[Any, Any], Any] = twice
    """``turning(curve, u)``: how long a change of the log scale by 1 is, at u, in units of ``reach``: how remainders of
    noise of unknown scale are computed depends on it."""


_FUNCTIONS: dict[type, CurveFunctions] = {}


def register_curve(curve_type: type, functions: CurveFunctions) -> None:
    """Make a curve known to compiled code; called once, where the curve is defined."""
    _FUNCTIONS[curve_type] = functions


def potential(curve: Any, t: Any, piece: Any) -> Any:
    """Evaluate g(t)."""
    return _FUNCTIONS[type(curve)].potential(curve, t, piece)


def jet(curve: Any, t: Any, piece: Any) -> Any:
    """Evaluate (g', g'', g''', g'''') at t."""
    return _FUNCTIONS[type(curve)].jet(curve, t, piece)


def coefficients(curve: Any, y: Any) -> Any:
    """Evaluate (m, s, c, l, piece) of a row with response y."""
    return _FUNCTIONS[type(curve)].coefficients(curve, y)


def covers(curve: Any, low: Any, high: Any) -> Any:
    """Say whether the critical points are known on an interval of t."""
    return _FUNCTIONS[type(curve)].covers(curve, low, high)


def mixes(curve: Any) -> Any:
    """Say whether a row's g may be a mixture of two pieces."""
    return _FUNCTIONS[type(curve)].mixes(curve)


def mixed(curve: Any, u: Any, a: Any, b: Any) -> Any:
    """Evaluate h_ab(u)."""
    function = _FUNCTIONS[type(curve)].mixed
    assert function is not None
    return function(curve, u, a, b)


def turning(curve: Any, u: Any) -> Any:
    """Say how long a change of the log scale by 1 is."""
    return _FUNCTIONS[type(curve)].turning(curve, u)


def may_mix(curve_type: type) -> bool:
    """Say whether rows of a kind of curve may mix two pieces."""
    return _FUNCTIONS[curve_type].mixes is not never


def _compiled_function(curve: Any, name: str) -> Callable[..., Any] | None:
    functions = _FUNCTIONS.get(getattr(curve, "instance_class", object))
    return getattr(functions, name, None)


@overload(potential, jit_options=IN_LINE)
def _potential(curve: Any, t: Any, piece: Any) -> Callable[..., Any] | None:
    return _compiled_function(curve, "potential")


@overload(jet, jit_options=IN_LINE)
def _jet(curve: Any, t: Any, piece: Any) -> Callable[..., Any] | None:
    return _compiled_function(curve, "jet")


@overload(coefficients, jit_options=IN_LINE)
def _coefficients(curve: Any, y: Any) -> Callable[..., Any] | None:
    return _compiled_function(curve, "coefficients")


@overload(covers, jit_options=IN_LINE)
def _covers(curve: Any, low: Any, high: Any) -> Callable[..., Any] | None:
    return _compiled_function(curve, "covers")


@overload(mixed)
def _mixed(curve: Any, u: Any, a: Any, b: Any) -> Callable[..., Any] | None:
    return _compiled_function(curve, "mixed")


@overload(mixes)
def _mixes(curve: Any) -> Callable[..., Any] | None:
    return _compiled_function(curve, "mixes")


@overload(turning)
def _turning(curve: Any, u: Any) -> Callable[..., Any] | None:
    return _compiled_function(curve, "turning")


def curve_of(kind: Any, parameters: Any) -> Any:
    """Return the curve of a kind whose parameters are the entries of an array."""
    return kind(*parameters)


@overload(curve_of)
def _curve_of(kind: Any, parameters: Any) -> Callable[..., Any]:
    count = len(kind.instance_class._fields)

    def build(kind: Any, parameters: Any) -> Any:
        return kind(*to_fixed_tuple(parameters, count))

    return build
