"""A row's potential written as a formula: read, differentiated and turned into the source of compiled functions.

Text is read by Python's own parser and rebuilt node by node from a short list of what is allowed; nothing in it is
evaluated. Logs of sums of exponentials are rewritten by functions that do not overflow.
"""

import ast
import keyword
import math
from collections.abc import Callable, Sequence
from typing import Any

from tallbayes.errors import InputError, MissingPackageError
from tallbayes.families.elementary import expit, softplus
from tallbayes.families.formula import Reader, heads, parse

FUNCTIONS = ["exp", "log", "log1p", "sqrt", "softplus", "expit", "logsumexp", "tanh", "atan"]
"""Functions that a formula may use."""


def load_sympy() -> Any:
    """Import SymPy, or say how to get it."""
    try:
        import sympy
    except ImportError:
        raise MissingPackageError(
            "tb.Factors needs SymPy for a formula: pip install 'tallbayes[custom]'. Or give potential, gradient "
            "and hessian as functions."
        ) from None
    return sympy


def logsumexp(*terms: Any) -> Any:
    """log(sum of exp of the terms) as a + softplus(rest - a)."""
    first, *others = terms
    return first + heads().softplus(logsumexp(*others) - first) if others else first


def read(formula: Any, parameters: Sequence[str], columns: Sequence[str]) -> Any:
    """Return a formula, text or a SymPy expression, as an expression in real symbols named as given."""
    sympy = load_sympy()
    _check_names([*parameters, *columns])
    symbols = {name: sympy.Symbol(name, real=True) for name in (*parameters, *columns)}
    if isinstance(formula, str):
        tree = parse(formula, "potential", "(a + b*x - y)**2/2")
        expression = sympy.sympify(_FactorReader(symbols).visit(tree))
    else:
        expression = formula.xreplace({s: symbols[s.name] for s in formula.free_symbols if s.name in symbols})
    unknown = sorted(s.name for s in expression.free_symbols if s not in symbols.values())
    if unknown:
        raise InputError(_unknown(unknown[0], symbols))
    expression = expression.replace(sympy.log, _stable_log)
    _refuse_other_functions(expression)
    unused = [name for name in parameters if symbols[name] not in expression.free_symbols]
    if unused:
        raise InputError(
            f"potential: the formula has no {unused[0]!r}, which is a parameter: the rows would say nothing of it. "
            "Leave it out, or look for a typing error."
        )
    return expression


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name) or name in {*FUNCTIONS, "pi"}:
            raise InputError(
                f"names: {name!r} cannot stand in a formula; parameters and columns need names like a_1, none of "
                f"{', '.join(FUNCTIONS)} or pi."
            )
        if names.count(name) > 1:
            raise InputError(f"names: {name!r} stands for more than one parameter or column; names must differ.")


def _unknown(name: str, symbols: dict[str, Any]) -> str:
    return f"potential: {name!r} in the formula is no parameter and no column; known are {', '.join(symbols)}."


class _FactorReader(Reader):
    """Rebuild a parsed formula from what is allowed."""

    owner = "potential"

    def __init__(self, symbols: dict[str, Any]) -> None:
        super().__init__(symbols)
        self.functions = {name: self.functions.get(name, logsumexp) for name in FUNCTIONS}

    def generic_visit(self, node: ast.AST) -> Any:
        raise InputError(
            f"potential: {ast.unparse(node)!r} is not allowed in a formula; use numbers, parameters, columns, pi, "
            f"+ - * / ** and the functions {', '.join(FUNCTIONS)}."
        )

    def visit_Name(self, node: ast.Name) -> Any:  # noqa: N802
        if node.id != "pi" and node.id not in self.names:
            raise InputError(_unknown(node.id, self.names))
        return super().visit_Name(node)

    def visit_Call(self, node: ast.Call) -> Any:  # noqa: N802
        if not (isinstance(node.func, ast.Name) and node.func.id in self.functions) or node.keywords:
            return self.generic_visit(node)
        if not node.args or (len(node.args) > 1 and node.func.id != "logsumexp"):
            raise InputError(f"potential: {ast.unparse(node)!r} has {len(node.args)} arguments; expected one.")
        return self.functions[node.func.id](*(self.visit(argument) for argument in node.args))


