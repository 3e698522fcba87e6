"""`explain`: what `sample` would do with a model, before it does it."""

from dataclasses import dataclass

import numpy as np

from tallbayes.errors import InputError
from tallbayes.kernels import Kernel
from tallbayes.kernels.base import Prepared
from tallbayes.models import Model
from tallbayes.plan.choose import Chosen, choose, nanoseconds
from tallbayes.plan.forecast import Forecast


@dataclass(frozen=True)
class Explanation:
    """What will happen, in numbers; print it for a table.

    The figures for the chosen kernel come from a rehearsal: a short run of the kernel itself. Times are those of
    an ordinary core, for comparison between kernels, not promises about this machine.
    """

    model: str
    prior: str
    kernel: str
    proposal: str
    order: int | None
    radius: float | None
    passes: int
    """Passes over all rows before the first draw."""
    rows_per_draw: float
    acceptance: float
    full_passes_per_million: float
    draws_per_second: float
    """Predicted, on one core."""
    memory_megabytes: float
    """Of tables beside the data."""
    alternatives: tuple[str, ...]
    """Kernels that were considered and not taken, and why."""

    def __str__(self) -> str:
        """Return the table."""
        lines = [
            ("model", self.model),
            ("prior", self.prior),
            ("kernel", self.kernel),
            ("proposal", self.proposal),
            ("order of the surrogate", "none" if self.order is None else str(self.order)),
            ("radius of the ball", "none" if self.radius is None else f"{self.radius:.2f} sd"),
            ("passes over the rows", f"{self.passes} before the first draw"),
            ("rows touched per draw", f"{self.rows_per_draw:.3g}"),
            ("acceptance", f"{self.acceptance:.3f}"),
            ("full passes per million draws", f"{self.full_passes_per_million:.2g}"),
            ("draws per second on one core", f"{self.draws_per_second:,.0f}"),
            ("memory beside the data", f"{self.memory_megabytes:,.1f} MB"),
            *(("not taken" if i == 0 else "", text) for i, text in enumerate(self.alternatives)),
        ]
        width = max(len(title) for title, _ in lines)
        return "\n".join(f"{title:<{width}}  {text}" for title, text in lines)


def explain(
    model: Model,
    kernel: Kernel | None = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    threads: int | None = None,
) -> Explanation:
    """Say what `tallbayes.sample` would do with the same arguments.

    Takes the passes over the rows that `sample` takes before its first draw, and makes a few hundred steps.

    Parameters
    ----------
    model : Model
        The model.
    kernel : Kernel or None
        What to fix; None lets everything be chosen.
    draws : int
        Draws to keep from each chain.
    chains : int
        Number of chains.
    threads : int or None
        Threads for passes over the rows; None takes every core.

    Returns
    -------
    Explanation
        Order, radius, passes, expected rows per draw, acceptance, full passes, memory, speed, alternatives.
    """
    if not isinstance(model, Model):
        raise InputError(f"explain: model is a {type(model).__name__}; expected a tb.Regression or tb.Factors.")
    if kernel is not None and not isinstance(kernel, Kernel):
        raise InputError(f"explain: kernel={kernel!r} was given; expected e.g. tb.kernels.ScalableMH(), or None.")
    return describe(model, choose(model, kernel, draws * chains, threads=threads), draws * chains)


def describe(model: Model, chosen: Chosen, draws: int) -> Explanation:
    """Return the explanation of a choice."""
    prepared, expected = chosen.prepared, chosen.rehearsal
    plan, bound = prepared.plan, prepared.target.bound
    order = plan.get("order")
    thinning = order is not None
    tables = sum(array.nbytes for array in (*prepared.target.sampler, *prepared.target.sketch))
    drawn = chosen.forecasts[0].rows if chosen.forecasts and prepared.target.sketch.facts.size else 0.0
    passes = prepared.mode.passes + int(thinning) + int(order == 3) + int(plan.get("sketch", False))
    return Explanation(
        model=repr(model),
        prior=model.coefficient_priors.describe(model.names),
        kernel=", ".join([plan["kernel"], *_features(prepared)]),
        proposal=plan["proposal"],
        order=order,
        radius=bound.radius if thinning and np.isfinite(bound.radius) else None,
        passes=passes,
        rows_per_draw=expected.rows_per_draw,
        acceptance=expected.acceptance,
        full_passes_per_million=expected.full_per_million,
        draws_per_second=1e9 / nanoseconds(model, prepared, expected, drawn),
        memory_megabytes=tables / 1e6,
        alternatives=(
            *([chosen.stuck] if chosen.stuck else []),
            *(_reason(chosen.forecasts[0], other, draws) for other in chosen.forecasts[1:]),
        ),
    )


def _features(prepared: Prepared) -> list[str]:
    if "order" not in prepared.plan:
        return []
    bound = prepared.target.bound
    if bound.truncation == 0.0:
        return ["accepted on all rows"]
    return ["local bounds" if bound.local else "global bounds", *(["sketch"] if prepared.plan["sketch"] else [])]


def _reason(best: Forecast, other: Forecast, draws: int) -> str:
    times = other.total(draws) / max(best.total(draws), 1.0)
    return (
        f"{other.name}: about {times:.2g} times the time for {draws:,} draws and as many again, set-up included "
        f"({other.rows:.3g} rows per draw, acceptance {other.acceptance:.2f}, "
        f"set-up {other.setup / 1e9:.2g} s, {other.per_draw / 1e3:.3g} us per effective draw)"
    )
