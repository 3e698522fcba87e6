"""Set-ups: no pass is made twice, what was found can be saved, and is given to no other model."""

import io
import os
import pickle
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes import api
from tallbayes.errors import InputError
from tallbayes.plan.choose import choose
from tallbayes.run.trial import try_out
from tallbayes.setup.setup import Setup, setup_of
from tallbayes.sources.arrays import ArraySource
from tallbayes.sources.base import Block, Source

BERNOULLI = tb.families.Bernoulli()


def make_data(n=3000, d=3, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X.sum(axis=1)))).astype(float)


def logistic(**options):
    return tb.Regression(*make_data(**options), BERNOULLI)


def draw(model, kernel=None, **options):
    return tb.sample(model, kernel, **{"draws": 200, "chains": 2, "seed": 3, "progress": False, **options})


def beta(tree):
    return np.asarray(tree["posterior"]["beta"])


# -- passes --

KERNELS = {
    "default": None,
    "order 1": tb.kernels.ScalableMH(order=1),
    "order 2": tb.kernels.ScalableMH(order=2),
    "order 3": tb.kernels.ScalableMH(order=3),
    "sketch": tb.kernels.ScalableMH(order=3, sketch=True),
    "global": tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global()),
    "factorised": tb.kernels.FactorisedMH(),
    "all rows": tb.kernels.MetropolisHastings(),
    "zigzag": tb.kernels.ZigZag(),
    "firefly": tb.kernels.Firefly(),
}


@pytest.fixture
def passes(monkeypatch):
    """Count the times that the blocks of an array were gone through to the end; a rehearsal's own do not count."""
    counted = []
    honest = ArraySource.blocks

    def blocks(self):
        yield from honest(self)
        counted.append(self.n)

    monkeypatch.setattr(ArraySource, "blocks", blocks)
    return counted


@pytest.mark.parametrize("name", KERNELS)
def test_explain_tells_the_passes_and_sampling_repeats_none(passes, name):
    """Few rows: steps on all rows are made by compiled code, not by passes."""
    kernel = KERNELS[name]
    model = logistic()
    explained = tb.explain(model, kernel, draws=200, chains=2)
    taken = passes.count(model.n)
    assert explained.passes == taken == model.source.passes == setup_of(model).passes > 1
    assert f"{taken}, all done" in str(explained)
    draw(model, kernel)
    assert passes.count(model.n) == taken
    assert tb.explain(model, kernel, draws=200, chains=2) == explained


@pytest.mark.parametrize("name", ["order 3", "all rows"])
def test_passes_of_chains_are_not_those_of_the_set_up(passes, name):
    """Many rows: a chain's steps on all rows go through the source, and count for the source alone."""
    model = logistic(n=70_000, d=3)
    explained = tb.explain(model, KERNELS[name], draws=20, chains=1)
    tb.sample(model, tb.kernels.MetropolisHastings(), draws=5, chains=1, warmup=0, seed=1, progress=False)
    assert model.source.passes > explained.passes
    again = tb.explain(model, KERNELS[name], draws=20, chains=1)
    assert again.passes == explained.passes < 15


def test_what_was_planned_is_not_planned_again(monkeypatch):
    model = logistic()
    first = tb.explain(model, draws=500)
    monkeypatch.setattr(api, "choose", None)
    again = tb.explain(model, draws=500)
    assert (again.setup_seconds, again.passes) == (first.setup_seconds, first.passes)
    tb.sample(model, draws=500, progress=False)
    with pytest.raises(TypeError):
        tb.sample(model, draws=501, progress=False)
    with pytest.raises(TypeError):
        tb.sample(model, tb.kernels.ScalableMH(order=1), draws=500, progress=False)


