"""Pictures of README and documentation, into docs/figures: what is gained, and how the method works.

readme.png: a coefficient of which few rows speak, beside its Gaussian approximation; and seconds to 1,000 effective
draws, as docs/comparison.md has them. method.png: the potential of a row, its expansion, and the bound on what that
leaves out.
"""

import argparse
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np

import tallbayes as tb

mpl.use("Agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
PAGE, FIGURES = ROOT / "docs" / "comparison.md", ROOT / "docs" / "figures"
ROWS, FEW, EVENTS = 200_000, 30, 1
SHOWN = {
    "tallbayes": ("tallbayes", "#c0392b", "o-"),
    "NUTS (NumPyro)": ("NUTS (NumPyro)", "#2c6e9b", "s-"),
    "Metropolis-Hastings": ("Metropolis-Hastings", "#7f8c8d", "^-"),
    "scikit-learn (point fit)": ("scikit-learn, a point fit", "#27ae60", "d--"),
}


def rare_level(draws: int):
    """Return the draws of a factor level with 30 rows and one event, and its Gaussian approximation."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(ROWS), rng.standard_normal(ROWS), np.zeros(ROWS)])
    y = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(1.0 - 0.5 * X[:, 1]))).astype(float)
    X[:FEW, 2] = 1.0
    y[:FEW] = np.arange(FEW) < EVENTS
    model = tb.Regression(X, y, tb.families.Bernoulli(), names=["intercept", "x", "rare"])
    tree = tb.sample(model, draws=draws, seed=1, progress=False)
    print(tb.verdict(tree))
    print(f"{float(tree['sample_stats']['rows_touched'].mean()):.2g} rows per draw of {ROWS:,}")
    laplace = tree["laplace"].sel(coefficient="rare", other="rare")
    return tree["posterior"]["beta"].sel(coefficient="rare").values.ravel(), (
        float(laplace["mode"]),
        float(np.sqrt(laplace["covariance"])),
    )


def seconds_of_page() -> tuple[list[int], dict[str, list[float]]]:
    """Return numbers of rows, and by method the seconds to 1,000 effective draws of logistic regression, d = 10."""
    text = PAGE.read_text()
    sizes = [int(n.replace(",", "")) for n in re.findall(r"n = ([\d,]+) \|", text)]
    found = {}
    for name in SHOWN:
        line = re.search(rf"^\| logistic \| 10 \| {re.escape(name)} \|(.*)\|$", text, re.MULTILINE)
        assert line is not None, name
        found[name] = [float(s.replace(",", "")) for s in re.findall(r"\(([\d.,]+)", line[1])]
    return sizes, found


def readme(draws: int) -> Path:
    """Draw what is gained."""
    values, (mode, sd) = rare_level(draws)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.7), layout="constrained")
    grid = np.linspace(mode - 4.5 * sd, mode + 3.5 * sd, 400)
    left.hist(values, bins=80, range=(grid[0], grid[-1]), density=True, color="#c0392b", alpha=0.55)
    left.plot(grid, np.exp(-0.5 * ((grid - mode) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi)), color="#2c3e50")
    low, high = np.quantile(values, [0.025, 0.975])
    left.text(0.02, 0.95, f"exact draws\n95 %: {low:.1f} to {high:.1f}", color="#c0392b", **corner(left))
    left.text(
        0.02,
        0.77,
        f"Gaussian approximation\n95 %: {mode - 1.96 * sd:.1f} to {mode + 1.96 * sd:.1f}",
        color="#2c3e50",
        **corner(left),
    )
    left.set_title(f"A level with {FEW} of {ROWS:,} rows, {EVENTS} event", fontsize=10)
    left.set_xlabel("log odds ratio of the level")
    left.set_yticks([])
    sizes, found = seconds_of_page()
    for name, seconds in found.items():
        label, colour, style = SHOWN[name]
        right.loglog(sizes, seconds, style, color=colour, label=label, markersize=5)
    right.set_title("Seconds to 1,000 effective draws, logistic, 10 columns", fontsize=10)
    right.set_xlabel("rows")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return saved(figure, "readme.png")


def corner(axes) -> dict[str, object]:
    return {"transform": axes.transAxes, "va": "top", "fontsize": 9}


def method() -> Path:
    """Draw the potential of a row, its expansions, and the bound in a ball."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.6), layout="constrained")
    mode, reach = 0.7, 2.0
    step = np.linspace(-reach, reach, 401)
    potential = np.logaddexp(0.0, mode + step)
    p = 1.0 / (1.0 + np.exp(-mode))
    second = np.logaddexp(0.0, mode) + p * step + p * (1.0 - p) * step**2 / 2.0
    third = p * (1.0 - p) * (1.0 - 2.0 * p)
    inside = 1.0 / (1.0 + np.exp(-(mode + step)))
    largest = np.max(np.abs(inside * (1 - inside) * (1 - 2 * inside)))
    fourth = np.max(np.abs(inside * (1 - inside) * (1 - 6 * inside * (1 - inside))))
    left.plot(step, potential, color="#2c3e50", label="the row's potential")
    left.plot(step, second, "--", color="#c0392b", label="expansion of order 2")
    left.set_xlabel("change of the row's predictor")
    left.legend(frameon=False, fontsize=9)
    left.set_title("Summed once over all rows: a polynomial", fontsize=10)
    left_out = potential - second
    for order, values, bound, colour in (
        (2, left_out, largest * np.abs(step) ** 3 / 6.0, "#c0392b"),
        (3, left_out - third * step**3 / 6.0, fourth * step**4 / 24.0, "#2c6e9b"),
    ):
        assert np.all(np.abs(values) <= bound + 1e-12)
        right.plot(step, np.abs(values), color=colour, label=f"left out by order {order}")
        right.fill_between(step, 0.0, bound, color=colour, alpha=0.15, label=f"bound, order {order}")
    right.set_xlabel("change of the row's predictor")
    right.legend(frameon=False, fontsize=9)
    right.set_title("What is left out, below a proved bound", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return saved(figure, "method.png")


def saved(figure, name: str) -> Path:
    path = FIGURES / name
    figure.savefig(path, dpi=130)
    print(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10_000)
    options = parser.parse_args()
    readme(options.draws)
    method()


if __name__ == "__main__":
    main()
