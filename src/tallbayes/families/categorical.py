r"""Unordered classes: softmax regression with a reference class.

A row has a predictor for each class but the first, whose predictor is 0. Up to a constant U = log sum_l exp(eta_l) -
eta_y. Its derivatives along a move Delta of the predictors are the cumulants of Delta_l under the probabilities p_l of
the classes. If Delta lies within an interval of length R, and sigma^2 is its variance,

.. math:: 0 \le \kappa_2 = \sigma^2 \le R^2 / 4, \qquad |\kappa_3| \le R^3 / (6 \sqrt 3), \qquad
          -R^4 / 8 \le -2 \sigma^4 \le \kappa_4 \le R^2 \sigma^2 - 3 \sigma^4 \le R^4 / 12,

and :math:`|\kappa_3| \le R \sigma^2`, :math:`\sigma^2 \le \sum_l p_l (\Delta_l - \Delta_k)^2` for any class k: small
where one class is nearly certain (docs/mathematics.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_count
from tallbayes.compiled import ByAddress, compiled
from tallbayes.errors import InputError
from tallbayes.families.base import Family, Vector
from tallbayes.families.remainder import (
    FAR,
    FEW,
    FEW_NODES,
    FEW_WEIGHTS,
    MANY,
    MANY_NODES,
    MANY_WEIGHTS,
    NEAR,
)
from tallbayes.families.responses import drawn_class
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, RowFunctions, RowsByAddress
from tallbayes.families.structure import Line, Output, Structure

Matrix = NDArray[np.float64]

THIRD = 1.0 / (6.0 * math.sqrt(3.0))
"""The largest third cumulant on an interval of length 1: that of two points."""


@compiled
def log_sum(eta: Vector, move: Vector, share: float, out: Vector) -> float:
    """Put the probabilities at eta + share * move into out, the reference first; return the log of the sum."""
    q = eta.size
    largest = 0.0
    for j in range(q):
        largest = max(largest, eta[j] + share * move[j])
    total = math.exp(-largest)
    out[0] = total
    for j in range(q):
        out[j + 1] = math.exp(eta[j] + share * move[j] - largest)
        total += out[j + 1]
    for j in range(q + 1):
        out[j] /= total
    return largest + math.log(total)


@compiled
def cumulant(p: Vector, move: Vector, m: int) -> float:
    """Return the m-th cumulant, 1 to 4, of the moves of the classes, that of the reference being 0."""
    mean = 0.0
    for j in range(move.size):
        mean += p[j + 1] * move[j]
    if m == 1:
        return mean
    second, higher = p[0] * mean * mean, p[0]
    for _ in range(m):
        higher *= -mean
    for j in range(move.size):
        y, power = move[j] - mean, p[j + 1]
        second += power * y * y
        for _ in range(m):
            power *= y
        higher += power
    return higher - 3.0 * second * second if m == 4 else higher


@compiled
def remainder_of_classes(eta: Vector, move: Vector, k: int, p: Vector) -> float:
    """Return what the expansion of order k leaves of log sum exp(eta_l), for a move; p is scratch space.

    The sum does not vanish while the moves' imaginary parts lie within an interval shorter than pi, which is the
    distance to the nearest singularity.
    """
    low, high = 0.0, 0.0
    for j in range(move.size):
        low, high = min(low, move[j]), max(high, move[j])
    size = (high - low) / math.pi
    if size >= FAR:
        total = log_sum(eta, move, 1.0, p)
        total -= log_sum(eta, move, 0.0, p)
        factorial = 1.0
        for m in range(1, k + 1):
            factorial *= m
            total -= cumulant(p, move, m) / factorial
        return total
    total = 0.0
    nodes = FEW if size < NEAR else MANY
    for q in range(nodes):
        at = FEW_NODES[k, q] if nodes == FEW else MANY_NODES[k, q]
        weight = FEW_WEIGHTS[k, q] if nodes == FEW else MANY_WEIGHTS[k, q]
        log_sum(eta, move, at, p)
        total += weight * cumulant(p, move, k + 1)
    return total


@compiled
def norm_between(norms: Matrix, r: int, q: int, j: int, k: int) -> float:
    """Return how far the predictors of two classes move apart at most for a unit step; the reference is class 0."""
    a, b = min(j, k), max(j, k)
    if a == b:
        return 0.0
    if a == 0:
        return norms[b - 1, r]
    return norms[q + (b - 1) * (b - 2) // 2 + a - 1, r]


def _jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
    q = eta.shape[0]
    at, still, p = np.empty(q), np.zeros(q), np.empty(q + 1)
    for r in range(eta.shape[1]):
        for j in range(q):
            at[j] = eta[j, r]
        chosen = int(responses[r, 0])
        total, line = log_sum(at, still, 0.0, p), 0
        if first == 0:
            out[0, r] = total - (at[chosen - 1] if chosen > 0 else 0.0)
            line = 1
        if first <= 1 <= last:
            for j in range(q):
                out[line, r] = p[j + 1] - (1.0 if chosen == j + 1 else 0.0)
                line += 1
        if first <= 2 <= last:
            for j in range(q):
                for k in range(j + 1):
                    out[line, r] = p[j + 1] * ((1.0 if j == k else 0.0) - p[k + 1])
                    line += 1
        if last == 3:
            for j in range(q):
                for k in range(j + 1):
                    for l in range(k + 1):
                        a, b, c = p[j + 1], p[k + 1], p[l + 1]
                        value = 2.0 * a * b * c
                        if j == k:
                            value -= a * c
                        if k == l:
                            value -= a * b
                        if j == l:
                            value -= a * b
                        if j == k and k == l:
                            value += a
                        out[line, r] = value
                        line += 1


def _bounds(
    parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
) -> None:
    q = eta.shape[0]
    for r in range(eta.shape[1]):
        chosen, likely, widest = int(responses[r, 0]), 0, 0.0
        for j in range(1, q + 1):
            if eta[j - 1, r] > (eta[likely - 1, r] if likely > 0 else 0.0):
                likely = j
            for k in range(j):
                widest = max(widest, norm_between(norms, r, q, j, k))
        centre = chosen if m == 1 else likely
        here = eta[centre - 1, r] if centre > 0 else 0.0
        total, farthest = 0.0, 0.0
        for l in range(q + 1):
            apart = norm_between(norms, r, q, l, centre)
            odds = (eta[l - 1, r] if l > 0 else 0.0) - here + radius * apart
            most = 1.0 / (1.0 + math.exp(-odds)) if apart > 0.0 else 0.0
            total += most * (apart if m == 1 else apart * apart)
            farthest = max(farthest, apart)
        square = widest * widest
        if m == 1:
            rise = min(total, farthest)
            fall = rise
        elif m == 2:
            rise, fall = min(0.25 * square, total), 0.0
        elif m == 3:
            rise = widest * min(THIRD * square, total)
            fall = rise
        else:
            rise, fall = square * min(square / 12.0, total), min(0.125 * square * square, 2.0 * total * total)
        out[0, r], out[1, r] = rise, fall
        out[2, r] = rise if math.isnan(rise) else max(rise, fall)


def _remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
    p = np.empty(eta.size + 1)
    out[0] = remainder_of_classes(eta, old, order, p)
    out[1] = remainder_of_classes(eta, new, order, p)
    chosen = int(response[0])
    if order == 0 and chosen > 0:
        out[0] -= old[chosen - 1]
        out[1] -= new[chosen - 1]


FUNCTIONS = RowFunctions(ByAddress(JETS, _jets), ByAddress(BOUNDS, _bounds), ByAddress(REMAINDERS, _remainders))


@dataclass(frozen=True, eq=False)
class SoftmaxRows(RowsByAddress):
    """Rows of unordered classes.

    Parameters
    ----------
    classes : int
        How many classes there are.
    """

    classes: int

    @property
    def functions(self) -> RowFunctions:
        """The same for any number of classes."""
        return FUNCTIONS

    @property
    def parameters(self) -> Vector:
        """None."""
        return np.zeros(1)

    @cached_property
    def sums(self) -> Matrix:  # type: ignore[override]
        """The predictors, and all differences of two of them."""
        q = self.classes - 1
        unit = np.eye(q)
        return np.array([*unit, *(unit[j] - unit[k] for j in range(q) for k in range(j))])

    def extremes(self, m: int) -> Matrix:
        """Return nothing: bounds are formulas."""
        return np.zeros((1, 1))

    def rounding(
        self, response: Vector, eta: Vector, old: Vector, new: Vector, order: int
    ) -> tuple[float, Callable[[Vector], float]]:
        """Return how far rounding can be off in a row's two remainders, and how errors of its predictors count."""
        size = 0.0
        for move in (old, new):
            step = float(np.max(np.abs(move)))
            size += 2.0 * (1.0 + float(np.max(np.abs(eta))) + step) + sum(step**m for m in range(1, order + 1))

        def per_predictor(products: Vector) -> float:
            return (order + 2) * float(np.sum(products))

        return 16.0 * float(np.finfo(np.float64).eps) * size * (eta.size + 1), per_predictor


