r"""Counts with more (or fewer) zeros than a Poisson distribution has: zero-inflated and hurdle.

Two predictors: eta, the log of the Poisson mean l, and zeta, the log odds of a zero that is none of the Poisson's. With
w = zeta + l, c = 1 / (1 + e^w) and s = 1 / (1 + e^zeta),

- zero-inflated: U = log(1 + e^zeta) + l - y eta for y > 0, and log(1 + e^zeta) + l - log(1 + e^w) for y = 0;
- hurdle: U = log(1 + e^-zeta) for y = 0, and log(1 + e^zeta) + l + log(1 - e^-l) - y eta for y > 0, in which
  k = l / (e^l - 1) is the derivative of log(1 - e^-l) by eta.

Derivatives are polynomials in l, c, s, k and y (`families/atoms.py`).
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import ByAddress, compiled
from tallbayes.errors import InputError
from tallbayes.families.atoms import AtomRows, along, expansion, node, node_count, put_bounds, put_jets, table_of
from tallbayes.families.base import Vector
from tallbayes.families.elementary import bose, expit, log1mexp, softplus
from tallbayes.families.responses import CountResponse, poisson
from tallbayes.families.rows import BOUNDS, JETS, REMAINDERS, RowFunctions
from tallbayes.families.structure import Structure, location_and_second

ATOMS = "y l c s k"
_RULES = {
    "l": ("l", "0"),
    "c": ("-1 c l + c c l", "-1 c + c c"),
    "s": ("0", "-1 s + s s"),
    "k": ("k - l k - k k", "0"),
}
INFLATED_ZERO = table_of(ATOMS, ("l c", "c - s"), _RULES)
INFLATED_COUNT = table_of(ATOMS, ("l - y", "1 - s"), _RULES)
HURDLE_ZERO = table_of(ATOMS, ("0", "-1 s"), _RULES)
HURDLE_COUNT = table_of(ATOMS, ("l + k - y", "1 - s"), _RULES)
INFLATED, HURDLE = 0.0, 1.0


@compiled
def put_atoms(y: float, eta: float, zeta: float, out: Vector) -> None:
    """Put the atoms at a point into out."""
    mean = math.exp(min(eta, 700.0))
    out[0] = y
    out[1] = mean
    out[2] = expit(-(zeta + mean))
    out[3] = expit(-zeta)
    out[4] = bose(mean)


@compiled
def potential_of(kind: float, y: float, eta: float, zeta: float) -> float:
    """Return U of a row, up to a constant."""
    mean = math.exp(min(eta, 700.0))
    if y > 0.0:
        value = softplus(zeta) + mean - y * eta
        return value + log1mexp(mean) if kind == HURDLE else value
    if kind == HURDLE:
        return softplus(-zeta)
    w = zeta + mean
    # log(1 + e^w) is w + log(1 + e^-w): of large terms nothing is left to cancel.
    return softplus(-zeta) - math.log1p(math.exp(-w)) if w > 0.0 else softplus(zeta) + mean - softplus(w)


@compiled
def table_for(kind: float, y: float) -> Any:
    """Return the derivatives of a row's potential."""
    if kind == HURDLE:
        return HURDLE_COUNT if y > 0.0 else HURDLE_ZERO
    return INFLATED_COUNT if y > 0.0 else INFLATED_ZERO


@compiled
def left_over(kind: float, y: float, eta: Vector, move: Vector, k: int, atoms: Vector) -> float:
    """Return what the expansion of order k leaves of a row, for a move of its predictors."""
    table = table_for(kind, y)
    mean = math.exp(min(eta[0], 700.0))
    # Singularities: where an odds ratio is -1, and for a hurdle where e^l = 1; growth of e^eta on the way there.
    size = abs(move[1]) / math.pi + abs(move[0]) * (1.0 if y > 0.0 else 1.0 + mean)
    nodes = node_count(size)
    if nodes == 0:
        total = potential_of(kind, y, eta[0] + move[0], eta[1] + move[1]) - potential_of(kind, y, eta[0], eta[1])
        put_atoms(y, eta[0], eta[1], atoms)
        return total - expansion(table, atoms, move, k)
    total = 0.0
    for q in range(nodes):
        at, weight = node(k, q, nodes)
        put_atoms(y, eta[0] + at * move[0], eta[1] + at * move[1], atoms)
        total += weight * along(table, atoms, move, k + 1)
    return total


def _jets(parameters: Any, responses: Any, eta: Any, first: Any, last: Any, majorise: Any, out: Any) -> None:
    atoms = np.empty(5)
    for r in range(eta.shape[1]):
        y = responses[r, 0]
        if first == 0:
            out[0, r] = potential_of(parameters[0], y, eta[0, r], eta[1, r])
        put_atoms(y, eta[0, r], eta[1, r], atoms)
        put_jets(table_for(parameters[0], y), atoms, first, last, r, out)
        if majorise:  # the mixed term left out, and no negative curvature
            at = 3 if first == 0 else 0
            out[at, r] = max(out[at, r], 1e-3 * atoms[1])
            out[at + 1, r] = 0.0
            out[at + 2, r] = max(out[at + 2, r], atoms[3] * (1.0 - atoms[3]))


def _bounds(
    parameters: Any, extremes: Any, responses: Any, eta: Any, norms: Any, radius: Any, m: Any, out: Any
) -> None:
    low, high = np.empty(5), np.empty(5)
    for r in range(eta.shape[1]):
        y, wide, turn = responses[r, 0], radius * norms[0, r], radius * norms[1, r]
        put_atoms(y, eta[0, r] - wide, eta[1, r] - turn, low)
        put_atoms(y, eta[0, r] + wide, eta[1, r] + turn, high)
        for j in range(2, 5):  # these fall
            low[j], high[j] = high[j], low[j]
        put_bounds(table_for(parameters[0], y), low, high, norms, m, r, out)


