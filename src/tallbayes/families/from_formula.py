"""A user's own likelihood, from a formula: derivatives, proved bounds and compiled code without a derivation."""

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_number
from tallbayes.errors import CertificationError, InputError
from tallbayes.families import generate
from tallbayes.families.algebraic import mixed_of_jet
from tallbayes.families.base import CurveFamily, Vector
from tallbayes.families.certify import Certificate, certify, exact_jet
from tallbayes.families.certify_noise import MixedCertificate, certify_mixed
from tallbayes.families.curve import coefficients, jet, turning
from tallbayes.families.formula import Reduced, is_noise, load_sympy, read, reduce, reduce_noise
from tallbayes.families.remainder import FAR, FEW, MANY, NEAR, gauss_jacobi
from tallbayes.families.responses import RealResponse, robust_spread

SUPPORTS = {
    "real": ("any real number", lambda y: np.zeros(y.shape, dtype=np.bool_)),
    "positive": ("positive numbers", lambda y: y <= 0.0),
    "non-negative": ("numbers of 0 or more", lambda y: y < 0.0),
    "counts": ("whole numbers, 0 or more", lambda y: (y < 0.0) | (y != np.floor(y))),
}
Enclosures = Callable[[float], list[tuple[float, float]]]
RESERVED = {"eta", "y", "t", "u", "pi"}


def custom(
    formula: Any,
    *,
    responses: tuple[float, ...] | None = None,
    support: str | None = None,
    scale: Any = None,
    **parameters: float,
) -> Any:
    """Make a family from a formula for minus the log-likelihood of one row, up to a constant.

    Parameters
    ----------
    formula : str or sympy.Expr
        The potential in ``eta``, the linear predictor, and ``y``, the response, e.g. ``"exp(eta) - y*eta"``. Or minus
        the log density of noise, in ``u`` alone: y = eta + scale * u, e.g. ``"softplus(u) + softplus(-u)"``. In text:
        numbers, ``+ - * / **`` and exp, log, log1p, expm1, sqrt, softplus, expit, tanh, cosh, sinh, logcosh, log_ndtr,
        log1mexp (log(1 - exp(-x))), atan.
    responses : tuple of float or None
        The values a response may take, if they are few: each then has a function of its own.
    support : str or None
        Which responses there are: "real", "positive", "non-negative" or "counts". None lets the formula decide.
    scale : float or prior or None
        Scale of noise, for a formula in ``u``: a number if it is known. Unknown by default, with a weakly informative
        prior scaled to the data; or unknown with a prior, stated for the scale itself, e.g.
        ``tb.priors.HalfNormal(10)``. In a formula in ``eta`` and ``y`` it is a parameter like others.
    **parameters : float
        Values of the formula's other names.

    Returns
    -------
    Family
        The family.

    Raises
    ------
    InputError
        If the formula cannot be read, or is not a function of one curve.
    CertificationError
        If the extremes of its derivatives cannot be proved, or its values cannot be computed accurately.
    """
    noise = is_noise(formula)
    if not noise and scale is not None:
        parameters["scale"] = scale
    for name, value in parameters.items():
        if name in RESERVED:
            raise InputError(f"custom: a parameter cannot be called {name!r}; choose another name.")
        if not is_number(value):
            _refuse_unknown(name, value)
        if not math.isfinite(value):
            raise InputError(f"custom: {name}={value!r} must be a finite number.")
    values = {name: float(value) for name, value in sorted(parameters.items())}
    if noise:
        if responses is not None or support not in (None, "real"):
            raise InputError(
                f"custom: responses={responses!r} and support={support!r} were given beside a formula in u; noise has "
                "responses that are any real number. Leave them out, or write the formula in eta and y."
            )
        return CustomNoise(str(formula), values, scale, formula)
    if responses is not None:
        responses = _checked_responses(responses)
    if support is not None and support not in SUPPORTS:
        raise InputError(f"custom: support={support!r} is not known; use one of {', '.join(map(repr, SUPPORTS))}.")
    return Custom(str(formula), values, _recipe(formula, values, responses), support)


