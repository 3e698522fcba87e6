"""Data taller than memory: files and streams give the draws of their rows in any layout; bad files are refused."""

import errno
import gc
import json
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.errors import InputError
from tallbayes.kernels.mixing import effective_draws
from tallbayes.setup.setup import setup_of
from tallbayes.sources.base import Block, checksum
from tallbayes.sources.files import FileTable
from tallbayes.sources.mapped import ColumnsToBlock, MappedSource
from tallbayes.sources.tables import open_table

pa = pytest.importorskip("pyarrow")
import pyarrow.dataset as ds  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

BERNOULLI = tb.families.Bernoulli()
NAMES = ["x0", "x1", "x2"]
N = 150_000  # more than two blocks, and enough for a subsample


def make_rows(n=N, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)).astype(np.float32)
    X[:, 0] = 1.0
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [-0.5, 1.0, 0.3]))).astype(np.float32)
    return X, y


def table_of(X, y, **more):
    return pa.table({**{name: np.ascontiguousarray(X[:, j]) for j, name in enumerate(NAMES)}, "y": y, **more})


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def path(rows, tmp_path_factory):
    file = tmp_path_factory.mktemp("tall") / "rows.parquet"
    pq.write_table(table_of(*rows), file, row_group_size=40_000)
    return file


def draws_of(model, **given):
    tree = tb.sample(model, **{"draws": 200, "chains": 2, "seed": 4, "progress": False, **given})
    assert tree.attrs["bound_violations"] == 0
    return np.asarray(tree["posterior"]["beta"]), tree


@pytest.fixture(scope="module")
def of_file(path):
    return draws_of(tb.Regression(path, "y", BERNOULLI, design=NAMES))[0]


# -- the same rows, held in any way --


@pytest.mark.parametrize("row_group", [1000, 65536, 1_000_000])
def test_draws_do_not_depend_on_row_groups(rows, of_file, row_group, tmp_path):
    pq.write_table(table_of(*rows), tmp_path / "rows.parquet", row_group_size=row_group)
    found, _ = draws_of(tb.Regression(str(tmp_path / "rows.parquet"), "y", BERNOULLI))
    np.testing.assert_array_equal(found, of_file)


def test_a_memory_map_gives_the_draws_of_a_file(rows, of_file, tmp_path):
    np.save(tmp_path / "X.npy", rows[0])
    np.save(tmp_path / "y.npy", rows[1])
    by_path = tb.Regression(tmp_path / "X.npy", tmp_path / "y.npy", BERNOULLI)
    mapped = tb.Regression(np.load(tmp_path / "X.npy", mmap_mode="r"), rows[1], BERNOULLI)
    for model in (by_path, mapped):
        assert "random access" not in model.source.offers
        np.testing.assert_array_equal(draws_of(model)[0], of_file)


