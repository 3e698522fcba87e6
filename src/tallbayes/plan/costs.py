"""What things cost, in nanoseconds on one core.

Rough figures of one ordinary machine (2.8 GHz, AVX2). Only their ratios decide between plans, so they need not be
those of the user's machine; and because they are not measured anew, the same model always gets the same plan.
"""

EVENT = 25.0
"""Cost of an event before anything of its row is read."""


def random_row(n: int, d: int) -> float:
    """Return the cost of one thinning trial: a row drawn at random, mostly waiting for memory."""
    far = 300.0 if n * d > 100_000 else 0.0
    return 100.0 + far + 5.0 * d


def sketched_row(d: int) -> float:
    """Return the cost of one trial that the sketch settles."""
    return 30.0 + 0.3 * d


def sketch(n: int, d: int) -> float:
    """Return the cost of drawing the sketch."""
    return n * (60.0 + 0.1 * d * d)


def full_row(d: int) -> float:
    """Return the cost of one row of a plain Metropolis-Hastings step."""
    return 30.0 + 0.8 * d


def cubic(d: int) -> float:
    """Return the cost of one evaluation of the cubic within a block."""
    return 0.08 * d * (d + 1) * (d + 2) / 6.0


def step(d: int, order: int) -> float:
    """Return the cost of a step that looks at no row."""
    return 60.0 + 10.0 * d + (cubic(d) if order == 3 else 0.0)


def expansion(n: int, d: int, order: int) -> float:
    """Return the cost of the passes that an order needs beyond the mode: bounds, and for order 3 the cubic."""
    bounds = 70.0 + 0.1 * d * d
    tensor = 40.0 + 0.12 * d * (d + 1) * (d + 2) / 6.0 if order == 3 else 0.0
    return n * (bounds + tensor)
