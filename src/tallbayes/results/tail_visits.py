"""Tails that chains should have visited: what a table says of a coordinate beside what the draws did.

A table is of the coordinate's density where all others are at the centre. Where those hardly matter for it, that is
its posterior; where they do, the bulk of the draws shows it, and the table says nothing of tails.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels.base import Prepared
from tallbayes.results.draws import shown_names
from tallbayes.setup.tables import quantile

BEYOND = 0.025
"""Probability of each tail, by the table."""
QUARTILES = 0.25, 0.5, 0.75


class Visits(NamedTuple):
    """What draws did of which a table is known."""

    lower: float
    """Share of the draws in the lower tail."""
    upper: float
    """Share of the draws in the upper tail."""
    apart: float
    """By how much the shares of the draws below the table's quartiles are off at most."""


def tail_visits(prepared: Prepared, beta: NDArray[np.float64]) -> dict[str, Visits]:
    """Return for each coefficient with a table which share of the draws is in its tails, and how its bulk agrees.

    Parameters
    ----------
    prepared : Prepared
        The kernel that ran.
    beta : ndarray
        Chains x draws x coefficients.

    Returns
    -------
    dict
        By name; the table has 0.025 beyond each end.
    """
    tables, metric = prepared.tables, prepared.metric
    if tables is None or beta.shape[1] == 0:
        return {}
    found, names = {}, shown_names(prepared.model.outputs)
    for t, axis in enumerate(tables.axes):
        z = (beta - metric.centre) @ metric.root[:, axis]
        ends = [quantile(tables, t, p) for p in (BEYOND, 1.0 - BEYOND)]
        apart = max(abs(float(np.mean(z < quantile(tables, t, p))) - p) for p in QUARTILES)
        # A positive entry of L: the coordinate rises with its coefficient.
        name = names[int(metric.order[axis])]
        found[name] = Visits(float(np.mean(z < ends[0])), float(np.mean(z > ends[1])), apart)
    return found
