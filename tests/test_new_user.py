"""What somebody new to the package gets wrong, or expects: order of rows, names of columns, exposures, help."""

import inspect
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallbayes as tb

N = 400
POISSON = tb.families.Poisson()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    made = pd.DataFrame({"one": 1.0, "x": rng.standard_normal(N), "days": rng.uniform(0.5, 20.0, N)})
    made["cases"] = rng.poisson(made["days"] * np.exp(-1.0 + 0.5 * made["x"])).astype(float)
    return made


def refused(message, make):
    with pytest.raises(tb.errors.InputError, match=message):
        make()


# -- order of rows --


@pytest.mark.parametrize("what", ["y", "weights", "offset", "exposure", "scale_design"])
def test_rows_in_another_order_are_refused(frame, what):
    X, y = frame[["one", "x"]], frame["cases"]
    shuffled = frame["days"].sample(frac=1.0, random_state=0)
    given = {"y": y, "family": POISSON} | {what: shuffled.to_frame() if what == "scale_design" else shuffled}
    refused(
        rf"{what}: its index differs from that of X: row 0 is 0 there .* {what}\.loc\[X\.index\]; .*to_numpy",
        lambda: tb.Regression(X, **given),
    )
    if what in {"weights", "offset", "exposure"}:
        refused(
            f"{what}: its index differs from that of data",
            lambda: tb.glm("cases ~ x", frame, POISSON, **{what: shuffled}),
        )


def test_rows_in_the_same_order_are_taken(frame):
    mixed = frame.sample(frac=1.0, random_state=1)
    model = tb.Regression(mixed[["one", "x"]], mixed["cases"], POISSON, exposure=mixed["days"])
    assert np.array_equal(model.source.responses[:, 0], mixed["cases"])
    # What has no index is taken as it stands, and indexes are compared without a design that has one.
    by_place = tb.Regression(mixed[["one", "x"]], frame["cases"].to_numpy(), POISSON)
    assert np.array_equal(by_place.source.responses[:, 0], frame["cases"])
    X = frame[["one", "x"]].to_numpy()
    refused(
        "weights: its index differs from that of y",
        lambda: tb.Regression(X, frame["cases"], POISSON, weights=mixed["days"]),
    )
    refused("y: shape .399,. was given", lambda: tb.Regression(frame[["x"]], frame["cases"][1:], POISSON))


def test_columns_of_a_dictionary_and_new_rows_in_another_order(frame):
    mixed = frame.sample(frac=1.0, random_state=1)
    columns = {"cases": frame["cases"], "x": mixed["x"]}
    refused(r"data\['x'\]: its index differs", lambda: tb.glm("cases ~ x", columns, POISSON))
    by_array = tb.Regression(frame[["one", "x"]], frame["cases"], POISSON, offset=frame["x"])
    by_formula = tb.glm("cases ~ x", frame, POISSON, offset=frame["x"].to_numpy())
    for model in (by_array, by_formula):
        refused(
            "offset: its index differs from that of new_data", lambda m=model: m.rows_of(frame, offset=mixed["x"])
        )


# -- tables --


@pytest.mark.parametrize("make", [pa.Table.from_pandas, pa.RecordBatch.from_pandas, pl.from_pandas])
def test_tables_have_names_and_name_what_is_no_number(frame, make):
    table = make(frame[["one", "x"]])
    model = tb.Regression(table, frame["cases"].to_numpy(), POISSON)
    assert model.names == ["one", "x"]
    assert np.array_equal(model.source.X, frame[["one", "x"]])
    with_text = make(frame[["x"]].assign(kind="a", flag=True))
    refused(
        "X: column 'kind' has dtype .*tring; .* tb.glm",
        lambda: tb.Regression(with_text, frame["cases"].to_numpy(), POISSON),
    )


