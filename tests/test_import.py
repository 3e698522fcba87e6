"""Starting up: what `import tallbayes` loads, what a second process compiles, when compiled code is stale."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tallbayes
from tallbayes import compiled

PACKAGE = Path(tallbayes.__file__).parent
HEAVY = ["arviz_stats", "matplotlib", "pandas", "rich", "scipy.stats", "sklearn", "typer", "xarray"]


def run(script: str, **environment: str) -> str:
    """Run a script in a process of its own and return what it prints."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_import_loads_nothing_heavy():
    loaded = run("import sys, tallbayes; print(*sys.modules)").split()
    assert not set(HEAVY) & set(loaded)


SAMPLE_AND_COUNT = """
    import json
    import numpy as np
    import tallbayes as tb

    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 2))
    y = rng.random(300) < 0.5
    model = tb.Regression(X, y, tb.families.Bernoulli())
    tb.sample(model, draws=20, chains=1, seed=1, progress=False)

    import gc
    from numba.core.dispatcher import Dispatcher

    hits, misses = {}, {}
    for item in gc.get_objects():
        if isinstance(item, Dispatcher) and item.py_func.__module__.startswith("tallbayes"):
            name = f"{item.py_func.__module__}.{item.py_func.__name__}"
            hits[name] = sum(item.stats.cache_hits.values())
            misses[name] = sum(item.stats.cache_misses.values())
    print(json.dumps([hits, misses]))
"""


def test_second_process_compiles_nothing(tmp_path):
    _, first = json.loads(run(SAMPLE_AND_COUNT, TALLBAYES_CACHE_DIR=str(tmp_path)))
    hits, second = json.loads(run(SAMPLE_AND_COUNT, TALLBAYES_CACHE_DIR=str(tmp_path)))
    assert sum(first.values()) > 10
    assert sum(second.values()) == 0
    assert hits["tallbayes.kernels.thinning.run_chunk"] == 1


def test_cache_is_where_the_user_wants_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TALLBAYES_CACHE_DIR", str(tmp_path))
    assert compiled.cache_directory() == tmp_path / "tallbayes" / compiled.source_hash()
    monkeypatch.delenv("TALLBAYES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert compiled.cache_directory().parent == tmp_path / "xdg" / "tallbayes"


def test_cache_that_cannot_be_written(tmp_path, monkeypatch):
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setenv("TALLBAYES_CACHE_DIR", str(in_the_way))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    assert tmp_path / "temporary" in compiled.cache_directory().parents


def test_user_setting_of_numba_is_left_alone():
    script = "import tallbayes; from numba.core import config; print(config.CACHE_DIR)"
    assert run(script, NUMBA_CACHE_DIR="elsewhere") == "elsewhere\n"


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the package's source; `source_hash` is pointed at it."""
    copy = tmp_path / "tallbayes"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compiled, "__file__", str(copy / "compiled.py"))
    return copy


def test_hash_depends_on_content_only(copied):
    copied_hash = compiled.source_hash()
    for path in copied.rglob("*.py"):
        path.touch()
    assert compiled.source_hash() == copied_hash


def test_any_edit_changes_the_cache_directory(copied):
    """Numba alone would not notice an edit of a function that a cached kernel calls in another file."""
    sources = sorted(copied.rglob("*.py"))
    assert len(sources) > 30
    seen = {compiled.source_hash()}
    for path in sources:
        before = path.read_text()
        path.write_text(before + "\n# edited\n")
        seen.add(compiled.source_hash())
        path.write_text(before)
    (copied / "new.py").touch()
    seen.add(compiled.source_hash())
    (copied / "new.py").rename(copied / "renamed.py")
    seen.add(compiled.source_hash())
    assert len(seen) == len(sources) + 3


def test_edited_kernel_is_used_at_once(tmp_path):
    """The whole way: run, edit a function that kernels call in another file, run again with the same cache."""
    shutil.copytree(PACKAGE, tmp_path / "src" / "tallbayes", ignore=shutil.ignore_patterns("__pycache__"))
    script = """
        import numpy as np
        import tallbayes
        from tallbayes.families.bernoulli import Softplus
        from tallbayes.families.remainder import derivative

        assert "src" in tallbayes.__file__
        print(derivative(Softplus(), 0.0, 2, 0.0))
    """
    environment = {"TALLBAYES_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path / "src")}
    assert run(script, **environment) == "0.25\n"
    family = tmp_path / "src" / "tallbayes" / "families" / "bernoulli.py"
    edited = family.read_text().replace("g2 = upper * lower", "g2 = 3.0 * upper * lower")
    assert edited != family.read_text()
    family.write_text(edited)
    assert run(script, **environment) == "0.75\n"
