"""The posterior mode: Newton's method on a subsample, then on all rows, damped."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import NoModeError
from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.models.subsamples import LARGE, LARGE_TOLERANCE, SUBSAMPLE, subsample_sizes
from tallbayes.setup.no_mode import failed_search, moving_parameters, refuse_dependent_columns, refuse_recession
from tallbayes.sources.base import RANDOM_ACCESS, Source

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TOLERANCE = 1e-8
"""Length of the last Newton step, in posterior standard deviations."""
TOLERATED = 0.25
"""In large designs, how far off the mode the centre may turn out to be, on average over the coefficients, in posterior
standard deviations: the sampler is exact around every centre."""
FEW_ROWS = 0.1
"""Few rows speak of a coefficient if its largest value moves a predictor by more than this for each of its standard
deviations; it is then not left further than this from its mode."""
NEAR = 0.5
"""The same for a subsample, whose own mode is further than that from the one looked for."""
FARTHEST = 2.0
"""By how much a step may move a predictor along such a coefficient, while its curvature is not known."""
CHEAP_PASSES = 4
"""Passes for the gradient alone before the Hessian is computed in any case."""
SUSPICIOUS = 12
"""Newton steps on all rows after which a posterior without a mode is suspected; a mode takes 2 to 6."""
SHORT, STALLED = 1e-2, 0.5
"""Newton's steps that are so short shrink much faster than by such a factor, unless they are made of rounding."""
LIMIT, PATIENCE = 100, 200_000_000
"""Newton steps before a search is given up; more for small data, up to so many numbers read."""
HALVINGS, MUCH_ABOVE = 60, 1e3
"""How often a step is shortened: by half, or to a tenth if the potential at its end is so many times that before."""


class Mode(NamedTuple):
    """Where the posterior is largest, or so near that it serves as a centre; with what was computed there."""

    theta: Vector
    potential: float
    """The negative log posterior, up to a constant; not a number if the search had no need of it."""
    gradient: Vector
    hessian: Matrix
    passes: int
    """Passes over all rows that the search took."""


class _Point(NamedTuple):
    theta: Vector
    value: float | None
    """None if it was not computed."""
    gradient: Vector
    hessian: Matrix


