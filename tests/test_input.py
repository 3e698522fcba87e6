"""Bad input raises one clear error that names the row, column or argument; nothing hangs or crashes."""

import math

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.errors import ExactnessError, InputError, MissingPackageError, NoModeError
from tallbayes.models import passes

N = 200
BERNOULLI = tb.families.Bernoulli()
FLAT = tb.priors.Flat()
PROPER = tb.priors.Normal(0.0, 2.5)


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    return rng.standard_normal((N, 3)), (rng.random(N) < 0.5).astype(float)


def draw(model, kernel=None, **options):
    options = {"draws": 20, "chains": 1, "seed": 1, "warmup": 20, "progress": False, **options}
    return tb.sample(model, kernel, **options)


def refused(message, X, y, *, family=BERNOULLI, **options):
    with pytest.raises(InputError, match=message):
        tb.Regression(X, y, family, **options)


# -- values --


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_design_must_be_finite(data, bad, dtype):
    X, y = data
    X = X.astype(dtype)
    X[N - 1, 1] = bad
    refused(rf"X: row {N - 1}, column 'b' is {bad}", X, y, names=["a", "b", "c"])


def test_design_is_checked_in_every_block():
    X = np.ones((70_000, 1), dtype=np.float32)
    X[66_000] = np.nan
    refused("X: row 66000, column 'x0' is nan", X, np.zeros(70_000))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("argument", ["weights", "offset"])
def test_weights_and_offset_must_be_finite(data, bad, argument):
    values = np.ones(N)
    values[3] = bad
    refused(rf"{argument}: row 3 is {bad}", *data, **{argument: values})


@pytest.mark.parametrize("family", [BERNOULLI, tb.families.StudentT(scale=1.0)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_response_must_be_finite(data, bad, family):
    X, y = data
    y[5] = bad
    refused(rf"y: row 5 is {bad}", X, y, family=family)


@pytest.mark.parametrize("bad", [-1.0, 0.5, 2.0])
def test_response_must_be_in_the_support(data, bad):
    X, y = data
    y[[7, 9]] = bad
    refused(rf"y: row 7 is {bad:g} \(2 such rows\); Bernoulli.* takes 0 or 1", X, y)


def test_response_of_many_rows_is_counted_in_its_block():
    y = np.zeros(150_000)
    y[[20_000, 20_001, 140_000]] = 3.0
    refused(
        r"y: row 20000 is 3 \(2 such rows among rows \d+ to \d+\); Bernoulli.* takes 0 or 1",
        np.ones((150_000, 1)),
        y,
    )


def test_weights_must_not_be_negative_or_all_zero(data):
    refused(r"weights: row 0 has weight -1\.0", *data, weights=np.full(N, -1.0))
    refused("weights: every row has weight 0", *data, weights=np.zeros(N))


@pytest.mark.parametrize("prior", [FLAT, PROPER, None])
def test_column_of_zeros(data, prior):
    X, y = data
    X[:, 1] = -0.0
    refused("column 'x1' is zero in every row", X, y, prior=prior)


@pytest.mark.parametrize("size", [1e80, 1e300, 1e-80, 1e-300])
def test_column_whose_powers_overflow(data, size):
    X, y = data
    refused("column 'x2' has values up to .* Rescale", X * [1.0, 1.0, size], y)


# -- types and shapes --


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.astype(object), "X: dtype object"),
        (lambda X: X.astype(str), "X: dtype <U32 was given; expected numbers"),
        (lambda X: X.astype(complex), "X: dtype complex128"),
        (lambda X: None, "X: dtype object"),
        (lambda X: [[1.0, 2.0], [3.0]], "X: not a table of numbers"),
        (lambda X: np.ma.masked_greater(X, 1.0), "X: some values are masked"),
        (lambda X: X[:, 0], r"X: shape \(200,\) was given; expected two dimensions"),
        (lambda X: X[None], r"X: shape \(1, 200, 3\)"),
        (lambda X: X[:0], r"X: shape \(0, 3\) was given; at least one row"),
        (lambda X: X[:, :0], r"X: shape \(200, 0\) was given; at least one row"),
    ],
)
def test_design_that_is_no_table_of_numbers(data, change, message):
    X, y = data
    refused(message, change(X), y)


