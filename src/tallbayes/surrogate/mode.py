"""The posterior mode: Newton's method on a subsample, then on all rows, damped."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import NoModeError
from tallbayes.families.curve import coefficients, jet
from tallbayes.models import Model
from tallbayes.sources.arrays import ArraySource

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SUBSAMPLE, GROWTH = 20_000, 8
"""Rows of the first subsample, and by how much the next is larger, while it is much smaller than the data."""
TOLERANCE = 1e-8
"""Length of the last Newton step, in posterior standard deviations."""
LARGE, LARGE_TOLERANCE = 5_000_000, 1e-2
"""With this many numbers in the design a pass costs more than it gains: a centre this near the mode serves as
well, and the sampler is exact around every centre."""
SUSPICIOUS = 12
"""Newton steps on all rows after which a posterior without a mode is looked for; a mode takes 2 to 6."""
LIMIT = 100
BLOCK = 65536
"""Rows looked at together where the reason for a missing mode is sought."""


class Mode(NamedTuple):
    """Where the posterior is largest, with what was computed there."""

    theta: Vector
    potential: float
    """Minus log-likelihood minus log-prior."""
    gradient: Vector
    hessian: Matrix
    passes: int
    """Passes over all rows that the search took."""


class _Point(NamedTuple):
    theta: Vector
    value: float
    gradient: Vector
    hessian: Matrix


def find_mode(model: Model, *, threads: int | None = None) -> Mode:
    """Return the mode of the posterior.

    Parameters
    ----------
    model : Model
        The model.
    threads : int or None
        Threads for sums over rows; None takes every core.

    Returns
    -------
    Mode
        The mode and the derivatives there, to 1e-8 posterior standard deviations (1e-2 for large designs).

    Raises
    ------
    NoModeError
        If the posterior has no mode: separated classes or dependent columns under a flat prior.
    """
    source = model.source
    size = max(SUBSAMPLE, 100 * model.d)
    theta = None
    while source.n > 4 * size:
        part = source.subsample(size)
        search = _Search(model, part, threads)
        search.exploring, search.ridge = True, model.holding_ridge(part)
        start = model.coefficient_priors.inside(model.starting_point(part)) if theta is None else theta
        theta = search.descend(start, tolerance=0.1, limit=25).theta
        size *= GROWTH
    search = _Search(model, source, threads)
    theta = model.coefficient_priors.inside(model.starting_point(source)) if theta is None else theta
    tolerance = TOLERANCE if source.n * model.d < LARGE else LARGE_TOLERANCE
    point = search.descend(theta, tolerance=tolerance, limit=LIMIT)
    if _factor(point.hessian) is None:
        raise NoModeError(
            "The search for the mode ended where the potential is flat but its Hessian is not positive definite: a "
            f"saddle, or parameters of which the rows say nothing. {model.mode_advice}"
        )
    return Mode(point.theta, point.value, point.gradient, point.hessian, search.passes)


class _Search:
    """Damped Newton on one source of rows, with the model's prior."""

    def __init__(self, model: Model, source: ArraySource, threads: int | None) -> None:
        self.model = model
        self.source = source
        self.threads = threads
        self.exploring = False
        self.ridge = np.zeros(model.d)
        self.passes = 0

    def evaluate(self, theta: Vector, *, majorise: bool = False) -> _Point:
        """Return potential, gradient and Hessian of likelihood, prior and ridge at theta."""
        self.passes += 1
        value, gradient, hessian = self.source.derivatives(
            self.model.family.curve, theta, majorise=majorise, threads=self.threads
        )
        at, slope, curvature = self.model.coefficient_priors.stand_in(theta)
        value += at + 0.5 * float(self.ridge @ theta**2)
        gradient = gradient + slope + self.ridge * theta
        return _Point(theta, value, gradient, hessian + np.diag(curvature + self.ridge))

    def descend(self, theta: Vector, *, tolerance: float, limit: int) -> _Point:
        """Take damped Newton steps until the next one is shorter than the tolerance."""
        exploring = self.exploring
        point = self.evaluate(theta)
        before = np.zeros_like(theta)
        if not exploring and self.model.linear:
            _refuse_dependent_columns(self.model, point.hessian)
        for iteration in range(limit):
            step, length = self._direction(point)
            if length < tolerance:
                # Along a separation the last step is short in standard deviations, yet moves predictors.
                if not exploring and (iteration >= SUSPICIOUS or tolerance > TOLERANCE):
                    _refuse_recession(self.model, step)
                    self._refuse_endless(step, before)
                return point
            if not exploring and iteration >= SUSPICIOUS and iteration % 4 == 0:
                _refuse_recession(self.model, step)
            before = step
            point = self._damped(point, step, length)
        if exploring:
            return point
        raise NoModeError(
            f"No mode was found in {limit} Newton steps: the last one still moved by {length:.2g} posterior "
            f"standard deviations. {self.model.mode_advice}"
        )

    def _refuse_endless(self, step: Vector, before: Vector) -> None:
        """Raise if steps do not get shorter although the potential has become flat: Newton's do at a mode."""
        if not self.model.linear and np.linalg.norm(step) > 0.5 * np.linalg.norm(before):
            raise NoModeError(
                "No mode was found: the potential falls ever more slowly but without end, so under a flat prior "
                f"the posterior may not exist. {self.model.mode_advice}"
            )

    def _direction(self, point: _Point) -> tuple[Vector, float]:
        """Return the Newton step and its length in posterior standard deviations."""
        hessian = point.hessian
        if not self.model.family.convex and _factor(hessian) is None:
            hessian = self.evaluate(point.theta, majorise=True).hessian
        damping = 0.0
        while (root := _factor(hessian, damping)) is None:
            damping = max(10.0 * damping, 1e-10)
        scale, lower = root
        white = np.linalg.solve(lower, point.gradient / scale)
        return np.linalg.solve(lower.T, white) / scale, float(np.linalg.norm(white))

    def _damped(self, point: _Point, step: Vector, length: float) -> _Point:
        """Halve the step until the potential falls; within reach of rounding, take it whole."""
        size = 1.0
        for _ in range(40):
            trial = self.evaluate(point.theta - size * step)
            rounding = 1e-13 * self.source.n + 1e-12 * abs(point.value)
            if trial.value <= point.value - 1e-4 * size * length**2 + rounding:
                return trial
            size /= 2.0
        raise NoModeError(f"No mode was found: no step lowers the potential. {self.model.mode_advice}")