def _remainders(parameters: Any, response: Any, eta: Any, old: Any, new: Any, order: Any, out: Any) -> None:
    atoms = np.empty(5)
    out[0] = left_over(parameters[0], response[0], eta, old, order, atoms)
    out[1] = left_over(parameters[0], response[0], eta, new, order, atoms)


FUNCTIONS = RowFunctions(ByAddress(JETS, _jets), ByAddress(BOUNDS, _bounds), ByAddress(REMAINDERS, _remainders))


@dataclass(frozen=True, eq=False)
class ZeroRows(AtomRows):
    """Rows of counts with zeros of their own.

    Parameters
    ----------
    kind : float
        INFLATED or HURDLE.
    """

    kind: float

    @property
    def functions(self) -> RowFunctions:
        """The same for both kinds."""
        return FUNCTIONS

    @property
    def parameters(self) -> Vector:
        """The kind."""
        return np.array([self.kind])

    def terms(self, response: Vector, eta: Vector, step: float, turn: float, order: int) -> float:
        """Return the size of what a remainder is the sum of, where predictors move by so much."""
        y, mean = float(response[0]), math.exp(min(float(eta[0]) + step, 700.0))
        powers = sum((mean * (step + turn) + turn + y * step) ** m for m in range(1, order + 1))
        return (mean + y) * (2.0 + abs(float(eta[0])) + step) + 2.0 * (1.0 + abs(float(eta[1])) + turn) + powers

    def steepness(self, eta: Vector) -> float:
        """Return how fast derivatives change with the predictors, relative to themselves."""
        return 1.0 + math.exp(min(float(eta[0]), 700.0))


class _WithZeros(CountResponse):
    """What both families have in common."""

    zeros: Any
    convex = False
    _kind: float
    _unknown: str
    """What responses that are all 0 leave open."""

    def for_responses(self, y: Vector | None) -> Self:
        """Return the family itself; raise if every response is 0, as far as that can be seen."""
        if y is not None and not np.any(y):
            raise InputError(
                f"y: every response with a weight is 0, so {self._unknown}. Use tb.families.Poisson(), whose mean is "
                "then near 0, or tb.families.Bernoulli() for zero or not."
            )
        return self

    @property
    def rows(self) -> ZeroRows:
        """Rows with two predictors."""
        return ZeroRows(self._kind)

    def structure(self, names: list[str], further: list[str]) -> Structure:
        """Return the coefficients of the log mean, and the log odds of zeros or its coefficients."""
        return location_and_second(names, further, "zero_logit")

    def further_priors(self) -> Any:
        """Return the prior of the log odds of zeros."""
        return self.zeros

    @property
    def predictor_labels(self) -> tuple[str, ...]:
        """The log of the Poisson mean, and the log odds of zeros."""
        return ("log(mean)", "zero_logit")

    def log_constant(self, y: Vector) -> Vector:
        """Return minus log(y!)."""
        from scipy.special import gammaln

        return np.asarray(-gammaln(y + 1.0))

    def starting_second(self, y: Vector) -> float:
        """Return the log odds of half of the zeros."""
        share = (0.5 * np.count_nonzero(y == 0.0) + 0.5) / (y.size + 1.0)
        return math.log(share / (1.0 - share))

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of a count, zeros included."""
        from scipy.special import expit

        mean = super().expected(eta)
        if self._kind == HURDLE:
            with np.errstate(invalid="ignore"):
                mean = np.where(mean > 0.0, mean / -np.expm1(-mean), 1.0)
        return np.asarray(mean * expit(-eta[1]))

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a count for each of the predictors."""
        from scipy.special import expit

        mean, zero = super().expected(eta), rng.random(eta.shape[1:]) < expit(eta[1])
        if self._kind == HURDLE:
            # Of a Poisson process until time l the first event is an exponential, given that it comes before l.
            first = -np.log1p(rng.random(mean.shape) * np.expm1(-mean))
            counts = 1.0 + poisson(rng, np.maximum(mean - first, 0.0))
        else:
            counts = poisson(rng, mean)
        return np.where(zero, 0.0, counts)


@dataclass(frozen=True)
class ZeroInflatedPoisson(_WithZeros):
    """Counts that are 0 with a probability of its own, and otherwise Poisson with the log of the mean as predictor.

    Reported as ``posterior["zero_logit"]``: the log odds of such a zero; with ``Regression(..., scale_design=Z)`` they
    have coefficients, ``posterior["zero_logit_beta"]``.

    Parameters
    ----------
    zeros : Prior or None
        Prior of the log odds of zeros, or of their coefficients, e.g. ``tb.priors.Normal(0, 2)``. By default
        Normal(0, 1.8), which a constant column has, too, wider if others are not centred; effects have Normal(0, 2.5)
        for the spread of their column.
    """

    zeros: Any = None
    _kind = INFLATED
    endless = ("zero_logit", "towards minus infinity counts are Poisson")
    _unknown = "nothing tells the zeros of the Poisson from the others"


@dataclass(frozen=True)
class HurdlePoisson(_WithZeros):
    """Counts that are 0 with a probability of its own, and otherwise Poisson given that they are not 0.

    Parameters
    ----------
    zeros : Prior or None
        Prior of the log odds of zeros, or of their coefficients, e.g. ``tb.priors.Normal(0, 2)``. By default
        Normal(0, 1.8), which a constant column has, too, wider if others are not centred; effects have Normal(0, 2.5)
        for the spread of their column.
    """

    zeros: Any = None
    _kind = HURDLE
    _unknown = "nothing tells how large counts beyond the hurdle are"