def test_sparse_design(data):
    from scipy.sparse import csr_array

    X, y = data
    refused(r"X: a sparse matrix.*toarray", csr_array(X), y)


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("weights", np.ones(5), r"weights: shape \(5,\) was given; expected \(200,\)"),
        ("weights", "heavy", "weights: dtype <U5"),
        ("offset", np.ones((N, 1)), r"offset: shape \(200, 1\)"),
        ("names", ["a", "b"], "names: 2 were given; X has 3 columns"),
        ("names", ["a", "b", "a"], "names: 'a' stands for more than one column"),
        ("names", "abc", "names: 'abc' was given; expected a list"),
        ("prior", "flat", "prior: 'flat' was given"),
        ("family", "logistic", "family: 'logistic' was given"),
        ("family", tb.families.Bernoulli, "family: .*Bernoulli"),
    ],
)
def test_arguments_of_regression(data, argument, value, message):
    refused(message, *data, **{argument: value})


def test_response_of_another_length(data):
    X, y = data
    refused(r"y: shape \(199,\) was given; X has 200 rows", X, y[:-1])
    refused("y: dtype object", X, y.astype(object))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16, ">f8", np.longdouble])
def test_other_number_types_are_converted(data, dtype):
    X, y = data
    X = np.abs(np.round(X * 4.0)).astype(dtype)
    model = tb.Regression(X, y.astype(bool), BERNOULLI)
    np.testing.assert_array_equal(model.source.X, X.astype(np.float64))
    np.testing.assert_array_equal(model.source.responses[:, 0], y)


def test_lists_and_a_response_in_a_column(data):
    X, y = data
    model = tb.Regression(X.tolist(), y[:, None].tolist(), BERNOULLI, weights=2.0, offset=1.0)
    assert (model.n, model.d, model.names) == (N, 3, ["x0", "x1", "x2"])


