"""Chains in threads, chunk by chunk, until all draws are made or the user has had enough."""

from concurrent.futures import ThreadPoolExecutor

from tallbayes.errors import ExactnessError
from tallbayes.run.chain import Chain
from tallbayes.run.progress import Progress


def run_chains(runs: list[Chain], display: Progress, threads: int) -> bool:
    """Advance all chains in rounds of one chunk each; return whether the run was interrupted."""
    try:
        with ThreadPoolExecutor(min(threads, len(runs))) as pool:
            while active := [run for run in runs if not run.finished]:
                # Leaving the block on an interrupt waits for the chunks under way, so no chain is torn.
                list(pool.map(Chain.advance, active))
                _refuse_violations(runs)
                display.update([run.status() for run in runs])
    except KeyboardInterrupt:
        _refuse_violations(runs)
        if min(run.kept for run in runs) == 0:
            raise
        return True
    return False


def _refuse_violations(runs: list[Chain]) -> None:
    """Raise if any chain has found a bound broken."""
    if violations := sum(run.driver.violations for run in runs):
        raise ExactnessError(
            f"{violations} remainder(s) exceeded their proved bound: the draws would not be exact and are "
            "withheld. Bounds that you gave to tb.Factors are too small; otherwise please report the family and "
            "the data. tb.kernels.MetropolisHastings() needs no bounds."
        )
