r"""Bounds on the remainders: how fast a step could be rejected by any row.

A bound gives each row a number psi_i, and each pair of states a number phi, such that the row's intensity
:math:`\lambda_i = \max(0, r_i(\theta') - r_i(\theta))` is at most phi psi_i, with phi symmetric in its
arguments. r_i is what the expansion of order k leaves of row i's potential.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_number
from tallbayes.compiled import compiled_borrowing, compiled_sum, compiled_within
from tallbayes.errors import InputError
from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.models.products import row_lengths
from tallbayes.quantiles import chi_square_quantile
from tallbayes.setup.metric import Metric
from tallbayes.setup.sketch import Sketch, fill_sketch
from tallbayes.sources.alias import WHOLE
from tallbayes.sources.base import RANDOM_ACCESS, Block
from tallbayes.sources.supply import Drawing, Request, Slots, no_offers, offered

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


NO_COLUMNS = np.empty(0, dtype=np.int64)
FARTHEST_FREE = 1e4
"""Free coordinates beyond this count as outside the ball: the expansion of core rows and what it leaves, in sum their
potential, have terms of 1e12 there, and their sum fewer digits than a chain should have."""
SHRINKINGS = 12
"""How often the radius of a local bound is halved in search of one that holds for every row: from some ten standard
deviations to a few thousandths of one, where nothing is left to be thinned."""


class Bound(NamedTuple):
    """A bound as compiled code sees it."""

    local: bool
    order: int
    total: float
    """Psi, the sum of psi_i."""
    rising: float
    """Of Psi, what remainders can use by rising."""
    falling: float
    """Of Psi, what remainders can use by falling."""
    steepest: float
    """S: no remainder is larger than S |x_i . (theta - centre)|^(k+1); infinite if that is not known."""
    radius: float
    """The bound holds while both states are within this distance (in z) of the centre."""
    truncation: float
    """R: pairs with phi Psi >= R take a plain Metropolis-Hastings step on all rows."""
    free: int = 0
    """The first so many coordinates move core rows only: distances leave them out, unless they are huge. Local bounds
    only."""


class AllBounds(NamedTuple):
    """The bounds of all rows: their sums, where they hold, and how to draw rows in proportion to them."""

    sums: passes.BoundSums
    radius: float
    drawing: Drawing
    thirds: Vector | None = None
    """Third derivatives, packed, if they were asked for in the same pass."""
    slots: Slots | None = None
    """Rows drawn in the same pass."""


class SamePass(NamedTuple):
    """What else a pass for bounds is to find, where rows come by passes and these are few."""

    requests: tuple[Request, ...]
    """Rows to be drawn."""
    thirds: bool
    """Whether third derivatives are wanted."""


@dataclass(frozen=True)
class Global:
    r"""The paper's bound: suprema over the whole space and the l1 norm ((P), eq:smh-bound).

    For order k = 1, 2, 3

    .. math:: \bar\lambda_i = \frac{\bar U_{k+1,i}}{(k+1)!}
              \left(\|\theta - \hat\theta\|_1^{k+1} + \|\theta' - \hat\theta\|_1^{k+1}\right),
              \qquad \bar U_{k+1,i} = w_i \sup |U_i^{(k+1)}| \max_j |x_{ij}|^{k+1}

    and for the plain factorisation, k = 0, the log-Lipschitz bound :math:`K_i \|\theta' - \theta\|_2` with
    :math:`K_i = w_i \sup |U_i'| \, \|x_i\|_2` ((P), eq:lipschitz-bounds).
    """

    def of_rows(
        self,
        model: Model,
        metric: Metric,
        order: int,
        *,
        threads: int | None = None,
        same_pass: SamePass | None = None,
    ) -> AllBounds:
        """Return the bounds of all rows, which hold everywhere, in one pass.

        Parameters
        ----------
        model : Model
            The model.
        metric : Metric
            Not used: this bound lives in the coordinates of the data.
        order : int
            Order of the expansion, 0 to 3.
        threads : int or None
            Threads for the pass over rows.
        same_pass : SamePass or None
            What else to find in it.

        Returns
        -------
        AllBounds
            Sums, an infinite radius, and how to draw rows.
        """
        model.refuse_bounds(order + 1, local=False)
        part, arguments = self.part(model, metric, order, math.inf)
        if same_pass is not None:
            return _summed_once(model, metric, part, arguments, math.inf, threads, same_pass)
        return _summed(model, part, arguments, 1, math.inf, threads)

    def part(self, model: Model, metric: Metric, order: int, radius: float) -> tuple[Any, tuple[Any, ...]]:
        """Return the function that bounds the rows of a block, and what it takes beside the block."""
        return passes.global_bounds, (model.rows, order + 1)

    @property
    def local(self) -> bool:
        """Whether the bound is measured in whitened coordinates."""
        return False


@dataclass(frozen=True)
class Local:
    r"""A tighter bound: whitened norm, suprema over a ball around the centre only.

    With a_i = :math:`|L^{-1} x_i|`, and while :math:`|z|, |z'| \le \rho`, the predictor of row i stays within
    :math:`\hat\eta_i \pm \rho a_i`; C_i is the supremum of its potential's derivative of order k + 1 there, and

    .. math:: \bar\lambda_i = \frac{w_i C_i a_i^{k+1}}{(k+1)!} \,
              \min\left(|z|^{k+1} + |z'|^{k+1}, \; (k + 1) \max(|z|, |z'|)^k \, |z' - z|\right).

    A step with an end outside the ball is a plain Metropolis-Hastings step on all rows.

    Parameters
    ----------
    radius : float or None
        rho, in posterior standard deviations; chosen by the planner by default.
    """

    radius: float | None = None

    def __post_init__(self) -> None:
        if self.radius is not None and not (is_number(self.radius) and self.radius > 0.0):
            raise InputError(f"Local: radius={self.radius!r} must be positive, or None to have it chosen.")

    def of_rows(
        self,
        model: Model,
        metric: Metric,
        order: int,
        *,
        threads: int | None = None,
        sketch: Sketch | None = None,
        core: NDArray[np.int64] = NO_COLUMNS,
        same_pass: SamePass | None = None,
    ) -> AllBounds:
        """Return the bounds of all rows and the radius within which they hold, in one pass, or a few.

        Parameters
        ----------
        model : Model
            The model.
        metric : Metric
            Coordinates in which the ball lives.
        order : int
            Order of the expansion, 0 to 3.
        threads : int or None
            Threads for the pass over rows.
        sketch : Sketch or None
            An empty one to be filled in the same pass.
        core : array
            Columns whose rows a surrogate has exactly, so that they need no bound.
        same_pass : SamePass or None
            What else to find in the pass.

        Returns
        -------
        AllBounds
            Sums, the radius, and how to draw rows.
        """
        model.refuse_bounds(order + 1, local=True)
        radius = (
            float(self.radius) if self.radius is not None else default_radius(model.n, max(model.d - core.size, 1))
        )
        lines = 1 if order % 2 == 0 else model.n
        # A smaller ball helps where a row's interval leaves what is proved of the family, or what a float holds.
        for _ in range(SHRINKINGS):
            part, arguments = self.part(model, metric, order, radius, core)
            if same_pass is None:
                found = _summed(model, part, arguments, lines, radius, threads, sketch)
            else:
                found = _summed_once(model, metric, part, arguments, radius, threads, same_pass)
            if math.isfinite(found.sums.total):
                return found
            radius /= 2.0
        # No bound at all: a ball of nothing makes every step a full-data step, which is exact.
        none = np.zeros(model.n) if same_pass is None else None
        nothing = Drawing(found.drawing.part, found.drawing.arguments, none, WHOLE)
        return AllBounds(passes.BoundSums(0.0, 0.0, 0.0, math.inf), 1e-300, nothing, found.thirds)

    def part(
        self, model: Model, metric: Metric, order: int, radius: float, core: NDArray[np.int64] = NO_COLUMNS
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return the function that bounds the rows of a block, and what it takes beside the block."""
        ball = passes.Ball(metric.centre, metric.inverse_root, radius, core)
        return passes.local_bounds, (model.rows, model.predictors, ball, order + 1)

    @property
    def local(self) -> bool:
        """Whether the bound is measured in whitened coordinates."""
        return True


def _summed(
    model: Model,
    part: Any,
    arguments: tuple[Any, ...],
    lines: int,
    radius: float,
    threads: int | None,
    sketch: Sketch | None = None,
) -> AllBounds:
    """Sum a function that bounds the rows of a block, and keep the bounds where rows can be drawn at any time."""
    tables = None
    if RANDOM_ACCESS in model.source.offers:
        tables = passes.BoundTables(np.empty(model.n), np.ones((lines, 2), dtype=np.float32))
    if sketch is None:
        sums = model.source.reduce(passes.sum_bounds, part, arguments, tables, threads=threads)
    else:
        sums = model.source.reduce(_sum_and_sketch, part, arguments, tables, sketch, threads=threads)
    psi, shares = (None, WHOLE) if tables is None else tables
    return AllBounds(sums, radius, Drawing(part, arguments, psi, shares))


def _summed_once(
    model: Model,
    metric: Metric,
    part: Any,
    arguments: tuple[Any, ...],
    radius: float,
    threads: int | None,
    same_pass: SamePass,
) -> AllBounds:
    """Sum bounds and third derivatives and draw rows, all in one pass that keeps nothing of any other row."""
    likelihood = model.rows, model.predictors, metric.centre, metric.inverse_root
    requests = same_pass.requests
    given = part, arguments, likelihood, same_pass.thirds, requests, no_offers(requests)
    sums, thirds, slots = model.source.reduce(_everything, *given, threads=threads)
    return AllBounds(sums, radius, Drawing(part, arguments, None, WHOLE), thirds, slots)


def _everything(
    block: Block,
    part: Any,
    arguments: tuple[Any, ...],
    likelihood: tuple[Any, ...],
    thirds: bool,
    requests: tuple[Request, ...],
    best: Vector,
) -> tuple[passes.BoundSums, Vector | None, Slots | None]:
    """Return a block's bounds in sum, its third derivatives and a row for every slot, from rows whitened once.

    Bounds are those that a later pass computes without the others, to the last bit: rows are drawn in proportion.
    """
    rows, predictors, centre, inverse_root = likelihood
    white = predictors.white_for_all(block, inverse_root) if predictors.linear else None
    local = part is passes.local_bounds
    norms = None if white is None else row_lengths(white)[None]
    bounds = part(block, *arguments, norms) if local else part(block, *arguments)
    return (
        passes.sums_of(bounds),
        passes.third_derivatives(block, rows, predictors, centre, inverse_root, white) if thirds else None,
        offered(block, bounds, requests, best) if requests else None,
    )


def _sum_and_sketch(
    block: Block, part: Any, arguments: tuple[Any, ...], tables: passes.BoundTables, sketch: Sketch
) -> passes.BoundSums:
    """Do as `passes.sum_bounds` does, and fill the sketch: both from the same whitened rows."""
    _, predictors, ball, _ = arguments
    white = predictors.roughly_whitened(block, ball.inverse_root)
    sums = passes.sum_bounds(block, part, (*arguments, white.lengths[None]), tables)
    fill_sketch(sketch, block, ball.inverse_root, white)
    return sums


def gaussian_radius(d: int, outside: float) -> float:
    """Return the radius of the ball that a standard normal in d dimensions leaves with probability `outside`."""
    return math.sqrt(chi_square_quantile(d, outside))


def default_radius(n: int, d: int) -> float:
    """Return a radius that a standard normal in d dimensions leaves with probability 1e-6 / n.

    A step outside costs a pass, n rows, and the posterior of few rows leaves the ball some hundred times as often
    as a Gaussian does. Even so passes should cost less than steps inside, whose rows grow slowly with the radius.
    """
    return gaussian_radius(d, 1e-6 / n)


@compiled_sum
def shift(whitening: Matrix, z: Vector, out: Vector) -> None:
    """Put theta - centre = W z into out."""
    d = z.size
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += whitening[i, j] * z[j]
        out[i] = total


@compiled_borrowing
def distance_from_centre(local: bool, free: int, whitening: Matrix, z: Vector) -> float:
    """Return the norm that the bound is a function of: |z|_2 without free axes if local, else |theta - centre|_1."""
    total = 0.0
    for i in range(free):
        if abs(z[i]) > FARTHEST_FREE:
            total = np.inf
    for i in range(free, z.size):
        if local:
            total += z[i] * z[i]
        else:
            component = 0.0
            for j in range(z.size):
                component += whitening[i, j] * z[j]
            total += abs(component)
    return np.sqrt(total) if local else total


@compiled_within
def event_factors(
    bound: Bound, whitening: Matrix, z: Vector, distance: float, other: Vector, other_distance: float
) -> tuple[float, float, float]:
    """Return the parts of phi: what falls from z and rises to z' can use, or else the step as a whole.

    Either the third is zero, or the first two are; the paper's bound does not tell them apart. Their sum, phi, is
    symmetric in the two states, and infinite where the bound does not hold.
    """
    k = bound.order
    far = max(distance, other_distance)
    if far > bound.radius:
        return 0.0, 0.0, np.inf
    before, after = distance ** (k + 1), other_distance ** (k + 1)
    if k > 0 and not bound.local:
        return 0.0, 0.0, before + after
    length = 0.0  # |z' - z|_2 if the bound is local, else |theta' - theta|_2
    for i in range(bound.free, z.size):
        component = 0.0
        if bound.local:
            component = other[i] - z[i]
        else:
            for j in range(z.size):
                component += whitening[i, j] * (other[j] - z[j])
        length += component * component
    length = np.sqrt(length)
    if k == 0:
        return 0.0, 0.0, length
    between = (k + 1) * far**k * length
    if between < before + after:
        return 0.0, 0.0, between
    return before, after, 0.0
