"""Can the draws be trusted, and was the Gaussian (Laplace) approximation enough? A verdict from the draws."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.quantiles import normal_quantile
from tallbayes.results.diagnostics import judged
from tallbayes.results.draws import theta_draws
from tallbayes.results.mixing import for_each, mean_error

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

TAILS = (0.025, 0.975)
ENOUGH = {"mean": 0.1, "sd": 0.05, "tail": 0.15}
"""Largest departures that count as small: a tenth of a standard deviation in the mean, five per cent in the
standard deviation, 0.15 standard deviations in an end of the 95 % interval."""
ERRORS = 1.0
"""Monte Carlo standard errors that a departure must exceed beyond that, to count."""
QUANTILE_ERROR = 2.7
"""Standard error of a 2.5 % quantile of normal draws, in standard errors of their mean."""


def laplace_check(tree: "DataTree") -> "pd.DataFrame":
    """Compare the exact posterior with the Gaussian approximation at the mode, coefficient by coefficient.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.

    Returns
    -------
    pandas.DataFrame
        For each coefficient: how far its mean is from the mode (in Gaussian standard deviations), the ratio of
        the standard deviations, how far the two ends of the 95 % interval are from the Gaussian ones (in standard
        deviations), the Monte Carlo error of the mean in the same unit, and ``enough``: whether all of these are
        small (0.1, 5 %, 0.15, beyond what few draws explain), so that the approximation would have done.
    """
    import pandas as pd

    try:
        laplace = tree["laplace"]
        names = [str(name) for name in np.asarray(laplace["coefficient"])]
        centre = np.asarray(laplace["mode"])
        sd = np.sqrt(np.diag(np.asarray(laplace["covariance"])))
    except (KeyError, IndexError, TypeError):
        raise InputError("laplace_check: the tree has no laplace group; give a result of tb.sample.") from None
    draws = theta_draws(tree, "laplace_check")
    moments = np.array(for_each(lambda j: _moments(np.ascontiguousarray(draws[:, :, j])), len(names), draws.size)).T
    mean, spread, error = moments[:3]
    low, high = ((ends - centre) / sd - normal_quantile(p) for ends, p in zip(moments[3:], TAILS, strict=True))
    table = pd.DataFrame(
        {
            "mean_shift": (mean - centre) / sd,
            "sd_ratio": spread / sd,
            "shift_2.5%": low,
            "shift_97.5%": high,
            "mcse": error / sd,
        },
        index=names,
    )
    # Errors of the sd and of the quantiles, from that of the mean: as for draws from a normal.
    error = table["mcse"]
    table["enough"] = (
        (table["mean_shift"].abs() < ENOUGH["mean"] + ERRORS * error)
        & ((table["sd_ratio"] - 1.0).abs() < ENOUGH["sd"] + ERRORS * error / np.sqrt(2.0))
        & (table["shift_2.5%"].abs() < ENOUGH["tail"] + ERRORS * QUANTILE_ERROR * error)
        & (table["shift_97.5%"].abs() < ENOUGH["tail"] + ERRORS * QUANTILE_ERROR * error)
    )
    return table


def verdict(tree: "DataTree") -> str:
    """Say in a few sentences whether the Gaussian approximation would have been enough, and the draws can be trusted.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.

    Returns
    -------
    str
        The verdict, with the worst coefficients and their numbers. If something speaks against the draws, that comes
        first, and the Gaussian approximation is not judged.
    """
    table = laplace_check(tree)
    departures = table[["mean_shift", "shift_2.5%", "shift_97.5%"]].abs().max(axis=1)
    worst = str(departures.idxmax())
    row = table.loc[worst]
    numbers = (
        f"{worst!r}: mean off by {row['mean_shift']:+.2f} sd, sd ratio {row['sd_ratio']:.3f}, "
        f"95 % interval off by {row['shift_2.5%']:+.2f} and {row['shift_97.5%']:+.2f} sd"
    )
    about_draws, trust = judged(tree)
    if any(word.startswith("no") for word in trust):
        judgement = "Whether the Gaussian approximation was enough cannot be said"
        return f"{about_draws} {judgement}; furthest off was {numbers}."
    failing = int((~table["enough"]).sum())
    if not float(table["mcse"].max()) * QUANTILE_ERROR < ENOUGH["tail"] / 2.0:
        judgement = "Too few effective draws to judge the Gaussian approximation"
    elif failing == 0:
        judgement = "The Gaussian approximation was enough for every coefficient"
    else:
        judgement = f"The Gaussian approximation was not enough for {failing} of {len(table)} coefficients"
    return f"{judgement}; furthest off was {numbers}. {about_draws}"


def _moments(draws: NDArray[np.float64]) -> tuple[float, ...]:
    """Return mean, standard deviation, Monte Carlo error and the ends of the 95 % interval of a coefficient."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return draws.mean(), draws.std(ddof=1), mean_error(draws), *np.quantile(draws, TAILS)
