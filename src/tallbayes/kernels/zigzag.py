"""The Zig-Zag process with control variates, looking at one row for each event it proposes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import positive
from tallbayes.errors import InputError
from tallbayes.kernels import flow
from tallbayes.kernels.base import Kernel, Prepared
from tallbayes.models import Model
from tallbayes.surrogate.alias import row_sampler
from tallbayes.surrogate.basis import Basis, find_basis
from tallbayes.surrogate.expansion import Whitening

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
        Time between draws, in units in which a coordinate moves by one posterior standard deviation; None takes
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

    def __post_init__(self) -> None:
        if self.step is not None:
            positive("ZigZag", "step", self.step)
        for name, value in (("whitened", self.whitened), ("uniform", self.uniform)):
            if not isinstance(value, bool):
                raise InputError(f"ZigZag: {name}={value!r} was given; expected True or False.")

    def prepare(self, model: Model, *, threads: int | None = None, basis: Basis | None = None) -> Prepared:
        """Find the mode, and bound every row's slope around it."""
        if not model.linear:
            raise InputError(
                "ZigZag: rows must be functions of one linear predictor, as in tb.Regression. Use "
                "tb.kernels.ScalableMH() or tb.kernels.MetropolisHastings()."
            )
        steepest = model.family.supremum(2)
        if not math.isfinite(steepest):
            raise InputError(
                f"ZigZag: {model.family} has no bound on its second derivative, so the rates of events have none. "
                "Use tb.kernels.ScalableMH(), whose local bounds need none, or no kernel: one is chosen then."
            )
        if model.coefficient_priors.other.size:
            raise InputError(
                f"ZigZag: takes flat and normal priors, not {model.prior}. Use tb.kernels.ScalableMH(), which "
                "takes any, or no kernel: one is chosen then."
            )
        mode, whitening = basis or find_basis(model, threads=threads)
        frame, back = _frame(whitening, self.whitened)
        psi, tangents, actual = _slope_bounds(model, whitening, frame, steepest, threads)
        if self.uniform:
            psi[:] = np.max(psi)
        step = _step(actual, model.d) if self.step is None else float(self.step)
        target = flow.make_target(
            model.source.rows,
            model.family.curve,
            whitening.centre,
            whitening.matrix,
            frame,
            back,
            back.T @ whitening.gradient,
            _prior_precision(whitening, back),
            steepest,
            tangents,
            row_sampler(psi),
        )
        plan: dict[str, Any] = {
            "kernel": "ZigZag",
            "step": step,
            "whitened": self.whitened,
            "uniform": self.uniform,
            "proposal": f"straight lines, a draw every {step:.3g}",
            "mode_passes": mode.passes,
        }
        return Prepared(mode, whitening, target, flow.Pace(step), flow.initial_state, flow.run_chunk, 200, plan)


def _prior_precision(whitening: Whitening, back: Matrix) -> Matrix:
    """Return the precision of the (normal) prior in u, z = back u: the one place where the prior is read."""
    return np.ascontiguousarray(back.T @ whitening.prior_hessian @ back)


def _frame(whitening: Whitening, whitened: bool) -> tuple[Matrix, Matrix]:
    """Return A, theta = centre + A u, and W^-1 A, both upper triangular."""
    d = whitening.centre.size
    if whitened:
        return whitening.matrix, np.eye(d)
    frame = np.diag(np.sqrt(np.sum(whitening.matrix**2, axis=1)))  # standard deviations: covariance is W W'
    return frame, np.ascontiguousarray(whitening.root.T @ frame)


def _step(actual: float, d: int) -> float:
    """Return a time between draws: one standard deviation, longer where rows flip velocities often.

    Under the Gaussian approximation row i has E |x~_i . u| = sqrt(2 / pi) |x~_i|, and half of what it changes has
    the sign that flips: the rows together flip a coordinate about 0.4 * actual / d times in a unit of time.
    """
    return 1.0 + 0.4 * actual / d


def _slope_bounds(
    model: Model, whitening: Whitening, frame: Matrix, steepest: float, threads: int | None
) -> tuple[Vector, Matrix, float]:
    """Return psi, the table of tangents, and the sum of psi with each row's own second derivative."""
    psi, tangents = np.empty(model.n), np.empty((model.n, 2))
    parts = model.source.map_parts(
        lambda first, last: flow.fill_slope_bounds(
            model.source.rows,
            model.family.curve,
            steepest,
            whitening.centre,
            frame,
            first,
            last,
            tangents,
            psi,
        ),
        threads,
    )
    return psi, tangents, float(sum(parts))
