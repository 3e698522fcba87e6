"""What the figures share: data, kernels, measurements that are kept, and the look of a plot.

Every finished measurement is a line in ``runs.csv`` beside the figures; a script that is run again takes what is
there and measures only what is missing. ``--fresh`` measures anew, ``--paper`` takes the paper's scale.
"""

import argparse
import csv
import json
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import tallbayes as tb

RESULTS = Path(__file__).parent / "results"
SEED = 2019

# Okabe and Ito's palette, which colour-blind readers can tell apart; a kernel looks the same in every figure.
STYLE = {
    "MH": ("#000000", "o"),
    "SMH-1": ("#E69F00", "s"),
    "SMH-2": ("#0072B2", "^"),
    "SMH-3": ("#56B4E9", "v"),
    "Firefly": ("#D55E00", "D"),
    "Zig-Zag": ("#009E73", "P"),
    "tallbayes": ("#CC79A7", "*"),
}


@dataclass(frozen=True)
class Scale:
    """How much to measure."""

    name: str
    seconds: float
    """Aim of one measurement."""
    least: int
    """Draws at least, however slow."""
    most: int
    """Draws at most, however fast."""
    fresh: bool = False
    """Whether to measure anew what is kept."""

    @property
    def quick(self) -> bool:
        """Whether this is the small scale."""
        return self.name == "quick"

    @property
    def folder(self) -> Path:
        """Where figures and numbers of this scale are written."""
        return RESULTS / self.name


QUICK = Scale("quick", 1.0, 2500, 200_000)
PAPER = Scale("paper", 20.0, 20_000, 2_000_000)


@dataclass(frozen=True)
class Setting:
    """One measurement: a kernel on a model."""

    model: str
    d: int
    n: int
    kernel: str


@dataclass(frozen=True)
class Measurement:
    """What a run gave; ESS is that of the first coefficient, as in the paper."""

    draws: int
    seconds: float
    """Of sampling on one thread, without set-up, compilation and warm-up."""
    ess: float
    ess_per_second: float
    acceptance: float
    rows_per_draw: float
    setup_seconds: float


def arguments(about: str | None) -> Scale:
    """Read the command line and return the scale."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--paper", action="store_true", help="the paper's scale: hours instead of a minute")
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    given = parser.parse_args()
    scale = replace(PAPER if given.paper else QUICK, fresh=given.fresh)
    scale.folder.mkdir(parents=True, exist_ok=True)
    return scale


def make_model(name: str, d: int, n: int) -> tb.Regression:
    """Return the paper's data: standard normal columns, every coefficient 1, flat prior.

    Of two sizes the smaller data set is the beginning of the larger one.
    """
    X = np.random.default_rng([SEED, d]).standard_normal((n, d))
    noise = np.random.default_rng([SEED, d, 1])
    eta = X.sum(axis=1)
    if name == "logistic":
        y = (noise.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        return tb.Regression(X, y, tb.families.Bernoulli(), tb.priors.Flat())
    return tb.Regression(
        X, eta + noise.standard_normal(n), tb.families.StudentT(df=4.0, scale=1.0), tb.priors.Flat()
    )


def paper_smh(order: int, proposal: tb.proposals.Proposal) -> tb.kernels.Kernel:
    """Return the paper's SMH: global bounds, truncated at R = n, which is the default."""
    return tb.kernels.ScalableMH(order=order, bound=tb.bounds.Global(), proposal=proposal)


WALK = tb.proposals.PreconditionedWalk(1.0)

KERNELS: dict[str, tb.kernels.Kernel | None] = {
    # As in the paper's figures: the preconditioned walk with sigma = 1 for all but Zig-Zag, q_db = 0.001.
    "MH": tb.kernels.MetropolisHastings(WALK),
    "SMH-1": paper_smh(1, WALK),
    "SMH-2": paper_smh(2, WALK),
    "Firefly": tb.kernels.Firefly(q_db=1e-3, proposal=WALK),
    "Zig-Zag": tb.kernels.ZigZag(),
    "tallbayes": None,
}


