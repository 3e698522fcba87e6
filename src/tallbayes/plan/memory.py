"""How much memory a run will take at its peak, beside the data."""

from tallbayes.kernels.base import Prepared
from tallbayes.kernels.mixing import AT_ONCE, judged_bytes
from tallbayes.kernels.state import DRAW_BYTES, LARGEST_CHUNK
from tallbayes.models.products import in_single_precision
from tallbayes.setup.mode import search_bytes
from tallbayes.sources.arrays import rows_of_a_block

BLOCK_COPIES = 1.0
"""Blocks' worth of numbers that a thread makes of a block, on average over the kinds of passes; one more where the
design is not in float64."""
SKETCH_COPIES = 1.5
"""The same of a pass that draws a sketch from rows in double precision, beyond that."""
TABLE_COPY = 16
"""Bytes for each row that the making of a table to draw from takes, and gives back."""


def peak_bytes(prepared: Prepared, draws: int, chains: int, threads: int) -> float:
    """Return the most memory that is held at a time, beside the data: by the set-up, or by the chains at their end.

    Parameters
    ----------
    prepared : Prepared
        The kernel, bound to a model.
    draws : int
        Draws to keep from each chain.
    chains : int
        Number of chains.
    threads : int
        Threads for passes over the rows.

    Returns
    -------
    float
        Bytes.
    """
    n, d = prepared.model.n, prepared.model.d
    block = 8.0 * d * min(n, rows_of_a_block(d))
    drawn = TABLE_COPY * n if getattr(prepared.supply, "endless", False) else 0
    # A sketch is drawn from whitened rows, which stay while its bytes are made: a block more for each thread.
    double = prepared.plan.get("sketch", False) and not in_single_precision(d)
    copies = BLOCK_COPIES + (SKETCH_COPIES if double else 0.0)
    copies += prepared.model.source.converts
    a_pass = copies * threads * block
    search = search_bytes(n, d) + a_pass
    last = max(a_pass, drawn, a_pass + _third_bytes(prepared, threads))
    set_up = max(search, prepared.table_bytes + last)
    one = 8 * d + DRAW_BYTES
    room = min(max(draws, prepared.warmup), LARGEST_CHUNK) * one  # where a chain writes the draws of a chunk
    looked_at = 2 * 8 * d * min(draws, AT_ONCE)  # the last look at how chains have mixed
    judged = judged_bytes(chains, draws, d, threads)
    running = prepared.table_bytes + chains * (prepared.chain_bytes + draws * one + room) + max(looked_at, judged)
    return max(set_up, float(running)) + prepared.model.source.copied_bytes


def _third_bytes(prepared: Prepared, threads: int) -> float:
    """Return what a pass that sums third derivatives holds: each as often as threads work on it or wait with it.

    A thread has a sum and where its entries belong, and two sums may wait for their turn; then there is the total,
    before and after one is added to it.
    """
    d = prepared.model.d
    if prepared.plan.get("order") != 3:
        return 0.0
    return 8.0 * (d * (d + 1) * (d + 2) // 6) * (4 * threads + 2)
