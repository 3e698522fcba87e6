"""Are default runs right in the tails? Many seeds of `tb.sample(model)` against exact moments and quantiles.

For every problem of `tail_problems.py` (levels with few events, separated classes, kinks, walls), each run's means,
standard deviations and 5 % and 95 % quantiles are compared with the truth, in units of the Monte Carlo errors that
the run itself reports. A run may be wrong if it says so: those that warned are counted apart.

    tails.py [--quick | --seeds 60] [--problems name ...] [--data-seed 1] [--control] [--json path]

With 8 runs a single score can fail a problem of one or two coefficients; 60 decide. The exit status is 1 if any fails.
`--control` puts independent exact draws in the place of the sampler's: what it finds is the battery's own error.
"""

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from tail_problems import PROBLEMS, STATISTICS, Case, chosen, reference

import tallbayes as tb

CHAINS, DRAWS = 4, 1000
FAR = 3.0
EACH, OVERALL, WARNED, EFFECTIVE = 0.02, 0.01, 0.1, 0.2
"""Largest shares of |z| > 3 in a problem and over all, largest share of runs that warn, least ESS per draw."""


def z_scores(beta: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, statistics x coefficients, how many reported standard errors a run is off; NaN where no truth exists.

    The errors are arviz-stats', which takes the effective draws of x for the sd. Those of (x - mean)^2 are what counts;
    z-scores with them, for the sd alone, come second. Draws that never moved have no error: infinitely far off.
    """
    flat = beta.reshape(beta.shape[0], -1)
    low, high = np.quantile(flat, [0.05, 0.95], axis=1)
    sd = flat.std(axis=1, ddof=1)
    found = np.array([flat.mean(axis=1), sd, low, high])
    error = np.array(
        [
            array_stats.mcse(beta, method="mean"),
            array_stats.mcse(beta, method="sd"),
            array_stats.mcse(beta, method="quantile", prob=0.05),
            array_stats.mcse(beta, method="quantile", prob=0.95),
        ]
    )
    squares = (beta - found[0][:, None, None]) ** 2
    of_squares = array_stats.mcse(squares, method="mean") / (2.0 * sd)

    def scores(found: np.ndarray, truth: np.ndarray, error: np.ndarray) -> np.ndarray:
        z = (found - truth) / error
        return np.where(np.isnan(truth), np.nan, np.where(np.isfinite(z), z, np.inf))

    return scores(found, truth, error), scores(sd, truth[1], of_squares)


def measure(beta: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Return z-scores and diagnostics of a run: coefficients x chains x draws."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bulk = array_stats.ess(beta, method="bulk")
        tail = array_stats.ess(beta, method="tail", prob=(0.05, 0.95))
        rhat = array_stats.rhat(beta)
        z, z_squares = z_scores(beta, truth)
    return {
        "z": z,
        "z_sd_by_squares": z_squares,
        "bulk": float(np.min(np.nan_to_num(bulk))) / (CHAINS * DRAWS),
        "tail": float(np.min(np.nan_to_num(tail))) / (CHAINS * DRAWS),
        "rhat": float(np.max(np.nan_to_num(rhat, nan=np.inf))),
    }


def default_run(case: Case, truth: np.ndarray, seed: int) -> dict[str, Any]:
    """Return what a run by default, of a fresh model, gave: it may have warned or raised."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tree = tb.sample(case.model(), seed=seed, progress=False)
        except tb.errors.TallbayesError as error:
            return {"seed": seed, "raised": f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - started
    said = [str(w.message) for w in caught if _ours(w)]
    beta = np.moveaxis(tree["posterior"]["beta"].to_numpy(), 2, 0)
    if beta.shape[1:] != (CHAINS, DRAWS):
        raise RuntimeError(
            f"a default run has {beta.shape[1]} chains of {beta.shape[2]} draws, not {CHAINS} of {DRAWS}"
        )
    rows = float(tree["sample_stats"]["rows_touched"].mean())
    return {"seed": seed, "warned": said, "rows": rows, "seconds": seconds, **measure(beta, truth)}


def _ours(caught: warnings.WarningMessage) -> bool:
    return issubclass(caught.category, tb.errors.SlowMixingWarning) or (
        issubclass(caught.category, UserWarning)
        and "tallbayes" in f"{caught.filename} {caught.category.__module__}"
    )


def control_runs(name: str, case: Case, truth: np.ndarray, seeds: range) -> list[dict[str, Any]]:
    """Return what independent draws from the exact posterior give."""
    rng = np.random.default_rng([seeds[0], *name.encode()])  # each problem its own: totals need independent runs
    draws = case.posterior.draw(rng, len(seeds) * CHAINS * DRAWS)
    parts = draws.reshape(len(seeds), CHAINS, DRAWS, -1)
    return [
        {"seed": seed, "warned": [], "rows": 0.0, "seconds": 0.0, **measure(np.moveaxis(part, 2, 0), truth)}
        for seed, part in zip(seeds, parts, strict=True)
    ]


def digest(name: str, case: Case, truth: np.ndarray, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a problem's line: shares, diagnostics, and where it is worst."""
    finished = [run for run in runs if "raised" not in run]
    silent = [run for run in finished if not run["warned"]]
    result: dict[str, Any] = {
        "problem": name,
        "runs": len(runs),
        "raised": len(runs) - len(finished),
        "warned": 1.0 - len(silent) / len(finished) if finished else math.nan,
        "infinite_variance": bool(np.any(np.isnan(truth[1]))),
        "far": math.nan,
        "scores": 0,
    }
    if finished:
        for key in ("bulk", "tail"):
            values = [run[key] for run in finished]
            result[f"{key}_least"], result[f"{key}_median"] = float(np.min(values)), float(np.median(values))
        result["rhat_largest"] = float(np.max([run["rhat"] for run in finished]))
        result["rows"] = float(np.mean([run["rows"] for run in finished]))
        result["milliseconds"] = 1e3 * float(np.median([run["seconds"] for run in finished]))
    if silent:
        z = np.array([run["z"] for run in silent])  # runs x statistics x coefficients
        known = ~np.isnan(truth)
        far = np.abs(z) > FAR
        result["scores"] = int(known.sum() * len(silent))
        result["far"] = float(far[:, known].mean())
        result["far_rare"] = float(far[:, :, case.rare][:, known[:, case.rare]].mean())
        by_squares = z.copy()
        by_squares[:, 1] = [run["z_sd_by_squares"] for run in silent]
        result["far_by_squares"] = float((np.abs(by_squares) > FAR)[:, known].mean())
        share = np.where(known, far.mean(axis=0), -1.0)
        with np.errstate(invalid="ignore"):
            bias = np.where(
                known, np.mean(np.clip(z, -99.0, 99.0), axis=0), 0.0
            )  # over runs: seeds agree on a sign
        s, j = np.unravel_index(int(np.argmax(share)), share.shape)
        result["worst"] = [STATISTICS[s], case.names[j], float(share[s, j])]
        s, j = np.unravel_index(int(np.argmax(np.abs(bias))), bias.shape)
        result["bias"] = [STATISTICS[s], case.names[j], float(bias[s, j])]
    result["faults"] = faults(result)
    return result


def faults(line: dict[str, Any]) -> list[str]:
    """Return what a problem's line fails."""
    found = []
    if line["raised"]:
        found.append("raised")
    if line["scores"] and line["far"] > EACH:
        found.append("tails")
    if not line["warned"] <= WARNED and not line["infinite_variance"]:  # also NaN: no run finished
        found.append("warns")
    slow = min(line.get("bulk_median", 0.0), line.get("tail_median", 0.0)) < EFFECTIVE
    if slow and not line["infinite_variance"]:
        found.append("ESS")
    return found


HEADER = (
    f"{'':<21}{'|z| > 3':>8}{'rare':>7}{'(sd2)':>7}{'warned':>8}{'bulk ESS':>13}{'tail ESS':>13}{'R-hat':>7}"
    f"{'rows':>9}{'ms':>7}  fails  (worst statistic; largest mean z)"
)


def text(line: dict[str, Any]) -> str:
    """Return a line of the table."""

    def percent(value: float) -> str:
        return "-" if math.isnan(value) else f"{100.0 * value:.1f}%"

    def pair(key: str) -> str:
        if f"{key}_least" not in line:
            return "-"
        return f"{line[f'{key}_least']:.3f} {line[f'{key}_median']:.3f}"

    where = ""
    if "worst" in line:
        (statistic, name, share), (of, whose, z) = line["worst"], line["bias"]
        where = f"({statistic} of {name} {percent(share)}; {of} of {whose} {z:+.1f})"
    return (
        f"{line['problem']:<21}{percent(line['far']):>8}{percent(line.get('far_rare', math.nan)):>7}"
        f"{percent(line.get('far_by_squares', math.nan)):>7}"
        f"{percent(line['warned']):>8}{pair('bulk'):>13}{pair('tail'):>13}{line.get('rhat_largest', math.nan):>7.2f}"
        f"{line.get('rows', math.nan):>9.3g}{line.get('milliseconds', math.nan):>7.0f}"
        f"  {', '.join(line['faults']) or 'passes'}  {where}"
    )


def total(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the totals: every score counts the same, so problems with many coefficients count more."""
    counted = [line for line in lines if line["scores"]]
    scores = sum(line["scores"] for line in counted)
    far = sum(line["far"] * line["scores"] for line in counted) / scores if scores else math.nan
    runs = sum(line["runs"] - line["raised"] for line in lines)
    warned = sum(
        line["warned"] * (line["runs"] - line["raised"]) for line in lines if line["runs"] > line["raised"]
    )
    result = {
        "far": far,
        "far_mean_of_problems": float(np.mean([line["far"] for line in counted])) if counted else math.nan,
        "scores": scores,
        "warned": warned / runs if runs else math.nan,
        "failing": [line["problem"] for line in lines if line["faults"]],
    }
    result["passes"] = not result["failing"] and far <= OVERALL
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60, help="runs of each problem")
    parser.add_argument("--first-seed", type=int, default=1, help="seed of the first run")
    parser.add_argument("--quick", action="store_true", help="8 runs of each problem")
    parser.add_argument("--problems", nargs="*", help="parts of names; all problems without")
    parser.add_argument("--data-seed", type=int, default=1, help="seed of the data")
    parser.add_argument("--control", action="store_true", help="independent exact draws in the sampler's place")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + (8 if arguments.quick else arguments.seeds))
    what = "independent exact draws" if arguments.control else "tb.sample(model)"
    print(f"{what}, {len(seeds)} runs of {CHAINS} x {DRAWS} draws each, data seed {arguments.data_seed}")
    print(
        "|z| > 3: share in runs without a warning; rare: of the coefficients in question; (sd2): with the error of"
    )
    print(
        "sds from the ESS of squares, for comparison; ESS per draw of the worst coefficient: least and median run"
    )
    print(HEADER, flush=True)
    lines = []
    for name in chosen(arguments.problems):
        case = PROBLEMS[name](arguments.data_seed)
        truth = reference(name, case, arguments.data_seed)
        if arguments.control:
            runs = control_runs(name, case, truth, seeds)
        else:
            runs = [default_run(case, truth, seed) for seed in seeds]
        line = digest(name, case, truth, runs)
        line["messages"] = sorted({run["raised"] for run in runs if "raised" in run})
        line["details"] = [
            {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in run.items()}
            for run in runs
        ]
        lines.append(line)
        print(text(line), flush=True)
        for message in line["messages"]:
            print(f"    {message}")
    overall = total(lines)
    print(
        f"over all {100 * overall['far']:.2f} % of {overall['scores']:,} scores have |z| > 3 (at most"
        f" {100 * OVERALL:g} %); mean of the problems' shares {100 * overall['far_mean_of_problems']:.2f} %;"
        f" {100 * overall['warned']:.1f} % of runs warned"
    )
    print(
        f"each problem: |z| > 3 at most {100 * EACH:g} %, warned at most {100 * WARNED:g} %, median bulk and tail ESS"
        f" at least {EFFECTIVE:g} (infinite variance may warn): {len(overall['failing'])} of {len(lines)} fail"
    )
    print("PASS" if overall["passes"] else "FAIL")
    if arguments.json:
        options = {key: str(value) if isinstance(value, Path) else value for key, value in vars(arguments).items()}
        arguments.json.write_text(json.dumps({"options": options, "total": overall, "problems": lines}))
    return 0 if overall["passes"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
