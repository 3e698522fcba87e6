"""Dask: the same mode and posterior as arrays, in any partitions; a lost worker changes nothing."""

import os
import pickle
import signal

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.errors import InputError
from tallbayes.kernels.mixing import effective_draws
from tallbayes.models import passes
from tallbayes.setup.setup import setup_of
from tallbayes.sources import clusters
from tallbayes.sources.clusters import PartitionSum, _merged

pytest.importorskip("dask.dataframe")
import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask and its event loops

BERNOULLI = tb.families.Bernoulli()
NAMES = ["a", "b", "c"]


def make_rows(n=90_000):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 3))
    X[:, 0] = 1.0
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [-0.5, 1.0, 0.3]))).astype(float)
    return X, y


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def frame(rows):
    table = pd.DataFrame(rows[0], columns=NAMES)
    table["y"] = rows[1]
    return table


@pytest.fixture(scope="module")
def arrays(rows):
    model = tb.Regression(*rows, BERNOULLI, names=NAMES)
    return setup_of(model).mode.theta, draws_of(model, draws=2000)


def draws_of(model, draws=300):
    tree = tb.sample(model, draws=draws, chains=2, seed=4, progress=False)
    assert tree.attrs["bound_violations"] == 0
    return np.asarray(tree["posterior"]["beta"])


def _frame(rows, frame):
    return (dd.from_pandas(frame, npartitions=7), "y"), {"design": NAMES}


def _arrays(rows, frame):
    X, y = rows
    return (da.from_array(X, chunks=(37_001, 2)), da.from_array(y, chunks=50_000)), {}


@pytest.mark.parametrize("hold", [_frame, _arrays])
def test_the_posterior_of_arrays(rows, frame, arrays, hold):
    """Means and variances of three coefficients at 6.5 standard errors; the mode to rounding."""
    given, named = hold(rows, frame)
    model = tb.Regression(*given, BERNOULLI, **named)
    found = draws_of(model, draws=2000)
    mode, other = arrays
    np.testing.assert_allclose(setup_of(model).mode.theta, mode, rtol=0, atol=1e-10)
    centre = other.mean(axis=(0, 1))
    for change in (lambda b: b, lambda b: (b - centre) ** 2):
        values = [change(b) for b in (found, other)]
        errors = [v.std(axis=(0, 1)) / np.sqrt(effective_draws(v)) for v in values]
        apart = np.abs(values[0].mean(axis=(0, 1)) - values[1].mean(axis=(0, 1)))
        assert np.all(apart < 6.5 * np.hypot(*errors))


def test_blocks_weights_offsets_and_empty_partitions(rows, frame):
    table = frame.assign(w=np.arange(len(frame)) % 3, known=0.1)
    parts = dd.from_pandas(table, npartitions=3)
    parts = dd.concat([parts, parts[parts["a"] > 5.0]])  # the last three partitions have no rows
    source = tb.sources.open_source(parts, response="y", design=NAMES, weights="w", offset="known")
    assert source.n == len(frame)
    blocks = list(source.checked_blocks())
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), rows[0])
    np.testing.assert_array_equal(np.concatenate([block.weight for block in blocks]), table["w"])
    heard = []
    source.listener = heard.append
    assert source.reduce(_count) == len(frame)
    assert heard == [source.n]
    with pytest.raises(InputError, match="no rows"):
        tb.Regression(parts[parts["a"] > 5.0], "y", BERNOULLI, design=NAMES)


def _count(block):
    return block.count


def test_results_of_workers_are_not_changed_by_merging():
    parts = [PartitionSum((np.ones(2), [k]), {k: k}) for k in range(3)]
    kept = pickle.dumps(parts)
    total = _merged(parts)
    np.testing.assert_array_equal(total.result[0], [3.0, 3.0])
    assert total.seen == {0: 0, 1: 1, 2: 2}
    assert pickle.dumps(parts) == kept


def test_what_cannot_be_used(rows, frame):
    parts = dd.from_pandas(frame, npartitions=3)
    X, y = da.from_array(rows[0], chunks=(40_000, 3)), da.from_array(rows[1], chunks=40_000)
    bad = rows[0].copy()
    bad[80_000, 1] = np.nan
    wrong = [
        ((parts, "z"), {"design": NAMES}, "no column is called 'z'"),
        ((parts.assign(word="a"), "y"), {}, "column 'word' is of type"),
        ((X, None), {}, "y: None was given"),
        ((X, y[:100]), {}, r"response: shape \(100,\) was given; X has 90,000 rows"),
        ((X[:, 0], y), {}, "X: 1 dimension were given; expected two"),
        ((da.from_array(bad, chunks=(40_000, 3)), y), {}, r"row 80000, column 'x1' is nan.*Partition 2"),
    ]
    for given, named, message in wrong:
        with pytest.raises(InputError, match=message):
            tb.Regression(*given, BERNOULLI, **named)
    with pytest.raises(InputError, match="a Dask array was given with names of columns"):
        tb.sources.open_source(X, response="y")


def test_partitions_that_change_are_noticed():
    made = []

    def part(number):
        made.append(number)
        return pd.DataFrame({"a": np.full(100, 1.0 + (len(made) > 8)), "y": np.arange(100.0) % 2})

    meta = pd.DataFrame({"a": [1.0], "y": [1.0]})
    frame = dd.from_map(part, [0, 1], meta=meta)
    with dask.config.set(scheduler="synchronous"):
        source = tb.sources.open_source(frame, response="y", design=["a"])
        assert source.reduce(_count) == source.reduce(_count) == 200
        made.extend(range(8))
        with pytest.raises(InputError, match=r"partition 0 \(rows 0 to 99\) is not what it was in the first pass"):
            source.reduce(_count)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_gives_the_same_draws_and_keeps_its_partitions(frame, client):
    model = tb.Regression(dd.from_pandas(frame, npartitions=7), "y", BERNOULLI, design=NAMES)
    assert model.source.kept
    one = draws_of(model)
    with dask.config.set(scheduler="threads"):
        other = draws_of(tb.Regression(dd.from_pandas(frame, npartitions=7), "y", BERNOULLI, design=NAMES))
    np.testing.assert_array_equal(one, other)


def test_a_lost_worker_changes_no_draw(frame, client, monkeypatch):
    """One of two processes is killed in the pass for bounds and rows, when some of its parts are done."""
    monkeypatch.setattr(clusters, "SHARE", 0.0)  # partitions are read again in every pass
    parts = dd.from_pandas(frame, npartitions=12)
    model = tb.Regression(parts, "y", BERNOULLI, design=NAMES)
    assert not model.source.kept
    wanted = draws_of(model)
    again = tb.Regression(parts, "y", BERNOULLI, design=NAMES)
    reduce, killed = again.source.reduce, []

    def killing(part, *arguments, threads=None):
        if part is passes.derivatives and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            return reduce(_part_and_kill, killed[0], part, *arguments)
        return reduce(part, *arguments)

    monkeypatch.setattr(again.source, "reduce", killing)
    found = draws_of(again)
    assert killed
    assert killed[0] not in client.run(os.getpid).values()
    np.testing.assert_array_equal(found, wanted)


def _part_and_kill(block, process, part, *arguments):
    """Do as another part does; the process that is to be lost ends with its second partition."""
    if os.getpid() == process:
        done = getattr(_part_and_kill, "done", 0)
        _part_and_kill.done = done + 1
        if done:
            os.kill(process, signal.SIGKILL)
    return part(block, *arguments)
