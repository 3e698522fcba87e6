"""Draws of the first coefficient beside the Gaussian approximation: logistic regression, d = 10, three sizes.

The supplement's lr_histogram: the paper's SMH-2 as bars, tallbayes' default as a line, the marginal of the Gaussian
approximation at the mode as another.
"""

import numpy as np
from common import QUICK, STYLE, WALK, arguments, make_model, paper_smh, plot, run, write_csv

import tallbayes as tb

FIGURE = "histograms"
SIZES = (2048, 8192, 65536)
BINS = 40


def main() -> None:
    """Sample, write the histograms, draw."""
    scale = arguments(__doc__)
    draws = 100_000 if scale is QUICK else 1_000_000
    # The independent proposal: the same posterior, in far fewer draws than the walk needs.
    smh = paper_smh(2, tb.proposals.CrankNicolson(rho=0.0))
    lines, panels = [], []
    for n in SIZES:
        model = make_model("logistic", 10, n)
        trees = {"SMH-2": run(model, smh, draws), "tallbayes": run(model, None, draws, seed=2)}
        mode = float(trees["SMH-2"]["laplace"]["mode"][0])
        sd = float(np.sqrt(trees["SMH-2"]["laplace"]["covariance"][0, 0]))
        edges = mode + sd * np.linspace(-4.0, 4.5, BINS + 1)
        middle = (edges[1:] + edges[:-1]) / 2.0
        gaussian = np.exp(-0.5 * ((middle - mode) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
        density = {}
        for name, tree in trees.items():
            values = tree["posterior"]["beta"].values[0, :, 0]
            density[name] = np.histogram(values, edges)[0] / (values.size * np.diff(edges))
        panels.append((n, edges, middle, gaussian, density))
        lines += [
            {
                "n": n,
                "theta_1": round(float(x), 6),
                "gaussian": round(float(g), 5),
                **{name: round(float(values[b]), 5) for name, values in density.items()},
            }
            for b, (x, g) in enumerate(zip(middle, gaussian, strict=True))
        ]
    write_csv(FIGURE, scale, lines)

    def draw(axes) -> None:
        for one, (n, edges, middle, gaussian, density) in zip(axes, panels, strict=True):
            one.stairs(density["SMH-2"], edges, fill=True, color=STYLE["SMH-2"][0], alpha=0.35, label="SMH-2")
            one.plot(middle, density["tallbayes"], color=STYLE["tallbayes"][0], label="tallbayes' default")
            one.plot(middle, gaussian, "--", color="#000000", label="Gaussian approximation")
            one.set_title(f"n = {n:,}")
            one.set_xlabel("first coefficient")
        axes[0].set_ylabel("posterior density")
        axes[0].legend(loc="upper right", fontsize=8, handlelength=1.2)
        axes[0].set_ylim(top=1.3 * max(np.max(panels[0][3]), np.max(panels[0][4]["SMH-2"])))

    plot(FIGURE, scale, draw, width=10.0, height=3.6, columns=3)


if __name__ == "__main__":
    main()
