r"""Stand-ins: a few hundred rows that stand for all in a surrogate.

Where every row says a little of a skewed coefficient (three events among many thousand rows that all differ), no few
rows can be core rows. But the curvature of the potential is a sum over rows, and some hundred of them, drawn in
proportion to how much of it they can have and weighted by the inverse of that, estimate it in every direction, and with
it what the expansion leaves out. With stand-ins m of weight w_m the surrogate is

.. math:: S = U_0 + \sum_i T^1_i + \sum_m w_m (U_m - T^1_m) ,

T^1 being expansions of order 1. Weights are calibrated, so that S has the Hessian of the potential at the centre.
It is convex if the potential is, so it can be sampled wherever it leads. It is an estimate, so a step that it proposes
is accepted on all rows; how good it is decides how often.
"""

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.base import Model
from tallbayes.setup.core import TAYLOR, WEIGHT, Core, DistinctRows, core_of
from tallbayes.setup.expansion import Expansion
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import polynomial, subtract
from tallbayes.sources.base import take

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def drawn_by_bounds(model: Model, psi: Vector, count: int) -> DistinctRows:
    """Return rows drawn in proportion to bounds, with weights that make sums over them estimate those over all.

    They are evenly spaced in the running sum of the bounds, which scatters less than independent draws: a row is taken
    as often as its share says, or once more.
    """
    sums = np.cumsum(psi)
    each = sums[-1] / count
    places = np.searchsorted(sums, (np.arange(count) + 0.5) * each, side="right")
    rows, times = np.unique(np.minimum(places, psi.size - 1), return_counts=True)
    block = take(model.source.whole, rows).converted()  # type: ignore[attr-defined]
    offset, weight = (np.broadcast_to(part, block.count) for part in (block.offset, block.weight))
    table = np.column_stack([block.X, offset, block.responses[:, 0]])
    return DistinctRows(table, weight * times * each / psi[rows], count)


def with_stand_ins(
    model: Model, metric: Metric, expansion: Expansion, core: Core, rows: DistinctRows
) -> tuple[Expansion, Core]:
    """Return an expansion of order 2 and core rows, with stand-ins for what these leave out.

    Parameters
    ----------
    model : Model
        The model, with one predictor for each row.
    metric : Metric
        Coordinates and centre.
    expansion : Expansion
        Of order 2, of all rows.
    core : Core
        Rows that are in the surrogate as they are; none of them is a stand-in.
    rows : DistinctRows
        The stand-ins, with their weights.

    Returns
    -------
    Expansion, Core
        A surrogate is the sum of the two.
    """
    of_others = np.eye(model.d) - metric.prior_hessian - metric.stand_in_hessian
    if core.size:
        of_others -= _hessian_of(core, model.d)
    rows = rows._replace(weight=_calibrated(model, metric, rows, of_others))
    stand_ins = core_of(model, metric, rows, 1)
    surrogate = subtract(expansion.surrogate, polynomial(np.zeros(model.d), quadratic=of_others))
    return expansion._replace(surrogate=surrogate), core._replace(rows=np.vstack([core.rows, stand_ins.rows]))


def _calibrated(model: Model, metric: Metric, rows: DistinctRows, hessian: Matrix) -> Vector:
    """Return weights near those given with which the rows' Hessian is the one given, as far as that can be.

    It is the least change, in squares by weight, but of no weight by more than a factor of four. Of many columns only
    the diagonal is calibrated: there are more entries than rows could hold.
    """
    x, eta, response = _parts(model, metric, rows)
    white = x @ metric.inverse_root.T
    curvature = model.rows.jets(response, eta, 2, first=2)[0]
    a, b = np.tril_indices(model.d)
    if a.size > len(white) / 4:
        a = b = np.arange(model.d)
    features = curvature[:, None] * white[:, a] * white[:, b]
    missing = hessian[a, b] - rows.weight @ features
    normal = features.T @ (rows.weight[:, None] * features)
    change = features @ np.linalg.lstsq(normal, missing, rcond=1e-10)[0]
    return np.asarray(rows.weight * np.clip(1.0 + change, 0.25, 4.0))


def skewness(model: Model, metric: Metric, rows: DistinctRows) -> Vector:
    """Return about the skewness of every coefficient that the rows which stand-ins stand for give it.

    To leading order the third cumulant of a coefficient is minus the third derivative of the potential along the
    direction in which the others follow it.
    """
    x, eta, response = _parts(model, metric, rows)
    thirds = rows.weight * model.rows.jets(response, eta, 3, first=3)[0]
    directions = metric.matrix / np.linalg.norm(metric.matrix, axis=1)[:, None]
    return np.asarray(-(((x @ metric.inverse_root.T) @ directions.T).T ** 3) @ thirds)


def _parts(model: Model, metric: Metric, rows: DistinctRows) -> tuple[Matrix, Matrix, Matrix]:
    """Return the rows' design, their predictors at the centre, and their responses."""
    d = model.d
    x, offset, response = rows.table[:, :d], rows.table[:, d], rows.table[:, d + 1]
    return x, (x @ metric.centre + offset)[None], np.ascontiguousarray(response[:, None])


def _hessian_of(core: Core, d: int) -> Matrix:
    """Return the same of core rows, from their expansions."""
    white, curvature = core.rows[:, :d], 2.0 * core.rows[:, d + WEIGHT] * core.rows[:, d + TAYLOR + 2]
    return np.asarray(white.T @ (curvature[:, None] * white))
