"""Pictures of a result; matplotlib loads when one is asked for."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import MissingPackageError
from tallbayes.results.variables import theta_draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import DataTree

Vector = NDArray[np.float64]

EXACT, GAUSSIAN = "#2a6f97", "#d1495b"


def posterior_against_laplace(tree: "DataTree", count: int = 3) -> "Figure":
    """Draw the posterior of the most skewed coefficients over their Gaussian (Laplace) approximation.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    count : int
        How many coefficients to show, the most skewed first.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each coefficient.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError("Pictures need matplotlib: pip install 'tallbayes[plot]'.") from None
    names = [str(name) for name in np.asarray(tree["laplace"]["coefficient"])]
    draws = theta_draws(tree).reshape(-1, len(names))
    skewness = _skewness(draws)
    shown = np.argsort(-np.abs(skewness))[:count]
    mode = np.asarray(tree["laplace"]["mode"])
    sd = np.sqrt(np.diag(np.asarray(tree["laplace"]["covariance"])))
    figure = Figure(figsize=(4.2 * len(shown), 3.6), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, j in zip(panels, shown, strict=True):
        _panel(axes, draws[:, j], float(mode[j]), float(sd[j]))
        axes.set_title(f"{names[j]}  (skewness {skewness[j]:.2f})", fontsize=10)
        axes.set_xlabel("coefficient")
    panels[0].set_ylabel("density")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def _skewness(draws: Vector) -> Vector:
    centred = draws - draws.mean(axis=0)
    variance = np.maximum(np.mean(centred**2, axis=0), np.finfo(np.float64).tiny)
    return np.asarray(np.mean(centred**3, axis=0) / variance**1.5)


def _panel(axes: Any, draws: Vector, mode: float, sd: float) -> None:
    low = min(float(np.quantile(draws, 1e-4)), mode - 4.0 * sd)
    high = max(float(np.quantile(draws, 1.0 - 1e-4)), mode + 4.0 * sd)
    grid = np.linspace(low, high, 400)
    gaussian = np.exp(-0.5 * ((grid - mode) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
    axes.hist(
        draws,
        bins=80,
        range=(low, high),
        density=True,
        color=EXACT,
        alpha=0.45,
        label="posterior (exact draws)",
    )
    axes.plot(grid, gaussian, color=GAUSSIAN, linewidth=1.6, label="Gaussian at the mode")
    axes.set_ylim(top=1.2 * float(gaussian.max()))
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
