"""`Factors`: a posterior given row by row, with the user's bounds on derivatives: the paper's general form."""

# Annotations stay text, so that `help` shows them as they are written here.
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.factors import formula as formulas
from tallbayes.factors.check import check_rows
from tallbayes.factors.rows import FactorRows, around
from tallbayes.models.base import Model
from tallbayes.models.predictors import Identity
from tallbayes.priors import Prior, WeaklyInformative
from tallbayes.priors.coefficients import Each, each
from tallbayes.sources.arrays import ArraySource, frequency_weights, numeric, per_row, writable_view
from tallbayes.sources.profile import refuse_infinite

if TYPE_CHECKING:
    from tallbayes.families.rows import RowFunctions
    from tallbayes.sources.base import Block, Source

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ORDERS = (2, 1)
SHORT = 60
"""Characters of a formula that are shown."""


class Factors(Model):
    r"""A posterior proportional to prior times :math:`\prod_i \exp(-w_i U_i(\theta))`, for any smooth U_i.

    This is the paper's general form: rows need not be functions of one linear predictor, and instead of a family
    there is what the user knows. For the expansion of order k = 1 or 2 the paper's bound ((P), eq:smh-bound) needs

    .. math:: \bar U_{k+1,i} \ge \sup_\theta \max_{|\beta| = k+1} |\partial^\beta U_i(\theta)|

    and plain factorisation a log-Lipschitz constant, :math:`|U_i(\theta') - U_i(\theta)| \le K_i |\theta' -
    \theta|_2`. A bound that is too small makes draws wrong; every row that a chain evaluates is compared with its
    bound, and one that exceeds it ends the run.

    Parameters
    ----------
    data : array_like or mapping
        Rows x columns of numbers: an array, a data frame, or a mapping from names to columns.
    potential : str or sympy.Expr or callable
        U_i. A formula in the parameters and the columns by name, whose derivatives are found symbolically; or a
        function ``potential(theta, row)`` that Numba can compile, returns a float, and comes with `gradient` and
        `hessian`.
    parameters : sequence of str
        Names of the parameters, in the order of theta.
    prior : Prior or sequence of Prior or mapping
        Prior of the parameters, e.g. ``tb.priors.Normal(0, 2.5)``: one for all, one for each, or by name; there
        is no default.
    bounds : mapping or None
        By order of derivative: 2 and 3 for the largest absolute partial derivative of that order (needed by
        ``ScalableMH`` of order 1 and 2), 1 for the log-Lipschitz constant (``FactorisedMH``). Each is a number, one
        number for each row, or a function ``bound(row)`` that Numba can compile; without the row's weight.
    gradient : callable or None
        ``gradient(theta, row, out)`` puts the gradient of U_i into out, which is zero before; not with a formula.
    hessian : callable or None
        ``hessian(theta, row, out)`` puts the matrix of second derivatives into out, likewise.
    weights : array_like or None
        Frequency weights w_i: a row of weight 3 counts as three rows.
    columns : sequence of str or None
        Names of the columns. Defaults to those of a data frame or mapping, or x0, x1, ...
    start : array_like or None
        Where the search for the mode starts; defaults to the prior's centre. All chains start around the mode found.
    """

    def __init__(
        self,
        data: ArrayLike | Mapping[str, ArrayLike],
        potential: Any,
        parameters: Sequence[str],
        *,
        prior: Prior | Sequence[Prior] | Mapping[str, Prior],
        bounds: Mapping[int, Any] | None = None,
        gradient: Callable[..., Any] | None = None,
        hessian: Callable[..., Any] | None = None,
        weights: ArrayLike | None = None,
        columns: Sequence[str] | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        self.names = _names(parameters)
        table, self.columns = _table(data, columns)
        n = table.shape[0]
        weight = frequency_weights(weights, n)
        limits = _limits({} if bounds is None else bounds, table)
        self.family = _family(potential, gradient, hessian, self.names, self.columns)
        # Bounds of their own are further columns of the rows, which the user's functions do not see the end of.
        own = [values for values in limits.values() if values.size > 1]
        places = iter(range(table.shape[1], table.shape[1] + len(own)))
        by_order = {m: float(v[0]) if v.size == 1 else next(places) for m, v in limits.items()}
        responses = np.ascontiguousarray(np.column_stack([table, *own])) if own else table
        self.rows, self.predictors = self.family.rows(by_order), Identity()
        self.source = ArraySource(np.empty((n, 0)), responses, weight, np.zeros(1), self.columns)
        self.profile = self.source.reduce(_check_table, self.columns)
        self.prior = _prior(prior, self.names)
        self.coefficient_priors = self.prior.resolve(_NoColumns(self.d), 1.0)
        self.start = _start(start, self.d, self.coefficient_priors.inside(self.coefficient_priors.centre))
        self.orders = tuple(k for k in ORDERS if k + 1 in limits)
        check_rows(self.rows, self.source, self.start, limits, self.names)
        self.checking_passes = self.source.passes

    @property
    def mode_advice(self) -> str:
        """Another start or prior."""
        return (
            "Give another start=..., near the mode and where the potential is convex, or a narrower prior; "
            "parameters should be on a scale where typical values are near 1."
        )

    @property
    def identity(self) -> list[Any]:
        """What tells this model from others, with the bounds that are one number for all rows."""
        return [*super().identity, sorted(self.rows.limits.items())]

    def starting_point(self, source: Source) -> Vector:
        """Return the user's start."""
        return self.start

    def refuse_bounds(self, m: int, *, local: bool) -> None:
        """Raise if the user gave no bound of that order, or local ones are asked for."""
        if local:
            raise InputError(
                "Local bounds need a family, whose derivatives have known extremes; tb.Factors has the bounds that you "
                "gave, for the whole space. Use bound=tb.bounds.Global(), or leave it at None."
            )
        if m > 1 + max(ORDERS):
            raise InputError(
                f"ScalableMH: order={m - 1} was asked for; tb.Factors has orders 1 and 2 (order 3 needs third "
                "derivatives of every row). Use order=2."
            )
        if m not in self.rows.limits:
            kernel = "FactorisedMH()" if m == 1 else f"ScalableMH(order={m - 1})"
            known = ", ".join(map(str, sorted(self.rows.limits)))
            raise InputError(
                f"{kernel} needs a bound on derivatives of order {m}, and the model has "
                f"{'only bounds of order ' + known if known else 'no bounds'}. "
                f"Give tb.Factors(..., bounds={{{m}: ...}}), or use tb.kernels.MetropolisHastings()."
            )

    def __repr__(self) -> str:
        """Describe the model in a line."""
        text = repr(self.family)
        short = text if len(text) <= SHORT else text[:SHORT] + " ..."
        return f"Factors({counted(self.n, 'row')}, parameters {', '.join(self.names)}: {short}, {self.prior})"


@dataclass(frozen=True, eq=False)
class FactorFamily:
    """What rows are, in the place of a family of likelihoods."""

    potential: Any
    gradient: Any
    hessian: Any
    functions: RowFunctions
    text: str
    convex = False
    parabola_slope = None

    def rows(self, limits: dict[int, float | int]) -> FactorRows:
        """Return the rows, with the user's bounds."""
        return FactorRows(self.potential, self.gradient, self.hessian, self.functions, limits)

    def __repr__(self) -> str:
        """Return the formula, or the name of the function."""
        return self.text


@dataclass(frozen=True)
class _NoColumns:
    """Priors of parameters know of no columns."""

    d: int

    @property
    def mean(self) -> Vector:
        return np.zeros(self.d)

    @property
    def spread(self) -> Vector:
        return np.zeros(self.d)

    @property
    def level(self) -> float:
        return 0.0


def _check_table(block: Block, names: list[str]) -> tuple[Vector]:
    """Return the sums of a block's columns, or raise if a value is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):  # a sum may be too large where no value is
        sums = np.sum(block.responses, axis=0)
    if not np.all(np.isfinite(sums)):
        refuse_infinite(block._replace(X=block.responses[:, : len(names)]), names, "data")
    return (sums,)


def _family(potential: Any, gradient: Any, hessian: Any, parameters: list[str], columns: list[str]) -> FactorFamily:
    """Compile the three functions of a row."""
    if callable(potential) and not hasattr(potential, "free_symbols"):
        for name, value in (("gradient", gradient), ("hessian", hessian)):
            if not callable(value):
                raise InputError(
                    f"{name}: {value!r} was given; a potential that is a function needs functions for its "
                    "derivatives too. Or write the potential as a formula: then they are found symbolically."
                )
        text = getattr(potential, "__name__", repr(potential))
        given = zip((potential, gradient, hessian), ("potential", "gradient", "hessian"), strict=True)
        value, slope, curvature = (_guarded(function, name) for function, name in given)
        return FactorFamily(value, slope, curvature, around(value, slope, curvature), text)
    if isinstance(potential, str) or hasattr(potential, "free_symbols"):
        if gradient is not None or hessian is not None:
            raise InputError("gradient, hessian: leave them out with a formula; its derivatives are symbolic.")
        return _of_formula(potential, str(potential).strip(), tuple(parameters), tuple(columns))
    raise InputError(
        f"potential: {potential!r} was given; expected a formula as text or a SymPy expression, or a function "
        "potential(theta, row)."
    )


@cache
def _of_formula(formula: Any, text: str, parameters: tuple[str, ...], columns: tuple[str, ...]) -> FactorFamily:
    """Compile the functions of a formula, once in a process."""
    expression = formulas.read(formula, parameters, columns)
    found = formulas.functions_of(expression, parameters, columns)
    value, slope, curvature = (numba.njit(nogil=True, error_model="numpy")(function) for function in found)
    return FactorFamily(value, slope, curvature, around(value, slope, curvature), text)


def _guarded(function: Any, name: str) -> Any:
    """Compile a user's function, here and now; what it raises becomes NaN, which is noticed."""
    plain = getattr(function, "py_func", function)
    wanted = ("theta", "row") if name == "potential" else ("theta", "row", "out")
    if not inspect.isfunction(plain) or len(inspect.signature(plain).parameters) != len(wanted):
        raise InputError(f"{name}: {function!r} was given; expected a function {name}({', '.join(wanted)}).")
    inner = numba.njit(nogil=True, error_model="numpy")(plain)

    def value(theta: Any, row: Any) -> Any:
        try:
            return float(inner(theta, row))
        except Exception:
            return math.nan

    def fill(theta: Any, row: Any, out: Any) -> None:
        try:
            inner(theta, row, out)
        except Exception:
            out[:] = math.nan

    vector, matrix = numba.float64[::1], numba.float64[:, ::1]
    signatures = {
        "potential": numba.float64(vector, vector),
        "gradient": numba.void(vector, vector, vector),
        "hessian": numba.void(vector, vector, matrix),
    }
    try:
        return numba.njit(signatures[name], nogil=True, error_model="numpy")(value if name == "potential" else fill)
    except Exception as error:  # Numba has many
        raise InputError(f"{name}: Numba cannot compile the function ({_first_line(error)}).") from None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), "no reason given")


