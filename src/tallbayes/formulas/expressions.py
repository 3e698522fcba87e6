"""Expressions of a formula, such as ``log(x)`` or ``bs(hour, df=5)``: read, checked, and evaluated by hand.

Nothing here is given to Python's `eval`: a formula may come from a command line or from a result that somebody sent,
so only what is listed in this file is ever called.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.formulas.columns import Labels, Value
from tallbayes.models.variables import BeyondError

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Mod: np.mod,
    ast.FloorDiv: np.floor_divide,
    ast.BitAnd: lambda a, b: np.logical_and(a, b).astype(np.float64),
    ast.BitOr: lambda a, b: np.logical_or(a, b).astype(np.float64),
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Invert: lambda a: np.logical_not(a).astype(np.float64),
    ast.Not: lambda a: np.logical_not(a).astype(np.float64),
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
"""What may stand between two values, or before one."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "I": lambda x: x,
    "log10": np.log10,
    "exp10": lambda x: np.power(10.0, x),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "clip": np.clip,
    "where": np.where,
    **{
        name: getattr(np, name)
        for name in (
            *("log", "log2", "log1p", "exp", "exp2", "expm1", "sqrt", "cbrt", "square", "abs", "sign"),
            *("sin", "cos", "tan", "tanh", "arctan", "floor", "ceil", "round"),
        )
    },
}
"""Functions of a row's values alone."""

STATEFUL = ("bs", "cr", "cs", "cc", "center", "scale", "standardize", "poly")
"""Transforms of formulaic that learn from all rows: their knots, means and scales are kept with the model."""

CONTRASTS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")
REGISTERED_CONTRASTS = ("treatment", "sum", "helmert", "diff", "poly", "SAS")
"""Codings of formulaic, as ``C(x, Sum)`` and ``C(x, contr.sum)``."""

DATA, FORMULA_ONLY = "data", ("C", "Q", "offset", "p")


@dataclass(frozen=True)
class Categories:
    """What ``C(...)`` makes of a column: labels to be coded, by contrasts and levels if the formula says which."""

    values: Any
    contrasts: Any = None
    levels: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Several:
    """Several columns that one transform makes of a variable, such as the basis of a spline."""

    columns: dict[str, NDArray[np.float64]]
    spans_intercept: bool
    drop: str | None
    pattern: str


@dataclass(frozen=True)
class Expression:
    """A part of a formula that was read and found harmless."""

    text: str
    node: ast.expr
    columns: tuple[str, ...]
    """Columns of the data that it needs."""
    learned: tuple[str, ...]
    """Transforms in it that learn from all rows."""

    @property
    def call(self) -> str | None:
        """The function it is a call of, if it is one."""
        return _function_name(self.node.func) if isinstance(self.node, ast.Call) else None

    @property
    def name(self) -> str | None:
        """The column that it is and nothing more, if it is one."""
        node: ast.AST = self.node
        while isinstance(node, ast.Call) and _function_name(node.func) == "I" and len(node.args) == 1:
            node = node.args[0]
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Call) and _function_name(node.func) == "Q":
            return self.columns[0]
        return None

    @property
    def learned_from(self) -> tuple[str, ...]:
        """Columns inside of transforms that learn from all rows."""
        return tuple(name for part in _learning(self.node) for name in _columns_in(part))

    @property
    def bounded(self) -> tuple[str, ...]:
        """Columns in B-splines that are not defined beyond the data they were learned from."""
        calls = [part for part in ast.walk(self.node) if isinstance(part, ast.Call) and _ends_with_data(part)]
        return tuple(name for call in calls for name in _columns_in(call))

    def argument(self, position: int) -> "Expression":
        """Return an argument of the call as an expression of its own."""
        node = self.node.args[position]  # type: ignore[attr-defined]
        return Expression(ast.unparse(node), node, tuple(_columns_in(node)), tuple(_learned_in(node)))


def column(name: str) -> Expression:
    """Return the expression that is a column, whatever its name."""
    return Expression(name, ast.Name(name), (name,), ())


