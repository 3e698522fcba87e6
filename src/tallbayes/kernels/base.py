"""The contract of a kernel: prepare once for a model, then run chunks of compiled steps."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.models import Model
from tallbayes.surrogate.alias import WHOLE, RowSampler
from tallbayes.surrogate.basis import Basis
from tallbayes.surrogate.bounds import Bound
from tallbayes.surrogate.expansion import Whitening
from tallbayes.surrogate.mode import Mode

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Prepared:
    """A kernel bound to a model: all that chains share, and nothing that they change."""

    mode: Mode
    whitening: Whitening
    target: Any
    """What the compiled steps read: a NamedTuple with at least whitening, bound, sampler and sketch."""
    proposal: Any
    """How the compiled steps move."""
    initial_state: Callable[[Any, Vector, np.random.Generator], Any]
    """Returns a NamedTuple with at least z, violations and exposure."""
    run_chunk: Callable[..., tuple[Any, int]]
    warmup: int
    """Steps to leave out when the user does not say how many."""
    plan: dict[str, Any]
    """What was chosen, in plain values, for the result's attributes."""


class Kernel(ABC):
    """One Markov transition: a proposal and an acceptance rule."""

    @abstractmethod
    def prepare(self, model: Model, *, threads: int | None = None, basis: Basis | None = None) -> Prepared:
        """Find the mode (unless the basis is given), expand, bound: everything that takes passes over rows."""


def no_rows() -> tuple[Bound, RowSampler]:
    """Return bound and sampler of a kernel that never draws single rows."""
    empty = np.zeros(0)
    return Bound(True, 0, 0.0, 0.0, 0.0, np.inf, np.inf), RowSampler(empty, empty, empty, WHOLE)
