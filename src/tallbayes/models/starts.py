"""Where the search for a mode starts: least squares, and a scale that a few outliers do not move."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import counted
from tallbayes.errors import InputError, NoModeError
from tallbayes.families.responses import robust_spread
from tallbayes.models.products import weighted_gram
from tallbayes.priors.resolved import NORMAL, POWER, CoefficientPriors
from tallbayes.sources.base import Block
from tallbayes.sources.profile import SMALLEST_COLUMN

if TYPE_CHECKING:
    from tallbayes.models.regression import Regression

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

CERTAIN = 1e-13
"""Residuals that are so small beside the responses are made of rounding."""
SMALL = 1e-3
"""Where a scale starts, beside the spread of the responses, if they are fitted exactly and its prior allows for it."""
REFINEMENTS = 2
"""How often a ridge's effect on least squares is taken back."""


def least_squares(X: Matrix, target: Vector) -> Vector:
    """Return least squares by normal equations on scaled columns: a start may be rough.

    A ridge is for columns that depend on others.
    """
    scale = np.sqrt(np.einsum("ij,ij->j", X, X) / X.shape[0])
    scale[scale == 0.0] = 1.0
    gram = weighted_gram(X, np.ones(X.shape[0])) / np.outer(scale, scale)
    ridge = 1e-8 * X.shape[0] * np.eye(scale.size)
    return np.asarray(np.linalg.solve(gram + ridge, X.T @ target / scale) / scale)


def _left_over(block: Block, target: Vector, beta: Vector) -> tuple[float, float]:
    """Return the residuals' spread, as outliers that were drawn in leave it, and the size of what they are left of."""
    residual = target - block.X @ beta
    for _ in range(REFINEMENTS):
        residual = residual - block.X @ least_squares(block.X, residual)
    spread = robust_spread(residual, np.ones(1)) or float(np.sqrt(np.mean(residual**2)))
    largest = float(np.max(np.abs(target), initial=0.0)) + float(
        np.max(np.abs(block.X) @ np.abs(beta), initial=0.0)
    )
    return spread, largest


def _slope(prior: CoefficientPriors, at: float) -> float:
    """Return how fast the potential of a prior of a logarithm rises at a point."""
    return float(prior.stand_in(np.array([at]))[1][0])


def _rows_in_all(model: "Regression", block: Block) -> float:
    """Return about how many rows all are, with their weights, from those of a block."""
    return model.n * float(np.mean(block.weight))


def _responses(model: "Regression", block: Block) -> str:
    """Return in words how many responses a block has, and that there are others if it is a sample."""
    if block.count == model.n:
        return f"{block.count:,} responses"
    return f"a sample of {block.count:,} of {model.n:,} responses"


def _rows_and_columns(model: "Regression") -> str:
    """Return in words how many rows count, and how many columns there are."""
    rows, columns = model.profile.rows, model.structure.lines[0].count
    counting = "" if rows == model.n else f" with a weight that is not zero (of {model.n:,})"
    return f"{counted(rows, 'row')}{counting} and {counted(columns, 'column')}"


def starting_scale(model: "Regression", block: Block, target: Vector, beta: Vector) -> float:
    """Return the log of the residuals' spread; of an exact fit, of something if the prior allows for it."""
    spread, largest = _left_over(block, target, beta)
    if spread > CERTAIN * largest:
        return math.log(max(spread, SMALL * model.unit if keeps_from_zero(model) else 0.0))
    told = (
        f"The columns fit {_responses(model, block)} exactly, to rounding (residuals of {spread:.2g} beside responses "
        f"up to {largest:.3g})"
    )
    advice = (
        "Look for a column that is the response itself; use fewer columns than rows; or give the scale (scale=1.0)"
    )
    if not keeps_from_zero(model):
        raise NoModeError(f"{told}, so the posterior of the scale falls towards 0 without end. {advice}.")
    prior: Any = getattr(model.family, "scale", None)
    if _rows_in_all(model, block) + _slope(prior.of_scale(), math.log(CERTAIN * largest)) > 0.0:
        raise NoModeError(
            f"{told}, and {prior} with {model.n:,} rows leaves the scale below what rounding resolves: draws would be "
            f"those of rounding errors. {advice}, or a prior that holds it, e.g. scale=tb.priors.InverseGamma(2, 1)."
        )
    return math.log(max(spread, SMALL * model.unit))


