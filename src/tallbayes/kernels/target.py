"""The posterior as a compiled chain sees it, and its acceptance probability by enumeration of all rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.base import Model
from tallbayes.models.predictors import lines_of_row, predict
from tallbayes.setup.bounds import Bound, distance_from_centre, event_factors, shift
from tallbayes.setup.bundles import Bundles
from tallbayes.setup.core import Core, core_at
from tallbayes.setup.exact_prior import ExactPrior, exact_at
from tallbayes.setup.expansion import expand
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import Polynomial, evaluate
from tallbayes.setup.tables import Tables, tables_at
from tallbayes.sources.memory import COLUMNS, load_row
from tallbayes.sources.supply import SuppliedRows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

RISE, FALL, STEP = 0, 1, 2
"""Kinds of events: for a remainder that rises to z', for one that falls from z, and for the step as a whole."""


class Likelihood(NamedTuple):
    """What a chain needs to evaluate one row."""

    centre: Vector
    """Parameters at z = 0."""
    layout: NDArray[np.int64]
    """How parameters become a row's predictors (`models/predictors.py`); empty if every parameter is one."""
    remainders: Any
    """What the expansion leaves of a row, by address (`families/rows.py`)."""
    parameters: Vector
    """Of that function."""


def likelihood_of(model: Model, metric: Metric) -> Likelihood:
    """Return what a chain needs to evaluate a row of a model."""
    layout, pointer = model.predictors.layout(model.d), model.rows.functions.remainders.pointer
    return Likelihood(metric.centre, layout, pointer, model.rows.parameters)


class Terms(NamedTuple):
    """What the surrogate, less the proposal's G, is the sum of."""

    polynomial: Polynomial
    exact: ExactPrior
    """Priors that are no polynomials."""
    core: Core
    """What the expansion leaves of core rows."""
    tables: Tables
    """Taken off: what the proposal's G has in place of a normal density's."""


class Surrogate(NamedTuple):
    """The surrogate, less the proposal's G, and functions of it by address (`surrogate_values.py`)."""

    terms: Terms
    value: Any
    """Of one proposal."""
    look_ahead: Any
    """Of a block of proposals, whose tabulated coordinates it draws."""
    walk_along_tables: Any
    """What a walk does along tabulated axes."""


class Target(NamedTuple):
    """The posterior in whitened coordinates z.

    Surrogate and prior have the proposal's own log ratio taken off, so that differences of them are all that
    acceptance needs.
    """

    whitening: Matrix
    """W: theta = centre + W z."""
    bound: Bound
    rows: SuppliedRows
    likelihood: Likelihood
    surrogate: Surrogate
    prior: Polynomial
    """Normal priors; others are in the surrogate."""
    bundles: Bundles
    """Of a sketch."""

    @property
    def centre(self) -> Vector:
        """Parameters at z = 0."""
        return self.likelihood.centre

    @property
    def exact(self) -> ExactPrior:
        """Priors that are no polynomials."""
        return self.surrogate.terms.exact

    @property
    def core(self) -> Core:
        """Rows that the surrogate has exactly."""
        return self.surrogate.terms.core


def surrogate_at(target: Target, z: Vector) -> float:
    """Return the surrogate, less the proposal's G."""
    return float(terms_at(target.surrogate.terms, z[None])[0])


def terms_at(terms: Terms, z: Matrix) -> Vector:
    """Return the surrogate, less the proposal's G, at the points in the lines of z."""
    plain = evaluate(terms.polynomial, z) + exact_at(terms.exact, z)
    return np.asarray(plain + core_at(terms.core, z) - tables_at(terms.tables, z))


def prior_at(target: Target, z: Vector) -> float:
    """Return the prior, less the proposal's G."""
    return _plain_prior(target.prior, target.exact, z) - float(tables_at(target.surrogate.terms.tables, z[None])[0])


def prior_of(model: Model, metric: Metric) -> Callable[[Any, Vector], float]:
    """Return the same function for targets of any kind: the model's prior, with nothing taken off."""
    _, prior, _, exact = expand(model, metric, 0, None)
    return lambda target, z: _plain_prior(prior, exact, z)


def _plain_prior(normal: Polynomial, exact: ExactPrior, z: Vector) -> float:
    return float(evaluate(normal, z[None])[0] + exact_at(exact, z[None])[0])


def inside_support(target: Any, z: Vector) -> Vector:
    """Return z, drawn towards the centre until the prior is finite there: a chain must not begin outside."""
    z = z.copy()
    while not np.isfinite(exact_at(target.exact, z[None])[0]):
        z *= 0.5
    return z


def state_factors(target: Target, z: Vector, other: Vector) -> tuple[float, float, float]:
    """Return what falls from z, rises to other, and the step as a whole can use of every psi_i."""
    bound, W = target.bound, target.whitening
    distance, other_distance = (distance_from_centre(bound.local, bound.free, W, point) for point in (z, other))
    return event_factors(bound, W, z, distance, other, other_distance)


def step_rate(target: Target, z: Vector, other: Vector) -> float:
    """Return the total rate at which rows are tried in a step from z to other."""
    return target.bound.total * sum(state_factors(target, z, other))


def shifted(target: Target, z: Vector) -> Vector:
    """Return theta - centre at z, as compiled code computes it."""
    move = np.empty(z.size)
    shift(target.whitening, z, move)
    return move


class TargetRow(NamedTuple):
    """One of the supplied rows, read as compiled code reads it."""

    x: Vector
    response: Vector
    weight: float
    offset: float
    lines: Matrix
    """A_i: what each parameter is multiplied by in each of its predictors; empty if every parameter is one."""
    eta: Vector
    """Its predictors at the centre."""

    def moved(self, target: Target, move: Vector) -> Vector:
        """Return how far its predictors move with theta."""
        return np.array([float(np.dot(line, move)) for line in self.lines]) if self.lines.size else move


def row_of(target: Target, i: int) -> TargetRow:
    """Read one of the supplied rows."""
    rows, layout, centre = target.rows, target.likelihood.layout, target.centre
    x, response = np.empty(int(rows.design[COLUMNS]) if layout.size else 0), rows.responses[i]
    load_row(rows.design, i, x)
    offset, weight = (float(v[min(i, v.size - 1)]) for v in (rows.offset, rows.weight))
    lines, ends = lines_of_row(layout, x, response, centre.size), np.empty((3, layout.shape[0]))
    predict(layout, x, response, offset, centre, centre, centre, ends)
    return TargetRow(x, response, weight, offset, lines, ends[0] if layout.size else centre)
