r"""Ordered levels: a cumulative logit with cut points; and what it shares with the probit (`ordinal_probit.py`).

Level y has the probability F(a) - F(b), a = c_y - x . beta and b = c_(y-1) - x . beta, F(t) = 1 / (1 + e^-t); the
lowest level has no b, and the highest no a. Its potential is a sum of functions of one variable each:

.. math:: U = \log(1 + e^{-a}) + \log(1 + e^b) - \log(1 - e^{-(a - b)}) .

So are its derivatives along any move, and their ranges over a box are sums of ranges: the logistic curve's, and those
of the last term, whose derivatives are monotone. Cut points that are not in order have the potential infinity.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_count
from tallbayes.compiled import ByAddress, compiled
from tallbayes.errors import InputError
from tallbayes.families.base import Family, Vector
from tallbayes.families.bernoulli import Bernoulli, Softplus
from tallbayes.families.curve import jet, potential
from tallbayes.families.levels import LevelRows
from tallbayes.families.links import RATIOS
from tallbayes.families.ordinal_probit import ProbitLevelRows
from tallbayes.families.ranges import derivative_range
from tallbayes.families.remainder import (
    FAR,
    FEW,
    FEW_NODES,
    FEW_WEIGHTS,
    MANY,
    MANY_NODES,
    MANY_WEIGHTS,
    NEAR,
    remainder,
    remainder_rounding,
)
from tallbayes.families.responses import drawn_class
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, RowFunctions
from tallbayes.families.structure import Line, Output, Structure

Matrix = NDArray[np.float64]

LINKS = ("logit", "probit")


@compiled
def gap(delta: float, m: int) -> float:
    """Return the m-th derivative, 0 to 4, of -log(1 - e^-delta) for delta > 0; infinite for others.

    With q = 1 / (e^delta - 1) they are -q, q (1 + q), -q (1 + q) (1 + 2 q) and q (1 + q) (1 + 6 q + 6 q^2).
    """
    if not delta > 0.0:
        return math.inf
    if m == 0:
        return -math.log(-math.expm1(-delta)) if delta < 0.7 else -math.log1p(-math.exp(-delta))
    q = 1.0 / math.expm1(delta) if delta < 700.0 else 0.0
    if m == 1:
        return -q
    second = q * (1.0 + q)
    if m == 2:
        return second
    if m == 3:
        return -second * (1.0 + 2.0 * q)
    return second * (1.0 + 6.0 * q * (1.0 + q))


@compiled
def gap_remainder(delta: float, step: float, k: int) -> float:
    """Return what the expansion of order k leaves of -log(1 - e^-delta); its singularity is at 0."""
    if not delta + step > 0.0:
        return math.inf
    size = abs(step) / min(delta, 6.0)
    if size >= FAR:
        total = gap(delta + step, 0) - gap(delta, 0)
        power = 1.0
        for m in range(1, k + 1):
            power *= step / m
            total -= gap(delta, m) * power
        return total
    total = 0.0
    nodes = FEW if size < NEAR else MANY
    for q in range(nodes):
        at = FEW_NODES[k, q] if nodes == FEW else MANY_NODES[k, q]
        weight = FEW_WEIGHTS[k, q] if nodes == FEW else MANY_WEIGHTS[k, q]
        total += weight * gap(delta + at * step, k + 1)
    for _ in range(k + 1):
        total *= step
    return total


def _jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
    levels, curve = int(parameters[0]), Softplus(math.pi)
    for r in range(eta.shape[1]):
        level = int(responses[r, 0])
        upper, lower = level < levels - 1, level > 0
        a, b = -eta[0, r], eta[1, r]  # of log(1 + e^t)
        one, other = jet(curve, a, 0.0), jet(curve, b, 0.0)
        line = 0
        for m in range(first, last + 1):
            for count in range(m + 1):  # derivatives by b
                value = 0.0
                if m == 0:
                    value += potential(curve, a, 0.0) if upper else 0.0
                    value += potential(curve, b, 0.0) if lower else 0.0
                if m > 0 and count == 0 and upper:
                    part = one[0] if m == 1 else one[1] if m == 2 else one[2]
                    value += -part if m % 2 == 1 else part
                if m > 0 and count == m and lower:
                    value += other[0] if m == 1 else other[1] if m == 2 else other[2]
                if upper and lower:
                    part = gap(eta[0, r] - eta[1, r], m)
                    value += -part if count % 2 == 1 else part
                out[line, r] = value
                line += 1


def _bounds(
    parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
) -> None:
    levels, curve = int(parameters[0]), Softplus(math.pi)
    for r in range(eta.shape[1]):
        level = int(responses[r, 0])
        upper, lower = level < levels - 1, level > 0
        rise, fall, whole = 0.0, 0.0, 0.0
        for part in range(3):
            if (part == 0 and not upper) or (part == 1 and not lower) or (part == 2 and not (upper and lower)):
                continue
            t = -eta[0, r] if part == 0 else eta[1, r] if part == 1 else eta[0, r] - eta[1, r]
            wide, size = radius * norms[part, r], 1.0
            for _ in range(m):
                size *= norms[part, r]
            if part < 2:
                least, largest = derivative_range(curve, m, t - wide, t + wide, extremes, 0.0)
            else:  # each derivative is the larger the smaller the difference, and has one sign
                end = gap(t - wide, m)
                far = gap(t + wide, m)
                least, largest = min(end, far), max(end, far)
                if not t - wide > 0.0:
                    least, largest = -math.inf, math.inf
            up, down = max(0.0, largest), max(0.0, -least)
            both = max(up, down)
            rise += size * (up if m % 2 == 0 else both)
            fall += size * (down if m % 2 == 0 else both)
            whole += size * both
        out[0, r], out[1, r], out[2, r] = rise, fall, whole


def _remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
    levels, curve, level = int(parameters[0]), Softplus(math.pi), int(response[0])
    upper, lower = level < levels - 1, level > 0
    for end in range(2):
        move = old if end == 0 else new
        total = 0.0
        if upper:
            total += remainder(curve, -eta[0], -move[0], order, 0.0)
        if lower:
            total += remainder(curve, eta[1], move[1], order, 0.0)
        if upper and lower:
            total += gap_remainder(eta[0] - eta[1], move[0] - move[1], order)
        out[end] = total


FUNCTIONS = RowFunctions(ByAddress(JETS, _jets), ByAddress(BOUNDS, _bounds), ByAddress(REMAINDERS, _remainders))


@dataclass(frozen=True, eq=False)
class OrdinalRows(LevelRows):
    """Rows of ordered levels with a logit link."""

    @property
    def functions(self) -> RowFunctions:
        """The same for any number of levels."""
        return FUNCTIONS

    def extremes(self, m: int) -> Matrix:
        """Return those of the logistic curve."""
        return _logistic_extremes(m)

    def rounded(self, level: int, eta: Vector, move: Vector, apart: float, order: int) -> float:
        """Return how far rounding can be off in a remainder; of a level between others, with its cuts so far apart."""
        curve = Softplus(math.pi)
        own = remainder_rounding(curve, -float(eta[0]), -float(move[0]), 0.0)
        own += remainder_rounding(curve, float(eta[1]), float(move[1]), 0.0)
        if self.inside(level):
            step = abs(float(move[0] - move[1]))
            size = abs(gap(apart, 0)) + abs(gap(max(apart - step, 1e-300), 0))
            size += sum(abs(gap(apart, m)) * step**m / math.factorial(m) for m in range(1, order + 1))
            # The difference of two predictors is off by as much as they are.
            size += abs(gap(max(apart - step, 1e-300), 1)) * (abs(float(eta[0])) + abs(float(eta[1])) + step)
            own += 16.0 * float(np.finfo(np.float64).eps) * size
        return own


@cache
def _logistic_extremes(m: int) -> Matrix:
    return Bernoulli().extremes(m)


def _recoding(seen: Vector, shifted: bool) -> str:
    """Return how to number levels from 0, given the numbers that they have."""
    if shifted:
        return f"Subtract {seen[0]:g}" if seen[0] > 0.0 else f"Add {-seen[0]:g}"
    return "Number them in their order, e.g. np.unique(y, return_inverse=True)[1]"


@dataclass(frozen=True)
class Ordinal(Family):
    """Ordered levels, numbered 0, 1, ...: cumulative logit (proportional odds) or probit with cut points.

    The predictor has no intercept of its own: give no column of ones. The cut points c_1 < c_2 < ... are reported as
    ``posterior["cut"]``; P(y <= j) = F(c_(j+1) - x . beta), F(t) being 1 / (1 + exp(-t)) or the normal's Phi(t).

    Parameters
    ----------
    levels : int or sequence of str or None
        How many levels there are, or their names; counted in the responses by default.
    link : str
        "logit" or "probit".
    cuts : Prior or None
        Prior of the cut points, e.g. ``tb.priors.Normal(0, 5)``, within their order. By default that of an intercept
        beside the same columns (`tallbayes.priors.WeaklyInformative`): Normal(0, 10), wider if they are not centred.
    """

    levels: Any = None
    link: str = "logit"
    cuts: Any = None
    convex = True
    in_place_of_intercept = "cut points"

    @property
    def ratio(self) -> str:
        """Odds ratios of a higher level."""
        return RATIOS[self.link]

    def __post_init__(self) -> None:
        if self.link not in LINKS:
            raise InputError(f"Ordinal: link={self.link!r} was given; expected 'logit' or 'probit'.")
        if self.levels is None or is_count(self.levels, 3):
            return
        names = self.levels if isinstance(self.levels, Sequence) and not isinstance(self.levels, str) else ()
        if len(names) < 3 or len({str(name) for name in names}) < len(names):
            raise InputError(
                f"Ordinal: levels={self.levels!r} was given; expected a number of 3 or more (of two levels: "
                "Bernoulli), or as many different names, or None to count the levels in the responses."
            )
        object.__setattr__(self, "levels", tuple(str(name) for name in names))

    def for_responses(self, y: Vector | None) -> "Ordinal":
        """Return the family with its levels counted, if that was left open."""
        if y is None or not y.size:
            if self.levels is not None:
                return self
            raise InputError("Ordinal: levels=None counts them in arrays; say how many there are, e.g. Ordinal(5).")
        if not np.all(np.isfinite(y)):  # a pass over the rows refuses them, and says which
            return self if self.levels is not None else replace(self, levels=3)
        seen = np.unique(y)
        if self.levels is None and seen.size < 3:
            raise InputError(
                f"Ordinal: the responses are {' and '.join(f'{value:g}' for value in seen)}; expected three levels or "
                "more. Use tb.families.Bernoulli() for two levels, numbered 0 and 1."
            )
        count = seen.size if self.levels is None else self.count
        numbers = np.arange(float(count))
        shifted = seen.size == count and np.array_equal(seen - seen[0], numbers)
        if (self.levels is None or shifted) and not np.array_equal(seen, numbers):
            raise InputError(
                f"Ordinal: the responses are {', '.join(f'{value:g}' for value in seen[:5])}"
                f"{', ...' if seen.size > 5 else ''}; expected 0, 1, 2, ... without a gap. {_recoding(seen, shifted)}, "
                "or write C(...) around the response of a formula, which numbers its levels in their order."
            )
        return self._checked(seen) if self.levels is not None else replace(self, levels=count)

    def _checked(self, seen: Vector) -> "Ordinal":
        """Raise if a level has no response: then nothing orders the cut points on both sides of it."""
        if np.any(self.unsupported(seen)):  # of which a pass over the rows says where
            return self
        empty = sorted(set(range(self.count)) - set(seen.astype(int).tolist()))
        if empty:
            name = f" ({self.labels[empty[0]]!r})" if isinstance(self.levels, tuple) else ""
            from_one = ", or subtract 1 if they are numbered from 1" if empty == [0] else ""
            raise InputError(
                f"Ordinal: no response has level {empty[0]}{name} of {self.count}, so its cut points cannot be told "
                f"apart. Merge it with a level beside it, and number the levels without gaps{from_one}."
            )
        return self

    @property
    def count(self) -> int:
        """How many levels there are."""
        return len(self.levels) if isinstance(self.levels, tuple) else int(self.levels)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the levels."""
        return self.levels if isinstance(self.levels, tuple) else tuple(str(j) for j in range(self.count))

    @property
    def predictor_labels(self) -> tuple[str, ...]:
        """Names of the cut points."""
        return tuple(f"{low}|{high}" for low, high in pairwise(self.labels))

    @property
    def rows(self) -> OrdinalRows | ProbitLevelRows:
        """Rows with two predictors."""
        return OrdinalRows(self.count) if self.link == "logit" else ProbitLevelRows(self.count)

    def structure(self, names: list[str], further: list[str]) -> Structure:
        """Return the coefficients, and the cut points: a row has the one above its level and the one below."""
        super().structure(names, further)
        p, cuts = len(names), self.count - 1
        common = {"sign": -1, "offset_sign": -1, "own": p, "own_count": cuts, "by_response": 1}
        lines = Line(0, p, 0, **common), Line(0, p, 0, **common, own_shift=-1)
        between = self.predictor_labels
        every = (*names, *(f"cut[{name}]" for name in between))
        return Structure(
            lines,
            every,
            (Output("beta", 0, p, tuple(names)), Output("cut", p, cuts, between, dimension="cut_between")),
        )

    def further_priors(self) -> Any:
        """Return the prior of the cut points."""
        return self.cuts

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are no number of a level."""
        return (y < 0.0) | (y != np.floor(y)) | (y >= self.count)

    @property
    def support(self) -> str:
        """Numbers of levels."""
        last = self.count - 1
        return f"whole numbers from 0 to {last}, the numbers of its levels (subtract 1 if they are numbered from 1)"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return zeros."""
        return np.zeros(y.shape)

    def starting_parameters(self, y: Vector, columns: int) -> Vector:
        """Return no effects, and cut points that give the levels' shares."""
        counts = np.bincount(y.astype(np.int64), minlength=self.count) + 0.5
        below = np.cumsum(counts)[:-1] / np.sum(counts)
        return np.concatenate([np.zeros(columns), self._below()[1](below)])

    def _below(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the probability of a level or one before it, as a function of its cut point, and the inverse."""
        from scipy.special import expit, logit, ndtr, ndtri

        return (expit, logit) if self.link == "logit" else (ndtr, ndtri)

    def predicting(self, names: list[str], further: list[str]) -> tuple[Line, ...]:
        """Return a predictor for each cut point, less x . beta."""
        lines = self.structure(names, further).lines
        return tuple(lines[0]._replace(by_response=0, own_shift=j) for j in range(self.count - 1))

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of the levels: differences, taken on the side where they are small."""
        below, _ = self._below()
        end = np.full((1, *eta.shape[1:]), np.inf)
        low, high = np.concatenate([-end, eta]), np.concatenate([eta, end])
        return np.where(low > 0.0, below(-low) - below(-high), below(high) - below(low))

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers of levels."""
        return drawn_class(rng, self._below()[0](eta))

    def log_constant(self, y: Vector) -> Vector:
        """Return zeros: the potential is minus the log of a probability."""
        return np.zeros(y.shape)
