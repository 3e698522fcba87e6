"""Unknown scales that have no end: where coefficients fit rows exactly, the scale of these may go to 0.

Let the scale of some rows be e^-t. Those that the coefficients fit to within e^-t have a density that rises like e^t
each, by its weight; the volume of coefficients that do so falls like e^-t for each coefficient that this determines. Of
other rows a Gaussian's density vanishes faster than any power, and that of Student's t falls like e^(-t df). Where
falling does not win, the posterior has no finite integral, or no mode, although there may be a hill beside it that a
search would take for one.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import counted
from tallbayes.errors import NoModeError
from tallbayes.families.student_t import StudentT
from tallbayes.models.starts import keeps_from_zero, least_squares
from tallbayes.models.subsamples import START_ROWS
from tallbayes.priors.resolved import UNIFORM
from tallbayes.sources.base import Block, GatheredRows, joined, take

if TYPE_CHECKING:
    from tallbayes.models.regression import Regression

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TOGETHER = 64
"""Rows that may share a scale of their own and be found; more if there are more columns."""
NOTHING = 1e-13
"""An eigenvalue of a Gram matrix of whitened rows that is zero, to rounding."""
FITTED = 1e-10
"""Residuals that are so small beside what they are left of are made of rounding."""
NEARLY = 1e-6
"""Residuals that are so small beside the spread of the responses, where a search ended."""
SUSPICIOUS = 0.8
"""Share of what would do no harm, in a sample of the responses, above which equal ones are counted in all rows."""
ADVICE = (
    "Give the scale (scale=1.0), or a prior that keeps it away from 0, e.g. scale=tb.priors.LogNormal(0, 1); or leave "
    "rows that do not vary to a model of their own."
)


def refuse_endless_scale(model: "Regression", threads: int | None) -> None:
    """Raise if the posterior of an unknown scale, or of its coefficients, does not exist or has no mode."""
    names = {output.name: output for output in model.structure.outputs}
    if "scale" in names and isinstance(model.family, StudentT) and not keeps_from_zero(model):
        _refuse_equal_responses(model, threads)
    elif "scale_beta" in names:
        output, columns = names["scale_beta"], model.structure.lines[0].count
        flat = ~model.coefficient_priors.proper[output.first : output.first + output.count]
        if np.any(flat) and not np.any(model.coefficient_priors.kind[:columns] == UNIFORM):
            _refuse_scales_of_few_rows(model, columns + np.flatnonzero(flat), threads)


# -- one scale of all rows --


def rise_of_density(fitted: float, weight: float, df: float) -> float:
    """Return how fast the log density rises as the log scale falls, with rows fitted exactly, of Student-t noise.

    The prior of the scale is a density that is finite at 0, so that of its logarithm falls by 1.
    """
    return fitted - df * (weight - fitted) - 1.0


def _refuse_equal_responses(model: "Regression", threads: int | None) -> None:
    """Raise if so many responses are equal that a scale of 0 around them has an infinite density."""
    df = float(model.family.df)
    values, places = np.unique(model.profile.responses, return_inverse=True)
    weights = np.broadcast_to(model.profile.weights, places.shape)
    shares = np.bincount(places, weights) / max(float(np.sum(weights)), 1e-300)
    most = int(np.argmax(shares))
    if shares[most] < SUSPICIOUS * df / (1.0 + df):
        return
    block = model.source.subsample(min(model.n, START_ROWS)).whole.converted()
    beta = least_squares(block.X, np.full(block.count, values[most]))
    residual = values[most] - block.X @ beta
    beta = beta + least_squares(block.X, residual)  # the ridge taken back
    fitted, total = model.source.reduce(_fitted, float(values[most]), beta, threads=threads)
    if rise_of_density(fitted, total, df) > 0.0:
        raise NoModeError(
            f"{model.family.title}: rows with a weight of {fitted:g} of {total:g} have the response {values[most]:g}. "
            f"The columns fit these exactly, and the density of Student-t noise (df={df:g}) then rises without end as "
            f"the scale goes to 0. {ADVICE}"
        )


def _fitted(block: Block, value: float, beta: Vector) -> Vector:
    """Return the weight of the rows of that response that coefficients fit, and that of all rows."""
    products = block.X @ beta
    size = np.abs(block.X) @ np.abs(beta) + abs(value)
    residual = block.responses[:, 0] - block.offset - products
    fits = (block.responses[:, 0] == value) & (np.abs(residual) <= FITTED * size)
    weight = np.broadcast_to(block.weight, fits.shape)
    return np.array([np.sum(weight[fits]), np.sum(weight)])


def fitted_exactly(model: "Regression", theta: Vector) -> str:
    """Return that rows which are fitted exactly draw the scale to 0, where a search is at theta without success."""
    outputs = {output.name: output for output in model.structure.outputs}
    if "scale" not in outputs or keeps_from_zero(model) or not np.all(np.isfinite(theta)):
        return ""
    beta = theta[: model.structure.lines[0].count]
    fitted, total = model.source.reduce(_nearly_fitted, beta, NEARLY * model.unit)
    df = float(getattr(model.family, "df", np.inf))
    if fitted == 0.0 or (fitted < total and not (df < np.inf and rise_of_density(fitted, total, df) > 0.0)):
        return ""
    freedom = f" of Student-t noise (df={df:g})" if df < np.inf else ""
    return (
        f"The {counted(beta.size, 'column')} can fit rows with a weight of {fitted:g} of {total:g} exactly, and the "
        f"density{freedom} then rises without end as the scale goes to 0. Use fewer columns. {ADVICE}"
    )


def _nearly_fitted(block: Block, beta: Vector, near: float) -> Vector:
    fits = np.abs(block.responses[:, 0] - block.offset - block.X[:, : beta.size] @ beta) <= near
    weight = np.broadcast_to(block.weight, fits.shape)
    return np.array([np.sum(weight[fits]), np.sum(weight)])


# -- a scale with columns of its own --


def _refuse_scales_of_few_rows(model: "Regression", columns: NDArray[np.intp], threads: int | None) -> None:
    """Raise if a scale that a few rows have for themselves may go to 0, under a flat prior of its coefficients.

    A direction of the coefficients of a log scale that leaves the scale of all but m rows alone gives these a
    leverage whose sum is at least 1: one that does so is found among rows whose leverage is at least 1 / m.
    """
    source = model.source
    gram = source.reduce(_gram, columns, threads=threads)
    scale = np.sqrt(np.diag(gram))
    if not np.all(scale > 0.0):
        return  # a column without a row, of which a search says more
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    if values[0] <= NOTHING * values.size:
        return  # columns that depend on others, likewise
    whiten = vectors / np.sqrt(values) / scale[:, None]
    least = 1.0 / max(TOGETHER, model.structure.lines[0].count)
    rest, found = source.reduce(_leading_rows, columns, whiten, least, threads=threads)
    if not found.parts:
        return
    left, directions = np.linalg.eigh(rest)
    alone = whiten @ directions[:, left <= NOTHING * left.size]
    if alone.shape[1] == 0:
        return
    rows = joined(found.parts)
    for direction in _sparsest(rows.X[:, columns] @ alone):
        own = alone @ direction
        fitted = _rows_without_end(model, rows, rows.X[:, columns] @ own)
        if fitted is not None:
            names = [
                model.structure.names[j] for j in columns[np.abs(own) * scale > 1e-6 * np.max(np.abs(own) * scale)]
            ]
            raise NoModeError(
                f"{model.family.title}: {counted(fitted, 'row')} {'has' if fitted == 1 else 'have'} a scale of "
                f"{'its' if fitted == 1 else 'their'} own, by {', '.join(repr(name) for name in names)}, and the "
                f"columns of X fit {'it' if fitted == 1 else 'them'} exactly: that scale may go to 0, and under a flat "
                "prior of its coefficients the posterior does not exist. Give these a proper prior, e.g. "
                "scale=tb.priors.Normal(0, 1), or leave them to the default (scale=None)."
            )


def _counting(block: Block) -> NDArray[np.bool_]:
    return np.broadcast_to(block.weight > 0.0, block.responses.shape[:1])


def _gram(block: Block, columns: NDArray[np.intp]) -> Matrix:
    Z = block.X[_counting(block)][:, columns]
    return np.asarray(Z.T @ Z)


def _leading_rows(
    block: Block, columns: NDArray[np.intp], whiten: Matrix, least: float
) -> tuple[Matrix, GatheredRows]:
    """Return the Gram matrix of whitened rows of little leverage, and the other rows."""
    white = np.where(_counting(block)[:, None], block.X[:, columns] @ whiten, 0.0)
    leads = np.einsum("ij,ij->i", white, white) >= least
    rest = white[~leads]
    return rest.T @ rest, GatheredRows([take(block, np.flatnonzero(leads))] if np.any(leads) else [])


def _sparsest(moves: Matrix) -> list[Vector]:
    """Return directions v for which moves @ v has as few numbers that are not zero as can be, with each row in one.

    Rows are put to zero one after the other, as long as the row in question still moves.
    """
    sizes = np.linalg.norm(moves, axis=1)
    unit = moves[sizes > 0.0] / sizes[sizes > 0.0, None]
    done, found = np.zeros(unit.shape[0], dtype=np.bool_), []
    for i in range(unit.shape[0]):
        if done[i]:
            continue
        space = np.eye(unit.shape[1])
        for k in range(unit.shape[0]):
            if space.shape[1] == 1:
                break
            across = unit[k] @ space
            if np.linalg.norm(across) <= FITTED:
                continue
            smaller = space @ np.linalg.svd(across[None])[2][1:].T
            if np.linalg.norm(unit[i] @ smaller) > FITTED:
                space = smaller
        direction = space @ (unit[i] @ space)
        done |= np.abs(unit @ direction) > FITTED * np.max(np.abs(unit @ direction))
        found.append(direction)
    return found


def _rows_without_end(model: "Regression", rows: Block, change: Vector) -> int | None:
    """Return how many rows' scales go to 0 along a direction that has no end, or None if it ends.

    Either sign of the direction will do. Rows whose scale grows fall by their weight; what coefficients gain there is
    left out, so that nothing is refused without reason.
    """
    change = np.where(np.abs(change) > FITTED * np.max(np.abs(change)), change, 0.0)
    weight = np.broadcast_to(rows.weight, change.shape)
    count = model.structure.lines[0].count
    for sign in (1.0, -1.0):
        speed = sign * change
        shrinking = np.flatnonzero(speed < 0.0)
        order = shrinking[np.argsort(speed[shrinking])]
        X = rows.X[order, :count]
        target = (rows.responses[:, 0] - rows.offset)[order]
        basis = _independent(X)
        if order.size and _consistent(X, target):
            rise = float(-weight[order] @ speed[order] + np.sum(speed[order[basis]]))
            fall = float(weight @ np.maximum(speed, 0.0))
            if rise - fall >= -1e-9 * float(weight @ np.abs(speed)):
                return int(order.size)
    return None


def _independent(X: Matrix) -> list[int]:
    """Return the first rows that none before them combine to, in their order."""
    basis: list[Any] = []
    chosen = []
    for i, row in enumerate(X):
        left = row / max(float(np.linalg.norm(row)), 1e-300)
        for _ in range(2):  # the second time for the rounding of the first
            for other in basis:
                left = left - (left @ other) * other
        if np.linalg.norm(left) > FITTED:
            basis.append(left / np.linalg.norm(left))
            chosen.append(i)
        if len(chosen) == X.shape[1]:
            break
    return chosen


def _consistent(X: Matrix, target: Vector) -> bool:
    """Return whether some coefficients fit a target exactly, to rounding."""
    sizes = np.linalg.norm(X, axis=0)
    scaled = X / np.where(sizes > 0.0, sizes, 1.0)
    beta = np.linalg.lstsq(scaled, target, rcond=FITTED)[0]
    size = np.max(np.abs(scaled) @ np.abs(beta) + np.abs(target), initial=0.0)
    return bool(np.max(np.abs(scaled @ beta - target), initial=0.0) <= FITTED * size)