def find_mode(model: Model, *, threads: int | None = None) -> Mode:
    """Return the mode of the posterior.

    Parameters
    ----------
    model : Model
        The model.
    threads : int or None
        Threads for sums over rows; defaults to every core.

    Returns
    -------
    Mode
        The mode and the derivatives there, to 1e-8 posterior standard deviations (large designs: 0.25 on average).

    Raises
    ------
    NoModeError
        If the posterior has no mode: separated classes or dependent columns under a flat prior.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is seen and said
        return _find_mode(model, threads)


def _find_mode(model: Model, threads: int | None) -> Mode:
    source = model.source
    passes_before = source.passes
    model.refuse_improper(threads)
    theta, rough = None, None
    sizes = subsample_sizes(source.n, model.d)
    parts = [source.subsample(sizes[-1])] if sizes else []
    if len(sizes) > 1:
        parts.insert(0, parts[0].subsample(sizes[0]))
    for part in parts:
        search = _Search(model, part, threads)
        search.exploring, search.ridge = True, model.holding_ridge(part)
        start = model.coefficient_priors.inside(model.starting_point(part)) if theta is None else theta
        theta = search.descend(start, tolerance=NEAR, limit=25).theta
        rough = search
    search = _Search(model, source, threads)
    theta = model.coefficient_priors.inside(model.starting_point(source)) if theta is None else theta
    tolerance = TOLERANCE if source.n * model.d < LARGE else TOLERATED * np.sqrt(model.d)
    if rough is not None and tolerance > TOLERANCE:
        theta = search.approach(theta, rough, LARGE_TOLERANCE * np.sqrt(model.d))
    limit = max(LIMIT, min(10 * LIMIT, PATIENCE // (source.n * model.d)))
    point = search.descend(theta, tolerance=tolerance, limit=limit)
    if _factor(point.hessian) is None:
        reason = model.reason_without_mode(point.theta) or (
            "The search for the mode ended where the negative log posterior is flat but its Hessian is not positive "
            "definite: a saddle, parameters of which the rows say nothing, or a potential of the wrong sign (it is "
            f"minus the log-likelihood). {model.mode_advice}"
        )
        raise NoModeError(reason)
    value = np.nan if point.value is None else point.value
    return Mode(point.theta, value, point.gradient, point.hessian, source.passes - passes_before)


def search_bytes(n: int, d: int) -> int:
    """Return the memory that the search takes beside the rows: its subsamples, or the rows that it starts from."""
    return 8 * d * max(sum(subsample_sizes(n, d)), min(n, SUBSAMPLE))


class _Search:
    """Damped Newton on one source of rows, with the model's prior."""

    def __init__(self, model: Model, source: Source, threads: int | None) -> None:
        self.model = model
        self.source = source
        self.threads = threads
        self.exploring = False
        self.ridge = np.zeros(model.d)
        self.likelihood_hessian = np.zeros((model.d, model.d))

    def evaluate(self, theta: Vector, *, majorise: bool = False, valued: bool = True) -> _Point:
        """Return the negative log posterior, with the ridge, its gradient and its Hessian at theta.

        The first of them, which takes a logarithm of each row, only if it is asked for.
        """
        model = self.model
        value, gradient, hessian = self.source.reduce(
            passes.derivatives, model.rows, model.predictors, theta, majorise, valued, threads=self.threads
        )
        if not majorise:
            self.likelihood_hessian = hessian
        at, slope, curvature = self.model.coefficient_priors.stand_in(theta)
        value = value + at + 0.5 * float(self.ridge @ theta**2) if valued else None
        gradient = gradient + slope + self.ridge * theta
        return _Point(theta, value, gradient, hessian + np.diag(curvature + self.ridge))

    def approach(self, theta: Vector, rough: "_Search", tolerance: float) -> Vector:
        """Take Newton steps with the Hessian of a subsample, which needs passes for the gradient only.

        The Hessian is off by some sqrt(d / rows) of itself, and a step leaves as much of the way to the mode. Of a
        coefficient of which few rows speak the subsample may know nothing: then the diagonal is that of all rows, and
        a step does not go far, because at a wrong place that diagonal is wrong as well. A step that turns out to lead
        away from the mode is taken back.
        """
        model = self.model
        share = np.sqrt(model.d / rough.source.n)
        hessian = self.source.n / rough.source.n * rough.likelihood_hessian
        few = _few_rows(model, np.diag(hessian)) if model.predictors.linear else np.zeros(model.d, dtype=bool)
        came_from, before = theta, np.inf
        for _ in range(CHEAP_PASSES):
            given = model.rows, model.predictors, theta
            if np.any(few):
                gradient, diagonal = self.source.reduce(passes.slopes_and_diagonal, *given, threads=self.threads)
                hessian = _with_diagonal(hessian, diagonal)
            else:
                gradient = self.source.reduce(passes.slopes, *given, threads=self.threads)
            _, slope, curvature = model.coefficient_priors.stand_in(theta)
            factor = _factor(hessian + np.diag(curvature))
            if factor is None or not np.all(np.isfinite(gradient)):
                return came_from
            step, length = _newton(factor, gradient + slope)
            if not length < 0.5 * before:
                return theta if length < before else came_from
            farthest = np.where(few, FARTHEST / model.profile.largest, np.inf) if np.any(few) else np.inf
            held = np.clip(step, -farthest, farthest)
            came_from, theta, before = theta, theta - held, length
            if share * length < tolerance and np.array_equal(held, step):
                break
        return theta

    def descend(self, theta: Vector, *, tolerance: float, limit: int) -> _Point:
        """Take damped Newton steps until the next one is shorter than the tolerance, or made of rounding."""
        exploring = self.exploring
        # Where a search has come near before, the first point is usually the last, and no other is compared with it.
        in_memory = RANDOM_ACCESS in self.source.offers
        point = self.evaluate(theta, valued=exploring or tolerance <= TOLERANCE or not in_memory)
        if not exploring and self.model.predictors.designed and np.all(np.isfinite(point.hessian)):
            refuse_dependent_columns(self.model, point.hessian)
        before, length_before = np.zeros_like(theta), np.inf
        for iteration in range(limit):
            step, length = self._direction(point)
            stalled = length < SHORT and length > STALLED * length_before
            if (length < tolerance and not self._far_for_few_rows(point, step, tolerance)) or stalled:
                # Along a separation the last step is short in standard deviations, yet moves predictors.
                if not exploring and (iteration >= SUSPICIOUS or tolerance > TOLERANCE or stalled):
                    refuse_recession(self.model, step)
                    self._refuse_endless(point.theta, step, before)
                return point
            if not exploring and iteration >= SUSPICIOUS and iteration % 4 == 0:
                refuse_recession(self.model, step)
            long = not exploring and iteration >= LIMIT and iteration % LIMIT == 0
            if long and (reason := self.model.reason_without_mode(point.theta)):
                raise NoModeError(f"No mode was found. {reason}")
            before, length_before = step, length
            if point.value is None:
                point = self.evaluate(point.theta)
            lower = self._damped(point, step, length)
            if lower is None and (exploring or length < SHORT):
                return point
            if lower is None:
                raise failed_search(
                    self.model, "No mode was found: no step lowers the negative log posterior.", point.theta, step
                )
            point = lower
        if exploring:
            return point
        what_happened = (
            f"No mode was found in {limit} Newton steps: the last one still moved by {length:.2g} posterior "
            "standard deviations."
        )
        raise failed_search(self.model, what_happened, point.theta, step)

    def _far_for_few_rows(self, point: _Point, step: Vector, tolerance: float) -> bool:
        """Return whether a coefficient of which few rows speak is still far from the mode, by its own measure.

        There the posterior is far from a Gaussian, and one that has no mode at all is found by going further.
        """
        if tolerance <= TOLERANCE or self.exploring or not self.model.predictors.linear:
            return False
        scale = np.sqrt(np.abs(np.diag(point.hessian)))
        few = _few_rows(self.model, np.diag(point.hessian))
        return bool(np.any(few & (np.abs(step) * scale > FEW_ROWS)))

    def _refuse_endless(self, theta: Vector, step: Vector, before: Vector) -> None:
        """Raise if steps do not get shorter although the potential has become flat: Newton's do at a mode."""
        long = np.linalg.norm(step) > 1e-6 * np.linalg.norm(theta)  # and not made of rounding
        if self.model.predictors.linear or not np.any(before):  # one step says nothing
            return
        if long and np.linalg.norm(step) > STALLED * np.linalg.norm(before):
            raise NoModeError(
                "No mode was found: the negative log posterior falls ever more slowly but without end, most along "
                f"{moving_parameters(self.model, step)}. Under a flat prior the posterior may then not exist, as where "
                f"classes or zeros are separated by a column, or a class has no rows. {self.model.mode_advice}"
            )

    def _direction(self, point: _Point) -> tuple[Vector, float]:
        """Return the Newton step and its length in posterior standard deviations."""
        hessian = point.hessian
        known = 0.0 if point.value is None else point.value, point.gradient, hessian
        if not all(np.all(np.isfinite(part)) for part in known):
            what_happened = "No mode was found: the search came where derivatives are too large for a float64."
            raise failed_search(self.model, what_happened, point.theta, np.full(self.model.d, np.nan))
        if not self.model.family.convex and _factor(hessian) is None:
            hessian = self.evaluate(point.theta, majorise=True).hessian
        damping = 0.0
        while (root := _factor(hessian, damping)) is None:
            damping = max(10.0 * damping, 1e-10)
        return _newton(root, point.gradient)

    def _damped(self, point: _Point, step: Vector, length: float) -> _Point | None:
        """Shorten the step until the potential falls (within reach of rounding, take it whole), or return None.

        A potential that is infinite at the end of a step, or far above, says little about how far to go: then shorten
        it more.
        """
        assert point.value is not None
        size = 1.0
        rounding = 1e-13 * self.source.n + 1e-12 * abs(point.value)
        for _ in range(HALVINGS):
            trial = self.evaluate(point.theta - size * step)
            assert trial.value is not None
            if trial.value <= point.value - 1e-4 * size * length**2 + rounding:
                return trial
            size *= 0.5 if trial.value < MUCH_ABOVE * (abs(point.value) + 1.0) else 0.1
        return None


def _few_rows(model: Model, curvatures: Vector) -> NDArray[np.bool_]:
    """Return of which coefficients few rows speak, from the Hessian's diagonal."""
    return np.asarray(model.profile.largest > FEW_ROWS * np.sqrt(np.abs(curvatures)))


def _with_diagonal(hessian: Matrix, diagonal: Vector) -> Matrix:
    """Return a matrix with the same correlations and another diagonal."""
    old = np.diag(hessian)
    known = old > 0.0
    factor = np.where(known, np.sqrt(np.maximum(diagonal, 0.0) / np.where(known, old, 1.0)), 0.0)
    changed = hessian * np.outer(factor, factor)
    np.fill_diagonal(changed, diagonal)
    return changed


def _newton(root: tuple[Vector, Matrix], gradient: Vector) -> tuple[Vector, float]:
    """Return the Newton step from a factor of the Hessian, and its length in posterior standard deviations."""
    scale, lower = root
    white = np.linalg.solve(lower, gradient / scale)
    return np.linalg.solve(lower.T, white) / scale, float(np.linalg.norm(white))


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
