"""Results for ArviZ: before 1.0 it has a class of its own, and its `loo` wants the log-likelihood of every row."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.errors import MissingPackageError
from tallbayes.predictions.asked import some_draws
from tallbayes.predictions.blocks import checked_count
from tallbayes.predictions.density import Likelihood, densities
from tallbayes.predictions.predict import MOST_NUMBERS

if TYPE_CHECKING:
    from xarray import DataTree


def to_arviz(tree: "DataTree", model: Any = None) -> Any:
    """Return a result as the installed ArviZ takes it.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model: adds the log-likelihood of every row at every draw, which ArviZ's ``loo`` needs. That is an array of
        draws x rows; for many rows use `tallbayes.loo`, which needs none.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        The tree for ArviZ 1.0 and later; an InferenceData for older versions.
    """
    try:
        import arviz
    except ImportError:
        raise MissingPackageError("to_arviz: ArviZ is not installed: pip install arviz.") from None
    whole = tree if model is None else with_log_likelihood(tree, model)
    if int(str(arviz.__version__).split(".", maxsplit=1)[0]) >= 1:
        return whole
    groups = {name: node.to_dataset(inherit=True) for name, node in whole.children.items()}
    return arviz.InferenceData(**groups, attrs=dict(tree.attrs), warn_on_custom_groups=False)


def with_log_likelihood(tree: "DataTree", model: Any) -> "DataTree":
    """Return a result with a group ``log_likelihood``: (chain, draw, row).

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model
        The model.

    Returns
    -------
    xarray.DataTree
        A copy; draws are not copied.
    """
    import xarray as xr

    source = model.rows_of()
    draws = some_draws(
        "to_arviz", tree, model, int(tree["posterior"].sizes["chain"] * tree["posterior"].sizes["draw"])
    )
    chains, length, d = draws.shape
    checked_count("to_arviz", chains * length * source.n, MOST_NUMBERS)
    likelihood = Likelihood(model.family, model.rows, model.predictors)
    _, found = source.reduce(densities, likelihood, draws.reshape(-1, d), np.arange(source.n))
    values = found.whole.T.reshape(chains, length, source.n)
    whole: DataTree = tree.copy()
    whole["log_likelihood"] = xr.DataTree(xr.Dataset({"y": (("chain", "draw", "row"), values)}))
    return whole
