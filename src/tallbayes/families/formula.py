"""A user's formula for a row's potential: read safely, normalised, and reduced to one-variable curves.

Text is read by Python's own parser and rebuilt node by node from a short list of what is allowed: nothing in it is
ever evaluated. Functions that would overflow or cancel are kept whole, as symbols with rules of their own.
"""

import ast
import math
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from tallbayes.errors import InputError, MissingPackageError

FUNCTIONS = "exp, log, log1p, expm1, sqrt, softplus, expit, tanh, cosh, sinh, logcosh, log_ndtr, log1mexp, atan"
"""Offered in formulas."""
ROUGH = {"abs", "Abs", "fabs", "max", "min", "maximum", "minimum", "sign", "floor", "ceil", "round"}
LARGEST_POWER, LONGEST = 64, 400
"""Larger powers and longer formulas (in operations) are refused: no proof about them would end."""
SIMPLE = 150
"""Operations of an expression that SymPy can simplify in a moment."""


def load_sympy() -> Any:
    """Import SymPy, or say how to get it."""
    try:
        import sympy
    except ImportError:
        raise MissingPackageError(
            "tb.families.custom needs SymPy and python-flint: pip install 'tallbayes[custom]'"
        ) from None
    return sympy


@cache
def heads() -> SimpleNamespace:
    """Return the functions that are kept whole, as SymPy functions that know their derivatives."""
    sympy: Any = load_sympy()
    function: Any = sympy.Function

    class softplus(function):  # noqa: N801
        def fdiff(self, argindex: int = 1) -> Any:
            return expit(self.args[0])

    class expit(function):  # noqa: N801
        def fdiff(self, argindex: int = 1) -> Any:
            return self * expit(-self.args[0])

    class log1mexp(function):  # noqa: N801
        def fdiff(self, argindex: int = 1) -> Any:
            return (1 - self.args[0] * bose_slope(self.args[0])) / self.args[0]

    class bose_slope(function):  # noqa: N801
        # V = (1 - U) / x with U = x / (e^x - 1): U' = U (1 - x - U) / x gives V' = (U (1 - V) - V) / x.
        def fdiff(self, argindex: int = 1) -> Any:
            x = self.args[0]
            return ((1 - x * self) * (1 - self) - self) / x

    class bose(function):  # noqa: N801
        pass

    class log_ndtr(function):  # noqa: N801
        def fdiff(self, argindex: int = 1) -> Any:
            return hazard(-self.args[0])

    class hazard(function):  # noqa: N801
        def fdiff(self, argindex: int = 1) -> Any:
            return self * (self - self.args[0])

    class mills(function):  # noqa: N801
        # K_n of families/probit.py: mills(n, x).
        def fdiff(self, argindex: int = 2) -> Any:
            n, x = self.args
            return -self * (mills(n + 1, x) - self)

    return SimpleNamespace(
        softplus=softplus,
        expit=expit,
        log1mexp=log1mexp,
        bose_slope=bose_slope,
        bose=bose,
        log_ndtr=log_ndtr,
        hazard=hazard,
        mills=mills,
    )


def _named_functions() -> dict[str, Any]:
    sympy, own = load_sympy(), heads()
    return {
        "exp": sympy.exp,
        "log": sympy.log,
        "log1p": lambda x: sympy.log(1 + x),
        "expm1": lambda x: sympy.exp(x) - 1,
        "sqrt": sympy.sqrt,
        "softplus": own.softplus,
        "expit": own.expit,
        "tanh": sympy.tanh,
        "cosh": sympy.cosh,
        "sinh": sympy.sinh,
        "logcosh": lambda x: own.softplus(2 * x) - x,
        "log_ndtr": own.log_ndtr,
        "log1mexp": own.log1mexp,
        "atan": sympy.atan,
    }


def is_noise(formula: Any) -> bool:
    """Return whether a formula is one of noise: u is in it."""
    if isinstance(formula, str):
        tree = parse(formula, "custom", "exp(eta) - y*eta")
        return any(isinstance(node, ast.Name) and node.id == "u" for node in ast.walk(tree))
    return any(symbol.name == "u" for symbol in getattr(formula, "free_symbols", ()))


