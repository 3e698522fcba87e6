"""Results in files, tables and as parameter vectors; rows to predict."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr

import tallbayes as tb
from tallbayes.errors import InputError, MissingPackageError
from tallbayes.models.stored import restore
from tallbayes.models.variables import Shift
from tallbayes.results import files
from tallbayes.results.draws import named_draws, parameter_draws
from tallbayes.sources.base import Block, Source

NAMES = ["one", "a", "b"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(3000), rng.standard_normal(3000), rng.random(3000) < 0.3])
    return X, (rng.random(3000) < 1 / (1 + np.exp(-X @ [-1.0, 0.5, 0.8]))).astype(float)


@pytest.fixture(scope="module")
def model(data):
    return tb.Regression(*data, tb.families.Bernoulli(), names=NAMES)


@pytest.fixture(scope="module")
def tree(model):
    return tb.sample(model, draws=300, chains=3, seed=1, progress=False)


def fake_tree(draws, **others):
    """Return a tree of any draws, as other samplers make them."""
    names = [f"x{j}" for j in range(draws.shape[2])]
    variables = {"beta": (("chain", "draw", "coefficient"), draws)}
    variables |= {name: (("chain", "draw", *dims), values) for name, (dims, values) in others.items()}
    return xr.DataTree.from_dict({"/posterior": xr.Dataset(variables, coords={"coefficient": names})})


# -- files --


@pytest.mark.parametrize("name", ["run.nc", "run.zarr", "a name with spaces.nc"])
def test_a_result_comes_back_as_it_was(tree, tmp_path, name):
    assert tb.save(tree, tmp_path / name) == tmp_path / name
    loaded = tb.load(str(tmp_path / name))
    xr.testing.assert_identical(loaded, tree)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_nothing_is_overwritten_unasked(tree, tmp_path, name):
    path = tb.save(tree, tmp_path / name)
    with pytest.raises(InputError, match=r"is there already. Give another name, or overwrite=True"):
        tb.save(tree, path)
    other = tree.copy()
    other.attrs["seed"] = "another"
    tb.save(other, path, overwrite=True)
    assert tb.load(path).attrs["seed"] == "another"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_a_failed_save_leaves_the_old_file(tree, tmp_path, name, monkeypatch):
    path = tb.save(tree, tmp_path / name)

    def half(self, where, **_):
        where.mkdir() if where.suffix == ".zarr" else where.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(xr.DataTree, "to_netcdf", half)
    monkeypatch.setattr(xr.DataTree, "to_zarr", half)
    with pytest.raises(OSError, match="no space left"):
        tb.save(tree, path, overwrite=True)
    monkeypatch.undo()
    xr.testing.assert_identical(tb.load(path), tree)
    assert len(list(tmp_path.iterdir())) == 1


def test_files_that_cannot_be_used(tree, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="there is no file"):
        tb.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("no netCDF")
    with pytest.raises(InputError, match="cannot be read: it is damaged, or no netCDF file"):
        tb.load(tmp_path / "text.nc")
    with pytest.raises(InputError, match=r"is a directory; expected a file that tb\.save wrote"):
        tb.load(tmp_path)
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(InputError, match="cannot be read: it is damaged, or no Zarr store"):
        tb.load(tmp_path / "empty.zarr")
    for name in ("run.txt", "run", "run.pkl"):
        with pytest.raises(InputError, match=r"expected a name that ends in \.nc.*e\.g\. run\.nc"):
            tb.save(tree, tmp_path / name)
    with pytest.raises(InputError, match="there is no directory"):
        tb.save(tree, tmp_path / "none" / "run.nc")
    with pytest.raises(InputError, match=r"a dict was given; expected a result of tb\.sample"):
        tb.save({}, tmp_path / "run.nc")
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    with pytest.raises(MissingPackageError, match="needs the package zarr"):
        tb.save(tree, tmp_path / "run.zarr")
    assert files.ZARR == ".zarr"


def test_damaged_files_are_not_read(tree, tmp_path):
    """Wherever 100 bytes are overwritten, the file is refused, or has what it had (bytes that nothing is in)."""
    path = tb.save(tree, tmp_path / "run.nc")
    whole, refused = path.read_bytes(), 0
    for part in range(1, 20):
        at = part * len(whole) // 20
        path.write_bytes(whole[:at] + bytes(b ^ 0x55 for b in whole[at : at + 100]) + whole[at + 100 :])
        try:
            loaded = tb.load(path)
        except InputError as error:
            refused += 1
            assert "damaged" in str(error)  # noqa: PT017 - some of them may be read
        else:
            xr.testing.assert_identical(loaded, tree)
    assert refused > 10
    other = tree.copy(deep=True)
    other["posterior"]["beta"][0, 0, 0] += 1e-9
    assert files.checksum(other) != files.checksum(tree)
    # A file of another origin has no checksum, and is read.
    tree.to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    xr.testing.assert_identical(tb.load(tmp_path / "other.nc"), tree)


def test_arviz_that_is_not_installed_is_named(tree, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "arviz", None)
    with pytest.raises(MissingPackageError, match="pip install arviz"):
        tb.to_arviz(tree)


# -- summary --


@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize("draws", [4, 7, 500, 3001])
def test_the_table_is_that_of_arviz_stats(chains, draws):
    import arviz_stats  # noqa: F401  registers the .azstats accessor

    rng = np.random.default_rng(draws)
    walk = np.cumsum(rng.standard_normal((chains, draws, 1)), axis=1)
    tree = fake_tree(np.concatenate([rng.standard_normal((chains, draws, 2)), walk], axis=2))
    table, beta = tb.summary(tree, probs=(0.1, 0.5)), tree["posterior"]["beta"]
    np.testing.assert_allclose(table["mcse_mean"], beta.azstats.mcse(method="mean"), rtol=1e-9)
    np.testing.assert_allclose(table["ess_bulk"], beta.azstats.ess(method="bulk"), rtol=1e-9)
    np.testing.assert_allclose(table["10%"], beta.quantile(0.1, ["chain", "draw"]))
    if chains > 1:
        np.testing.assert_allclose(table["r_hat"], beta.azstats.rhat(), rtol=1e-9)


def test_odds_ratios(tree):
    table, beta = tb.summary(tree, exponentiate=True), np.asarray(tree["posterior"]["beta"]).reshape(-1, 3)
    np.testing.assert_allclose(table["mean"], np.exp(beta).mean(axis=0))
    np.testing.assert_allclose(table["95%"], np.quantile(np.exp(beta), 0.95, axis=0))
    assert list(table["shown"]) == ["odds ratio"] * 3
    assert "All rows are exponentiated: odds ratio." in str(table)
    assert "shown" not in tb.summary(tree)


@pytest.mark.parametrize(
    ("family", "ratio"),
    [
        (tb.families.Bernoulli("cloglog"), "hazard ratio"),
        (tb.families.Binomial(3, link="probit"), ""),
        (tb.families.Ordinal(3), "odds ratio"),
        (tb.families.Ordinal(3, "probit"), ""),
        (tb.families.Categorical(3), "odds ratio"),
        (tb.families.Poisson(), "rate ratio"),
        (tb.families.NegativeBinomial(), "rate ratio"),
        (tb.families.Gamma(), "ratio of means"),
        (tb.families.Gaussian(), ""),
        (tb.families.StudentT(4, 1.0), ""),
    ],
)
def test_what_exponentials_of_coefficients_are(family, ratio):
    assert family.ratio == ratio


def test_a_table_of_ratios_says_what_is_none():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((2, 500, 2))
    tree = fake_tree(draws, scale_beta=(("z",), draws), cut=(("c",), draws))
    tree.attrs |= {"ratio": "odds ratio", "family": "Some()"}
    table = tb.summary(tree, exponentiate=True)
    assert list(table["shown"]) == ["odds ratio"] * 2 + ["ratio of scales"] * 2 + ["as it is"] * 2
    np.testing.assert_allclose(table["mean"], [*np.exp(draws).mean((0, 1))] * 2 + [*draws.mean((0, 1))])
    said = "(odds ratio): x0, x1; exponentiated (ratio of scales): scale_beta[0], scale_beta[1]; not exponentiated: cut"
    assert f"Exponentiated {said}" in str(table)
    tree.attrs["ratio"] = ""
    table = tb.summary(tree, exponentiate=True)
    assert list(table["shown"]) == ["as it is"] * 2 + ["ratio of scales"] * 2 + ["as it is"] * 2
    plain = fake_tree(draws, scale=((), draws[:, :, 0]))
    plain.attrs |= {"ratio": "", "family": "Gaussian()"}
    with pytest.raises(
        InputError, match=r"exponentiate=True was given with Gaussian\(\), whose coefficients are no log"
    ):
        tb.summary(plain, exponentiate=True)


def test_the_ratio_is_kept_with_the_result(tree, data):
    assert tree.attrs["ratio"] == "odds ratio"
    rng = np.random.default_rng(1)
    frame = {"x": rng.standard_normal(50), "z": rng.random(50) + 1.0}
    assert tb.glm("log(z) ~ x", frame, tb.families.Gaussian()).ratio == "ratio of responses"
    assert tb.glm("z ~ x", frame, tb.families.Gaussian()).ratio == ""


def test_printed_it_says_what_to_think_of_it(tree):
    table = tb.summary(tree)
    for text in (str(table), repr(table), str(table.round(2)), table._repr_html_()):
        assert "R-hat is at most" in text
        assert "mean" in text
    assert isinstance(table, pd.DataFrame)


def test_many_draws_are_ranked_in_part():
    """Effective draws are then a lower bound; means and quantiles are of all draws."""
    draws = np.random.default_rng(0).standard_normal((2, 1_200_000, 1))
    table = tb.summary(fake_tree(draws))
    assert 0.9 * 800_000 < table["ess_bulk"].iloc[0] < 1.1 * 800_000
    assert table["mean"].iloc[0] == pytest.approx(draws.mean())
    assert table["mcse_mean"].iloc[0] == pytest.approx(2_400_000**-0.5, rel=0.05)


def test_parameters_beside_coefficients_have_their_lines():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((2, 500, 2))
    scale = rng.random((2, 500))
    cuts = rng.random((2, 500, 3))
    tree = fake_tree(draws, scale=((), scale), cut=(("cutpoint",), cuts))
    names, values = named_draws(tree)
    assert names == ["x0", "x1", "scale", "cut[0]", "cut[1]", "cut[2]"]
    np.testing.assert_array_equal(values, np.concatenate([draws, scale[:, :, None], cuts], axis=2))
    table = tb.summary(tree, exponentiate=True)
    assert table.loc["scale", "mean"] == pytest.approx(scale.mean())
    assert table.loc["x1", "mean"] == pytest.approx(np.exp(draws[:, :, 1]).mean())


@pytest.mark.parametrize("probs", [(0.0, 0.5), (0.5, 0.5), ("a",), 2.0, (True,)])
def test_quantiles_that_are_none(tree, probs):
    with pytest.raises(InputError, match="summary: probs="):
        tb.summary(tree, probs=probs)


# -- parameter vectors --


def test_draws_are_in_the_models_order(data, model, tree):
    np.testing.assert_array_equal(parameter_draws(tree, model), tree["posterior"]["beta"])
    X, y = data
    turned = tb.Regression(X[:, ::-1], y, tb.families.Bernoulli(), names=NAMES[::-1])
    np.testing.assert_array_equal(parameter_draws(tree, turned), np.asarray(tree["posterior"]["beta"])[:, :, ::-1])
    other = tb.Regression(X, y, tb.families.Bernoulli())
    with pytest.raises(InputError, match="its coefficients are one, a, b; the model has x0, x1, x2"):
        parameter_draws(tree, other)
    with pytest.raises(InputError, match=r"the tree has no posterior\['beta'\]"):
        parameter_draws(tree["sample_stats"], model)


# -- rows to predict --


class Streamed(Source):
    """Rows that can only be gone through."""

    def __init__(self, X, y, offset=0.0):
        self.X, self.y, self.names, self.offset = X, y, NAMES, np.array([offset])

    @property
    def n(self):
        return len(self.y)

    def blocks(self):
        for first in range(0, self.n, 700):
            rows = slice(first, first + 700)
            yield Block(first, self.X[rows], self.y[rows, None], np.ones(1), self.offset)


def design(source):
    return np.concatenate([block.X for block in source.checked_blocks()])


@pytest.mark.parametrize("streamed", [False, True])
def test_own_rows_with_columns_set(data, model, streamed):
    X, y = data
    if streamed:
        model = tb.Regression(Streamed(X, y), None, tb.families.Bernoulli())
    np.testing.assert_array_equal(design(model.rows_of()), X)
    each = np.arange(3000.0)
    found = design(model.rows_of(setting={"a": Shift(0.5), "b": 1, "one": each}))
    np.testing.assert_array_equal(found, np.column_stack([each, X[:, 1] + 0.5, np.ones(3000)]))
    np.testing.assert_array_equal(model.rows_of().subsample(3000).X, X)  # the data were left alone
    blocks = list(model.rows_of(setting={"b": 0}, beside=["b", "a"]).checked_blocks())
    told = np.concatenate([block.responses for block in blocks])
    np.testing.assert_array_equal(told, np.column_stack([y, X[:, 2], X[:, 1]]))
    variables = model.variables
    assert variables["b"].levels == (0.0, 1.0)
    assert variables["a"].levels == ()
    assert variables["a"].mean == pytest.approx(X[:, 1].mean())
    assert variables["a"].quantiles[0.25] == pytest.approx(np.quantile(X[:, 1], 0.25), abs=0.1)


def test_new_rows_of_every_kind(data, model, tree):
    X = data[0][:5]
    frame = pd.DataFrame(X, columns=NAMES)[["b", "one", "a"]].assign(other="text")
    stored = restore(tree.attrs["model"])
    for each in (model, stored):
        for given in (X, X.tolist(), frame, pa.Table.from_pandas(frame), {n: X[:, j] for j, n in enumerate(NAMES)}):
            np.testing.assert_array_equal(design(each.rows_of(given)), X)
        np.testing.assert_array_equal(design(each.rows_of(X, setting={"a": 2.0}))[:, 1], 2.0)
        np.testing.assert_array_equal(design(each.rows_of(Streamed(X, data[1][:5]))), X)
    assert repr(stored.family) == repr(model.family)
    assert stored.variables["b"].levels == (0.0, 1.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, 2)), "2 columns were given; the model has 3"),
        (pd.DataFrame({"one": [1.0], "a": [2.0]}), "there is no column 'b'"),
        (pd.DataFrame({"one": [1.0], "a": ["x"], "b": [1.0]}), "column 'a' has dtype"),
        ([[1.0, np.nan, 0.0]], r"new_data: row 0, column 'a' is nan"),
        ({"one": 1.0}, "there is no column 'a'"),
    ],
)
def test_new_rows_that_cannot_be_used(model, given, message):
    with pytest.raises(InputError, match=message):
        model.rows_of(given)


def test_settings_that_cannot_be_used(data, model, tree):
    for setting, message in [
        ({"c": 1.0}, "'c' is not a variable of the model; it has 'one', 'a', 'b'"),
        ({"a": "high"}, "expected a number"),
        ({"a": np.zeros(7)}, "one for each of 3,000 rows"),
        ({"a": np.inf}, "not finite"),
    ]:
        with pytest.raises(InputError, match=message):
            design(model.rows_of(setting=setting))
    with pytest.raises(InputError, match="by: 'c' is not a variable"):
        model.rows_of(beside=["c"])
    with pytest.raises(InputError, match="an offset was given without new_data"):
        model.rows_of(offset=1.0)
    with pytest.raises(InputError, match="the model without its data"):
        restore(tree.attrs["model"]).rows_of()
    other = Streamed(*data)
    other.names = ["x", "y", "z"]
    with pytest.raises(InputError, match="a source with columns"):
        model.rows_of(other)
    with pytest.raises(InputError, match="offset was given beside a source"):
        model.rows_of(Streamed(*data), offset=1.0)


def test_a_forgotten_offset_is_asked_for(data):
    X, y = data
    for model in (
        tb.Regression(X, y, tb.families.Poisson(), offset=np.arange(3000) // 2999, names=NAMES),
        tb.Regression(Streamed(X, y, 0.3), None, tb.families.Poisson()),
    ):
        with pytest.raises(InputError, match=r"the model has an offset.*offset=\.\.\."):
            model.rows_of(X[:2])
        block = next(iter(model.rows_of(X[:2], offset=[1.0, 2.0]).blocks()))
        np.testing.assert_array_equal(block.offset, [1.0, 2.0])
        with pytest.raises(InputError, match="the model has an offset"):
            restore(model.to_json()).rows_of(X[:2])


def test_families_are_kept_by_name_and_number(data):
    X = data[0]
    for family in (
        tb.families.StudentT(5.0, 2.0),
        tb.families.Bernoulli("probit"),
        tb.families.Binomial(9, "cloglog"),
        tb.families.Gamma(3.0),
    ):
        model = tb.Regression(X, np.ones(3000), family, names=NAMES)
        assert repr(restore(model.to_json()).family) == repr(family)
    each = tb.Regression(X, np.ones(3000), tb.families.Binomial(np.full(3000, 4)), names=NAMES)
    assert isinstance(restore(each.to_json()).family, tb.families.Binomial)
    custom = tb.families.custom("softplus(eta) - y*eta", responses=(0, 1))
    text = tb.Regression(*data, custom).to_json()
    with pytest.raises(InputError, match=r"a family that cannot be restored from a file. Give the model"):
        restore(text)
