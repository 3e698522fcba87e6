"""Modules that `tb.families.custom` has written, one for each formula: they live in the cache of compiled code.

Numba's index of a compiled function names the types of all curves it was ever compiled for, so they must be
importable in every process that shares the cache, whether or not it uses them.
"""

from pathlib import Path

from tallbayes.compiled import directory

DIRECTORY = Path(directory()) / "formulas"
__path__.append(str(DIRECTORY))
