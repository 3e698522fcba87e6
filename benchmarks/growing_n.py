"""Cost per effective draw as n grows from 2^12 to 2^22 (d = 10): it must not grow. One core for sampling.

The default weighs set-up against draws, so from some n on it takes order 2; order 3 throughout is shown beside it.
"""

import tallbayes as tb
from problems import effective, flat, logistic, mean_rows

D, DRAWS = 10, 200_000


def best_of_three(model: tb.Regression, kernel: tb.kernels.ScalableMH | None) -> tuple[float, float, float]:
    """Return the least set-up time and nanoseconds per effective draw, and rows per draw."""
    tb.sample(model, kernel, draws=DRAWS, chains=1, seed=0, threads=1, progress=False)
    trees = [tb.sample(model, kernel, draws=DRAWS, chains=1, threads=1, seed=s, progress=False) for s in (1, 2, 3)]
    costs = [1e9 * tree.attrs["sampling_seconds"] / effective(tree) for tree in trees]
    return min(tree.attrs["setup_seconds"] for tree in trees), mean_rows(trees[-1]), min(costs)


print(f"{'':>10} {'default':^42} {'order 3':^35}")
columns = f"{'set-up s':>9} {'rows per draw':>14} {'ns per eff.':>11}"
print(f"{'n':>10} {'order':>6} {columns} {columns}")
for power in range(12, 23, 2):
    model = flat(*logistic(2**power, D, seed=power))
    order = tb.explain(model, draws=DRAWS, chains=1).order
    cells = [best_of_three(model, kernel) for kernel in (None, tb.kernels.ScalableMH(order=3))]
    texts = [f"{setup:>9.2f} {rows:>14.4g} {cost:>11,.0f}" for setup, rows, cost in cells]
    print(f"{2**power:>10,} {order!s:>6} {' '.join(texts)}", flush=True)
