"""Pictures of draws: intervals, densities, traces and ranks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.plots.canvas import CHAINS, EXACT, GAUSSIAN, GREY, chosen, figure, in_order, panels, tidy
from tallbayes.results.draws import coefficient_draws, named_draws, theta_draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import DataTree

Vector = NDArray[np.float64]

DRAWN = 2000
"""Points of a trace: of longer chains, every so many draws."""
RANK_BINS = 20


def plot_forest(
    tree: "DataTree", names: Sequence[str] | None = None, *, exponentiate: bool = False, count: int = 60
) -> "Figure":
    """Draw an interval for each parameter: 50 % and 90 % of the posterior, and the median.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    names : sequence of str or None
        Parameters to show; the first ones by default.
    exponentiate : bool
        Whether to show exp(coefficient), on a log scale: odds or rate ratios.
    count : int
        How many to show, if they are not named.

    Returns
    -------
    matplotlib.figure.Figure
        A line for each parameter, the first one at the top.
    """
    every, draws = named_draws(tree, "plot_forest")
    shown = chosen("plot_forest", every, names, in_order(len(every)), count)
    ends = np.array([np.quantile(draws[:, :, j], [0.05, 0.25, 0.5, 0.75, 0.95]) for j in shown])
    if exponentiate:  # coefficients, not e.g. a scale
        plain = np.array(shown) < len(coefficient_draws(tree)[0])
        ends[plain] = np.exp(ends[plain])
    made = figure(6.4, 1.1 + 0.28 * len(shown))
    axes = made.subplots()
    y = -np.arange(len(shown))
    axes.axvline(1.0 if exponentiate else 0.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.hlines(y, ends[:, 0], ends[:, 4], color=EXACT, linewidth=1.4)
    axes.hlines(y, ends[:, 1], ends[:, 3], color=EXACT, linewidth=4.0)
    axes.plot(ends[:, 2], y, "o", color="white", markeredgecolor=EXACT, markersize=5)
    axes.set_yticks(y, [every[j] for j in shown])
    axes.set_ylim(y[-1] - 0.6, 0.6)
    if exponentiate:
        axes.set_xscale("log")
        _ratio_ticks(axes)
    axes.set_xlabel(f"{'exp(coefficient)' if exponentiate else 'coefficient'}: median, 50 % and 90 % interval")
    tidy(axes)
    return made


def plot_densities(tree: "DataTree", names: Sequence[str] | None = None, *, count: int = 6) -> "Figure":
    """Draw the posterior of coefficients over their Gaussian (Laplace) approximation.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    names : sequence of str or None
        Coefficients to show; the most skewed ones by default.
    count : int
        How many to show, if they are not named.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each coefficient.
    """
    draws = theta_draws(tree, "plot_densities")
    draws = draws.reshape(-1, draws.shape[2])
    try:
        every = [str(name) for name in np.asarray(tree["laplace"]["coefficient"])]
        mode = np.asarray(tree["laplace"]["mode"])
        sd = np.sqrt(np.diag(np.asarray(tree["laplace"]["covariance"])))
    except (KeyError, IndexError, TypeError):
        raise InputError("plot_densities: the tree has no laplace group; give a result of tb.sample.") from None
    skewness = _skewness(draws)
    shown = chosen("plot_densities", every, names, np.argsort(-np.abs(skewness), kind="stable"), count)
    made, grid = panels(len(shown), height=3.2)
    for axes, j in zip(grid, shown, strict=True):
        _density(axes, draws[:, j], float(mode[j]), float(sd[j]))
        axes.set_title(f"{every[j]}  (skewness {skewness[j]:.2f})", fontsize=10)
    made.supxlabel("coefficient", fontsize=10)
    handles, labels = grid[0].get_legend_handles_labels()
    made.legend(handles, labels, frameon=False, fontsize=9, loc="outside upper center", ncols=2)
    return made


def plot_trace(tree: "DataTree", names: Sequence[str] | None = None, *, count: int = 6) -> "Figure":
    """Draw the way of every chain.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    names : sequence of str or None
        Parameters to show; the first ones by default.
    count : int
        How many to show, if they are not named.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each parameter, a colour for each chain; of long chains, every so many draws.
    """
    every, draws = named_draws(tree, "plot_trace")
    shown = chosen("plot_trace", every, names, in_order(len(every)), count)
    step = max(1, draws.shape[1] // DRAWN)
    made, grid = panels(len(shown), height=2.2)
    at = np.arange(0, draws.shape[1], step)
    for axes, j in zip(grid, shown, strict=True):
        for chain in range(draws.shape[0]):
            axes.plot(at, draws[chain, ::step, j], color=CHAINS[chain % len(CHAINS)], linewidth=0.5, alpha=0.7)
        axes.set_title(every[j], fontsize=10)
        tidy(axes)
    made.supxlabel(f"draw{'' if step == 1 else f' (every {step}th is shown)'}", fontsize=10)
    return made


def plot_rank(tree: "DataTree", names: Sequence[str] | None = None, *, count: int = 6) -> "Figure":
    """Draw how the ranks of each chain's draws among all draws are spread: evenly, if chains agree.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    names : sequence of str or None
        Parameters to show; the first ones by default.
    count : int
        How many to show, if they are not named.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each parameter, a line for each chain; a chain of independent draws stays within the grey band 95 %
        of the time.
    """
    every, draws = named_draws(tree, "plot_rank")
    shown = chosen("plot_rank", every, names, in_order(len(every)), count)
    chains, length, _ = draws.shape
    expected = length / RANK_BINS
    # A hypergeometric count, close to a normal: what chance does to independent draws.
    reach = 1.96 * np.sqrt(expected * (1.0 - 1.0 / RANK_BINS) * (1.0 - 1.0 / chains) if chains > 1 else 0.0)
    made, grid = panels(len(shown), height=2.2)
    for axes, j in zip(grid, shown, strict=True):
        order = np.argsort(draws[:, :, j], axis=None, kind="stable")
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        bins = (rank * RANK_BINS // order.size).reshape(chains, length)
        axes.axhspan(expected - reach, expected + reach, color=GREY, alpha=0.2, linewidth=0)
        for chain in range(chains):
            counts = np.bincount(bins[chain], minlength=RANK_BINS)
            axes.stairs(
                counts, np.linspace(0.0, 1.0, RANK_BINS + 1), color=CHAINS[chain % len(CHAINS)], linewidth=1.2
            )
        axes.set_title(every[j], fontsize=10)
        axes.set_ylim(0.0, max(2.0 * expected, axes.get_ylim()[1]))
        tidy(axes, left=False)
    made.supxlabel("rank among all draws, as a share", fontsize=10)
    return made


def _ratio_ticks(axes: Any) -> None:
    """Put marks at 1, 2, 5 and their tenfolds; closer ones if a log axis is short."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_xlim()
    steps = (1.0, 2.0, 5.0) if high / low > 6.0 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _skewness(draws: Vector) -> Vector:
    centred = draws - draws.mean(axis=0)
    variance = np.maximum(np.mean(centred**2, axis=0), np.finfo(np.float64).tiny)
    return np.asarray(np.mean(centred**3, axis=0) / variance**1.5)


def _density(axes: Any, draws: Vector, mode: float, sd: float) -> None:
    low = min(float(np.quantile(draws, 1e-4)), mode - 4.0 * sd)
    high = max(float(np.quantile(draws, 1.0 - 1e-4)), mode + 4.0 * sd)
    grid = np.linspace(low, high, 400)
    gaussian = np.exp(-0.5 * ((grid - mode) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
    bins = 80 if draws.size >= 20_000 else 40
    axes.hist(
        draws, bins=bins, range=(low, high), density=True, color=EXACT, alpha=0.45, label="posterior (exact draws)"
    )
    axes.plot(grid, gaussian, color=GAUSSIAN, linewidth=1.6, label="Gaussian at the mode")
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylim(top=max(1.15 * float(gaussian.max()), axes.get_ylim()[1]))
    tidy(axes, left=False)