def read(text: str) -> Expression:
    """Return an expression, or say which part of it is not for formulas."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"formula: {text!r} was given; expected a column, or an expression such as 'log(x)'.")
    plain, quoted = _without_backticks(text)
    try:
        node = ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise InputError(f"formula: {text!r} cannot be read; look for a bracket or an operator too many.") from None
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in quoted:
            part.id = quoted[part.id]
    _check(node, text)
    return Expression(text, node, tuple(_columns_in(node)), tuple(_learned_in(node)))


def _without_backticks(text: str) -> tuple[str, dict[str, str]]:
    """Return text with names that stand in for those between backticks, and what they stand for."""
    quoted: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        name = f"_quoted_{len(quoted)}_"
        quoted[name] = match.group(1)
        return name

    return re.sub(r"`([^`]+)`", stand_in, text), quoted


def _function_name(node: ast.expr) -> str | None:
    """Return the name of a function: ``log``, ``np.log`` or ``contr.sum``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def _is_function(name: str | None) -> bool:
    if name is None:
        return False
    head, _, tail = name.rpartition(".")
    if head == "np":
        return tail in FUNCTIONS
    if head == "contr":
        return tail in REGISTERED_CONTRASTS
    return head == "" and (tail in FUNCTIONS or tail in STATEFUL or tail in CONTRASTS or tail in FORMULA_ONLY)


def _check(node: ast.AST, text: str) -> None:
    """Raise unless a part of an expression, and all in it, is on the lists above."""
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        name = _function_name(node.func)
        if not _is_function(name):
            raise InputError(
                f"formula: {ast.unparse(node.func)!r} in {text!r} is not a function that formulas know. A formula runs "
                f"no Python beyond these: {', '.join(known_functions())}. Make a column of it first."
            )
        if any(keyword.arg is None for keyword in node.keywords):
            raise InputError(f"formula: {text!r} has arguments with **; expected them by name.")
        if name == "Q" and not (len(node.args) == 1 and isinstance(node.args[0], ast.Constant)):
            raise InputError(f"formula: {text!r}: Q takes the name of a column as text, e.g. Q('my column').")
        children = [*node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.Attribute):
        if not _is_function(_function_name(node)):
            raise _not_for_formulas(node, text)
        children = []
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, int | float | str | type(None)):
            raise _not_for_formulas(node, text)
    elif isinstance(node, ast.BinOp | ast.UnaryOp):
        if type(node.op) not in OPERATORS:
            raise _not_for_formulas(node, text)
        children = [child for child in children if isinstance(child, ast.expr)]
    elif isinstance(node, ast.Compare):
        operators = (*OPERATORS, ast.In, ast.NotIn)
        if len(node.ops) != 1 or type(node.ops[0]) not in operators:
            raise _not_for_formulas(node, text)
        children = [node.left, *node.comparators]
    elif isinstance(node, ast.List | ast.Tuple):
        children = list(node.elts)
    elif isinstance(node, ast.Name):
        children = []
    else:
        raise _not_for_formulas(node, text)
    for child in children:
        _check(child, text)


def _not_for_formulas(node: ast.AST, text: str) -> InputError:
    return InputError(
        f"formula: {ast.unparse(node)!r} in {text!r} is Python, which a formula does not run; expected columns, "
        f"numbers, + - * / **, comparisons, and these functions: {', '.join(known_functions())}. Make a column of it "
        "first."
    )


def known_functions() -> list[str]:
    """Return the functions that formulas know."""
    return sorted([*FUNCTIONS, *STATEFUL, "C", "Q", "offset"], key=str.lower)


def _columns_in(node: ast.AST) -> list[str]:
    """Return the columns that an expression needs, each once, in their order."""
    found: dict[str, None] = {}

    def visit(part: ast.AST) -> None:
        if isinstance(part, ast.Call):
            if _function_name(part.func) == "Q":
                found[str(part.args[0].value)] = None  # type: ignore[attr-defined]
                return
            given = [*part.args, *(keyword.value for keyword in part.keywords)]
            for number, child in enumerate(given):
                coding = _function_name(part.func) == "C" and number > 0 and _function_name(child) in CONTRASTS
                if not coding:
                    visit(child)
        elif isinstance(part, ast.Name):
            found[part.id] = None
        elif not isinstance(part, ast.Attribute):
            for inner in ast.iter_child_nodes(part):
                visit(inner)

    visit(node)
    return list(found)


def _learning(node: ast.AST) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call) and _function_name(part.func) in STATEFUL]


def _learned_in(node: ast.AST) -> list[str]:
    return [ast.unparse(part) for part in _learning(node)]