@dataclass(frozen=True)
class Categorical(Family):
    """Unordered classes, numbered 0, 1, ...: softmax (multinomial logistic) regression; class 0 is the reference.

    Every other class has coefficients of its own, named ``"class: column"``.

    Parameters
    ----------
    classes : int or sequence of str or None
        How many classes there are, or their names; counted in the responses by default.
    """

    classes: Any = None
    convex = True

    @property
    def ratio(self) -> str:
        """Odds ratios against the reference class."""
        return "odds ratio"

    def __post_init__(self) -> None:
        if self.classes is None or is_count(self.classes, 2):
            return
        names = self.classes if isinstance(self.classes, Sequence) and not isinstance(self.classes, str) else ()
        if len(names) < 2 or len({str(name) for name in names}) < len(names):
            raise InputError(
                f"Categorical: classes={self.classes!r} was given; expected a number of 2 or more, or as many "
                "different names, or None to count the classes in the responses."
            )
        object.__setattr__(self, "classes", tuple(str(name) for name in names))

    def for_responses(self, y: Vector | None) -> "Categorical":
        """Return the family with its classes counted, if that was left open."""
        if self.classes is not None:
            return self
        if y is None or not y.size:
            raise InputError(
                "Categorical: classes=None counts them in arrays; say how many there are, e.g. Categorical(4)."
            )
        if not np.all(np.isfinite(y)):
            return Categorical(2)  # a pass over the rows refuses them, and says which
        seen = np.unique(np.maximum(y, 0.0))
        if seen.size < 2 or not np.array_equal(seen, np.arange(seen.size)):
            raise InputError(
                f"Categorical: the responses are {', '.join(f'{value:g}' for value in seen[:5])}"
                f"{', ...' if seen.size > 5 else ''}; expected 0, 1, 2, ... without a gap, two classes at least. "
                "Number the classes from 0, or say how many there are, e.g. Categorical(4), if some have no response."
            )
        return Categorical(int(seen.size))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.classes if isinstance(self.classes, tuple) else tuple(str(j) for j in range(int(self.classes)))

    @property
    def predictor_labels(self) -> tuple[str, ...]:
        """Names of all classes but the reference."""
        return self.labels[1:]

    @property
    def rows(self) -> SoftmaxRows:
        """Rows with a predictor for each class but the reference."""
        return SoftmaxRows(len(self.labels))

    def structure(self, names: list[str], further: list[str]) -> Structure:
        """Return coefficients for each class but the reference, all of the same columns."""
        super().structure(names, further)
        p, others = len(names), self.labels[1:]
        lines = tuple(Line(0, p, j * p) for j in range(len(others)))
        every = tuple(f"{label}: {name}" for label in others for name in names)
        return Structure(lines, every, (Output("beta", 0, len(every), every),))

    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are no number of a class."""
        return (y < 0.0) | (y != np.floor(y)) | (y >= len(self.labels))

    @property
    def support(self) -> str:
        """Numbers of classes."""
        return f"whole numbers from 0 to {len(self.labels) - 1}, the numbers of its classes"

    def starting_predictor(self, y: Vector) -> Vector:
        """Return zeros."""
        return np.zeros(y.shape)

    def starting_parameters(self, y: Vector, columns: int) -> Vector:
        """Return zeros: the search starts where all classes are alike."""
        return np.zeros((len(self.labels) - 1) * columns)

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each class, classes x the shape of a predictor."""
        every = np.concatenate([np.zeros((1, *eta.shape[1:])), eta])
        shares = np.exp(every - np.max(every, axis=0))
        return np.asarray(shares / np.sum(shares, axis=0))

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the number of a class for each of the predictors."""
        return drawn_class(rng, np.cumsum(self.expected(eta), axis=0)[:-1])

    def log_constant(self, y: Vector) -> Vector:
        """Return zeros: the potential is minus the log of a probability."""
        return np.zeros(y.shape)
