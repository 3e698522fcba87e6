"""Links of binary responses: the probability of a success as a function of the predictor, and back."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def probability(link: str, eta: Array) -> Array:
    """Return the probability of a success, accurate where it is small.

    Parameters
    ----------
    link : str
        "logit", "probit" or "cloglog".
    eta : array
        Linear predictors, of any shape.

    Returns
    -------
    array
        Probabilities, of the same shape.
    """
    if link == "probit":
        from scipy.special import ndtr

        return np.asarray(ndtr(eta))
    with np.errstate(over="ignore"):  # an infinite e^x is right in both formulas
        if link == "cloglog":
            return -np.expm1(-np.exp(eta))
        out = np.exp(-eta)
    out += 1.0
    return np.reciprocal(out, out=out)
