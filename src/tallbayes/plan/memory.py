"""How much memory a run will take at its peak, beside the data."""

from tallbayes.kernels.base import Prepared
from tallbayes.kernels.mixing import AT_ONCE
from tallbayes.kernels.state import DRAW_BYTES, LARGEST_CHUNK
from tallbayes.setup.mode import search_bytes
from tallbayes.sources.arrays import rows_of_a_block

JUDGED_BYTES = 60
"""For each draw of a coefficient, while R-hat and effective draws are found: ranks, and Fourier transforms."""
BLOCK_COPIES = 1.0
"""Blocks' worth of numbers that a thread makes of a block, on average over the kinds of passes; one more where the
design is not in float64."""
SKETCH_COPIES = 1.5
"""The same of a pass that draws the sketch, beyond that."""
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
    copies = BLOCK_COPIES + (SKETCH_COPIES if prepared.plan.get("sketch", False) else 0.0)
    copies += prepared.model.source.converts
    set_up = max(search_bytes(n, d), prepared.table_bytes + max(copies * threads * block, drawn))
    one = 8 * d + DRAW_BYTES
    room = min(max(draws, prepared.warmup), LARGEST_CHUNK) * one  # where a chain writes the draws of a chunk
    looked_at = 2 * 8 * d * min(draws, AT_ONCE)  # the last look at how chains have mixed
    judged = min(threads, d) * JUDGED_BYTES * chains * draws  # when they have ended: a coefficient in each thread
    running = prepared.table_bytes + chains * (prepared.chain_bytes + draws * one)
    running += max(chains * room + looked_at, judged)
    return max(set_up, float(running)) + prepared.model.source.copied_bytes
