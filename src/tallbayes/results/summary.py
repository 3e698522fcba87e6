"""A table of the posterior: moments, quantiles, and how far to trust them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tallbayes.errors import InputError
from tallbayes.results.diagnostics import judged
from tallbayes.results.mixing import TAILS
from tallbayes.results.variables import shown_draws

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree


def summary(tree: "DataTree", probs: Sequence[float] = (0.05, 0.5, 0.95)) -> "pd.DataFrame":
    """Summarise each coefficient.

    Effective sample sizes, R-hat and Monte Carlo standard errors are arviz-stats'. The last column says whether the
    draws of a coefficient can be trusted, and if not, why; ``attrs["trust"]`` of the table says it in sentences.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`, or any tree with ``posterior["beta"]``.
    probs : sequence of float
        Quantiles to show.

    Returns
    -------
    pandas.DataFrame
        One row for each coefficient.
    """
    import arviz_stats  # noqa: F401  registers the .azstats accessor
    import pandas as pd
    import xarray as xr

    if any(not 0.0 < p < 1.0 for p in probs):
        raise InputError(f"summary: probs={tuple(probs)!r} must lie strictly between 0 and 1.")
    try:
        names, draws = shown_draws(tree)
    except (KeyError, IndexError, TypeError):
        raise InputError("summary: the tree has no posterior['beta']; give a result of tb.sample.") from None
    over = ["chain", "draw"]
    beta = xr.DataArray(draws, dims=(*over, "coefficient"))
    columns = {"mean": beta.mean(over), "sd": beta.std(over, ddof=1)}
    for p in probs:
        columns[f"{100 * p:g}%"] = beta.quantile(p, over)
    columns["mcse_mean"] = beta.azstats.mcse(method="mean")
    columns["ess_bulk"] = beta.azstats.ess(method="bulk")
    columns["ess_tail"] = beta.azstats.ess(method="tail", prob=TAILS)
    columns["r_hat"] = beta.azstats.rhat()
    table = pd.DataFrame({title: values.values for title, values in columns.items()}, index=names)
    table.attrs["trust"], table["trust"] = judged(tree)
    return table