def kernel_of(name: str) -> tb.kernels.Kernel | None:
    """Return the kernel of a name; "MH rho=0.3" is one with the Crank-Nicolson proposal."""
    if " rho=" not in name:
        return KERNELS[name]
    base, rho = name.split(" rho=")
    proposal = tb.proposals.CrankNicolson(rho=float(rho))
    return tb.kernels.MetropolisHastings(proposal) if base == "MH" else paper_smh(2, proposal)


def run(model: tb.Regression, kernel: tb.kernels.Kernel | None, draws: int, seed: int = 1):
    """Sample on one thread, silently: slow kernels are what the figures are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.errors.SlowMixingWarning)
        return tb.sample(model, kernel, draws=draws, chains=1, seed=seed, threads=1, progress=False)


def seconds_per_draw(tree) -> float:
    """Return the time of one step, warm-up included on both sides of the division."""
    return tree.attrs["sampling_seconds"] / (tree["posterior"].sizes["draw"] + tree.attrs["warmup"])


def measure(setting: Setting, scale: Scale) -> Measurement:
    """Run a kernel for about as long as the scale says."""
    model, kernel = make_model(setting.model, setting.d, setting.n), kernel_of(setting.kernel)
    run(model, kernel, 5)  # compiles
    pilot = seconds_per_draw(run(model, kernel, 100))
    draws = int(min(max(scale.seconds / pilot, scale.least), scale.most))
    tree = run(model, kernel, draws)
    seconds = seconds_per_draw(tree) * draws
    ess = float(tb.summary(tree)["ess_bulk"].iloc[0])
    plan = json.loads(tree.attrs["plan"])
    return Measurement(
        draws, seconds, ess, ess / seconds, plan["acceptance"], plan["rows_per_draw"], tree.attrs["setup_seconds"]
    )


def _kept(path: Path) -> dict[Setting, Measurement]:
    if not path.exists():
        return {}
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            setting = Setting(row["model"], int(row["d"]), int(row["n"]), row["kernel"])
            numbers = {key: float(row[key]) for key in Measurement.__dataclass_fields__}
            found[setting] = Measurement(**{**numbers, "draws": int(numbers["draws"])})
    return found


def measurements(figure: str, settings: Iterable[Setting], scale: Scale) -> dict[Setting, Measurement]:
    """Return the measurement of every setting; those that are not kept yet are made, and kept one by one."""
    wanted = list(settings)
    path = scale.folder / "runs.csv"
    kept = _kept(path)  # of a setting that was measured twice, the last
    for number, setting in enumerate(wanted):
        if setting in kept and not scale.fresh:
            continue
        kept[setting] = measure(setting, scale)
        line = {**asdict(setting), **asdict(kept[setting])}
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, line.keys())
            if new:
                writer.writeheader()
            writer.writerow(line)
        print(
            f"{figure} {number + 1}/{len(wanted)}: {setting.model} d={setting.d} n={setting.n} {setting.kernel}: "
            f"{line['ess_per_second']:.4g} ESS per second, {line['rows_per_draw']:.4g} rows per draw",
            flush=True,
        )
    return {setting: kept[setting] for setting in wanted}


def write_csv(figure: str, scale: Scale, lines: list[dict[str, object]]) -> None:
    """Write the numbers behind a figure."""
    with (scale.folder / f"{figure}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)


def as_lines(found: dict[Setting, Measurement]) -> list[dict[str, object]]:
    """Return measurements as lines of a table, rounded to what they are worth."""
    return [
        {
            **asdict(setting),
            **{key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in asdict(m).items()},
        }
        for setting, m in found.items()
    ]


def plot(
    figure: str, scale: Scale, draw: Callable, width: float = 6.4, height: float = 4.2, columns: int = 1
) -> None:
    """Draw into fresh axes and save the picture; `draw` gets the axes (a list if there are several)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 10, "axes.grid": True, "grid.alpha": 0.3, "legend.frameon": False}):
        pictures, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", squeeze=False)
        draw(axes[0, 0] if columns == 1 else list(axes[0]))
        path = scale.folder / f"{figure}.png"
        pictures.savefig(path, dpi=110)
        plt.close(pictures)
    print(f"{figure}: {path}")


