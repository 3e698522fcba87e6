"""A user's own likelihood: its formula is read, its bounds are proved, and what cannot be proved is refused."""

import math
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import flint
import numpy as np
import pytest
import sympy

import tallbayes as tb
from tallbayes import code_cache
from tallbayes.families import formula as formulas
from tallbayes.families import generate, generated, intervals
from tallbayes.families.certify import certify
from tallbayes.families.curve import coefficients, jet, potential
from tallbayes.setup.setup import setup_of

T = sympy.Symbol("t", real=True)

# Formula, its parameters, the responses if they are few, the built-in family, and the slope of its t in ours.
BUILT_IN = {
    "bernoulli": ("log(1 + exp(eta)) - y*eta", {}, None, tb.families.Bernoulli(), 1.0),
    "probit": ("-log_ndtr(-eta)", {}, None, tb.families.Bernoulli("probit"), 1.0),
    "cloglog": ("(1 - y)*exp(eta) - y*log(1 - exp(-exp(eta)))", {}, (0, 1), tb.families.Bernoulli("cloglog"), 1.0),
    "student-t": (
        "(df + 1)/2*log(1 + ((y - eta)/s)**2/df)",
        {"df": 3.0, "s": 0.7},
        None,
        tb.families.StudentT(3.0, 0.7),
        1 / 0.7,
    ),
    "poisson": ("exp(eta) - y*eta", {}, None, tb.families.Poisson(), 1.0),
    "gamma": ("2.5*(eta + y*exp(-eta))", {}, None, tb.families.Gamma(2.5), 1.0),
    "negative-binomial": (
        "(y + r)*log(r + exp(eta)) - y*eta",
        {"r": 1.0},
        None,
        tb.families.NegativeBinomial(1.0),
        1.0,
    ),
    "gaussian": ("((y - eta)/s)**2/2", {"s": 0.4}, None, tb.families.Gaussian(0.4), 1 / 0.4),
    "pseudo-huber": (
        "d**2*(sqrt(1 + ((y - eta)/(s*d))**2) - 1)",
        {"d": 1.3, "s": 0.5},
        None,
        tb.families.PseudoHuber(1.3, 0.5),
        1 / 0.5,
    ),
}


def largest(g, certificate, values, m):
    """The supremum of |g^(m)| on the whole line, from the formula and the certificate alone."""
    derivative = sympy.lambdify(T, sympy.diff(g, T, m).subs(values), modules=["mpmath", _FUNCTIONS])
    points = certificate.critical[m]
    ends = [abs(certificate.left[m - 1]), abs(certificate.right[m - 1])]
    assert certificate.low == -math.inf
    assert certificate.high == math.inf
    return max([*ends, *(abs(float(derivative(x))) for x in points)])


def _functions():
    import mpmath

    def slope(x):
        return (1 - x / mpmath.expm1(x)) / x

    return {
        "expit": lambda x: 1 / (1 + mpmath.exp(-x)),
        "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
        "log_ndtr": lambda x: mpmath.log(mpmath.ncdf(x)),
        "hazard": lambda x: mpmath.npdf(x) / mpmath.ncdf(-x),
        "bose_slope": slope,
    }


_FUNCTIONS = _functions()


@pytest.mark.parametrize("name", BUILT_IN)
def test_suprema_from_the_formula_alone(name):
    text, values, responses, family, slope = BUILT_IN[name]
    reduced = formulas.reduce(formulas.read(text, values), responses)
    certificates = [certify(g, T, values, text) for g in reduced.curves]
    symbols = {s: values[s.name] for g in reduced.curves for s in g.free_symbols if s.name in values}
    for m in range(1, 5):
        found = [largest(g, c, symbols, m) for g, c in zip(reduced.curves, certificates, strict=True)]
        wanted = family.supremum(m)
        if math.isinf(wanted):
            assert max(found) == math.inf
        else:
            # A gamma's shape is a multiple of the row there, and a factor of the curve here.
            assert max(found) == pytest.approx(wanted * slope**m, rel=1e-9, abs=1e-300)
        critical = sorted({x for c in certificates for x in c.critical[m]})
        assert critical == pytest.approx(sorted(x / slope for x in family.critical_points(m)), rel=1e-9, abs=1e-9)
    assert all(c.convex for c in certificates) == family.convex


