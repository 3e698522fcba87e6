"""Coefficients of draws, from where chains were in whitened coordinates."""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_borrowing

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@compiled_borrowing
def form_theta(centre: Vector, inverse_root: Matrix, triangular: bool, z: Matrix, theta: Matrix) -> None:
    """Put centre + W z of every row of z into theta; W' = L^-1 mostly is lower triangular.

    Not a library's matrix product, whose rounding can depend on how many rows it gets: the draws must not
    depend on the size of a chunk.
    """
    steps, d = z.shape
    for r in range(steps):
        for i in range(d):
            theta[r, i] = centre[i]
        for j in range(d):
            for i in range(j + 1 if triangular else d):
                theta[r, i] += inverse_root[j, i] * z[r, j]
