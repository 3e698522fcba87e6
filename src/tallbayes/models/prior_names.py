"""Priors by name: by parameter, by term, by all of a kind, by the beginning of names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tallbayes.errors import InputError
from tallbayes.families.structure import Structure
from tallbayes.priors import Prior

MOST_SHOWN = 20
"""Names that a message lists, at most."""

BEGINNING, TERM, NAME, TERM_OF_CLASS, NAME_OF_CLASS = range(5)
"""What a key may be, the most particular last, so that it wins."""


class _Known(NamedTuple):
    """The names that a dictionary of priors may have."""

    names: Sequence[str]
    """Columns of the design, and parameters that are no coefficients of theirs."""
    terms: Mapping[str, list[str]]
    """Several of these under one name."""
    of_classes: Mapping[str, list[str]]
    """Where classes have coefficients of their own: those of each column."""
    terms_of_classes: Mapping[str, list[str]]

    @property
    def class_names(self) -> list[str]:
        """Coefficients of classes."""
        return [name for every in zip(*self.of_classes.values(), strict=True) for name in every]

    def covered(self, key: str) -> tuple[list[str], tuple[int, int]]:
        """Return the parameters that a key speaks of, and how particular it is; none if it is not known."""
        tables = (
            (NAME, {name: [name] for name in self.names}),
            (NAME_OF_CLASS, {name: [name] for name in self.class_names}),
            (TERM, self.terms),
            (TERM_OF_CLASS, self.terms_of_classes),
        )
        for form in (str, without_spaces):
            wanted = form(key)
            for kind, table in tables:
                same = [name for name in table if form(name) == wanted]
                if len(same) == 1:
                    return table[same[0]], (kind, 0)
            for names in (self.names, self.class_names) if wanted.endswith("*") else ():
                begun = [name for name in names if form(name).startswith(wanted[:-1])]
                if begun:
                    return begun, (BEGINNING, len(wanted))
        return [], (BEGINNING, 0)


def parted(
    prior: Any, columns: Sequence[str], structure: Structure, terms: Mapping[str, list[str]] | None = None
) -> tuple[Any, dict[str, Prior]]:
    """Return what a prior says of the columns' coefficients, and what it says of other parameters by their names.

    Parameters
    ----------
    prior : Prior or sequence or mapping or None
        What the user gave. Keys of a dictionary are parameters, ``"C(carrier)[T.UA]"``, terms, ``"C(carrier)"``, all
        parameters of a kind, ``"cut"``, or the beginning of names, ``"bs(hour*"``. The first of these that fits counts.
        A column stands for its coefficients in all classes; ``"green: x"`` is that of one class. Spaces do not matter.
    columns : sequence of str
        Names of the design's columns.
    structure : Structure
        The parameters.
    terms : mapping or None
        Of a formula, the columns and further parameters of each term.

    Returns
    -------
    tuple
        The prior of the columns' coefficients, as `tallbayes.priors.coefficients.each` takes it; and priors by the
        names of other parameters, and of coefficients of a single class.
    """
    if not isinstance(prior, Mapping):
        return prior, {}
    given = {str(key): value for key, value in prior.items()}
    _refuse_positive(given, columns, structure)
    known = _known(columns, structure, terms or {})
    ranked = []
    for key, value in given.items():
        covered, rank = known.covered(key)
        if not covered:
            raise _unknown(key, known, terms)
        ranked.append((rank, covered, key, value))
    own: dict[str, Any] = {}
    of_columns = set(columns)
    further: dict[str, Prior] = {}
    for _, covered, key, value in sorted(ranked, key=lambda entry: entry[0]):
        for name in covered:
            if name in of_columns:
                own[name] = value
                for particular in known.of_classes.get(name, ()):
                    further.pop(particular, None)
            elif isinstance(value, Prior):
                further[name] = value
            else:
                raise InputError(f"prior: {key!r} has {value!r}; expected e.g. tb.priors.Normal(0, 1).")
    return own if own or not further else None, further


def _known(columns: Sequence[str], structure: Structure, terms: Mapping[str, list[str]]) -> _Known:
    """Return the names that there are."""
    groups: dict[str, list[str]] = {}
    for output in structure.outputs[1:]:
        if not output.log:
            groups[output.name] = list(structure.names[output.first : output.first + output.count])
    beta, p = structure.names[: structure.outputs[0].count], len(columns)
    of_classes: dict[str, list[str]] = {}
    terms_of_classes: dict[str, list[str]] = {}
    if len(beta) > p:
        of_classes = {column: list(beta[j::p]) for j, column in enumerate(columns)}
        for k, first in enumerate(beta[::p]):
            label = first.removesuffix(columns[0])
            for term, used in terms.items():
                terms_of_classes[f"{label}{term}"] = [of_classes[name][k] for name in used]
    return _Known([*columns, *structure.others], groups | dict(terms), of_classes, terms_of_classes)


def _refuse_positive(given: Mapping[str, Any], columns: Sequence[str], structure: Structure) -> None:
    """Raise if a scale or size is given a prior by name."""
    for output in structure.outputs[1:]:
        if output.log and not {output.name, f"log({output.name})"}.isdisjoint(given.keys() - set(columns)):
            raise InputError(
                f"prior: {output.name!r} was given a prior by name; expected that as an argument of the family, e.g. "
                f"{output.name}=tb.priors.HalfNormal(10)."
            )


def _unknown(key: str, known: _Known, terms: Mapping[str, list[str]] | None) -> InputError:
    """Return what is wrong with a key that is no name, and the names that there are."""
    names = [*known.names, *known.class_names]
    if terms is None:
        what = "parameter" if known.terms else "coefficient"
        return InputError(f"prior: {key!r} is not a {what}; the names are {_some(names)}.")
    return InputError(
        f"prior: {key!r} is neither a coefficient nor a term nor, with a * at its end, the beginning of a name. "
        f"Terms: {_some(list(map(repr, known.terms)), 8)}. Coefficients: {_some(list(map(repr, names)), 12)}."
    )


def _some(names: Sequence[str], most: int = MOST_SHOWN) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def without_spaces(text: str) -> str:
    """Return a name without spaces, but for those in quotes, and with one kind of quotes."""
    parts = re.split(r"(`[^`]*`|'[^']*'|\"[^\"]*\")", text)
    return "".join(
        f"'{part[1:-1]}'" if part[:1] == '"' else part if j % 2 else re.sub(r"\s+", "", part)
        for j, part in enumerate(parts)
    )