@cache
def _transforms() -> Mapping[str, Any]:
    from formulaic.transforms import TRANSFORMS

    return TRANSFORMS


States = dict[str, dict[Any, Any]]
"""What transforms have learned, by the text of their calls."""


class Beyond(States):
    """The same, for the two ends of a slope's tiny step: splines go on beyond the ends of the data."""


SPLINES = ("bs", "cr", "cs", "cc")
EXTRAPOLATION = 7
"""Place of that argument among those of ``bs``."""


def evaluate(expression: Expression, columns: Mapping[str, Value], states: States) -> Any:
    """Return the value of an expression on some rows.

    Parameters
    ----------
    expression : Expression
        The expression.
    columns : mapping
        Numbers or labels of each column that it needs.
    states : dict
        What transforms have learned; those that are not there learn from these rows and are added.

    Returns
    -------
    array, Labels, Categories or Several
        What it stands for.
    """
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by the caller, who knows the term
            return _value(expression.node, columns, states)
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, np.linalg.LinAlgError) as error:
        raise InputError(f"formula: {expression.text!r} cannot be evaluated: {error}") from None


def _value(node: ast.AST, columns: Mapping[str, Value], states: States) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return columns[node.id] if node.id in columns else _contrasts(node)
    if isinstance(node, ast.Attribute):
        return _contrasts(node)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(child, columns, states) for child in node.elts]
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](_number(_value(node.operand, columns, states), node))
    if isinstance(node, ast.BinOp):
        sides = (_number(_value(side, columns, states), node) for side in (node.left, node.right))
        return OPERATORS[type(node.op)](*sides)
    if isinstance(node, ast.Compare):
        sides = (_value(side, columns, states) for side in (node.left, node.comparators[0]))
        return _compared(node, *sides)
    assert isinstance(node, ast.Call)
    return _called(node, columns, states)


def _called(node: ast.Call, columns: Mapping[str, Value], states: States) -> Any:
    name = str(_function_name(node.func))
    if name == "Q":
        return columns[str(node.args[0].value)]  # type: ignore[attr-defined]
    given = [_value(argument, columns, states) for argument in node.args]
    named = {str(keyword.arg): _value(keyword.value, columns, states) for keyword in node.keywords}
    if name == "C":
        return _categories(*given, **named)
    if name in CONTRASTS or name.startswith("contr."):
        return _contrasts(node.func)(*given, **named)
    if not given:
        raise InputError(f"formula: {ast.unparse(node)!r} has no argument; expected a column first.")
    if name in STATEFUL:
        first = np.asarray(_number(given[0], node), dtype=np.float64)
        state = states.setdefault(ast.unparse(node), {})
        if name in SPLINES and isinstance(states, Beyond):
            named |= {} if len(given) > EXTRAPOLATION else {"extrapolation": named.get("extrapolation", "extend")}
        _refuse_beyond(node, first, state, named)
        return _several(_transforms()[name](first, *given[1:], **named, _state=state))
    if name == "I":
        return given[0]
    if name in {"offset", "p"}:
        raise InputError(f"formula: {ast.unparse(node)!r} must stand alone, not inside another expression.")
    return FUNCTIONS[name.removeprefix("np.")](*(_number(value, node) for value in given), **named)


def _refuse_beyond(
    node: ast.Call, values: NDArray[np.float64], state: Mapping[Any, Any], named: Mapping[str, Any]
) -> None:
    """Raise if values lie outside the data that a spline was learned from, unless the formula says what it does there.

    Only B-splines: natural and cyclic ones go on beyond their knots by their definition.
    """
    said = len(node.args) > EXTRAPOLATION or named.get("extrapolation", "raise") != "raise"
    if _function_name(node.func) != "bs" or "knots" not in state or said:
        return
    low, high = float(state["lower_bound"]), float(state["upper_bound"])
    outside = values[(values < low) | (values > high)]
    if outside.size:
        raise BeyondError(
            f"formula: {ast.unparse(node)!r} was made for values from {low:g} to {high:g}; {float(outside[0]):g} lies "
            "beyond them. Keep to these values, or say in the formula what the spline does beyond them: "
            "bs(..., extrapolation='clip') or 'extend'."
        )


