"""Runs: reproducible, interruptible, the same for every way to hold the data; results in ArviZ's schema."""

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import tallbayes as tb
from tallbayes.api import _seed_sequence
from tallbayes.run import progress as progress_module
from tallbayes.run.chain import Chain, Status, room_for
from tallbayes.run.progress import LineProgress, LiveProgress, Progress, choose_progress
from tallbayes.run.sampler import run_chains
from tallbayes.setup.setup import setup_of

BERNOULLI = tb.families.Bernoulli()


def make_data(n=3000, d=3, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-X.sum(axis=1)))


@pytest.fixture(scope="module")
def model():
    return tb.Regression(*make_data(), BERNOULLI)


def draw(model, kernel=None, **options):
    options = {"draws": 300, "chains": 2, "seed": 5, "warmup": 50, "progress": False, **options}
    return tb.sample(model, kernel, **options)


def assert_same_draws(one, other):
    for group in ("posterior", "sample_stats"):
        xr.testing.assert_identical(one[group].to_dataset(), other[group].to_dataset())


# -- reproducible --

KERNELS = {
    "default": None,
    "paper": tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global(), proposal=tb.proposals.CrankNicolson(rho=0.0)),
    "walk": tb.kernels.ScalableMH(order=1, bound=tb.bounds.Global(), proposal=tb.proposals.RandomWalk(1.0)),
    "factorised": tb.kernels.FactorisedMH(),
    "full": tb.kernels.MetropolisHastings(),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_same_draws_for_any_threads_and_chunk(model, kernel):
    """Steps of order 1 look at many rows: chunks end within them."""
    reference = draw(model, kernel, threads=1)
    for threads in (1, 2, 4):
        for chunk in (None, 1, 7, 1000):
            assert_same_draws(reference, draw(model, kernel, threads=threads, chunk=chunk))


def test_same_draws_where_set_up_runs_in_many_parts():
    """More rows than one part of a sum: threads share the passes of set-up."""
    large = tb.Regression(*make_data(n=50_000), BERNOULLI)
    reference = draw(large, threads=1)
    for threads in (2, 4):
        again = draw(large, threads=threads)
        assert_same_draws(reference, again)
        xr.testing.assert_identical(reference["laplace"].to_dataset(), again["laplace"].to_dataset())


def test_more_draws_continue_the_same_chains(model):
    kernel = KERNELS["paper"]
    short, long = draw(model, kernel, draws=100), draw(model, kernel, draws=300)
    np.testing.assert_array_equal(short["posterior"]["beta"], long["posterior"]["beta"][:, :100])


def test_every_seed_and_every_chain_has_its_own_stream(model):
    runs = {seed: np.asarray(draw(model, seed=seed)["posterior"]["beta"]) for seed in (0, 1, 2)}
    chains = np.concatenate(list(runs.values()))
    assert np.unique(chains[:, 0, 0]).size == len(chains)


def test_a_fresh_seed_is_recorded(model):
    first = draw(model, seed=None)
    again = draw(model, seed=int(first.attrs["seed"]))
    assert_same_draws(first, again)
    assert draw(model, seed=None).attrs["seed"] != first.attrs["seed"]


ALPHA = 1e-7  # false positives of each of the comparisons below


def test_first_kept_draws_over_many_seeds_are_from_the_posterior():
    """Chains as `sample` makes them: seeds, streams, starts, warm-up, and the line that each chain writes to."""
    y = np.concatenate([np.arange(-10.0, 0.0), np.arange(1.0, 11.0)]) / 4
    model = tb.Regression(np.ones((20, 1)), y, tb.families.StudentT(df=4.0, scale=1.0), tb.priors.Normal(0.0, 2.0))
    prepared = tb.kernels.ScalableMH(order=2, proposal=tb.proposals.CrankNicolson(0.0)).prepare(model)
    seeds, chains, warmup = 2000, 2, 15
    first = np.empty((seeds, chains))
    for seed in range(seeds):
        kept = room_for(chains, 2, 1)
        runs = [
            Chain(prepared, child, warmup, kept, i, None)
            for i, child in enumerate(_seed_sequence(seed).spawn(chains))
        ]
        assert not run_chains(runs, Progress(), 1)
        assert [run.kept for run in runs] == [2, 2]
        first[seed] = kept.beta[:, 0, 0]
    grid = np.linspace(-4.0, 4.0, 20_001)
    potential = 2.5 * np.sum(np.log1p((y[:, None] - grid) ** 2 / 4.0), axis=0) + grid**2 / 8.0
    mass = np.cumsum(np.exp(potential.min() - potential))
    for chain in first.T:
        assert stats.kstest(chain, lambda x: np.interp(x, grid, mass / mass[-1])).pvalue > ALPHA
        assert stats.binomtest(int(np.sum(chain > 0.0)), seeds, 0.5).pvalue > ALPHA
    # Neither chains of a run nor runs with neighbouring seeds are alike.
    limit = stats.norm.isf(ALPHA / 2) / np.sqrt(seeds)
    for one, other in ((first[:, 0], first[:, 1]), (first[:-1, 0], first[1:, 0]), (first[:-1, 1], first[1:, 0])):
        assert abs(np.corrcoef(one, other)[0, 1]) < limit


