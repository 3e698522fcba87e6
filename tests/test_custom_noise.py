"""Noise of a user's own formula, with unknown scale: proofs, bounds in both directions, built-in families as oracle."""

import itertools
import math

import mpmath
import numpy as np
import pandas as pd
import pytest
import sympy

import tallbayes as tb
from tallbayes.families import certify_noise
from tallbayes.families import formula as formulas
from tallbayes.families.algebraic import mixed_of_jet
from tallbayes.families.curve import jet, mixed
from tallbayes.setup.setup import setup_of
from test_unknown_scale import along, exact, line_of

FLAT = tb.priors.Flat()
T = sympy.Symbol("t", real=True)
ORDERS = [(m - b, b) for m in range(1, 5) for b in range(m + 1)]

# Formula, parameters, and the same for mpmath.
NOISE = {
    "logistic": ("softplus(u) + softplus(-u)", {}, lambda u: mpmath.log1p(mpmath.exp(-abs(u))) * 2 + abs(u)),
    "gumbel": ("u + exp(-u)", {}, lambda u: u + mpmath.exp(-u)),
    "mixed tails": ("log1p(u**2) + c*u**2", {"c": 0.1}, lambda u: mpmath.log(1 + u**2) + u**2 / 10),
}
BUILT_IN = {
    "gaussian": ("u**2/2", {}, tb.families.Gaussian),
    "student": ("(df + 1)/2*log(1 + u**2/df)", {"df": 4.0}, lambda scale=None: tb.families.StudentT(4.0, scale)),
    "huber": ("d**2*(sqrt(1 + u**2/d**2) - 1)", {"d": 1.3}, lambda scale=None: tb.families.PseudoHuber(1.3, scale)),
}


def made(name, scale=None):
    formula, values, _ = (NOISE | BUILT_IN)[name]
    return tb.families.custom(formula, scale=scale, **values)


