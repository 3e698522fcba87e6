"""Results in files: netCDF, or Zarr. Nothing is ever half-written, and nothing is overwritten unasked."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    from xarray import DataTree

NETCDF, ZARR = ".nc", ".zarr"
CHECKSUM = "checksum"
"""Attribute of a file: what all of its numbers and texts must give, so that a damaged file is noticed."""


def save(tree: "DataTree", path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a result to a file: draws, statistics, Gaussian approximation, plan, and what predictions need.

    The file is made under another name beside its place and then renamed: a run that is interrupted leaves an older
    file as it was.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    path : str or path
        Where to: a name that ends in ``.nc`` gives a netCDF file, one that ends in ``.zarr`` a Zarr store.
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
    refuse_ending("save", target)
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
        tree = tree.copy()  # of the tree, not of its numbers
        tree.attrs = {**tree.attrs, CHECKSUM: checksum(tree)}
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


def refuse_ending(owner: str, path: Path) -> None:
    """Raise unless a file's name says what is in it.

    Parameters
    ----------
    owner : str
        What an error message begins with.
    path : pathlib.Path
        The path.
    """
    if path.suffix not in {NETCDF, ZARR}:
        raise InputError(
            f"{owner}: {path.name!r} was given; expected a name that ends in .nc, for a netCDF file, or in .zarr, for "
            f"a Zarr store, e.g. {path.stem or 'run'}.nc."
        )


def checksum(tree: "DataTree") -> str:
    """Return a number that a tree's contents give: those of every variable, and attributes of text.

    Parameters
    ----------
    tree : xarray.DataTree
        A result.

    Returns
    -------
    str
        The number, in hexadecimal digits.
    """
    digest = hashlib.blake2b(digest_size=16)
    for node in sorted(tree.subtree, key=lambda node: str(node.path)):
        group, data = node.path, node.to_dataset(inherit=False)
        for name in sorted(map(str, data.variables)):
            values = np.asarray(data[name].values)
            digest.update(f"{group} {name} {values.shape}".encode())
            if values.dtype.kind in "biuf":
                digest.update(np.ascontiguousarray(values).view(np.uint8).data)
            else:  # text, which files keep in other types
                digest.update("\0".join(map(str, values.ravel())).encode())
        for name, value in sorted(data.attrs.items()):
            if isinstance(value, str) and name != CHECKSUM:
                digest.update(f"{group} {name} {value}".encode())
    return digest.hexdigest()


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
    elif source.is_dir():
        raise InputError(
            f"load: {source} is a directory; expected a file that tb.save wrote (.nc), or a Zarr store (.zarr)."
        )
    engine = "zarr" if source.suffix == ZARR else "h5netcdf"
    options: Any = {"consolidated": False} if engine == "zarr" else {}
    try:
        with xr.open_datatree(source, engine=engine, **options) as opened:
            tree = opened.load()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        what = "Zarr store" if engine == "zarr" else "netCDF file"
        raise InputError(
            f"load: {source} cannot be read: it is damaged, or no {what} ({reason}). Give one that tb.save wrote."
        ) from None
    kept = tree.attrs.pop(CHECKSUM, None)  # files of another origin have none
    if kept is not None and kept != checksum(tree):
        raise InputError(
            f"load: {source} is damaged: its contents are not what tb.save wrote. Take another copy, or draw again."
        )
    return tree


def _need_zarr(owner: str) -> None:
    try:
        import zarr  # noqa: F401
    except ImportError:
        raise MissingPackageError(
            f"{owner}: a name that ends in .zarr needs the package zarr: pip install zarr. One that ends in .nc gives "
            "netCDF, which needs nothing more."
        ) from None