def _refuse_unknown(name: str, value: Any) -> None:
    """Raise on a parameter that is no number: say why it cannot be unknown, or what was expected."""
    if value is None or hasattr(value, "resolve") or hasattr(value, "of_scale"):
        raise InputError(
            f"custom: {name}={value!r} was given, but bounds over several unknowns of a row are proved for one form "
            "only, noise of unknown scale, where they are functions of one variable. Write the formula in "
            "u = (y - eta)/scale, minus the log density of noise of scale 1, e.g. tb.families.custom('softplus(u) + "
            f"softplus(-u)', scale=tb.priors.HalfNormal(10)); or give {name} as a number."
        )
    raise InputError(f"custom: {name}={value!r} must be a finite number.")


class Recipe(NamedTuple):
    """All that a formula comes to: what a second process need not work out again."""

    kind: str
    responses: tuple[float, ...]
    module: str
    reach: float
    certificates: tuple[Certificate, ...]
    mixed: MixedCertificate | None = None
    """Of noise whose scale is unknown."""


def _recipe(
    formula: Any, values: dict[str, float], responses: tuple[float, ...] | None, noise: str | None = None
) -> Recipe:
    """Return the recipe of a formula, from the cache of compiled code if it is there.

    ``noise`` says that it is one of noise, whose scale is "known" or "unknown".
    """
    text = formula if isinstance(formula, str) else repr(formula)
    key = repr((type(formula).__name__, text, values, responses, *([noise] if noise else [])))
    known = generate.remembered(key)
    if known is not None:
        proved = tuple(_certificate(stored) for stored in known["certificates"])
        mixed_proved = MixedCertificate(**known["mixed"]) if known["mixed"] else None
        return Recipe(
            known["kind"], tuple(known["responses"]), known["module"], known["reach"], proved, mixed_proved
        )
    reduced = reduce_noise(read(formula, values, ("u",))) if noise else reduce(read(formula, values), responses)
    t = load_sympy().Symbol("t", real=True)
    _refuse_functions_of_y(reduced)
    certificates = tuple(certify(g, t, values, text) for g in reduced.curves)
    exact = [exact_jet(g, t, values) for g in reduced.curves]
    joint = certify_mixed(reduced.curves[0], t, values, text) if noise == "unknown" else None
    values = values | ({"scale": 1.0} if noise else {})
    try:
        module, curve = _accurate_module(text, reduced, values, certificates, exact, expanded=False)
    except CertificationError as error:
        try:  # 1 - exp(-t) loses nothing, but as a product (exp(t) - 1) exp(-t) it overflows
            module, curve = _accurate_module(text, reduced, values, certificates, exact, expanded=True)
        except CertificationError:
            raise error from None
    reach = min(_reach(curve, float(k), c, text) for k, c in enumerate(certificates))
    if joint:
        reach = _joint_reach(curve, reach, certificates[0], text)
    recipe = Recipe(reduced.kind, reduced.responses, module, reach, certificates, joint)
    stored = recipe._asdict() | {"certificates": [c._asdict() for c in certificates]}
    generate.remember(key, stored | {"mixed": joint._asdict() if joint else None})
    return recipe


def _accurate_module(
    text: str,
    reduced: Reduced,
    values: dict[str, float],
    certificates: tuple[Certificate, ...],
    exact: list[Enclosures],
    *,
    expanded: bool,
) -> tuple[str, Any]:
    """Write the compiled functions in one of two forms, and raise if rounding spoils them."""
    module = generate.write(generate.module_text(text, reduced, values, expanded=expanded))
    curve = _curve(module, 1.0, certificates, values)
    for k, certificate in enumerate(certificates):
        _refuse_inaccurate(curve, float(k), exact[k], certificate, text)
    return module, curve