class TestDataFrame:
    @pytest.fixture
    def frame(self, data):
        return pd.DataFrame(data[0], columns=["a", "b", "c"])

    def test_names_come_from_the_columns(self, frame, data):
        model = tb.Regression(frame, pd.Series(data[1]), BERNOULLI)
        assert model.names == ["a", "b", "c"]
        assert tb.Regression(frame, data[1], BERNOULLI, names=["u", "v", "w"]).names == ["u", "v", "w"]

    def test_columns_of_different_number_types(self, frame, data):
        frame["flag"] = frame["a"] > 0.0
        frame["count"] = pd.array([1, 2, 3, 4] * (N // 4), dtype="Int64")
        model = tb.Regression(frame, pd.Series(data[1], dtype="boolean"), BERNOULLI)
        np.testing.assert_array_equal(model.source.X[:4, 4], [1.0, 2.0, 3.0, 4.0])
        np.testing.assert_array_equal(model.source.responses[:, 0], data[1])

    def test_missing_numbers(self, frame, data):
        frame["count"] = pd.array([1, None, 3, 4] * (N // 4), dtype="Int64")
        refused("X: row 1, column 'count' is nan", frame, data[1])
        refused("y: row 2 is nan", frame[["a"]], pd.array([0, 1, None, 1] * (N // 4), dtype="Int64"))

    @pytest.mark.parametrize(
        "values",
        [["u", "v"] * (N // 2), pd.Categorical(["u", "v"] * (N // 2)), pd.date_range("2020-01-01", periods=N)],
    )
    def test_columns_without_numbers_are_named(self, frame, data, values):
        frame["kind"] = values
        refused("X: column 'kind' has dtype .* expected numbers", frame, data[1])

    @pytest.mark.parametrize("kind", [list, np.array, pd.Series, pd.Categorical, lambda y: pd.DataFrame({"y": y})])
    def test_labels_as_responses(self, frame, kind):
        labels = kind(["u", "v"] * (N // 2))
        for family in (BERNOULLI, tb.families.Categorical(["u", "v"])):
            refused("y: .*their numbers from 0 on, .* or use tb.glm", frame[["a"]], labels, family=family)

    def test_repeated_columns(self, frame, data):
        frame.columns = ["a", "a", "c"]
        refused("names: 'a' stands for more than one column", frame, data[1])


def test_a_design_of_the_scale_is_called_by_its_name(data, tmp_path):
    X = data[0][:, 1:3] + np.arange(N)[:, None] / N
    family, y, holes, zeros = tb.families.Gaussian(), X[:, 0] ** 2, X.copy(), X.copy()
    holes[41, 1], zeros[:, 0] = math.nan, 0.0
    refused("^scale_design: row 41, column 'z1' is nan", X, y, family=family, scale_design=holes)
    refused(r"^scale_design: shape \(\d+,\) was given", X, y, family=family, scale_design=X[:, 0])
    refused("^scale_design: column 'z0' is zero in every row", X, y, family=family, scale_design=zeros)
    refused("^X: row 41, column 'x1' is nan", holes, y, family=family, scale_design=X)
    refused("^scale_design: dtype", X, y, family=family, scale_design=X.astype(str))
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"y": y, "a": X[:, 0], "b": holes[:, 1]}).to_parquet(path)
    named = {"design": ["a"], "scale_design": ["b"]}
    refused("^scale_design: row 41, column 'b' is nan", path, "y", family=family, **named)


# -- arguments of families, priors, proposals, bounds, kernels, sample, summary --


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.families.Bernoulli("probt"), "link='probt' is not known"),
        (lambda: tb.families.StudentT(df=0.0, scale=1.0), r"df=0\.0 must be a positive"),
        (lambda: tb.families.StudentT(scale=math.nan), "scale=nan must be a positive"),
        (lambda: tb.families.StudentT(df=math.inf, scale=1.0), "df=inf must be a positive"),
        (lambda: tb.priors.WeaklyInformative(0.0), r"strength=0\.0 must be a positive"),
        (lambda: tb.priors.WeaklyInformative("strong"), "strength='strong' must be a positive"),
        (lambda: tb.proposals.RandomWalk(-1.0), r"RandomWalk: scale=-1\.0 must be a positive"),
        (lambda: tb.proposals.RandomWalk("wide"), "RandomWalk: scale='wide' must be a positive"),
        (lambda: tb.proposals.PreconditionedWalk(math.inf), "PreconditionedWalk: scale=inf"),
        (lambda: tb.proposals.FirstOrderReversible(math.nan), "FirstOrderReversible: scale=nan"),
        (lambda: tb.proposals.CrankNicolson(rho=1.0), r"rho=1\.0 must satisfy 0 <= rho < 1"),
        (lambda: tb.proposals.CrankNicolson(rho=math.nan), "rho=nan must satisfy"),
        (lambda: tb.proposals.CrankNicolson(walk_every=-1), "walk_every=-1 must be a whole number, 0 or more"),
        (lambda: tb.proposals.SurrogateSteps(steps=4), "steps=4 must be 3, 5, 7"),
        (lambda: tb.kernels.ScalableMH(sketch="yes"), "sketch='yes' must be True or False"),
        (lambda: tb.kernels.ScalableMH(core=1), "core=1 must be True or False"),
        (
            lambda: tb.kernels.MetropolisHastings(tb.proposals.CrankNicolson(tabulated=True)),
            "draws from tables of the surrogate, which this kernel does not have",
        ),
        (lambda: tb.proposals.SurrogateSteps(keep=1.0), r"keep=1\.0 must satisfy 0 <= keep < 1"),
        (lambda: tb.proposals.SurrogateSteps(walk_every=1), "walk_every=1 must be a whole number, 2 or more"),
        (lambda: tb.proposals.SurrogateSteps(walk_scale=0.0), r"walk_scale=0\.0 must be a positive"),
        (lambda: tb.bounds.Local(radius=0.0), r"radius=0\.0 must be positive"),
        (lambda: tb.bounds.Local(radius=math.nan), "radius=nan must be positive"),
        (lambda: tb.kernels.ScalableMH(order=4), "order=4 must be 1, 2 or 3"),
        (lambda: tb.kernels.ScalableMH(order=True), "order=True must be 1, 2 or 3"),
        (lambda: tb.kernels.ScalableMH(order=2.0), r"order=2\.0 must be 1, 2 or 3"),
        (lambda: tb.kernels.ScalableMH(bound="local"), r"bound='local' was given; expected e\.g\. tb\.bounds"),
        (lambda: tb.kernels.ScalableMH(bound=tb.bounds.Local), "bound=.* was given"),
        (lambda: tb.kernels.ScalableMH(proposal="pcn"), r"proposal='pcn' was given; expected e\.g\. tb\.proposals"),
        (lambda: tb.kernels.ScalableMH(truncation="n"), "ScalableMH: truncation='n'"),
        (lambda: tb.kernels.MetropolisHastings("walk"), "MetropolisHastings: proposal='walk' was given"),
        (lambda: tb.kernels.FactorisedMH("walk"), "FactorisedMH: proposal='walk' was given"),
        (lambda: tb.bounds.Local("wide"), "radius='wide' must be positive"),
        (lambda: tb.families.StudentT("four"), "df='four' must be a positive"),
        (lambda: tb.proposals.RandomWalk(True), "RandomWalk: scale=True must be a positive"),
        (
            lambda: tb.kernels.ScalableMH(bound=tb.bounds.Global(), sketch=True),
            "sketch=True needs local bounds",
        ),
        (lambda: tb.kernels.ScalableMH(truncation=-1.0), r"ScalableMH: truncation=-1\.0"),
        (lambda: tb.kernels.FactorisedMH(truncation=math.nan), "FactorisedMH: truncation=nan"),
    ],
)
def test_arguments_of_parts(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_numbers_may_be_numpy_scalars(data):
    kernel = tb.kernels.ScalableMH(
        order=np.int64(2),
        bound=tb.bounds.Local(np.float32(6.0)),
        proposal=tb.proposals.CrankNicolson(np.float32(0.5), walk_every=np.int64(4)),
        truncation=np.int64(50),
    )
    tree = draw(tb.Regression(*data, tb.families.StudentT(np.float32(4.0), np.int64(1))), kernel)
    assert np.all(np.isfinite(tree["posterior"]["beta"]))
    tb.proposals.SurrogateSteps(steps=np.int64(5), keep=np.float32(0.5))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (
            tb.priors.Normal(np.zeros(2), 1.0),
            r"mean has shape \(2,\); expected one number, or one for each of the 3",
        ),
        (tb.priors.Normal(0.0, np.ones((3, 1))), r"scale has shape \(3, 1\)"),
        (tb.priors.Normal(math.inf, 1.0), "mean=inf must be finite"),
        (tb.priors.Normal(0.0, math.nan), "scale=nan must be finite"),
        (tb.priors.Normal(0.0, [1.0, 0.0, 1.0]), "must be positive .* use Flat"),
        (tb.priors.Normal(0.0, 1e-200), "must be positive .* use Flat"),
        (tb.priors.Normal("zero", 1.0), "mean='zero' must be a number"),
    ],
)
def test_normal_prior(data, prior, message):
    refused(message, *data, prior=prior)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws=0 must be a whole number, 1 or more"),
        ({"draws": 10**12}, r"draws=1,000,000,000,000 from 4 chains of .* GB, and this machine has"),
        ({"draws": 10**20}, "and this machine has"),
        ({"draws": 2.5}, r"draws=2\.5 must be a whole number"),
        ({"draws": True}, "draws=True must be a whole number"),
        ({"chains": -1}, "chains=-1 must be a whole number"),
        ({"warmup": -1}, "warmup=-1 must be a whole number, 0 or more"),
        ({"threads": 0}, "threads=0 must be a whole number"),
        ({"chunk": 0}, "chunk=0 must be a whole number"),
        ({"seed": -1}, "seed=-1 must be a whole number, 0 or more"),
        ({"seed": 1.5}, r"seed=1\.5 must be a whole number"),
        ({"kernel": "nuts"}, "kernel='nuts' was given; expected e.g. tb.kernels.ScalableMH"),
        ({"kernel": tb.kernels.ScalableMH}, "kernel=.*was given; expected e.g. tb.kernels.ScalableMH"),
    ],
)
def test_arguments_of_sample(data, options, message):
    with pytest.raises(InputError, match=message):
        tb.sample(tb.Regression(*data, BERNOULLI), **options)


def test_sample_wants_a_model(data):
    with pytest.raises(InputError, match=r"sample: model is a ndarray; expected a tb\.Regression"):
        tb.sample(data[0])


def test_arguments_of_explain(data):
    with pytest.raises(InputError, match=r"explain: model is a ndarray; expected a tb\.Regression"):
        tb.explain(data[0])
    with pytest.raises(InputError, match=r"explain: kernel='nuts' was given"):
        tb.explain(tb.Regression(*data, BERNOULLI), "nuts")


def test_arguments_of_summary(data):
    tree = draw(tb.Regression(*data, BERNOULLI))
    with pytest.raises(InputError, match="must lie strictly between 0 and 1"):
        tb.summary(tree, probs=(0.0, 0.5))
    with pytest.raises(InputError, match=r"the tree has no posterior\['beta'\]"):
        tb.summary(tree["sample_stats"])
    with pytest.raises(InputError, match=r"give a result of tb\.sample"):
        tb.summary(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"give a result of tb\.sample"):
        tb.verdict(np.zeros((2, 3)))
    with pytest.raises(InputError, match="the tree has no laplace group"):
        tb.laplace_check(tree["sample_stats"])


def test_family_without_a_global_bound(data, monkeypatch):
    monkeypatch.setattr(tb.families.Bernoulli, "supremum", lambda self, m: math.inf)
    with pytest.raises(InputError, match=r"no global bound of order 2.*tb\.bounds\.Local"):
        draw(tb.Regression(*data, BERNOULLI), tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global()))


def test_broken_bound_withholds_the_draws(data, monkeypatch):
    honest = passes.global_bounds

    def too_small(*args):
        found = honest(*args)
        return found._replace(psi=found.psi * 1e-3)

    monkeypatch.setattr(passes, "global_bounds", too_small)
    kernel = tb.kernels.ScalableMH(order=1, bound=tb.bounds.Global())
    with pytest.raises(ExactnessError, match=r"exceeded their proved bound.*MetropolisHastings"):
        draw(tb.Regression(*data, BERNOULLI), kernel, draws=2000)


def test_pictures_without_matplotlib(data, monkeypatch):
    import sys

    from tallbayes.plots import plot_densities

    tree = draw(tb.Regression(*data, BERNOULLI))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'tallbayes\[plot\]'"):
        plot_densities(tree)


# -- posteriors that do not exist under a flat prior, and do under a proper one --


def _separated_by_a_column(rng):
    X = rng.standard_normal((N, 3))
    return X, X[:, 1] > 0.0, "separated by 'x1':"


def _separated_by_a_combination(rng):
    X = rng.standard_normal((N, 3))
    return X, X @ [1.0, -2.0, 0.5] > 0.0, "separated by 'x0', 'x1', 'x2':"


def _quasi_separated_by_an_indicator(rng):
    indicator = rng.random(N) < 0.05
    X = np.column_stack([np.ones(N), rng.standard_normal(N), indicator])
    return X, (rng.random(N) < 0.4) | indicator, "separated by 'x2':"


def _quasi_separated_with_ties(rng):
    x = np.round(rng.standard_normal(N))
    return np.column_stack([np.ones(N), x]), np.where(x == 0, rng.random(N) < 0.5, x > 0), "separated by 'x1':"


def _constant_response(rng):
    return np.column_stack([np.ones(N), rng.standard_normal((N, 2))]), np.zeros(N), "separated by 'x0':"


def _one_row(rng):
    return np.ones((1, 1)), np.ones(1), "separated by 'x0':"


def _one_row_of_many_columns(rng):
    return rng.standard_normal((1, 3)), np.ones(1), "'x0', 'x1', 'x2' are linearly dependent"


def _repeated_column(rng):
    X = rng.standard_normal((N, 3))
    return np.column_stack([X, X[:, 0]]), rng.random(N) < 0.5, "'x0', 'x3' are linearly dependent"


def _dependent_columns(rng):
    X = rng.standard_normal((N, 3))
    return np.column_stack([X, X @ [1.0, 0.0, 3.0]]), rng.random(N) < 0.5, "'x0', 'x2', 'x3' are linearly dep"


def _fewer_rows_than_columns(rng):
    return (
        rng.standard_normal((5, 8)),
        np.array([0, 1, 0, 1, 1]),
        "are linearly dependent, to rounding .5 rows.",
    )


NOT_INTEGRABLE = [
    _separated_by_a_column,
    _separated_by_a_combination,
    _quasi_separated_by_an_indicator,
    _quasi_separated_with_ties,
    _constant_response,
    _one_row,
    _one_row_of_many_columns,
    _repeated_column,
    _dependent_columns,
    _fewer_rows_than_columns,
]


@pytest.mark.parametrize("make", NOT_INTEGRABLE)
def test_flat_prior_is_refused(make):
    X, y, message = make(np.random.default_rng(2))
    with pytest.raises(NoModeError, match=rf"{message}.*prior=tb\.priors\.Normal"):
        draw(tb.Regression(X, y, BERNOULLI, FLAT))


@pytest.mark.parametrize("prior", [PROPER, None])
@pytest.mark.parametrize("make", NOT_INTEGRABLE)
def test_proper_prior_makes_a_posterior(make, prior):
    X, y, _ = make(np.random.default_rng(2))
    tree = draw(tb.Regression(X, y, BERNOULLI, prior))
    assert np.all(np.isfinite(tree["posterior"]["beta"]))


def test_prior_flat_in_the_separated_direction_only():
    X, y, _ = _quasi_separated_by_an_indicator(np.random.default_rng(2))
    loose, tight = tb.priors.Normal(0.0, [1.0, 1.0, 50.0]), tb.priors.Normal(0.0, [50.0, 50.0, 1.0])
    for prior in (loose, tight):
        assert np.all(np.isfinite(draw(tb.Regression(X, y, BERNOULLI, prior))["posterior"]["beta"]))


@pytest.mark.parametrize("events", [3, 3000])
def test_separation_in_a_large_design(events):
    """Few Newton steps reach the loose tolerance of large designs: a rare column must be found all the same."""
    rng = np.random.default_rng(3)
    n, d = 600_000, 9
    X = rng.standard_normal((n, d), dtype=np.float32)
    X[:, 0], X[:, -1] = 1.0, 0.0
    y = rng.random(n) < 0.3
    rare = rng.choice(n, size=events, replace=False)
    X[rare, -1] = 1.0
    y[rare] = True
    with pytest.raises(NoModeError, match="separated by 'x8':"):
        draw(tb.Regression(X, y, BERNOULLI, FLAT))


def test_no_curvature_along_one_column(data):
    X, y = data
    X[::2, 1], weights = 0.0, np.tile([1.0, 0.0], N // 2)
    with pytest.raises(NoModeError, match="say nothing about the coefficient of 'x1'"):
        draw(tb.Regression(X, y, BERNOULLI, FLAT, weights=weights))


def test_separation_ignores_rows_of_weight_zero():
    X, y, _ = _separated_by_a_column(np.random.default_rng(2))
    X, y = np.vstack([X, X[:1]]), np.append(y, ~y[:1])
    weights = np.append(np.ones(N), 0.0)
    with pytest.raises(NoModeError, match="separated by 'x1'"):
        draw(tb.Regression(X, y, BERNOULLI, FLAT, weights=weights))


def test_nearly_separated_is_no_error():
    """One row on the wrong side: a mode exists, far out."""
    rng = np.random.default_rng(4)
    x = np.sort(rng.standard_normal(N))
    y = x > 0.0
    y[np.searchsorted(x, 0.0) - 1] = True
    y[np.searchsorted(x, 0.0)] = False
    tree = draw(tb.Regression(np.column_stack([np.ones(N), x]), y, BERNOULLI, FLAT))
    assert np.all(np.isfinite(tree["posterior"]["beta"]))


def test_heavy_tailed_columns_are_no_separation():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(N), np.exp(4.0 * rng.standard_normal(N))])
    y = np.arange(N) % 10 == 0
    assert np.all(np.isfinite(draw(tb.Regression(X, y, BERNOULLI, FLAT))["posterior"]["beta"]))


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X * [1.0, 1e8, 1e-8],
        lambda X: X * [1.0, 1e60, 1e-60],
        lambda X: np.column_stack([np.ones(N), 1e6 + X[:, 0]]),
        lambda X: np.column_stack([X, X[:, 0] + 1e-6 * X[:, 1] ** 2]),
    ],
)
def test_badly_scaled_designs_have_a_posterior(data, change):
    X, y = data
    tree = draw(tb.Regression(change(X), y, BERNOULLI, FLAT))
    assert np.all(np.isfinite(tree["posterior"]["beta"]))
    assert tree.attrs["bound_violations"] == 0


