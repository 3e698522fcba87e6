"""Tails that chains should have visited: what a table says of a coordinate beside what the draws did."""

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels.base import Prepared
from tallbayes.results.draws import shown_names
from tallbayes.setup.tables import quantile

BEYOND = 0.025
"""Probability of each tail, by the table."""


def tail_visits(prepared: Prepared, beta: NDArray[np.float64]) -> dict[str, tuple[float, float]]:
    """Return for each coefficient with a table which share of the draws is in its lower and in its upper tail.

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
        # A positive entry of L: the coordinate rises with its coefficient.
        name = names[int(metric.order[axis])]
        found[name] = float(np.mean(z < ends[0])), float(np.mean(z > ends[1]))
    return found
