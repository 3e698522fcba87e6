"""What runs chunks of steps: a compiled loop, and the parts of a step that it calls by address."""

from typing import Any

import numpy as np

from tallbayes.compiled import entry_of
from tallbayes.kernels.addressed import addressed
from tallbayes.kernels.all_rows import columns_at_hand, rows_are_at_hand, run_with_rows_at_hand
from tallbayes.kernels.scalable_mh_steps import run_chunk
from tallbayes.kernels.sketched_thinning import thin_by_sketch
from tallbayes.kernels.surrogate_trials import no_surrogate_trials, surrogate_trials
from tallbayes.kernels.target import Target
from tallbayes.kernels.thinning import thin
from tallbayes.models.base import Model
from tallbayes.proposals.affine import AffineProposal


class Chunks:
    """Runs chunks of steps: a compiled function, and the parts that it calls by address.

    Parameters
    ----------
    function : callable
        The compiled function.
    parts : tuple
        What it takes behind the budget.
    """

    def __init__(self, function: Any, parts: tuple[Any, ...]) -> None:
        self._function, self._parts = function, parts
        self._known: tuple[Any, Any, Any, Any] = None, None, None, None

    def __call__(self, target: Target, *given: Any) -> tuple[int, int]:
        """Run a chunk: what is given beside the target is of the same types in all chains of a kernel."""
        known, seen, kinds, entry = self._known  # at once: other threads may call
        if known is not target:
            seen, before = addressed(target), kinds
            kinds = [(part.dtype, part.ndim, part.flags.c_contiguous, part.flags.writeable) for part in target.rows]
            # Mostly a chain was supplied with rows anew, which are of the same types as those before.
            if known is None or kinds != before or not _same_but_rows(known, target):
                entry = _entry(self._function, (seen, *given, *self._parts))
            self._known = target, seen, kinds, entry
        made, request = entry(seen, *given, *self._parts)
        return made, request


_ENTRIES: dict[Any, Any] = {}
MOST_ENTRIES = 256
"""After so many it begins anew: it keeps functions of users' models alive."""


def _entry(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what runs for arguments of these types, which Numba is asked for once: it takes longer than a short run.

    So a kernel that is prepared anew, for other rows of the same kind, need not ask.
    """
    key = function, _kind(arguments)
    found = _ENTRIES.get(key)
    if found is None:
        if len(_ENTRIES) >= MOST_ENTRIES:
            _ENTRIES.clear()
        found = _ENTRIES[key] = entry_of(function, arguments)
    return found


def _kind(argument: Any) -> Any:
    """Return all that the type of an argument depends on, as compiled code sees it."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        layout = flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable
        return argument.dtype, argument.ndim, layout
    if isinstance(argument, tuple):
        return type(argument), *map(_kind, argument)
    if isinstance(argument, bool | int | float | np.generic | np.random.Generator):
        return type(argument)
    return argument  # a function, of which another may have another type


def _same_but_rows(one: Target, other: Target) -> bool:
    return all(getattr(one, name) is getattr(other, name) for name in Target._fields if name != "rows")


def chunks(model: Model, move: AffineProposal, *, sketch: bool = False, at_hand: bool | None = None) -> Chunks:
    """Return the function that runs chunks of steps, with the parts that a proposal and a sketch call for.

    Where all rows are at hand, among those that are supplied, steps on all rows need not ask for them.
    """
    trials = (surrogate_trials if move.inner > 1 else no_surrogate_trials).pointer
    tries = (thin_by_sketch if sketch else thin).pointer
    if rows_are_at_hand(model) if at_hand is None else at_hand:
        parts = trials, tries, model.rows.functions.jets.pointer, columns_at_hand(model)
        return Chunks(run_with_rows_at_hand, parts)
    return Chunks(run_chunk, (trials, tries))
