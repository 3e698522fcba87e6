"""Pictures of results; matplotlib, the extra ``[plot]``, loads when one is asked for.

Every function returns a ``matplotlib.figure.Figure``: a notebook shows it, ``savefig`` writes it to a file.
"""

from tallbayes.plots.posterior import plot_densities, plot_forest, plot_rank, plot_trace
from tallbayes.plots.predicted import plot_ppc, plot_predictions

__all__ = ["plot_densities", "plot_forest", "plot_ppc", "plot_predictions", "plot_rank", "plot_trace"]
