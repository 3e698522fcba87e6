r"""Proofs about a curve: where its derivatives have their extremes, on the whole line.

:math:`g^{(m)}` can only turn where :math:`g^{(m+1)}` changes sign. Intervals on which an enclosure of
:math:`g^{(m+1)}` lies on one side of 0 hold no turning point; the others are halved until they are so short that
any point of them serves (the derivative changes by the square of their length). Beyond a point T the half-line is
one interval, on which several equivalent forms of the derivative are tried: as it stands; with 1 / u for t; with
1 / e^-a for e^a; with continued fractions for normal tails. What none of this proves is an error, or a shorter
range.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from tallbayes.errors import CertificationError
from tallbayes.families.formula import heads, load_sympy, simplified
from tallbayes.families.intervals import (
    Interval,
    add,
    interval,
    multiply,
    number,
    precisely,
    tape,
    whole,
)

ORDERS = (1, 2, 3, 4)
LARGEST = 6000
"""Operations of a derivative beyond which SymPy would take minutes, or for ever."""
SHORTEST = 1e-11
"""Relative length of an interval that is not halved again."""
MOST_BOXES, MOST_POINTS, PATIENCE = 40_000, 32, 120.0
"""Intervals tried, places left undecided, and seconds, beyond which a proof is given up."""
FAR = (2.0**6, 2.0**12, 2.0**300)
"""A limit at infinity lies in the enclosure over every half-line; where exponentials overflow, nearer ones help."""

Form = Callable[[Interval], Interval]


class Certificate(NamedTuple):
    """What was proved of one curve."""

    critical: dict[int, list[float]]
    """Points where g^(m) has its local extremes, m = 1 to 4."""
    low: float
    high: float
    """The range of t for which that holds; infinite unless a tail could not be proved."""
    left: tuple[float, ...]
    right: tuple[float, ...]
    """Limits of g^(m), m = 1 to 4, at minus and plus infinity (infinite where no finite bound was proved)."""
    convex: bool
    turn: float
    """A scale of t: beyond it, on both sides, no derivative has an extreme."""


def derivatives(g: Any, t: Any, count: int = 5) -> list[Any]:
    """Return g', g'', ... factored."""
    sympy = load_sympy()
    found, current = [], g
    for _ in range(count):
        current = tidy(sympy.diff(current, t))
        found.append(current)
    return found


def tidy(e: Any, longest: int = LARGEST) -> Any:
    """Write an expression as a product of factors, as far as SymPy sees them."""
    sympy = load_sympy()
    if (operations := sympy.count_ops(e)) > longest:
        raise CertificationError(
            f"custom: a derivative of the formula has {operations:,} operations, which are too many to prove "
            f"anything of (at most {longest:,}). Nest fewer functions, or write the formula more simply."
        )
    try:
        return sympy.factor(sympy.together(e))
    except sympy.PolynomialError:  # pragma: no cover - depends on SymPy
        return e


def by_continued_fraction(first: Any, t: Any, count: int = 5) -> list[Any] | None:
    """Return g', g'', ... with normal hazards a + K_1(a), or None if there are none (or of several arguments)."""
    sympy, own = load_sympy(), heads()
    arguments = {e.args[0] for e in first.atoms(own.hazard)}
    if len(arguments) != 1:
        return None
    (a,) = arguments
    slope = sympy.diff(a, t)
    if t in slope.free_symbols:
        return None
    current = sympy.expand(first.xreplace({own.hazard(a): a + own.mills(1, a)}))
    found = [current]
    for _ in range(count - 1):
        current = sympy.expand(sympy.diff(current, t))
        found.append(current)
    return found


def without_slope(e: Any) -> Any:
    """Return e with (1 - U(x)) / x for V(x), U(x) = x / (e^x - 1): far out U vanishes, while x V tends to 1."""
    own = heads()
    return tidy(e.xreplace({v: (1 - own.bose(v.args[0])) / v.args[0] for v in e.atoms(own.bose_slope)}))


def at_infinity(e: Any, t: Any, u: Any, side: int, values: dict[str, float]) -> Any | None:
    """Return e with t = side / u, u > 0 small: growing exponentials as reciprocals, Mills ratios scaled."""
    if e.could_extract_minus_sign():
        found = _at_infinity(-e, t, u, side, tuple(values.items()))
        return None if found is None else -found
    return _at_infinity(e, t, u, side, tuple(values.items()))


