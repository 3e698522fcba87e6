"""Draws of the first coefficient beside the Gaussian approximation: logistic regression, d = 10, three sizes.

The supplement's lr_histogram: the paper's SMH-2 as bars, tallbayes' default as a line, the marginal of the Gaussian
approximation at the mode as another.
"""

import csv

import numpy as np
from common import STYLE, Scale, arguments, make_model, paper_smh, plot, run, write_csv

import tallbayes as tb

FIGURE = "histograms"
SIZES = (2048, 8192, 65536)
BINS = 40
CURVES = ("SMH-2", "tallbayes", "gaussian")


def histogram(n: int, draws: int) -> list[dict[str, object]]:
    """Return the densities of the first coefficient, a line for each bin."""
    model = make_model("logistic", 10, n)
    # The independent proposal: the same posterior, in far fewer draws than the walk needs.
    smh = paper_smh(2, tb.proposals.CrankNicolson(rho=0.0))
    trees = {"SMH-2": run(model, smh, draws), "tallbayes": run(model, None, draws, seed=2)}
    mode = float(trees["SMH-2"]["laplace"]["mode"][0])
    sd = float(np.sqrt(trees["SMH-2"]["laplace"]["covariance"][0, 0]))
    edges = mode + sd * np.linspace(-4.0, 4.5, BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2.0
    density = {"gaussian": np.exp(-0.5 * ((middle - mode) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))}
    for name, tree in trees.items():
        values = tree["posterior"]["beta"].values[0, :, 0]
        density[name] = np.histogram(values, edges)[0] / (values.size * np.diff(edges))
    return [
        {
            "n": n,
            "low": round(float(edges[b]), 7),
            "high": round(float(edges[b + 1]), 7),
            **{name: round(float(density[name][b]), 5) for name in CURVES},
        }
        for b in range(BINS)
    ]


def histograms(scale: Scale, draws: int) -> list[dict[str, float]]:
    """Return the lines of every size; what is in the table already is not sampled again."""
    path, lines = scale.folder / f"{FIGURE}.csv", []
    if path.exists() and not scale.fresh:
        with path.open(newline="") as file:
            lines = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    for n in SIZES:
        if not any(line["n"] == n for line in lines):
            lines += histogram(n, draws)
            write_csv(FIGURE, scale, lines)
    return lines


def main() -> None:
    """Sample, write the histograms, draw."""
    scale = arguments(__doc__)
    lines = histograms(scale, 100_000 if scale.quick else 1_000_000)

    def draw(axes) -> None:
        for one, n in zip(axes, SIZES, strict=True):
            bins = [line for line in lines if line["n"] == n]
            low, high, smh, default, gaussian = (
                np.array([line[key] for line in bins]) for key in ("low", "high", *CURVES)
            )
            middle = (low + high) / 2.0
            one.stairs(smh, [*low, high[-1]], fill=True, color=STYLE["SMH-2"][0], alpha=0.35, label="SMH-2")
            one.plot(middle, default, color=STYLE["tallbayes"][0], label="tallbayes' default")
            one.plot(middle, gaussian, "--", color="#000000", label="Gaussian approximation")
            one.set_title(f"n = {n:,}")
            one.set_xlabel("first coefficient")
            one.set_ylim(top=1.35 * max(np.max(gaussian), np.max(smh)))
            one.legend(loc="upper right", fontsize=8, handlelength=1.2)
        axes[0].set_ylabel("posterior density")

    plot(FIGURE, scale, draw, width=10.0, height=3.6, columns=3)


if __name__ == "__main__":
    main()