def _refuse_functions_of_y(reduced: Reduced) -> None:
    """Raise if what depends on the response alone uses functions that are not evaluated for arrays."""
    sympy = load_sympy()
    for part in (reduced.multiple, reduced.shift, reduced.linear):
        for e in part.atoms(sympy.Function):
            if not isinstance(e, sympy.exp | sympy.log):
                raise InputError(
                    f"custom: {e}, a part of the formula that depends on y alone, may use exp, log and sqrt."
                )


def _certificate(stored: dict[str, Any]) -> Certificate:
    """Return a certificate from its JSON, which knows neither whole numbers as keys nor tuples."""
    critical = {int(m): points for m, points in stored["critical"].items()}
    ends = {side: tuple(stored[side]) for side in ("left", "right")}
    return Certificate(**{**stored, "critical": critical, **ends})


def _curve(
    module: str,
    reach: float,
    certificates: tuple[Certificate, ...],
    values: dict[str, float],
    joint: tuple[MixedCertificate, ...] = (),
) -> Any:
    ends = {
        name: float(limit)
        for side in generate.SIDES
        for k, certificate in enumerate(certificates)
        for name, limit in zip(generate.limit_names(side, k), getattr(certificate, side), strict=True)
    }
    proved = [*((c.low, c.high) for c in certificates), *((c.low, c.high) for c in joint)]
    return generate.curve_type(module)(
        reach,
        max(c.turn for c in certificates),
        max(low for low, _ in proved),
        min(high for _, high in proved),
        **ends,
        **{f"p_{name}": value for name, value in values.items()},
    )


def _places(certificate: Certificate, farthest: float) -> list[float]:
    """Return points in t at which compiled code is tried: around the extremes and out to the far tails."""
    unit = certificate.turn
    sizes = [unit * 2.0**k for k in range(-20, 24, 2)] + [unit * x for x in (0.3, 0.7, 1.3, 1.7, 2.2, 3.3, 5.3)]
    sizes += [700.0, 800.0]
    near = [x + dx for points in certificate.critical.values() for x in points for dx in (-0.1 * unit, 0.1 * unit)]
    every = [0.0, *near, *sizes, *(-x for x in sizes)]
    return [x for x in every if certificate.low <= x <= certificate.high and abs(x) <= farthest]


def _jet(curve: Any, t: float, piece: float, name: str) -> tuple[float, ...]:
    """Return the compiled derivatives, or say that there are none."""
    try:
        return tuple(jet(curve, t, piece))
    except (ArithmeticError, ValueError):
        raise CertificationError(
            f"custom: {name} has no derivatives at t = {t:g} that a float64 holds. A potential must be smooth for "
            "every real predictor: no log, root or ratio may come to the end of its range, and no power overflow."
        ) from None


def _sizes(curve: Any, piece: float, certificate: Certificate, name: str) -> list[float]:
    """Return a typical size of each derivative: its largest at the extremes and around 0."""
    places = [0.0, 0.5 * certificate.turn, -0.5 * certificate.turn]
    found = []
    for m in range(1, 5):
        values = [abs(_jet(curve, x, piece, name)[m - 1]) for x in [*places, *certificate.critical[m]]]
        found.append(max(values))
    return found


def _refuse_inaccurate(
    curve: Any,
    piece: float,
    exact: Enclosures,
    certificate: Certificate,
    name: str,
) -> None:
    """Compare compiled derivatives with enclosures, and raise where rounding has spoilt them."""
    sizes = _sizes(curve, piece, certificate, name)
    for t in _places(certificate, math.inf):
        found_all = _jet(curve, t, piece, name)
        for m, ((lo, hi), found) in enumerate(zip(exact(t), found_all, strict=True), start=1):
            if lo == hi == found or (math.isinf(found) and max(abs(lo), abs(hi)) > 1e300):
                continue
            slack = 1e-9 * max(abs(lo), abs(hi)) + 1e-12 * sizes[m - 1]
            if not lo - slack <= found <= hi + slack:
                raise CertificationError(
                    f"custom: derivative {m} of {name} at t = {t:g} is between {lo:.17g} and {hi:.17g}, but double "
                    f"precision gives {found:.17g}. Write the formula with functions that do not cancel or "
                    "overflow (softplus, expit, log1p, logcosh, log_ndtr, log1mexp)."
                )