@pytest.mark.parametrize("chunk", [None, 1, 7, 64])
def test_a_draw_of_several_steps_is_where_the_last_of_them_leads(model, chunk):
    prepared = tb.kernels.ScalableMH(order=1).prepare(model)
    draws, every, d = 50, 6, prepared.metric.d
    single, several = room_for(1, draws * every, d), room_for(1, draws, d)
    for kept, number in ((single, 1), (several, every)):
        chain = Chain(prepared, np.random.SeedSequence(5), 20, kept, 0, chunk, every=number)
        while not chain.finished:
            before = chain.kept
            chain.advance()
            assert before <= chain.kept <= kept.accepted.shape[1]
        assert chain.kept == kept.accepted.shape[1]
    grouped = [np.asarray(part[0]).reshape(draws, every) for part in single[1:]]
    np.testing.assert_array_equal(several.beta, single.beta[:, every - 1 :: every])
    np.testing.assert_array_equal(several.accepted[0], grouped[0].any(axis=1))
    np.testing.assert_array_equal(several.rows_touched[0], grouped[1].sum(axis=1))
    np.testing.assert_array_equal(several.full_pass[0], grouped[2].any(axis=1))
    assert 0 < np.count_nonzero(single.accepted) < draws * every


def test_chains_start_where_the_likelihood_is_not_zero():
    """Cut points out of order have no likelihood: a walk that begins there may not come out of them for long."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((40, 2)), np.zeros(40)
    y[:3] = 1, 2, 3  # levels of one row each, whose cut points are close to one another and far from known
    model = tb.Regression(X, y, tb.families.Ordinal(4))
    prepared = tb.kernels.MetropolisHastings().prepare(model)
    cuts = slice(2, 5)

    def in_order(prepared):
        starts = [prepared.start(np.random.default_rng(seed)) for seed in range(40)]
        return [bool(np.all(np.diff(prepared.metric.theta(z)[cuts]) > 0.0)) for z in starts]

    assert not all(in_order(dataclasses.replace(prepared, radius=1e9)))  # as in a ball: they are not looked at
    assert all(in_order(prepared))
    for seed in (5, 20):
        tree = tb.sample(model, draws=200, seed=seed, progress=False)
        assert np.all(np.diff(tree["posterior"]["cut"], axis=2) > 0.0)


# -- interrupted --


@pytest.mark.parametrize("rounds", [3, 10])
def test_interrupt_returns_what_was_drawn(model, monkeypatch, rounds):
    advance, calls = Chain.advance, []

    def interrupted(self):
        advance(self)
        calls.append(self)
        if len(calls) == 2 * rounds + 1:  # in the middle of a round: one chain is ahead of the other
            raise KeyboardInterrupt

    whole = draw(model, chunk=25)
    monkeypatch.setattr(Chain, "advance", interrupted)
    tree = draw(model, chunk=25)
    assert tree.attrs["interrupted"] == 1
    assert whole.attrs["interrupted"] == 0
    kept = tree["posterior"].sizes["draw"]
    assert 25 * rounds - 50 <= kept < 300
    assert tree["sample_stats"].sizes["draw"] == kept
    np.testing.assert_array_equal(tree["posterior"]["beta"], whole["posterior"]["beta"][:, :kept])


def test_interrupt_before_the_first_draw_is_raised(model, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Chain, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        draw(model)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_in_a_real_process():
    script = textwrap.dedent(
        """
        import signal
        import numpy as np
        import tallbayes as tb
        from tallbayes.run.chain import Chain

        # A shell's background jobs ignore SIGINT, and so do their children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        advance, drawing = Chain.advance, set()

        def watched(chain):
            # Before every chain has draws, Ctrl-C is an error: the other process waits for them.
            advance(chain)
            if chain.kept > 0 and chain not in drawing:
                drawing.add(chain)
                if len(drawing) == 2:
                    print("sampling", flush=True)

        Chain.advance = watched
        rng = np.random.default_rng(1)
        X = rng.standard_normal((2000, 2))
        y = rng.random(2000) < 0.5
        model = tb.Regression(X, y, tb.families.Bernoulli())
        kernel = tb.kernels.MetropolisHastings()  # slow enough not to finish before the signal
        tree = tb.sample(model, kernel, draws=5_000_000, chains=2, warmup=10, seed=1, progress=False)
        beta = tree["posterior"]["beta"]
        assert 0 < beta.sizes["draw"] < 5_000_000 and bool(np.isfinite(beta).all())
        assert beta.sizes["draw"] == tree["sample_stats"].sizes["draw"]
        print("interrupted", tree.attrs["interrupted"], flush=True)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "sampling\n"
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted 1\n"
    assert process.returncode == 0


