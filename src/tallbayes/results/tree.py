"""The result of a run as an xarray.DataTree in ArviZ's schema."""

import json
import math
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.plan.choose import Chosen
from tallbayes.results.dispersion import dispersion
from tallbayes.results.draws import variable
from tallbayes.results.stays import longest_stays
from tallbayes.results.tail_visits import tail_visits
from tallbayes.run.chain import Chain, Draw

if TYPE_CHECKING:
    from xarray import DataTree


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
    import xarray as xr

    prepared, expected = chosen.prepared, chosen.rehearsal
    model = prepared.model
    kept = min(run.kept for run in runs)
    chain_draw = ("chain", "draw")
    coordinates = {"chain": np.arange(len(runs)), "draw": np.arange(kept)}
    names = np.array(model.names)
    posterior = xr.Dataset(
        {output.name: variable(output, draws.beta[:, :kept]) for output in model.outputs},
        coords={
            **coordinates,
            **{o.dimension: np.array(o.labels) for o in model.outputs if o.labels is not None},
        },
    )
    recorded = ("accepted", "rows_touched", "full_pass")
    statistics = xr.Dataset(
        {name: (chain_draw, getattr(draws, name)[:, :kept]) for name in recorded},
        coords=coordinates,
    )
    laplace = xr.Dataset(
        {
            # One more Newton step, which costs no pass: the centre may be a little off the mode.
            "mode": ("coefficient", prepared.metric.newton_point),
            "covariance": (("coefficient", "other"), prepared.metric.covariance),
        },
        coords={"coefficient": names, "other": names},
    )
    plan = {
        **prepared.plan,
        "predicted_acceptance": expected.acceptance,
        "predicted_rows_per_draw": expected.rows_per_draw,
        "predicted_full_passes_per_million": expected.full_per_million,
        "acceptance": float(statistics["accepted"].mean()),
        "rows_per_draw": float(statistics["rows_touched"].mean()),
        "full_passes_per_million": 1e6 * float(statistics["full_pass"].mean()),
    }
    about = {
        **attributes,
        "tails": json.dumps(tail_visits(prepared, draws.beta[:, :kept])),
        "bound_violations": int(sum(run.driver.violations for run in runs)),
        "longest_stay": json.dumps(longest_stays(draws.accepted[:, :kept]).steps.tolist()),  # of each chain
        "warmup": runs[0].warmup,
        "rows": model.n,
        "family": repr(model.family),
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
