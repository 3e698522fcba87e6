"""The demo: a logistic regression with very many rows, from data to picture, on data it makes itself."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.api import explain, sample
from tallbayes.errors import MissingPackageError
from tallbayes.families import Bernoulli
from tallbayes.kernels import MetropolisHastings
from tallbayes.models.regression import Regression
from tallbayes.plots import plot_densities
from tallbayes.results.summary import summary
from tallbayes.results.table import facts_table, summary_table
from tallbayes.results.verdict import verdict
from tallbayes.setup.setup import setup_of

if TYPE_CHECKING:
    from rich.console import Console
    from xarray import DataTree

CHAINS = 4
RARE_ROWS = 60
"""Rows of the rare merchant, whatever the number of all rows: its coefficient's posterior is skewed."""
TRUTH = {
    "intercept": -4.5,
    "amount": 0.6,
    "velocity": 0.4,
    "night": 0.5,
    "weekend": -0.2,
    "account_age": -0.3,
    "foreign": 0.8,
    "new_device": 0.5,
    "foreign_new": 0.4,
    "rare_merchant": 2.2,
}
"""The coefficients that the responses are made with."""


class Payments(NamedTuple):
    """Made-up card payments, and which of them turned out to be fraud."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    names: list[str]


def make_payments(rows: int, seed: int) -> Payments:
    """Make payments with correlated columns, rare fraud, and a merchant that only few rows speak of.

    Parameters
    ----------
    rows : int
        Number of payments.
    seed : int
        Seed of the data.

    Returns
    -------
    Payments
        Design, response and names of the columns.
    """
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(rows)
    foreign = rng.random(rows) < 0.08
    new_device = rng.random(rows) < np.where(foreign, 0.35, 0.15)
    rare = np.zeros(rows, dtype=bool)
    rare[rng.choice(rows, size=min(RARE_ROWS, rows), replace=False)] = True
    X = np.column_stack(
        [
            np.ones(rows),
            0.7 * shared + 0.7 * rng.standard_normal(rows),
            0.7 * shared + 0.7 * rng.standard_normal(rows),
            np.cos(rng.uniform(0.0, 2.0 * np.pi, rows)),
            rng.random(rows) < 2.0 / 7.0,
            rng.standard_normal(rows) - 0.3 * new_device,
            foreign,
            new_device,
            foreign & new_device,
            rare,
        ]
    )
    chance = 1.0 / (1.0 + np.exp(-X @ np.array(list(TRUTH.values()))))
    y = (rng.random(rows) < chance).astype(np.float64)
    return Payments(X, y, list(TRUTH))


def run_demo(console: "Console", *, rows: int, draws: int, seed: int, out: Path) -> "DataTree":
    """Run the demo and print what it does.

    Parameters
    ----------
    console : rich.console.Console
        Where to print.
    rows : int
        Rows of the data.
    draws : int
        Draws to keep from each chain.
    seed : int
        Seed of the data and of the run.
    out : pathlib.Path
        File for the picture.

    Returns
    -------
    xarray.DataTree
        The draws.
    """
    _compile(console)
    data = make_payments(rows, seed)
    model = Regression(data.X, data.y, Bernoulli(), names=data.names)
    console.print(f"\n[bold]Model[/bold]  which of {rows:,} card payments are fraud?")
    console.print(facts_table(_about(model, data).items()))

    console.print("\n[bold]Plan[/bold]  what sample() will do")
    console.print(str(explain(model, draws=draws, chains=CHAINS, verbose=True)), markup=False, soft_wrap=True)

    console.print("\n[bold]Sampling[/bold]")
    tree = sample(model, draws=draws, chains=CHAINS, seed=seed, progress=True)

    console.print("\n[bold]Posterior[/bold]")
    console.print(summary_table(summary(tree)))
    console.print(verdict(tree), markup=False)

    console.print("\n[bold]Cost[/bold]")
    console.print(facts_table(_cost(model, tree, seed).items()))
    _picture(console, tree, out)
    return tree


def _compile(console: "Console") -> None:
    """Compile both kernels on a small model, so that the times shown later are those of every later run."""
    started = time.perf_counter()
    data = make_payments(1000, seed=0)
    small = Regression(data.X, data.y, Bernoulli(), names=data.names)
    for kernel in (None, MetropolisHastings()):
        explain(small, kernel, draws=10, chains=1)  # says if it compiles, which takes a moment
        sample(small, kernel, draws=10, chains=1, seed=0, progress=False)
    console.print(f"Kernels ready ({time.perf_counter() - started:.1f} s).")


def _about(model: Regression, data: Payments) -> dict[str, str]:
    return {
        "columns": ", ".join(model.names),
        "fraud": f"{int(data.y.sum()):,} rows",
        "rare merchant": f"{int(data.X[:, -1].sum())} rows, {int(data.y @ data.X[:, -1])} of them fraud",
        "prior": repr(model.prior),
    }


def _cost(model: Regression, tree: "DataTree", seed: int) -> dict[str, str]:
    """Return rows and time per draw, with those of a plain Metropolis-Hastings step measured here and now."""
    statistics, set_up = tree["sample_stats"], setup_of(model).seconds
    steps = CHAINS * (tree.attrs["warmup"] + statistics.sizes["draw"])
    full = sample(model, MetropolisHastings(), draws=5, chains=CHAINS, seed=seed, warmup=0, progress=False)
    ours = tree.attrs["sampling_seconds"] / steps
    plain = full.attrs["sampling_seconds"] / (5 * CHAINS)
    touched = float(statistics["rows_touched"].mean())
    return {
        "rows touched per draw": f"{touched:.3g} of {model.n:,}",
        "acceptance": f"{float(statistics['accepted'].mean()):.3f}",
        "full passes": f"{int(statistics['full_pass'].sum()):,} in {steps:,} steps",
        "bound violations": f"{tree.attrs['bound_violations']} (one would fail the run)",
        "set-up": f"{_duration(set_up)}, done once",
        "time per draw": _duration(ours),
        "full-data MH step": f"{_duration(plain)}, {plain / ours:,.0f} times as long (same model and cores)",
    }


def _duration(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def _picture(console: "Console", tree: "DataTree", out: Path) -> None:
    try:
        figure = plot_densities(tree, count=3)
    except MissingPackageError as error:
        console.print(f"\nNo picture: {error}", markup=False)
        return
    figure.savefig(out, dpi=150)
    console.print(f"\n[bold]Picture[/bold]  posterior against the Gaussian approximation: {out}", soft_wrap=True)