def _folder(rows, path, tmp_path):
    for number, part in enumerate(np.array_split(np.arange(N), 3)):
        pq.write_table(table_of(rows[0][part], rows[1][part]), tmp_path / f"part-{number}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "notes.txt").write_text("not rows")
    return tmp_path


def _pattern(rows, path, tmp_path):
    return f"{_folder(rows, path, tmp_path)}/part-*.parquet"


def _several(rows, path, tmp_path):
    folder = _folder(rows, path, tmp_path)
    return [folder / f"part-{number}.parquet" for number in range(3)]


def _dataset(rows, path, tmp_path):
    return ds.dataset(path)


def _one_large_row_group(rows, path, tmp_path):
    pq.write_table(table_of(*rows), tmp_path / "rows.parquet", row_group_size=N)
    return tmp_path / "rows.parquet"


def _lazy_frame(rows, path, tmp_path):
    return pytest.importorskip("polars").scan_parquet(path)


def _relation(rows, path, tmp_path):
    return pytest.importorskip("duckdb").sql(f"select * from '{path}'")


def _arrow_table(rows, path, tmp_path):
    return table_of(*rows)


class Streams:
    """Something of a user's own that gives an Arrow stream as often as asked."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def _own_streams(rows, path, tmp_path):
    return Streams(table_of(*rows))


@pytest.mark.parametrize(
    "hold",
    [
        _folder,
        _pattern,
        _several,
        _dataset,
        _one_large_row_group,
        _lazy_frame,
        _relation,
        _arrow_table,
        _own_streams,
    ],
)
def test_the_same_rows_from_anywhere(rows, path, of_file, hold, tmp_path, monkeypatch):
    if hold is _one_large_row_group:
        monkeypatch.setattr("tallbayes.sources.files.GIGANTIC", 50_000)
    model = tb.Regression(hold(rows, path, tmp_path), "y", BERNOULLI, design=NAMES)
    np.testing.assert_array_equal(draws_of(model)[0], of_file)


def test_a_stream_that_can_be_read_once_is_copied_where_the_user_says(rows, of_file, tmp_path):
    with pytest.raises(InputError, match=r"RecordBatchReader was given, which can be read only once.*scratch="):
        tb.sources.open_source(table_of(*rows).to_reader(), response="y")
    with pytest.raises(InputError, match=r"scratch: .*nowhere is not a directory"):
        tb.sources.open_source(table_of(*rows).to_reader(), response="y", scratch=tmp_path / "nowhere")
    source = tb.sources.open_source(table_of(*rows).to_reader(), response="y", design=NAMES, scratch=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    model = tb.Regression(source, None, BERNOULLI)
    np.testing.assert_array_equal(draws_of(model)[0], of_file)
    del source, model
    gc.collect()  # a model and its set-up know each other
    assert not list(tmp_path.iterdir())


def test_offset_and_weights_by_name_and_columns_of_folders(tmp_path):
    """A partitioned data set, whose folders are a column; the same as arrays."""
    n = 3000
    X, y = make_rows(n)
    rng = np.random.default_rng(2)
    more = {
        "w": rng.integers(0, 3, n),
        "known": rng.standard_normal(n),
        "late": (rng.random(n) < 0.5).astype(np.int32),
    }
    ds.write_dataset(
        table_of(X, y, **more),
        tmp_path,
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("late", pa.int32())]), flavor="hive"),
    )
    order = np.argsort(more["late"], kind="stable")
    design = np.column_stack([X, more["late"]])[order]
    kernel = tb.kernels.ScalableMH(order=2)
    one = tb.Regression(tmp_path, "y", BERNOULLI, design=[*NAMES, "late"], offset="known", weights="w")
    other = tb.Regression(
        design, y[order], BERNOULLI, offset=more["known"][order], weights=more["w"][order].astype(float)
    )
    assert one.names == [*NAMES, "late"]
    np.testing.assert_allclose(kernel.prepare(one).metric.centre, kernel.prepare(other).metric.centre, rtol=1e-10)


def test_successes_of_trials_in_a_file(tmp_path):
    X, _ = make_rows(2000)
    y = np.random.default_rng(3).binomial(4, 0.4, 2000)
    pq.write_table(table_of(X, y), tmp_path / "rows.parquet")
    family, kernel = tb.families.Binomial(4), tb.kernels.ScalableMH(order=2)
    one = tb.Regression(tmp_path / "rows.parquet", "y", family, design=NAMES)
    other = tb.Regression(X, y, family)
    centres = [kernel.prepare(model).metric.centre for model in (one, other)]
    np.testing.assert_allclose(*centres, rtol=1e-10)
    assert one.source.passes == 1 + setup_of(one).passes - one.checking_passes


def test_arrays_have_the_same_mode_and_posterior(rows, path):
    """Means and variances of three coefficients; batch means are off by a tenth, hence 6.5 standard errors."""
    one, other = tb.Regression(path, "y", BERNOULLI, design=NAMES), tb.Regression(*rows, BERNOULLI)
    beta = [draws_of(model, draws=3000)[0] for model in (one, other)]
    modes = [setup_of(model).mode.theta for model in (one, other)]
    np.testing.assert_allclose(*modes, rtol=0, atol=1e-10)
    for values in (beta, [(b - beta[0].mean(axis=(0, 1))) ** 2 for b in beta]):
        errors = [v.std(axis=(0, 1)) / np.sqrt(effective_draws(v)) for v in values]
        apart = np.abs(values[0].mean(axis=(0, 1)) - values[1].mean(axis=(0, 1)))
        assert np.all(apart < 6.5 * np.hypot(*errors))


# -- few passes --


def test_a_seed_gives_the_same_draws_again(path):
    """Also where the first run has used up its slots, and the second has to draw the same rows anew."""
    model = tb.Regression(path, "y", tb.families.Bernoulli(), design=NAMES)
    first, again = (
        tb.sample(model, draws=1000, chains=2, seed=3, progress=False)["posterior"]["beta"] for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


def test_passes_are_few_and_said(rows, path, tmp_path):
    """Profile and subsamples, Newton on all rows, and one for everything else; a run has its rows from that one."""
    model = tb.Regression(path, "y", BERNOULLI, design=NAMES)
    assert model.source.passes == 1
    _, tree = draws_of(model)
    passes = int(tree.attrs["passes"])
    assert passes == model.source.passes == setup_of(model).passes
    assert passes == 2 + setup_of(model).mode.passes <= 7
    # Another seed has rows of its own, drawn in one pass for all chains; the same seed the same ones again.
    first, second = (draws_of(model, seed=seed) for seed in (5, 4))
    assert model.source.passes == passes + 2
    assert int(first[1].attrs["passes"]) == passes + 1
    assert not np.array_equal(first[0], second[0])
    np.testing.assert_array_equal(second[0], np.asarray(tree["posterior"]["beta"]))


def test_a_large_file_takes_four_passes(monkeypatch, path):
    monkeypatch.setattr("tallbayes.setup.mode.LARGE", 1000)
    monkeypatch.setattr("tallbayes.models.subsamples.LARGE", 1000)
    model = tb.Regression(path, "y", BERNOULLI, design=NAMES)
    _, tree = draws_of(model)
    assert int(tree.attrs["passes"]) == 4


def test_explain_draws_rows_in_the_same_pass(path):
    model = tb.Regression(path, "y", BERNOULLI, design=NAMES)
    tb.explain(model)
    passes = model.source.passes
    assert passes == 2 + setup_of(model).mode.passes
    draws_of(model)
    assert model.source.passes == passes + 1


@pytest.mark.parametrize("order", ["by response", "halves"])
def test_sorted_files_have_the_right_posterior_in_no_more_passes(rows, order, tmp_path):
    """Six moments against arrays, at 6.5 standard errors; the mode to rounding."""
    X, y = (values.copy() for values in rows)
    if order == "by response":
        at = np.argsort(y, kind="stable")
        X, y = X[at], y[at]
    else:
        half = N // 2
        X[half:, 1] += 1.0
        y[half:] = np.random.default_rng(5).random(N - half) < 1.0 / (1.0 + np.exp(-X[half:] @ [1.0, -0.5, 0.0]))
    shuffled = np.random.default_rng(6).permutation(N)
    found = []
    for number, at in enumerate((slice(None), shuffled)):
        file = tmp_path / f"{number}.parquet"
        pq.write_table(table_of(X[at], y[at]), file)
        found.append(draws_of(tb.Regression(file, "y", BERNOULLI, design=NAMES), draws=2000))
    assert int(found[0][1].attrs["passes"]) <= int(found[1][1].attrs["passes"])
    arrays = draws_of(tb.Regression(X, y, BERNOULLI), draws=2000)[0]
    mean = arrays.mean(axis=(0, 1))
    for change in (lambda b: b, lambda b: (b - mean) ** 2):
        values = [change(b) for b in (found[0][0], arrays)]
        errors = [v.std(axis=(0, 1)) / np.sqrt(effective_draws(v)) for v in values]
        apart = np.abs(values[0].mean(axis=(0, 1)) - values[1].mean(axis=(0, 1)))
        assert np.all(apart < 6.5 * np.hypot(*errors))


def test_core_rows_are_gathered_from_a_file(tmp_path):
    """A level with thirty rows and one event: the same core and surrogate as from arrays, in one more pass."""
    n = 60_000
    X, y = make_rows(n)
    rare = np.zeros(n, dtype=np.float32)
    rare[:: n // 30] = 1.0
    y[rare > 0] = 0.0
    y[0] = 1.0
    pq.write_table(table_of(X, y, rare=rare), tmp_path / "rows.parquet")
    one = tb.Regression(tmp_path / "rows.parquet", "y", BERNOULLI, design=[*NAMES, "rare"])
    other = tb.Regression(np.column_stack([X, rare]), y, BERNOULLI, names=[*NAMES, "rare"])
    tails = [setup_of(model).tails for model in (one, other)]
    assert list(tails[0].first) == [3]
    np.testing.assert_array_equal(tails[0].rows.table, tails[1].rows.table)
    np.testing.assert_array_equal(tails[0].rows.weight, tails[1].rows.weight)
    _, tree = draws_of(one)
    assert json.loads(tree.attrs["plan"])["core_of"] == ["rare"]
    assert int(tree.attrs["passes"]) == 3 + setup_of(one).mode.passes


def test_progress_says_pass_speed_and_time_left(path, capsys, monkeypatch):
    monkeypatch.setattr("tallbayes.run.progress.LINE_EVERY", 0.0)
    monkeypatch.setattr("tallbayes.run.progress.READ_EVERY", 0.0)
    tb.sample(tb.Regression(path, "y", BERNOULLI, design=NAMES), draws=100, seed=1, progress=True)
    said = capsys.readouterr().err
    assert "pass 2 over 150,000 rows: 87 %" in said
    assert "rows/s, 0:00 left" in said


# -- the layer below: tables and functions of batches --


def test_tables_give_batches_of_fixed_size(path):
    table = open_table(path, ["x1", "y"])
    assert table.n == N
    batches = list(table.batches(["y", "x1"], rows=7000))
    assert [batch.num_rows for batch in batches] == [7000] * 21 + [3000]
    assert batches[0].schema.names == ["y", "x1"]
    again = list(table.batches(["y", "x1"], rows=7000))
    assert all(one.equals(other) for one, other in zip(batches, again, strict=True))
    assert table.place(0).endswith("rows.parquet, row group 0")
    assert table.place(N - 1).endswith("row group 3")


def _doubled(batch, first):
    block = ColumnsToBlock(("x1",), "y")(batch, first)
    return block._replace(X=2.0 * block.X)


def test_a_source_of_a_function_of_batches(path):
    source = MappedSource(open_table(path), _doubled, ["twice"], ["x1", "y"])
    model = tb.Regression(source, None, BERNOULLI)
    plain = tb.Regression(path, "y", BERNOULLI, design=["x1"])
    np.testing.assert_allclose(2.0 * setup_of(model).mode.theta, setup_of(plain).mode.theta, rtol=1e-9)
    assert pickle.loads(pickle.dumps(source.to_block)) is _doubled


def test_nulls_booleans_and_decimals_are_numbers(tmp_path):
    n = 500
    rng = np.random.default_rng(1)
    y = rng.random(n) < 0.5
    amount = [str(round(v, 2)) for v in rng.random(n)]
    columns = {"one": np.ones(n, dtype=np.int8), "b": rng.random(n) < 0.5, "y": y}
    rows = pa.table({**columns, "a": pa.array(amount).cast(pa.decimal128(10, 2))})
    pq.write_table(rows, tmp_path / "rows.parquet")
    model = tb.Regression(tmp_path / "rows.parquet", "y", BERNOULLI, design=["one", "b", "a"])
    block = next(model.source.blocks())
    np.testing.assert_allclose(block.X[:, 2], np.array(amount, dtype=float), rtol=1e-15)
    missing = pa.array([None if i == 77 else bool(v) for i, v in enumerate(columns["b"])])
    pq.write_table(rows.set_column(1, "b", missing), tmp_path / "missing.parquet")
    with pytest.raises(InputError, match=r"row 77, column 'b' is nan.*missing.parquet, row group 0"):
        tb.Regression(tmp_path / "missing.parquet", "y", BERNOULLI)


# -- what cannot be used --


def test_bad_values_are_named_with_file_and_row_group(rows, tmp_path):
    X, y = (values.copy() for values in rows)
    X[N - 3, 1] = np.nan
    pq.write_table(table_of(X, y), tmp_path / "nan.parquet", row_group_size=40_000)
    with pytest.raises(InputError, match=rf"row {N - 3}, column 'x1' is nan.*nan\.parquet, row group 3"):
        tb.Regression(tmp_path / "nan.parquet", "y", BERNOULLI)
    y[50_000] = 2.0
    pq.write_table(table_of(rows[0], y), tmp_path / "two.parquet", row_group_size=40_000)
    with pytest.raises(InputError, match=r"y: row 50000 is 2 .*two\.parquet, row group 1"):
        tb.Regression(tmp_path / "two.parquet", "y", BERNOULLI)
    for name, bad in (("w", -1.0), ("w", np.nan), ("known", np.inf)):
        more = np.ones(N)
        more[130_000] = bad
        pq.write_table(table_of(*rows, **{name: more}), tmp_path / "beside.parquet", row_group_size=40_000)
        given = {"weights" if name == "w" else "offset": name}
        with pytest.raises(InputError, match=r"row 130000 of column .*beside\.parquet, row group 3"):
            tb.Regression(tmp_path / "beside.parquet", "y", BERNOULLI, design=NAMES, **given)


def test_a_file_that_is_cut_off(path, tmp_path):
    whole = path.read_bytes()
    for name, text in (("short", whole[: len(whole) // 2]), ("empty", b""), ("text", b"a,b\n1,2\n" * 100)):
        (tmp_path / f"{name}.parquet").write_bytes(text)
        with pytest.raises(InputError, match=rf"{name}\.parquet: this could not be read as Parquet"):
            tb.Regression(tmp_path / f"{name}.parquet", "y", BERNOULLI)


def test_a_file_cut_off_in_a_folder_is_named(path, tmp_path):
    whole = path.read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole)
    (tmp_path / "b.parquet").write_bytes(whole[:-100])
    with pytest.raises(InputError, match=r"b\.parquet: this could not be read as Parquet"):
        tb.Regression(tmp_path, "y", BERNOULLI)


def test_a_damaged_row_group_is_named(path, tmp_path):
    """Pages overwritten with noise: the footer says that all is well."""
    broken = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(2).column(1)
    start = group.dictionary_page_offset or group.data_page_offset
    broken[start : start + 4000] = b"\xff" * 4000
    (tmp_path / "broken.parquet").write_bytes(bytes(broken))
    with pytest.raises(InputError, match=r"broken\.parquet, row group 2: this could not be read as Parquet"):
        tb.Regression(tmp_path / "broken.parquet", "y", BERNOULLI, design=NAMES)


def test_a_column_that_changes_type_or_is_missing_in_a_file(rows, tmp_path):
    first = table_of(rows[0][:1000], rows[1][:1000])
    pq.write_table(first, tmp_path / "a.parquet")
    changed = first.set_column(1, "x1", first["x1"].cast(pa.string()))
    pq.write_table(changed, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet: column 'x1' is of type string; in .*a\.parquet it is float"):
        tb.Regression(tmp_path, "y", BERNOULLI)
    pq.write_table(first.drop_columns(["x1"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet: no column is called 'x1', which other files"):
        tb.Regression(tmp_path, "y", BERNOULLI, design=NAMES)
    # Other columns are not read, nor are files without rows.
    tb.Regression(tmp_path, "y", BERNOULLI, design=["x0", "x2"])
    pq.write_table(first.slice(0, 0), tmp_path / "b.parquet")
    assert tb.Regression(tmp_path, "y", BERNOULLI, design=NAMES).n == 1000


def test_what_is_not_there(path, rows, tmp_path):
    none = first = table_of(rows[0][:10], rows[1][:10])
    pq.write_table(none.slice(0, 0), tmp_path / "none.parquet")
    words = first.append_column("word", pa.array(["a"] * 10))
    pq.write_table(words, tmp_path / "words.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "short.npy").write_bytes(b"\x93NUMPY")
    wrong = [
        ((tmp_path / "none.parquet", "y"), {}, "there are no rows in it"),
        ((tmp_path / "folder", "y"), {}, "there are no Parquet files in this folder"),
        ((tmp_path / "gone.parquet", "y"), {}, "there is no such file or folder"),
        ((f"{tmp_path}/*.csv", "y"), {}, "no file has a name that fits"),
        ((tmp_path / "gone.npy", rows[1]), {}, "there is no such file"),
        ((tmp_path / "short.npy", rows[1]), {}, "could not be read as an array"),
        ((path, "z"), {}, "no column is called 'z'; expected one of 'x0', 'x1', 'x2', 'y'"),
        ((path, "y"), {"design": ["x0", "x9"]}, "no column is called 'x9'"),
        ((path, "y"), {"weights": "w"}, "no column is called 'w'"),
        ((path, "y"), {"design": "x0"}, "expected a list of the names"),
        ((path, "y"), {"design": []}, "expected a list of the names"),
        ((path, "y"), {"design": ["x0", "x0"]}, "'x0' is named more than once"),
        ((path, rows[1]), {}, "response: a ndarray was given; expected the name of a column"),
        ((path, "y"), {"offset": np.ones(3)}, "offset: a ndarray was given; expected the name of a column"),
        ((path, "y"), {"names": ["a"]}, "names: given beside a table"),
        ((rows[0], rows[1]), {"design": NAMES}, "design: given beside an array"),
        ((tmp_path / "words.parquet", "y"), {}, "column 'word' is of type string; expected numbers. Use tb.glm"),
    ]
    for given, named, message in wrong:
        with pytest.raises(InputError, match=message):
            tb.Regression(*given, BERNOULLI, **named)
    with pytest.raises(InputError, match="data: a int was given; expected a path"):
        open_table(7)
    with pytest.raises(InputError, match="the Table: there are no rows"):
        open_table(none.slice(0, 0))
    with pytest.raises(InputError, match="the stream has no rows"):
        open_table(none.slice(0, 0).to_reader(), scratch=tmp_path)
    with pytest.raises(InputError, match="the stream has no column 'z'"):
        open_table(none.to_reader(), ["z"], scratch=tmp_path)
    assert not list(tmp_path.glob("tallbayes-*"))


def test_a_stream_that_fails_or_ends_early_is_refused(rows):
    class Failing:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("no connection")

    with pytest.raises(InputError, match=r"the Failing did not give its rows .*RuntimeError: no connection"):
        tb.Regression(Failing(), "y", BERNOULLI)

    class Shrinking(Streams):
        asked = 0

        def __arrow_c_stream__(self, requested_schema=None):
            self.asked += 1
            return self.table.slice(0, N if self.asked < 3 else 1000).__arrow_c_stream__(requested_schema)

    with pytest.raises(InputError, match=r"the Shrinking had 1,000 rows in this pass; expected 150,000.*scratch="):
        tb.Regression(Shrinking(table_of(*rows)), "y", BERNOULLI)


def test_rows_that_change_between_passes_are_noticed(rows, tmp_path):
    X, y = (values.copy() for values in rows)
    file = tmp_path / "rows.parquet"
    pq.write_table(table_of(X, y), file, row_group_size=40_000)
    model = tb.Regression(file, "y", BERNOULLI, design=NAMES)
    X[100_000, 2] += 1e-3
    pq.write_table(table_of(X, y), file, row_group_size=40_000)
    with pytest.raises(
        InputError, match=r"rows 65,536 to 131,071 are not what they were .*rows\.parquet, row group 1"
    ):
        tb.sample(model, draws=10, progress=False)


def test_checksums_see_every_number():
    block = ColumnsToBlock(("a", "b"), "y", "w", "o").of_columns(
        {name: np.arange(1.0, 1001.0) for name in ("a", "b", "y", "w", "o")}, 0
    )
    before = checksum(block)
    for part in range(1, 5):
        for i in (0, 511, 999):
            arrays = [values.copy() for values in block[1:]]
            arrays[part - 1].reshape(-1)[i] = np.nextafter(arrays[part - 1].reshape(-1)[i], 2e9)
            assert checksum(type(block)(0, *arrays)) != before
    exchanged = block.X.copy()
    exchanged[[3, 5], 1] = exchanged[[5, 3], 1]
    assert checksum(block._replace(X=exchanged)) != before
    assert checksum(block._replace(X=block.X.copy())) == before


def exchange(values, i, j):
    values[[i, j]] = values[[j, i]]


KINDS_OF_NUMBERS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "single": lambda rng, shape: rng.standard_normal(shape).astype(np.float32).astype(np.float64),
    "binary": lambda rng, shape: rng.integers(0, 2, shape).astype(np.float64),
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "counts": lambda rng, shape: rng.poisson(3.0, shape).astype(np.float64),
    "powers": lambda rng, shape: 2.0 ** rng.integers(-900, 900, shape),
}


@pytest.mark.parametrize("kind", KINDS_OF_NUMBERS)
@pytest.mark.parametrize("n", [700, 8192])
def test_checksums_see_rows_that_change_places(kind, n):
    """Any two rows, at any distance; the whole of them, or one of their numbers."""
    rng = np.random.default_rng(12)
    make = KINDS_OF_NUMBERS[kind]
    block = Block(0, make(rng, (n, 6)), make(rng, (n, 1)), make(rng, n), make(rng, n))
    before = checksum(block)
    apart = [1, 2, 3, 8, 64, 85, 128, 255, 256, 257, 512, 2048, 4096, n - 1]
    pairs = [
        (i, i + step) for step in apart if step < n for i in {0, 1, (n - step) // 2, n - step - 1} if i + step < n
    ]
    pairs += [tuple(rng.choice(n, 2, replace=False)) for _ in range(100)]
    X, *others = block[1:]
    for i, j in pairs:
        for some in ([X, *others], [X], [X[:, 1]], *([other] for other in others)):
            if all(np.array_equal(values[i], values[j]) for values in some):
                continue
            for values in some:
                exchange(values, i, j)
            assert checksum(block) != before, (i, j)
            for values in some:
                exchange(values, i, j)
    assert checksum(block) == before


def test_checksums_see_columns_that_change_places():
    rng = np.random.default_rng(13)
    for n in (1, 2, 1000):
        X, others = rng.standard_normal((n, 3)), [rng.random(n) for _ in range(3)]
        block = Block(0, X, others[0][:, None], others[1], others[2])
        turned = X[:, [1, 0, 2]].copy(), X[:, [2, 1, 0]].copy()
        parts = [block._replace(weight=block.offset, offset=block.weight), *(block._replace(X=x) for x in turned)]
        assert len({checksum(each) for each in (block, *parts)}) == 4


FULL = """
    import resource, signal, sys
    import numpy as np, pyarrow as pa
    import tallbayes as tb
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    table = pa.table({"x": np.random.default_rng(1).random(100_000), "y": np.zeros(100_000)})
    try:
        tb.sources.open_source(table.to_reader(10_000), response="y", scratch=sys.argv[1])
    except tb.errors.InputError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_full_scratch_disk_leaves_nothing(tmp_path):
    code = [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)]
    said = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    assert f"a copy of the stream could not be written to {tmp_path}" in said
    assert "Nothing is left of it" in said
    assert not list(tmp_path.iterdir())
    assert errno.EFBIG  # what such a write fails with