def test_missing_numbers_of_tables_are_found(frame):
    holes = {"x": [1.0, None] * (N // 2), "flag": [True, None] * (N // 2)}
    for make in (pa.table, pl.DataFrame):
        refused(
            "X: row 1, column 'x' is nan",
            lambda make=make: tb.Regression(make(holes), frame["cases"].to_numpy(), POISSON),
        )


# -- exposure --


def test_exposure_is_an_offset_of_its_logarithm(frame, tmp_path):
    X, y, days = frame[["one", "x"]], frame["cases"], frame["days"]
    expected = np.log(days.to_numpy())
    frame.to_parquet(tmp_path / "cases.parquet")
    spaced = frame.rename(columns={"days": "days at risk"})
    models = [
        tb.Regression(X, y, POISSON, exposure=days),
        tb.Regression(X, y, POISSON, exposure=days, offset=np.zeros(N)),
        tb.Regression(pa.Table.from_pandas(frame), "cases", POISSON, exposure="days"),
        tb.Regression(tmp_path / "cases.parquet", "cases", tb.families.NegativeBinomial(), exposure="days"),
        tb.glm("cases ~ x", frame, POISSON, exposure="days"),
        tb.glm("cases ~ x", frame, POISSON, exposure=days),
        tb.glm("cases ~ x", frame, POISSON, exposure="days / 2", offset="log(one + one)"),
        tb.glm("cases ~ x", frame, POISSON, exposure=days / 2, offset=np.log(2.0 * np.ones(N))),
        tb.glm("cases ~ x", frame, tb.families.ZeroInflatedPoisson(), exposure="days"),
        tb.glm("cases ~ x", spaced, POISSON, exposure="days at risk"),
    ]
    for model in models:
        block = next(iter(model.source.blocks()))
        np.testing.assert_allclose(block.offset, expected, rtol=1e-13)
        assert "days" not in model.names
    ahead = models[9].rows_of(spaced[:3])
    np.testing.assert_allclose(next(iter(ahead.blocks())).offset, expected[:3])
    refused(
        "offset: the model has an offset|an offset, and none was given .*its logarithm",
        lambda: models[0].rows_of(X),
    )


def test_exposures_on_a_cluster(frame):
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    X, y, days = (da.from_array(frame[c].to_numpy(), chunks=100) for c in (["one", "x"], "cases", "days"))
    for model in (
        tb.Regression(X.rechunk((100, 2)), y, POISSON, exposure=days),
        tb.Regression(dd.from_pandas(frame, npartitions=2), "cases", POISSON, design=["one", "x"], exposure="days"),
    ):
        offsets = np.concatenate([block.offset for block in model.source.blocks()])
        np.testing.assert_allclose(offsets, np.log(frame["days"]))


@pytest.mark.parametrize(("value", "said"), [(0.0, "0"), (-1.0, "-1")])
def test_exposures_must_be_positive(frame, value, said, tmp_path):
    bad = frame.copy()
    bad.loc[7, "days"] = value
    bad.to_parquet(tmp_path / "bad.parquet")
    X, y = bad[["one", "x"]], bad["cases"]
    refused(f"exposure: row 7 is {said}; .*positive", lambda: tb.Regression(X, y, POISSON, exposure=bad["days"]))
    refused(
        f"exposure: row 7 of column 'days' is {said}; .*positive",
        lambda: tb.Regression(tmp_path / "bad.parquet", "cases", POISSON, exposure="days"),
    )
    refused(
        f"exposure: row 7 is {said}; .*positive", lambda: tb.glm("cases ~ x", bad, POISSON, exposure=bad["days"])
    )
    refused(
        "'log.days.' is .* An exposure must be positive", lambda: tb.glm("cases ~ x", bad, POISSON, exposure="days")
    )


def test_exposures_are_for_counts(frame):
    X, late = frame[["one", "x"]], frame["cases"] > 1
    message = r"exposure: one was given with Bernoulli.*such as tb.families.Poisson.*offset"
    refused(message, lambda: tb.Regression(X, late, tb.families.Bernoulli(), exposure=frame["days"]))
    refused(message, lambda: tb.glm("I(cases > 1) ~ x", frame, tb.families.Bernoulli(), exposure="days"))


# -- overdispersion --


@pytest.fixture(scope="module")
def counts():
    """Poisson counts, and counts of the same mean that vary three times as much."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(3000), rng.standard_normal(3000)])
    mean = np.exp(1.0 + 0.3 * X[:, 1])
    return (
        X,
        rng.poisson(mean).astype(float),
        rng.poisson(mean * rng.gamma(0.5 * mean) / (0.5 * mean)).astype(float),
    )


def sampled(model):
    return tb.sample(model, draws=200, seed=1, progress=False)


def test_counts_that_vary_too_much_are_told(counts):
    X, plain, wide = counts
    tree = sampled(tb.Regression(X, wide, POISSON))
    words = re.search(
        r"responses vary ([\d.]+) times as much as a Poisson allows .*NegativeBinomial\(\)", tb.verdict(tree)
    )
    assert words is not None
    beta = np.asarray(tree["posterior"]["beta"]).mean(axis=(0, 1))
    mu = np.exp(X @ beta)
    by_hand = np.sum((wide - mu) ** 2 / mu) / (len(wide) - 2)
    assert float(words[1]) == pytest.approx(by_hand, rel=5e-3)
    assert by_hand == pytest.approx(3.0, rel=0.15)
    assert words[0] in str(tb.summary(tree))
    for model in (tb.Regression(X, plain, POISSON), tb.Regression(X, wide, tb.families.NegativeBinomial())):
        assert "times as much" not in tb.verdict(sampled(model))


def test_weights_and_streams_have_the_same_dispersion(counts, tmp_path):
    X, _, wide = counts
    whole = json.loads(sampled(tb.Regression(X, wide, POISSON)).attrs["dispersion"])
    names = pd.DataFrame({"one": X[:, 0], "x": X[:, 1], "y": wide})
    names.to_parquet(tmp_path / "counts.parquet")
    streamed = tb.Regression(tmp_path / "counts.parquet", "y", POISSON)
    tree = sampled(streamed)
    assert json.loads(tree.attrs["dispersion"])["factor"] == pytest.approx(whole["factor"], rel=0.01)
    assert tree.attrs["passes"] == streamed.source.passes, "the check took a pass"
    few = pd.DataFrame({"x": np.round(X[:, 1]), "y": wide})
    apart, together = (sampled(tb.glm("y ~ x", few, POISSON, collapse=c)) for c in (False, True))
    assert all("3,000 rows" in tb.verdict(tree) for tree in (apart, together))
    found = [re.search(r"vary ([\d.]+) times", tb.verdict(tree))[1] for tree in (apart, together)]
    assert float(found[0]) == pytest.approx(float(found[1]), rel=0.01)


@pytest.mark.parametrize("mean", [0.01, 1.0, 100.0])
def test_poisson_counts_are_seldom_suspected(mean):
    """The standard error is that of Poisson counts: z-values of 300 data sets have variance 1 (to 4 sigma)."""
    from tallbayes.results.dispersion import dispersion

    rng = np.random.default_rng(11)
    X = np.ones((2000, 1))
    model = tb.Regression(X, np.ones(2000), POISSON)
    z = []
    for _ in range(300):
        model.source.responses = y = rng.poisson(mean, (2000, 1)).astype(float)
        found = dispersion(model, np.log(np.full((1, 1, 1), y.mean())))
        z.append((found.factor - 1.0) / found.error)
    # The fitted mean takes away the part 1 / mu of the variance, which is nearly all of it where counts are rare.
    assert abs(np.mean(z)) < 4.0 / np.sqrt(300)
    assert np.std(z) < 1.0 + 4.0 / np.sqrt(600)
    assert np.max(z) < 4.0


# -- report --


def test_the_report_of_a_formula_says_it(frame):
    from tallbayes.reporting.page import page

    few = frame.assign(x=np.round(frame["x"]))
    few.loc[0, "x"] = np.nan
    text = page(sampled(tb.glm("cases ~ x", pd.concat([few] * 3), POISSON, missing="drop")))
    assert "<h1>cases ~ x</h1>" in text
    assert "3 of 1,200 rows" in text
    assert "put together into" in text


# -- help --


def test_signatures_can_be_read():
    for name in tb.__all__:
        thing = getattr(tb, name)
        if callable(thing):
            assert "numpy._typing" not in str(inspect.signature(thing)), name
            assert len(str(inspect.signature(thing))) < 700, name
