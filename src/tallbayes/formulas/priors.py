"""Priors by coefficient, by term or by the beginning of a name."""

from collections.abc import Mapping
from typing import Any

from tallbayes.errors import InputError
from tallbayes.formulas.design import Design, shortened


def by_coefficient(prior: Any, design: Design) -> Any:
    """Return priors as `Regression` takes them: a dictionary gets an entry for each coefficient that it speaks of.

    Parameters
    ----------
    prior : Prior or sequence or mapping or None
        What the user gave. Keys of a dictionary are coefficients, ``"C(carrier)[T.UA]"``, terms, ``"C(carrier)"``, or
        the beginning of names, ``"bs(hour*"``. The first of these that fits counts.
    design : Design
        The design, with its terms and columns.

    Returns
    -------
    Prior or sequence or mapping or None
        The same, by coefficient.
    """
    if not isinstance(prior, Mapping):
        return prior
    terms, names = design.terms, design.names
    given = {str(key): value for key, value in prior.items()}
    found: dict[str, Any] = {}
    prefixes = sorted((key for key in given if key.endswith("*")), key=len)
    groups = [
        *((key, [name for name in names if name.startswith(key[:-1])]) for key in prefixes),
        *((key, terms[key]) for key in given if key in terms and key not in prefixes),
        *((key, [key]) for key in given if key in names),
    ]
    known = {key for key, covered in groups if covered}
    for key, covered in groups:
        found.update(dict.fromkeys(covered, given[key]))
    unknown = [key for key in given if key not in known]
    if unknown:
        raise InputError(
            f"prior: {unknown[0]!r} is neither a coefficient nor a term nor, with a * at its end, the beginning of a "
            f"name. Terms: {shortened(list(terms))}. Coefficients: {shortened(names, 12)}."
        )
    return found