# -- the same data, held differently --


def test_float32_is_its_float64_cast():
    X, y = make_data()
    X = X.astype(np.float32)
    single = draw(tb.Regression(X, y, BERNOULLI))
    assert_same_draws(single, draw(tb.Regression(X.astype(np.float64), y, BERNOULLI)))


def _every_other(X):
    doubled = np.empty((2 * X.shape[0], 2 * X.shape[1]), dtype=X.dtype)
    doubled[::2, ::2] = X
    return doubled[::2, ::2]


def _read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


@pytest.mark.parametrize("hold", [np.asfortranarray, _every_other, _read_only])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_order_changes_nothing_and_copies_nothing(hold, dtype):
    X, y = make_data()
    X = X.astype(dtype)
    held = hold(X)
    model = tb.Regression(held, y, BERNOULLI)
    assert np.shares_memory(model.source.X, held)
    assert_same_draws(draw(tb.Regression(X, y, BERNOULLI)), draw(model))
    np.testing.assert_array_equal(held, X)


def test_data_are_not_written_to():
    X, y = make_data()
    weights, offset = np.ones(len(y)), np.zeros(len(y))
    before = [a.copy() for a in (X, y, weights, offset)]
    draw(tb.Regression(X, y, BERNOULLI, weights=weights, offset=offset))
    for array, copy in zip((X, y, weights, offset), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("family", [BERNOULLI, tb.families.StudentT(4.0, scale=1.0)])
@pytest.mark.parametrize("bound", [tb.bounds.Global(), tb.bounds.Local(radius=6.0)])
def test_weight_three_counts_as_three_rows(family, bound):
    X, y = make_data(n=500)
    prior = tb.priors.Normal(0.0, 2.0)
    kernel = tb.kernels.ScalableMH(order=2, bound=bound)
    models = (
        tb.Regression(X, y, family, prior, weights=np.full(500, 3.0)),
        tb.Regression(np.repeat(X, 3, axis=0), np.repeat(y, 3), family, prior),
    )
    weighted, repeated = (kernel.prepare(model) for model in models)
    mode, other = (setup_of(model).mode for model in models)
    np.testing.assert_allclose(mode.theta, other.theta, rtol=1e-8)
    np.testing.assert_allclose(mode.hessian, other.hessian, rtol=1e-8)
    np.testing.assert_allclose(weighted.target.bound.total, repeated.target.bound.total, rtol=1e-8)


def test_weight_zero_counts_as_no_row():
    X, y = make_data(n=500)
    weights = np.tile([1.0, 0.0], 250)
    prior = tb.priors.Normal(0.0, 2.0)
    some = tb.Regression(X, y, BERNOULLI, prior, weights=weights)
    half = tb.Regression(X[::2], y[::2], BERNOULLI, prior)
    np.testing.assert_allclose(setup_of(some).mode.theta, setup_of(half).mode.theta, rtol=1e-8)
    kernel = tb.kernels.ScalableMH(bound=tb.bounds.Local(6.0))
    psi = kernel.prepare(some).target.rows.psi
    assert np.all(psi[1::2] == 0.0)
    np.testing.assert_allclose(psi[::2], kernel.prepare(half).target.rows.psi, rtol=1e-6)


def test_offset_moves_the_intercept():
    X, y = make_data()
    X[:, 0] = 1.0
    plain = draw(tb.Regression(X, y, BERNOULLI, tb.priors.Flat()))
    for offset in (2.0, np.full(len(y), 2.0)):
        moved = draw(tb.Regression(X, y, BERNOULLI, tb.priors.Flat(), offset=offset))
        expected = plain["laplace"]["mode"] - [2.0, 0.0, 0.0]
        np.testing.assert_allclose(moved["laplace"]["mode"], expected, rtol=1e-7)
        np.testing.assert_allclose(
            moved["laplace"]["covariance"], plain["laplace"]["covariance"], rtol=1e-6, atol=1e-12
        )


# -- results --


def test_tree_follows_the_schema(model):
    tree = draw(model)
    beta = tree["posterior"]["beta"]
    assert beta.dims == ("chain", "draw", "coefficient")
    assert beta.shape == (2, 300, 3)
    assert list(beta["coefficient"].values) == ["x0", "x1", "x2"]
    statistics = tree["sample_stats"]
    assert {name: (v.dtype, v.dims) for name, v in statistics.data_vars.items()} == {
        "accepted": (np.dtype(bool), ("chain", "draw")),
        "rows_touched": (np.dtype(np.int64), ("chain", "draw")),
        "full_pass": (np.dtype(bool), ("chain", "draw")),
    }
    for name, value in tree.attrs.items():
        assert isinstance(value, str | int | float), name
        assert isinstance(name, str)
    assert tree.attrs["bound_violations"] == 0
    assert tree.attrs["setup_seconds"] > 0.0
    assert tree.attrs["sampling_seconds"] > 0.0
    assert json.loads(tree.attrs["plan"])["kernel"] == "ScalableMH"
    assert json.loads(tree.attrs["versions"])["numpy"] == np.__version__


def test_plan_is_valid_json(model):
    kernel = tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global(), truncation=np.inf)

    def refuse(name):
        raise AssertionError(name)

    plan = json.loads(draw(model, kernel).attrs["plan"], parse_constant=refuse)
    assert plan["truncation"] == "inf"


