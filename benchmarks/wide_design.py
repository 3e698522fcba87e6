"""d = 50: the default against the setting of the paper (order 2, global bounds, rho = 0), one core."""

import tallbayes as tb
from problems import effective, flat, logistic

N, D, ROUNDS = 2**17, 50, 3
model = flat(*logistic(N, D, seed=50))
paper = tb.kernels.ScalableMH(2, tb.bounds.Global(), tb.proposals.CrankNicolson(rho=0.0), truncation=N)
PAPER = "the paper's setting"
settings = {"default": (None, 40_000, None), PAPER: (paper, 2_000, 100)}
speeds = dict.fromkeys(settings, 0.0)
for seed in range(ROUNDS):
    for name, (kernel, draws, warmup) in settings.items():
        tree = tb.sample(model, kernel, draws=draws, chains=1, threads=1, warmup=warmup, seed=seed, progress=False)
        speed = effective(tree) / tree.attrs["sampling_seconds"]
        speeds[name] = max(speeds[name], speed)
        stats = tree["sample_stats"]
        print(
            f"{name:<20} {speed:>10,.1f} ESS per second, "
            f"{float(stats['rows_touched'].mean()):>9,.1f} rows per draw, "
            f"acceptance {float(stats['accepted'].mean()):.3f}",
            flush=True,
        )
print(f"ratio of the best: {speeds['default'] / speeds[PAPER]:,.0f} (target 1,000)")