def _table(data: Any, columns: Sequence[str] | None) -> tuple[Matrix, list[str]]:
    """Return the data as a matrix, with the columns' names."""
    if isinstance(data, Mapping):
        columns = list(data) if columns is None else columns
        parts = [numeric(column, f"data[{name!r}]") for name, column in data.items()]
        shapes = {part.shape for part in parts}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            found = ", ".join(f"{name!r} {part.shape}" for name, part in zip(data, parts, strict=True))
            raise InputError(f"data: columns of equal length were expected; given were {found or 'none'}.")
        array = np.column_stack(parts)
    else:
        if columns is None and hasattr(data, "columns"):
            columns = [str(column) for column in data.columns]
        array = numeric(data, "data")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"data: shape {array.shape} was given; expected rows x columns, at least one of each.")
    names = [f"x{j}" for j in range(array.shape[1])] if columns is None else [str(name) for name in columns]
    if len(names) != array.shape[1]:
        raise InputError(f"columns: {len(names)} names were given; data has {counted(array.shape[1], 'column')}.")
    return writable_view(np.ascontiguousarray(array, dtype=np.float64)), names


def _names(parameters: Sequence[str]) -> list[str]:
    if isinstance(parameters, str) or not all(isinstance(name, str) for name in parameters) or not len(parameters):
        raise InputError(f"parameters: {parameters!r} was given; expected a list of names, e.g. ['a', 'b'].")
    names = list(parameters)
    if len(set(names)) != len(names):
        raise InputError(f"parameters: {names!r} was given; names must differ.")
    return names


