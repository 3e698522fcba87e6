"""How rows per step grow with n, for expansions of order 1, 2 and 3; fails if a slope is not what theory says.

Logistic regression, d = 10, the independent proposal (Crank-Nicolson with rho = 0), no truncation. Order 1 and 2
with the paper's global bounds and order 3 with local ones, over sizes at which the posterior is close to its limit.
Rows per step should not depend on n at order 1, and fall as n^(-1/2) and 1/n at order 2 and 3.
"""

import csv
import math
import sys

import numpy as np
from common import STYLE, Scale, arguments, label_powers, make_model, plot, powers, run, write_csv

import tallbayes as tb

FIGURE = "slopes"
INDEPENDENT = tb.proposals.CrankNicolson(rho=0.0)
WANTED = {1: (0.0, 0.1), 2: (-0.5, 0.1), 3: (-1.0, 0.15)}
"""Slope on logarithmic axes, and how far the measured one may be from it."""
EVENTS = 4000
"""Rows to evaluate for one mean."""


def kernel(order: int) -> tb.kernels.Kernel:
    """Return the kernel whose rows are counted; never truncated."""
    bound = tb.bounds.Local() if order == 3 else tb.bounds.Global()
    return tb.kernels.ScalableMH(order=order, bound=bound, proposal=INDEPENDENT, truncation=math.inf, sketch=False)


def rows_per_step(n: int, order: int) -> float:
    """Return the mean number of rows touched, from a run long enough to see many."""
    model = make_model("logistic", 10, n)
    pilot = float(run(model, kernel(order), 2000)["sample_stats"]["rows_touched"].mean())
    draws = int(min(max(EVENTS / max(pilot, 1e-3), 100_000), 4_000_000))
    return float(run(model, kernel(order), draws, seed=2)["sample_stats"]["rows_touched"].mean())


def measured(scale: Scale, sizes: list[int]) -> dict[tuple[int, int], float]:
    """Return rows per step of every size and order; what is in the table already is not measured again."""
    path = scale.folder / f"{FIGURE}.csv"
    found = {}
    if path.exists() and not scale.fresh:
        with path.open(newline="") as file:
            found = {
                (int(row["n"]), int(row["order"])): float(row["rows_per_step"]) for row in csv.DictReader(file)
            }
    for n in sizes:
        for order in WANTED:
            if (n, order) not in found:
                found[n, order] = rows_per_step(n, order)
                write_csv(FIGURE, scale, [{"n": m, "order": k, "rows_per_step": v} for (m, k), v in found.items()])
                print(f"{FIGURE}: n={n} order {order}: {found[n, order]:.4g} rows per step", flush=True)
    return found


def main() -> int:
    """Measure, draw, compare."""
    scale = arguments(__doc__)
    sizes = powers(14, 20, 2) if scale.quick else powers(14, 21)
    found = measured(scale, sizes)
    fits = {k: np.polyfit(np.log(sizes), [math.log(found[n, k]) for n in sizes], 1) for k in WANTED}

    def draw(axes) -> None:
        for order, (slope, start) in fits.items():
            colour, marker = STYLE[f"SMH-{order}"]
            axes.plot(sizes, np.exp(start + slope * np.log(sizes)), color=colour, alpha=0.6)
            points = [found[n, order] for n in sizes]
            axes.plot(sizes, points, marker, color=colour, label=f"order {order}: slope {slope:.2f}")
        axes.set_yscale("log")
        label_powers(axes, sizes)
        axes.set_ylabel("rows evaluated per step")
        axes.set_title("Logistic regression, d = 10, independent proposal")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    plot(FIGURE, scale, draw, width=7.2)
    failed = 0
    for order, (wanted, tolerance) in WANTED.items():
        slope = float(fits[order][0])
        good = abs(slope - wanted) <= tolerance
        failed += not good
        print(
            f"order {order}: slope {slope:+.3f}, expected {wanted:+.1f} +- {tolerance}: {'yes' if good else 'NO'}"
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