def _reach(curve: Any, piece: float, certificate: Certificate, name: str) -> float:
    """Return the longest reach with which remainders by quadrature are right to about 1e-13.

    No bound depends on it: it decides between two ways of computing the same number.
    """
    sizes = _sizes(curve, piece, certificate, name)
    places = _places(certificate, 64.0 * certificate.turn)
    for halvings in range(40):
        reach = 8.0 * certificate.turn * 0.5**halvings
        if all(_quadrature_is_right(curve, piece, t, reach, sizes) for t in places):
            return reach
    raise CertificationError(
        f"custom: remainders of {name} cannot be computed accurately by quadrature: its derivatives change too "
        "fast. Write the formula with smoother functions."
    )


@cache
def _rule(k: int, nodes: int) -> tuple[Vector, Vector]:
    return gauss_jacobi(k, nodes)


def _quadrature_is_right(curve: Any, piece: float, t: float, reach: float, sizes: list[float]) -> bool:
    for k in (0, 3):
        for nodes, share in ((FEW, NEAR), (MANY, FAR)):
            for step in (share * reach, -share * reach):
                rules = [_rule(k, n) for n in (nodes, 14)]
                values = [np.array([jet(curve, t + u * step, piece)[k] for u in at]) for at, _ in rules]
                if not np.all(np.isfinite(values[1])):
                    continue  # beyond what double precision holds, in any case
                short, long = (float(weights @ f) for (_, weights), f in zip(rules, values, strict=True))
                if abs(short - long) > 2e-13 * float(np.max(np.abs(values[1]))) + 1e-15 * sizes[k]:
                    return False
    return True


def _joint_reach(curve: Any, reach: float, certificate: Certificate, name: str) -> float:
    """Return a reach with which remainders in location and log-scale are right as well.

    Again no bound depends on it. A change of the log scale counts by how far it moves u (`turning`).
    """
    places = _places(certificate, 64.0 * certificate.turn)
    for halvings in range(20):
        tried = curve._replace(reach=reach * 0.5**halvings)
        if all(_joint_quadrature_is_right(tried, u) for u in places):
            return float(tried.reach)
    raise CertificationError(
        f"custom: remainders of {name} cannot be computed accurately by quadrature where the scale changes: its "
        "derivatives change too fast. Write the formula with smoother functions."
    )


def _joint_quadrature_is_right(curve: Any, u: float) -> bool:
    """Compare short rules with a long one, along moves of location and log scale that are as long as they may be."""
    order = 4
    for (nodes, share), turned in itertools.product(((FEW, NEAR), (MANY, FAR)), (1.0, -1.0, 0.5)):
        turn = share * turned / turning(curve, u)
        step = share * (1.0 - abs(turned)) * curve.reach
        rules = [_rule(order - 1, n) for n in (nodes, 14)]
        values = [[_derivative_along(curve, u, step, turn, s, order) for s in at] for at, _ in rules]
        long, sizes = (np.array([v[k] for v in values[1]]) for k in (0, 1))
        if not np.all(np.isfinite(long)):
            continue  # beyond what double precision holds, in any case
        short = float(rules[0][1] @ np.array([v[0] for v in values[0]]))
        if abs(short - float(rules[1][1] @ long)) > 1e-12 * float(np.max(sizes)):
            return False
    return True


