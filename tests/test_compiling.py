"""How functions compile: parts of others, and without garbage collection."""

import gc
import os
import subprocess
import sys
import threading

import pytest

from tallbayes.code_cache import CodeCache
from tallbayes.compiled import ByAddress, compiled, compiled_within
from tallbayes.garbage import collection_paused


@pytest.fixture(autouse=True)
def collecting():
    """Leave the collector as it was."""
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def test_it_pauses_within_a_block_and_the_outermost_one_ends_it():
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error():
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()


def test_a_thread_that_is_done_leaves_the_pause_of_another():
    with collection_paused():
        other = collection_paused()
        thread = threading.Thread(target=lambda: (other.__enter__(), other.__exit__(None, None, None)))
        thread.start()
        thread.join()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_functions_compile_without_it(monkeypatch):
    from numba.core import config, types

    if config.DISABLE_JIT:
        pytest.skip("nothing compiles")
    seen = []

    def unseen(self, signature, context):
        seen.append(gc.isenabled())

    monkeypatch.setattr(CodeCache, "load_overload", unseen)
    monkeypatch.setattr(CodeCache, "save_overload", lambda self, signature, data: None)

    def twice(x):
        return 2.0 * x

    assert compiled(twice)(2.0) == 4.0
    assert ByAddress(types.float64(types.float64), twice).pointer.ctypes(3.0) == 6.0
    assert seen == [False, False]
    assert gc.isenabled()


@compiled_within
def _twice(x):
    return 2.0 * x


@compiled_within
def _thrice(x):
    return 3.0 * x


@compiled_within
def _six_times(x):
    return _thrice(_twice(x))


@compiled
def _both(x):
    return _six_times(x) + 100.0 * _twice(x) + 10_000.0 * _thrice(x)


def test_parts_with_the_same_arguments_are_told_apart():
    assert _both(1.0) == 30_206.0


def test_a_part_called_from_python_is_itself():
    assert (_six_times(1.0), _twice(1.0), _thrice(1.0)) == (6.0, 2.0, 3.0)


def test_no_machine_code_is_made_of_a_part():
    from numba.core import config, types

    if config.DISABLE_JIT:
        pytest.skip("nothing compiles")
    _six_times.compile((types.float64,))
    for part in (_twice, _thrice, _six_times):
        (made,) = part.overloads.values()
        assert not made.library.codegen._engine.is_symbol_defined(made.fndesc.llvm_func_name)


PRINTING = """
from tallbayes.compiled import compiled, compiled_within

@compiled_within
def inner(x):
    print("x is", x)
    return x

@compiled
def outer(x):
    return inner(x) + 1.0

assert outer(1.5) == 2.5
"""


def test_a_part_may_print(tmp_path):
    script = tmp_path / "printing.py"
    script.write_text(PRINTING)
    environment = {**os.environ, "TALLBAYES_CACHE_DIR": str(tmp_path), "TALLBAYES_COMPILE_ALONE": "1"}
    for _ in ("compiled", "from the disk"):
        ran = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True, env=environment
        )
        assert ran.stdout == "x is 1.5\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_is_not_held_by_threads_of_its_parent():
    held, done = threading.Event(), threading.Event()

    def hold():
        with collection_paused():
            held.set()
            done.wait(30.0)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30.0)
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
