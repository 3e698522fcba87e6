"""The one decorator through which tallbayes compiles, and where compiled code is kept.

Numba checks the date of the file that holds a cached function, but not of the functions it calls in other
files: editing a family would leave the old code inside a cached kernel. So the cache directory is named by
a hash of the package's whole source. Any edit gives a new, empty directory; a stale kernel cannot be found.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as numba_config

Function = TypeVar("Function", bound=Callable[..., Any])


def source_hash() -> str:
    """Return a hash of every source file of the package: its names and its bytes."""
    package = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Return where compiled kernels of exactly this source are kept.

    ``TALLBAYES_CACHE_DIR``, else the user's cache directory, else (where that cannot be written) the
    a new temporary directory, for this process alone.
    """
    base = os.environ.get("TALLBAYES_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    name = source_hash()
    try:
        path = (Path(base) if base else Path.home() / ".cache") / "tallbayes" / name
        path.mkdir(parents=True, exist_ok=True)
        if os.access(path, os.W_OK):
            return path
    except (OSError, RuntimeError):  # no home directory, or one that cannot be written
        pass
    # A new directory that only this user can write: compiled code from anybody else's must not be loaded.
    return Path(tempfile.mkdtemp(prefix="tallbayes-")) / name


_DIRECTORY = str(cache_directory())


def directory() -> str:
    """Return where compiled code of this process is kept."""
    return _DIRECTORY


def kernels_are_cached() -> bool:
    """Return whether a chain of this source has run on this machine, so that its kernel need not compile."""
    return any(Path(_DIRECTORY).glob("*/*.run_chunk-*.nbi"))


@contextmanager
def _package_cache() -> Iterator[None]:
    """Point Numba at our directory while one function is declared, and leave the user's setting alone."""
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = _DIRECTORY
    try:
        yield
    finally:
        numba_config.CACHE_DIR = before


def compiled(function: Function) -> Function:
    """Compile without the GIL and cache on disk; arithmetic is strict IEEE."""
    with _package_cache():
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


def compiled_sum(function: Function) -> Function:
    """Compile a sum, free to reorder additions and to fuse them with products, so that it uses SIMD well.

    That changes a sum by rounding only. It is used for the sketch, whose error bound holds for every order of
    additions, and for the cubic.
    """
    with _package_cache():
        return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})(
            function
        )
