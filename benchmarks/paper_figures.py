"""Rows per step and acceptance on the paper's experiment, beside those of an independent implementation.

The experiment: logistic regression (and Student-t with 4 degrees of freedom), 10 standard normal columns, no
intercept, every coefficient 1, flat prior, truncation at R = n, 10^5 steps. The values depend a little on the
data drawn: agreement means within 15 %. The Student-t reference does not say what noise its responses have, so
both normal and Student-t noise are shown.
"""

from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import tallbayes as tb

D, STEPS = 10, 100_000
PCN = tb.proposals.CrankNicolson(rho=0.0)
WALK = tb.proposals.PreconditionedWalk(1.0)


class Setting(NamedTuple):
    """One line of the table; a reference that is not known is None."""

    family: tb.families.Family
    log2_n: int
    order: int
    proposal: tb.proposals.Proposal
    noise: str
    rows: float
    acceptance: float | None


LOGISTIC, STUDENT = tb.families.Bernoulli(), tb.families.StudentT(df=4, scale=1.0)
SETTINGS = [
    Setting(LOGISTIC, 14, 2, PCN, "", 51.0, 0.913),
    Setting(LOGISTIC, 17, 2, PCN, "", 20.0, 0.967),
    Setting(LOGISTIC, 14, 2, WALK, "", 9.0, 0.136),
    Setting(LOGISTIC, 17, 2, WALK, "", 3.5, 0.141),
    Setting(LOGISTIC, 14, 1, WALK, "", 203.0, 0.029),
    Setting(LOGISTIC, 17, 1, WALK, "", 207.0, 0.027),
    Setting(STUDENT, 17, 2, WALK, "normal", 1.0, None),
    Setting(STUDENT, 17, 2, WALK, "Student-t", 1.0, None),
]


def make_model(setting: Setting) -> tb.Regression:
    rng = np.random.default_rng(setting.log2_n)
    n = 2**setting.log2_n
    X = rng.standard_normal((n, D))
    eta = X.sum(axis=1)
    if setting.family == LOGISTIC:
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    elif setting.noise == "normal":
        y = eta + rng.standard_normal(n)
    else:
        y = eta + rng.standard_t(4, n)
    return tb.Regression(X, y, setting.family, tb.priors.Flat())


def run(setting: Setting) -> tuple[float, float]:
    model = make_model(setting)
    kernel = tb.kernels.ScalableMH(
        order=setting.order, bound=tb.bounds.Global(), proposal=setting.proposal, truncation=model.n
    )
    tree = tb.sample(model, kernel, draws=STEPS, chains=1, seed=1, progress=False)
    statistics = tree["sample_stats"]
    return float(statistics["rows_touched"].mean()), float(statistics["accepted"].mean())


def compare(value: float, reference: float | None) -> list[str]:
    if reference is None:
        return [f"{value:.3f}", "", ""]
    return [f"{value:.4g}", f"{reference:g}", f"{100.0 * (value / reference - 1.0):+.1f} %"]


def main() -> None:
    table = Table(box=None, pad_edge=False, title=f"d = {D}, {STEPS:,} steps, R = n", title_justify="left")
    table.add_column("n, order, proposal, family (noise)", no_wrap=True)
    for title in ("rows", "reference", "differs", "acceptance", "reference", "differs"):
        table.add_column(title, justify="right", no_wrap=True)
    for setting in SETTINGS:
        rows, acceptance = run(setting)
        table.add_row(
            f"2^{setting.log2_n}, {setting.order}, {type(setting.proposal).__name__}, "
            f"{type(setting.family).__name__}{setting.noise and f' ({setting.noise})'}",
            *compare(rows, setting.rows),
            *compare(acceptance, setting.acceptance),
        )
    Console(width=112, highlight=False).print(table)


if __name__ == "__main__":
    main()
