"""Two versions of the package side by side: the commit before a change, and the working tree."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
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


def _command(script: str, source: str, arguments: tuple[str, ...], environment: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of `subprocess` for a script with one version of the package.

    Python keeps its bytecode there, as it does unless it is told not to.
    """
    paths = os.pathsep.join([source, str(Path(__file__).parent)])
    return {
        "args": [sys.executable, "-W", "ignore", "-c", script, *arguments],
        "env": {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "", **environment},
        "text": True,
    }


def run(source: str, script: str, *arguments: str, **environment: str) -> Any:
    """Run a script with one version of the package, in a process of its own; return the JSON of its last line."""
    result = subprocess.run(**_command(script, source, arguments, environment), capture_output=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


TURNS = """
import json, sys
for line in sys.stdin:
    print(json.dumps(once(int(line))), flush=True)
"""


def in_turn(versions: dict[str, str], script: str, *arguments: str, rounds: int) -> dict[str, list[Any]]:
    """Return what each version's `once(seed)` gave, round by round.

    Both versions wait in processes of their own and run one after the other, so that a machine whose speed wanders
    treats the two runs of a round alike. The round with seed 0 compiles, and is left out.
    """
    waiting = {
        name: subprocess.Popen(
            **_command(script + TURNS, source, arguments, {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name, source in versions.items()
    }
    found: dict[str, list[Any]] = {name: [] for name in versions}
    try:
        for seed in range(rounds + 1):
            for name, process in waiting.items():
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{seed}\n")
                process.stdin.flush()
                found[name].append(json.loads(process.stdout.readline()))
    finally:
        for process in waiting.values():
            process.kill()
            process.wait()
    return {name: results[1:] for name, results in found.items()}


def median_ratio(now: list[float], before: list[float]) -> float:
    """Return the median over the rounds of now / before."""
    return median(new / old for new, old in zip(now, before, strict=True))
