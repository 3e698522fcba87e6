"""The result of a run as an xarray.DataTree in ArviZ's schema."""

import json
import math
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.garbage import collection_paused
from tallbayes.plan.choose import Chosen
from tallbayes.results.dispersion import dispersion
from tallbayes.results.draws import variable
from tallbayes.results.stays import longest_stays
from tallbayes.results.tail_visits import tail_visits
from tallbayes.run.chain import Chain, Draw

if TYPE_CHECKING:
    from xarray import Dataset, DataTree


def build_tree(chosen: Chosen, runs: list[Chain], draws: Draw, attributes: dict[str, Any]) -> "DataTree":
    """Return draws, statistics and attributes of all chains, cut to the length that every chain reached.

    Parameters
    ----------
    chosen : Chosen
        The kernel that ran, and what was expected of it.
    runs : list of Chain
        The chains.
    draws : Draw
        What they drew; it is not copied.
    attributes : dict
        Further attributes of the root.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior``, ``sample_stats``, and ``laplace``: the mode, and the covariance of the Gaussian
        approximation there, for comparison.
    """
    with collection_paused():
        import pandas as pd
        import xarray as xr

    prepared, expected = chosen.prepared, chosen.per_draw
    model = prepared.model
    kept = min(run.kept for run in runs)
    # Numbers of draws take no memory as a range; as an array as much as a column of the draws.
    coordinates: dict[str, Any] = {"chain": np.arange(len(runs)), "draw": pd.RangeIndex(kept)}
    names = np.array(model.names)
    labels = {o.dimension: np.array(o.labels) for o in model.outputs if o.labels is not None}
    recorded = {name: getattr(draws, name)[:, :kept] for name in ("accepted", "rows_touched", "full_pass")}
    posterior = _dataset(
        {output.name: variable(output, draws.beta[:, :kept]) for output in model.outputs}, coordinates | labels
    )
    statistics = _dataset({name: (("chain", "draw"), values) for name, values in recorded.items()}, coordinates)
    laplace = _dataset(
        {
            # One more Newton step, which costs no pass: the centre may be a little off the mode.
            "mode": (("coefficient",), prepared.metric.newton_point),
            "covariance": (("coefficient", "other"), prepared.metric.covariance),
        },
        {"coefficient": names, "other": names},
    )
    plan = {
        **prepared.plan,
        "steps_per_draw": chosen.steps,
        "predicted_acceptance": expected.acceptance,
        "predicted_rows_per_draw": expected.rows_per_draw,
        "predicted_full_passes_per_million": expected.full_per_million,
        "acceptance": float(np.mean(recorded["accepted"])),
        "rows_per_draw": float(np.mean(recorded["rows_touched"])),
        "full_passes_per_million": 1e6 * float(np.mean(recorded["full_pass"])),
    }
    about = {
        **attributes,
        "tails": json.dumps(tail_visits(prepared, draws.beta[:, :kept])),
        "bound_violations": int(sum(run.driver.violations for run in runs)),
        "longest_stay": json.dumps(longest_stays(draws.accepted[:, :kept]).steps.tolist()),  # of each chain
        "warmup": runs[0].warmup,
        "rows": model.rows_given,
        "family": repr(model.family),
        "ratio": model.ratio,
        "prior": repr(model.prior),
        "coefficient_priors": model.coefficient_priors.describe(model.names, most=len(model.names)),
        "parameters": json.dumps([output._asdict() for output in model.outputs]),
        "plan": json.dumps({key: _plain(value) for key, value in plan.items()}),
        "versions": json.dumps(_versions()),
    }
    if (found := dispersion(model, draws.beta[:, :kept])) is not None:
        about["dispersion"] = json.dumps(found._asdict())
    if hasattr(model, "to_json"):  # what predictions of new data need, after the result was saved and loaded
        about["model"] = model.to_json()
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs=about),
            "/posterior": posterior,
            "/sample_stats": statistics,
            "/laplace": laplace,
        }
    )


def _dataset(variables: dict[str, tuple[tuple[str, ...], NDArray[Any]]], coordinates: dict[str, Any]) -> "Dataset":
    """Return a data set of NumPy arrays, as `xarray.Dataset` makes it; a coordinate may be an index of pandas.

    From bare arrays xarray would first find out whether they are Dask's, and import dask for it wherever that is
    installed: half a second.
    """
    import pandas as pd
    import xarray as xr
    from xarray.core.indexing import PandasIndexingAdapter

    indexes = {
        name: xr.IndexVariable(name, PandasIndexingAdapter(pd.Index(at), dtype=at.dtype), fastpath=True)
        for name, at in coordinates.items()
    }
    return xr.Dataset({name: xr.Variable(*given, fastpath=True) for name, given in variables.items()}, indexes)


def _plain(value: Any) -> Any:
    """Return a value that JSON knows: infinity becomes the string "inf"."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("tallbayes", "numpy", "numba", "xarray"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
