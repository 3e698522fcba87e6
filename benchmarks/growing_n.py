"""Cost per effective draw as n grows from 2^12 to 2^22 (d = 10): it must not grow. One core for sampling."""

import tallbayes as tb
from problems import effective, flat, logistic, mean_rows

D, DRAWS = 10, 200_000
print(f"{'n':>10} {'order':>6} {'set-up s':>9} {'rows per draw':>14} {'ns per effective draw':>22}")
for power in range(12, 23, 2):
    model = flat(*logistic(2**power, D, seed=power))
    tb.sample(model, draws=DRAWS, chains=1, seed=0, threads=1, progress=False)
    best = None
    for seed in (1, 2, 3):
        tree = tb.sample(model, draws=DRAWS, chains=1, threads=1, seed=seed, progress=False)
        cost = 1e9 * tree.attrs["sampling_seconds"] / effective(tree)
        best = cost if best is None else min(best, cost)
    order = tb.explain(model, draws=DRAWS, chains=1).order
    print(
        f"{2**power:>10,} {order!s:>6} {tree.attrs['setup_seconds']:>9.2f} {mean_rows(tree):>14.4g} {best:>22,.0f}",
        flush=True,
    )
