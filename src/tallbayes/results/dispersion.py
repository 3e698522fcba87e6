"""Do counts vary more than the family allows? Pearson's statistic of some rows at the posterior mean."""

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import counted
from tallbayes.families import Poisson
from tallbayes.models.subsamples import START_ROWS
from tallbayes.sources.arrays import ArraySource

if TYPE_CHECKING:
    from xarray import DataTree

TOO_MUCH, SURE = 1.2, 4.0
"""What is told: a variance at least so many times the mean (intervals a tenth too narrow), and so many standard errors
above what a Poisson gives by chance."""


class Dispersion(NamedTuple):
    """How much responses vary."""

    factor: float
    """Mean of (y - mu)^2 / mu: 1 of a Poisson."""
    error: float
    """Its standard error if responses are Poisson."""
    rows: int
    """Rows that were used, those of weight w as w rows."""


def dispersion(model: Any, draws: NDArray[np.float64]) -> Dispersion | None:
    """Return how much counts vary beside what a Poisson allows.

    Takes no pass: rows are those in memory, up to 20,000 of them, or the subsample that the first pass gathered.

    Parameters
    ----------
    model : Model
        The model.
    draws : array
        Chains x draws x parameters.

    Returns
    -------
    Dispersion or None
        None of other families, and where there are hardly more rows than parameters.
    """
    family, source = model.family, model.source
    if not isinstance(family, Poisson) or draws.size == 0:
        return None
    if isinstance(source, ArraySource):
        rows = source if source.n <= START_ROWS else source.subsample(START_ROWS)
    elif source.kept_samples:
        rows = source.kept_samples[max(source.kept_samples)]
    else:
        return None
    block = rows.whole.converted()
    expected = family.expected(model.predictors.at_many(block, draws.mean(axis=(0, 1))[None]))[0]
    expected = np.clip(expected, 1e-300, 1e300)
    y, weight = block.responses[:, 0], np.broadcast_to(block.weight, block.count)
    # The weight of a rate is its exposure; of a count, how many rows stand here.
    copies = (weight > 0.0).astype(np.float64) if family.rates else weight
    mean = weight * expected if family.rates else expected
    total, free = float(copies.sum()), 1.0 - model.d / (float(copies.sum()) * source.n / rows.n)
    if total == 0.0 or free <= 0.5:
        return None
    factor = float(np.sum(weight * (y - expected) ** 2 / expected)) / (total * free)
    # Of all rows a weight counts copies, which chance made alike. A row that was sampled brought its copies along.
    shares = copies if rows.n == source.n else copies**2
    error = math.sqrt(float(np.sum(shares * (2.0 + 1.0 / np.maximum(mean, 1e-300))))) / total
    return Dispersion(factor, error, round(total)) if math.isfinite(factor) and math.isfinite(error) else None


def overdispersion(tree: "DataTree") -> str:
    """Say so if counts vary more than a Poisson allows.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.

    Returns
    -------
    str
        A sentence or two with a blank in front; nothing if there is nothing to say.
    """
    text = getattr(tree, "attrs", {}).get("dispersion")
    if text is None:
        return ""
    found = Dispersion(**json.loads(text))
    if found.factor < max(TOO_MUCH, 1.0 + SURE * found.error):
        return ""
    return (
        f" But the responses vary {found.factor:.3g} times as much as a Poisson allows (Pearson's statistic of "
        f"{counted(found.rows, 'row')} at the posterior mean), so intervals are about {math.sqrt(found.factor):.2g} "
        "times too narrow. Use tb.families.NegativeBinomial(), or add what explains the counts."
    )
