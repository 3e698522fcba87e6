"""Starting up: what `import tallbayes` loads, where compiled code is kept, and when it is stale."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tallbayes
from tallbayes import code_cache

PACKAGE = Path(tallbayes.__file__).parent
HEAVY = [
    "arviz",
    "arviz_stats",
    "dask",
    "formulaic",
    "matplotlib",
    "pandas",
    "pyarrow",
    "rich",
    "scipy.stats",
    "sklearn",
    "sympy",
    "typer",
    "xarray",
]


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


def test_a_run_loads_no_more_than_it_needs():
    """xarray imports dask, wherever that is installed, unless it is told that arrays are NumPy's."""
    script = """
        import sys
        import numpy as np
        import tallbayes as tb

        X = np.column_stack([np.ones(500), np.linspace(-1, 1, 500)])
        tb.sample(tb.Regression(X, X[:, 1] > 0.1, tb.families.Bernoulli()), draws=50, progress=False)
        print(*sys.modules)
    """
    loaded = set(run(script).split())
    assert "xarray" in loaded
    heavy = {"dask.base", "scipy.linalg", "scipy.special"}
    assert not (heavy | {"tallbayes.formulas", "tallbayes.predictions", "tallbayes.families.ordinal"}) & loaded


def test_linear_algebra_in_compiled_code_of_others_is_as_it_was():
    """Numba's check that SciPy is there is put off, not away."""
    script = """
        import sys
        import tallbayes.compiled
        import numba
        import numpy as np

        before = "scipy.linalg" in sys.modules
        product = numba.njit(lambda a: np.dot(a, a))
        print(before, product(np.eye(2)).sum(), "scipy.linalg.cython_blas" in sys.modules)
        print(numba.njit(lambda a: np.cov(a))(np.array([[0.0, 1.0], [1.0, 3.0]])).sum())
    """
    assert run(script).split() == ["False", "2.0", "True", "4.5"]


def test_names_load_when_they_are_used():
    assert {*tallbayes.__all__, "plot_forest", "__version__"} <= set(dir(tallbayes))
    assert callable(tallbayes.report)
    with pytest.raises(AttributeError, match="module 'tallbayes' has no attribute 'sampel'"):
        _ = tallbayes.sampel


def test_cache_is_where_the_user_wants_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TALLBAYES_CACHE_DIR", str(tmp_path))
    assert code_cache.cache_directory() == tmp_path / "tallbayes" / code_cache.source_hash()
    monkeypatch.delenv("TALLBAYES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert code_cache.cache_directory().parent == tmp_path / "xdg" / "tallbayes"


def test_without_a_home_nothing_can_be_kept(monkeypatch):
    """The directory is then below a file, and saving says so (`test_cold_start.py`)."""

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TALLBAYES_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(code_cache.Path, "home", homeless)
    assert code_cache.cache_directory().is_relative_to(os.devnull)


def test_user_setting_of_numba_is_left_alone():
    script = "import tallbayes; from numba.core import config; print(config.CACHE_DIR)"
    assert run(script, NUMBA_CACHE_DIR="elsewhere") == "elsewhere\n"


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the package's source; `source_hash` is pointed at it."""
    copy = tmp_path / "tallbayes"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_cache, "__file__", str(copy / "code_cache.py"))
    return copy


def test_hash_depends_on_content_only(copied):
    copied_hash = code_cache.source_hash()
    for path in copied.rglob("*.py"):
        path.touch()
    assert code_cache.source_hash() == copied_hash


def room(path, package):
    return path.relative_to(package).with_suffix("").parts[0]


def test_an_edit_where_nothing_is_compiled_keeps_the_cache(copied):
    before = code_cache.source_hash()
    plain = [path for path in copied.rglob("*.py") if room(path, copied) in code_cache.PLAIN_ROOMS]
    assert len(plain) > 10
    for path in plain:
        path.write_text(path.read_text() + "\n# edited\n")
    assert code_cache.source_hash() == before


def test_any_edit_changes_the_cache_directory(copied):
    """Numba alone would not notice an edit of a function that a cached kernel calls in another file."""
    sources = [path for path in sorted(copied.rglob("*.py")) if room(path, copied) not in code_cache.PLAIN_ROOMS]
    assert len(sources) > 30
    seen = {code_cache.source_hash()}
    for path in sources:
        before = path.read_text()
        path.write_text(before + "\n# edited\n")
        seen.add(code_cache.source_hash())
        path.write_text(before)
    (copied / "new.py").touch()
    seen.add(code_cache.source_hash())
    (copied / "new.py").rename(copied / "renamed.py")
    seen.add(code_cache.source_hash())
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
