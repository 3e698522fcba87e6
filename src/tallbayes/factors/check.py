"""Checks of a user's functions at set-up: finite everywhere, derivatives that agree, bounds not broken in sight."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.factors.rows import FactorFunctions, row_jet
from tallbayes.sources.arrays import ArraySource

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROWS, POINTS = 24, 3
STEP = 2e-4
"""Of the differences, relative to a parameter (or to 1)."""


def check_rows(
    curve: FactorFunctions, source: ArraySource, start: Vector, limits: dict[int, Vector], names: list[str]
) -> None:
    """Raise if a row is not finite at the start, or if derivatives or bounds are seen to be wrong near it.

    Parameters
    ----------
    curve : FactorFunctions
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
    value, gradient, hessian = source.derivatives(curve, start)
    if not (np.isfinite(value) and np.all(np.isfinite(gradient)) and np.all(np.isfinite(hessian))):
        _refuse_row_that_is_not_finite(curve, source, start)
    rng = np.random.default_rng(0)
    size = 0.1 * np.maximum(1.0, np.abs(start))
    points = [start, *(start + size * rng.standard_normal(start.size) for _ in range(POINTS - 1))]
    some = np.unique(np.linspace(0, source.n - 1, min(ROWS, source.n)).astype(np.int64))
    looks = [(int(i), theta, _jet(curve, source.rows.X, int(i), theta)) for i in some for theta in points]
    looks = [look for look in looks if np.isfinite(look[2].value)]  # elsewhere is outside the support, perhaps
    # A derivative of one row that has almost vanished is as exact as the terms that cancelled in it: as others are.
    size = np.array([[np.max(np.abs(part)) for part in jet] for *_, jet in looks]).max(axis=0)
    for i, theta, jet in looks:
        _check_derivatives(curve, source.rows.X, i, theta, jet, size, names)
        _check_bounds(i, theta, jet, limits)


class _Jet(NamedTuple):
    value: float
    gradient: Vector
    hessian: Matrix


def _jet(curve: FactorFunctions, X: Matrix, i: int, theta: Vector) -> _Jet:
    gradient, hessian = np.empty(theta.size), np.empty((theta.size, theta.size))
    return _Jet(row_jet(curve, X, i, theta, gradient, hessian), gradient, hessian)


def _refuse_row_that_is_not_finite(curve: FactorFunctions, source: ArraySource, theta: Vector) -> None:
    for i in range(source.n):
        parts = _jet(curve, source.rows.X, i, theta)
        for name, part in zip(("potential", "gradient", "hessian"), map(np.asarray, parts), strict=True):
            if not np.all(np.isfinite(part)):
                raise InputError(
                    f"{name}: row {i} gives {part} at the start {theta}; it must be finite for every row. (An "
                    "error that the function raises counts as NaN.) Choose another start, or write the potential "
                    "so that it does not overflow, e.g. with softplus or logsumexp."
                )
    raise InputError(f"potential: the sum over all rows at the start {theta} is too large for a number.")


def _check_derivatives(
    curve: FactorFunctions, X: Matrix, i: int, theta: Vector, jet: _Jet, size: Vector, names: list[str]
) -> None:
    _, gradient, hessian = jet
    if not np.allclose(hessian, hessian.T, rtol=1e-9, atol=1e-12 * np.max(np.abs(hessian), initial=0.0)):
        raise InputError(
            f"hessian: row {i} gives a matrix that is not symmetric at {theta}; fill both halves of out."
        )
    for j, name in enumerate(names):
        h = STEP * max(1.0, abs(theta[j]))
        far, near = (_differences(curve, X, i, theta, j, step) for step in (h, h / 2.0))
        for what, a, b, exact, below, own in (
            ("gradient", far[0], near[0], gradient[j], size[0], size[1]),
            ("hessian", far[1], near[1], hessian[j], size[1], size[2]),
        ):
            found = (4.0 * b - a) / 3.0  # Richardson's: the error of differences is of second order
            rounding = 1e3 * np.finfo(float).eps * (below / h + own)
            allowed = 10.0 * np.abs(a - b) + 1e-6 * np.max(np.abs(exact)) + rounding
            if np.any(np.abs(found - exact) > allowed):
                raise InputError(
                    f"{what}: row {i} gives {exact} for {name!r} at {theta}; differences of the "
                    f"{'potential' if what == 'gradient' else 'gradient'} give {found}. The two must agree."
                )


def _check_bounds(i: int, theta: Vector, jet: _Jet, limits: dict[int, Vector]) -> None:
    seen = {1: float(np.linalg.norm(jet.gradient)), 2: float(np.max(np.abs(jet.hessian)))}
    for m, largest in seen.items():
        limit = limits[m][min(i, limits[m].size - 1)] if m in limits else np.inf
        if largest > limit * (1.0 + 1e-9):
            raise InputError(
                f"bounds[{m}]: row {i} has {limit:.6g}, but at {theta} "
                f"{'its gradient is as long as' if m == 1 else 'a second derivative is'} {largest:.6g}. A bound "
                "must hold everywhere; derive it again."
            )


def _differences(
    curve: FactorFunctions, X: Matrix, i: int, theta: Vector, j: int, h: float
) -> tuple[float, Vector]:
    """Return central differences of potential and gradient along one parameter."""
    up, down = theta.copy(), theta.copy()
    up[j] += h
    down[j] -= h
    (above, above_gradient, _), (below, below_gradient, _) = _jet(curve, X, i, up), _jet(curve, X, i, down)
    return (above - below) / (up[j] - down[j]), (above_gradient - below_gradient) / (up[j] - down[j])
