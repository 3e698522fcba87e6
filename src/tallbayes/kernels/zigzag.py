"""The Zig-Zag process with control variates, evaluating one row for each event it proposes."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import positive
from tallbayes.errors import InputError
from tallbayes.kernels import costs
from tallbayes.kernels.base import ONE_PREDICTOR, Behaviour, Kernel, Prepared
from tallbayes.kernels.zigzag_steps import Pace, ZigZagTarget, initial_state, rate_is_broken, run_chunk
from tallbayes.models.base import Model
from tallbayes.models.predictors import Linear
from tallbayes.setup.metric import Metric
from tallbayes.setup.setup import Setup
from tallbayes.sources.alias import WHOLE
from tallbayes.sources.base import RANDOM_ACCESS, SUPPLY, Block
from tallbayes.sources.supply import Drawing, RowBounds

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ZigZag(Kernel):
    r"""Zig-Zag with control variates at the mode and subsampling (Bierkens, Fearnhead and Roberts 2019).

    The process moves in straight lines along the diagonals of its coordinates and flips one velocity at random
    times; it is not reversible and rejects nothing. Rates need no Hessian: the change of a row's slope since the
    mode is bounded by the supremum of the family's second derivative times the length of the way, so a family must
    have one. The prior is in the rates exactly and must be flat or normal.

    Parameters
    ----------
    step : float or None
        Time between draws, in units in which a coordinate moves by one posterior standard deviation; defaults to
        about the time in which velocities are forgotten.
    whitened : bool
        Whether to move in coordinates in which the posterior is close to a standard normal. False only scales
        each coefficient by its standard deviation, as a choice of speeds would.
    uniform : bool
        Whether an event draws its row uniformly, with one bound for all, as in the original; False draws rows in
        proportion to their own bounds, which proposes fewer events. The process itself is the same.
    """

    step: float | None = None
    whitened: bool = True
    uniform: bool = False
    needs = frozenset({SUPPLY, ONE_PREDICTOR})

    def __post_init__(self) -> None:
        if self.step is not None:
            positive("ZigZag", "step", self.step)
        for name, value in (("whitened", self.whitened), ("uniform", self.uniform)):
            if not isinstance(value, bool):
                raise InputError(f"ZigZag: {name}={value!r} was given; expected True or False.")

    def refuse_mismatch(self, model: Model) -> None:
        """Raise if the family's second derivative is not bounded, or the prior neither flat nor normal."""
        super().refuse_mismatch(model)
        if not math.isfinite(model.family.supremum(2)):
            raise InputError(
                f"ZigZag: {model.family} has no bound on its second derivative, so the rates of events have none. "
                "Use tb.kernels.ScalableMH(), whose local bounds need none, or no kernel: one is chosen then."
            )
        if model.coefficient_priors.other.size:
            raise InputError(
                f"ZigZag: takes flat and normal priors, not {model.prior}. Use tb.kernels.ScalableMH(), which "
                "takes any, or no kernel: one is chosen then."
            )

    def _prepare(self, model: Model, setup: Setup) -> Prepared:
        metric, source = setup.metric, model.source
        frame, back = _frame(metric, self.whitened)
        arguments: tuple[Any, ...] = model.rows, model.predictors, metric.centre, frame

        def bounds() -> tuple[Vector | None, SlopeSums]:
            psi = np.empty(model.n) if RANDOM_ACCESS in source.offers else None
            return psi, source.reduce(_sum_slope_bounds, arguments, psi, threads=setup.threads)

        psi, sums = setup.once(("slope bounds", self.whitened), bounds)
        total = sums.total
        if self.uniform:
            total = model.n * sums.largest
            arguments = (*arguments, sums.largest)
            psi = None if psi is None else np.full(model.n, sums.largest)
        drawing = Drawing(slope_bounds, arguments, psi, WHOLE)
        supply = source.supply(drawing, threads=setup.threads)
        step = _step(sums.actual, model.d) if self.step is None else float(self.step)
        precision = _prior_precision(metric, back)
        target = ZigZagTarget(
            metric.centre,
            metric.matrix,
            frame,
            back,
            back.T @ metric.gradient,
            precision if np.any(precision) else np.empty((0, 0)),
            total,
            supply.rows,
            model.rows.functions.jets.pointer,
            model.rows.parameters,
        )
        plan: dict[str, Any] = {
            "kernel": "ZigZag",
            "step": step,
            "whitened": self.whitened,
            "uniform": self.uniform,
            "proposal": f"straight lines, a draw every {step:.3g}",
            "mode_passes": setup.mode.passes,
        }
        return Prepared(
            model,
            metric,
            target,
            Pace(step),
            initial_state,
            run_chunk,
            200,
            plan,
            partial(_step_cost, model.n, model.d),
            supply,
            exceeds=partial(rate_is_broken, model.family),
            table_bytes=sum(array.nbytes for array in supply.rows[4:]),
        )


