"""Formulas: the design they make, what is kept of it, and that no order, kind of data or file changes it."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from formulaic import model_matrix

import tallbayes as tb
from tallbayes.errors import InputError
from tallbayes.formulas import restore
from tallbayes.formulas import survey as surveys
from tallbayes.formulas.columns import codes_of, load, plain_level
from tallbayes.formulas.formula import read_formula
from tallbayes.formulas.learning import learn
from tallbayes.formulas.recipe import Recipe, ToBlock
from tallbayes.models.variables import Shift
from tallbayes.results.draws import shown_names
from tallbayes.sources.mapped import MappedSource
from tallbayes.sources.tables import open_table

BERNOULLI = tb.families.Bernoulli()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    n = 400
    return pd.DataFrame(
        {
            "y": (rng.random(n) < 0.4).astype(int),
            "x": rng.standard_normal(n),
            "z": rng.random(n) + 1.0,
            "g": rng.choice(["c", "a", "b"], n),
            "h": rng.choice(["u", "v"], n),
            "m": rng.integers(1, 5, n),
            "flag": rng.random(n) < 0.3,
            "my col": rng.standard_normal(n),
        }
    )


def matrix(model):
    return np.asarray(model.source.X)


def whole(source):
    """Return all rows of a source: design, responses, weights, offsets."""
    blocks = list(source.blocks())
    parts = [np.concatenate([np.asarray(block[k]) for block in blocks]) for k in (1, 2)]
    for name in ("weight", "offset"):
        parts.append(np.concatenate([np.broadcast_to(getattr(b, name), b.count) for b in blocks]))
    return parts


FORMULAS = [
    "y ~ x + g",
    "y ~ 0 + g + h",
    "y ~ g * h * x",
    "y ~ g:h - 1",
    "y ~ x:g + h",
    "y ~ bs(x, df=5) * g",
    "y ~ bs(x, df=6, include_intercept=True) - 1",
    "y ~ cr(x, df=4) + poly(z, 2) + cc(x, df=3)",
    "y ~ cs(x, df=5, constraints='center')",
    "y ~ scale(x) + center(z):h + standardize(z)",
    "y ~ bs(scale(x), df=4)",
    "y ~ C(m) + C(m, Sum):x",
    "y ~ C(g, contr.treatment(base='b')) * C(m, Helmert)",
    "y ~ C(g, Treatment('c')) + C(m, contr.poly) + C(h, Diff)",
    "y ~ C(m, levels=[4, 3, 2, 1])",
    "y ~ log(z) + I(x**2) + {x * z} + np.sqrt(z) + exp(x)",
    "y ~ flag + x:flag",
    "y ~ 2:x + g:h:x",
    "y ~ `my col` + abs(`my col`)",
    "y ~ (x + z + g)**2 - x:z",
    "y ~ 1",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_design_is_that_of_formulaic(frame, formula):
    """formulaic evaluates the whole formula by itself here; we take codings and transforms from it, not columns."""
    model = tb.glm(formula, frame, BERNOULLI, collapse=False)
    expected = model_matrix(formula.split("~")[1], frame.rename(columns={}))
    assert model.names == list(expected.columns)
    np.testing.assert_allclose(matrix(model), expected.to_numpy(dtype=float), rtol=0, atol=1e-14)


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_is_kept_makes_the_same_rows_again(frame, formula):
    model = tb.glm(formula, frame, BERNOULLI, collapse=False)
    kept = restore(json.dumps(json.loads(model.to_json())))
    few = frame.iloc[[5, 17, 300]]  # too few to learn anything from
    X, y, *_ = whole(kept.rows_of(few))
    assert np.array_equal(X, matrix(model)[[5, 17, 300]])
    assert np.array_equal(y[:, 0], frame["y"].to_numpy()[[5, 17, 300]])
    assert kept.names == model.names
    assert kept.variables == model.variables
    assert kept.formula == formula
    assert repr(kept.family) == repr(model.family)


def test_names_that_mean_something_else(frame):
    named = frame.rename(columns={"x": "Sum", "z": "log", "m": 0, "my col": "a.b"})
    model = tb.glm("y ~ exp(Sum) + log(log) + C(`0`, Sum) + `0` + log(abs(`a.b`))", named, BERNOULLI)
    names = [
        "exp(Sum)",
        "log(log)",
        "C(`0`, Sum)[S.1]",
        "C(`0`, Sum)[S.2]",
        "C(`0`, Sum)[S.3]",
        "0",
        "log(abs(`a.b`))",
    ]
    assert model.names == ["Intercept", *names]
    expected = [np.exp(frame["x"]), np.log(frame["z"]), frame["m"], np.log(np.abs(frame["my col"]))]
    np.testing.assert_allclose(matrix(model)[:, [1, 2, 6, 7]], np.column_stack(expected))


def test_dot_is_all_other_columns(frame):
    model = tb.glm("y ~ .", frame[["y", "x", "g"]], BERNOULLI)
    assert model.names == ["Intercept", "x", "g[T.b]", "g[T.c]"]


# -- the same from everywhere --


def other_order(frame):
    """Return the frame with categories in an order of their own, one of them never used."""
    return frame.assign(g=pd.Categorical(frame["g"], categories=["b", "unused", "c", "a"], ordered=True))


def as_csv(frame, path):
    frame.to_csv(path / "data.csv", index=False)
    return path / "data.csv"


def as_tsv(frame, path):
    frame.to_csv(path / "data.tsv.gz", index=False, sep="\t")
    return str(path / "data.tsv.gz")


def as_parquet(frame, path):
    pq.write_table(pa.Table.from_pandas(frame), path / "data.parquet", row_group_size=90)
    return str(path / "data.parquet")


def as_folder(frame, path):
    for part in range(4):
        frame.iloc[100 * part : 100 * part + 100].to_parquet(path / f"{part}.parquet")
    return path


def as_dask(frame, path):
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(frame, npartitions=3)


def as_relation(frame, path):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.read_parquet(as_parquet(frame, path))


KINDS = {
    "pandas, other order": lambda frame, path: other_order(frame),
    "pandas, arrow types": lambda frame, path: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda frame, path: pl.from_pandas(frame),
    "polars, categorical": lambda frame, path: pl.from_pandas(frame).with_columns(pl.col("g").cast(pl.Categorical)),
    "polars, enum": lambda frame, path: pl.from_pandas(frame).with_columns(
        pl.col("g").cast(pl.Enum(["c", "b", "a"]))
    ),
    "polars, lazy": lambda frame, path: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame, path: pa.Table.from_pandas(frame),
    "arrow, dictionary": lambda frame, path: pa.Table.from_pandas(other_order(frame)),
    "arrow, stream": lambda frame, path: pa.Table.from_pandas(frame).to_reader(max_chunksize=70),
    "dictionary": lambda frame, path: {name: frame[name].tolist() for name in frame},
    "csv": as_csv,
    "tsv": as_tsv,
    "parquet": as_parquet,
    "parquet, folder": as_folder,
    "parquet, dictionary": lambda frame, path: as_parquet(other_order(frame), path),
    "dask": as_dask,
    "duckdb": as_relation,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [False, True])
def test_every_kind_of_data_gives_the_same_model(frame, kind, missing, tmp_path):
    frame = frame.drop(columns="my col")
    if missing:
        frame = frame.astype({"m": float})
        frame.loc[[3, 30], "x"] = np.nan
        frame.loc[[3, 31], "g"] = None
        frame.loc[32, "m"] = np.nan
    formula, how = "y ~ bs(x, df=5) + g * flag + C(m)", "drop" if missing else "error"
    first = tb.glm(formula, frame, BERNOULLI, missing=how)
    other = tb.glm(formula, KINDS[kind](frame, tmp_path), BERNOULLI, missing=how)
    assert other.names == first.names
    assert other.variables == first.variables
    for ours, theirs in zip(whole(first.source), whole(other.source), strict=True):
        assert np.array_equal(ours, theirs)
    assert first.n == (396 if missing else 400)
    if missing:
        assert "4 of 400 rows (column 'g' in 2, 'm' in 1, 'x' in 2)" in repr(other)


@pytest.mark.parametrize("kind", ["parquet", "polars, lazy", "duckdb", "arrow", "dask"])
def test_streamed_rows_are_the_same_rows(frame, kind, tmp_path):
    frame = frame.drop(columns="my col")
    frame.loc[[3, 30], "x"] = np.nan
    formula = "y ~ cr(x, df=4) * h + g + offset(log(z))"
    kept = tb.glm(formula, frame, BERNOULLI, missing="drop", weights="m")
    streamed = tb.glm(formula, KINDS[kind](frame, tmp_path), BERNOULLI, missing="drop", weights="m", stream=True)
    for ours, theirs in zip(whole(kept.source), whole(streamed.source), strict=True):
        assert np.array_equal(ours, theirs)
    assert "block by block" in repr(streamed)
    assert streamed.source.passes > 0
    np.testing.assert_allclose(kept.coefficient_priors.scale, streamed.coefficient_priors.scale, rtol=1e-12)


def test_the_order_of_rows_changes_only_the_order_of_rows(frame):
    """Levels, knots and equal rows put together do not depend on it."""
    order = np.random.default_rng(0).permutation(len(frame))
    for formula in ("y ~ bs(x, df=5) + g", "y ~ g * h + C(m)"):
        long = pd.concat([frame] * 3, ignore_index=True) if "bs" not in formula else frame
        order = np.random.default_rng(0).permutation(len(long))
        first, other = tb.glm(formula, long, BERNOULLI), tb.glm(formula, long.iloc[order], BERNOULLI)
        assert first.names == other.names
        if first.n == len(long):
            np.testing.assert_allclose(matrix(first)[order], matrix(other), rtol=0, atol=1e-14)
        else:
            for ours, theirs in zip(whole(first.source), whole(other.source), strict=True):
                assert np.array_equal(ours, theirs)


def test_a_sample_of_very_many_rows_has_knots_at_the_ends_of_all(frame, monkeypatch):
    monkeypatch.setattr(surveys, "MOST_KEPT", 50)
    model = tb.glm("y ~ bs(x, df=5) + g", frame, BERNOULLI)
    (state,) = model.recipe.design.states.values()
    assert (state["lower_bound"], state["upper_bound"]) == (frame["x"].min(), frame["x"].max())
    inner = np.quantile(np.r_[frame["x"].to_numpy()[::8], frame["x"].min(), frame["x"].max()], [1 / 3, 2 / 3])
    np.testing.assert_allclose(state["knots"][4:6], inner)
    assert "from every 8th row" in repr(model)


def test_a_sample_is_not_lost_where_values_are_missing_periodically(frame, monkeypatch):
    monkeypatch.setattr(surveys, "MOST_KEPT", 50)
    monkeypatch.setattr(surveys, "MOST_DESCRIBED", 50)
    holes = frame.copy()
    holes.loc[::8, ["x", "z"]] = np.nan
    model = tb.glm("y ~ bs(x, df=5) + z", holes, BERNOULLI, missing="drop")
    assert model.n == 350
    assert model.variables["z"].quantiles[0.5] == pytest.approx(frame["z"].median(), abs=0.2)


# -- responses, offsets, weights --


def test_a_response_of_two_levels_says_which_is_the_event(frame):
    text = frame.assign(y=np.where(frame["y"] == 1, "yes", "no"))
    model = tb.glm("y ~ x", text, BERNOULLI)
    assert np.array_equal(model.source.responses[:, 0], frame["y"])
    assert "the event is 'yes', against 'no'" in repr(model)
    turned = tb.glm("C(y, levels=['yes', 'no']) ~ x", text, BERNOULLI)
    assert np.array_equal(turned.source.responses[:, 0], 1 - frame["y"])
    chosen = tb.glm("{y == 'no'} ~ x", text, BERNOULLI)
    assert np.array_equal(chosen.source.responses[:, 0], 1 - frame["y"])
    several = tb.glm("I(g in ['a', 'c']) ~ x", text, BERNOULLI)
    assert np.array_equal(several.source.responses[:, 0], frame["g"].isin(["a", "c"]))
    others = tb.glm("I(g not in ['a', 'c']) ~ I(m in [1, 2]) + I('u' != h)", text, BERNOULLI, collapse=False)
    assert np.array_equal(others.source.responses[:, 0], frame["g"] == "b")
    assert np.array_equal(matrix(others)[:, 1:], np.column_stack([frame["m"] <= 2, frame["h"] == "v"]))


def test_transformed_responses(frame):
    model = tb.glm("log(z) ~ x", frame, tb.families.Gaussian(1.0))
    np.testing.assert_allclose(model.source.responses[:, 0], np.log(frame["z"]))
    model = tb.glm("scale(z) ~ x", frame, tb.families.Gaussian(1.0))
    np.testing.assert_allclose(model.source.responses[:, 0], (frame["z"] - frame["z"].mean()) / frame["z"].std())


def test_successes_out_of_trials(frame):
    family = tb.families.Binomial(link="probit")
    model = tb.glm("p(y, m) ~ x", frame, family)
    plain = tb.Regression(
        np.column_stack([np.ones(len(frame)), frame["x"]]),
        frame["y"].to_numpy(),
        tb.families.Binomial(frame["m"].to_numpy(), link="probit"),
    )
    for ours, theirs in zip(whole(model.source), whole(plain.source), strict=True):
        assert np.array_equal(ours, theirs)
    together = tb.glm("p(y, m) ~ g", pd.concat([frame] * 4), family)
    assert together.n <= 24
    assert together.source.weight.sum() == 4 * frame["m"].sum()


def test_offsets_and_weights_by_name_expression_and_array(frame):
    expected = np.log(frame["z"].to_numpy())
    for offset, formula in (("log(z)", "y ~ x"), (expected, "y ~ x"), (None, "y ~ x + offset(log(z))")):
        model = tb.glm(formula, frame, BERNOULLI, offset=offset, weights="m")
        np.testing.assert_allclose(model.source.offset, expected)
        assert np.array_equal(model.source.weight, frame["m"])
        assert model.names == ["Intercept", "x"]
    both = tb.glm("y ~ x + offset(x)", frame, BERNOULLI, offset="my col", weights=frame["m"].to_numpy())
    np.testing.assert_allclose(both.source.offset, frame["x"] + frame["my col"])
    assert np.array_equal(both.source.weight, frame["m"])
    one = tb.glm("y ~ x", frame, BERNOULLI, offset=0.5)
    assert np.all(one.source.offset == 0.5)


def test_arrays_beside_the_data_lose_the_same_rows(frame):
    holes = frame.copy()
    holes.loc[[0, 7], "x"] = np.nan
    offset = np.arange(len(frame), dtype=float)
    model = tb.glm("y ~ x", holes, BERNOULLI, offset=offset, weights=1.0 + offset, missing="drop")
    assert np.array_equal(model.source.offset, np.delete(offset, [0, 7]))
    assert np.array_equal(model.source.weight, 1.0 + np.delete(offset, [0, 7]))


def test_equal_rows_are_put_together(frame):
    long = pd.concat([frame] * 5, ignore_index=True)
    together, apart = (tb.glm("y ~ g * h", long, BERNOULLI, weights="m", collapse=c) for c in (True, False))
    assert (together.n, apart.n) == (12, 2000)
    assert "2,000 rows put together into 12 different ones" in repr(together)
    beta = np.array([0.3, -0.2, 0.5, 0.1, -1.0, 0.7])
    sums = []
    for model in (together, apart):
        X, y, weight, _ = whole(model.source)
        eta = X @ beta
        sums.append(np.sum(weight * (np.logaddexp(0.0, eta) - y[:, 0] * eta)))
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-12)
    np.testing.assert_allclose(together.coefficient_priors.scale, apart.coefficient_priors.scale, rtol=1e-12)
    assert tb.glm("y ~ x", long, BERNOULLI).n == 400
    assert tb.glm("y ~ x", frame, BERNOULLI).n == 400


LEARNED = "y ~ bs(x, df=5) + scale(z) + poly(x, 2) + cs(z, df=4, constraints='center') + standardize(x) + m"


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_learned_counts_rows_by_their_weights(frame, stream):
    """Knots, means, scales and quantiles of weighted rows are those of the table that has each row so many times."""
    heavy = frame.assign(w=np.where(frame["x"] > 0.5, 7, frame["m"]))
    long = heavy.loc[heavy.index.repeat(heavy["w"])].reset_index(drop=True)
    weighted = tb.glm(LEARNED, heavy, BERNOULLI, weights="w", collapse=False, stream=stream)
    expanded = tb.glm(LEARNED, long, BERNOULLI, collapse=False)
    X, _, weight, _ = whole(weighted.source)
    np.testing.assert_allclose(np.repeat(X, weight.astype(int), axis=0), matrix(expanded), rtol=1e-10, atol=1e-12)
    plain = tb.glm(LEARNED, frame, BERNOULLI, collapse=False)
    assert not np.allclose(X, matrix(plain), atol=0.01)
    for name, about in weighted.variables.items():
        other = expanded.variables[name]
        assert (about.mean, about.sd) == pytest.approx((other.mean, other.sd), rel=1e-12)
        assert list(about.quantiles.values()) == pytest.approx(list(other.quantiles.values()), rel=1e-12)


def test_weights_that_are_not_whole_or_very_large(frame, monkeypatch):
    monkeypatch.setattr(surveys, "MOST_KEPT", 2**17)
    formula = "y ~ bs(x, df=5) + scale(z)"
    for factor in (0.1, 1e12):
        weighted = tb.glm(formula, frame, BERNOULLI, weights=factor * frame["m"])
        whole_numbers = tb.glm(formula, frame, BERNOULLI, weights="m")
        np.testing.assert_allclose(matrix(weighted), matrix(whole_numbers), atol=2e-3)
        assert weighted.variables["z"].sd == pytest.approx(whole_numbers.variables["z"].sd, rel=1e-10)


def test_rows_of_no_weight_do_not_count_but_have_their_place(frame):
    """A spline reaches to them; means and knots are those of the others."""
    none = frame["x"].to_numpy() > 1.0
    model = tb.glm("y ~ bs(x, df=4) + scale(z)", frame, BERNOULLI, weights=np.where(none, 0.0, 1.0))
    states = model.recipe.design.states
    assert states["scale(z)"]["center"] == pytest.approx(frame["z"][~none].mean(), rel=1e-12)
    assert states["bs(x, df=4)"]["upper_bound"] == frame["x"].max()
    assert states["bs(x, df=4)"]["knots"][4] == pytest.approx(frame["x"][~none].median(), abs=0.01)
    assert model.variables["x"].mean == pytest.approx(frame["x"][~none].mean(), rel=1e-12)


def test_learning_columns_beside_others_in_tall_tables(frame, monkeypatch):
    """Of a column that is only described fewer rows are kept than of one that is learned from."""
    formula = "y ~ scale(x) + I(x * z) + z"
    expected = matrix(tb.glm(formula, frame, BERNOULLI))
    monkeypatch.setattr(surveys, "MOST_DESCRIBED", 100)
    assert np.array_equal(matrix(tb.glm(formula, frame, BERNOULLI)), expected)


def test_messages_count_rows_of_the_data(frame):
    """Not those that are left when equal ones are put together; numbers of rows are those of the data too."""
    long = pd.concat([frame.assign(zero=frame["m"] - 1)] * 5, ignore_index=True)
    model = tb.glm("y ~ g * h", long, BERNOULLI, weights="m")
    assert (model.n, model.rows_given) == (12, 2000)
    assert "rows    2,000, 6 coefficients" in repr(model)
    assert tb.glm("y ~ g * h", long, BERNOULLI, collapse=False).rows_given == 2000
    for formula, family, count, message in (
        ("y ~ log(zero)", BERNOULLI, long["zero"] == 0, "in {count:,} rows of 2,000 that were tried"),
        ("y ~ C(g, levels=['a', 'b'])", BERNOULLI, long["g"] == "c", "not seen, in {count:,} rows"),
        ("m ~ g", BERNOULLI, long["m"] > 1, "y: row {first} is {value} \\({count:,} such rows\\)"),
        ("zero ~ g", tb.families.Gamma(), long["zero"] == 0, "y: row {first} is 0 \\({count:,} such rows\\)"),
    ):
        first = int(np.flatnonzero(count)[0])
        wanted = message.format(count=int(count.sum()), first=first, value=long["m"][first])
        for weights in (None, "m"):
            with pytest.raises(InputError, match=wanted):
                tb.glm(formula, long, family, weights=weights)
    with pytest.raises(InputError, match=r"not seen, in 2,000 rows: 'new'"):
        whole(model.rows_of(setting={"g": np.full(12, "new")}))
    with pytest.raises(InputError, match="or 12, since equal rows are put together"):
        whole(model.rows_of(setting={"g": np.array(["a", "b"])}))
    with pytest.raises(InputError, match="weights: every row has weight 0"):
        tb.glm("y ~ g", long.assign(none=0.0), BERNOULLI, weights="none")


# -- priors --


def test_priors_by_coefficient_term_and_beginning(frame):
    given = {
        "C(m)": tb.priors.Normal(0, 2),
        "C(m)[T.3]": tb.priors.Laplace(0, 3),
        "bs(x*": tb.priors.Normal(0, 4),
        "g[T.b]": tb.priors.Normal(1, 5),
    }
    model = tb.glm("y ~ bs(x, df=4) + C(m) + g", frame, BERNOULLI, given)
    scale = dict(zip(model.names, model.coefficient_priors.scale.tolist(), strict=True))
    assert [scale[f"C(m)[T.{k}]"] for k in (2, 3, 4)] == [2, 3, 2]
    assert [scale[f"bs(x, df=4)[{k}]"] for k in (1, 2, 3, 4)] == [4] * 4
    assert (scale["g[T.b]"], scale["g[T.c]"]) == (5, 2.5)
    assert "C(m)[T.3]       ~ Laplace(0, 3)" in repr(model)


def scales_of(model):
    return dict(zip(model.names, model.coefficient_priors.scale.tolist(), strict=True))


def test_spaces_and_quotes_in_the_names_of_priors_do_not_matter(frame):
    given = {
        "bs( x,df=4 )": tb.priors.Normal(0, 2),
        "bs(x,df=4)[2]": tb.priors.Normal(0, 3),
        'C(g,Treatment("b"))': tb.priors.Normal(0, 4),
        "C(m) [*": tb.priors.Normal(0, 5),
    }
    model = tb.glm("y ~ bs(x, df=4) + C(g, Treatment('b')) + C(m)", frame, BERNOULLI, given)
    scale = scales_of(model)
    assert [scale[f"bs(x, df=4)[{k}]"] for k in (1, 2, 3, 4)] == [2, 3, 2, 2]
    assert {scale[name] for name in model.terms["C(g, Treatment('b'))"]} == {4.0}
    assert {scale[name] for name in model.terms["C(m)"]} == {5.0}
    # Of two levels that spaces tell apart, each is itself.
    cities = frame.assign(c=np.resize(["New York", "NewYork", "York"], len(frame)))
    scale = scales_of(tb.glm("y ~ c", cities, BERNOULLI, {"c[T.NewYork]": tb.priors.Normal(0, 7)}))
    assert (scale["c[T.NewYork]"], scale["c[T.York]"]) == (7, 2.5)


def test_other_parameters_have_priors_by_the_names_of_the_summary(frame):
    normal = tb.priors.Normal
    given = {"scale_beta[x]": normal(0, 0.3), "scale_beta[g]": normal(0, 0.4), "x": normal(0, 7)}
    model = tb.glm("z ~ x", frame, tb.families.Gaussian(), given, scale_formula="~ x + g")
    scale = scales_of(model)
    assert model.names == tb.glm("z ~ x", frame, tb.families.Gaussian(), scale_formula="~ x + g").names
    assert [scale[f"scale_beta[{name}]"] for name in ("x", "g[T.b]", "g[T.c]")] == [0.3, 0.4, 0.4]
    assert scale["x"] == 7
    assert scale["scale_beta[Intercept]"] == pytest.approx(2.5, rel=0.05)  # a little wider: columns have means
    assert "scale_beta[x]          ~ Normal(0, 0.3)" in repr(model)
    assert model.names == shown_names(model.outputs)
    levels = tb.glm("g ~ x", frame, tb.families.Ordinal(list("abc")), {"cut[b|c]": normal(1, 2), "x": normal(0, 1)})
    assert scales_of(levels) == {"x": 1, "cut[a|b]": pytest.approx(10, rel=0.05), "cut[b|c]": 2}
    levels = tb.glm("g ~ x", frame, tb.families.Ordinal(list("abc")), {"cut": normal(1, 2)})
    assert [scales_of(levels)[f"cut[{name}]"] for name in ("a|b", "b|c")] == [2, 2]
    zeros = tb.glm("m ~ x", frame, tb.families.HurdlePoisson(), {"zero_logit": normal(0, 3)})
    assert scales_of(zeros)["zero_logit"] == 3
    for key, family, message in (
        ("scale", tb.families.Gaussian(), "expected that as an argument of the family, e.g. scale=tb.priors.Half"),
        ("scale", BERNOULLI, "'scale' is neither a coefficient"),
        ("cut[a|c]", tb.families.Ordinal(list("abc")), r"'cut\[a\|c\]' is neither a coefficient nor a term"),
    ):
        response = {"Gaussian": "z", "Bernoulli": "y", "Ordinal": "g"}[type(family).__name__]
        with pytest.raises(InputError, match=message):
            tb.glm(f"{response} ~ x", frame, family, {key: normal(0, 1)})
    with pytest.raises(InputError, match=r"'scale_beta\[x\]' has 3; expected e.g. tb.priors.Normal"):
        tb.glm("z ~ x", frame, tb.families.Gaussian(), {"scale_beta[x]": 3}, scale_formula="~ x")
    X, z = frame[["x"]], frame["z"]
    with pytest.raises(InputError, match=r"'w' is not a parameter; the names are x, scale_beta\[x\]"):
        tb.Regression(X, z, tb.families.Gaussian(), {"w": normal(0, 1)}, scale_design=X)


def test_arrays_take_priors_by_the_names_that_formulas_take(frame):
    normal, X = tb.priors.Normal, frame[["x", "m"]]
    spread = {"scale_beta": normal(0, 0.3), "scale_beta[m]": normal(0, 0.4), "x*": normal(0, 7)}
    model = tb.Regression(X, frame["z"], tb.families.Gaussian(), spread, scale_design=X)
    scale = scales_of(model)
    assert (scale["scale_beta[x]"], scale["scale_beta[m]"], scale["x"]) == (0.3, 0.4, 7)
    y = frame["g"].map({"a": 0, "b": 1, "c": 2}).to_numpy()
    levels = tb.Regression(X, y, tb.families.Ordinal(), {"cut": normal(1, 2), "cut[1|2]": normal(0, 3)})
    assert [scales_of(levels)[f"cut[{name}]"] for name in ("0|1", "1|2")] == [2, 3]
    zeros = tb.Regression(X, y, tb.families.HurdlePoisson(), {"zero_logit_beta": normal(0, 3)}, scale_design=X)
    assert scales_of(zeros)["zero_logit_beta[m]"] == 3
    with pytest.raises(InputError, match="'q\\*' is not a parameter; the names are x, m, cut"):
        tb.Regression(X, y, tb.families.Ordinal(), {"q*": normal(0, 1)})


def test_coefficients_of_a_class_have_priors_by_the_names_of_the_summary(frame):
    normal, classes = tb.priors.Normal, tb.families.Categorical(list("abc"))
    given = {"b: x": normal(0, 0.1), "c: *": normal(0, 3), "m": normal(0, 5), "b:C(h)": normal(0, 6)}
    model = tb.glm("g ~ x + m + C(h)", frame, classes, given)
    scale = scales_of(model)
    assert model.names == shown_names(model.outputs)
    assert (scale["b: x"], scale["c: x"], scale["c: Intercept"]) == (0.1, 3, 3)
    assert (scale["b: m"], scale["c: m"]) == (5, 5)  # a name is more particular than a beginning
    assert {scale[f"b: {name}"] for name in model.terms["C(h)"]} == {6.0}
    default = scales_of(tb.glm("g ~ x + m + C(h)", frame, classes))
    assert scale["b: Intercept"] == default["b: Intercept"]
    one = scales_of(tb.glm("g ~ x", frame, classes, {"x": normal(0, 4), "c: x": normal(0, 2)}))
    assert (one["b: x"], one["c: x"]) == (4, 2)
    X, y = frame[["x", "m"]], frame["g"].map({"a": 0, "b": 1, "c": 2}).to_numpy()
    for family, second in ((tb.families.Categorical(), "2"), (classes, "c")):
        scale = scales_of(tb.Regression(X, y, family, {f"{second}: x": normal(0, 0.1), "x": normal(0, 2)}))
        assert [prior for name, prior in scale.items() if name.endswith("x")] == [2, 0.1]
        scale = scales_of(tb.Regression(X, y, family, {f"{second}: *": normal(0, 8)}))
        assert [scale[f"{second}: {name}"] for name in "xm"] == [8, 8]
    weak = tb.Regression(X, y, classes, {"b: m": tb.priors.WeaklyInformative(5.0)})
    assert scales_of(weak)["b: m"] == pytest.approx(2 * scales_of(weak)["c: m"])
    with pytest.raises(InputError, match="'d: x' is not a coefficient; the names are x, m, b: x, b: m, c: x, c: m"):
        tb.Regression(X, y, classes, {"d: x": normal(0, 1)})
    with pytest.raises(InputError, match=r"Coefficients: .*'b: x'"):
        tb.glm("g ~ x", frame, classes, {"d: x": normal(0, 1)})


# -- what a model says --


def test_offset_exposure_and_weights_are_told_and_kept(frame):
    model = tb.glm("m ~ x", frame, tb.families.Poisson(), exposure="z", weights="m")
    assert "\nexposure z\nweights m\nrows " in repr(model)
    kept = json.loads(model.to_json())["recipe"]
    assert kept["beside"] == {"exposure": "z", "weights": "m"}
    assert restore(model.to_json()).recipe.beside == kept["beside"]
    model = tb.glm("m ~ x", frame, tb.families.Poisson(), offset=np.zeros(len(frame)), weights=2.0)
    assert "\noffset  an array\nweights 2.0\nrows " in repr(model)
    assert "offset  log(z)" in repr(tb.glm("m ~ x", frame, tb.families.Poisson(), offset="log(z)"))


# -- dates, splines, stray labels --


def test_dates_have_one_name_in_every_unit(tmp_path):
    days = pd.to_datetime(np.resize(["2024-01-02", "2024-01-03", "2024-02-01"], 60))
    y = np.resize([0, 1, 1, 0, 1, 0, 0], 60)
    tables = [pa.table({"y": y, "d": pa.array(days).cast(pa.timestamp(unit))}) for unit in ("s", "ms", "us", "ns")]
    tables += [pa.table({"y": y, "d": pa.array(days.date)}), pa.table({"y": y, "d": days.date.astype(str)})]
    tables += [pd.DataFrame({"y": y, "d": pd.Categorical(days)}), pl.DataFrame({"y": y, "d": days.date.tolist()})]
    pd.DataFrame({"y": y, "d": days}).to_csv(tmp_path / "d.csv", index=False)
    for data in (*tables, tmp_path / "d.csv"):
        model = tb.glm("y ~ d", data, BERNOULLI)
        assert model.variables["d"].levels == ("2024-01-02", "2024-01-03", "2024-02-01")
        for new in (tables[0], tables[3], tables[4]):
            assert whole(model.rows_of(new))[0].sum() > 60
    for level in (days[1], days[1].to_pydatetime(), days[1].date(), days[1].to_datetime64(), "2024-01-03"):
        assert np.all(whole(model.rows_of(tables[0], setting={"d": level}))[0] == [1.0, 1.0, 0.0])


def test_times_are_written_as_far_as_they_go():
    hours = pa.array(pd.to_datetime(["2024-01-02", "2024-01-02 10:30", "2024-01-02 10:30:01.25"], format="ISO8601"))
    assert load(hours, "d").values == ("2024-01-02", "2024-01-02T10:30:00", "2024-01-02T10:30:01.25")
    zoned = hours.cast(pa.timestamp("ms", tz="Europe/Berlin"))
    assert load(zoned, "d").values[:2] == ("2024-01-02T00:00:00Z", "2024-01-02T10:30:00Z")
    assert plain_level(pd.Timestamp("2024-01-02 01:00", tz="Europe/Berlin")) == "2024-01-02T00:00:00Z"
    assert load(pa.array([3600_500], pa.time32("ms")), "d").values == ("01:00:00.5",)
    for lengths in (pa.array([1, 2], pa.duration("s")), pa.array([1, 2], pa.duration("s")).dictionary_encode()):
        with pytest.raises(InputError, match=r"holds lengths of time \(duration\[s\]\).*total_seconds"):
            tb.glm("y ~ d", pa.table({"y": [0, 1], "d": lengths}), BERNOULLI)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ cr(x, df=4)", "cr(x, df=4): its columns add up to a constant, as the intercept does"),
        ("y ~ g + cc(x, df=4)", "cc(x, df=4): its columns add up to a constant, as the intercept does"),
        ("y ~ 0 + g + cr(x, df=4)", "as the levels of g do"),
        (
            "y ~ 0 + cr(x, df=4) + cr(z, df=4)",
            "cr(z, df=4): its columns add up to a constant, as those of cr(x, df=4) do",
        ),
        ("y ~ 0 + cr(x, df=4)", None),
        ("y ~ cr(x, df=4, constraints='center')", None),
        ("y ~ bs(x, df=4) + bs(z, df=5, include_intercept=True)", None),
        ("y ~ x + g + poly(z, 2)", None),
    ],
)
def test_splines_that_an_intercept_makes_dependent_are_told(frame, formula, words):
    model = tb.glm(formula, frame, BERNOULLI)
    rank = np.linalg.matrix_rank(matrix(model))
    assert (rank < model.d) == (words is not None)
    said = [note for note in model.notes if "add up" in note]
    assert len(said) == (words is not None)
    if words is not None:
        assert words in said[0]
        assert "write c" in said[0]
        assert "df=4, constraints='center')" in said[0]
        assert said[0].endswith(", or 0 + for no intercept") == ("the intercept" in words)


def test_cut_points_are_levels_too(frame):
    notes = tb.glm("g ~ 0 + cr(x, df=4)", frame, tb.families.Ordinal(list("abc"))).notes
    assert "as the cut points do" in notes[-1]
    given = {"family": tb.families.Gaussian(), "scale_formula": "~ cr(x, df=4)"}
    assert "as the intercept does" in tb.glm("z ~ x", frame, **given).notes[-1]


def test_labels_may_be_compared_beside_a_transform(frame):
    model = tb.glm("y ~ I((g == 'a') * scale(x))", frame, BERNOULLI)
    scaled = (frame["x"] - frame["x"].mean()) / frame["x"].std()
    np.testing.assert_allclose(model.source.whole.X[:, 1], np.where(frame["g"] == "a", scaled, 0.0), atol=1e-12)


def test_a_stray_label_among_numbers_is_refused(frame, tmp_path, monkeypatch):
    long = pd.concat([frame] * 3, ignore_index=True)
    for values in (long["m"], long["x"].round(3)):
        texts = values.astype(str).to_numpy(dtype=object)
        texts[777] = "oops"
        long.assign(w=texts).to_csv(tmp_path / "stray.csv", index=False)
        for formula in ("y ~ w", "y ~ log(w) + x", "w ~ x"):
            message = (
                r"'w' is text, and numbers in all but 1 row of 1,200: the first that is none is 'oops' in row 777"
            )
            with pytest.raises(InputError, match=message):
                tb.glm(formula, tmp_path / "stray.csv", BERNOULLI)
    monkeypatch.setattr(surveys, "MOST_LEVELS", 5)
    with pytest.raises(InputError, match="'oops' in row 777"):
        tb.glm("y ~ w", tmp_path / "stray.csv", BERNOULLI)
    monkeypatch.undo()
    codes = long["m"].astype(str).to_numpy(dtype=object)
    assert "w[T.4]" in tb.glm("y ~ w", long.assign(w=codes), BERNOULLI).names  # text of numbers alone
    codes[5] = "none"
    assert "C(w)[T.none]" in tb.glm("y ~ C(w)", long.assign(w=codes), BERNOULLI).names
    assert tb.glm("y ~ I(w == 'none')", long.assign(w=codes), BERNOULLI).d == 2
    assert "w[T.none]" in tb.glm("y ~ w", long.assign(w=pd.Categorical(codes)), BERNOULLI).names
    codes[:100] = "none"
    assert "w[T.none]" in tb.glm("y ~ w", long.assign(w=codes), BERNOULLI).names


def test_another_separator_is_seen(frame, tmp_path):
    frame[["y", "x"]].to_csv(tmp_path / "semi.csv", index=False, sep=";")
    with pytest.raises(InputError, match=r"one alone, 'y;x': its fields seem to be separated by ';'.*sep=';'"):
        tb.glm("y ~ x", tmp_path / "semi.csv", BERNOULLI)


# -- predictions --


def test_rows_with_variables_set(frame):
    model = tb.glm("y ~ log(z) * g + C(m)", frame, BERNOULLI, collapse=False)
    assert model.variables["m"].kind == "factor"
    assert model.variables["m"].levels == (1, 2, 3, 4)
    assert model.variables["z"].kind == "numeric"
    np.testing.assert_allclose(model.variables["z"].mean, frame["z"].mean())
    np.testing.assert_allclose(model.variables["z"].quantiles[0.5], frame["z"].median())
    for data in (None, frame, frame.drop(columns=["y", "g"])):
        setting = {"g": "b", "z": Shift(0.5), "m": 3}
        beside = ["z", "m"] if data is not None and "g" not in data else ["z", "m", "g"]
        X, told, *_ = whole(model.rows_of(data, setting=setting, beside=beside))
        changed = frame.assign(g="b", z=frame["z"] + 0.5, m=3)
        expected, *_ = whole(model.rows_of(changed))
        np.testing.assert_allclose(X, expected)
        assert np.array_equal(told[:, 1], frame["z"])
        assert np.array_equal(told[:, 2], frame["m"] - 1)
    each = model.rows_of(setting={"g": frame["h"].map({"u": "a", "v": "c"}).to_numpy()})
    expected, *_ = whole(model.rows_of(frame.assign(g=frame["h"].map({"u": "a", "v": "c"}))))
    assert np.array_equal(whole(each)[0], expected)


def test_a_spline_goes_on_where_rows_are_moved_for_a_slope(frame):
    """Slopes need that at the ends of the data; what starts or is moved beyond them is refused."""
    model = tb.glm("y ~ bs(x, df=5) + cr(z, df=4)", frame, BERNOULLI)
    step = Shift(1e-6, tiny=True)
    X, *_ = whole(model.rows_of(setting={"x": step, "z": step}))
    np.testing.assert_allclose(X, matrix(model), atol=1e-4)
    assert np.array_equal(whole(model.rows_of(setting={"x": Shift(0.0, tiny=True)}))[0], matrix(model))
    assert np.array_equal(whole(model.rows_of(setting={"x": Shift(0.0)}))[0], matrix(model))
    for setting in (Shift(0.5), Shift(1e-6), Shift(1e-6, start=9.0), Shift(1e-6, start=9.0, tiny=True), 9.0):
        with pytest.raises(InputError, match="was made for values from"):
            whole(model.rows_of(setting={"x": setting}))
    low = float(frame["x"].min())
    for formula in ("y ~ bs(x, df=5, extrapolation='clip')", "y ~ bs(x, 5, None, 3, False, None, None, 'clip')"):
        clipped = tb.glm(formula, frame, BERNOULLI)
        at_the_end, *_ = whole(clipped.rows_of(setting={"x": low}))
        for setting in (low - 1.0, Shift(-1.0, start=low), Shift(-1e-6, start=low, tiny=True)):
            assert np.array_equal(whole(clipped.rows_of(setting={"x": setting}))[0], at_the_end)


@pytest.fixture(scope="module")
def splined(frame):
    """Return a model with splines, one of them of a function of its variable, and a result."""
    model = tb.glm("y ~ bs(x, df=4) + bs(log(z), df=3)", frame, BERNOULLI)
    return model, tb.sample(model, draws=50, chains=2, seed=1, progress=False)


@pytest.mark.filterwarnings("ignore::tallbayes.errors.SlowMixingWarning")
def test_slopes_and_contrasts_at_the_end_of_a_spline(frame, splined):
    """They agree with predict: what it refuses they refuse, and a slope at the very end is one from within."""
    model, tree = splined
    for name in ("x", "z"):
        low, high = float(frame[name].min()), float(frame[name].max())
        ends = tb.slopes(tree, model, name, at={name: [low, high]})["estimate"].to_numpy()
        step = 1e-6 * (high - low)
        for slope, end, inner in ((ends[0], low, low + step), (ends[1], high, high - step)):
            here, there = tb.predict(tree, model, at={name: [end, inner]}, average=True)["estimate"]
            assert slope == pytest.approx((there - here) / (inner - end), rel=1e-3)
        assert np.isfinite(tb.slopes(tree, model, name)["estimate"]).all()
        new = frame.drop(columns=name)
        assert np.allclose(tb.slopes(tree, None, name, at={name: [low, high]}, new_data=new)["estimate"], ends)
        with pytest.raises(InputError, match=rf"^comparisons: '{name}', \+1, leaves in some rows .*'iqr'"):
            tb.comparisons(tree, model, {name: 1})
        default = tb.comparisons(tree, model, name)
        assert default["contrast"][0].endswith(" (quartiles)")
        np.testing.assert_array_equal(default, tb.comparisons(tree, model, {name: "iqr"}))
        np.testing.assert_array_equal(default, tb.comparisons(tree, None, name, new_data=new))
        assert np.isfinite(tb.comparisons(tree, model, {name: (low, high)})["estimate"]).all()
        assert np.isfinite(tb.comparisons(tree, model, {name: "iqr"})["estimate"]).all()
        with pytest.raises(InputError, match=r"comparisons: .* 100 - 0, leaves"):
            tb.comparisons(tree, model, {name: (0.0, 100.0)})
        for ask in (tb.predict, lambda *args, name=name, **at: tb.slopes(*args, name, **at)):
            with pytest.raises(InputError, match=r"^formula: 'bs\(.* was made for values from .*; .* lies beyond"):
                ask(tree, model, at={name: high + 1.0})
            with pytest.raises(InputError, match="was made for values from"):
                ask(tree, None, new_data=frame.assign(**{name: high + 1.0}))
    with pytest.raises(InputError, match="slopes: at has 'much' for 'x'; expected a number"):
        tb.slopes(tree, model, "x", at={"x": "much"})
    with pytest.raises(InputError, match="new_data has no column 'x'"):
        tb.slopes(tree, None, "x", new_data=frame.drop(columns="x"))


def test_new_rows_with_an_offset(frame):
    model = tb.glm("y ~ x + offset(log(z))", frame, BERNOULLI)
    np.testing.assert_allclose(whole(model.rows_of(frame))[3], np.log(frame["z"]))
    np.testing.assert_allclose(whole(model.rows_of(setting={"z": Shift(1.0)}))[3], np.log(frame["z"] + 1.0))
    assert np.all(whole(model.rows_of(frame[["x"]], offset=0.25))[3] == 0.25)
    one = whole(model.rows_of({"x": 1.5, "z": 1.0}))
    assert np.array_equal(one[0], [[1.0, 1.5]])


def test_posterior_is_that_of_the_plain_regression(frame):
    model = tb.glm("y ~ x + g", frame, BERNOULLI)
    plain = tb.Regression(matrix(model), frame["y"].to_numpy(), BERNOULLI, names=model.names)
    ours, theirs = (tb.sample(m, draws=50, chains=2, seed=3, progress=False) for m in (model, plain))
    assert np.array_equal(ours["posterior"]["beta"], theirs["posterior"]["beta"])
    assert list(ours["posterior"]["coefficient"].values) == ["Intercept", "x", "g[T.b]", "g[T.c]"]


def test_a_streamed_run_has_the_same_posterior(frame, tmp_path):
    """The Gaussian approximation is the same; means agree to 6 Monte Carlo errors, one run in 10^8 would not."""
    path, formula = as_parquet(frame, tmp_path), "y ~ bs(x, df=4) + g"
    trees = [
        tb.sample(tb.glm(formula, path, BERNOULLI, stream=stream), draws=500, seed=2, progress=False)
        for stream in (True, False)
    ]
    for name in ("mode", "covariance"):
        ours, theirs = (tree["laplace"][name].to_numpy() for tree in trees)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    tables = [tb.summary(tree) for tree in trees]
    errors = np.hypot(tables[0]["mcse_mean"], tables[1]["mcse_mean"])
    assert np.all(np.abs(tables[0]["mean"] - tables[1]["mean"]) < 6.0 * errors)
    kept = [json.loads(tree.attrs["model"]) for tree in trees]
    assert kept[0]["recipe"] == kept[1]["recipe"]


def test_labels_of_any_kind_are_text_in_what_is_kept():
    dates = pa.array([0, 1, 0], pa.date32())
    assert load(dates, "d").values == ("1970-01-01", "1970-01-02")
    assert np.array_equal(codes_of(np.array([2.0, 9.0, 1.0]), ["x", 1, 2]), [2, -1, 1])
    assert np.array_equal(codes_of(np.array([2.0]), ["x"]), [-1])


# -- wrong use --


def late(frame):
    return frame.assign(y=np.where(frame["y"] == 1, "yes", np.where(frame["x"] > 1, "no", "perhaps")))


def holes(frame):
    frame = frame.copy()
    frame.loc[[1, 2, 3], "x"] = np.nan
    frame.loc[[3], "g"] = None
    return frame


WRONG = {
    "unknown column": (
        lambda f: tb.glm("y ~ x + gg", f, BERNOULLI),
        r"no column 'gg'; is it 'g'\? It has y, x, z, g",
    ),
    "unknown weights": (lambda f: tb.glm("y ~ x", f, BERNOULLI, weights="ww"), "no column 'ww'"),
    "missing": (
        lambda f: tb.glm("y ~ x + g", holes(f), BERNOULLI),
        r"values are missing in 3 of 400 rows \(column 'g' in 1, 'x' in 3\).*missing='drop'",
    ),
    "all missing": (
        lambda f: tb.glm("y ~ x", f.assign(x=np.nan), BERNOULLI, missing="drop"),
        "no row is left: values are missing in 400 of 400 rows",
    ),
    "three levels": (
        lambda f: tb.glm("y ~ x", late(f), BERNOULLI),
        r"response 'y' has 3 levels \('no', 'perhaps', 'yes'\).*takes two.*I\(y == 'yes'\)",
    ),
    "infinite": (lambda f: tb.glm("y ~ x", f.assign(x=np.inf), BERNOULLI), "'x' is infinite in 400 rows"),
    "response as a term": (lambda f: tb.glm("y ~ x + y", f, BERNOULLI), "response 'y' is a term"),
    "a column called Intercept": (
        lambda f: tb.glm("y ~ Intercept", f.rename(columns={"x": "Intercept"}), BERNOULLI),
        "two columns of the design are called 'Intercept'",
    ),
    "the same level twice": (lambda f: tb.glm("y ~ C(g, levels=['a', 'a'])", f, BERNOULLI), "has a level twice"),
    "a series": (lambda f: tb.glm("y ~ x", f["x"], BERNOULLI), "a Series was given; expected a data frame"),
    "trials beside dropped rows": (
        lambda f: tb.glm("y ~ x", holes(f), tb.families.Binomial(f["m"].to_numpy()), missing="drop"),
        r"trials were given for each row, and 3 rows would be dropped.*p\(successes, trials\)",
    ),
    "labels for a count": (
        lambda f: tb.glm("g ~ x", f, tb.families.Poisson()),
        "'g' holds labels .* takes whole numbers",
    ),
    "product as response": (lambda f: tb.glm("x:z ~ g", f, BERNOULLI), "a product of columns"),
    "trials of another family": (lambda f: tb.glm("p(y, m) ~ x", f, BERNOULLI), r"expected p\(successes, trials\)"),
    "spline as response": (
        lambda f: tb.glm("bs(x, df=4) ~ g", f, tb.families.Gaussian(1.0)),
        "is not a column of numbers",
    ),
    "groups": (lambda f: tb.glm("y ~ x + (1|g)", f, BERNOULLI), r"random effects are not supported.*C\(g\)"),
    "correlated groups": (lambda f: tb.glm("y ~ x + (1 + x || g)", f, BERNOULLI), "random effects"),
    "parts": (lambda f: tb.glm("y ~ x | z", f, BERNOULLI), "cannot be read|several parts"),
    "no response": (lambda f: tb.glm("~ x", f, BERNOULLI), "has no response"),
    "two responses": (lambda f: tb.glm("y + z ~ x", f, BERNOULLI), "has 2 responses"),
    "no terms": (lambda f: tb.glm("y ~ 0", f, BERNOULLI), "has no term"),
    "half a formula": (lambda f: tb.glm("y ~ x +", f, BERNOULLI), "cannot be read"),
    "not text": (lambda f: tb.glm(3, f, BERNOULLI), "3 was given; expected text"),
    "comparison outside": (lambda f: tb.glm("y ~ x > 3", f, BERNOULLI), r"cannot be read.*into braces or I\(...\)"),
    "bad expression": (lambda f: tb.glm("y ~ x", f, BERNOULLI, offset="log("), "'log\\(' cannot be read"),
    "empty expression": (
        lambda f: tb.glm("y ~ x", f, BERNOULLI, offset=" "),
        "expected a column, or an expression",
    ),
    "log of labels": (
        lambda f: tb.glm("y ~ log(g)", f, BERNOULLI),
        "needs numbers; the column holds labels",
    ),
    "scaled labels": (
        lambda f: tb.glm("y ~ scale((g == 'a') * x)", f, BERNOULLI),
        "learns from all rows, .* of labels \\('g'\\). Use the comparison without the transform",
    ),
    "computing with a spline": (lambda f: tb.glm("y ~ {bs(x, df=4) + 1}", f, BERNOULLI), "several columns"),
    "log of 0": (lambda f: tb.glm("y ~ log(x)", f, BERNOULLI), r"'log\(x\)' is not a finite number in \d+ rows"),
    "df too small": (
        lambda f: tb.glm("y ~ bs(x, df=1)", f, BERNOULLI),
        "cannot be evaluated: Invalid value for `df`",
    ),
    "unknown argument": (lambda f: tb.glm("y ~ bs(x, dof=1)", f, BERNOULLI), "cannot be evaluated.*dof"),
    "no argument": (lambda f: tb.glm("y ~ x + log()", f, BERNOULLI), "has no argument"),
    "C of a number": (lambda f: tb.glm("y ~ x + C(3)", f, BERNOULLI), r"C\(...\) takes a column"),
    "C with a wrong argument": (lambda f: tb.glm("y ~ C(g, base=1)", f, BERNOULLI), "has no argument 'base'"),
    "C of a spline": (lambda f: tb.glm("y ~ C(center(x))", f, BERNOULLI), "takes levels from a transform"),
    "a base that is not there": (
        lambda f: tb.glm("y ~ C(g, Treatment('q'))", f, BERNOULLI),
        "the terms cannot be coded|cannot be evaluated",
    ),
    "levels left out": (
        lambda f: tb.glm("y ~ C(g, levels=['a', 'b'])", f, BERNOULLI),
        "has 1 level that the model has not seen, in .* rows: 'c'. It knows 'a', 'b'",
    ),
    "one level": (lambda f: tb.glm("y ~ g", f[f["g"] == "a"], BERNOULLI), "one level only, 'a'"),
    "order of labels": (lambda f: tb.glm("y ~ I(g > 'a')", f, BERNOULLI), "only == and != with one level"),
    "Q without a name": (lambda f: tb.glm("y ~ Q(x)", f, BERNOULLI), "Q takes the name of a column as text"),
    "offset in a product": (lambda f: tb.glm("y ~ x:offset(z)", f, BERNOULLI), "a term of its own"),
    "offset within": (lambda f: tb.glm("y ~ log(offset(z))", f, BERNOULLI), "must stand alone"),
    "offset of labels": (lambda f: tb.glm("y ~ x", f, BERNOULLI, offset="g"), "'g' is not a column of numbers"),
    "offset not finite": (lambda f: tb.glm("y ~ x", f, BERNOULLI, offset="log(x)"), "offset: .* is nan in a row"),
    "negative weights": (lambda f: tb.glm("y ~ z", f, BERNOULLI, weights="x"), "weights: 'x' is negative in a row"),
    "no weights": (lambda f: tb.glm("y ~ x", f, BERNOULLI, weights=np.zeros(400)), "every row has weight 0"),
    "weights of another shape": (lambda f: tb.glm("y ~ x", f, BERNOULLI, weights=[1.0, 2.0]), r"expected \(400,\)"),
    "shuffled weights": (
        lambda f: tb.glm("y ~ x", f, BERNOULLI, weights=f["m"].sample(frac=1.0, random_state=1)),
        "its index differs from that of data",
    ),
    "prior of nothing": (
        lambda f: tb.glm("y ~ x + C(m)", f, BERNOULLI, {"C(n)": tb.priors.Flat()}),
        r"'C\(n\)' is neither a coefficient nor a term.*Terms: 'Intercept', 'x', 'C\(m\)'",
    ),
    "family": (lambda f: tb.glm("y ~ x", f, "bernoulli"), "family: 'bernoulli' was given"),
    "missing how": (lambda f: tb.glm("y ~ x", f, BERNOULLI, missing="ignore"), "expected 'error' or 'drop'"),
    "data of another kind": (lambda f: tb.glm("y ~ x", 3, BERNOULLI), "a int was given; expected a data frame"),
    "no data": (lambda f: tb.glm("y ~ x", {}, BERNOULLI), "an empty dictionary"),
    "no rows": (lambda f: tb.glm("y ~ x", f.iloc[:0], BERNOULLI), "it has no rows"),
    "columns of two lengths": (lambda f: tb.glm("y ~ x", {"y": [0, 1], "x": [1]}, BERNOULLI), "different lengths"),
    "a column of all sorts": (
        lambda f: tb.glm("y ~ x", {"y": [0, 1], "x": [1, "a"]}, BERNOULLI),
        "column 'x' cannot be used",
    ),
    "an object column of all sorts": (
        lambda f: tb.glm("y ~ x", pd.DataFrame({"y": [0, 1], "x": [1, "a"]}), BERNOULLI),
        "values of different kinds",
    ),
    "lists": (
        lambda f: tb.glm("y ~ x", {"y": [0, 1], "x": [[1], [2]]}, BERNOULLI),
        "'x' has type list.*expected numbers, text",
    ),
    "the same column twice": (
        lambda f: tb.glm("y ~ x", pa.table([[0, 1], [1, 2], [3, 4]], names=["y", "x", "x"]), BERNOULLI),
        "names of columns must differ; found 'x' 2 times",
    ),
    "identifiers": (
        lambda f: tb.glm("y ~ C(x)", {"y": [0, 1], "x": [2**60, 2**60 + 1]}, BERNOULLI),
        "whole numbers beyond 2\\^53.*convert them to text",
    ),
    "no file": (lambda f: tb.glm("y ~ x", "/nowhere/data.parquet", BERNOULLI), "/nowhere/data.parquet"),
    "no CSV file": (
        lambda f: tb.glm("y ~ x", "/nowhere/data.csv", BERNOULLI),
        "there is no file '/nowhere/data.csv'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_explained(frame, case):
    call, message = WRONG[case]
    with pytest.raises(InputError, match=f"(?s){message}"):
        call(frame)


def test_a_file_that_is_not_what_its_name_says(tmp_path):
    (tmp_path / "a.parquet").write_text("y,x\n1,2\n")
    with pytest.raises(InputError, match="Parquet"):
        tb.glm("y ~ x", tmp_path / "a.parquet", BERNOULLI)
    (tmp_path / "a.csv").write_text("y,x\n1,2\n1\n")
    with pytest.raises(InputError, match=r"a.csv' cannot be read as CSV \(.*Expected 2 columns, got 1"):
        tb.glm("y ~ x", tmp_path / "a.csv", BERNOULLI)


def test_too_many_levels(frame, monkeypatch):
    monkeypatch.setattr(surveys, "MOST_LEVELS", 100)
    with pytest.raises(InputError, match=r"'C\(x\)' has more than 100 levels"):
        tb.glm("y ~ C(x)", frame, BERNOULLI)


NEW = {
    "unseen level": (
        lambda m, f: m.rows_of(f.assign(g=np.where(f["x"] > 1, "new", f["g"]))),
        r"'g' has 1 level that the model has not seen, in \d+ rows: 'new'. It knows 'a', 'b', 'c'",
    ),
    "unseen number": (
        lambda m, f: m.rows_of(f.assign(m=f["m"] + 1)),
        r"1 level .*: 5. It knows 1, 2, 3, 4",
    ),
    "set to an unseen level": (
        lambda m, f: m.rows_of(setting={"g": "new"}),
        "setting: 'g' is set to 'new', a level .* 'a', 'b'",
    ),
    "no column": (lambda m, f: m.rows_of(f.drop(columns="g")), "new_data has no column 'g'"),
    "missing": (
        lambda m, f: m.rows_of(holes(f)),
        "new_data: values are missing in 3 of 400 .*Drop these rows first .*--unusable drop",
    ),
    "labels for numbers": (
        lambda m, f: m.rows_of(f.assign(x="a")),
        "'x' holds labels; the model was",
    ),
    "numbers for labels": (lambda m, f: m.rows_of(f.assign(g=1.0)), "'g' holds numbers; .* labels such as 'a'"),
    "beyond the knots": (
        lambda m, f: m.rows_of(f.assign(x=100.0)),
        "was made for values from .* to .*; 100 lies beyond them",
    ),
    "setting of nothing": (lambda m, f: m.rows_of(setting={"q": 1}), "'q' is not a variable of the model"),
    "shift of labels": (lambda m, f: m.rows_of(setting={"g": Shift(1.0)}), "an amount cannot be added"),
    "setting of a shape": (lambda m, f: m.rows_of(setting={"x": np.zeros(3)}), "expected one value, or 400"),
    "setting of infinity": (lambda m, f: m.rows_of(setting={"x": np.inf}), "'x' is inf; expected finite numbers"),
    "setting of text": (lambda m, f: m.rows_of(setting={"x": "a"}), "expected a number"),
    "offset of own rows": (lambda m, f: m.rows_of(offset=1.0), "without new_data"),
    "response unseen": (lambda m, f: m.rows_of(f.assign(t="maybe")), "the response 't' has a level"),
}


@pytest.mark.parametrize("case", NEW)
def test_wrong_new_rows_are_explained(frame, case):
    frame = frame.assign(t=np.where(frame["y"] == 1, "yes", "no"))
    model = tb.glm("t ~ bs(x, df=4) + g + C(m)", frame, BERNOULLI, collapse=False)
    call, message = NEW[case]
    with pytest.raises(InputError, match=message):
        whole(call(model, frame))


def test_wrong_use_of_what_is_kept(frame):
    model = tb.glm("y ~ x", frame, BERNOULLI, offset=frame["z"].to_numpy())
    kept = restore(model.to_json())
    with pytest.raises(InputError, match="the formula without its data"):
        kept.rows_of()
    with pytest.raises(InputError, match="offset was given as an array"):
        kept.rows_of(frame)
    assert np.all(whole(kept.rows_of(frame, offset=0.0))[3] == 0.0)
    for text, message in (
        ("{", "cannot be read"),
        ('{"kind": "other"}', "keeps a 'other'"),
        ("[]", "cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            restore(text)


# -- nothing is run --


PYTHON = [
    "__import__('os').system('touch {path}')",
    "{{__import__('os').system('touch {path}')}}",
    "I(open('{path}', 'w'))",
    "I(().__class__.__base__.__subclasses__())",
    "x.__class__",
    "x.mean()",
    "I((lambda: open('{path}', 'w'))())",
    "I([open('{path}', 'w') for i in [1]])",
    "np.save('{path}', x)",
    "np.lib.format.open_memmap('{path}')",
    "I(f'{{open(1)}}')",
    "I(x if open('{path}', 'w') else x)",
    "I(x[0])",
    "C(g, contr.__class__('{path}'))",
    "log(*x)",
    "log(**x)",
    "I(x < z < 3)",
    "I(x @ z)",
    "I(1j * x)",
    "hashed(g, levels=3)",
    "lag(x)",
]


def use(code, where, frame):
    """Put code where a formula may have an expression, or where a file may have been tampered with."""
    if where == "term":
        tb.glm(f"y ~ x + {code}", frame, BERNOULLI)
    elif where == "response":
        tb.glm(f"{code} ~ x", frame, BERNOULLI)
    elif where == "offset":
        tb.glm("y ~ x", frame, BERNOULLI, offset=code)
    else:
        kept = json.loads(tb.glm("y ~ log(z)", frame, BERNOULLI).to_json())
        kept["recipe"]["design"]["factors"][0]["text"] = code
        kept["recipe"]["design"]["parts"][1][1] = [[code, "full"]]
        whole(restore(json.dumps(kept)).rows_of(frame))


@pytest.mark.parametrize("code", PYTHON)
@pytest.mark.parametrize("where", ["term", "response", "offset", "result"])
def test_a_formula_runs_no_python(frame, code, where, tmp_path):
    path = tmp_path / "written"
    code = code.format(path=path)
    with pytest.raises(InputError):
        use(code, where, frame)
    assert not path.exists()


def test_a_formula_of_the_scale_makes_columns_of_its_own(frame):
    """They stand after the others, and are kept too."""
    formula, scale = read_formula("z ~ x + g"), read_formula("~ bs(x, df=4) + h", response=False)
    table = open_table(pa.Table.from_pandas(frame))
    recipe = learn(formula, table, tb.families.Gaussian(1.0), scale=scale).recipe
    assert recipe.names[:5] == ["Intercept", "x", "g[T.b]", "g[T.c]", "Intercept"]
    expected = np.hstack([model_matrix(text, frame).to_numpy(dtype=float) for text in ("x + g", "bs(x, df=4) + h")])
    kept = Recipe.from_plain(json.loads(json.dumps(recipe.plain())))
    for each in (recipe, kept):
        X, *_ = whole(MappedSource(table, ToBlock(each, n=table.n), each.names, recipe.fitting))
        np.testing.assert_allclose(X, expected, atol=1e-14)
    assert set(recipe.variables) == {"x", "g", "h"}


def test_wrong_formulas_of_the_scale(frame):
    for text, message in (("y ~ x", "a formula for the scale has none"), ("~ offset(x)", "has an offset")):
        with pytest.raises(InputError, match=message):
            tb.glm("z ~ x", frame, tb.families.Gaussian(1.0), scale_formula=text)
    with pytest.raises(InputError, match="scale"):
        tb.glm("y ~ x", frame, BERNOULLI, scale_formula="~ x")


@pytest.mark.parametrize("stream", [False, True])
def test_a_scale_that_depends_on_columns(frame, stream):
    model = tb.glm("z ~ x + g", frame, tb.families.Gaussian(), scale_formula="~ x", stream=stream)
    plain = tb.Regression(
        model_matrix("x + g", frame), frame["z"], tb.families.Gaussian(), scale_design=model_matrix("x", frame)
    )
    assert model.names == plain.names
    np.testing.assert_allclose(model.coefficient_priors.scale, plain.coefficient_priors.scale)
    trees = [tb.sample(each, draws=100, chains=2, seed=1, progress=False) for each in (model, plain)]
    np.testing.assert_allclose(*(tree["laplace"]["mode"] for tree in trees), rtol=1e-4, atol=1e-6)
    expected, *_ = tb.predict(trees[0], model, average=True)["estimate"]
    assert expected == pytest.approx(frame["z"].mean(), abs=0.05)
    again, *_ = tb.predict(trees[0], new_data=frame, average=True)["estimate"]
    assert again == pytest.approx(expected)


def test_classes_are_named_by_the_response(frame):
    for stream in (False, True):
        model = tb.glm("g ~ x", frame, tb.families.Categorical(), stream=stream)
        assert "g: 0 = 'a', 1 = 'b', 2 = 'c'" in repr(model)
        assert model.family.labels == ("a", "b", "c")
        assert np.array_equal(whole(model.source)[1][:, 0], frame["g"].map({"a": 0, "b": 1, "c": 2}))
        assert restore(model.to_json()).names == model.names