def test_a_data_set_of_a_user_is_read_fragment_by_fragment(rows, of_file):
    model = tb.Regression(ds.dataset(table_of(*rows)), "y", BERNOULLI, design=NAMES)
    assert isinstance(model.source.table, FileTable)
    assert model.source.located(InputError("x", row=3)).args == ("x",)
    np.testing.assert_array_equal(draws_of(model)[0], of_file)


def test_a_file_that_was_replaced_or_deleted_is_said_to_be(tmp_path):
    path = tmp_path / "rows.parquet"
    rng = np.random.default_rng(3)
    columns = {"a": rng.standard_normal(5000), "y": (rng.random(5000) < 0.5).astype(float)}
    for what in ("another one", "gone"):
        pq.write_table(pa.table(columns), path, row_group_size=5000)
        model = tb.Regression(path, "y", tb.families.Bernoulli(), design=["a"])
        if what == "gone":
            path.unlink()
        else:
            pq.write_table(pa.table(columns), path, row_group_size=100)
        with pytest.raises(InputError, match=rf"rows.parquet: the file is {what} since the model was made"):
            tb.sample(model, draws=10, progress=False)


def test_pages_with_checksums_are_verified(tmp_path):
    path = tmp_path / "rows.parquet"
    values = np.random.default_rng(4).standard_normal(5000)
    pq.write_table(
        pa.table({"a": values, "y": (values > 0.3).astype(float)}),
        path,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    content = bytearray(path.read_bytes())
    at = content.index(values[2000].tobytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="row group 0"):
        tb.sample(tb.Regression(path, "y", tb.families.Bernoulli(), design=["a"]), draws=10, progress=False)


def test_a_data_set_with_a_filter_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "y": [0.0, 1.0]}), tmp_path / "rows.parquet")
    filtered = ds.dataset(tmp_path).filter(ds.field("a") > 0)
    with pytest.raises(InputError, match="without a filter"):
        tb.Regression(filtered, "y", tb.families.Bernoulli(), design=["a"])


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (RuntimeError("boom"), InputError, r"the stream failed after 20 rows \(.*boom"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_a_stream_that_fails_is_not_blamed_on_the_directory(tmp_path, error, raised, words):
    schema = pa.schema([("a", pa.float64()), ("y", pa.float64())])

    def batches():
        for _ in range(2):
            yield pa.record_batch([np.arange(10.0), np.zeros(10)], schema=schema)
        raise error

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(raised, match=words):
        tb.sources.open_source(reader, response="y", design=["a"], scratch=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_scratch_directory_in_which_nothing_can_be_made(tmp_path, monkeypatch):
    def full(**options):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tallbayes.sources.streams.tempfile.mkstemp", full)
    rows = pa.table({"a": [1.0, 2.0], "y": [0.0, 1.0]}).to_reader()
    with pytest.raises(InputError, match="nothing can be written to"):
        tb.sources.open_source(rows, response="y", design=["a"], scratch=tmp_path)