def refuse_exact_amounts(model: "Regression", block: Block, target: Vector, beta: Vector) -> None:
    """Raise if the columns fit the log of every amount exactly, and the prior of an unknown shape does not end it.

    The log density then rises by half of every row for each unit of the log shape.
    """
    spread, largest = _left_over(block, target, beta)
    if spread > CERTAIN * max(largest, 1.0):
        return
    given = getattr(model.family, "shape", None)
    prior = model.coefficient_priors.part(model.d - 1)
    if 0.5 * _rows_in_all(model, block) > _slope(prior, -2.0 * math.log(CERTAIN)):
        raise NoModeError(
            f"The columns fit the logs of {_responses(model, block)} exactly, to rounding (residuals of {spread:.2g}), "
            f"so the posterior of the shape rises without end, or beyond what rounding resolves, under "
            f"{'the default prior' if given is None else given}. Look for a column that is the response itself; use "
            "fewer columns than rows; give the shape, e.g. Gamma(shape=1.0), or a prior that bounds it, e.g. "
            "Gamma(shape=tb.priors.HalfNormal(10))."
        )


def keeps_from_zero(model: "Regression") -> bool:
    """Return whether the prior of the scale has a density that vanishes at 0 faster than any power.

    There is then a mode even if the columns fit every response exactly; if it is positive at 0 there is not.
    """
    scale: Any = getattr(model.family, "scale", None)
    prior = scale.of_scale() if hasattr(scale, "of_scale") else None
    return prior is not None and bool(prior.kind[0] == NORMAL or (prior.kind[0] == POWER and prior.scale[0] < 0.0))


def refuse_certain_scale(model: "Regression", spread: float) -> None:
    """Raise where the posterior of an unknown scale does not exist, or has no mode: nothing is left to estimate it."""
    apart = float(np.ptp(model.profile.responses))
    if 0.0 < apart < SMALLEST_COLUMN:
        raise InputError(
            f"y: responses are no more than {apart:.3g} apart, whose powers no float64 holds. Rescale the response so "
            "that typical values are near 1."
        )
    if not spread > 0.0:
        raise InputError(
            "y: every response with a weight is the same, so nothing is known of the scale of the noise. Give it, e.g. "
            f"{model.family.title}(scale=1.0)."
        )
    columns = model.structure.lines[0].count
    if model.profile.rows <= columns and not keeps_from_zero(model):
        raise InputError(
            f"X: {_rows_and_columns(model)} were given. Columns that are as many as the rows fit every "
            "response exactly, and the density of the scale rises towards 0 without end. Use fewer columns, give the "
            "scale (e.g. scale=1.0), or a prior that keeps it away from 0, e.g. scale=tb.priors.LogNormal(0, 1)."
        )


def refuse_certain_shape(model: "Regression") -> None:
    """Raise where the posterior of an unknown shape with the default prior does not exist: amounts that do not vary."""
    rest = "Give it, e.g. Gamma(shape=1.0), or a prior that bounds it, e.g. Gamma(shape=tb.priors.HalfNormal(10))."
    if np.ptp(model.profile.responses) == 0.0:
        raise InputError(
            "y: every response is the same, so the density of the unknown shape rises without end: amounts that do not "
            f"vary have an infinite one. {rest}"
        )
    columns = model.structure.lines[0].count
    if model.profile.rows <= columns:
        raise InputError(
            f"X: {_rows_and_columns(model)} were given. Columns that are as many as the rows fit every "
            f"response exactly, and the density of the unknown shape rises without end. Use fewer columns. {rest}"
        )


def starting_parameters(model: "Regression", block: Block, target: Vector) -> Vector:
    """Return where the search starts: least squares, a scale from its residuals, or the family's own guess."""
    structure, X = model.structure, block.X
    columns = structure.lines[0].count
    own = model.family.starting_parameters(block.responses[:, 0], columns)
    if own is not None:
        return np.concatenate([own, np.zeros(model.d - own.size)])
    beta = least_squares(X[:, :columns], target)
    last = structure.outputs[-1].name
    if last == "beta":
        return beta
    level = model.family.starting_second(block.responses[:, 0])
    own_columns = block._replace(X=X[:, :columns])
    if level is None:
        level = starting_scale(model, own_columns, target, beta)
    elif last == "shape":
        refuse_exact_amounts(model, own_columns, target, beta)
    if structure.lines[-1].count == 0:
        return np.append(beta, level)
    return np.append(beta, least_squares(X[:, columns:], np.full(block.count, level)))


def ridge_of_parameters(model: "Regression", ridge: Vector) -> Vector:
    """Return the precisions that hold a subsample's parameters, from those of the columns' coefficients."""
    out = np.zeros(model.d)
    for line in model.structure.lines:
        share = 1.0 / model.unit**2 if line.offset_sign and len(model.structure.lines) > 1 else 1.0
        part = share * ridge[line.column : line.column + line.count]
        out[line.parameter : line.parameter + line.count] = part
    return out