def _stable_log(x: Any) -> Any:
    """Rewrite log(c1 exp(u1) + c2 exp(u2) + ...), every c positive, so that it does not overflow."""
    sympy = load_sympy()
    terms = []
    for term in sympy.Add.make_args(x):
        factor, power = sympy.Integer(1), sympy.Integer(0)
        for part in sympy.Mul.make_args(term):
            if isinstance(part, sympy.exp):
                power += part.args[0]
            else:
                factor *= part
        if not factor.is_positive:
            return sympy.log(x)
        terms.append(power + sympy.log(factor))
    return logsumexp(*terms) if x.has(sympy.exp) else sympy.log(x)


def _refuse_other_functions(expression: Any) -> None:
    sympy, own = load_sympy(), heads()
    allowed = (sympy.exp, sympy.log, sympy.tanh, sympy.atan, own.softplus, own.expit)
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, sympy.Function) and not isinstance(part, allowed):
            raise InputError(
                f"potential: the function {type(part).__name__} is not known; a formula may use "
                f"{', '.join(FUNCTIONS)}. (A potential needs derivatives, so there is no absolute value or step.)"
            )


def functions_of(
    expression: Any, parameters: Sequence[str], columns: Sequence[str]
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return potential, gradient and Hessian of a formula as plain functions, ready to be compiled."""
    sympy = load_sympy()
    symbols = [sympy.Symbol(name, real=True) for name in parameters]
    slopes = [sympy.diff(expression, s) for s in symbols]
    pairs = [(j, k) for j in range(len(symbols)) for k in range(j + 1)]
    curvatures = [sympy.diff(slopes[j], symbols[k]) for j, k in pairs]
    names = {sympy.Symbol(name, real=True): f"theta[{j}]" for j, name in enumerate(parameters)}
    names |= {sympy.Symbol(name, real=True): f"row[{j}]" for j, name in enumerate(columns)}
    both = [
        [f"out[{j}, {k}] = {{}}"] if j == k else [f"out[{j}, {k}] = {{}}", f"out[{k}, {j}] = out[{j}, {k}]"]
        for j, k in pairs
    ]
    return (
        _function("theta, row", [expression], [["return {}"]], names),
        _function("theta, row, out", slopes, [[f"out[{j}] = {{}}"] for j in range(len(slopes))], names),
        _function("theta, row, out", curvatures, both, names),
    )


def _function(
    arguments: str, expressions: list[Any], templates: list[list[str]], names: dict[Any, str]
) -> Callable[..., Any]:
    """Write a function that puts each expression into its template, with common parts computed once."""
    sympy = load_sympy()
    from sympy.printing.pycode import PythonCodePrinter

    class Printer(PythonCodePrinter):
        def _print_Rational(self, number: Any) -> str:  # noqa: N802
            # Compiled code has no integers of any length.
            return repr(float(number))

        def _print_Integer(self, number: Any) -> str:  # noqa: N802
            return str(number) if abs(number) < 2**31 else repr(float(number))

    printer = Printer({"user_functions": {"softplus": "softplus", "expit": "expit"}})
    common, results = sympy.cse(expressions, symbols=sympy.numbered_symbols("common_", real=True))
    used = sorted(set().union(*(e.free_symbols for e in expressions)) & set(names), key=names.__getitem__)
    local = {s: sympy.Symbol(f"value_{k}", real=True) for k, s in enumerate(used)}
    lines = [f"{local[s]} = {names[s]}" for s in used]
    lines += [f"{name} = {printer.doprint(value.xreplace(local))}" for name, value in common]
    for result, template in zip(results, templates, strict=True):
        lines += [line.format(printer.doprint(result.xreplace(local))) for line in template]
    source = f"def generated({arguments}):\n    " + "\n    ".join(lines)
    space: dict[str, Any] = {"math": math, "softplus": softplus, "expit": expit}
    exec(source, space)  # the printer's own text, from an expression in known functions only
    return space["generated"]
