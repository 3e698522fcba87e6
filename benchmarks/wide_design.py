"""d = 50: the default against the paper's own setting (order 2, global bounds, rho = 0), one core."""

import tallbayes as tb
from problems import effective, flat, logistic

N, D = 2**17, 50
model = flat(*logistic(N, D, seed=50))
paper = tb.kernels.ScalableMH(2, tb.bounds.Global(), tb.proposals.CrankNicolson(rho=0.0), truncation=N)
speeds = {}
for name, kernel, draws, warmup in (("default", None, 20_000, None), ("the paper's setting", paper, 3_000, 100)):
    tb.sample(model, kernel, draws=5, chains=1, warmup=0, seed=0, progress=False)
    tree = tb.sample(model, kernel, draws=draws, chains=1, threads=1, warmup=warmup, seed=1, progress=False)
    speeds[name] = effective(tree) / tree.attrs["sampling_seconds"]
    stats = tree["sample_stats"]
    print(
        f"{name:<20} {speeds[name]:>10,.1f} effective draws a second, "
        f"{float(stats['rows_touched'].mean()):>9,.1f} rows per draw, "
        f"acceptance {float(stats['accepted'].mean()):.3f}",
        flush=True,
    )
print(f"ratio {speeds['default'] / speeds['the paper' + chr(39) + 's setting']:,.0f} (target 1,000)")