@lru_cache(maxsize=128)  # a derivative of one function is another one's own, or minus it; and SymPy takes its time
def _at_infinity(e: Any, t: Any, u: Any, side: int, given: tuple[tuple[str, float], ...]) -> Any | None:
    sympy, own, values = load_sympy(), heads(), dict(given)
    scaled = sympy.Function("scaled_mills")
    replaced: dict[Any, Any] = {}
    hidden: dict[Any, Any] = {}
    growing: list[tuple[Any, Any]] = []
    for atom in sorted(e.atoms(sympy.Function), key=sympy.count_ops):
        if not atom.has(t):
            continue
        positive = isinstance(
            atom, (sympy.exp, own.expit, own.softplus, own.hazard, own.mills, own.bose, own.bose_slope)
        )
        stand_in = sympy.Dummy(positive=True) if positive else sympy.Dummy(real=True)
        if isinstance(atom, own.mills):
            a = atom.args[1]
            at_end = float(
                a.subs({s: values[s.name] for s in a.free_symbols if s.name in values}).subs(t, side * 1e9)
            )
            ratio = simplified(a / t)
            if at_end < 0 or t in ratio.free_symbols:
                return None
            replaced[atom] = stand_in * u / abs(ratio)
            hidden[stand_in] = scaled(atom.args[0], u / abs(ratio))
            continue
        if isinstance(atom, sympy.exp):
            slope = sympy.diff(atom.args[0], t)
            grows = float(
                slope.subs({s: values[s.name] for s in slope.free_symbols if s.name in values}).subs(t, side * 1e3)
            )
            if grows * side > 0:
                # e^2a is the square of e^a: one reciprocal for all its powers.
                known = [(z, simplified(atom.args[0] / a)) for z, a in growing]
                powers = [z**-ratio for z, ratio in known if ratio.is_Integer]
                replaced[atom] = powers[0] if powers else 1 / stand_in
                if not powers:
                    growing.append((stand_in, atom.args[0]))
                    hidden[stand_in] = sympy.exp(-atom.args[0])
                continue
        replaced[atom] = stand_in
        hidden[stand_in] = atom
    bare = e.xreplace(replaced)
    try:
        far = bare.subs(t, side / u)
        # A ratio of polynomials has one form without common factors, which SymPy finds soonest if asked for just that.
        return tidy(far if far.is_rational_function() else simplified(far)).xreplace(hidden)
    except (sympy.PolynomialError, TypeError, CertificationError):  # pragma: no cover - depends on SymPy
        return None


class Prover:
    """Enclosures of functions each of which is the derivative of the one before, in all the forms that apply.

    Nothing is said of the last one, which serves the one before. With ``monotone``, ranges of monotone functions are
    found from their ends as well.
    """

    def __init__(self, plain: list[Any], t: Any, values: dict[str, float], *, monotone: bool = False) -> None:
        sympy = load_sympy()
        self.values = values
        u = sympy.Symbol("u", positive=True)
        forms = [plain]
        self.plain = plain
        fractions = by_continued_fraction(self.plain[0], t, len(plain))
        if fractions:
            forms.append(fractions)
        if self.plain[0].has(heads().bose_slope):
            forms.append([without_slope(e) for e in self.plain])
        self.forms = len(forms)
        self.zero = [e == 0 for e in self.plain]
        runs = [[tape(e, {t: "t"}, values) for e in form] for form in forms]
        self.near: list[list[Form]] = []
        self.tails: dict[int, list[list[Form]]] = {1: [], -1: []}
        for j in range(len(plain) - 1):
            straight = [_plain_form(run[j]) for run in runs]
            near = straight + [_mean_value_form(run[j], run[j + 1]) for run in runs]
            self.near.append(near + [_monotone_form(run[j], run[j + 1]) for run in runs if monotone])
            for side in (1, -1):
                others = [at_infinity(form[j], t, u, side, values) for form in forms]
                far = [_tail_form(tape(e, {t: "t", u: "u"}, values)) for e in others if e is not None]
                self.tails[side].append(straight + far)

    def enclosure(self, j: int, at: float) -> tuple[float, float]:
        """Return two numbers between which the function of number j lies at a point."""
        ranges = [form(interval(at, at)) for form in self.near[j][: self.forms]]
        return max(float(r.lo) for r in ranges), min(float(r.hi) for r in ranges)

    def sign(self, j: int, x: Interval, forms: list[Form]) -> int:
        """Return 1 or -1 if the j-th derivative is proved not to change sign on x, else 0."""
        if self.zero[j - 1]:
            return 1
        for form in forms:
            value = form(x)
            if value.lo >= 0:
                return 1
            if value.hi <= 0:
                return -1
        return 0

    def limit(self, j: int, side: int) -> float:
        """Return the j-th derivative at infinity, or an infinite bound of it."""
        if self.zero[j - 1]:
            return 0.0
        best: tuple[float, float] = (-math.inf, math.inf)
        for start in FAR:
            for form in self.tails[side][j - 1]:
                value = form(half_line(start, side))
                lo, hi = float(value.lo), float(value.hi)
                best = (max(best[0], lo), min(best[1], hi))
        if not math.isfinite(best[0]) or not math.isfinite(best[1]):
            return math.inf if best[1] == math.inf else -math.inf
        if best[0] <= 0.0 <= best[1] and max(-best[0], best[1]) < 1e-60:
            return 0.0
        middle = 0.5 * (best[0] + best[1])
        width = best[1] - best[0]
        # Wider than rounding: the end of larger size is a bound, if not the limit.
        return middle if width <= 1e-15 * max(1.0, abs(middle)) else max(best, key=abs)


