"""How tallbayes compiles.

Three rules keep a newcomer's wait short. Compiled code is split where its parts vary: what depends on a family, and
what is seldom needed, is called by address (`ByAddress`), so that neither compiles the other again. Whatever was
compiled is kept on disk (`code_cache.py`), and with an empty directory a second process compiles what all chains share,
while this one compiles what the model needs: Numba itself uses one core. And nothing is made that is not used: no
machine code of functions that only others call (`_Part`), no garbage collection meanwhile.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
from numba.core import codegen, compiler
from numba.core import config as numba_config
from numba.core.ccallback import CFunc
from numba.core.event import TimingListener, install_listener
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

from tallbayes.code_cache import CodeCache
from tallbayes.garbage import collection_paused

Function = TypeVar("Function", bound=Callable[..., Any])


def _load_arrays() -> None:
    """Load what Numba knows of arrays without SciPy's linear algebra, which takes a tenth of a process's start.

    Numba loads it only to see that it is there, and again where it is needed. It is: tallbayes depends on SciPy.
    """
    from numba.np import linalg

    check, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = check


_load_arrays()


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


class _Kept(CPUDispatcher):
    """A function that is kept on disk, and compiles without garbage collection."""

    def compile(self, signature: Any) -> Any:
        with collection_paused():
            return super().compile(signature)


def _dispatcher(function: Function, **options: Any) -> Function:
    if numba_config.DISABLE_JIT:
        return function
    made: Any = _Kept(function, targetoptions={**USUAL, **options, "nopython": True})
    made._cache = CodeCache(function)
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


class _PartCode(codegen.JITCodeLibrary):
    """LLVM's code of a part, which its callers take in and optimise with their own: no machine code is made of it."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _PartCompiler(compiler.Compiler):
    def __init__(self, typing: Any, target: Any, library: None, *others: Any) -> None:
        super().__init__(typing, target, _PartCode(target.codegen(), "part"), *others)
        self.state.flags.no_compile = True


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

    def add_overload(self, made: Any) -> None:
        name = object()  # by which Numba finds the code: that of other functions is named by their machine code
        self.targetctx.insert_user_function(name, made.fndesc, [made.library])
        self.overloads[tuple(made.signature.args)] = made._replace(entry_point=name)


def _part(function: Function, options: dict[str, Any]) -> Function:
    if numba_config.DISABLE_JIT:
        return function
    alone = {**options, "nopython": True, "no_cpython_wrapper": True}
    made: Any = _Part(function, targetoptions=alone, pipeline_class=_PartCompiler)
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
                made._cache = CodeCache(self._function)
            with collection_paused():
                made.compile()
            self._pointer = made
        return self._pointer
