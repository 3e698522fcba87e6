"""What `sample` would do with a model, in numbers and as a table."""

from dataclasses import dataclass

import numpy as np

from tallbayes.kernels.base import Prepared
from tallbayes.kernels.state import LARGEST_CHUNK
from tallbayes.plan.choose import Chosen
from tallbayes.plan.forecast import Forecast
from tallbayes.setup.setup import setup_of


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
    """Passes over all rows so far, those that checked the data included, not those of chains: none is left before the
    first draw."""
    rows_per_draw: float
    acceptance: float
    full_passes_per_million: float
    draws_per_second: float
    """Predicted, on one core."""
    memory_megabytes: float
    """Beside the data: tables, what each chain has of its own, and the draws."""
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
            ("passes over the rows", f"{self.passes}, all done"),
            ("rows touched per draw", f"{self.rows_per_draw:.3g}"),
            ("acceptance", f"{self.acceptance:.3f}"),
            ("full passes per million draws", f"{self.full_passes_per_million:.2g}"),
            ("draws per second on one core", f"{self.draws_per_second:,.0f}"),
            ("memory beside the data", f"{self.memory_megabytes:,.1f} MB"),
            *(("not taken" if i == 0 else "", text) for i, text in enumerate(self.alternatives)),
        ]
        width = max(len(title) for title, _ in lines)
        return "\n".join(f"{title:<{width}}  {text}" for title, text in lines)


DRAW_BYTES = 8 + 1 + 1
"""Of a draw beside its coefficients: rows touched, whether it was accepted, and whether on all rows."""


def describe(chosen: Chosen, draws: int, chains: int) -> Explanation:
    """Return the explanation of a choice."""
    prepared, expected = chosen.prepared, chosen.rehearsal
    model, plan = prepared.model, prepared.plan
    radius = plan.get("radius", np.inf)
    each = 8 * model.d + DRAW_BYTES
    result, scratch = draws * chains * each, min(draws, LARGEST_CHUNK) * chains * each
    return Explanation(
        model=repr(model),
        prior=model.coefficient_priors.describe(model.names),
        kernel=", ".join([plan["kernel"], *_features(prepared)]),
        proposal=plan["proposal"],
        order=plan.get("order"),
        radius=radius if np.isfinite(radius) else None,
        passes=setup_of(model).passes,
        rows_per_draw=expected.rows_per_draw,
        acceptance=expected.acceptance,
        full_passes_per_million=expected.full_per_million,
        draws_per_second=1e9 / chosen.nanoseconds(),
        memory_megabytes=(prepared.table_bytes + chains * prepared.chain_bytes + result + scratch) / 1e6,
        alternatives=(
            *([chosen.stuck] if chosen.stuck else []),
            *(_reason(chosen.forecasts[0], other, draws * chains) for other in chosen.forecasts[1:]),
        ),
    )


def _features(prepared: Prepared) -> list[str]:
    if "order" not in prepared.plan:
        return []
    if prepared.plan["truncation"] == 0.0:
        return ["accepted on all rows"]
    return [
        "local bounds" if prepared.target.bound.local else "global bounds",
        *(["sketch"] if prepared.plan["sketch"] else []),
    ]


def _reason(best: Forecast, other: Forecast, draws: int) -> str:
    times = other.total(draws) / max(best.total(draws), 1.0)
    return (
        f"{other.name}: about {times:.2g} times the time for {draws:,} draws and as many again, set-up included "
        f"({other.rows:.3g} rows per draw, acceptance {other.acceptance:.2f}, "
        f"set-up {other.setup / 1e9:.2g} s, {other.per_draw / 1e3:.3g} us per effective draw)"
    )