def _ends_with_data(node: ast.Call) -> bool:
    """Return whether a call is a B-spline of which the formula does not say what it does beyond its data."""
    said = [word.value for word in node.keywords if word.arg == "extrapolation"]
    raises = all(isinstance(value, ast.Constant) and value.value == "raise" for value in said)
    return _function_name(node.func) == "bs" and len(node.args) <= EXTRAPOLATION and raises


def _number(value: Any, node: ast.AST) -> Any:
    """Return numbers, or say that something else stands where numbers are needed."""
    if isinstance(value, Labels):
        examples = ", ".join(repr(level) for level in list(value.values)[:3])
        raise InputError(
            f"formula: {ast.unparse(node)!r} needs numbers; the column holds labels such as {examples}. Use it as a "
            "categorical term, or convert it to numbers first."
        )
    if isinstance(value, Categories | Several):
        raise InputError(
            f"formula: {ast.unparse(node)!r} computes with something that is several columns. Use C(...) and splines "
            "as terms of their own."
        )
    return value


def _compared(node: ast.Compare, left: Any, right: Any) -> NDArray[np.float64]:
    """Return 1 where a comparison holds and 0 where not."""
    operator = type(node.ops[0])
    if operator in {ast.In, ast.NotIn}:
        options = right if isinstance(right, list) else [right]
        if isinstance(left, Labels):
            inside = left.where([str(value) in map(str, options) for value in left.values])
        else:
            inside = np.isin(np.asarray(_number(left, node)), np.asarray(options, dtype=np.float64))
        return (inside if operator is ast.In else ~inside).astype(np.float64)
    if isinstance(right, Labels) and not isinstance(left, Labels) and operator in {ast.Eq, ast.NotEq}:
        left, right = right, left
    if isinstance(left, Labels):
        if operator not in {ast.Eq, ast.NotEq} or isinstance(right, Labels | np.ndarray | list):
            raise InputError(
                f"formula: {ast.unparse(node)!r} compares labels; only == and != with one level can be."
            )
        equal = left.where([str(value) == str(right) for value in left.values])
        return (equal if operator is ast.Eq else ~equal).astype(np.float64)
    return np.asarray(OPERATORS[operator](_number(left, node), _number(right, node))).astype(np.float64)


def _contrasts(node: ast.AST) -> Any:
    """Return a coding by its name."""
    name = _function_name(node)  # type: ignore[arg-type]
    if name in CONTRASTS:
        return _transforms()[name]
    head, _, tail = str(name).partition(".")
    if head == "contr" and tail in REGISTERED_CONTRASTS:
        return getattr(_transforms()["contr"], tail)
    raise InputError(f"formula: {ast.unparse(node)!r} is not a value.")


def _categories(values: Any = None, contrasts: Any = None, *, levels: Any = None, **other: Any) -> Categories:
    if other:
        raise InputError(f"formula: C(...) has no argument {next(iter(other))!r}; it takes a coding and levels.")
    if isinstance(values, Categories):
        values = values.values
    if not isinstance(values, Labels | np.ndarray):
        raise InputError(
            "formula: C(...) takes a column, e.g. C(month), C(month, Sum) or C(month, levels=[1, 2, 3])."
        )
    if callable(contrasts) and not hasattr(contrasts, "get_coding_matrix"):
        contrasts = contrasts()
    if levels is not None and len(set(levels)) < len(levels):
        raise InputError(f"formula: C(..., levels={levels}) has a level twice; expected different ones.")
    return Categories(values, contrasts, None if levels is None else tuple(levels))


def _several(result: Any) -> Any:
    """Return what a transform made as numbers, or as several columns."""
    about = getattr(result, "__formulaic_metadata__", None)
    plain = getattr(result, "__wrapped__", result)
    if isinstance(plain, Mapping):
        columns = {str(key): np.asarray(value, dtype=np.float64) for key, value in plain.items()}
    else:
        array = np.asarray(plain, dtype=np.float64)
        if array.ndim == 1:
            return array
        names = about.column_names if about is not None and about.column_names else range(1, array.shape[1] + 1)
        columns = {str(name): array[:, j] for j, name in enumerate(names)}
    spans = bool(about is not None and about.spans_intercept)
    drop = None if about is None or about.drop_field is None else str(about.drop_field)
    return Several(columns, spans, drop, "{name}[{field}]" if about is None else str(about.format))
