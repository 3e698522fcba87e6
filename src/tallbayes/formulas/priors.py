"""Priors by coefficient, by term or by the beginning of a name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tallbayes.errors import InputError
from tallbayes.formulas.design import Design, shortened


def by_coefficient(prior: Any, design: Design, others: Sequence[str] = (), scale: Design | None = None) -> Any:
    """Return priors as `Regression` takes them: a dictionary gets an entry for each parameter that it speaks of.

    Parameters
    ----------
    prior : Prior or sequence or mapping or None
        What the user gave. Keys of a dictionary are parameters, ``"C(carrier)[T.UA]"``, terms, ``"C(carrier)"``, or
        the beginning of names, ``"bs(hour*"``. The first of these that fits counts. Spaces do not matter.
    design : Design
        The design, with its terms and columns.
    others : sequence of str
        Names of other parameters that may have a prior.
    scale : Design or None
        The design of a second predictor, whose coefficients are among these.

    Returns
    -------
    Prior or sequence or mapping or None
        The same, by parameter.
    """
    if not isinstance(prior, Mapping):
        return prior
    terms, names = _terms(design, others, scale), [*design.names, *others]
    found: dict[str, Any] = {}
    ranked = []
    for key, value in ((str(key), value) for key, value in prior.items()):
        covered, rank = _covered(key, terms, names)
        if not covered and key not in POSITIVE:  # of which the regression says where their prior belongs
            raise InputError(
                f"prior: {key!r} is neither a coefficient nor a term nor, with a * at its end, the beginning of a "
                f"name. Terms: {shortened(list(terms))}. Coefficients: {shortened(names, 12)}."
            )
        ranked.append((rank, covered or [key], value))
    for _, covered, value in sorted(
        ranked, key=lambda entry: entry[0]
    ):  # the most particular last, so that it wins
        found.update(dict.fromkeys(covered, value))
    return found


POSITIVE = ("scale", "size", "shape", "log(scale)", "log(size)", "log(shape)")
"""Parameters whose prior is an argument of the family."""


def _terms(design: Design, others: Sequence[str], scale: Design | None) -> dict[str, list[str]]:
    """Return the parameters of each term, those of a second predictor as ``scale_beta[term]`` and all as one."""
    group = others[0].partition("[")[0] if others else ""
    terms = ({group: list(others)} if others else {}) | design.terms
    for term, columns in ({} if scale is None or not others else scale.terms).items():
        terms[f"{group}[{term}]"] = [f"{group}[{column}]" for column in columns]
    return terms


def _covered(key: str, terms: Mapping[str, list[str]], names: Sequence[str]) -> tuple[list[str], tuple[int, int]]:
    """Return the parameters that a key speaks of, and how particular it is."""
    for form in (str, without_spaces):
        wanted = form(key)
        same = _only([name for name in names if form(name) == wanted])
        if same is not None:
            return [same], (2, 0)
        term = _only([name for name in terms if form(name) == wanted])
        if term is not None:
            return terms[term], (1, 0)
        if wanted.endswith("*"):
            begun = [name for name in names if form(name).startswith(wanted[:-1])]
            if begun:
                return begun, (0, len(wanted))
    return [], (0, 0)


def _only(found: list[str]) -> str | None:
    return found[0] if len(found) == 1 else None


def without_spaces(text: str) -> str:
    """Return a name without spaces, but for those in quotes, and with one kind of quotes."""
    parts = re.split(r"(`[^`]*`|'[^']*'|\"[^\"]*\")", text)
    return "".join(
        f"'{part[1:-1]}'" if part[:1] == '"' else part if j % 2 else re.sub(r"\s+", "", part)
        for j, part in enumerate(parts)
    )
