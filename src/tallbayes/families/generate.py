"""Write a curve's compiled functions from its formula, as a module in the cache of compiled code.

The module's name is a hash of its text, so one formula is written, and its kernels are compiled, once; parameters
are fields of the curve and need no new code.
"""

import hashlib
import importlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from tallbayes.errors import InputError
from tallbayes.families.certify import at_infinity, by_continued_fraction, derivatives, without_slope
from tallbayes.families.formula import Reduced, heads, load_sympy

_TEMPLATE = '''"""Written by tallbayes.families.generate from the formula {formula}"""

import math
from typing import Any, NamedTuple

import numpy as np

from tallbayes.families.algebraic import mixed_of_jet
from tallbayes.families.curve import CurveFunctions, register_curve
from tallbayes.families.curve import jet as jet_of
from tallbayes.families.elementary import (
    bose, bose_slope, exp, expit, hazard, log1mexp, log_ndtr, mills, softplus, times
)


class Curve(NamedTuple):
    reach: float
    turn: float
    low: float
    high: float
{fields}

def potential(curve: Any, t: Any, piece: Any) -> Any:
{potential}

def jet(curve: Any, t: Any, piece: Any) -> Any:
{jet}

def coefficients(curve: Any, y: Any) -> Any:
{coefficients}

def covers(curve: Any, low: Any, high: Any) -> Any:
    return low >= curve.low and high <= curve.high


{noise}
register_curve(Curve, CurveFunctions(potential, jet, coefficients, covers{more}))
'''

_NOISE = """
def mixed(curve: Any, u: Any, a: Any, b: Any) -> Any:
    g1, g2, g3, g4 = jet_of(curve, u, 0.0)
    return mixed_of_jet(g1, g2, g3, g4, u, a, b)


def turning(curve: Any, u: Any) -> Any:
    return 2.0 + abs(u) / curve.reach

"""

SIDES = ("left", "right")


def limit_names(side: str, piece: int) -> list[str]:
    """Return the fields of a curve that hold the limits of a piece's four derivatives on one side."""
    return [f"{side}_{piece}_{m}" for m in range(1, 5)]


_COMPILED = {"softplus", "expit", "log1mexp", "bose", "bose_slope", "log_ndtr", "hazard"}