def test_search_that_does_not_end(data, monkeypatch):
    monkeypatch.setattr("tallbayes.setup.mode.LIMIT", 1)
    monkeypatch.setattr("tallbayes.setup.mode.PATIENCE", 0)
    with pytest.raises(NoModeError, match=r"No mode was found in 1 Newton steps"):
        draw(tb.Regression(*data, BERNOULLI, FLAT))


def test_search_that_cannot_descend(data, monkeypatch):
    honest = passes.derivatives
    values = iter(range(10**6))

    def rising(*args):
        _, gradient, hessian = honest(*args)
        return 1e9 * next(values), gradient, hessian

    monkeypatch.setattr(passes, "derivatives", rising)
    with pytest.raises(NoModeError, match="no step lowers the negative log posterior"):
        draw(tb.Regression(*data, BERNOULLI, FLAT))


@pytest.mark.parametrize("outlier", [1e3, 1e9])
def test_student_t_with_outliers(data, outlier):
    X, _ = data
    y = X @ [1.0, -1.0, 0.5] + np.random.default_rng(6).standard_t(4, N)
    y[:20] += outlier
    tree = draw(tb.Regression(X, y, tb.families.StudentT(4.0, scale=1.0), FLAT))
    np.testing.assert_allclose(tree["laplace"]["mode"], [1.0, -1.0, 0.5], atol=0.5)


def test_student_t_with_dependent_columns(data):
    X, y = data
    with pytest.raises(NoModeError, match="'x0', 'x3' are linearly dependent"):
        draw(tb.Regression(np.column_stack([X, -X[:, 0]]), y, tb.families.StudentT(scale=1.0), FLAT))