def powers(low: int, high: int, step: int = 1) -> list[int]:
    """Return 2^low, ..., 2^high."""
    return [2**k for k in range(low, high + 1, step)]


def label_powers(axes, sizes: Iterable[int]) -> None:
    """Give the axis of n a logarithmic scale with powers of two."""
    sizes = sorted(set(sizes))
    every = max(1, math.ceil(len(sizes) / 6))
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes[::every])
    axes.set_xlabel("rows n")


ROUGH = 100.0
"""Effective draws below which a measurement of them is not worth much."""


def line(axes, sizes: list[int], found: list[Measurement], quantity: str, **look: object) -> None:
    """Draw a quantity against n; the marker is hollow where few effective draws were seen."""
    values = [getattr(one, quantity) for one in found]
    axes.plot(sizes, values, **look)
    rough = [(n, value) for n, value, one in zip(sizes, values, found, strict=True) if one.ess < ROUGH]
    if rough and quantity == "ess_per_second":
        hollow = {"linestyle": "", "markerfacecolor": "white", "zorder": 3, "label": None}
        axes.plot(*zip(*rough, strict=True), **{**look, **hollow})


def ess_against_n(figure: str, about: str | None, title: str, model: str, d: int, paper_sizes: list[int]) -> None:
    """Measure and draw ESS per second against n, for every kernel."""
    scale = arguments(about)
    sizes = powers(10, 16, 2) if scale.quick else paper_sizes
    found = measurements(figure, [Setting(model, d, n, kernel) for kernel in KERNELS for n in sizes], scale)
    write_csv(figure, scale, as_lines(found))

    def draw(axes) -> None:
        for kernel in KERNELS:
            colour, marker = STYLE[kernel]
            values = [found[Setting(model, d, n, kernel)] for n in sizes]
            name = "tallbayes' default" if kernel == "tallbayes" else kernel
            line(axes, sizes, values, "ess_per_second", color=colour, marker=marker, label=name)
        axes.set_yscale("log")
        label_powers(axes, sizes)
        axes.set_ylabel("effective draws of the first coefficient\nper second")
        axes.set_title(title)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title="hollow: rough\n(ESS below 100)")

    plot(figure, scale, draw, width=7.2)


RHOS = {"quick": (0.0, 0.3, 0.6, 0.9), "paper": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)}


def rho_against_n(figure: str, about: str | None, title: str, model: str, quantity: str) -> None:
    """Measure and draw what rho of the Crank-Nicolson proposal does: ESS per second, or acceptance."""
    scale = arguments(about)
    rhos = RHOS[scale.name]
    sizes = powers(10, 16, 2) if scale.quick else powers(10, 18)
    names = [f"{base} rho={rho}" for base in ("SMH-2", "MH") for rho in rhos] + ["tallbayes"]
    found = measurements(figure, [Setting(model, 10, n, kernel) for kernel in names for n in sizes], scale)
    write_csv(figure, scale, as_lines(found))

    def draw(axes) -> None:
        import matplotlib.pyplot as plt

        shades = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(rhos)))
        for base, dashes, marker in (("SMH-2", "-", "^"), ("MH", "--", "o")):
            for rho, shade in zip(rhos, shades, strict=True):
                values = [found[Setting(model, 10, n, f"{base} rho={rho}")] for n in sizes]
                look = {"linestyle": dashes, "color": shade, "marker": marker, "markersize": 5}
                line(axes, sizes, values, quantity, **look, label=rf"{base}, $\rho$ = {rho:g}")
        values = [found[Setting(model, 10, n, "tallbayes")] for n in sizes]
        look = {"color": STYLE["tallbayes"][0], "marker": "*", "markersize": 9}
        line(axes, sizes, values, quantity, **look, label="tallbayes' default")
        label_powers(axes, sizes)
        if quantity == "acceptance":
            axes.set_ylabel("share of proposals accepted")
            axes.set_ylim(top=1.02)
        else:
            axes.set_yscale("log")
            axes.set_ylabel("effective draws of the first coefficient\nper second")
        axes.set_title(title)
        hollow = "hollow: rough\n(ESS below 100)" if quantity == "ess_per_second" else None
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title=hollow)

    plot(figure, scale, draw, width=7.6)