@lru_cache(maxsize=16)
def _prover(g: Any, t: Any, values: tuple[tuple[str, float], ...]) -> Prover:
    return Prover(derivatives(g, t, 6), t, dict(values))


def _plain_form(run: Callable[[dict[str, Interval]], Interval]) -> Form:
    return lambda x: run({"t": x})


def _mean_value_form(
    run: Callable[[dict[str, Interval]], Interval], slope: Callable[[dict[str, Interval]], Interval]
) -> Form:
    """Enclose f by f(middle) + f'(x) (x - middle): tight on short intervals, where terms of f cancel."""

    def form(x: Interval) -> Interval:
        middle = ((x.lo + x.hi) / 2).mid()
        point = Interval(middle, middle)
        step = Interval((x.lo - middle).lower(), (x.hi - middle).upper())
        return add(run({"t": point}), multiply(slope({"t": x}), step))

    return form


def _monotone_form(
    run: Callable[[dict[str, Interval]], Interval], slope: Callable[[dict[str, Interval]], Interval]
) -> Form:
    """Enclose f by its values at the ends, where f' is proved not to change sign."""

    def form(x: Interval) -> Interval:
        rise = slope({"t": x})
        if not (rise.lo >= 0 or rise.hi <= 0):
            return whole()
        first, last = run({"t": Interval(x.lo, x.lo)}), run({"t": Interval(x.hi, x.hi)})
        return Interval(first.lo, last.hi) if rise.lo >= 0 else Interval(last.lo, first.hi)

    return form


def _tail_form(run: Callable[[dict[str, Interval]], Interval]) -> Form:
    def form(x: Interval) -> Interval:
        near = min(abs(x.lo), abs(x.hi))
        return run({"t": x, "u": Interval(number(0.0), (1 / near).upper())})

    return form


def half_line(start: float, side: int) -> Interval:
    """Return all numbers beyond one, on one side."""
    return interval(start, math.inf) if side > 0 else interval(-math.inf, -start)


def certify(g: Any, t: Any, values: dict[str, float], name: str) -> Certificate:
    """Prove where the derivatives of g of order 1 to 4 have their extremes.

    Parameters
    ----------
    g : sympy.Expr
        The curve.
    t : sympy.Symbol
        Its variable.
    values : dict of str to float
        Values of its parameters.
    name : str
        The formula, for error messages.

    Returns
    -------
    Certificate
        What was proved.

    Raises
    ------
    CertificationError
        If extremes cannot be isolated on the range where they matter.
    """
    with precisely():
        prover = _prover(g, t, tuple(values.items()))
        ends = {side: proved_tail(prover, side) for side in (1, -1)}
        critical, convex = {}, False
        for m in ORDERS:
            critical[m], signs = sign_changes(prover, m + 1, ends[-1], ends[1], name)
            convex = signs == {1} if m == 1 else convex
        left, right = (_limits(prover, side, ends[side]) for side in (-1, 1))
    low = -math.inf if any(ends[-1].signs) else -ends[-1].start
    high = math.inf if any(ends[1].signs) else ends[1].start
    return Certificate(critical, low, high, left, right, convex, max(ends[-1].start, ends[1].start))


