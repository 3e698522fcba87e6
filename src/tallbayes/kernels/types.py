"""Types of what compiled chains pass to functions that they call by address."""

from functools import cache
from typing import Any

import numpy as np
from numba import typeof, types

from tallbayes.families.rows import JETS, REMAINDERS
from tallbayes.kernels.addressed import AddressedSurrogate, AddressedTarget, AddressedTerms
from tallbayes.kernels.state import new_state
from tallbayes.kernels.target import Likelihood
from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.bounds import Bound
from tallbayes.setup.bundles import no_bundles
from tallbayes.sources.supply import empty_rows


@cache
def chain_types() -> dict[str, Any]:
    """Return the types of target, move, state and random stream, from examples of them."""
    vector, matrix = np.zeros(1), np.zeros((1, 1))
    array = types.float64[::1]
    likelihood = types.NamedTuple([array, types.int64[:, ::1], types.FunctionType(REMAINDERS), array], Likelihood)
    pointers = (types.FunctionType(kind()) for kind in (VALUE, LOOK_AHEAD, TABLE_WALK))
    surrogate = types.NamedTuple([_terms(), types.int64, *pointers], AddressedSurrogate)
    parts = [matrix, _bound(), empty_rows(), likelihood, surrogate, no_bundles()]
    kinds = [part if isinstance(part, types.Type) else typeof(part) for part in parts]
    return {
        "target": types.NamedTuple(kinds, AddressedTarget),
        "move": _move(),
        "state": typeof(new_state(vector)),
        "stream": _stream(),
    }


@cache
def _stream() -> Any:
    return typeof(np.random.Generator(np.random.SFC64(0)))


@cache
def _bound() -> Any:
    return typeof(Bound(True, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0))


@cache
def _move() -> Any:
    return typeof(AffineProposal(0.0, np.zeros(1), 0.0, np.zeros((1, 1))))


@cache
def _terms() -> Any:
    return types.NamedTuple([types.int64[:, ::1], types.float64[::1], types.FunctionType(JETS)], AddressedTerms)


def VALUE() -> Any:  # noqa: N802
    """``value(terms, z, scratch)``: the surrogate at z."""
    return types.float64(_terms(), types.float64[::1], types.float64[::1])


def LOOK_AHEAD() -> Any:  # noqa: N802
    """``look_ahead(terms, whitening, bound, move, ahead, rng)`` makes the next block of noise or proposals."""
    ahead = typeof(new_state(np.zeros(1)).ahead)
    return types.void(_terms(), types.float64[:, ::1], _bound(), _move(), ahead, _stream())


def TABLE_WALK() -> Any:  # noqa: N802
    """``walk(terms, drift, scale, z, proposed, rng)``: walks along tabulated axes; how that corrects the log ratio."""
    vector = types.float64[::1]
    return types.float64(_terms(), vector, types.float64, vector, vector, _stream())


def TRIALS() -> Any:  # noqa: N802
    """``trials(target, state, budget, rng)``: how the trials of a step end."""
    kinds = chain_types()
    return types.int64(kinds["target"], kinds["state"], types.int64, kinds["stream"])


def SURROGATE_TRIALS() -> Any:  # noqa: N802
    """``surrogate_trials(target, move, state, rng)``: whether any was accepted."""
    kinds = chain_types()
    return types.boolean(kinds["target"], kinds["move"], kinds["state"], kinds["stream"])