def test_the_passes_of_a_stream():
    """Subsamples are passes there; the second plan needs none of them again."""

    class Rows(Source):
        names = ("a", "b", "c")
        X, y = make_data(n=2000)

        @property
        def n(self):
            return 2000

        def blocks(self):
            for first in range(0, 2000, 500):
                rows = slice(first, first + 500)
                yield Block(first, self.X[rows], self.y[rows, None], np.ones(1), np.zeros(1))

    model = tb.Regression(Rows(), None, BERNOULLI)
    setup = setup_of(model)
    assert setup.passes == 1
    first = tb.explain(model)
    assert first.passes == setup.passes
    assert first.trial_passes == 0
    forecasts = model.source.passes
    choose(model, None, 4000)
    assert tb.explain(model).passes == first.passes
    assert setup.passes == first.passes
    assert forecasts == first.passes  # the rows of rehearsal and trial came with the bounds
    # Other kernels take passes for their trials, and say so.
    anew = tb.Regression(Rows(), None, BERNOULLI)
    walk = tb.explain(anew, tb.kernels.ScalableMH(order=1))
    assert walk.trial_passes > 0
    assert walk.passes + walk.trial_passes == anew.source.passes
    assert f"{walk.trial_passes} more for this explanation" in str(walk)
    before = model.source.passes
    chosen = choose(model, None, 4000)
    rehearsed = model.source.passes
    assert try_out(chosen, 4).steps == chosen.rehearsal.steps
    assert model.source.passes - rehearsed <= rehearsed - before + 1  # a trial's own: no more than that


def test_what_chains_of_a_stream_read_is_no_set_up(tmp_path):
    """A rehearsal on all rows goes through a stream in every step: said, and not said of other kernels."""
    X, y = make_data(n=2000)
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}).to_parquet(path)

    def streamed():
        return tb.Regression(path, "y", BERNOULLI, design=["a", "b", "c"])

    kernels = [tb.kernels.MetropolisHastings(), tb.kernels.ZigZag(), tb.kernels.ScalableMH(order=2)]
    alone = [tb.explain(streamed(), kernel, draws=30, chains=2) for kernel in kernels]
    assert all(explained.passes < 15 for explained in alone)
    model = streamed()
    walk, *others = [tb.explain(model, kernel, draws=30, chains=2) for kernel in kernels]
    assert walk == alone[0]
    assert all(
        explained.passes <= walk.passes + own.passes for explained, own in zip(others, alone[1:], strict=True)
    )
    # Steps on all rows are passes to come: of every chain's warm-up and draws.
    before = model.source.passes
    tree = tb.sample(model, kernels[0], draws=30, chains=2, seed=1, progress=False)
    taken = model.source.passes - before
    assert walk.drawing_passes == pytest.approx(taken, rel=0.05)
    assert f"about {walk.drawing_passes:,} to come" in str(walk)
    assert int(tree.attrs["passes"]) == setup_of(model).passes + taken
    assert tb.explain(logistic(), kernels[0], draws=30).drawing_passes == 0


def test_a_wider_ball_takes_one_pass_for_its_bounds():
    model = logistic()
    for order, sketch in ((3, False), (3, True), (2, False)):
        tb.kernels.ScalableMH(order=order, bound=tb.bounds.Local(5.0), sketch=sketch).prepare(model)
    before = model.source.passes
    wide = tb.kernels.ScalableMH(order=3, bound=tb.bounds.Local(7.0), sketch=True).prepare(model)
    assert model.source.passes == before + 1
    assert wide.target.bound.radius == 7.0
    # The sketch is not made anew, and rows have the shares of the new bounds.
    anew = logistic()
    fresh = tb.kernels.ScalableMH(order=3, bound=tb.bounds.Local(7.0), sketch=True).prepare(anew)
    for part in ("codes", "steps"):
        one, other = (m.setup._sketch for m in (model, anew))
        assert not np.array_equal(one.rows, other.rows)  # in the order of the bounds that it was drawn with
        np.testing.assert_array_equal(
            getattr(one, part)[np.argsort(one.rows)], getattr(other, part)[np.argsort(other.rows)]
        )
    np.testing.assert_array_equal(wide.target.bundles.facts[:, 1:], wide.target.rows.shares[one.rows])
    np.testing.assert_array_equal(wide.target.rows.psi, fresh.target.rows.psi)
    np.testing.assert_array_equal(wide.target.rows.shares, fresh.target.rows.shares)


# -- saved --

SAVED = {
    "order 2": {"order": 2},
    "order 3": {"order": 3},
    "ball": {"order": 3, "bound": tb.bounds.Local(1.0 / 3.0 + 5.0)},
    "global": {"order": 2, "bound": tb.bounds.Global()},
    "sketch": {"order": 3, "sketch": True},
}

