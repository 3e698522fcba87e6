"""Names of a package that load when they are first used, so that a program loads what it needs and nothing else."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tallbayes.garbage import collection_paused


def on_demand(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` (PEP 562).

    Parameters
    ----------
    package : str
        The package, ``__name__``.
    homes : mapping
        Names, with the module below the package that defines each; an empty one for a name that is a module itself.

    Returns
    -------
    tuple
        The two functions.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with collection_paused():
            home = import_module(f"{package}.{homes[name] or name}")
        found = getattr(home, name) if homes[name] else home
        setattr(sys.modules[package], name, found)  # the next time it is simply there
        return found

    def names() -> list[str]:
        return sorted({*homes, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return load, names
