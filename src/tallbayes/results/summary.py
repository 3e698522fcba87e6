"""A table of the posterior: moments, quantiles, and how far to trust them."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_number
from tallbayes.errors import InputError
from tallbayes.results.diagnostics import judged
from tallbayes.results.draws import named_draws
from tallbayes.results.mixing import for_each, mean_error, mixing_of

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

AS_IT_IS = "as it is"
"""How a parameter is shown that is not exponentiated."""
FEW = 6
"""Parameters that are named in the sentence about them."""
RANKED = 1_000_000
"""Draws of a parameter that are ranked for effective draws and R-hat: of more, every so many."""


def summary(
    tree: "DataTree",
    probs: Sequence[float] = (0.05, 0.5, 0.95),
    *,
    exponentiate: bool = False,
) -> "pd.DataFrame":
    """Summarise each parameter.

    Effective sample sizes, R-hat and Monte Carlo standard errors are arviz-stats'; with more than a million draws,
    effective draws and R-hat are those of every second, third, ... draw, so that true effective sample sizes are at
    least those shown. The last column says whether the draws of a parameter can be trusted, and if not, why; printed,
    the table is followed by sentences that say so, which are also its ``attrs["trust"]``.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`, or any tree with ``posterior["beta"]``.
    probs : sequence of float
        Quantiles to show.
    exponentiate : bool
        Whether to show exp(coefficient): odds ratios of a logistic regression, rate ratios of one with a log link,
        hazard ratios with cloglog. Coefficients of a log scale, and of the log odds of zeros, become ratios too; cut
        points and scales stay as they are. A column ``shown`` and ``attrs["exponentiated"]`` say which rows are ratios.
        Refused where none is: with an identity or probit link.

    Returns
    -------
    pandas.DataFrame
        One row for each parameter.
    """
    from tallbayes.results.frame import SummaryFrame

    probs = checked_probs("summary", probs)
    names, draws = named_draws(tree, "summary")
    ratios = _ratios(tree, names) if exponentiate else [""] * len(names)

    def of_one(j: int) -> list[float]:
        values = np.ascontiguousarray(draws[:, :, j])
        if ratios[j]:
            with np.errstate(over="ignore"):
                values = np.exp(values)
        return _moments(values, probs)

    titles = ["mean", "sd", *(title(p) for p in probs), "mcse_mean"]
    moments = np.array(for_each(of_one, len(names), draws.size)).reshape(len(names), len(titles))
    mixing = mixing_of(draws, most=RANKED * len(names))
    table = SummaryFrame(dict(zip(titles, moments.T, strict=True)), index=names)
    table["ess_bulk"], table["ess_tail"], table["r_hat"] = mixing.ess_bulk, mixing.ess_tail, mixing.r_hat
    if exponentiate:
        table["shown"] = [ratio or AS_IT_IS for ratio in ratios]
        table.attrs["exponentiated"] = _exponentiated(names, ratios)
    table.attrs["trust"], table["trust"] = judged(tree)
    return table


def _ratios(tree: "DataTree", names: Sequence[str]) -> list[str]:
    """Return for each parameter what its exponential is called, empty if that has no meaning; raise if none has."""
    of_coefficients = str(tree.attrs.get("ratio", "exp(coefficient)"))
    count = tree["posterior"]["beta"].sizes["coefficient"]
    known = {"scale_beta": "ratio of scales", "zero_logit_beta": "odds ratio of zeros"}
    found = [of_coefficients] * count + [known.get(name.partition("[")[0], "") for name in names[count:]]
    if not any(found):
        raise InputError(
            f"summary: exponentiate=True was given with {tree.attrs.get('family', 'this model')}, whose coefficients "
            "are no logarithms of ratios: with an identity link they are differences of the response, with probit "
            "differences of a normal quantile. Leave exponentiate out; tb.comparisons gives effects in the response's "
            "units."
        )
    return found


def _exponentiated(names: Sequence[str], ratios: Sequence[str]) -> str:
    """Return in words which parameters are exponentiated."""
    if all(ratios) and len(set(ratios)) == 1:
        return f"All rows are exponentiated: {ratios[0]}."
    parts = []
    for ratio in dict.fromkeys(ratios):
        which = [name for name, own in zip(names, ratios, strict=True) if own == ratio]
        few = f"{', '.join(which[:FEW])}{f' and {len(which) - FEW} more' if len(which) > FEW else ''}"
        parts.append(f"exponentiated ({ratio}): {few}" if ratio else f"not exponentiated: {few}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def checked_probs(owner: str, probs: Sequence[float]) -> tuple[float, ...]:
    """Return the probabilities of quantiles, or raise if one is not between 0 and 1.

    Parameters
    ----------
    owner : str
        What an error message begins with.
    probs : sequence of float
        The probabilities.

    Returns
    -------
    tuple of float
        The same.
    """
    given = tuple(probs) if isinstance(probs, Sequence | np.ndarray) and not isinstance(probs, str) else (probs,)
    if not all(is_number(p) and 0.0 < p < 1.0 for p in given):
        raise InputError(f"{owner}: probs={probs!r} must lie strictly between 0 and 1, as numbers.")
    if len(set(map(title, given))) < len(given):
        raise InputError(f"{owner}: probs={probs!r} has a probability twice.")
    return tuple(float(p) for p in given)


def title(p: float) -> str:
    """Return what the column of a quantile is called: "2.5%"."""
    return f"{100 * p:g}%"


def _moments(values: NDArray[np.float64], probs: tuple[float, ...]) -> list[float]:
    """Return mean, standard deviation, quantiles and the Monte Carlo error of the mean."""
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # one draw has no standard deviation: NaN says so
        return [values.mean(), values.std(ddof=1), *np.quantile(values, probs), mean_error(values)]
