"""Whether an intensity above its bound is so by rounding alone, or the bound is broken.

Chains keep every intensity above its bound, but for the rounding of the bound itself, for a closer look here: in
plain Python, because it is rare.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels.state import FACTS, FAR, INTENSITY, LIMIT, ROW
from tallbayes.kernels.target import Target, row_of

Vector = NDArray[np.float64]

EPSILON = float(np.finfo(np.float64).eps)


def exceeds(rows: Any, target: Target, suspect: Vector) -> bool:
    """Return whether an intensity breaks its bound by more than rounding can: the draws would not be exact."""
    intensity, limit = float(suspect[INTENSITY]), float(suspect[LIMIT])
    return not intensity <= limit + rounding_floor(rows, target, suspect)


def rounding_floor(rows: Any, target: Target, suspect: Vector) -> float:
    """Return how far rounding alone can lift a computed lambda_i above its bound.

    An inner product x . v is off by at most (d + 2) eps sum_j |x_j v_j|. Such an error e of a step moves a
    remainder by at most C_i (a_i distance)^k e / k!, where psi_i = w_i C_i a_i^(k+1) / (k+1)! and `distance` is
    the larger of the two states'; an error of a_i itself moves the bound by (k + 1) times its relative size;
    an error of the predictor moves a derivative by at most (k + 2) e / reach times itself (Cauchy). Of several
    predictors, psi_i is a sum of such products, each of which moves by the largest relative error of any.
    """
    d, k = target.centre.size, target.bound.order
    i, limit, distance = int(suspect[ROW]), float(suspect[LIMIT]), float(suspect[FAR])
    move, other = suspect[FACTS : FACTS + d], suspect[FACTS + d :]
    row = row_of(target, i)
    psi = float(target.rows.psi[i])
    if not row.lines.size:
        return float(rows.rounding(row.response, row.weight, target.centre, move, other, k, psi, distance, limit))
    unit = (d + 2) * EPSILON
    size = np.abs(row.lines)
    products = size @ (np.abs(move) + np.abs(other))
    predictors = abs(row.offset) + size @ np.abs(target.centre)
    norms, norm_errors = np.max(size, axis=1), np.zeros(size.shape[0])
    if target.bound.local:
        norms = np.linalg.norm(row.lines @ target.whitening, axis=1)
        norm_errors = unit * np.linalg.norm(size @ np.abs(target.whitening), axis=1)
    some = norms > 0.0
    if not np.any(some):
        return 0.0
    own, per_predictor = rows.rounding(row.response, row.eta, row.moved(target, move), row.moved(target, other), k)
    steps = psi * (k + 1) * distance**k * unit * float(np.max(products[some] / norms[some]))
    of_norms = float(np.max(norm_errors[some] / norms[some]))
    relative = (k + 1) * (16.0 * unit + of_norms) + unit * per_predictor(predictors)
    return float(row.weight * own + steps + relative * limit)
