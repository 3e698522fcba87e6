"""Checks of a user's functions at set-up: finite everywhere, derivatives that agree, bounds not broken in sight."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.factors.rows import FactorRows
from tallbayes.models.passes import derivatives
from tallbayes.models.predictors import Identity
from tallbayes.sources.arrays import ArraySource

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PARTS = "potential", "gradient", "hessian"
ROWS, POINTS = 24, 3
STEP = 2e-4
"""Of the differences, relative to a parameter (or to 1)."""


def check_rows(
    rows: FactorRows, source: ArraySource, start: Vector, limits: dict[int, Vector], names: list[str]
) -> None:
    """Raise if a row is not finite at the start, or if derivatives or bounds are seen to be wrong near it.

    Parameters
    ----------
    rows : FactorRows
        Potential, gradient and Hessian of a row.
    source : ArraySource
        The rows.
    start : Vector
        Where to look.
    limits : dict
        Bounds by order of derivative.
    names : list of str
        Names of the parameters, for messages.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is seen and said
        value, gradient, hessian = source.reduce(derivatives, rows, Identity(), start)
    if not (np.isfinite(value) and np.all(np.isfinite(gradient)) and np.all(np.isfinite(hessian))):
        _refuse_row_that_is_not_finite(rows, source, start)
    rng = np.random.default_rng(0)
    size = 0.1 * np.maximum(1.0, np.abs(start))
    points = [start, *(start + size * rng.standard_normal(start.size) for _ in range(POINTS - 1))]
    some = np.unique(np.linspace(0, source.n - 1, min(ROWS, source.n)).astype(np.int64))
    looks = [(int(i), theta, _jet(rows, source.responses, int(i), theta)) for i in some for theta in points]
    looks = [look for look in looks if np.isfinite(look[2].potential)]  # elsewhere is outside the support, perhaps
    # A derivative of one row that has almost vanished is as exact as the terms that cancelled in it: as others are.
    size = np.array([[np.max(np.abs(part)) for part in jet] for *_, jet in looks]).max(axis=0)
    sizes = dict(zip(PARTS, size, strict=True))
    # All gradients first: a wrong one makes a right Hessian look wrong.
    for below, part in pairwise(PARTS):
        for i, theta, jet in looks:
            _check_part(rows, source.responses, i, theta, jet, part, below, sizes, names)
    for i, theta, jet in looks:
        _check_bounds(rows, source.responses, i, theta, jet, sizes, limits)


class _Jet(NamedTuple):
    potential: float
    gradient: Vector
    hessian: Matrix


def _jet(rows: FactorRows, X: Matrix, i: int, theta: Vector) -> _Jet:
    return _Jet(*rows.jet(X[i], theta))


def _refuse_row_that_is_not_finite(rows: FactorRows, source: ArraySource, theta: Vector) -> None:
    for i in range(source.n):
        parts = _jet(rows, source.responses, i, theta)
        for name, part in zip(PARTS, map(np.asarray, parts), strict=True):
            if not np.all(np.isfinite(part)):
                raise InputError(
                    f"{name}: row {i} gives {part} at the start {theta}; it must be finite for every row. (An "
                    "error that the function raises counts as NaN.) Choose another start, or write the potential "
                    "so that it does not overflow, e.g. with softplus or logsumexp."
                )
    raise InputError(f"potential: the sum over all rows at the start {theta} is too large for a number.")


def _check_part(
    rows: FactorRows,
    X: Matrix,
    i: int,
    theta: Vector,
    jet: _Jet,
    part: str,
    below: str,
    sizes: dict[str, float],
    names: list[str],
) -> None:
    """Raise if the gradient or the Hessian of a row is not that of what is below it, by differences."""
    whole = getattr(jet, part)
    if part == "hessian" and not np.allclose(whole, whole.T, rtol=1e-9, atol=1e-12 * np.max(np.abs(whole))):
        raise InputError(
            f"hessian: row {i} gives a matrix that is not symmetric at {theta}; fill both halves of out."
        )
    for j, name in enumerate(names):
        found, error = _difference(rows, X, i, theta, j, below, sizes[below])
        allowed = error + 1e-6 * np.max(np.abs(whole[j])) + 1e3 * np.finfo(float).eps * sizes[part]
        if np.any(np.abs(found - whole[j]) > allowed):
            raise InputError(
                f"{part}: row {i} gives {whole[j]} for {name!r} at {theta}; differences of the {below} give "
                f"{found}. The two must agree."
            )


def _check_bounds(
    rows: FactorRows,
    X: Matrix,
    i: int,
    theta: Vector,
    jet: _Jet,
    sizes: dict[str, float],
    limits: dict[int, Vector],
) -> None:
    """Raise if a derivative of a row is seen to exceed its bound; the third ones by differences."""
    seen = {1: float(np.linalg.norm(jet.gradient)), 2: float(np.max(np.abs(jet.hessian)))}
    if 3 in limits:
        pairs = [_difference(rows, X, i, theta, j, "hessian", sizes["hessian"]) for j in range(theta.size)]
        seen[3] = max(float(np.max(np.abs(found) * (1.0 - 1e-6) - error)) for found, error in pairs)
    what = {1: "its gradient is as long as", 2: "a second derivative is", 3: "a third derivative is about"}
    for m, limit in limits.items():
        allowed = float(limit[min(i, limit.size - 1)])
        if seen[m] > allowed * (1.0 + 1e-9):
            raise InputError(
                f"bounds[{m}]: row {i} has {allowed:.6g}, but at {theta} {what[m]} {seen[m]:.6g}. A bound must "
                "hold everywhere; derive it again."
            )


def _difference(
    rows: FactorRows, X: Matrix, i: int, theta: Vector, j: int, part: str, size: float
) -> tuple[Any, Any]:
    """Return the derivative of a part of the jet along one parameter, by differences, and how far off it may be."""
    h = STEP * max(1.0, abs(theta[j]))
    far, near = (_central(rows, X, i, theta, j, part, step) for step in (h, h / 2.0))
    rounding = 1e3 * np.finfo(float).eps * size / h
    return (4.0 * near - far) / 3.0, 10.0 * np.abs(far - near) + rounding  # Richardson: errors of second order


def _central(rows: FactorRows, X: Matrix, i: int, theta: Vector, j: int, part: str, h: float) -> Any:
    up, down = theta.copy(), theta.copy()
    up[j] += h
    down[j] -= h
    above, below = (getattr(_jet(rows, X, i, at), part) for at in (up, down))
    return (above - below) / (up[j] - down[j])
