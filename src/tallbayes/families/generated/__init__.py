"""Modules that `tb.families.custom` has written, one for each formula: they live beside the cache of compiled code.

Where that cannot be written, a process has a directory of its own for them, until it ends.
"""

import atexit
import shutil
import tempfile
from pathlib import Path

from tallbayes.code_cache import directory

DIRECTORY = Path(directory()) / "formulas"
__path__.append(str(DIRECTORY))


def use_own_directory() -> None:
    """Write modules to a new directory from now on, which is removed when the process ends."""
    global DIRECTORY  # noqa: PLW0603
    DIRECTORY = Path(tempfile.mkdtemp(prefix="tallbayes-formulas-"))
    __path__.append(str(DIRECTORY))
    atexit.register(shutil.rmtree, DIRECTORY, ignore_errors=True)
