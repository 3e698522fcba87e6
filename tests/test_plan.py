"""The planner: what it chooses, that it keeps its word, and that the same model gets the same plan."""

import json
import re
import time
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import tallbayes as tb
from tallbayes.compiled import Stopwatch
from tallbayes.plan import explain
from tallbayes.plan.choose import choose
from tallbayes.plan.effective import effective_range
from tallbayes.plan.explain import _wrapped, describe
from tallbayes.setup.setup import setup_of


def logistic(n, d, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (rng.random(n) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(float)
    return tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())


@pytest.fixture(scope="module")
def ordinary():
    return logistic(2**14, 8)


def plan_of(tree):
    return json.loads(tree.attrs["plan"])


def test_explain_and_sample_agree(ordinary):
    expected = tb.explain(ordinary, draws=20_000, chains=2)
    tree = tb.sample(ordinary, draws=20_000, chains=2, seed=3, progress=False)
    plan = plan_of(tree)
    assert plan["order"] == expected.order
    assert plan["proposal"] == expected.proposal
    assert plan["predicted_rows_per_draw"] == expected.rows_per_draw
    assert plan["predicted_acceptance"] == expected.acceptance
    # Beside the 25 %, five standard errors of a count in 40,000 draws.
    error = 5.0 * (expected.rows_per_draw / 40_000) ** 0.5
    assert abs(plan["rows_per_draw"] - expected.rows_per_draw) <= 0.25 * expected.rows_per_draw + error
    assert plan["acceptance"] == pytest.approx(expected.acceptance, rel=0.05)
    assert plan["rows_per_draw"] == pytest.approx(float(tree["sample_stats"]["rows_touched"].mean()))


def test_the_same_model_gets_the_same_plan(ordinary):
    assert tb.explain(ordinary) == tb.explain(ordinary)


def test_a_long_run_pays_for_a_longer_set_up():
    model = logistic(200_000, 6)
    assert tb.explain(model, draws=10, chains=1).order == 2
    assert tb.explain(model, draws=10_000_000, chains=1).order == 3


def test_what_the_user_fixed_is_kept(ordinary):
    bound, move = tb.bounds.Local(6.0), tb.proposals.PreconditionedWalk(0.5)
    chosen = choose(ordinary, tb.kernels.ScalableMH(bound=bound, proposal=move, sketch=False), 1000)
    assert chosen.kernel.bound == bound
    assert chosen.kernel.proposal == move
    assert chosen.kernel.sketch is False
    assert chosen.kernel.order in {2, 3}
    chosen = choose(ordinary, tb.kernels.ScalableMH(order=1), 1000)
    assert chosen.kernel.order == 1
    assert chosen.forecasts == []
    chosen = choose(ordinary, tb.kernels.ScalableMH(bound=tb.bounds.Global()), 10**9)
    assert not chosen.kernel.sketch


def test_few_rows_and_many_columns_are_accepted_on_all_rows():
    expected = tb.explain(logistic(600, 25))
    assert expected.full_passes_per_million > 5e5
    assert any("order 2" in text for text in expected.alternatives)


def test_a_posterior_that_leaves_the_ball_gets_a_larger_one(monkeypatch):
    import tallbayes.setup.bounds as bounds

    model = logistic(5_000, 5)
    monkeypatch.setattr(bounds, "default_radius", lambda n, d: 2.0)
    chosen = choose(model, tb.kernels.ScalableMH(order=3), 1000)
    assert chosen.prepared.target.bound.radius > 2.4
    assert chosen.rehearsal.full_per_million < 5e5


def test_skewed_posteriors_get_surrogate_steps():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(20_000), rng.random(20_000) < 0.001])
    y = rng.random(20_000) < 0.2
    rare = X[:, 1] == 1
    y[rare] = False
    y[np.flatnonzero(rare)[:2]] = True
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    assert "SurrogateSteps" in tb.explain(model, tb.kernels.ScalableMH(order=3)).proposal


FIRST_LINE = re.compile(
    r"This run: (about [\d,.]+ (s|min|h|days)|under 0\.1 s), (under 1 MB|[\d,.]+ [MG]B), ([\d,.]+ rows|1 row) per draw"
)


def test_explanation_speaks_of_the_run_first(ordinary):
    explained = tb.explain(ordinary, draws=2000, chains=3)
    text = str(explained)
    first, blank, *others = text.splitlines()
    assert FIRST_LINE.fullmatch(first)
    assert blank == ""
    assert others[0].startswith("effective draws")
    for title in (
        "time",
        "model",
        "family",
        "prior",
        "Plan",
        "kernel",
        "surrogate",
        "ball",
        "proposal",
        "acceptance",
    ):
        assert any(line.startswith(title) for line in others)
    assert "(3 chains of 2,000 draws)" in text
    assert "16,384 rows, 8 columns: x0, x1, x2, x3, x4, x5, ..." in text
    assert explained.seconds == explained.setup_seconds + explained.sampling_seconds > 0.0
    plain = str(tb.explain(ordinary, tb.kernels.MetropolisHastings(), draws=10))
    assert FIRST_LINE.match(plain)
    assert "16,384 rows per draw" in plain.splitlines()[0]
    assert "every one" in plain


