"""The result of a run as an xarray.DataTree in ArviZ's schema."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.kernels.base import Prepared
from tallbayes.models import Regression

if TYPE_CHECKING:
    from xarray import DataTree

    from tallbayes.run.chain import Chain


def build_tree(
    model: Regression, prepared: Prepared, runs: list["Chain"], attributes: dict[str, Any]
) -> "DataTree":
    """Return draws, statistics and attributes of all chains, cut to the length that every chain reached.

    Parameters
    ----------
    model : Regression
        The model.
    prepared : Prepared
        The kernel that ran.
    runs : list of Chain
        The chains.
    attributes : dict
        Further attributes of the root.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` and ``sample_stats``.
    """
    import xarray as xr

    kept = min(run.kept for run in runs)
    chain_draw = ("chain", "draw")
    coordinates = {"chain": np.arange(len(runs)), "draw": np.arange(kept)}
    posterior = xr.Dataset(
        {"beta": ((*chain_draw, "coefficient"), np.stack([run.beta[:kept] for run in runs]))},
        coords={**coordinates, "coefficient": np.array(model.names, dtype=object)},
    )
    names = ("accepted", "rows_touched", "full_pass")
    statistics = xr.Dataset(
        {name: (chain_draw, np.stack([getattr(run, name)[:kept] for run in runs])) for name in names},
        coords=coordinates,
    )
    about = {
        **attributes,
        "bound_violations": int(sum(run.state.violations for run in runs)),
        "warmup": runs[0].warmup,
        "rows": model.n,
        "family": repr(model.family),
        "prior": repr(model.prior),
        "plan": json.dumps(prepared.plan),
        "versions": json.dumps(_versions()),
    }
    groups = {"/": xr.Dataset(attrs=about), "/posterior": posterior, "/sample_stats": statistics}
    return xr.DataTree.from_dict(groups)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("tallbayes", "numpy", "numba", "xarray"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