class Tail(NamedTuple):
    """From `start` on, no derivative of order 2 to 5 changes sign: their signs, or zeros if that is not proved."""

    start: float
    signs: tuple[int, ...]


def exact_jet(g: Any, t: Any, values: dict[str, float]) -> Callable[[float], list[tuple[float, float]]]:
    """Return a function from t to enclosures of the first four derivatives, for tests of compiled code."""
    prover = _prover(g, t, tuple(values.items()))

    def evaluate(at: float) -> list[tuple[float, float]]:
        with precisely():
            return [prover.enclosure(j, at) for j in range(4)]

    return evaluate


def proved_tail(prover: Prover, side: int, orders: Sequence[int] = range(2, 6), otherwise: float = 64.0) -> Tail:
    """Return the least tail, from T = 4^k; if there is none, a T up to which the proof may be tried."""
    for k in range(24):
        start = 4.0**k
        line = half_line(start, side)
        signs = tuple(prover.sign(j, line, prover.tails[side][j - 1]) for j in orders)
        if all(signs):
            return Tail(start, signs)
    return Tail(otherwise, (0,) * len(orders))


def _limits(prover: Prover, side: int, tail: Tail) -> tuple[float, ...]:
    """Return the limits of the first four derivatives at infinity.

    In a proved tail each of them is monotone, so it has a limit; if the one before is bounded, the limit is 0.
    """
    limits: list[float] = []
    for m in ORDERS:
        settled = bool(limits) and all(tail.signs) and math.isfinite(limits[-1])
        limits.append(0.0 if settled else prover.limit(m, side))
    return tuple(limits)


def sign_changes(
    prover: Prover,
    j: int,
    left: Tail,
    right: Tail,
    name: str,
    *,
    until: float | None = None,
    unit: float = math.inf,
) -> tuple[list[float], set[int]]:
    """Return the points where the j-th derivative may change sign, and its signs elsewhere.

    Intervals are not halved again below a share of their distance from 0, or of a unit of length: the shorter tail's
    start if that is less.
    """
    if prover.zero[j - 1]:
        return [], {1}
    low, high = -left.start, right.start
    forms = prover.near[j - 1]
    boxes = [(0.0, high), (low, 0.0)]
    runs: list[tuple[float, float, int]] = []
    tried = 0
    until = time.monotonic() + PATIENCE if until is None else until
    unit = min(unit, high, -low)
    while boxes:
        a, b = boxes.pop()
        tried += 1
        if tried > MOST_BOXES or time.monotonic() > until:
            raise CertificationError(
                f"custom: the sign changes of derivative {j} of {name} between t = {low:g} and {high:g} could not "
                f"be isolated with {tried - 1} intervals. Write the formula more simply (fewer occurrences of the "
                "variable; softplus, expit, log1p and log_ndtr where they apply)."
            )
        sign = prover.sign(j, interval(a, b), forms)
        if sign == 0 and b - a > SHORTEST * max(abs(a), abs(b), 1e-3 * unit):
            middle = 0.5 * (a + b)
            boxes += [(middle, b), (a, middle)]
            continue
        if runs and runs[-1][2] == sign and runs[-1][1] == a:
            runs[-1] = (runs[-1][0], b, sign)
        else:
            runs.append((a, b, sign))
    wide = [b - a for a, b, sign in runs if sign == 0 and b - a > 1e3 * SHORTEST * max(abs(a), abs(b), 1.0)]
    points = [0.5 * (a + b) for a, b, sign in runs if sign == 0]
    runs = [(-math.inf, low, left.signs[j - 2]), *runs, (high, math.inf, right.signs[j - 2])]
    points += [a for (_, _, s), (a, _, r) in pairwise(runs) if s * r == -1]
    if len(points) > MOST_POINTS or wide:
        raise CertificationError(
            f"custom: derivative {j} of {name} could not be told from 0 at {len(points)} places between "
            f"t = {low:g} and {high:g}, so its sign changes are not proved. Write the formula more simply."
        )
    return sorted(points), {sign for _, _, sign in runs if sign}