@pytest.mark.parametrize("name", ["bernoulli", "student-t", "gamma", "negative-binomial", "pseudo-huber"])
def test_rows_equal_those_of_the_built_in_family(name):
    text, values, responses, family, _ = BUILT_IN[name]
    own = tb.families.custom(text, responses=responses, **values)
    y = 1.0
    for eta in (-700.0, -20.0, -0.3, 0.0, 1.7, 40.0, 700.0):
        rows = []
        for chosen in (own, family):
            m, s, c, l, piece = coefficients(chosen.curve, y)
            g = jet(chosen.curve, s * eta + c, piece)
            rows.append([m * s * g[0] + l, *(m * s**k * g[k - 1] for k in range(2, 5))])
        assert rows[0] == pytest.approx(rows[1], rel=1e-9, abs=1e-12)


def test_a_sympy_expression_is_the_same_as_text():
    eta, y, s = sympy.symbols("eta y s")
    own = tb.families.custom(sympy.log(1 + ((y - eta) / s) ** 2), s=2.0)
    text = tb.families.custom("log1p(((y - eta)/s)**2)", s=2.0)
    assert [own.supremum(m) for m in range(1, 5)] == [text.supremum(m) for m in range(1, 5)]
    assert own.curve.reach == text.curve.reach


def test_the_form_is_found_by_algebra():
    # log(y + exp(eta)) = log y + softplus(eta - log y), a function of log y - eta.
    family = tb.families.custom("3*log(y + exp(eta)) - eta")
    m, s, c, l, piece = coefficients(family.curve, 2.5)
    values = [m * potential(family.curve, s * eta + c, piece) + l * eta for eta in (-1.0, 0.4, 3.0)]
    wanted = [3 * math.log(2.5 + math.exp(eta)) - eta for eta in (-1.0, 0.4, 3.0)]
    assert np.diff(values) == pytest.approx(np.diff(wanted), rel=1e-12)
    assert family.convex
    assert family.supremum(2) == pytest.approx(0.75, rel=1e-9)


def test_parameters_need_no_new_code():
    first, second = (tb.families.custom("log1p(((y - eta)/s)**2)", s=s) for s in (2.0, 3.0))
    assert type(first.curve) is type(second.curve)
    assert second.supremum(2) == pytest.approx(2.0 / 9.0)


def test_unknown_is_never_zero():
    # A box on which Arb knows nothing must not look like a sign.
    nothing = intervals.tape(T / T.diff(T) / sympy.Symbol("z"), {T: "t", sympy.Symbol("z"): "z"}, {})
    value = nothing({"t": intervals.interval(1.0, 2.0), "z": intervals.interval(-1.0, 1.0)})
    assert float(value.lo) == -math.inf
    assert float(value.hi) == math.inf
    assert intervals.apply("log", intervals.interval(-1.0, 1.0)) == intervals.whole()
    nan = flint.arb("nan")
    assert intervals.add(intervals.Interval(nan, nan), intervals.interval(0.0, 1.0)) == intervals.whole()


@pytest.mark.parametrize(
    "text",
    [
        *("exp(eta)", "expit(eta)", "softplus(eta)", "log(1 + eta**2)", "sqrt(1 + eta**2)", "eta**3 - eta"),
        *("1/(2 + eta)", "atan(eta)", "log_ndtr(eta)*eta", "1/(1 + eta**2)**2"),
    ],
)
def test_enclosures_hold_the_values(text):
    e = formulas.read(text, {})
    eta = sympy.Symbol("eta", real=True)
    run = intervals.tape(e, {eta: "t"}, {})
    value = sympy.lambdify(eta, e, modules=["mpmath", _FUNCTIONS])
    rng = np.random.default_rng(1)
    for _ in range(50):
        low = float(3 * rng.standard_normal())
        high = low + float(rng.random())
        box = run({"t": intervals.interval(low, high)})
        for x in np.linspace(low, high, 7):
            exact = float(value(x))
            assert float(box.lo) - 1e-14 * abs(exact) <= exact <= float(box.hi) + 1e-14 * abs(exact)


def logistic_noise():
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(400), rng.standard_normal(400)])
    y = X @ [0.5, -1.0] + 0.5 * rng.logistic(size=400)
    family = tb.families.custom("softplus((y - eta)/s) + softplus(-(y - eta)/s)", s=0.5)
    return tb.Regression(X, y, family, tb.priors.Normal(0, 2))


def draw(model):
    kernel = tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global())
    return tb.sample(model, kernel, draws=200, chains=1, seed=3, progress=False)["posterior"]["beta"].values