ELSEWHERE = """
    import pickle, sys
    from pathlib import Path
    import numpy as np
    import tallbayes as tb
    from tallbayes.setup.setup import Setup

    def refuse(*arguments, **options):
        raise AssertionError("a pickle was read")

    X, y = np.load("X.npy"), np.load("y.npy")
    for name, kernel in zip(sys.argv[1::2], sys.argv[2::2]):
        model = tb.Regression(X, y, tb.families.Bernoulli())
        honest = pickle.load, pickle.loads
        pickle.load = pickle.loads = refuse
        setup = Setup.load(f"{name}.npz", model)
        pickle.load, pickle.loads = honest  # which Numba's cache needs
        before = model.source.passes
        tree = tb.sample(model, eval(kernel), draws=200, chains=2, seed=3, progress=False)
        assert model.source.passes == before, "sampling took a pass"
        np.save(f"{name}.npy", np.asarray(tree["posterior"]["beta"]))
"""


@pytest.fixture(scope="module")
def drawn_elsewhere(tmp_path_factory):
    """Of each kernel, the draws here, and those of another process that is given the set-up of these."""
    room, here, given = tmp_path_factory.mktemp("elsewhere"), {}, []
    for part, values in zip("Xy", make_data(), strict=True):
        np.save(room / f"{part}.npy", values)
    for name, options in SAVED.items():
        kernel, model = tb.kernels.ScalableMH(**options), logistic()
        here[name] = beta(draw(model, kernel))
        setup_of(model).save(room / f"{name}.npz")
        code = f"tb.kernels.{kernel!r}".replace("bound=", "bound=tb.bounds.").replace("tb.bounds.None", "None")
        given += [name, code]
    command = [sys.executable, "-c", textwrap.dedent(ELSEWHERE), *given]
    result = subprocess.run(command, cwd=room, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return {name: (draws, np.load(room / f"{name}.npy")) for name, draws in here.items()}


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_set_up_gives_the_same_draws_elsewhere(drawn_elsewhere, name):
    here, elsewhere = drawn_elsewhere[name]
    assert here.tobytes() == elsewhere.tobytes()


@pytest.fixture
def saved(tmp_path):
    model = logistic(n=500)
    tb.kernels.ScalableMH(order=3, sketch=True).prepare(model)
    setup_of(model).save(tmp_path / "setup.npz")
    return tmp_path / "setup.npz"


def test_no_pickle_is_written_or_read(saved, monkeypatch):
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                assert np.lib.format.read_array(file, allow_pickle=False).dtype.kind in "fiub", name

    def refuse(*arguments, **options):
        raise AssertionError("a pickle was read")

    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    Setup.load(saved, logistic(n=500))


class Trap:
    """Unpickling it would be noticed."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was read",)


def test_a_pickle_in_disguise_is_refused(tmp_path):
    np.savez(tmp_path / "trap.npz", facts=np.array([Trap()], dtype=object))
    (tmp_path / "trap.pickle").write_bytes(pickle.dumps(Trap()))
    for file in ("trap.npz", "trap.pickle"):
        with pytest.raises(InputError, match=f"{file} is not a saved set-up"):
            Setup.load(tmp_path / file, logistic(n=500))


def _another(name):
    X, y = make_data(n=500)
    options = {}
    family = BERNOULLI
    if name == "one number of X":
        X[499, 2] += 1e-9
    elif name == "two rows swapped":
        X[[3, 4]], y[[3, 4]] = X[[4, 3]], y[[4, 3]]
    elif name == "one response":
        y[17] = 1.0 - y[17]
    elif name == "prior":
        options["prior"] = tb.priors.Normal(0.0, 2.0)
    elif name == "one prior":
        options["prior"] = {"x1": tb.priors.Laplace(0.0, 1.0)}
    elif name == "family":
        family = tb.families.Bernoulli("probit")
    elif name == "Gaussian":
        family = tb.families.Gaussian(1.0)
    elif name == "weights":
        options["weights"] = np.where(np.arange(500) == 7, 2.0, 1.0)
    elif name == "offset":
        options["offset"] = np.where(np.arange(500) == 7, 0.1, 0.0)
    elif name == "fewer rows":
        X, y = X[:-1], y[:-1]
    elif name == "names":
        options["names"] = ["a", "b", "c"]
    return tb.Regression(X, y, family, **options)


OTHERS = [
    "one number of X",
    "two rows swapped",
    "one response",
    "prior",
    "one prior",
    "family",
    "Gaussian",
    "weights",
    "offset",
    "fewer rows",
    "names",
]


@pytest.mark.parametrize("name", OTHERS)
def test_the_set_up_of_another_model_is_refused(saved, name):
    model = _another(name)
    with pytest.raises(InputError, match=r"is the set-up of another model: .* Set the model up again"):
        Setup.load(saved, model)
    assert "setup" not in model.__dict__


def test_the_same_data_held_differently_are_the_same_model(saved):
    X, y = make_data(n=500)
    model = tb.Regression(np.asfortranarray(X), y.astype(bool), BERNOULLI, weights=np.ones(500), offset=0.0)
    assert Setup.load(saved, model) is setup_of(model)


def test_rows_of_any_function_are_told_apart(tmp_path):
    def model(data, formula="0.5 * (y - a) ** 2", limit=1.0):
        return tb.Factors({"y": data}, formula, ["a"], prior=tb.priors.Normal(0.0, 1.0), bounds={2: limit})

    data = np.linspace(-1.0, 1.0, 50)
    setup_of(model(data)).save(tmp_path / "setup.npz")
    Setup.load(tmp_path / "setup.npz", model(data))
    others = [
        model(data[::-1]),
        model(data, "0.25 * (y - a) ** 2"),
        model(data, limit=2.0),
        model(data, limit=np.ones(50)),
    ]
    for other in others:
        with pytest.raises(InputError, match="is the set-up of another model"):
            Setup.load(tmp_path / "setup.npz", other)


@pytest.mark.parametrize("keep", [0.0, 0.02, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content))])
    model = logistic(n=500)
    with pytest.raises(InputError, match=r"is not a saved set-up, or not all of one .* Save it again"):
        Setup.load(saved, model)
    assert "setup" not in model.__dict__


def test_a_damaged_file_is_refused(saved):
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 255
    saved.write_bytes(bytes(content))
    with pytest.raises(InputError, match="is not a saved set-up"):
        Setup.load(saved, logistic(n=500))


def _array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def _other_archive(path):
    np.savez(path, numbers=np.zeros(3))


def _other_facts(path):
    np.savez(path, facts=np.frombuffer(b"[1, 2]", dtype=np.uint8))


def _half(path):
    """Facts of this very model, but arrays are missing."""
    model = logistic(n=500)
    tb.kernels.ScalableMH(order=3).prepare(model)
    setup_of(model).save(path)
    with np.load(path) as file:
        kept = {name: file[name] for name in file.files if not name.startswith(("metric.root", "bounds"))}
    np.savez(path, **kept)


@pytest.mark.parametrize("write", [_array, _other_archive, _other_facts, _half, lambda p: p.write_text("setup")])
def test_a_foreign_file_is_refused(tmp_path, write):
    write(tmp_path / "file.npz")
    with pytest.raises(InputError, match=r"file\.npz is not a saved set-up"):
        Setup.load(tmp_path / "file.npz", logistic(n=500))


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        Setup.load(tmp_path / "nothing.npz", logistic(n=500))


@pytest.mark.parametrize("where", ["write", "replace"])
def test_a_failing_write_leaves_the_old_file(saved, monkeypatch, where):
    before = saved.read_bytes()
    model = logistic(n=500)
    tb.kernels.ScalableMH(order=2).prepare(model)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    if where == "write":
        honest = np.savez

        def half(file, **arrays):
            room = io.BytesIO()
            honest(room, **arrays)
            file.write(room.getvalue()[:1000])
            full()

        monkeypatch.setattr(np, "savez", half)
    else:
        monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        setup_of(model).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["setup.npz"]


# -- kernels without a surrogate --


@pytest.mark.parametrize(
    "make",
    [
        tb.kernels.MetropolisHastings,
        lambda move: tb.kernels.FactorisedMH(proposal=move),
        lambda move: tb.kernels.Firefly(proposal=move),
    ],
)
def test_steps_on_a_surrogate_need_one(make):
    with pytest.raises(InputError, match=r"SurrogateSteps.* on a surrogate, which this kernel does not have"):
        make(tb.proposals.SurrogateSteps())