def test_what_else_was_considered_is_told_when_asked_for(ordinary):
    brief, verbose = tb.explain(ordinary), tb.explain(ordinary, verbose=True)
    assert "Not taken" not in str(brief)
    assert "Not taken" not in brief._repr_html_()
    assert str(verbose).splitlines()[1] == ""
    told = str(verbose).split("Not taken")[1]
    assert "a walk on all rows" in told
    assert len(verbose.alternatives) == len(brief.alternatives) == 4
    for text in verbose.alternatives:
        assert re.match(
            r"[\w ,-]+: (about [\d.,]+ (s|min|h|days)|under 0\.1 s); .+ \(.+ per draw, acceptance [01]\.\d\d\)",
            text,
        )
    assert "no other kernel" in str(tb.explain(ordinary, tb.kernels.ScalableMH(order=2), verbose=True))


def test_lines_break_at_spaces():
    """What is in parentheses stays together where it fits, and is never cut within a word."""
    words = "Proposal(" + ", ".join(f"option{i}=True" for i in range(12)) + ")"
    for text in (words, f"kept (as one, or two) {words}"):
        lines = _wrapped("name", text, 10)
        assert len(lines) > 1
        assert max(map(len, lines)) <= 100
        assert " ".join(line[12:] for line in lines) == text
    kept = _wrapped("name", "a" * 70 + " (this stays together)", 10)
    assert kept[1].strip() == "(this stays together)"


@pytest.mark.parametrize("name", ["a" * 150, "a long name " * 20, "x <script>alert(1)</script> & 'y\""])
def test_text_fits_a_terminal_and_markup_is_escaped(name):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 2))
    model = tb.Regression(X, rng.random(500) < 0.5, tb.families.Bernoulli(), names=[name, "b"])
    explained = tb.explain(model, draws=20, verbose=True)
    assert max(map(len, str(explained).splitlines())) <= 100
    markup = explained._repr_html_()
    assert "<script" not in markup
    assert "http" not in markup
    shown = Balanced()
    shown.feed(markup)
    shown.close()
    assert shown.open == []
    assert any(name in text for text in shown.texts)
    for part in [explained.summary, "kernel", "Plan", *(text for line in explained.plan for text in line)]:
        assert part in shown.texts


class Balanced(HTMLParser):
    """Fails where a tag is closed that was not opened last."""

    def __init__(self):
        super().__init__()
        self.open, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_whatever_a_plan_holds_is_shown(ordinary):
    """Kernels may add to their plans: nothing here needs to know of it."""
    chosen = choose(ordinary, tb.kernels.ScalableMH(order=2), 1000)
    more = {"core_rows": 30, "tabulated directions": ["x3", "x7"], "cut": True, "share": 0.12345, "none": None}
    prepared = replace(chosen.prepared, plan={**chosen.prepared.plan, **more})
    told = describe(
        replace(chosen, prepared=prepared), 10, 1, 1, setup_seconds=1.0, draw_seconds=1e-6, effective=None
    )
    for line in ("core rows  30", "tabulated directions  x3, x7", "cut  yes", "share  0.12", "none  none"):
        assert line in re.sub(r" {2,}", "  ", str(told))
    assert told.effective_draws is None
    assert "not known of 10: a trial was too short to say" in str(told)


@pytest.mark.parametrize(
    ("bound", "truncation", "shown"),
    [
        (tb.bounds.Global(), None, "global bounds"),
        (tb.bounds.Local(), 50.0, "would draw 50 rows reads all of them"),
    ],
)
def test_what_the_user_chose_is_shown(ordinary, bound, truncation, shown):
    text = str(tb.explain(ordinary, tb.kernels.ScalableMH(order=2, bound=bound, truncation=truncation), draws=10))
    assert shown in text
    assert ("ball" in text) == isinstance(bound, tb.bounds.Local)


def test_what_the_set_up_took_is_remembered():
    model = logistic(3000, 3)
    assert setup_of(model).seconds == 0.0
    tb.sample(model, draws=10, chains=1, seed=1, progress=False)
    taken = setup_of(model).seconds
    assert taken > 0.0
    assert tb.explain(model, draws=10, chains=1).setup_seconds >= taken
    assert setup_of(model).seconds >= taken


def test_compilation_is_not_part_of_a_time():
    watch, started = Stopwatch(), time.perf_counter()
    with watch.running():
        time.sleep(0.02)
        with global_compiler_lock, global_compiler_lock:
            time.sleep(0.05)
    assert 0.02 <= watch.seconds <= time.perf_counter() - started - 0.05


