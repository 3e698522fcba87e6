"""The target as compiled chains see it: what they only hand on is a list of addresses.

A chain makes steps without knowing what the surrogate is the sum of. So it is given where the surrogate's terms are,
and the functions that evaluate them: it compiles in half the time, and not again when a term is added.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels.target import Likelihood, Target
from tallbayes.setup.bounds import Bound
from tallbayes.setup.bundles import Bundles
from tallbayes.sources.memory import places
from tallbayes.sources.supply import SuppliedRows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

(
    LINEAR, QUADRATIC, CUBIC, PADDED, PRIOR_LINEAR, PRIOR_QUADRATIC, EXACT_FACTS, EXACT_ROWS,
    CORE_ROWS, CORE_PARAMETERS, TABLE_LINES, TABLE_FACTS,
) = range(12)  # fmt: skip
"""Lines of `Terms.places`."""
ISOTROPIC, PRIOR_ISOTROPIC, EXACT_CONSTANT, EXACT_SLACK = range(4)
"""Entries of `Terms.numbers`."""


class AddressedTerms(NamedTuple):
    """What the surrogate, less the proposal's G, is the sum of, and the normal priors."""

    places: NDArray[np.int64]
    """Where arrays are (`sources/memory.py`)."""
    numbers: Vector
    jets: Any
    """Potentials of core rows."""


class AddressedSurrogate(NamedTuple):
    """The surrogate, less the proposal's G."""

    terms: AddressedTerms
    core_rows: int
    """Rows that an evaluation evaluates."""
    value: Any
    look_ahead: Any
    walk_along_tables: Any


class AddressedTarget(NamedTuple):
    """The posterior in whitened coordinates z."""

    whitening: Matrix
    bound: Bound
    rows: SuppliedRows
    likelihood: Likelihood
    surrogate: AddressedSurrogate
    bundles: Bundles


def addressed(target: Target) -> AddressedTarget:
    """Return a target as compiled chains see it; the target must be kept alive."""
    terms, *functions = target.surrogate
    polynomial, exact, core, tables = terms
    prior = target.prior
    where = places(
        polynomial.linear,
        polynomial.quadratic,
        polynomial.cubic,
        polynomial.padded,
        prior.linear,
        prior.quadratic,
        exact.facts,
        exact.rows,
        core.rows,
        core.parameters,
        tables.lines,
        tables.facts,
    )
    numbers = np.array([polynomial.isotropic, prior.isotropic, exact.constant, exact.slack])
    return AddressedTarget(
        target.whitening,
        target.bound,
        target.rows,
        target.likelihood,
        AddressedSurrogate(AddressedTerms(where, numbers, core.jets), core.size, *functions),
        target.bundles,
    )