def some_rows(size, seed):
    """Responses, among them outliers, points and lengths of lines."""
    rng = np.random.default_rng(seed)
    y = 2.0 * rng.standard_t(2.0, (size, 1))
    at = np.stack([rng.standard_normal(size), 0.5 * rng.standard_normal(size)])
    norms = np.exp(rng.uniform(math.log(1e-3), math.log(0.6), (2, size)))
    norms[rng.integers(0, 2, size), np.arange(size)] *= rng.choice([0.0, 1.0], size, p=[0.3, 0.7])
    return y, at, norms


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_noise_by_formula_is_the_same(name):
    """Potential, derivatives, remainders and bounds, those of known scale as well."""
    own, family = made(name), BUILT_IN[name][2]()
    y, at, norms = some_rows(400, 1)
    found, wanted = (rows.jets(y, at, 3) for rows in (own.rows, family.rows))
    found[0] -= found[0, 0] - wanted[0, 0]  # a constant
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    for m, radius in itertools.product(range(1, 5), (0.01, 1.0, 4.0)):
        found, wanted = (rows.bounds(y, at, norms, radius, m) for rows in (own.rows, family.rows))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * np.max(wanted))
    for order, size in itertools.product(range(4), (1e-5, 1e-2, 0.5)):
        moves = -size * at, size * at[::-1].copy()
        found, wanted = (rows.remainders(y, at, *moves, order) for rows in (own.rows, family.rows))
        slack = 1e-9 * np.abs(wanted) + 1e-13 * np.minimum(1.0, size**2) * (1.0 + np.abs(wanted[0]))
        assert np.all(np.abs(found - wanted) <= slack + (1e-13 if size > 1e-3 else 0.0))
    known, other = made(name, 0.7), BUILT_IN[name][2](0.7)
    assert known.convex == other.convex
    for m in range(1, 5):
        assert known.supremum(m) == pytest.approx(other.supremum(m), rel=1e-9, abs=1e-300)
        psi = [f.rows.bounds(y, at[:1].copy(), norms[:1].copy(), 2.0, m) for f in (known, other)]
        np.testing.assert_allclose(psi[0], psi[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NOISE)
def test_jets_and_remainders_are_exact(name):
    family, noise = made(name), NOISE[name][2]
    with mpmath.workdps(60):
        for y, eta, tau in ((0.3, -0.4, 0.2), (5.0, -1.0, -0.6), (-4.0, 1.0, 0.1)):
            centre = mpmath.mpf(eta), mpmath.mpf(tau)
            value = exact(noise, y)
            found = family.rows.jets(np.array([[y]]), np.array([[eta], [tau]]), 3)[:, 0]
            wanted = [mpmath.diff(value, centre, (m - b, b)) for m in range(1, 4) for b in range(m + 1)]
            np.testing.assert_allclose(found[1:], [float(w) for w in wanted], rtol=1e-10, atol=1e-11)
            for order, size, direction in itertools.product(
                range(4), (1e-7, 1e-3, 0.02, 0.1, 0.3), ([1.0, 0.0], [0.0, 1.0], [0.7, -0.6])
            ):
                move = [mpmath.mpf(size * part) for part in direction]
                series = mpmath.taylor(line_of(value, centre, move), 0, order)
                left = float(value(centre[0] + move[0], centre[1] + move[1]) - sum(series))
                given = np.array([[eta], [tau]]), np.zeros((2, 1)), np.array([[float(part)] for part in move])
                got = family.rows.remainders(np.array([[y]]), *given, order)[1, 0]
                own, _ = family.rows.rounding(np.array([y]), *(part[:, 0] for part in given), order)
                allowed = 1e-10 * abs(left) + (own if size > 0.01 else 1e-13 * size ** (order + 1))
                assert abs(got - left) <= allowed, (y, order, size, direction)


def test_mixed_derivatives_are_those_of_the_recurrence():
    """h_ab from four derivatives against enclosures of the symbolic expressions, out to the far tails."""
    for name in ("logistic", "gumbel", "mixed tails"):
        formula, values, _ = NOISE[name]
        family = made(name)
        g = formulas.reduce_noise(formulas.read(formula, values, ("u",))).curves[0]
        enclosed = certify_noise.exact_mixed(g, T, values)
        for u, (a, b) in itertools.product((-50.0, -3.0, -0.2, 1e-6, 0.0, 0.7, 2.0, 9.0, 1e4), ORDERS):
            low, high = enclosed(u, a, b)
            derivatives = jet(family.curve, u, 0.0)
            size = sum(abs(u) ** j * abs(derivatives[a + j - 1]) for j in range(0 if a else 1, b + 1))
            slack = 1e-9 * max(abs(low), abs(high)) + 1e-13 * size
            assert low - slack <= mixed(family.curve, u, a, b) <= high + slack, (name, u, a, b)
            assert mixed_of_jet(*derivatives, u, a, b) == mixed(family.curve, u, a, b)


def search(name, m, less=1.0):
    """Whether bounds times `less` hold everywhere in boxes; and the least share of one that one predictor reaches."""
    rows, rng = made(name).rows, np.random.default_rng(m)
    s, t = (part.ravel() for part in np.meshgrid(np.linspace(-1, 1, 61), np.linspace(-1, 1, 61)))
    held, reached = True, []
    for _, norms in itertools.product(range(15), ([0.3, 0.2], [0.5, 0.0], [0.0, 0.4], [1e-2, 2e-2])):
        y, eta, tau = 3.0 * rng.standard_normal(3) * [1.0, 0.3, 0.2]
        radius = 2.0 * rng.random()
        given = np.array([[y]]), np.array([[eta], [tau]]), np.array(norms)[:, None]
        rise, fall, whole = less * rows.bounds(*given, radius, m)[:, 0]
        assert max(rise, fall) <= whole * (1 + 1e-12)
        at = eta + s * radius * norms[0], tau + t * radius * norms[1]
        units = [norms, [norms[0], -norms[1]], [0.6 * norms[0], 0.8 * norms[1]]]
        found = np.concatenate([along(rows, y, *at, unit, m) for unit in units])
        slack = 1e-5 * whole + 1e-11
        held &= bool(np.max(found) <= (rise if m % 2 == 0 else whole) + slack)
        held &= bool(-np.min(found) <= (fall if m % 2 == 0 else whole) + slack)
        if 0.0 in norms:
            reached.append(np.max(np.abs(found)) / whole)
    return held, min(reached)


@pytest.mark.parametrize(("name", "m"), list(itertools.product(NOISE, [1, 2, 3, 4])))
def test_bounds_hold_and_are_reached(name, m):
    """No move in a box breaks a bound, that of one predictor is reached; 1 % less would be noticed."""
    held, least = search(name, m)
    assert held
    assert least > 0.98
    assert search(name, m, less=0.99)[0] is False


def test_every_extreme_is_proved():
    """On a fine grid no h_ab turns but at a point of the certificate."""
    for name in NOISE:
        family = made(name)
        assert family.curve.low < -1e9
        assert family.curve.high > 1e9
        u = np.linspace(-12.0, 12.0, 24_001)
        derivatives = [jet(family.curve, float(x), 0.0) for x in u]
        for m in range(1, 5):
            for b, points in enumerate(family.mixed_critical_points(m)):
                values = np.array([mixed_of_jet(*d, x, m - b, b) for d, x in zip(derivatives, u, strict=True)])
                slope = np.diff(values)
                size = 1e-11 * np.max(np.abs(values[np.abs(u) < 3.0]))
                turns = np.flatnonzero((slope[1:] * slope[:-1] < 0.0) & (np.abs(slope[1:]) > size)) + 1
                for k in turns:
                    assert np.min(np.abs(points - u[k])) < 2e-3, (name, m, b, u[k])


def logistic_model(scale=None, n=300, seed=4, **given):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    y = X @ [0.5, -1.0] + 0.5 * rng.logistic(size=n)
    return tb.Regression(X, y, made("logistic", scale), FLAT, **given)


def test_posterior_is_that_of_quadrature():
    """Draws of location and log scale against a grid: means and sds, six standard errors (2e-9 each)."""
    rng = np.random.default_rng(3)
    y = 1.0 + 0.7 * rng.logistic(size=25)
    model = tb.Regression(np.ones((25, 1)), y, made("logistic", tb.priors.HalfNormal(1.0)), FLAT)
    tree = tb.sample(model, draws=8000, chains=2, seed=3, progress=False)
    assert tree.attrs["bound_violations"] == 0
    theta = [np.asarray(tree["posterior"]["beta"]).ravel(), np.log(np.asarray(tree["posterior"]["scale"]).ravel())]
    grids = [np.linspace(part.mean() - 9 * part.std(), part.mean() + 9 * part.std(), 201) for part in theta]
    location, scale = grids[0][:, None, None], np.exp(grids[1])[None, :, None]
    u = np.abs((y - location) / scale)
    log_density = np.sum(-u - 2 * np.log1p(np.exp(-u)) - np.log(scale), axis=2)
    log_density += (np.log(scale) - scale**2 / 2)[:, :, 0]
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    ess = float(tb.summary(tree)["ess_bulk"].min())
    for axis, (draws, grid) in enumerate(zip(theta, grids, strict=True)):
        marginal = density.sum(axis=1 - axis)
        mean = marginal @ grid
        sd = math.sqrt(marginal @ (grid - mean) ** 2)
        assert abs(draws.mean() - mean) < 6 * sd / math.sqrt(ess)
        assert abs(draws.std() - sd) < 6 * sd / math.sqrt(ess)


def test_known_scale_is_the_formula_in_eta_and_y():
    model = logistic_model(0.5)
    plain = tb.families.custom("softplus((y - eta)/s) + softplus(-(y - eta)/s)", s=0.5)
    other = tb.Regression(model.source.X, model.source.responses[:, 0], plain, FLAT)
    assert model.names == ["x0", "x1"]
    metric = setup_of(other, threads=1).metric
    for bound, order in itertools.product((tb.bounds.Global(), tb.bounds.Local(5.0)), (1, 2, 3)):
        psi = [bound.of_rows(m, metric, order, threads=1).drawing.psi for m in (model, other)]
        np.testing.assert_allclose(psi[0], psi[1], rtol=1e-9)


def test_explained_streamed_and_with_columns_of_its_own(tmp_path):
    model = logistic_model()
    text = str(tb.explain(model, draws=50, chains=1, verbose=True))
    assert "custom('softplus(u) + softplus(-u)')" in text
    assert "scale ~ HalfStudentT" in model.coefficient_priors.describe(model.names)
    X, y = model.source.X, model.source.responses[:, 0]
    tree = tb.sample(model, draws=100, chains=1, seed=2, progress=False)
    assert tree["posterior"]["scale"].dims == ("chain", "draw")
    pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "y": y}).to_parquet(tmp_path / "rows.parquet")
    streamed = tb.Regression(tmp_path / "rows.parquet", "y", model.family, FLAT, design=["x0", "x1"])
    drawn = tb.sample(streamed, draws=100, chains=1, seed=2, progress=False)
    assert drawn.attrs["bound_violations"] == 0
    assert float(drawn["posterior"]["scale"].mean()) == pytest.approx(0.5, rel=0.2)
    spread = tb.Regression(X, y, model.family, FLAT, scale_design=X)
    assert spread.names == ["x0", "x1", "scale_beta[z0]", "scale_beta[z1]"]
    found = tb.sample(spread, draws=100, chains=1, seed=2, progress=False)
    assert found["posterior"]["scale_beta"].shape == (1, 100, 2)


