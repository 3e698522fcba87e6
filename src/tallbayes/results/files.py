"""Results in files: netCDF, or Zarr. Nothing is ever half-written, and nothing is overwritten unasked."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallbayes.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    from xarray import DataTree

ZARR = ".zarr"


def save(tree: "DataTree", path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a result to a file: draws, statistics, Gaussian approximation, plan, and what predictions need.

    The file is made under another name beside its place and then renamed: a run that is interrupted leaves an older
    file as it was.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    path : str or path
        Where to. A name that ends in ``.zarr`` gives a Zarr store, any other a netCDF file.
    overwrite : bool
        Whether a file that is there may be replaced.

    Returns
    -------
    pathlib.Path
        The path.
    """
    if not hasattr(tree, "to_netcdf"):
        raise InputError(f"save: a {type(tree).__name__} was given; expected a result of tb.sample.")
    target = Path(path)
    if target.exists() and not overwrite:
        raise InputError(f"save: {target} is there already. Give another name, or overwrite=True to replace it.")
    if not target.parent.is_dir():
        raise InputError(f"save: there is no directory {target.parent}. Make it first.")
    try:
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InputError(
            f"save: nothing can be written to {target.parent.resolve()} ({error.strerror}). Choose another directory."
        ) from None
    try:
        written = room / target.name
        if target.suffix == ZARR:
            _need_zarr("save")
            tree.to_zarr(written, consolidated=False, zarr_format=2)  # version 3 has no text yet
        else:
            tree.to_netcdf(written, engine="h5netcdf")
        if target.is_dir():  # a directory is not replaced by renaming: move it away first
            os.replace(target, room / "before")
        os.replace(written, target)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return target


def load(path: str | os.PathLike[str]) -> "DataTree":
    """Read a result that `save` wrote into memory.

    Parameters
    ----------
    path : str or path
        A netCDF file, or a Zarr store.

    Returns
    -------
    xarray.DataTree
        The result: it can be summarised, and predicts new data.
    """
    import xarray as xr

    source = Path(path)
    if not source.exists():
        raise InputError(f"load: there is no file {source}.")
    if source.suffix == ZARR:
        _need_zarr("load")
    engine = "zarr" if source.suffix == ZARR else "h5netcdf"
    options: Any = {"consolidated": False} if engine == "zarr" else {}
    try:
        with xr.open_datatree(source, engine=engine, **options) as opened:
            return opened.load()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"load: {source} cannot be read as a {engine} file ({error}). Give one that tb.save wrote."
        ) from None


def _need_zarr(owner: str) -> None:
    try:
        import zarr  # noqa: F401
    except ImportError:
        raise MissingPackageError(
            f"{owner}: a name that ends in .zarr needs the package zarr: pip install zarr. Other names give netCDF, "
            "which needs nothing more."
        ) from None