def test_statistics_of_full_passes(model):
    full = draw(model, tb.kernels.MetropolisHastings(), draws=20)["sample_stats"]
    assert bool(full["full_pass"].all())
    assert bool((full["rows_touched"] == model.n).all())
    kernel = tb.kernels.ScalableMH(order=2, bound=tb.bounds.Global(), truncation=0.0)
    assert bool(draw(model, kernel, draws=20)["sample_stats"]["full_pass"].all())


def test_accepted_draws_are_those_that_move(model):
    tree = draw(model, chunk=7)
    moved = np.any(np.diff(tree["posterior"]["beta"], axis=1) != 0.0, axis=2)
    np.testing.assert_array_equal(moved, tree["sample_stats"]["accepted"][:, 1:])


def test_tree_can_be_stored_and_read_by_arviz(model, tmp_path):
    import arviz_stats

    tree = draw(model)
    table = arviz_stats.summary(tree, round_to="none")
    np.testing.assert_allclose(table["mean"].to_numpy(dtype=float), tb.summary(tree)["mean"], rtol=1e-12)
    if not {"netcdf4", "h5netcdf"} & set(xr.backends.list_engines()):
        pytest.skip("no netCDF engine is installed")
    tree.to_netcdf(tmp_path / "tree.nc")
    assert_same_draws(tree, xr.open_datatree(tmp_path / "tree.nc"))


def test_summary_has_moments_quantiles_and_diagnostics(model):
    tree = draw(model, draws=2000)
    table = tb.summary(tree, probs=(0.025, 0.5))
    beta = np.asarray(tree["posterior"]["beta"]).reshape(-1, 3)
    assert list(table.index) == ["x0", "x1", "x2"]
    assert list(table.columns) == [
        "mean",
        "sd",
        "2.5%",
        "50%",
        "mcse_mean",
        "ess_bulk",
        "ess_tail",
        "r_hat",
        "trust",
    ]
    np.testing.assert_allclose(table["mean"], beta.mean(axis=0))
    np.testing.assert_allclose(table["sd"], beta.std(axis=0, ddof=1))
    np.testing.assert_allclose(table["2.5%"], np.quantile(beta, 0.025, axis=0))
    assert np.all(table["ess_bulk"] > 400.0)
    assert np.all(table["r_hat"] < 1.05)


@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize("draws", [1, 2, 3, 4, 5])
def test_summary_of_very_few_draws(model, chains, draws):
    table = tb.summary(draw(model, chains=chains, draws=draws))
    assert np.all(np.isfinite(table["mean"]))
    assert np.all(np.isnan(table["ess_bulk"])) == (draws < 4)
    assert np.all(np.isnan(table["sd"])) == (chains * draws == 1)


def test_gaussian_approximation_is_judged_by_the_draws(model):
    tree = draw(model, draws=4000)
    table = tb.laplace_check(tree)
    assert bool(table["enough"].all())
    assert "was enough for every coefficient" in tb.verdict(tree)
    shifted = tree.copy()
    shifted["laplace"]["mode"] += [0.0, 1.0, 0.0]
    assert list(tb.laplace_check(shifted)["enough"]) == [True, False, True]
    assert "was not enough for 1 of 3 coefficients; furthest off was 'x1'" in tb.verdict(shifted)


