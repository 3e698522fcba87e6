"""Are Firefly and Zig-Zag as fast as elsewhere? ESS per second on one core, n = 2^14, d = 10.

Logistic regression, standard normal columns, every coefficient 1, flat prior. An independent implementation in C++
gives about 545 for Firefly and 124 for Zig-Zag on a machine of its own: only orders of magnitude compare. Ours
are shown as in the papers (q_db = 0.001 and a walk with sigma = 1; scaled coordinates and rows drawn uniformly) and
as they are by default.
"""

import tallbayes as tb
from problems import effective, flat, logistic, mean_rows

N, D, SECONDS = 2**14, 10, 5.0
KERNELS = {
    "Firefly, as in the paper": (tb.kernels.Firefly(1e-3, tb.proposals.PreconditionedWalk(1.0)), 545),
    "Firefly, default": (tb.kernels.Firefly(), 545),
    "Zig-Zag, scaled, uniform rows": (tb.kernels.ZigZag(whitened=False, uniform=True), 124),
    "Zig-Zag, default": (tb.kernels.ZigZag(), 124),
}


def main() -> None:
    model = flat(*logistic(N, D, 17))
    print(f"{'':30}  draws/s  C++   rows per draw")
    for name, (kernel, reference) in KERNELS.items():
        pilot = tb.sample(model, kernel, draws=200, chains=1, warmup=0, seed=1, threads=1, progress=False)
        pilot = tb.sample(model, kernel, draws=200, chains=1, warmup=0, seed=1, threads=1, progress=False)
        draws = int(SECONDS * 200 / pilot.attrs["sampling_seconds"])
        tree = tb.sample(model, kernel, draws=draws, chains=1, warmup=0, seed=2, threads=1, progress=False)
        rate = effective(tree) / tree.attrs["sampling_seconds"]
        print(f"{name:30}  {rate:7,.0f}  {reference}  {mean_rows(tree):8.1f}", flush=True)


if __name__ == "__main__":
    main()
