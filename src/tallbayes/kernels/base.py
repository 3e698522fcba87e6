"""The contract of a kernel: prepare once for a model, then run chunks of compiled steps."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.setup.metric import Metric
from tallbayes.setup.setup import Setup, setup_of
from tallbayes.setup.tables import Tables, quantile
from tallbayes.sources.base import RANDOM_ACCESS, SUPPLY

Vector = NDArray[np.float64]

WIDE, INSIDE, SELDOM = 2.0, 0.9, 1e-3
"""Standard deviations of starting points, how much of the ball's radius they may use, and what a table leaves out."""
NEARER, TINY = 0.7, 1e-6
"""How much nearer to the centre a chain starts where the likelihood is zero; what is no distance from it any more."""
ONE_PREDICTOR = "one linear predictor"
"""What kernels may need of a model: rows that depend on x_i . theta alone."""


@dataclass(frozen=True)
class Prepared:
    """A kernel bound to a model: all that chains share, and nothing that they change."""

    model: Model
    metric: Metric
    target: Any
    """What the compiled steps read."""
    move: Any
    """How the compiled steps move."""
    initial_state: Callable[[Any, Vector, np.random.Generator], Any]
    """Returns the state of a chain that starts at a point."""
    run_chunk: Callable[..., tuple[int, int]]
    """``run_chunk(target, move, state, rng, draws, budget)``: steps made, and what the chain asks for."""
    warmup: int
    """Steps to leave out when the user does not say how many."""
    plan: dict[str, Any]
    """What was chosen, in plain values, for the result's attributes."""
    nanoseconds: Callable[["Behaviour"], float]
    """What a step costs on an ordinary core, given what a rehearsal saw."""
    supply: Any = None
    """Where rows drawn at random come from; None if the kernel draws none."""
    answer: Callable[[Any, Any, int | None], None] | None = None
    """``answer(target, state, threads)`` puts the log ratio over all rows into the state."""
    exceeds: Callable[[Any, Vector], bool] | None = None
    """``exceeds(target, suspect)``: whether an intensity is above its bound by more than rounding."""
    table_bytes: int = 0
    """Memory of tables that all chains share."""
    chain_bytes: int = 0
    """Memory of what each chain has of its own."""
    radius: float = math.inf
    """How far from the centre chains may start."""
    tables: Tables | None = None
    """Tables that proposals are drawn from."""
    free: int = 0
    """The first so many coordinates may be anywhere: the ball is about the others."""

    def start(self, rng: np.random.Generator) -> Vector:
        """Return where a chain starts: normal, but twice as wide, though not outside the ball.

        Along tabulated axes, anywhere between the quantiles that leave out a thousandth on each side. Nearer to the
        centre, if the likelihood is zero there: a walk might not find out of such a region, where no step is better.
        """
        z = WIDE * rng.standard_normal(self.metric.d)
        z *= min(1.0, INSIDE * self.radius / max(float(np.linalg.norm(z)), 1e-300))
        if self.tables is not None:
            for t, axis in enumerate(self.tables.axes):
                low, high = quantile(self.tables, t, SELDOM), quantile(self.tables, t, 1.0 - SELDOM)
                z[axis] = rng.uniform(low, high)
        while not self._has_likelihood(z):
            z *= NEARER
        return z

    def _has_likelihood(self, z: Vector) -> bool:
        """Return whether the likelihood is not zero at z.

        Nor is it at the centre, where a search ended; in a ball in which bounds hold; and with one linear predictor.
        """
        model = self.model
        if model.predictors.linear or math.isfinite(self.radius) or not np.any(np.abs(z) > TINY):
            return True
        theta = self.metric.theta(z)
        return math.isfinite(model.source.reduce(passes.potential, model.rows, model.predictors, theta))


@dataclass(frozen=True)
class Behaviour:
    """What a kernel does in a step, on average."""

    acceptance: float = 1.0
    rows: float = 0.0
    """Rows evaluated in a step, those of steps on all rows included."""
    full_passes: float = 0.0
    """Share of steps on all rows."""
    events: float = 0.0
    """Bundles of rows drawn, where a sketch settles most of them."""
    bundle: int = 1
    """Rows of a bundle."""


class Kernel(ABC):
    """One Markov transition: a proposal and an acceptance rule."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """What it asks of a source (`SUPPLY`, `RANDOM_ACCESS`) or of a model (`ONE_PREDICTOR`)."""

    def prepare(self, model: Model, *, threads: int | None = None, setup: Setup | None = None) -> Prepared:
        """Return the kernel bound to a model, after the passes over rows that it needs.

        Parameters
        ----------
        model : Model
            The model.
        threads : int or None
            Threads for passes over rows.
        setup : Setup or None
            A set-up to use in place of the model's own.

        Returns
        -------
        Prepared
            What chains run.
        """
        self.refuse_mismatch(model)
        return self._prepare(model, setup_of(model, threads=threads) if setup is None else setup)

    def refuse_mismatch(self, model: Model) -> None:
        """Raise, before anything is computed, if the model or its source lacks something the kernel needs."""
        name = type(self).__name__
        for need in sorted(self.needs & {SUPPLY, RANDOM_ACCESS}):
            if need not in model.source.offers:
                offered = ", ".join(sorted(model.source.offers)) or "passes only"
                raise InputError(
                    f"{name} needs {need!r} to its rows, which {type(model.source).__name__} does not offer (it offers "
                    f"{offered}). Use tb.kernels.ScalableMH(), or give the data as arrays."
                )
        if ONE_PREDICTOR in self.needs and not model.predictors.linear:
            raise InputError(
                f"{name}: rows must be functions of one linear predictor, as in tb.Regression. Use "
                "tb.kernels.ScalableMH() or tb.kernels.MetropolisHastings()."
            )

    @property
    def is_open(self) -> bool:
        """Whether something is left for the planner to choose."""
        return False

    def filled(self, best: "Kernel") -> "Kernel":
        """Return this kernel with what was left open as in the one that the planner found best."""
        return self

    def widened(self, radius: float) -> "Kernel | None":
        """Return this kernel with bounds that hold in a larger ball; None if there is no ball, or it was fixed."""
        return None

    def into_tails(self, model: Model, setup: Setup) -> "Kernel | None":
        """Return a kernel that follows a posterior into tails which this one's surrogate does not show.

        None if there are no such tails to be seen, or nothing is known against them.
        """
        return None

    @abstractmethod
    def _prepare(self, model: Model, setup: Setup) -> Prepared:
        """Return the kernel bound to a model."""
