"""The layout: imports point one way, functions are short, and the compiled half of a kernel has its own file."""

import ast
from pathlib import Path

import pytest

import tallbayes

PACKAGE = Path(tallbayes.__file__).parent

ROOMS = [
    ["errors", "checks", "garbage", "quantiles", "code_cache", "compiled", "on_demand"],
    ["families"],
    ["priors"],
    ["sources"],
    ["models"],
    ["factors", "formulas"],
    ["setup"],
    ["bounds"],
    ["proposals"],
    ["kernels"],
    ["plan"],
    ["run"],
    ["results"],
    ["predictions"],
    ["plots"],
    ["reporting"],
    ["api"],
    ["estimators"],
    ["__init__"],
    ["warmup", "demo", "cli"],
    ["__main__"],
]
"""From the ground up: a module may import from its own line or earlier ones. What a user sees of the package,
`__init__`, stands on everything but the programs that use it."""

LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}

INDEPENDENT = [("families", "priors"), ("priors", "families")]
"""Rooms that know nothing of each other, whatever the order above says."""

MOST_LINES, MOST_ARGUMENTS = 80, 12
LONG = {
    "kernels.scalable_mh_steps.run_chunk": "one compiled loop over the stages of a step: calls between "
    "them cost more than a step does",
    "cli.fitting.fit": "an argument for each option of the command",
    "cli.fitting.explain": "an argument for each option of the command",
}
"""Functions that may be longer or take more, each with the reason."""

SOURCES = sorted(PACKAGE.rglob("*.py"))


COMPILERS = {
    "compiled",
    "compiled_borrowing",
    "compiled_sum",
    "compiled_within",
    "compiled_within_with_arrays",
    "ByAddress",
}


def test_rooms_left_out_of_the_hash_of_compiled_code_compile_nothing():
    from tallbayes.code_cache import PLAIN_ROOMS

    for path in SOURCES:
        if room_of(name_of(path)) not in PLAIN_ROOMS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "tallbayes.compiled":
                assert not COMPILERS & {alias.name for alias in node.names}, path
            elif isinstance(node, ast.Import | ast.ImportFrom):
                modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
                assert not any(module.split(".")[0] == "numba" for module in modules), path


def name_of(path):
    """Return a module's name below the package: ``families.base``, or ``families.__init__``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def room_of(name):
    return name.split(".")[0]


def imports_of(tree, name):
    """Yield (line, module below the package) of every import, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: a relative import"
            found = [node.module]
            if node.module == "tallbayes":  # a room, or a name that `__init__` defines
                rooms = [alias.name for alias in node.names]
                found = [f"tallbayes.{room if room in LEVEL else '__init__'}" for room in rooms]
        else:
            continue
        for module in found:
            if module == "tallbayes":
                yield node.lineno, "__init__"
            elif module.startswith("tallbayes."):
                yield node.lineno, module.removeprefix("tallbayes.")


def violations(name, text):
    """Return the imports of a module that point the wrong way."""
    here = room_of(name)
    wrong = []
    for line, module in imports_of(ast.parse(text), name):
        there = room_of(module)
        if LEVEL[there] > LEVEL[here] or (here, there) in INDEPENDENT:
            wrong.append(f"{name}:{line} imports {module}")
    return wrong


def test_every_module_has_its_place():
    assert {room_of(name_of(path)) for path in SOURCES} == set(LEVEL)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_point_one_way(path):
    assert not violations(name_of(path), path.read_text())


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("sources.base", "from tallbayes.models.base import Model", True),
        ("sources.base", "def f():\n    from tallbayes.models import passes", True),
        ("sources.base", "if TYPE_CHECKING:\n    import tallbayes.setup.setup", True),
        ("sources.base", "from tallbayes import kernels", True),
        ("sources.base", "import tallbayes as tb", True),
        ("priors", "from tallbayes.families import Family", True),
        (
            "sources.base",
            "from tallbayes.errors import InputError\nfrom tallbayes.sources.alias import WHOLE",
            False,
        ),
        ("cli", "from tallbayes import __version__", False),
    ],
)
def test_a_wrong_import_is_found(name, text, wrong):
    assert bool(violations(name, text)) == wrong


# -- functions --


def functions_of(tree, prefix=""):
    """Yield (qualified name, node) of every function, nested ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
            yield from functions_of(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")
        else:
            yield from functions_of(node, prefix)


def lines_of_code(node, lines):
    """Return how many lines a function has, from its name on, blank ones, comments and docstring not counted."""
    inside = set(range(node.lineno, node.end_lineno + 1))
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        inside -= set(range(first.lineno, first.end_lineno + 1))
    return sum(bool(text := lines[number - 1].strip()) and not text.startswith("#") for number in inside)


def arguments_of(node):
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return [argument.arg for argument in every if argument.arg not in {"self", "cls"}]


def oversized(text):
    """Return the functions of a module that are too long or take too much."""
    lines = text.splitlines()
    for name, node in functions_of(ast.parse(text)):
        if lines_of_code(node, lines) > MOST_LINES or len(arguments_of(node)) > MOST_ARGUMENTS:
            yield name


def test_functions_are_short_and_take_few_arguments():
    found = {f"{name_of(path)}.{name}" for path in SOURCES for name in oversized(path.read_text())}
    assert found == set(LONG), "too long, or no longer so"


def test_an_oversized_function_is_found():
    body = "    x = 1\n"
    assert list(oversized("def f():\n" + body * 79)) == []
    assert list(oversized("def f():\n    '''A\n    docstring.'''\n\n    # why\n" + body * 79)) == []
    assert list(oversized("class A:\n  def f(self):\n" + body * 80)) == ["A.f"]
    twelve = ", ".join(f"a{i}" for i in range(12))
    assert list(oversized(f"def f(self, {twelve}):\n    pass")) == []
    assert list(oversized(f"def f({twelve}, *, more):\n    pass")) == ["f"]


# -- kernels --


def kernels_defined(tree):
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "Kernel" for b in node.bases)
    ]


def decorated(tree):
    """Return the functions that are compiled."""
    return [
        name
        for name, node in functions_of(tree)
        for by in node.decorator_list
        if isinstance(by, ast.Name) and by.id in COMPILERS
    ]


def test_the_compiled_half_of_a_kernel_has_a_file_of_its_own():
    halves = set()
    for path in (PACKAGE / "kernels").glob("*.py"):
        tree = ast.parse(path.read_text())
        if not kernels_defined(tree):
            continue
        assert not decorated(tree), f"{path.name}: compiled functions belong into {path.stem}_steps.py"
        half = path.with_name(f"{path.stem}_steps.py")
        if half.exists():
            halves.add(half.name)
            assert decorated(ast.parse(half.read_text())), half.name
    assert {path.name for path in (PACKAGE / "kernels").glob("*_steps.py")} == halves
    # Those that run the steps of scalable Metropolis-Hastings have no half of their own.
    assert halves == {"scalable_mh_steps.py", "firefly_steps.py", "zigzag_steps.py"}
