"""How long a newcomer waits: first call with an empty cache, further families and layouts, a second process."""

import tempfile

from versions import run, sources

FIRST = """
import time; started = time.perf_counter()
import json
import numpy as np
import tallbayes as tb

rng = np.random.default_rng(1)
X = np.column_stack([np.ones(200_000), rng.standard_normal((200_000, 3))])
eta = X @ [-2.0, 0.5, 0.0, 1.0]
y = (rng.random(200_000) < 1 / (1 + np.exp(-eta))).astype(float)
waits = {}

def wait(name, X, y, family, **options):
    before = time.perf_counter()
    tb.sample(tb.Regression(X, y, family, **options), draws=1000, chains=4, seed=1, progress=False)
    waits[name] = time.perf_counter() - before

wait("first call", X, y, tb.families.Bernoulli())
waits["first call, import included"] = time.perf_counter() - started
wait("the same again", X, y, tb.families.Bernoulli())
"""
FURTHER = """
wait("Poisson", X, rng.poisson(np.exp(eta)).astype(float), tb.families.Poisson())
wait("StudentT", X, eta + rng.standard_t(4, len(y)), tb.families.StudentT(4.0, 1.0))
wait("probit", X, y, tb.families.Bernoulli("probit"))
wait("float32", X.astype(np.float32), y, tb.families.Bernoulli())
wait("Fortran order", np.asfortranarray(X), y, tb.families.Bernoulli())
locked = X.copy(); locked.flags.writeable = False
wait("read-only", locked, y, tb.families.Bernoulli())
import tempfile
with tempfile.NamedTemporaryFile() as file:
    mapped = np.memmap(file.name, dtype=float, mode="w+", shape=X.shape); mapped[:] = X
    wait("memory-mapped", mapped, y, tb.families.Bernoulli())
"""
LAST = "\nprint(json.dumps(waits))"
ROUNDS = 2

if __name__ == "__main__":
    found: dict[str, dict[str, float]] = {"before": {}, "now": {}}
    with sources() as versions:
        for _ in range(ROUNDS):
            for name, source in versions.items():
                with tempfile.TemporaryDirectory() as cache:
                    waits = run(source, FIRST + FURTHER + LAST, TALLBAYES_CACHE_DIR=cache)
                    second = run(source, FIRST + LAST, TALLBAYES_CACHE_DIR=cache)
                    waits["second process, from its start"] = second["first call, import included"]
                for what, seconds in waits.items():
                    found[name][what] = min(found[name].get(what, seconds), seconds)
    print(f"{'seconds, best of ' + str(ROUNDS):<34}{'before':>8}{'now':>8}{'ratio':>8}")
    for what, seconds in found["now"].items():
        print(f"{what:<34}{found['before'][what]:>8.2f}{seconds:>8.2f}{seconds / found['before'][what]:>8.2f}")