def _step_cost(n: int, d: int, seen: Behaviour) -> float:
    return costs.step(d, 1) + seen.rows * costs.random_row(n, d)


def _prior_precision(metric: Metric, back: Matrix) -> Matrix:
    """Return the precision of the (normal) prior in u, z = back u: the one place where the prior is read."""
    return np.ascontiguousarray(back.T @ metric.prior_hessian @ back)


def _frame(metric: Metric, whitened: bool) -> tuple[Matrix, Matrix]:
    """Return A, theta = centre + A u, and W^-1 A."""
    if whitened:
        return metric.matrix, np.eye(metric.d)
    frame = np.diag(np.sqrt(metric.variances))
    return frame, np.ascontiguousarray(metric.root.T @ frame)


def _step(actual: float, d: int) -> float:
    """Return a time between draws: one standard deviation, longer where rows flip velocities often.

    Under the Gaussian approximation row i has E |x~_i . u| = sqrt(2 / pi) |x~_i|, and half of what it changes has
    the sign that flips: the rows together flip a coordinate about 0.4 * actual / d times in a unit of time.
    """
    return 1.0 + 0.4 * actual / d


def _lengths(block: Block, frame: Matrix) -> Vector:
    """Return |x~|_2 |x~|_1 of each row."""
    turned = block.X @ frame
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", turned, turned)) * np.sum(np.abs(turned), axis=1))


def slope_bounds(
    block: Block, rows: Any, predictors: Linear, centre: Vector, frame: Matrix, same: float | None = None
) -> RowBounds:
    """Return psi_i = C_i |x~_i|_2 |x~_i|_1 of a block's rows; or the same for all."""
    if same is not None:
        return RowBounds(np.full(block.count, same), WHOLE)
    sizes = np.ascontiguousarray(np.sqrt(_lengths(block, frame))[None])
    steepest = rows.bounds(block.responses, np.zeros(sizes.shape), sizes, math.inf, 2)
    return RowBounds(np.asarray(block.weight * np.max(steepest, axis=0)), WHOLE)


class SlopeSums(NamedTuple):
    """Sums of bounds on slopes over some rows."""

    total: float
    actual: float
    """The same sum with each row's own second derivative at the centre."""
    largest: float

    def merged(self, other: "SlopeSums") -> "SlopeSums":
        """Return those of both."""
        return SlopeSums(self.total + other.total, self.actual + other.actual, max(self.largest, other.largest))


def _sum_slope_bounds(block: Block, arguments: tuple[Any, ...], table: Vector | None) -> SlopeSums:
    rows, predictors, centre, frame = arguments
    psi = slope_bounds(block, *arguments).psi
    if table is not None:
        table[block.first : block.first + block.count] = psi
    own = np.abs(rows.jets(block.responses, predictors.at(block, centre), 2, first=2)[0])
    actual = float(np.sum(block.weight * own * _lengths(block, frame)))
    return SlopeSums(float(np.sum(psi)), actual, float(np.max(psi)))
