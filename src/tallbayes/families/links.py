"""Links of binary responses: the probability of a success as a function of the predictor, and back."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RATIOS = {"logit": "odds ratio", "cloglog": "hazard ratio", "probit": ""}
"""What the exponential of a coefficient is called; empty if it has no meaning."""


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
    out = np.negative(eta)  # changed in place: large temporary arrays take longer than the sums in them
    with np.errstate(over="ignore"):  # an infinite e^x is right in both formulas
        if link == "cloglog":
            out = np.negative(np.exp(eta, out=out), out=out)
            return np.negative(np.expm1(out, out=out), out=out)
        np.exp(out, out=out)
    out += 1.0
    return np.reciprocal(out, out=out)