def test_predictions_are_linear_only():
    """As with other formulas, the mean and distribution of a response are not known."""
    model = logistic_model()
    tree = tb.sample(model, draws=50, chains=1, seed=2, progress=False)
    assert set(tb.predict(tree, model, kind="linear")["outcome"]) == {"location", "log(scale)"}
    for kind in ("expected", "predictive"):
        with pytest.raises(tb.errors.InputError, match="is not known for this family"):
            tb.predict(tree, model, kind=kind)
    with pytest.raises(tb.errors.InputError, match="normalising constant"):
        model.family.log_constant(np.zeros(1))


def test_rows_beyond_what_is_proved_have_no_bound():
    metric = setup_of(logistic_model(), threads=1).metric
    model = logistic_model()
    model.family._curve = model.family.curve._replace(low=-9.0, high=9.0)
    model.rows = model.family.rows
    found = tb.bounds.Local(200.0).of_rows(model, metric, 2, threads=1)
    assert 0.0 < found.radius < 200.0
    assert np.all(np.isfinite(found.drawing.psi))
    assert model.family.supremum(3) == math.inf
    assert not np.isfinite(model.rows.bounds(np.array([[30.0]]), np.zeros((2, 1)), np.ones((2, 1)), 0.1, 2)[2, 0])


def test_an_interval_that_resists_ends_the_range(monkeypatch):
    monkeypatch.setattr(certify_noise, "PIECES", 0)
    g = formulas.reduce_noise(formulas.read("softplus(u) + softplus(-u)", {}, ("u",))).curves[0]
    proved = certify_noise.certify_mixed(g, T, {}, "g")
    assert (proved.low, proved.high) == (-64.0, 64.0)