def test_few_draws_do_not_excuse_a_wrong_approximation(model):
    """Departures that Monte Carlo error could explain are not called small: the draws are too few to judge."""
    tree = draw(model, draws=100, chains=2)
    tree["laplace"]["mode"] += 0.3 * np.sqrt(np.diag(tree["laplace"]["covariance"].values))
    assert tb.verdict(tree).startswith("Too few effective draws to judge")
    assert not tb.laplace_check(tree)["enough"].any()


def test_picture_shows_the_most_skewed_coefficients(model):
    from tallbayes.plots import plot_densities

    tree = draw(model)
    tree["posterior"]["beta"][..., 2] = np.exp(10.0 * tree["posterior"]["beta"][..., 2])
    figure = plot_densities(tree, count=2)
    titles = [axes.get_title() for axes in figure.axes]
    assert len(titles) == 2
    assert titles[0].startswith("x2  (skewness ")


# -- progress --


def status(steps, **changes):
    return Status(**{**dict(zip(Status._fields, (steps, 1100, 100, 0.9, 0.25, 2, 1), strict=True)), **changes})


class Clock:
    """Stands in for the clock of the progress module."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(progress_module.time, "perf_counter", lambda: self.now)


def test_draws_of_several_steps_are_counted_as_draws(model, capsys):
    with LineProgress(eager=True) as display:
        display.update([status(900, every=8), status(1100, every=8)])
    assert "225 of 250 draws" in capsys.readouterr().err


def test_silent_on_request(model, capfd):
    draw(model, progress=False)
    assert capfd.readouterr() == ("", "")
    assert type(choose_progress(False)) is Progress


def test_display_suits_the_place(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert isinstance(choose_progress(None), LiveProgress)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(choose_progress(None), LineProgress)
    monkeypatch.setattr(sys, "stderr", None)
    assert type(choose_progress(True)) is Progress


def test_lines_every_few_seconds(model, monkeypatch, capsys):
    clock = Clock(monkeypatch)
    with LineProgress() as display:
        clock.now = 50.0  # set-up
        display.setting_up(model)
        for steps, now in [(100, 52.0), (300, 54.0), (400, 56.0), (500, 57.0), (1100, 63.0)]:
            clock.now = now
            display.update([status(steps), status(steps, acceptance=0.7)])
        display.update([status(1100), status(1100)])
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        # 300 of 1,000 steps since the first look, 4 s ago: 700 more take 9.3 s; set-up does not count.
        "tallbayes: 600 of 2,000 draws, acceptance 0.800, 0.25 rows per step, 4 full passes, 0:09 left",
        "tallbayes: 2,000 of 2,000 draws, acceptance 0.800, 0.25 rows per step, 4 full passes, 0:00 left",
        "tallbayes: 2,000 of 2,000 draws, acceptance 0.900, 0.25 rows per step, 4 full passes, 0:00 left",
    ]


def test_one_full_pass_is_in_the_singular():
    assert ", 1 full pass, " in progress_module._line([status(100, full_passes=1)], [1.0])


def test_short_runs_print_lines_only_when_asked(model, capfd):
    draw(model, progress=False)  # compiles, if need be
    draw(model, progress=None)
    assert capfd.readouterr().err == ""
    draw(model, progress=True)
    first, last = capfd.readouterr().err.splitlines()
    assert first.startswith("tallbayes: setting up: ")
    assert last.startswith("tallbayes: 600 of 600 draws, acceptance ")


def test_live_table(model, monkeypatch):
    from rich.console import Console

    clock = Clock(monkeypatch)
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, color_system=None, width=80, _environ={})
    with LiveProgress(console) as display:
        clock.now = 50.0
        display.setting_up(model)
        display._live.refresh()
        assert "mode, expansion and bounds of 3,000 rows" in terminal.getvalue()
        display.update([status(50), status(50)])
        display._live.refresh()
        assert "warm-up (50 %)" in terminal.getvalue()
        clock.now = 60.0
        display.update([status(100), status(550, rows_per_step=12345.0, full_passes=1234)])
    text = terminal.getvalue()
    last_table = text[text.rindex("chain") :]
    assert "…" not in last_table
    assert " 0 (0 %)" in last_table
    assert "3:20" in last_table  # 50 steps in 10 s, 1,000 to go
    assert "450 (45 %)" in last_table
    assert "1.23e+04" in last_table
    assert "1,234" in last_table
    assert "0:11" in last_table  # 500 steps in 10 s, 550 to go


def test_live_display_of_a_run(model, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    draw(model, progress=None)
    assert "300 (100 %)" in terminal.getvalue()