def _prior(prior: Any, names: list[str]) -> Prior:
    if prior is None:
        raise InputError("prior: None was given; tb.Factors has no default. Give e.g. tb.priors.Normal(0, 2.5).")
    chosen = each(prior, names)
    parts = chosen.priors if isinstance(chosen, Each) else (chosen,)
    if any(isinstance(part, WeaklyInformative) for part in parts):
        raise InputError(
            "prior: WeaklyInformative, which is also what a dictionary leaves out, is scaled to the columns of a "
            "regression; tb.Factors needs one that says what is known of each parameter, e.g. "
            "tb.priors.Normal(0, 2.5)."
        )
    return chosen


def _start(start: ArrayLike | None, d: int, default: Vector) -> Vector:
    if start is None:
        return np.array(default, dtype=np.float64)
    array = np.asarray(numeric(start, "start"), dtype=np.float64)
    if array.shape != (d,) or not np.all(np.isfinite(array)):
        raise InputError(f"start: {start!r} was given; expected {d} finite numbers, one for each parameter.")
    return np.ascontiguousarray(array)


def _limits(bounds: Mapping[int, Any], table: Matrix) -> dict[int, Vector]:
    """Return bounds by order of derivative: one number, or one for each row."""
    if not isinstance(bounds, Mapping):
        raise InputError(
            f"bounds: {bounds!r} was given; expected a dictionary from orders to bounds, e.g. {{3: 0.1}}."
        )
    found = {}
    for m, given in bounds.items():
        if m not in (1, 2, 3):
            raise InputError(
                f"bounds: {m!r} was given; the keys are orders of derivatives: 1 (log-Lipschitz constant), 2 and 3 "
                "(largest partial derivative)."
            )
        what = f"bounds[{m}]"
        values = per_row(_of_rows(given, what, table) if callable(given) else given, table.shape[0], what, math.nan)
        bad = np.flatnonzero(~(values >= 0.0))
        if bad.size:
            raise InputError(f"{what}: row {bad[0]} has {values[bad[0]]}; bounds must be zero or positive numbers.")
        found[int(m)] = values
    return found


def _of_rows(bound: Callable[..., Any], what: str, table: Matrix) -> Vector:
    function = numba.njit(error_model="numpy")(getattr(bound, "py_func", bound))

    def fill(table: Matrix, out: Vector) -> None:
        for i in range(table.shape[0]):
            out[i] = function(table[i])

    out = np.empty(table.shape[0])
    try:
        numba.njit(fill)(table, out)
    except numba.core.errors.NumbaError as error:
        raise InputError(f"{what}: Numba cannot compile the function ({_first_line(error)}).") from None
    return out
