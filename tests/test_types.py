"""Types are as annotated: a check that takes as long as many tests, and runs beside them."""

import subprocess
import sys
from pathlib import Path


def test_mypy_finds_nothing():
    command = [sys.executable, "-m", "mypy"]
    found = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
