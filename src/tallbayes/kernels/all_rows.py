"""The log acceptance ratio over all rows, which a chain asks for where it cannot thin.

The source answers, in threads or wherever its rows are. Rows that are in memory and few are summed in the compiled
loop itself, one chain beside the other: threads that share each pass would wait for each other at every step.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled, compiled_within
from tallbayes.kernels.addressed import AddressedTarget
from tallbayes.kernels.scalable_mh_steps import run_chunk
from tallbayes.kernels.state import ALL_ROWS, Draws, State
from tallbayes.kernels.surrogate_values import prior_value
from tallbayes.kernels.target import prior_of
from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.models.predictors import Layout, predict_in_line
from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.bounds import shift
from tallbayes.setup.metric import Metric
from tallbayes.sources.arrays import ArraySource
from tallbayes.sources.memory import COLUMNS, load_row
from tallbayes.sources.supply import SuppliedRows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TILE = 128
"""Rows whose potentials are evaluated in one call."""
MOST_ROWS, MOST_NUMBERS = 65536, 2**19
"""Up to so many rows, and numbers in the design, a chain's own thread sums them: other threads take as long to begin,
and have chains of their own."""


def answer_from(model: Model, metric: Metric, prior: Callable[[Any, Vector], float] | None = None) -> Any:
    """Return a function that puts the log ratio over all rows of a model into a chain's state.

    Parameters
    ----------
    model : Model
        The model.
    metric : Metric
        Coordinates of the state.
    prior : callable or None
        ``prior(target, z)``, minus the log prior, less the proposal's G; defaults to the model's prior, with nothing
        taken off, for a target of any kind.

    Returns
    -------
    callable
        ``answer(target, state, threads)``, as a kernel has it prepared.
    """
    at = prior_of(model, metric) if prior is None else prior

    def answer(target: Any, state: State, threads: int | None) -> None:
        now = state.numbers[0]
        theta, other = metric.theta(state.z), metric.theta(state.proposed)
        given = model.rows, model.predictors
        with np.errstate(invalid="ignore"):
            if np.isnan(now.potential):
                change, there = model.source.reduce(passes.potential_change, *given, theta, other, threads=threads)
            else:
                there = model.source.reduce(passes.potential, *given, other, threads=threads)
                change = there - now.potential
            now.answer = at(target, state.z) - at(target, state.proposed) - change
        now.proposed_potential = there
        now.rows += model.n
        now.exposure += model.n
        now.work += model.n

    return answer


def rows_are_at_hand(model: Model) -> bool:
    """Return whether all rows are in memory, and few."""
    source = model.source
    return isinstance(source, ArraySource) and source.n <= MOST_ROWS and source.X.size <= MOST_NUMBERS


def columns_at_hand(model: Model) -> Matrix:
    """Return the columns of rows at hand, each in one line of memory; none unless there is one linear predictor."""
    if not model.predictors.linear:
        return np.empty((0, 0))
    assert isinstance(model.source, ArraySource)
    return np.ascontiguousarray(model.source.X.T, dtype=np.float64)


@compiled_within
def _predict_together(columns: Matrix, offset: Vector, theta: Vector, first: int, eta: Vector) -> None:
    """Put the linear predictors of consecutive rows into eta, column by column: rows side by side use SIMD."""
    for r in range(eta.size):
        eta[r] = offset[min(first + r, offset.size - 1)]
    for j in range(theta.size):
        coefficient, column = theta[j], columns[j, first : first + eta.size]
        for r in range(eta.size):
            eta[r] += coefficient * column[r]


@compiled_within
def _predict_each(
    rows: SuppliedRows, layout: Layout, theta: Vector, first: int, eta: Matrix, x: Vector, ends: Matrix
) -> None:
    """Put the predictors of consecutive rows into eta, row by row."""
    for r in range(eta.shape[1]):
        if layout.shape[0] == 0:  # every parameter is a predictor
            for j in range(theta.size):
                eta[j, r] = theta[j]
            continue
        load_row(rows.design, first + r, x)
        offset = rows.offset[min(first + r, rows.offset.size - 1)]
        predict_in_line(layout, x, rows.responses[first + r], offset, theta, theta, theta, ends)
        for p in range(layout.shape[0]):
            eta[p, r] = ends[0, p]


@compiled
def _sum_potential(
    target: AddressedTarget, jets: Any, columns: Matrix, theta: Vector, eta: Matrix, out: Matrix, row: Vector
) -> float:
    """Return the negative log-likelihood at theta."""
    rows = target.rows
    n, total = rows.responses.shape[0], 0.0
    x, ends = row[: rows.design[COLUMNS]], np.empty((3, eta.shape[0]))
    for first in range(0, n, TILE):
        count = min(TILE, n - first)
        if columns.size > 0:
            _predict_together(columns, rows.offset, theta, first, eta[0, :count])
        else:
            _predict_each(rows, target.likelihood.layout, theta, first, eta[:, :count], x, ends)
        jets(
            target.likelihood.parameters,
            rows.responses[first : first + count],
            eta[:, :count].copy(),
            0,
            0,
            False,
            out,
        )
        for r in range(count):
            w = rows.weight[min(first + r, rows.weight.size - 1)]
            if w != 0.0:
                total += w * out[0, r]
    return total


@compiled
def run_with_rows_at_hand(
    target: AddressedTarget,
    move: AffineProposal,
    state: State,
    rng: Any,
    draws: Draws,
    budget: int,
    surrogate_trials: Any,
    thin: Any,
    jets: Any,
    columns: Matrix,
) -> tuple[int, int]:
    """Run a chunk, and answer it here whenever it asks for all rows."""
    now, d, n = state.numbers[0], state.z.size, target.rows.responses.shape[0]
    lines = target.likelihood.layout.shape[0]
    eta = np.empty((lines if lines > 0 else d, TILE))
    out, row, theta = np.empty((1, TILE)), np.empty(d), np.empty(d)
    done = 0
    while True:
        rest = Draws(draws.z[done:], draws.accepted[done:], draws.rows_touched[done:], draws.full_pass[done:])
        made, request = run_chunk(target, move, state, rng, rest, budget, surrogate_trials, thin)
        done += made
        if request != ALL_ROWS:
            return done, request
        for end in range(2):
            if end == 0 and not np.isnan(now.potential):
                continue
            shift(target.whitening, state.proposed if end == 1 else state.z, theta)
            for j in range(d):
                theta[j] += target.likelihood.centre[j]
            found = _sum_potential(target, jets, columns, theta, eta, out, row)
            if end == 0:
                now.potential = found
            else:
                now.proposed_potential = found
        change = now.proposed_potential - now.potential
        terms = target.surrogate.terms
        here, there = prior_value(terms, state.z, state.padded), prior_value(terms, state.proposed, state.padded)
        now.answer = here - there - change
        now.rows += n
        now.exposure += n
        now.work += n
