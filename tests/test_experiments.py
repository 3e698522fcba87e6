"""Scripts outside the package: finished work is not repeated, kernels that take too long are cut off and said so."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import tallbayes as tb

ROOT = Path(tb.__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "experiments").exists(), reason="not a checkout")


def load(path: str):
    """Import a script by its path."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def common(monkeypatch, tmp_path):
    module = load("experiments/common.py")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["figure"])
    return module


def test_a_figure_takes_up_where_it_stopped(common, monkeypatch, tmp_path):
    measured = []

    def measure(setting, scale):
        if len(measured) == 7:
            raise KeyboardInterrupt
        measured.append(setting)
        return common.Measurement(100, 1.0, 50.0 * len(measured), 50.0 * len(measured), 0.5, 2.0, 0.1)

    monkeypatch.setattr(common, "measure", measure)
    figure = ("figure", "about", "title", "logistic", 10, [128, 256])
    with pytest.raises(KeyboardInterrupt):
        common.ess_against_n(*figure)
    first = list(measured)
    measured.clear()
    monkeypatch.setattr(
        common, "measure", lambda s, _: measured.append(s) or common.Measurement(1, 1, 1, 1, 1, 1, 1)
    )
    common.ess_against_n(*figure)
    assert not set(first) & set(measured)
    assert len(first) == 7
    common.ess_against_n(*figure)
    assert len(measured) == len(set(measured))
    assert (tmp_path / "quick" / "figure.png").stat().st_size > 5000
    assert len((tmp_path / "quick" / "figure.csv").read_text().splitlines()) == 1 + 6 * 4
    # Anew, if asked to.
    monkeypatch.setattr(sys, "argv", ["figure", "--fresh"])
    measured.clear()
    common.ess_against_n(*figure)
    assert len(measured) == 24


def test_names_of_kernels(common):
    assert common.kernel_of("tallbayes") is None
    assert common.kernel_of("MH rho=0.3") == tb.kernels.MetropolisHastings(tb.proposals.CrankNicolson(rho=0.3))
    smh = common.kernel_of("SMH-2 rho=0.9")
    assert (smh.order, smh.bound, smh.proposal) == (2, tb.bounds.Global(), tb.proposals.CrankNicolson(rho=0.9))
    assert set(common.KERNELS) <= set(common.STYLE)


def test_data_of_a_smaller_size_begin_the_larger(common):
    small, large = (common.make_model("robust", 3, n).source for n in (50, 80))
    assert (large.X[:50] == small.X).all()
    assert (large.responses[:50] == small.responses).all()


@pytest.fixture
def peers():
    return load("benchmarks/peers.py")


def fake(peers, sizes):
    """Cells in which every sampler is a thousand times slower than tallbayes."""
    cells = {
        peers.key(f"compile {m}", name, 10, 1000): {"compile": 3.0} for m in peers.OURS for name in peers.MODELS
    }
    for name in peers.MODELS:
        for d in peers.COLUMNS:
            for n in sizes:
                for m in peers.TITLES:
                    rate = 1e6 if m == "tallbayes" else 1e3
                    cells[peers.key(m, name, d, n)] = {"rate": rate, "ess": 1e4, "setup": 0.5, "compile": 2.0}
    return cells


def test_table_and_verdict(peers):
    sizes = (1000, 10**6)
    cells = fake(peers, sizes)
    cells[peers.key("nutpie", "student", 50, 10**6)] = {"failed": "cut off after 300 s"}
    cells[peers.key("mh", "student", 50, 10**6)]["ess"] = 12.0
    del cells[peers.key("numpyro", "student", 50, 1000)]
    table = peers.render(cells, sizes)
    assert "| student | 50 | NUTS (nutpie) | 1,000 (1.5 / 3.5) | cut off after 300 s |" in table
    assert "| student | 50 | NUTS (NumPyro) | not run | 1,000 (1.5 / 3.5) |" in table
    assert "| logistic | 10 | Firefly | 1,000 (1.5 / 4.5) | 1,000 (1.5 / 4.5) |" in table
    assert "| student | 50 | Metropolis-Hastings | 1,000 (1.5 / 4.5) | ~1,000 (1.5 / 4.5) |" in table
    assert "| logistic | 50 | Laplace draws (not exact) | 1,000 (1.5) | 1,000 (1.5) |" in table
    assert sum(line.startswith("|") for line in table.splitlines()) == 2 + 2 * 2 * len(peers.TITLES)
    first, second = peers.verdict(cells, sizes)
    assert first.endswith("yes. That is of those that finished: 1 did not.")
    assert second.endswith("of 7 that finished: 1,000.")
    cells[peers.key("zigzag", "logistic", 50, 10**6)]["rate"] = 2e6
    assert "NO, not of Zig-Zag at logistic, d = 50, n = 1,000,000" in peers.verdict(cells, sizes)[0]


def test_a_page_gets_the_table(peers, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before {peers.MARKS[0]}old{peers.MARKS[1]} after")
    for _ in range(2):
        peers.put_into(page, "new ")
    assert page.read_text() == f"before {peers.MARKS[0]}\nnew {peers.MARKS[1]} after"


def test_slow_cells_are_cut_off_and_kept(peers, monkeypatch, tmp_path):
    result = peers.in_a_process("mh", "logistic", 10, 1000, limit=0.01)
    assert result == {"failed": "cut off after 0 s"}
    assert peers.in_a_process("nobody", "logistic", 10, 1000, limit=60)["failed"].startswith("failed: KeyError")
    path, asked = tmp_path / "peers.json", []

    def cell(method, name, d, n, limit):
        asked.append((method, n))
        return {"failed": "cut off after 1 s"} if method == "mh" else {"rate": 1.0, "ess": 1.0, "setup": 1.0}

    monkeypatch.setattr(peers, "in_a_process", cell)
    kept = peers.measure((1000, 10_000), 1.0, path)
    assert json.loads(path.read_text()).keys() == kept.keys()
    assert ("mh", 1000) in asked
    assert ("mh", 10_000) not in asked
    assert kept[peers.key("mh", "student", 50, 10_000)]["failed"] == "not started: n / 10 was cut off"
    asked.clear()
    peers.measure((1000, 10_000), 1.0, path)
    assert not asked
