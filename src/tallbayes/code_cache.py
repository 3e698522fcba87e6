"""Where compiled code is kept on disk, and who makes it on a machine where there is none.

Numba checks the content of the file that holds a cached function, but not of the functions it calls in other files:
editing a family would leave the old code inside a cached kernel. So the cache directory is named by a hash of all
source that compiled code is made of: every room of the package but those that only use it (`PLAIN_ROOMS`). Any edit
there gives a new, empty directory; a stale kernel cannot be found.
"""

import atexit
import hashlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

DAMAGED = (EOFError, pickle.PickleError, AttributeError, ImportError, ValueError, IndexError, KeyError, TypeError)
"""What reading half a file of the cache may raise."""
UNREADABLE = (OSError, *DAMAGED)

USUAL_SECONDS = 8
"""What compiling for a first call takes on an ordinary core (`benchmarks/cold_start.py`)."""


PLAIN_ROOMS = frozenset(
    {
        *("formulas", "plan", "results", "predictions", "plots", "reporting", "api", "estimators"),
        *("__init__", "warmup", "demo", "cli", "__main__"),
    }
)
"""Rooms without compiled code (`tests/test_layers.py` sees to it): an edit there keeps what was compiled."""


def source_hash() -> str:
    """Return a hash of every source file that compiled code may be made of: its names and its bytes."""
    package = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).with_suffix("").parts[0] in PLAIN_ROOMS:
            continue
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Return where compiled code of exactly this source is kept; nothing is created.

    Below ``TALLBAYES_CACHE_DIR``, or else the user's cache directory.
    """
    base = os.environ.get("TALLBAYES_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # no home directory: saving will fail, and be said
        home = Path(os.devnull)
    return home / "tallbayes" / source_hash()


@cache
def directory() -> Path:
    """Return where compiled code of this process is kept."""
    return cache_directory()


class _Announcements:
    """What a user is told of compilation: each line once in a process, on standard error."""

    def __init__(self) -> None:
        self.silent = False
        self._said: set[str] = set()

    def say(self, key: str, text: str) -> None:
        if self.silent or key in self._said or sys.stderr is None:
            return
        self._said.add(key)
        print(f"tallbayes: {text}", file=sys.stderr, flush=True)


announcements = _Announcements()


@contextmanager
def silence(silent: bool = True) -> Iterator[None]:
    """Keep compilation from being announced within a block."""
    before = announcements.silent
    announcements.silent = before or silent
    try:
        yield
    finally:
        announcements.silent = before


class SecondProcess:
    """Another Python that compiles what all chains share (`kernels/precompile.py`), into the same directory.

    It is started once, where nothing was compiled before and there is a core for it. Should it fail, or be slow to
    end, this process compiles for itself: nothing depends on it but time.
    """

    ITS_OWN = frozenset({"run_chunk", "_thin", "_none", "form_theta"})
    """What it compiles (`kernels/precompile.py`)."""
    ALONE = "TALLBAYES_COMPILE_ALONE"
    """An environment variable that keeps it from being started."""
    LONGEST_WAIT = 60.0

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._tried = False
        self._started = 0.0

    def start_if_new(self) -> None:
        """Start it, if this is the first compilation on a machine."""
        if self._tried:
            return
        self._tried = True
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if directory().exists() or cores < 2 or os.environ.get(self.ALONE) or not sys.executable:
            return
        job = f"from tallbayes.kernels.precompile import precompile; precompile({str(directory())!r})"
        script = f"import gc; gc.disable(); {job}"  # it does nothing else, and ends (`garbage.py`)
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        try:
            os.makedirs(directory(), exist_ok=True)  # where nothing can be kept, nothing can be shared
            self._process = subprocess.Popen(
                [sys.executable, "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, self.ALONE: "1", "PYTHONPATH": paths},
                start_new_session=True,  # Ctrl-C is for the caller
            )
        except OSError:
            return
        self._started = time.monotonic()
        atexit.register(self._process.terminate)
        # Or it would stay in the table of processes.
        threading.Thread(target=self._process.wait, daemon=True).start()

    def may_make(self, function: Any) -> bool:
        """Return whether it is at work and may still compile a function of a chain."""
        own = function.__module__.startswith("tallbayes.kernels.") and function.__name__ in self.ITS_OWN
        if self._process is None or not own:
            return False
        at_work = self._process.poll() is None and time.monotonic() - self._started < self.LONGEST_WAIT
        if not at_work:
            self._process = None
        return at_work


second = SecondProcess()


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """Finds a function's place in our directory, without creating it."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._path = directory() / self.get_suitable_cache_subpath(file)

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return ""  # the directory is named by the source

    @classmethod
    def from_function(cls, function: Any, file: str) -> "_Locator":
        return cls(function, file)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012


class CodeCache(caching.FunctionCache):
    """Numba's cache, which a full, read-only or damaged disk does not stop."""

    _impl_class = _Implementation

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return what was kept for a signature, which a second process may still be making; None if nothing was."""
        second.start_if_new()  # first: to look for something takes Numba half a second, once
        found = self._loaded(signature, context)
        if found is None:
            announcements.say("compiling", f"compiling, once on this machine (about {USUAL_SECONDS} s) ...")
            while found is None and second.may_make(self._py_func):
                time.sleep(0.05)
                found = self._loaded(signature, context)
        return found

    def _loaded(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except UNREADABLE:
            return None  # damaged, or not ours to read: compile again

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if the disk takes it.

        As a function from the disk is, it is told first where parts of it have what they print or raise.
        """
        code = data.library.codegen
        for environment in data._find_referenced_environments():
            if code._engine.get_global_value_address(environment.env_name):  # or it is not used
                code.set_env(environment.env_name, environment)
        try:
            os.makedirs(self.cache_path, exist_ok=True)
            try:
                super().save_overload(signature, data)
            except DAMAGED:  # the index, which is read before it is written: begin it anew
                self.flush()
                super().save_overload(signature, data)
        except OSError as error:
            announcements.say(
                "cache",
                f"compiled code cannot be kept in {directory()} ({error.strerror or error}), so every process "
                "compiles again. Set TALLBAYES_CACHE_DIR to a directory that can be written and has some space left.",
            )