def read(formula: Any, values: dict[str, float], variables: tuple[str, ...] = ("eta", "y")) -> Any:
    """Return a SymPy expression in eta, y (or u, of noise) and the parameters, normalised."""
    sympy = load_sympy()
    names = {name: sympy.Symbol(name, real=True) for name in variables}
    for name, value in values.items():
        names[name] = sympy.Symbol(name, real=True, positive=True if value > 0.0 else None)
    if isinstance(formula, str):
        expression = Reader(names).visit(parse(formula, "custom", "exp(eta) - y*eta"))
    elif isinstance(formula, sympy.Expr):
        expression = formula
    else:
        raise InputError(f"custom: {formula!r} was given; expected a formula as text or a SymPy expression.")
    _refuse_large(expression)
    expression = expression.xreplace(
        {s: names[s.name] for s in expression.free_symbols if s.name in names and s is not names[s.name]}
    )
    unknown = sorted(s.name for s in expression.free_symbols if s.name not in names)
    if unknown:
        if "u" in names and unknown[0] in ("eta", "scale", "y"):
            raise InputError(
                f"custom: the formula has u and {unknown[0]!r}. One in u is of noise alone: u is (y - eta)/scale, and "
                "log(scale) is added to it. Write it in u, or in eta and y."
            )
        raise InputError(
            f"custom: {unknown[0]!r} in the formula is neither {', '.join(variables)} nor a parameter. Give its value, "
            f"e.g. tb.families.custom(formula, {unknown[0]}=1.0)."
        )
    if names[variables[0]] not in expression.free_symbols:
        raise InputError("custom: the formula does not contain eta, the linear predictor.")
    unused = [name for name in values if names[name] not in expression.free_symbols]
    if unused:
        name = unused[0]
        raise InputError(f"custom: {name}={values[name]!r} was given, but the formula has no {name!r}.")
    expression = normalise(expression)
    _refuse_other_functions(expression)
    given = expression.xreplace({names[name]: sympy.Rational(value) for name, value in values.items()})
    if given.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
        shown = ", ".join(f"{name}={value:g}" for name, value in values.items())
        raise InputError(f"custom: with {shown} the formula divides by zero or is infinite for every predictor.")
    return expression


