"""What things cost, in nanoseconds on one core.

Rough figures of one ordinary machine (2.8 GHz, AVX2). Only their ratios decide between plans, so they need not be
those of the user's machine; and because they are not measured anew, the same model always gets the same plan.
"""

from tallbayes.sources.base import RANDOM_ACCESS, Source

PASS, READ_NUMBER = 5e6, 1.0
"""Cost of a pass over rows that are read anew, and of each number of the design in it."""
EVENT = 25.0
"""Cost of an event before anything of its row is read."""


def random_row(n: int, d: int) -> float:
    """Return the cost of one thinning trial: a row drawn at random, mostly waiting for memory, with others."""
    return 250.0 + (150.0 if _far(n, d) else 0.0) + 1.5 * d


def core_row(d: int) -> float:
    """Return the cost of a core row in an evaluation of the surrogate within a block."""
    return 15.0 + 0.3 * d


def bundle(d: int, size: int) -> float:
    """Return the cost of an event that falls on a bundle of so many rows, of which a sketch settles most unread."""
    return 100.0 + size * (3.0 + 0.2 * d)


def sketched_step(n: int, d: int) -> float:
    """Return what a step with any sketched trials costs beside them: one wait for three tables in turn."""
    return 400.0 + (250.0 if _far(n, d) else 0.0)


def _far(n: int, d: int) -> bool:
    """Return whether rows are seldom in the processor's cache."""
    return n * d > 100_000


def sketch(n: int, d: int) -> float:
    """Return the cost of drawing the sketch from rows that are whitened for the bounds, and of bounding its bundles."""
    return n * (370.0 + 2.6 * d)


def full_row(d: int) -> float:
    """Return the cost of one row of a plain Metropolis-Hastings step."""
    return 30.0 + 0.8 * d


def cubic(d: int) -> float:
    """Return the cost of one evaluation of the cubic within a block."""
    return 0.08 * d * (d + 1) * (d + 2) / 6.0


def step(d: int, order: int) -> float:
    """Return the cost of a step that evaluates no row."""
    return 150.0 + 25.0 * d + (cubic(d) if order == 3 else 0.0)


def walk(d: int, order: int) -> float:
    """Return what a walk costs beyond that: its surrogate is evaluated alone, not within a block."""
    return 150.0 + 20.0 * d + (5.0 * cubic(d) if order == 3 else 0.0)


def expansion(n: int, d: int, order: int) -> float:
    """Return the cost of the passes that an order needs beyond the mode: bounds, and for order 3 the cubic."""
    bounds = 70.0 + 0.1 * d * d
    tensor = 40.0 + 0.12 * d * (d + 1) * (d + 2) / 6.0 if order == 3 else 0.0
    return n * (bounds + tensor)


def reading(source: Source) -> float:
    """Return what a pass costs beyond its sums because rows are read anew; nothing where they are in memory."""
    return 0.0 if RANDOM_ACCESS in source.offers else PASS + READ_NUMBER * source.n * len(source.names)
