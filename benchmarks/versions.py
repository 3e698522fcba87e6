"""Two versions of the package side by side: the commit before a change, and the working tree."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BEFORE = "83149dc"
"""The last commit before kernels and sources were taken apart."""


@contextmanager
def sources() -> Iterator[dict[str, str]]:
    """Yield the source directories of both versions; the older one is checked out for as long as it is needed."""
    with tempfile.TemporaryDirectory() as directory:
        checkout = Path(directory) / "before"
        _git("worktree", "add", "--detach", str(checkout), BEFORE)
        try:
            yield {"before": str(checkout / "src"), "now": str(ROOT / "src")}
        finally:
            _git("worktree", "remove", "--force", str(checkout))


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True)


def run(source: str, script: str, *arguments: str, **environment: str) -> Any:
    """Run a script with one version of the package, in a process of its own; return the JSON of its last line.

    Python keeps its bytecode there, as it does unless it is told not to.
    """
    paths = os.pathsep.join([source, str(Path(__file__).parent)])
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])
