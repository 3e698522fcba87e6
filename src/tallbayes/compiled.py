"""How tallbayes compiles, and where compiled code is kept.

Three rules keep a newcomer's wait short. Compiled code is split where its parts vary: what depends on a family, and
what is seldom needed, is called by address (`ByAddress`), so that neither compiles the other again. Whatever was
compiled is kept on disk. And with an empty directory a second process compiles what all chains share, while this one
compiles what the model needs (`SecondProcess`): Numba itself uses one core.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching
from numba.core import config as numba_config
from numba.core.ccallback import CFunc
from numba.core.event import TimingListener, install_listener
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

Function = TypeVar("Function", bound=Callable[..., Any])

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


class Stopwatch:
    """Measures a block's time without what Numba's compiler took of it, or loading what it made before."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Known once the block has ended."""
        self._compiling = TimingListener()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure a block; several add up."""
        before = self._compiler_seconds
        started = time.perf_counter()
        with install_listener("numba:compiler_lock", self._compiling):
            yield
        self.seconds += max(time.perf_counter() - started - (self._compiler_seconds - before), 0.0)

    @property
    def _compiler_seconds(self) -> float:
        return float(self._compiling.duration) if self._compiling.done else 0.0


class SecondProcess:
    """Another Python that compiles what all chains share (`kernels/precompile.py`), into the same directory.

    It is started once, where nothing was compiled before and there is a core for it. Should it fail, or be slow to
    end, this process compiles for itself: nothing depends on it but time.
    """

    ITS_OWN = frozenset({"run_chunk", "_thin", "_none"})
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
        script = f"from tallbayes.kernels.precompile import precompile; precompile({str(directory())!r})"
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


class _Cache(caching.FunctionCache):
    """Numba's cache, which a full, read-only or damaged disk does not stop."""

    _impl_class = _Implementation

    def load_overload(self, signature: Any, context: Any) -> Any:
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
                "compiles again. Free some space, or set TALLBAYES_CACHE_DIR to a directory that can be written.",
            )


def _dispatcher(function: Function, **options: Any) -> Function:
    made = numba.njit(**{**USUAL, **options})(function)
    if made is not function:  # it is, if compilation is switched off
        made._cache = _Cache(function)
    return made


def compiled(function: Function) -> Function:
    """Compile without the GIL and keep on disk; arithmetic is strict IEEE."""
    return _dispatcher(function)


def compiled_borrowing(function: Function) -> Function:
    """Do the same with a function that makes no array, but only borrows those that it is given (`BORROWING`)."""
    return _dispatcher(function, **BORROWING)


def compiled_sum(function: Function) -> Function:
    """Compile a sum, free to reorder additions and to fuse them with products, so that it uses SIMD well.

    That changes a sum by rounding only. It is used for sums over rows and over coordinates, and for the cubic. It makes
    no array (`BORROWING`).
    """
    return _dispatcher(function, fastmath=REORDERED, **BORROWING)


class _Part(CPUDispatcher):
    """A part of compiled functions, without a way into it from Python.

    That way takes every array of every tuple out of Python's objects: often more code than the part itself. Called
    from Python after all, as tests do, the part is compiled once more, with it.
    """

    _for_python: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._for_python is None:
            self._for_python = numba.jit(**{**self.targetoptions, "no_cpython_wrapper": False})(self.py_func)
        return self._for_python(*arguments)


def _part(function: Function, options: dict[str, Any]) -> Function:
    if numba_config.DISABLE_JIT:
        return function
    made: Any = _Part(function, targetoptions={**options, "nopython": True, "no_cpython_wrapper": True})
    return made


def compiled_within(function: Function) -> Function:
    """Compile a part of compiled functions, which is not kept by itself, and makes no array (`BORROWING`).

    That saves time; and an index of what is kept names the types of arguments. That of a function of curves
    would name the curve of every formula that was ever used, and could be read only where all of their modules are.
    """
    return _part(function, {**USUAL, **BORROWING})


def compiled_within_with_arrays(function: Function) -> Function:
    """Compile such a part that makes arrays, or returns one."""
    return _part(function, USUAL)


def compiled_in_line(function: Function) -> Function:
    """Compile a small part of loops over rows, put into each of them: a call would keep it from using SIMD."""
    return _part(function, IN_LINE)


def compiled_fused(function: Function) -> Function:
    """Compile a small part of loops that are made of products and sums, put into each of them."""
    return _part(function, FUSED)


def compiled_sum_in_line(function: Function) -> Function:
    """Compile such a sum as a part of functions that call it often, put into each of them."""
    return _part(function, {**IN_LINE, "fastmath": REORDERED})


REORDERED = {"reassoc", "contract", "nsz"}
"""What sums may be made faster by."""
BORROWING = {"_nrt": False}
"""Numba counts who holds an array, wherever one is given a name or taken out of a tuple: half the code of a function
that is given many. One that makes no array, and gets none from a function that does, need not count."""
USUAL = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": True}
"""Options of compiled functions; what is not said, a function takes over from the first one that calls it."""
IN_LINE = {**USUAL, **BORROWING, "forceinline": True}
"""Options of functions that are put into every loop that calls them, so that it can be compiled to SIMD."""
FUSED = {**IN_LINE, "fastmath": {"contract"}}
"""The same, with products fused with the sums they go into, where the processor can: faster, and rounded less."""


def entry_of(function: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return what a compiled function runs for arguments of exactly these types, and no others.

    Numba finds the types of its arguments at every call, which takes a millisecond where tuples hold functions: far
    longer than some steps of a chain. Compiles the function, if it was not.
    """
    if not hasattr(function, "overloads"):  # compilation is switched off
        return function
    signature = tuple(numba.typeof(argument) for argument in arguments)
    if signature not in function.overloads:
        function.compile(signature)
    return function.overloads[signature].entry_point


_POINTERS = threading.RLock()


class ByAddress:
    """A function that compiled code calls by its address: it compiles when first asked for, apart from its callers.

    Parameters
    ----------
    signature : numba signature or callable
        Types of arguments and result; or a function that returns them, called when they are needed.
    function : callable
        The function.
    keep : bool
        Whether to keep it on disk: what it closes over must then be plain functions and classes of modules.
    borrowing : bool
        Whether it makes no array (`BORROWING`).
    """

    def __init__(
        self, signature: Any, function: Callable[..., Any], *, keep: bool = True, borrowing: bool = False
    ) -> None:
        self._signature, self._function, self._keep = signature, function, keep
        self._options = {"error_model": "numpy", "_nrt": not borrowing}
        self._pointer: Any = None

    @property
    def pointer(self) -> Any:
        """What compiled code takes as an argument and calls: an address, or with compilation off the function."""
        if numba_config.DISABLE_JIT:
            return self._function
        with _POINTERS:  # threads ask for the same one at the same time
            return self._compiled()

    def _compiled(self) -> Any:
        if self._pointer is None:
            given = self._signature
            signature = given() if callable(given) and not hasattr(given, "return_type") else given
            made: Any = CFunc(self._function, normalize_signature(signature), {}, self._options)
            if self._keep:
                made._cache = _Cache(self._function)
            made.compile()
            self._pointer = made
        return self._pointer
