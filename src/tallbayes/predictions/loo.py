"""How well rows are predicted by the others: leave-one-out cross-validation of many rows, from a sample of them."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_count
from tallbayes.errors import InputError
from tallbayes.predictions.asked import some_draws
from tallbayes.predictions.density import Likelihood, densities
from tallbayes.results.mixing import mixing_of
from tallbayes.sources.base import Block

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

Array = NDArray[np.float64]

OBSERVATIONS = 1000
"""Rows that are evaluated in full."""
CHECKSUM = "responses_checksum"
"""What `loo` adds to its result, so that `compare` can tell whether models are of the same responses."""


def loo(tree: "DataTree", model: Any, *, observations: int = OBSERVATIONS, draws: int = 4000, seed: int = 0) -> Any:
    """Estimate how well the model predicts rows that it has not seen: PSIS-LOO from a sample of the rows.

    A pass evaluates all rows at the posterior mean; Pareto-smoothed importance sampling is done for a random sample of
    them, and corrects that sum (the difference estimator of Magnusson et al., 2019, arviz-stats' ``loo_subsample``). No
    array of draws x rows is made.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model
        The model it was drawn from, with its data.
    observations : int
        Rows of the sample; all of them if there are no more.
    draws : int
        How many draws to use at most, spread evenly over all.
    seed : int
        Seed of the sample; models that are compared need the same.

    Returns
    -------
    arviz_stats.ELPDData
        ``elpd``, its standard error ``se``, the share of that which is due to sampling rows (``subsampling_se``),
        and the Pareto k of the sample; print it. `compare` takes several.
    """
    import xarray as xr
    from arviz_stats import loo_subsample

    if not hasattr(model, "rows_of") or not hasattr(model, "rows"):
        raise InputError(
            f"loo: model is a {type(model).__name__}; expected the regression that the result was drawn from, with its "
            "data."
        )
    for name, value, least in (("observations", observations, 2), ("seed", seed, 0)):
        if not is_count(value, least):
            raise InputError(f"loo: {name}={value!r} must be a whole number, {least} or more.")
    source = model.rows_of()
    chosen = _sampled(source.n, observations, seed)
    thetas = some_draws("loo", tree, model, draws)
    chains, length, d = thetas.shape
    likelihood = Likelihood(model.family, model.rows, model.predictors)
    flat = np.ascontiguousarray(thetas.reshape(-1, d))
    (of_all, of_some), responses = source.reduce(_densities_and_checksum, likelihood, flat, chosen)
    approximate, found = of_all.whole, of_some.whole
    needed = xr.DataTree.from_dict(
        {
            "/posterior": xr.Dataset({"beta": (("chain", "draw", "coefficient"), thetas)}),
            "/log_likelihood": xr.Dataset({"y": _only(chosen, found, source.n, chains, length)}),
            "/observed_data": xr.Dataset({"y": ("row", np.zeros(source.n))}),
        }
    )
    efficiency = float(np.clip(np.mean(mixing_of(thetas).ess_bulk) / (chains * length), 1e-3, 1.0))
    made = loo_subsample(
        needed,
        chosen,
        pointwise=True,
        var_name="y",
        reff=1.0 if np.isnan(efficiency) else efficiency,
        method="plpd",
        log_lik_fn=lambda observed, data: xr.DataArray(approximate, dims="row", coords=observed.coords),
    )
    setattr(made, CHECKSUM, f"{int(responses[0]):016x}")
    return made


def _densities_and_checksum(block: Block, likelihood: Likelihood, thetas: Array, chosen: NDArray[np.int64]) -> Any:
    """Return what `densities` does, and a checksum of responses and weights that is the same for any blocks."""
    return densities(block, likelihood, thetas, chosen), checksum_of_responses(block)


def checksum_of_responses(block: Block) -> NDArray[np.uint64]:
    """Return one number for the responses and weights of a block in their places; those of blocks are added up."""
    total = _mixed(np.arange(block.first, block.first + block.count).astype(np.uint64))
    for part in (block.responses[:, 0], np.broadcast_to(block.weight, block.count)):
        numbers = np.ascontiguousarray(part + 0.0, dtype=np.float64)  # -0.0 and 0.0 are one value
        total = _mixed(total ^ numbers.view(np.uint64))
    return np.array([total.sum(dtype=np.uint64)])


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers whose bits all depend on all bits of those given (splitmix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def compare(models: Mapping[str, Any], *, method: str = "stacking") -> "pd.DataFrame":
    """Compare models of the same rows by how well they predict rows they have not seen.

    Models of other responses (another column, its logarithm, other rows or another order of them) are refused: what is
    expected of the log density of one says nothing about that of the other.

    Parameters
    ----------
    models : mapping
        What `loo` returned, by name; with the same observations and seed.
    method : str
        How weights are found: "stacking", "BB-pseudo-BMA" or "pseudo-BMA", as in arviz-stats.

    Returns
    -------
    pandas.DataFrame
        The best model first: ``elpd``, the difference from the best (``elpd_diff``) and its standard error (``dse``).
    """
    import arviz_stats

    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError(
            "compare: expected a dictionary of two models or more: {'a': tb.loo(...), 'b': tb.loo(...)}."
        )
    counts = {name: getattr(found, "n_data_points", None) for name, found in models.items()}
    if None in counts.values():
        name = next(name for name, count in counts.items() if count is None)
        raise InputError(f"compare: {name!r} is a {type(models[name]).__name__}; expected what tb.loo returned.")
    if len(set(counts.values())) > 1:
        raise InputError(
            f"compare: models have different numbers of rows, {counts}; they must be of the same data."
        )
    checksums = {name: getattr(found, CHECKSUM) for name, found in models.items() if hasattr(found, CHECKSUM)}
    first = next(iter(checksums), "")
    others = [name for name, checksum in checksums.items() if checksum != checksums[first]]
    if others:
        raise InputError(
            f"compare: the responses of {', '.join(map(repr, others))} differ from those of {first!r}; expected models "
            "of one response, such as y and not log(y), of the same rows in the same order. Fit them to the same data."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pandas, for what arviz-stats calls
        return arviz_stats.compare(dict(models), method=method)


def _sampled(n: int, size: int, seed: int) -> NDArray[np.int64]:
    """Return a simple random sample of row numbers, in order."""
    if size >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size, replace=False))


def _only(chosen: NDArray[np.int64], found: NDArray[np.float64], n: int, chains: int, length: int) -> Any:
    """Return a lazy variable of all rows that knows the log-likelihoods of a sample: the others are never asked for."""
    import xarray as xr
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class OnlySampled(BackendArray):
        """Log-likelihoods, chains x draws x rows, of which some are known."""

        def __init__(self) -> None:
            self.shape, self.dtype = (chains, length, n), np.dtype(np.float64)

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._get)

        def _get(self, key: tuple[Any, ...]) -> NDArray[np.float64]:
            rows = np.arange(n)[key[2]]
            values = found[np.searchsorted(chosen, rows)].T.reshape(chains, length, *np.shape(rows))
            return np.asarray(values[:, key[1]][key[0]])

    return xr.Variable(("chain", "draw", "row"), indexing.LazilyIndexedArray(OnlySampled()))