def another_process(code, cache):
    """Run code in a process of its own that keeps compiled code in a directory; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TALLBAYES_CACHE_DIR": str(cache)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


DRAWS = f"""
    import sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    import test_custom as t
    print(t.draw(t.logistic_noise()).tobytes().hex())
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of its own, as other tests write to the common one at the same time; and draws that filled it.

    It begins with what the common one has of the package itself, so that formulas are all there is to compile.
    """
    directory = tmp_path_factory.mktemp("cache")
    common = code_cache.cache_directory()
    for path in common.rglob("*.nb[ci]"):
        place = directory / "tallbayes" / path.relative_to(common.parent)
        if "formulas" not in path.parts:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    return directory, another_process(DRAWS, directory)


def test_a_second_process_does_not_compile(cache):
    directory, first = cache

    def compiled_code():
        kinds = (".nbi", ".nbc", ".py", ".json")
        return {p: p.stat().st_mtime_ns for p in directory.rglob("*") if p.suffix in kinds}

    before = compiled_code()
    assert any(path.name.startswith("formula_") for path in before)
    assert another_process(DRAWS, directory) == first
    assert compiled_code() == before


def test_no_process_needs_the_formulas_of_others(cache, tmp_path):
    """What is kept of one formula can be read, and added to, where the module of another is gone."""
    directory = shutil.copytree(cache[0], tmp_path / "cache")
    (formulas_,) = directory.rglob("formulas")
    shutil.rmtree(formulas_)
    code = """
        import numpy as np
        import tallbayes as tb

        y = np.linspace(-1.0, 2.0, 50)
        for formula in ("logcosh(y - eta)", "log1p((y - eta)**2/9)"):
            model = tb.Regression(np.ones((50, 1)), y, tb.families.custom(formula), tb.priors.Normal(0, 1))
            kernel = tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global())
            tree = tb.sample(model, kernel, draws=200, chains=1, seed=3, progress=False)
            print(tree.attrs["bound_violations"])
    """
    assert another_process(code, directory).split() == ["0", "0"]
    assert {path.name[:8] for path in formulas_.glob("*.py")} == {"formula_"}


def test_formulas_work_where_nothing_can_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    code = """
        import numpy as np
        import tallbayes as tb
        from tallbayes.families import generated

        for formula in ("logcosh(y - eta)", "log1p((y - eta)**2/9)", "logcosh(y - eta)"):
            family = tb.families.custom(formula)
            print(float(family.rows.jets(np.zeros((1, 1)), np.ones((1, 1)), 2)[1, 0]))
        print(generated.DIRECTORY)
    """
    *slopes, directory = another_process(code, blocked / "below").split()
    assert [float(slope) for slope in slopes] == pytest.approx([math.tanh(1.0), 0.2, math.tanh(1.0)], rel=1e-12)
    assert not Path(directory).exists()  # it is gone with the process
    assert not directory.startswith(str(tmp_path))
    assert blocked.read_text() == "not a directory"


def test_a_module_that_another_process_writes_is_found():
    tb.families.custom("sqrt(1 + (y - eta)**2)", support="real")  # Python has listed the directory
    directory, name = generated.DIRECTORY, "formula_of_another_process"
    listed, path = directory.stat(), directory / "formula_of_another_process.py"
    try:
        with pytest.raises(ModuleNotFoundError):
            generate.load(name)
        path.write_text("answer = 42\n", encoding="utf-8")
        os.utime(directory, ns=(listed.st_atime_ns, listed.st_mtime_ns))  # as two writes within a tick of the clock
        assert generate.load(name).answer == 42
    finally:
        path.unlink(missing_ok=True)
        sys.modules.pop(f"{generated.__name__}.{name}", None)


def test_poisson_by_formula_is_local_only():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(300), rng.standard_normal(300)])
    y = rng.poisson(np.exp(X @ [0.3, 0.4]))
    own = tb.families.custom("exp(eta) - y*eta", support="counts")
    model = tb.Regression(X, y, own, tb.priors.Normal(0, 1))
    with pytest.raises(tb.errors.InputError, match=r"order 3 is unbounded. Use bound=tb.bounds.Local\(\)"):
        tb.sample(model, tb.kernels.ScalableMH(2, tb.bounds.Global()), draws=5, progress=False)
    built_in = tb.Regression(X, y, tb.families.Poisson(), tb.priors.Normal(0, 1))
    found, wanted = (setup_of(m, threads=1) for m in (model, built_in))
    assert found.mode.theta == pytest.approx(wanted.mode.theta, rel=1e-7)
    for order in (1, 2, 3):
        bound = tb.bounds.Local(5.0)
        psi = [bound.of_rows(m, wanted.metric, order, threads=1).drawing.psi for m in (model, built_in)]
        assert psi[0] == pytest.approx(psi[1], rel=1e-12)


def test_rows_beyond_what_is_proved_have_no_bound():
    def proved(low, high):
        model = logistic_noise()
        model.family._curve = model.family.curve._replace(low=low, high=high)
        model.rows = model.family.rows
        return model

    metric = setup_of(logistic_noise(), threads=1).metric
    model = proved(-6.0, 6.0)
    found = tb.bounds.Local(200.0).of_rows(model, metric, 2, threads=1)
    assert 0.0 < found.radius < 200.0
    assert np.all(np.isfinite(found.drawing.psi))
    assert model.family.supremum(3) == math.inf
    model = proved(-1e-3, 1e-3)
    assert tb.bounds.Local(5.0).of_rows(model, metric, 2, threads=1).radius == 1e-300
    tree = tb.sample(model, tb.kernels.ScalableMH(2), draws=50, chains=1, seed=1, progress=False)
    assert tree["sample_stats"]["full_pass"].values.all()


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("eta +", {}, "cannot be read"),
        ("__import__('os').getcwd()", {}, "is not allowed in a formula"),
        ("eta if y else 0", {}, "is not allowed in a formula"),
        ("eta @ y", {}, "is not allowed in a formula"),
        ("~eta", {}, "is not allowed in a formula"),
        ("'eta'", {}, "is not allowed in a formula"),
        ("abs(eta - y)", {}, "is not allowed in a formula"),
        ("exp(eta, y)", {}, "take one argument"),
        ("a*eta**2", {}, "'a' in the formula is neither eta, y nor a parameter"),
        ("y**2", {}, "does not contain eta"),
        (3.0, {}, "expected a formula as text or a SymPy expression"),
        (sympy.Abs(sympy.Symbol("eta")), {}, "the function Abs is not known"),
        (sympy.I * sympy.Symbol("eta"), {}, "cannot be part of a formula"),
        ("y*exp(eta*y)", {}, "is not of the form"),
        ("atan(y)*exp(eta)", {}, "depends on y alone"),
        ("exp(eta) - y*eta", {"support": "some"}, "support='some' is not known"),
        ("eta + y*exp(-eta)", {"support": "real"}, r"log\(y\) needs support='positive'"),
        ("s*eta**2", {"s": math.nan}, "s=nan must be a finite number"),
        ("s*eta**2", {"t": 1.0}, "cannot be called 't'"),
        ("y*eta", {"responses": (0, 0)}, "expected 1 to 64 different numbers"),
        ("y*eta", {"responses": 2}, "expected 1 to 64 different numbers"),
        ("y*eta", {"responses": (0, math.inf)}, "must be finite numbers"),
        ("exp(eta) - tanh(y)*eta", {}, "depends on y alone"),
        ("exp(eta) - expit(y)*eta", {}, "depends on y alone"),
        ("(y - eta)**2/s", {"s": 0.0}, "with s=0 the formula divides by zero"),
        ("1e400*eta**2", {}, "a number in the formula is inf"),
        ("max(eta, y)", {}, "needs four derivatives"),
        ("9**9**9**9*eta", {}, "the power 387420489 is too large"),
        ("eta**1000000", {}, "the power 1000000 is too large"),
        ("eta**-65", {}, "the power -65 is too large"),
        (sympy.Symbol("eta") ** 100, {}, "the power 100 is too large"),
        (" + ".join(["eta**2"] * 5000), {}, "more than 400 operations"),
        ("(" * 3000 + "eta" + ")" * 3000, {}, "more than 400 operations|cannot be read"),
        (sum(sympy.exp(k * sympy.Symbol("eta")) for k in range(300)), {}, "more than 400 operations"),
        ("(y - eta)**2", {"scale": 2.0}, "scale=2.0 was given, but the formula has no 'scale'"),
    ],
)
def test_formulas_that_cannot_be_used(formula, options, message):
    with pytest.raises(tb.errors.InputError, match=message):
        tb.families.custom(formula, **options)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("(exp(y - eta) - 1)/(y - eta)", "could not be isolated"),
        ("(y - eta)**1.5", "could not be isolated"),
        ("log(2 + exp(y - eta) + exp(eta - y))", "but double precision gives"),
        ("log(eta) - y*eta", "has no derivatives at t = 0"),
        ("1/eta", "has no derivatives at t = 0"),
        ("softplus(" * 6 + "eta" + ")" * 6, "too many to prove anything of"),
        ("eta**64/1e90 + eta**2", "has no derivatives at t"),
        ("sqrt(eta)", "has no derivatives at t = 0|could not be isolated"),
    ],
)
def test_what_cannot_be_proved_is_refused(formula, message, monkeypatch):
    monkeypatch.setattr("tallbayes.families.certify.MOST_BOXES", 2000)
    with pytest.raises(tb.errors.CertificationError, match=message):
        tb.families.custom(formula)


def test_a_curve_that_is_too_rough_is_refused(monkeypatch):
    monkeypatch.setattr("tallbayes.families.from_formula._quadrature_is_right", lambda *arguments: False)
    with pytest.raises(tb.errors.CertificationError, match="change too fast"):
        tb.families.custom("log1p((y - eta)**2/3)")


def test_too_many_undecided_places_are_refused(monkeypatch):
    monkeypatch.setattr("tallbayes.families.certify.MOST_POINTS", 0)
    with pytest.raises(tb.errors.CertificationError, match="could not be told from 0"):
        tb.families.custom("log1p((y - eta)**2/7)")


@pytest.mark.parametrize("formula", ["(y - eta) + exp(-(y - eta))", "exp(eta - y) - eta"])
def test_gumbel_noise_either_way(formula):
    """1 - exp(-t) keeps its digits, though as a product of factors it would not."""
    family = tb.families.custom(formula)
    sign = coefficients(family.curve, 0.0)[1]
    for t in (-3.0, 1e-3, 40.0, 5000.0):
        slope = coefficients(family.curve, 0.0)[3] + sign * jet(family.curve, t, 0.0)[0]
        assert slope == pytest.approx(math.exp(-t) - 1.0, rel=1e-12)


def test_a_mixture_of_two_normals():
    family = tb.families.custom("-log(0.9*exp(-(y - eta)**2/2) + 0.1*exp(-(y - eta)**2/50))")
    for t in (0.0, 0.7, 3.0, 12.0, 300.0):
        wanted = -np.logaddexp(math.log(0.9) - t**2 / 2, math.log(0.1) - t**2 / 50)
        assert potential(family.curve, t, 0.0) - potential(family.curve, 0.0, 0.0) == pytest.approx(
            wanted + math.log(1.0), rel=1e-9, abs=1e-9
        )


@pytest.mark.parametrize(
    ("family", "bad"),
    [
        (tb.families.custom("exp(eta) - y*eta", support="counts"), 1.5),
        (tb.families.custom("eta + y*exp(-eta)"), 0.0),
        (tb.families.custom("softplus(eta) - y*eta", responses=(0, 1)), 2.0),
        (tb.families.custom("y*exp(eta) - eta"), -1.0),
        (tb.families.custom("sinh(y)*softplus(eta)"), -1.0),
        (tb.families.custom("exp(eta) - y*eta", support="non-negative"), -0.5),
    ],
)
def test_responses_outside_the_support(family, bad):
    with pytest.raises(tb.errors.InputError, match="y: row 1 is"):
        tb.Regression(np.ones((2, 1)), [1.0, bad], family)


def test_potential_has_no_warning_far_out():
    family = tb.families.custom("(1 - y)*exp(eta) - y*log(1 - exp(-exp(eta)))", responses=(0, 1))
    for piece in family.pieces:
        for t in (-1e6, -700.0, 700.0, 1e6):
            assert not math.isnan(potential(family.curve, t, piece))
            assert not any(math.isnan(x) for x in jet(family.curve, t, piece))


@pytest.mark.parametrize(
    ("package", "load"), [("sympy", formulas.load_sympy), ("flint", intervals.load_flint.__wrapped__)]
)
def test_a_missing_package_is_named(package, load, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(tb.errors.MissingPackageError, match=r"pip install 'tallbayes\[custom\]'"):
        load()


def test_two_formulas_in_one_process_do_not_share_code():
    rng = np.random.default_rng(0)
    X = np.ones((60, 1))
    y = rng.standard_normal(60)
    modes, names = [], []
    for formula in ("(y - eta)**2/2", "log1p((y - eta)**2)", "logcosh(y - eta)"):
        family = tb.families.custom(formula)
        names.append(type(family.curve).__name__)
        model = tb.Regression(X, y, family, tb.priors.Flat())
        modes.append(float(setup_of(model, threads=1).mode.hessian[0, 0]))
    assert len(set(names)) == 3
    assert modes[0] == pytest.approx(60.0, rel=1e-9)
    assert len({round(mode, 3) for mode in modes}) == 3