def _factor(hessian: Matrix, damping: float = 0.0) -> tuple[Vector, Matrix] | None:
    """Return (scale, L) with H = diag(scale) L L' diag(scale), or None if H is not positive definite."""
    diagonal = np.diag(hessian)
    if not np.all(diagonal > 0.0):
        if damping == 0.0:
            return None
        largest = np.max(np.abs(diagonal))
        diagonal = np.maximum(np.abs(diagonal), 1e-12 * largest if largest > 0.0 else 1.0)
    scale = np.sqrt(diagonal)
    try:
        lower = np.linalg.cholesky(hessian / np.outer(scale, scale) + damping * np.eye(scale.size))
    except np.linalg.LinAlgError:
        return None
    return scale, lower


def _involved(model: Model, direction: Vector, weight: Vector) -> str:
    share = np.abs(direction) * weight
    return ", ".join(repr(model.names[j]) for j in np.flatnonzero(share > 1e-3 * np.max(share)))


def _refuse_dependent_columns(model: Model, hessian: Matrix) -> None:
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
                f"The columns {columns} are so nearly dependent ({model.n} rows) that the prior disappears beside "
                "them in double precision. Drop one, or centre one whose mean is far larger than its spread."
            )
        raise NoModeError(
            f"The columns {columns} are linearly dependent, to rounding ({model.n} rows), and the prior is "
            "flat along their combination, so the posterior does not exist. Drop one of them (centre one whose "
            "mean is far larger than its spread), or give a proper prior, e.g. prior=tb.priors.Normal(0, 2.5)."
        )


def _refuse_recession(model: Model, step: Vector) -> None:
    """Raise if the potential of no row ever rises along a Newton step: separated classes."""
    if not model.family.convex or np.any(step[model.coefficient_priors.proper] != 0.0):
        return
    if not _recedes(model, step):
        return
    # Leave out what the separation does not need, so that the message names few columns.
    size = np.array([np.max(np.abs(model.source.rows.X[:, j])) for j in range(model.d)])
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
    rows, curve = model.source.rows, model.family.curve
    ends = {p: (jet(curve, -np.inf, p)[0], jet(curve, np.inf, p)[0]) for p in model.family.pieces}
    change = np.concatenate([-(rows.X[i : i + BLOCK] @ step) for i in range(0, model.n, BLOCK)])
    if rows.weight.size > 1:
        change[rows.weight == 0.0] = 0.0
    largest = float(np.max(np.abs(change)))
    if largest < 1e-3:
        return False
    for first in range(0, model.n, BLOCK):
        part = slice(first, first + BLOCK)
        m, s, _, l, piece = coefficients(curve, rows.y[part])
        moving = change[part] != 0.0
        far = np.zeros(moving.shape)
        for p, (falling, rising) in ends.items():
            far = np.where(piece == p, np.where(s * change[part] > 0.0, rising, falling), far)
        slopes = np.broadcast_to(m * s * far + l, moving.shape)
        if np.any(slopes[moving] * change[part][moving] > 1e-6 * largest):
            return False  # some row rises: no need to look at the others
    return True