def _derivative_along(curve: Any, u: float, step: float, turn: float, s: float, m: int) -> tuple[float, float]:
    """Return the m-th derivative along a move of eta e^-tau and of tau, a share s of it on; and its terms' size."""
    shrink = math.exp(-s * turn)
    at = (u - s * step) * shrink
    g1, g2, g3, g4 = jet(curve, at, 0.0)
    moves = [math.comb(m, b) * (step * shrink) ** (m - b) * turn**b for b in range(m + 1)]
    total = sum(move * mixed_of_jet(g1, g2, g3, g4, at, m - b, b) for b, move in enumerate(moves))
    sizes = (
        abs(g1),
        abs(g2),
        abs(g3),
        abs(g4),
    )  # terms of h_ab may cancel, but have one sign if all these are positive
    return total, sum(abs(move * mixed_of_jet(*sizes, abs(at), m - b, b)) for b, move in enumerate(moves))


def _checked_responses(responses: Any) -> tuple[float, ...]:
    found = tuple(responses) if isinstance(responses, tuple | list) else ()
    if not 1 <= len(found) <= 64 or len(set(found)) < len(found):
        raise InputError(
            f"custom: responses={responses!r} was given; expected 1 to 64 different numbers, e.g. (0, 1)."
        )
    if not all(is_number(r) and math.isfinite(r) for r in found):
        raise InputError(f"custom: responses={responses!r} must be finite numbers.")
    return found


