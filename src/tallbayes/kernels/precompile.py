"""What every chain needs, compiled ahead of a chain: from types alone, without a model."""

import os

import numpy as np
from numba import typeof, types

from tallbayes.code_cache import SecondProcess, directory
from tallbayes.kernels.coefficients import form_theta
from tallbayes.kernels.scalable_mh_steps import run_chunk
from tallbayes.kernels.state import empty_draws
from tallbayes.kernels.surrogate_trials import no_surrogate_trials
from tallbayes.kernels.thinning import thin
from tallbayes.kernels.types import SURROGATE_TRIALS, TRIALS, chain_types


def precompile(where: str) -> None:
    """Compile the paper's step into a directory, if it is the one that this source is compiled into.

    The order is the one in which a first call asks. What makes proposals is left to the first process: so both take
    about as long.
    """
    if where != str(directory()):
        return
    os.environ[SecondProcess.ALONE] = "1"
    _ = no_surrogate_trials.pointer
    _ = thin.pointer
    parts = chain_types()
    pointers = [types.FunctionType(kind()) for kind in (SURROGATE_TRIALS, TRIALS)]
    run_chunk.compile(  # type: ignore[attr-defined]
        (
            parts["target"],
            parts["move"],
            parts["state"],
            parts["stream"],
            typeof(empty_draws(1, 1)),
            typeof(np.int64(0).item()),
            *pointers,
        )
    )
    vector, matrix = types.float64[::1], types.float64[:, ::1]
    form_theta.compile((vector, matrix, types.boolean, matrix, matrix))  # type: ignore[attr-defined]
