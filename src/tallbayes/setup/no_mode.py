"""Why a posterior has no mode that a search could find, said in terms of the user's rows and columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import counted
from tallbayes.errors import NoModeError
from tallbayes.families.curve import coefficients, jet, mixes
from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

UNRESOLVED = 1e-10
"""A Newton step so short beside the coefficients themselves is made of rounding."""

NAMED = 6
"""Parameters that a message names."""


def failed_search(model: Model, what_happened: str, theta: Vector, step: Vector) -> NoModeError:
    """Return the error of a search that failed at theta, with the reason that can be seen there."""
    if np.all(np.isfinite(step)) and np.linalg.norm(step) <= UNRESOLVED * np.linalg.norm(theta):
        return NoModeError(
            f"{what_happened} The posterior is narrower than double precision resolves: its coefficients are known "
            f"to about {np.linalg.norm(step) / np.linalg.norm(theta):.1g} of their size. Look at the family's "
            "scale, at weights and at huge responses, or centre columns whose mean is far larger than their spread."
        )
    if reason := model.reason_without_mode(theta):
        return NoModeError(f"No mode was found. {reason}")
    return NoModeError(f"{what_happened} {_steepest_row(model, theta)}{model.mode_advice}")


def _steepest_row(model: Model, theta: Vector) -> str:
    """Describe the row that pulls hardest: a response, offset or weight out of all proportion shows there."""
    if not model.predictors.linear:
        return ""
    row = model.source.reduce(passes.steepest_row, model.rows, model.predictors, theta)
    return (
        f"The row that pulls hardest is {row.row}: response {row.response:.6g}, predictor {row.predictor:.3g} (offset "
        f"{row.offset:.3g}), weight {row.weight:.3g}. "
    )


def _involved(model: Model, direction: Vector, weight: Vector) -> str:
    share = np.abs(direction) * weight
    return _named(model, np.flatnonzero(share > 1e-3 * np.max(share)))


def _named(model: Model, parameters: NDArray[np.intp]) -> str:
    """Return the names of some parameters, in their order, and how many are left out."""
    more = f" and {parameters.size - NAMED} more" if parameters.size > NAMED else ""
    return ", ".join(repr(model.names[j]) for j in parameters[:NAMED]) + more


def moving_parameters(model: Model, step: Vector) -> str:
    """Name the parameters whose part of a step moves predictors most: half as far as the first of them, at least."""
    sizes = np.ones(model.d)
    for line in getattr(getattr(model, "structure", None), "lines", ()):
        sizes[line.parameter : line.parameter + line.count] = model.profile.largest[
            line.column : line.column + line.count
        ]
    moved = np.abs(step) * sizes
    order = np.argsort(-moved, kind="stable")
    return _named(model, order[moved[order] > 0.5 * moved[order[0]]])


def refuse_dependent_columns(model: Model, hessian: Matrix) -> None:
    """Raise if some combination of columns has no curvature at all, to rounding."""
    scale = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    if not model.family.convex and values[0] < -1e-8:
        return  # not at a mode yet: negative curvature says nothing about the columns
    if abs(values[0]) < 4.0 * model.d * np.finfo(np.float64).eps:
        columns = _involved(model, vectors[:, 0], np.ones(model.d))
        if "," not in columns:
            raise NoModeError(
                f"The rows say nothing about the coefficient of {columns}: its column is zero wherever weights "
                "are not, or offsets are so extreme that every response is certain. Under a flat prior the "
                "posterior does not exist. Drop the column, or give a proper prior, e.g. "
                "prior=tb.priors.Normal(0, 2.5)."
            )
        if np.any(model.coefficient_priors.proper):
            raise NoModeError(
                f"The columns {columns} are so nearly dependent ({counted(model.rows_given, 'row')}) that the prior "
                "disappears beside them in double precision. Drop one, or centre one whose mean is far larger than "
                "its spread."
            )
        raise NoModeError(
            f"The columns {columns} are linearly dependent, to rounding ({counted(model.rows_given, 'row')}), and the "
            "prior is flat along their combination, so the posterior does not exist. Drop one of them (centre one "
            "whose mean is far larger than its spread), or give a proper prior, e.g. prior=tb.priors.Normal(0, 2.5)."
        )


def refuse_recession(model: Model, step: Vector) -> None:
    """Raise if the potential of no row ever rises along a Newton step: separated classes."""
    if (
        not model.predictors.linear
        or not model.family.convex
        or np.any(step[model.coefficient_priors.proper] != 0.0)
    ):
        return
    if not _recedes(model, step):
        return
    # Leave out what the separation does not need, so that the message names few columns.
    size = model.profile.largest
    for j in np.argsort(np.abs(step) * size):
        shorter = np.where(np.arange(model.d) == j, 0.0, step)
        if _recedes(model, shorter):
            step = shorter
    raise NoModeError(
        f"The responses are separated by {_involved(model, step, size)}: moving these coefficients ever "
        "further fits every row better, so under a flat prior the posterior does not exist. "
        "Give a proper prior, e.g. prior=tb.priors.Normal(0, 2.5), or drop or merge these columns."
    )


def _recedes(model: Model, step: Vector) -> bool:
    """Return whether the potential of no row ever rises along -step, and that of some row moves.

    For a convex g the slope of row i far along v = -step is (s g'(+-inf) + l) x_i . v, with the sign of
    s x_i . v; if it is nowhere positive the potential falls, or stays, for ever.
    """
    # Almost always some row rises by a good part of what any could: then there is no need for the rest of the rows.
    most = float(np.abs(step) @ model.profile.largest)
    largest = highest = 0.0
    for block in model.source.blocks():
        change, rise = _rises(block.converted(), model.family, step)
        largest, highest = max(largest, change), max(highest, rise)
        if highest > 1e-6 * most and most > 0.0:
            return False
    model.source.passes += 1
    return largest >= 1e-3 and highest <= 1e-6 * largest


def _rises(block: Block, family: Any, step: Vector) -> tuple[float, float]:
    """Return the largest change of a predictor along -step, and the steepest rise of a potential far along it."""
    curve = family.curve
    change = -(block.X @ step)
    if block.weight.size > 1:
        change[block.weight == 0.0] = 0.0
    m, s, _, l, piece = coefficients(curve, block.responses[:, 0])
    far = np.zeros(change.shape)
    for p in family.pieces:
        falling, rising = jet(curve, -np.inf, p)[0], jet(curve, np.inf, p)[0]
        end = np.where(s * change > 0.0, rising, falling)
        share = (piece if p == 1.0 else 1.0 - piece) if mixes(curve) else np.where(piece == p, 1.0, 0.0)
        far = far + np.multiply(share, end, out=np.zeros(far.shape), where=np.broadcast_to(share > 0.0, far.shape))
    moving = change != 0.0
    rise = np.broadcast_to(m * s * far + l, change.shape)[moving] * change[moving]
    return float(np.max(np.abs(change))), float(np.max(rise, initial=0.0))