class Custom(CurveFamily):
    """A family made by `tb.families.custom`.

    Parameters
    ----------
    formula : str
        The potential.
    values : dict of str to float
        Its parameters.
    recipe : Recipe
        What the formula comes to.
    support : str or None
        Which responses there are.
    """

    def __init__(self, formula: str, values: dict[str, float], recipe: Recipe, support: str | None) -> None:
        self.formula, self.values, self.recipe = formula, values, recipe
        self.convex = all(c.convex for c in recipe.certificates)
        self.pieces = tuple(float(k) for k in range(len(recipe.certificates)))
        self._support = support or ("positive" if recipe.kind == "log-residual" else "real")
        if recipe.kind == "log-residual" and self._support != "positive":
            raise InputError(f"custom: support={support!r} was given, but log(y) needs support='positive'.")
        self._curve = _curve(recipe.module, recipe.reach, recipe.certificates, values)

    @property
    def curve(self) -> Any:
        """The curve, with its parameters."""
        return self._curve

    def critical_points(self, m: int) -> Vector:
        """Return the points that were proved to hold every extreme."""
        return np.array(sorted({x for c in self.recipe.certificates for x in c.critical[m]}), dtype=np.float64)

    def supremum(self, m: int) -> float:
        """Return the largest absolute m-th derivative on the whole line; inf if none is proved."""
        if not (self._curve.low == -math.inf and self._curve.high == math.inf):
            return math.inf
        return super().supremum(m)

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are outside the support."""
        if self.recipe.responses:
            return ~np.isin(y, np.array(self.recipe.responses))
        outside = SUPPORTS[self._support][1](y)
        with np.errstate(all="ignore"):
            m, _, c, l, _ = coefficients(self._curve, np.where(outside, 1.0, y))
        usable = np.isfinite(m) & (np.asarray(m) >= 0.0) & np.isfinite(c) & np.isfinite(l)
        return np.asarray(outside | ~np.broadcast_to(usable, y.shape), dtype=np.bool_)

    @property
    def support(self) -> str:
        """The responses, in words."""
        if self.recipe.responses:
            return "one of " + ", ".join(f"{r:g}" for r in self.recipe.responses)
        return SUPPORTS[self._support][0] + ", where the formula is a finite, non-negative multiple of its curve"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return the response, or its log, where t is a residual, else 0."""
        if self.recipe.kind == "residual":
            return y
        return np.log(y) if self.recipe.kind == "log-residual" else np.zeros(y.shape)

    def predictor_level(self, y: Vector) -> float:
        """Return the distance of the responses' median from 0, where they are on the scale of the predictor."""
        return abs(float(np.median(y))) if self.recipe.kind == "residual" else 0.0

    def predictor_scale(self, y: Vector, weights: Vector) -> float:
        """Return the spread of the responses where they are on the scale of the predictor."""
        if self.recipe.kind != "residual":
            return 1.0
        return robust_spread(y, weights) or float(np.std(y)) or 1.0

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean, if responses are few and the formula has their probabilities."""
        values = np.array(self.recipe.responses)
        return np.asarray(np.tensordot(values, self._probabilities("mean", eta), axes=1))

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return responses, if they are few and the formula has their probabilities."""
        below = np.cumsum(self._probabilities("distribution", eta)[:-1], axis=0)
        return np.asarray(self.recipe.responses)[np.sum(rng.random(eta.shape[1:]) >= below, axis=0)]

    def log_constant(self, y: Vector) -> Vector:
        """Return zeros, if responses are few and the formula has their probabilities."""
        self._probabilities("normalising constant", np.zeros((1, 1)))
        return np.zeros(y.shape)

    def _probabilities(self, what: str, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each response, in lines; raise if they are many or do not add up to 1."""
        if not self.recipe.responses:
            self._not_known(what)
        lines = np.ascontiguousarray(eta[0], dtype=np.float64).reshape(1, -1)
        found = [
            np.exp(-self.rows.jets(np.full((lines.size, 1), float(y)), lines, 0)[0]) for y in self.recipe.responses
        ]
        if not np.allclose(np.sum(found, axis=0), 1.0, rtol=0.0, atol=1e-6):
            self._not_known(what)
        return np.asarray(found).reshape(-1, *eta.shape[1:])

    def __repr__(self) -> str:
        """Show the formula and its parameters."""
        given = "".join(f", {name}={value:g}" for name, value in self.values.items())
        return f"custom({self.formula!r}{given})"


class CustomNoise(RealResponse):
    """Real responses, y = eta + scale * u, with noise made by `tb.families.custom`.

    Parameters
    ----------
    formula : str
        Minus the log density of the noise, of scale 1.
    values : dict of str to float
        Its parameters.
    scale : float or prior or None
        Scale of the noise, as of `Gaussian`.
    given : str or sympy.Expr
        The formula as the user gave it.
    """

    def __init__(self, formula: str, values: dict[str, float], scale: Any, given: Any) -> None:
        self.formula, self.values, self.scale = formula, values, scale
        self.check_scale()
        self.recipe = _recipe(given, values, None, "known" if self.known else "unknown")
        self.convex = self.known and all(c.convex for c in self.recipe.certificates)
        joint = (self.recipe.mixed,) if self.recipe.mixed else ()
        self._curve = _curve(
            self.recipe.module, self.recipe.reach, self.recipe.certificates, values | {"scale": self.unit}, joint
        )

    @property
    def title(self) -> str:
        """What users call it."""
        return "custom"

    @property
    def curve(self) -> Any:
        """The curve, with its parameters."""
        return self._curve

    def critical_points(self, m: int) -> Vector:
        """Return the points that were proved to hold every extreme."""
        return np.array(self.recipe.certificates[0].critical[m], dtype=np.float64)

    def mixed_critical_points(self, m: int) -> list[Vector]:
        """Return the points that were proved to hold every extreme of mixed derivatives."""
        assert self.recipe.mixed is not None
        return [np.array(self.recipe.mixed.critical[f"{m - b}{b}"], dtype=np.float64) for b in range(m + 1)]

    def supremum(self, m: int) -> float:
        """Return the largest absolute m-th derivative on the whole line; inf if none is proved."""
        if not (self._curve.low == -math.inf and self._curve.high == math.inf):
            return math.inf
        return super().supremum(m)

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Say that it is not known."""
        self._not_known("mean")

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Say that there is no way to draw it."""
        self._not_known("distribution")

    @property
    def log_height(self) -> float:
        """Say that it is not known."""
        self._not_known("normalising constant")

    def __repr__(self) -> str:
        """Show the formula, its parameters and its scale."""
        given = "".join(f", {name}={value:g}" for name, value in self.values.items())
        return f"custom({self.formula!r}{given}" + ("" if self.scale is None else f", scale={self.scale!r}") + ")"