class _Writer:
    """Writes an expression as assignments, each value once."""

    def __init__(self, indent: int, *, arrays: bool = False) -> None:
        self.sympy = load_sympy()
        self.indent = " " * indent
        self.arrays = arrays
        self.guarded = False
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}

    def put(self, code: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{self.indent}{name} = {code}")
        return name

    def value(self, e: Any) -> str:
        if e not in self.names:
            self.names[e] = self._value(e)
        return self.names[e]

    def _value(self, e: Any) -> str:
        sympy = self.sympy
        if e.is_Symbol:
            return e.name if e.name in ("t", "u", "y") else f"curve.p_{e.name}"
        if e.is_number and not e.has(sympy.Symbol):
            return f"({float(e)!r})"
        if e.is_Add:
            return self.put(" + ".join(self.value(part) for part in e.args))
        if e.is_Mul:
            above = [x for x in e.args if not (x.is_Pow and x.exp.is_negative)]
            below = [1 / x for x in e.args if x.is_Pow and x.exp.is_negative]
            code = self._product([self.value(x) for x in above]) if above else "1.0"
            return self.put(code + "".join(f" / {self.value(x)}" for x in below))
        if e.is_Pow:
            return self._power(e.base, e.exp)
        return self._function(e)

    def _product(self, parts: list[str]) -> str:
        if not self.guarded or len(parts) == 1:
            return " * ".join(parts)
        code = parts[0]
        for part in parts[1:]:
            code = f"times({code}, {part})"
        return code

    def _power(self, base: Any, exponent: Any) -> str:
        if exponent.is_negative:
            return self.put(f"1.0 / {self.value(base**-exponent)}")
        x = self.value(base)
        if exponent.is_Integer and int(exponent) <= 12:
            return self.put(" * ".join([x] * int(exponent)))
        if exponent.is_Rational and exponent.q == 2 and exponent.p <= 12:
            root = self.put(f"{'np' if self.arrays else 'math'}.sqrt({x})")
            return self.put(" * ".join([root] * int(exponent.p)))
        return self.put(f"{x} ** {self.value(exponent)}")

    def _function(self, e: Any) -> str:
        sympy, name = self.sympy, type(e).__name__
        if isinstance(e, heads().mills):
            return self.put(f"mills({float(e.args[0])!r}, {self.value(e.args[1])})")
        x = e.args[0]
        if self.arrays:
            if name not in ("log", "exp"):
                raise InputError(
                    f"custom: {e}, a part of the formula that depends on y alone, may use exp, log and sqrt."
                )
            return self.put(f"np.{name}({self.value(x)})")
        if isinstance(e, sympy.log):
            if x.is_Add and 1 in x.args:
                return self.put(f"math.log1p({self.value(x - 1)})")
            return self.put(f"math.log({self.value(x)})")
        if name in _COMPILED or name == "exp":
            return self.put(f"{name}({self.value(x)})")
        return self.put(f"math.{name}({self.value(x)})")


def _jet_lines(expressions: list[Any], indent: int, first: str = "") -> list[str]:
    writer = _Writer(indent)
    own = heads()
    writer.guarded = any(e.has(load_sympy().exp, own.bose, own.hazard) for e in expressions)
    lines = [" " * indent + first] if first else []
    results = [f"float({writer.value(e)})" for e in expressions]
    return [*lines, *writer.lines, f"{' ' * indent}return {', '.join(results)}"]


def _piece_jet(g: Any, t: Any, values: dict[str, float], piece: int, indent: int, *, expanded: bool) -> list[str]:
    """Write the derivatives, in the form that keeps its digits where t is."""
    sympy, own = load_sympy(), heads()
    pad = " " * indent
    plain = derivatives(g, t, 4)
    if expanded:
        plain = [sympy.expand(e) for e in plain]
    lines = []
    for name_of_side, end in (("right", "math.inf"), ("left", "-math.inf")):
        limits = ", ".join(f"curve.{name}" for name in limit_names(name_of_side, piece))
        lines += [f"{pad}if t == {end}:", f"{pad}    return {limits}"]
    fractions = by_continued_fraction(plain[0], t, 4)
    if fractions:
        (a,) = {e.args[0] for e in plain[0].atoms(own.hazard)}
        writer = _Writer(indent)
        code = writer.value(a)
        lines += [*writer.lines, f"{pad}if {code} > 3.0:", *_jet_lines(fractions, indent + 4)]
    for slope in sorted(plain[0].atoms(own.bose_slope), key=str)[:1]:
        writer = _Writer(indent)
        code = writer.value(slope.args[0])
        lines += [
            *writer.lines,
            f"{pad}if {code} > 1.0:",
            *_jet_lines([without_slope(e) for e in plain], indent + 4),
        ]
    u = sympy.Symbol("u", positive=True)
    for side in (1, -1):
        far = [e for e in (at_infinity(e, t, u, side, values) for e in plain) if e is not None]
        if len(far) == len(plain) and any(e.has(u) for e in far):
            test = "t > 1024.0 * curve.turn" if side > 0 else "t < -1024.0 * curve.turn"
            first = "u = 1.0 / t" if side > 0 else "u = -1.0 / t"
            lines += [f"{pad}if {test}:", *_jet_lines(far, indent + 4, first)]
    return [*lines, *_jet_lines(plain, indent)]


def module_text(formula: str, reduced: Reduced, values: dict[str, float], *, expanded: bool = False) -> str:
    """Return the module's source, with derivatives as products of factors or expanded into sums."""
    t = load_sympy().Symbol("t", real=True)
    many, noise = len(reduced.curves) > 1, reduced.kind == "noise"
    potential: list[str] = []
    jet: list[str] = []
    for k, g in enumerate(reduced.curves):
        indent = 8 if many and k < len(reduced.curves) - 1 else 4
        if indent == 8:
            potential.append(f"    if piece == {float(k)!r}:")
            jet.append(f"    if piece == {float(k)!r}:")
        writer = _Writer(indent)
        result = writer.value(g)
        potential += [*writer.lines, f"{' ' * indent}return float({result})"]
        jet += _piece_jet(g, t, values, k, indent, expanded=expanded)
    writer = _Writer(4, arrays=True)
    m, c, l = (writer.value(e) for e in (reduced.multiple, reduced.shift, reduced.linear))
    piece = "0.0"
    if many:
        piece = " + ".join(f"{float(k)!r} * (y == {float(r)!r})" for k, r in enumerate(reduced.responses) if k)
    slope = writer.value(reduced.slope) if noise else repr(reduced.slope)
    coefficients = [*writer.lines, f"    return {m}, {slope}, {c}, {l}, {piece}"]
    ends = [name for side in SIDES for k in range(len(reduced.curves)) for name in limit_names(side, k)]
    return _TEMPLATE.format(
        formula=repr(formula),
        fields="".join(f"    {name}: float\n" for name in (*ends, *(f"p_{name}" for name in values))),
        potential="\n".join(potential) + "\n",
        jet="\n".join(jet) + "\n",
        coefficients="\n".join(coefficients) + "\n",
        noise=_NOISE if noise else "",
        more=", mixed=mixed, turning=turning" if noise else "",
    )


def _write(name: str, text: str) -> None:
    """Write a file of the cache: complete or not there at all, also for another process that writes the same."""
    from tallbayes.families import generated

    try:
        _write_to(generated.DIRECTORY, name, text)
    except OSError:  # full, read-only or no directory at all; what was worked out lasts for this process then
        generated.use_own_directory()
        _write_to(generated.DIRECTORY, name, text)


def _write_to(directory: Path, name: str, text: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=directory, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, directory / name)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def write(text: str) -> str:
    """Write a module, unless it is there, and return its name."""
    from tallbayes.families import generated

    name = "formula_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    # Numba tells named tuples apart by the names of class and fields alone: the class must be this formula's own,
    # or a second formula would run the first one's compiled code.
    text = re.sub(r"\bCurve\b", "Curve_" + name.removeprefix("formula_"), text)
    if not (generated.DIRECTORY / f"{name}.py").exists():
        _write(f"{name}.py", text)
    return name


def load(name: str) -> ModuleType:
    """Import a module that was written, by this process or another."""
    from tallbayes.families import generated

    full_name = f"{generated.__name__}.{name}"
    if full_name not in sys.modules:
        importlib.invalidate_caches()  # Python may have listed the directory before the module was written
    return importlib.import_module(full_name)


def curve_type(name: str) -> Any:
    """Return the curve of a module that was written; its class is named after the formula."""
    return getattr(load(name), "Curve_" + name.removeprefix("formula_"))


def _recipe_name(key: str) -> str:
    return "recipe_" + hashlib.sha256(key.encode()).hexdigest()[:16] + ".json"


def remember(key: str, recipe: dict[str, Any]) -> None:
    """Keep what was worked out of a formula."""
    _write(_recipe_name(key), json.dumps(recipe))


def remembered(key: str) -> dict[str, Any] | None:
    """Return what was worked out of a formula before, if its module is still there."""
    from tallbayes.families import generated

    try:
        recipe = json.loads((generated.DIRECTORY / _recipe_name(key)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return recipe if (generated.DIRECTORY / f"{recipe['module']}.py").exists() else None