@pytest.mark.parametrize(
    ("formula", "given", "words"),
    [
        ("abs(u)", {}, "needs four derivatives"),
        ("u**2/2 + eta", {}, "the formula has u and 'eta'"),
        ("u**2/scale", {}, "the formula has u and 'scale'"),
        ("u**2*c", {}, "'c' in the formula is neither u nor a parameter"),
        ("u**2/2", {"responses": (0, 1)}, "beside a formula in u"),
        ("u**2/2", {"support": "positive"}, "beside a formula in u"),
        ("u**2/2", {"scale": -1.0}, "custom: scale=-1.0 must be a positive"),
        ("u**2/2", {"scale": "wide"}, "custom: scale='wide' must be a positive, finite number"),
        ("(y - eta)**2/s", {"s": None}, "one form only, noise of unknown scale"),
        ("(y - eta)**2/scale", {"scale": tb.priors.HalfNormal(1)}, "one form only, noise of unknown scale"),
        ("(y - eta)**2/s", {"s": "1"}, "s='1' must be a finite number"),
    ],
)
def test_what_cannot_be_used(formula, given, words):
    with pytest.raises(tb.errors.InputError, match=words):
        tb.families.custom(formula, **given)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("log1p(u**2)/4", "must have a finite integral"),  # falls as |u|^-1/2
        ("atan(u)", "must have a finite integral"),
        ("softplus(u)", "as u goes to -infinity"),
        ("sqrt(u**2)**3 + u**2", "needs four derivatives|could not be isolated|no derivatives|is not known"),
        # Its own derivatives are few enough; those by the scale as well are not.
        ("softplus(softplus(u)) + softplus(softplus(-u))", "too many to prove"),
    ],
)
def test_noise_that_cannot_be_proved_is_refused(formula, words, monkeypatch):
    monkeypatch.setattr("tallbayes.families.certify.MOST_BOXES", 2000)
    with pytest.raises((tb.errors.CertificationError, tb.errors.InputError), match=words):
        tb.families.custom(formula)


def test_noise_that_is_too_rough_is_refused(monkeypatch):
    monkeypatch.setattr("tallbayes.families.from_formula._joint_quadrature_is_right", lambda *arguments: False)
    with pytest.raises(tb.errors.CertificationError, match="where the scale changes"):
        tb.families.custom("u**2/2 + u**4/1000")


def test_messages_call_it_as_users_do():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    with pytest.raises(tb.errors.InputError, match=r"custom\(scale=1.0\)"):
        tb.Regression(X, 0 * y + 1.0, made("logistic"))
    with pytest.raises(tb.errors.InputError, match=r"custom: scale=.* was given; expected a prior of a positive"):
        tb.Regression(X, y, made("logistic", tb.priors.Normal(0, 1)))
    with pytest.raises(tb.errors.InputError, match="no global bound"):
        tb.kernels.ScalableMH(2, tb.bounds.Global()).prepare(tb.Regression(X, y, made("logistic")))