def parse(text: str, owner: str, example: str) -> ast.expr:
    """Return a formula as Python's parser reads it, or say why it cannot be used."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        operations = sum(isinstance(node, ast.operator | ast.Call) for node in ast.walk(tree))
    except (RecursionError, MemoryError):
        operations = LONGEST + 1
    except (SyntaxError, ValueError) as error:
        raise InputError(
            f"{owner}: the formula {text!r} cannot be read ({error}). Write e.g. {example!r}."
        ) from None
    if operations > LONGEST:
        raise InputError(f"{owner}: the formula has more than {LONGEST} operations; write a shorter one.")
    return tree.body


def _refuse_large(expression: Any) -> None:
    """Raise if a SymPy expression is too long, or has a power too large."""
    sympy = load_sympy()
    if sympy.count_ops(expression) > LONGEST:
        raise InputError(f"custom: the formula has more than {LONGEST} operations; write a shorter one.")
    for power in expression.atoms(sympy.Pow):
        _refuse_power(power.exp, "custom")


def _refuse_power(exponent: Any, owner: str) -> None:
    if exponent.is_number and not abs(exponent) <= LARGEST_POWER:
        raise InputError(f"{owner}: the power {str(exponent)[:20]} is too large; expected {LARGEST_POWER} at most.")


class Reader(ast.NodeVisitor):
    """Rebuild a parsed formula from what is allowed."""

    owner = "custom"
    """Whose formula it is, for messages."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.functions = _named_functions()

    def generic_visit(self, node: ast.AST) -> Any:
        """Refuse what is not allowed."""
        rough = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ROUGH
        hint = " (A potential needs four derivatives: use a smooth function instead.)" if rough else ""
        raise InputError(
            f"{self.owner}: {ast.unparse(node)!r} is not allowed in a formula; use numbers, eta, y, parameters, + - * "
            f"/ ** and the functions {FUNCTIONS}.{hint}"
        )

    def visit_Constant(self, node: ast.Constant) -> Any:
        """Return a number."""
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return self.generic_visit(node)
        if not math.isfinite(node.value):
            raise InputError(f"{self.owner}: a number in the formula is {node.value}; expected finite ones.")
        return load_sympy().Rational(node.value)

    def visit_Name(self, node: ast.Name) -> Any:
        """Return pi, a known symbol, or a new one."""
        if node.id == "pi":
            return load_sympy().pi
        return self.names.get(node.id) or load_sympy().Symbol(node.id)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Return a signed term."""
        if isinstance(node.op, ast.USub):
            return -self.visit(node.operand)
        if isinstance(node.op, ast.UAdd):
            return self.visit(node.operand)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Return a sum, difference, product, ratio or power."""
        left, right = self.visit(node.left), self.visit(node.right)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
            case ast.Pow():
                _refuse_power(right, self.owner)
                return left**right
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Return a known function of one argument."""
        if not (isinstance(node.func, ast.Name) and node.func.id in self.functions):
            return self.generic_visit(node)
        if len(node.args) != 1 or node.keywords:
            raise InputError(f"{self.owner}: {ast.unparse(node)!r}: functions in a formula take one argument.")
        return self.functions[node.func.id](self.visit(node.args[0]))


def normalise(expression: Any) -> Any:
    """Rewrite logs of sums of exponentials, and hyperbolic functions, by functions that do not overflow."""
    sympy, own = load_sympy(), heads()
    expression = expression.replace(sympy.tanh, lambda x: 2 * own.expit(2 * x) - 1)
    expression = expression.replace(
        lambda e: isinstance(e, sympy.log) and isinstance(e.args[0], sympy.cosh),
        lambda e: own.softplus(2 * e.args[0].args[0]) - e.args[0].args[0] - sympy.log(2),
    )
    expression = expression.replace(sympy.cosh, lambda x: (sympy.exp(x) + sympy.exp(-x)) / 2)
    expression = expression.replace(sympy.sinh, lambda x: (sympy.exp(x) - sympy.exp(-x)) / 2)
    return expression.replace(sympy.log, _log)


def _log(x: Any) -> Any:
    sympy, own = load_sympy(), heads()
    terms = sympy.Add.make_args(x)
    if len(terms) == 2:
        (first, u), (second, v) = map(_exponential, terms)
        if u is not None and v is not None and first.is_positive and second.is_positive:
            return u + sympy.log(first) + own.softplus(v - u + sympy.log(second / first))
        for a, b in (terms, terms[::-1]):
            factor, power = _exponential(b)
            if power is None or a.has(sympy.exp):
                continue
            if a.is_positive and factor.is_positive:
                return sympy.log(a) + own.softplus(power + sympy.log(factor / a))
            if a == 1 and factor == -1:
                return own.log1mexp(-power)
    return sympy.log(x)


def _exponential(x: Any) -> tuple[Any, Any]:
    """Return (c, u) with x = c exp(u), or (x, None)."""
    sympy = load_sympy()
    factor, power = sympy.Integer(1), sympy.Integer(0)
    found = False
    for part in sympy.Mul.make_args(x):
        if isinstance(part, sympy.exp):
            power += part.args[0]
            found = True
        else:
            factor *= part
    return (factor, power) if found else (x, None)


def _refuse_other_functions(expression: Any) -> None:
    sympy = load_sympy()
    allowed = (sympy.exp, sympy.log, sympy.atan, *vars(heads()).values())
    for e in sympy.preorder_traversal(expression):
        if isinstance(e, sympy.Function) and not isinstance(e, allowed):
            raise InputError(
                f"custom: the function {type(e).__name__} is not known; a formula may use {FUNCTIONS}. "
                "(A potential needs four derivatives, so there is no absolute value, maximum or step.)"
            )
        if (
            not isinstance(e, sympy.Expr)
            or e.is_commutative is False
            or e in (sympy.oo, sympy.zoo, sympy.nan, sympy.I)
        ):
            raise InputError(
                f"custom: {e} cannot be part of a formula: expected real numbers and functions of them."
            )


@dataclass(frozen=True)
class Reduced:
    """U = m(y) g(s eta + c(y)) + l(y) eta, up to a constant: g in t, one for each piece; m, c, l in y."""

    kind: str
    """How t depends on eta: "predictor" or "classes" (eta), "residual" (y - eta), "log-residual" (log y - eta), "noise"
    ((y - eta) / scale)."""
    curves: tuple[Any, ...]
    multiple: Any
    slope: Any
    shift: Any
    linear: Any
    responses: tuple[float, ...] = ()


def reduce_noise(expression: Any) -> Reduced:
    """Return noise, a function of u = (y - eta) / scale, as a curve; the scale is a parameter."""
    sympy = load_sympy()
    u, y, t = (sympy.Symbol(name, real=True) for name in ("u", "y", "t"))
    scale = sympy.Symbol("scale", positive=True)
    g = _without_constant(expression.subs(u, t), t)
    return Reduced("noise", (g,), sympy.Integer(1), -1 / scale, y / scale, sympy.Integer(0))


def reduce(expression: Any, responses: tuple[float, ...] | None) -> Reduced:
    """Find g, m, s, c, l, or say that the formula has no such form."""
    sympy = load_sympy()
    eta, y, t = sympy.Symbol("eta", real=True), sympy.Symbol("y", real=True), sympy.Symbol("t", real=True)
    zero, one = sympy.Integer(0), sympy.Integer(1)
    if responses is not None:
        curves = tuple(
            _without_constant(normalise(expression.subs(y, sympy.Rational(r))).subs(eta, t), t) for r in responses
        )
        return Reduced("classes", curves, one, 1.0, zero, zero, responses)
    if y not in expression.free_symbols:
        return Reduced("predictor", (_without_constant(expression.subs(eta, t), t),), one, 1.0, zero, zero)
    positive = sympy.Symbol("y", positive=True)
    second = sympy.diff(expression, eta, 2)
    # t = y - eta, or log y - eta: the second derivative does not depend on y once eta is replaced.
    for kind, symbol, shift in (("residual", y, y), ("log-residual", positive, sympy.log(positive))):
        whole = normalise(expression.xreplace({y: symbol}))
        moved = simplified(sympy.diff(whole, eta, 2).subs(eta, shift - t))
        if symbol not in moved.free_symbols:
            at = zero if kind == "residual" else one
            g = _without_constant(normalise(expression.subs(y, at).subs(eta, -t)), t)
            linear = simplified(sympy.diff(whole - g.subs(t, shift - eta), eta))
            if eta not in linear.free_symbols:
                back = {positive: y}
                return Reduced(kind, (g,), one, -1.0, shift.xreplace(back), linear.xreplace(back))
    # t = eta: the second derivative is a function of y times one of eta.
    for at in (0, 1, 2):
        base = second.subs(y, at)
        if base == 0 or (not base.is_finite and base.has(sympy.zoo, sympy.nan, sympy.oo)):
            continue
        multiple = simplified(second / base)
        if eta not in multiple.free_symbols:
            g = expression.subs(y, at)
            linear = simplified(sympy.diff(expression - multiple * g, eta))
            if eta not in linear.free_symbols:
                return Reduced("predictor", (_without_constant(g.subs(eta, t), t),), multiple, 1.0, zero, linear)
    raise InputError(
        f"custom: {expression} is not of the form m(y) g(t) + l(y) eta with t = eta, y - eta or log(y) - eta. If "
        "the response takes few values give them, e.g. responses=(0, 1), and each has a function of its own; "
        "other potentials are not functions of one curve."
    )


def simplified(e: Any) -> Any:
    """Return an expression as SymPy simplifies it; a long one only as a ratio of sums, which takes bounded time."""
    sympy = load_sympy()
    if sympy.count_ops(e) <= SIMPLE:
        found = sympy.simplify(e)
        # SymPy likes hyperbolic functions better than the exponentials that they were replaced by.
        return e if found.has(sympy.sinh, sympy.cosh, sympy.tanh, sympy.coth, sympy.sech, sympy.csch) else found
    return sympy.cancel(e) if sympy.count_ops(e) <= 10 * SIMPLE else e


def _without_constant(g: Any, t: Any) -> Any:
    """Leave out what does not depend on t; softplus(a) - a, which cancels, becomes softplus(-a)."""
    sympy, own = load_sympy(), heads()
    parts = [part for part in sympy.Add.make_args(sympy.expand_mul(g)) if t in part.free_symbols]
    slope = sum(part / t for part in parts if t not in (part / t).free_symbols)
    for k, part in enumerate(parts):
        factor, function = part.as_independent(t, as_Add=False)
        if (
            isinstance(function, own.softplus)
            and sympy.expand(slope + factor * sympy.diff(function.args[0], t)) == 0
        ):
            rest = [p for j, p in enumerate(parts) if j != k and t in (p / t).free_symbols]
            return sympy.Add(factor * own.softplus(-function.args[0]), *rest)
    return sympy.Add(*parts)