def test_one_row_is_not_one_rows():
    model = tb.Regression([[1.0]], [1.0], tb.families.Bernoulli())
    text = str(tb.explain(model, draws=1, chains=1, threads=1))
    for part in ("1 row per draw", "1 row, 1 column: x0", "(1 chain of 1 draw)", "1 thread"):
        assert part in text
    assert "1 row x 1 column" in repr(model)
    assert not re.search(r"\b1 \w+s\b", text.replace("1 thread", ""))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.01, "under 0.1 s"),
        (0.26, "0.3 s"),
        (3.4, "3 s"),
        (9.7, "10 s"),
        (57.2, "57 s"),
        (120.0, "2 min"),
        (5000.0, "83 min"),
        (7200.0, "2 h"),
        (1e5, "28 h"),
        (1e6, "12 days"),
    ],
)
def test_times_are_rounded(seconds, text):
    assert explain._seconds(seconds) == text


@pytest.mark.parametrize(
    ("megabytes", "text"),
    [(0.2, "under 1 MB"), (5.2, "5 MB"), (57.7, "58 MB"), (123.0, "120 MB"), (1500, "1.5 GB")],
)
def test_memory_is_rounded(megabytes, text):
    assert explain._megabytes(megabytes) == text


@pytest.mark.parametrize(
    ("effective", "text"),
    [
        ((2912.0, 3688.0), "2,900 to 3,700 of 4,000"),
        ((3650.0, 4100.0), "3,600 to 4,000 of 4,000"),
        ((3651.0, 3690.0), "about 3,700 of 4,000"),
        ((4100.0, 5000.0), "4,000 or more of 4,000"),
        ((0.4, 12.1), "fewer than 12 of 4,000"),
        (None, "not known of 4,000: a trial was too short to say"),
    ],
)
def test_effective_draws_in_words(effective, text):
    assert explain._range(effective, 4000) == text


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, -0.3])
def test_the_range_of_effective_draws_holds_the_truth(correlation):
    """Autoregressions of known efficiency (1 - rho) / (1 + rho), one coefficient or ten alike, 100 runs each.

    If each end is passed in 5 of 100 runs, more than 22 of 100 are passed with probability 1e-4.
    """
    from scipy.signal import lfilter

    rng = np.random.default_rng(3)
    truth = (1.0 - correlation) / (1.0 + correlation)
    for d in (1, 10):
        noise = rng.standard_normal((100, 2000, d))
        draws = lfilter([1.0], [1.0, -correlation], noise, axis=1)[:, 200:]
        low, high = np.array([effective_range(run) for run in draws]).T
        assert np.sum((low <= truth) & (truth <= high)) >= 78
        assert np.median(high / low) < 5.0
    assert effective_range(draws[0, :50]) is None
    assert effective_range(np.zeros((200, 1)))[1] < 0.1


def test_effective_draws_are_those_of_a_run(ordinary):
    expected = tb.explain(ordinary, draws=5000, chains=2)
    tree = tb.sample(ordinary, draws=5000, chains=2, seed=1, progress=False)
    low, high = expected.effective_draws
    assert 0.8 * low < tb.summary(tree)["ess_bulk"].min() < 1.2 * high


def test_one_row_is_one_row():
    model = tb.Regression([[1.0]], [1.0], tb.families.Bernoulli())
    assert repr(model).startswith("Regression(1 row x 1 column, ")
    assert "1 row, 1 column: x0" in str(tb.explain(model))
    assert repr(tb.Regression(np.ones((2000, 1)), np.ones(2000), tb.families.Bernoulli())).startswith(
        "Regression(2,000 rows x 1 column, "
    )


def test_user_sees_what_is_wrong_with_the_arguments(ordinary):
    with pytest.raises(tb.errors.InputError, match="explain: model"):
        tb.explain("model")
    with pytest.raises(tb.errors.InputError, match="explain: kernel"):
        tb.explain(ordinary, "kernel")
    with pytest.raises(tb.errors.InputError, match="sketch=True needs local bounds"):
        tb.kernels.ScalableMH(bound=tb.bounds.Global(), sketch=True)


def test_another_plan_is_taken_where_chains_would_stick():
    """Separated rows under a Cauchy prior: the posterior's tail is the prior's, which no expansion shows."""
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    model = tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Cauchy(0.0, 1.0))
    chosen = choose(model, None, 4_000)
    assert "mixed worse than foreseen" in chosen.stuck
    assert chosen.stuck in tb.explain(model, verbose=True).alternatives
    assert chosen.kernel == chosen.forecasts[0].kernel
    assert chosen.rehearsal.efficiency > 0.2
    # What the user fixes stays fixed.
    assert tb.explain(model, tb.kernels.ScalableMH()).kernel.startswith("ScalableMH")
