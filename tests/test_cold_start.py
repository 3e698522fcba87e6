"""Cold starts: what compiles and when, what is said of it, and what a missing, full or damaged cache does."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest

COMPILING = "tallbayes: compiling, once on this machine"
NOT_KEPT = "tallbayes: compiled code cannot be kept in"

COMMON = """
import gc, json, os, sys
import numpy as np
import tallbayes as tb
from numba.core.dispatcher import Dispatcher
from tallbayes.compiled import ByAddress

def compiled_here():
    # What this process compiled itself, by name: from Python (dispatchers) and by address.
    found = {}
    for item in gc.get_objects():
        if isinstance(item, Dispatcher) and item.py_func.__module__.startswith("tallbayes"):
            number = sum(item.stats.cache_misses.values())
            name = f"{item.py_func.__module__}.{item.py_func.__name__}"
        elif isinstance(item, ByAddress) and item._pointer is not None:
            number = int(item._pointer._cache_hits == 0)
            name = f"{item._function.__module__}.{item._function.__name__} by address"
        else:
            continue
        if number:
            found[name] = found.get(name, 0) + number
    return found

def make(n=300, family=tb.families.Bernoulli(), seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return tb.Regression(X, rng.random(n) < 0.5, family)

def draw(model, kernel=None, **options):
    return tb.sample(model, kernel, **{"draws": 20, "chains": 1, "seed": 1, "progress": False, **options})

def new_since(before):
    now = compiled_here()
    return {name: number - before.get(name, 0) for name, number in now.items() if number != before.get(name, 0)}

def shared_draws():
    # Of a chain that is made of what all chains share.
    return draw(make(20_000), tb.kernels.ScalableMH(order=2)).posterior.beta.values.tolist()

def as_on_two_cores():
    # Where nothing was compiled before, a second process then helps.
    os.sched_getaffinity = lambda process: {0, 1}
"""


def run(script, *arguments, **environment):
    """Run a script in a process of its own; return what it prints, as JSON, and its standard error."""
    code = COMMON + textwrap.dedent(script)
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout or "null"), result.stderr


FIRST = """
    as_on_two_cores()
    sys.executable = sys.argv[2] or sys.executable
    cache = os.environ["TALLBAYES_CACHE_DIR"]
    at_import = os.path.exists(cache)
    model = make()
    tb.explain(model)
    draw(model, progress=None)
    for sketch in (False, True):
        draw(model, tb.kernels.ScalableMH(order=3, sketch=sketch))
    first = compiled_here()

    # The same design, held in other ways.
    X, y = np.asarray(model.source.X), model.source.responses[:, 0].copy()
    fixed = X.copy()
    fixed.setflags(write=False)
    mapped = np.lib.format.open_memmap(sys.argv[1], mode="w+", dtype=np.float64, shape=X.shape)
    mapped[:] = X
    mapped = np.asarray(np.load(sys.argv[1], mmap_mode="r"))
    for held in (X.astype(np.float32), np.asfortranarray(X), fixed, mapped, (X > 0), X[::2]):
        for kernel in (None, tb.kernels.ScalableMH(order=3, sketch=True)):
            draw(tb.Regression(held, y[: len(held)], tb.families.Bernoulli()), kernel)
    held_otherwise = new_since(first)

    before = compiled_here()
    draw(make(family=tb.families.Bernoulli("probit")))
    probit = new_since(before)
    print(json.dumps([at_import, first, held_otherwise, probit, shared_draws()]))
"""

AGAIN = """
    model = make()
    tb.explain(model)
    draw(model, progress=None)
    for sketch in (False, True):
        draw(model, tb.kernels.ScalableMH(order=3, sketch=sketch))
    draw(make(family=tb.families.Bernoulli("probit")))
    print(json.dumps(compiled_here()))
"""


FAILS = shutil.which("false")


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache that one process has filled alone, as its second process failed; with what that process reported."""
    room = tmp_path_factory.mktemp("cold")
    alone = {} if FAILS else {"TALLBAYES_COMPILE_ALONE": 1}
    reported, said = run(FIRST, room / "X.npy", FAILS or "", TALLBAYES_CACHE_DIR=room / "cache", **alone)
    return room / "cache", reported, said


def test_import_creates_no_directory(warm):
    cache, (at_import, *_), _ = warm
    assert not at_import
    assert cache.exists()


def test_import_alone_creates_no_directory(tmp_path):
    run("print('null')", TALLBAYES_CACHE_DIR=tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_compiling_is_announced_once_off_a_terminal(warm):
    _, (_, first, *_), said = warm
    assert sum(first.values()) > 20
    assert [line for line in said.splitlines() if "compil" in line] == [f"{COMPILING} (about 8 s) ..."]


WARM_UP = """
    as_on_two_cores()
    from tallbayes import cli
    sys.argv = ["tallbayes", "warmup", "--family", "poisson", "--family", "bernoulli"]
    sys.stdout = sys.stderr
    try:
        cli.main()
    except SystemExit as ended:
        assert not ended.code
    print(json.dumps(compiled_here()), file=sys.__stdout__)
"""

AFTER_A_WARM_UP = """
    for n in (300, 30_000):
        for family in (tb.families.Bernoulli(), tb.families.Poisson()):
            draw(make(n, family), draws=1000, progress=None)
    print(json.dumps([compiled_here(), shared_draws()]))
"""


@pytest.fixture(scope="module")
def warmed_up(tmp_path_factory):
    """What a warm-up in an empty cache compiled itself, what it said, and the same of a first call that follows."""
    cache = tmp_path_factory.mktemp("ahead")
    return run(WARM_UP, TALLBAYES_CACHE_DIR=cache), run(AFTER_A_WARM_UP, TALLBAYES_CACHE_DIR=cache)


@pytest.mark.skipif(FAILS is None, reason="needs a program that fails")
def test_a_second_process_compiles_what_chains_share(warm, warmed_up):
    """And if it fails, nothing changes but time."""
    _, (_, alone, _, _, draws), _ = warm
    (here, _), ((_, same), _) = warmed_up
    chain = {"tallbayes.kernels.scalable_mh_steps.run_chunk", "tallbayes.kernels.thinning._thin by address"}
    assert here
    assert not chain & set(here)
    assert chain <= set(alone)
    assert draws == same


def test_the_second_process_compiles_what_the_first_one_waits_for(monkeypatch):
    """`SecondProcess.ITS_OWN` names by hand what `precompile` compiles: one too few, and both compile the same."""
    from numba.core import config

    from tallbayes import code_cache
    from tallbayes.compiled import ByAddress
    from tallbayes.kernels import precompile
    from tallbayes.kernels.all_rows import run_with_rows_at_hand as other
    from tallbayes.kernels.scalable_mh_steps import run_chunk

    if config.DISABLE_JIT:
        pytest.skip("nothing compiles")
    made = []
    monkeypatch.setenv(code_cache.SecondProcess.ALONE, "1")  # which it sets itself
    monkeypatch.setattr(ByAddress, "_compiled", lambda self: made.append(self._function))
    monkeypatch.setattr(type(run_chunk), "compile", lambda self, signature: made.append(self.py_func))
    precompile.precompile("elsewhere")
    assert made == []
    precompile.precompile(str(code_cache.directory()))
    assert sorted(function.__name__ for function in made) == sorted(code_cache.SecondProcess.ITS_OWN)
    second = code_cache.SecondProcess()
    assert not any(second.may_make(function) for function in made)  # it was not started
    second._process, second._started = SimpleNamespace(poll=lambda: None), time.monotonic()
    assert all(second.may_make(function) for function in made)
    assert not second.may_make(other.py_func)


def test_another_design_compiles_nothing(warm):
    _, (_, _, held_otherwise, *_), _ = warm
    assert held_otherwise == {}


def test_another_family_compiles_its_own_functions_only(warm):
    _, (_, first, _, probit, _), _ = warm
    assert first["tallbayes.kernels.scalable_mh_steps.run_chunk"] == 1
    assert probit
    rooms = {name.split(".")[1] for name in probit}
    assert rooms == {"families"}


def test_a_second_process_compiles_nothing_and_says_nothing(warm):
    compiled, said = run(AGAIN, TALLBAYES_CACHE_DIR=warm[0])
    assert compiled == {}
    assert said == ""


def test_a_damaged_cache_is_compiled_again(warm, tmp_path):
    """Every file is cut in half; the second process finds everything repaired."""
    shutil.copytree(warm[0], tmp_path / "cache")
    files = [path for path in (tmp_path / "cache").rglob("*") if path.suffix in {".nbi", ".nbc"}]
    assert len(files) > 40
    for number, path in enumerate(sorted(files)):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if number % 3 else b"")
    script = """
        from tallbayes.setup.setup import setup_of
        setup_of(make()).cubic
        print(json.dumps(compiled_here()))
    """
    compiled, said = run(script, TALLBAYES_CACHE_DIR=tmp_path / "cache")
    assert compiled["tallbayes.families.rows.jets_by_address"] == 1
    assert any(name.endswith("by address") for name in compiled)
    assert said == f"{COMPILING} (about 8 s) ...\n"
    assert run(script, TALLBAYES_CACHE_DIR=tmp_path / "cache") == ({}, "")


CANNOT_BE_KEPT = """
    if sys.argv[1] == "full":
        def full(*arguments, **options):
            raise OSError(28, "No space left on device")
        os.replace = full
    from tallbayes.setup.setup import setup_of

    from tallbayes.code_cache import silence

    # Small parts of a set-up, each of which compiles something.
    with silence():
        setup_of(make()).mode
    print("said so far:", file=sys.stderr)
    loud = make(family=tb.families.Poisson())
    setup_of(loud).mode
    setup_of(loud).cubic
    print(json.dumps(compiled_here()))
"""


@pytest.mark.parametrize(
    ("kind", "reason"), [("unwritable", "Not a directory"), ("full", "No space left on device")]
)
def test_a_cache_that_cannot_be_kept_is_said_once(tmp_path, kind, reason):
    (tmp_path / "file").touch()
    cache = tmp_path / ("file" if kind == "unwritable" else "full")
    # Alone: a second process could keep nothing either.
    compiled, said = run(CANNOT_BE_KEPT, kind, TALLBAYES_CACHE_DIR=cache, TALLBAYES_COMPILE_ALONE=1)
    assert len(compiled) > 3
    quiet, loud = said.split("said so far:\n")
    assert quiet == ""
    compiling, not_kept = loud.splitlines()
    assert compiling.startswith(COMPILING)
    assert not_kept.startswith(f"{NOT_KEPT} {cache}")
    assert reason in not_kept
    assert "TALLBAYES_CACHE_DIR" in not_kept


@pytest.mark.parametrize("progress", [False, None, True])
def test_compiling_is_said_unless_progress_is_unwanted(warm, tmp_path, progress):
    """Of a single function, which is not in the cache any more."""
    shutil.copytree(warm[0], tmp_path / "cache")
    (index,) = (tmp_path / "cache").rglob("rows.of_curve.locals.jets-*.nbi")
    index.unlink()
    script = f"""
        draw(make(), progress={progress})
        print(json.dumps(compiled_here()))
    """
    compiled, said = run(script, TALLBAYES_CACHE_DIR=tmp_path / "cache")
    assert compiled["tallbayes.families.rows.jets by address"] == 1
    assert said.count(COMPILING) == (progress is not False)
    assert progress is not False or said == ""


# -- compiled ahead --


def test_after_a_warm_up_a_first_call_compiles_nothing(warmed_up):
    """Few rows, and more than one block of them."""
    (_, said), ((compiled, _), said_after) = warmed_up
    compiling, *lines = said.splitlines()
    assert compiling.startswith(COMPILING)
    assert [line.split(": ")[0] for line in lines] == ["poisson", "bernoulli"]
    assert all(line.endswith(" s") for line in lines)
    assert compiled == {}
    assert said_after == ""


# -- without a compiler --

UNCOMPILED = """
    import tallbayes.plan.choose as choose
    choose.REHEARSAL_STEPS = choose.SKETCHED_STEPS = choose.LONGEST = 30  # plain Python takes its time

    model = make(n=60)
    kernels = {
        "order 3": tb.kernels.ScalableMH(order=3),
        "surrogate": tb.kernels.ScalableMH(order=3, proposal=tb.proposals.SurrogateSteps(3)),
        "sketch": tb.kernels.ScalableMH(order=3, sketch=True),
        "global": tb.kernels.ScalableMH(order=1, bound=tb.bounds.Global()),
        "all rows": tb.kernels.MetropolisHastings(),
        "zigzag": tb.kernels.ZigZag(),
        "firefly": tb.kernels.Firefly(),
    }
    found = {}
    for name, kernel in kernels.items():
        tree = draw(model, kernel, draws=25, warmup=5)
        found[name] = np.asarray(tree["posterior"]["beta"]).ravel().tolist()
        found[name] += np.asarray(tree["sample_stats"]["rows_touched"]).ravel().tolist()
    student = tb.Regression(model.source.X, model.source.X[:, 0], tb.families.StudentT(scale=1.0))
    tree = draw(student, kernels["order 3"], draws=10)
    found["student"] = np.asarray(tree["posterior"]["beta"]).ravel().tolist()
    from numba.core import config
    print(json.dumps([bool(config.DISABLE_JIT), found]))
"""


def test_draws_are_the_same_without_a_compiler(tmp_path):
    (_, wanted), _ = run(UNCOMPILED)
    (disabled, found), said = run(UNCOMPILED, NUMBA_DISABLE_JIT=1, TALLBAYES_CACHE_DIR=tmp_path / "nothing")
    assert disabled
    assert said == ""
    assert not (tmp_path / "nothing").exists()
    assert found.keys() == wanted.keys()
    for name, values in found.items():
        assert np.std(values[:50]) > 0.0
        np.testing.assert_allclose(values, wanted[name], rtol=1e-10, atol=1e-10, err_msg=name)
