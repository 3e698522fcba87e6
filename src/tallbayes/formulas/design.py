"""The design that a formula makes of columns: levels, knots and means fixed once, then any rows.

formulaic decides how terms are coded (which levels a factor drops so that columns do not depend on each other, the
contrasts, the names); the columns are computed here, block by block, from numbers and codes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.formulas.columns import Value, codes_of
from tallbayes.formulas.expressions import Beyond, Categories, Expression, Several, States, evaluate, read
from tallbayes.formulas.expressions import column as as_column
from tallbayes.formulas.formula import Term

Matrix = NDArray[np.float64]
Times = NDArray[np.float64] | None
"""How many rows of the data each row stands for; None if for itself alone. Messages count those of the data."""

FULL, REDUCED = "full", "reduced"
"""Codings of a factor: all of its columns, or without the one that an intercept already has."""


@dataclass
class Factor:
    """A factor of terms, with what was learned of it."""

    expression: Expression
    levels: tuple[Any, ...] | None = None
    """Of a categorical factor."""
    codings: dict[str, Matrix] = field(default_factory=dict)
    """Of a categorical factor: a line for each level, a column for each column of the design."""
    fields: tuple[str, ...] | None = None
    """Of several columns made by a transform: their names."""
    drop: str | None = None
    """Of these, the one that an intercept already has."""

    def block(self, columns: Mapping[str, Value], states: States, coding: str, times: Times = None) -> Matrix:
        """Return the factor's columns on some rows, each of which may stand for several."""
        if self.levels is not None:
            return self._coded(self.labels(columns), coding, times)
        value = evaluate(self.expression, columns, states)
        if isinstance(value, Several):
            if self.fields is None or set(self.fields) - set(value.columns):
                raise InputError(f"formula: {self.expression.text!r} gives other columns than it did.")
            names = [name for name in self.fields if coding == FULL or name != self.drop]
            made = np.column_stack([value.columns[name] for name in names])
        else:
            made = np.asarray(value, dtype=np.float64).reshape(-1, 1)
        rows = len(next(iter(columns.values()))) if columns else 0
        if made.shape[0] == 1 and rows > 1:
            made = np.broadcast_to(made, (rows, made.shape[1]))
        self._refuse_infinite(made, times)
        return made

    def labels(self, columns: Mapping[str, Value]) -> Value:
        """Return the labels of a categorical factor on some rows."""
        value = evaluate(self.expression, columns, {})
        return value.values if isinstance(value, Categories) else value

    def _coded(self, labels: Value, coding: str, times: Times) -> Matrix:
        assert self.levels is not None
        codes = codes_of(labels, self.levels)
        if codes.size and codes.min() < 0:
            raise unseen(self, labels, codes, times)
        return self.codings[coding][codes]

    def _refuse_infinite(self, made: Matrix, times: Times) -> None:
        finite = np.isfinite(made)
        if not finite.all():
            bad = np.any(~finite, axis=1)
            tried = _count(np.ones_like(bad), times)
            raise InputError(
                f"formula: {self.expression.text!r} is not a finite number in {counted(_count(bad, times), 'row')} of "
                f"{tried:,} that were tried, such as the log of 0. Drop them, or choose another transform."
            )


def _count(which: NDArray[np.bool_], times: Times) -> int:
    """Return how many rows of the data some rows stand for."""
    return int(np.count_nonzero(which)) if times is None else int(times[which].sum())


def unseen(factor: Factor, labels: Value, codes: NDArray[np.int64], times: Times = None) -> InputError:
    """Return what is wrong with rows whose level the model does not know."""
    from tallbayes.formulas.columns import Labels, in_order, levels_of

    rows = codes < 0
    some = Labels(labels.codes[rows], labels.values) if isinstance(labels, Labels) else labels[rows]
    found = in_order(set(levels_of(some)))
    assert factor.levels is not None
    return InputError(
        f"data: {factor.expression.text!r} has {counted(len(found), 'level')} that the model has not seen, in "
        f"{counted(_count(rows, times), 'row')}: {shortened(found)}. It knows {shortened(factor.levels)}. Drop these "
        "rows, or give the level that they shall count as."
    )


def shortened(items: Sequence[Any], most: int = 8) -> str:
    """Return items as text, the first few of many."""
    texts = [repr(item) for item in items[:most]]
    return ", ".join(texts) + (f", ... ({len(items)} in all)" if len(items) > most else "")


@dataclass(frozen=True)
class Part:
    """A product of factors, each in its coding, and the names of the columns it gives."""

    term: str
    factors: tuple[tuple[str, str], ...]
    """Text and coding of each."""
    scale: float
    names: tuple[str, ...]


@dataclass
class Design:
    """Everything that turns columns of data into columns of a design."""

    factors: dict[str, Factor]
    parts: tuple[Part, ...]
    states: States

    @property
    def names(self) -> list[str]:
        """Names of the design's columns."""
        return [name for part in self.parts for name in part.names]

    @property
    def terms(self) -> dict[str, list[str]]:
        """The names of each term's columns."""
        found: dict[str, list[str]] = {}
        for part in self.parts:
            found.setdefault(part.term, []).extend(part.names)
        return found

    def matrix(
        self, columns: Mapping[str, Value], rows: int, *, beyond: bool = False, times: Times = None
    ) -> Matrix:
        """Return the design of some rows.

        Parameters
        ----------
        columns : mapping
            Numbers or labels of each column of data that is needed.
        rows : int
            How many rows there are.
        beyond : bool
            Whether splines go on beyond the ends of the data they were learned from, where the formula does not say:
            a slope's tiny step needs that.
        times : array or None
            How many rows of the data each stands for; None if for itself alone.

        Returns
        -------
        array
            Rows x columns of the design.
        """
        states = Beyond(self.states) if beyond else self.states
        result = np.empty((rows, len(self.names)))
        made: dict[tuple[str, str], Matrix] = {}
        first = 0
        for part in self.parts:
            product: Matrix | None = None
            for key in part.factors:
                if key not in made:
                    made[key] = self.factors[key[0]].block(columns, states, key[1], times)
                product = made[key] if product is None else _times(product, made[key])
            if product is not None and part.scale != 1.0:
                product = part.scale * product
            result[:, first : first + len(part.names)] = part.scale if product is None else product
            first += len(part.names)
        return result

    def refuse_beyond(self, columns: Mapping[str, Value], moved: Collection[str]) -> None:
        """Raise if a spline of some variables is not defined where rows are before they are moved a little."""
        for factor in self.factors.values():
            if factor.expression.learned and not set(moved).isdisjoint(factor.expression.columns):
                evaluate(factor.expression, columns, self.states)

    def plain(self) -> dict[str, Any]:
        """Return the design in values that JSON has."""
        return {
            "factors": [
                {
                    "text": text,
                    "column": factor.expression.name == text,
                    "levels": None if factor.levels is None else list(factor.levels),
                    "codings": {name: coding.tolist() for name, coding in factor.codings.items()},
                    "fields": None if factor.fields is None else list(factor.fields),
                    "drop": factor.drop,
                }
                for text, factor in self.factors.items()
            ],
            "parts": [[p.term, [list(f) for f in p.factors], p.scale, list(p.names)] for p in self.parts],
            "states": {text: plain_state(state) for text, state in self.states.items()},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Design":
        """Return the design that was made plain; its expressions are checked anew."""
        factors = {}
        for entry in plain["factors"]:
            expression = as_column(entry["text"]) if entry["column"] else read(entry["text"])
            factors[entry["text"]] = Factor(
                expression,
                None if entry["levels"] is None else tuple(entry["levels"]),
                {name: np.array(coding, dtype=np.float64) for name, coding in entry["codings"].items()},
                None if entry["fields"] is None else tuple(entry["fields"]),
                entry["drop"],
            )
        parts = tuple(
            Part(term, tuple((text, coding) for text, coding in used), float(scale), tuple(names))
            for term, used, scale, names in plain["parts"]
        )
        return cls(factors, parts, {text: learned_state(state) for text, state in plain["states"].items()})


def _times(left: Matrix, right: Matrix) -> Matrix:
    """Return the products of each column of one with each of the other, those of the first running fastest."""
    if left.shape[1] == 1 or right.shape[1] == 1:
        return left * right
    return (right[:, :, None] * left[:, None, :]).reshape(left.shape[0], -1)


def plain_state(value: Any) -> Any:
    """Return what a transform has learned in values that JSON has; numbers keep every digit."""
    if isinstance(value, Mapping):
        return {"pairs": [[plain_state(key), plain_state(entry)] for key, entry in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()} if value.ndim else float(value)
    if isinstance(value, list | tuple):
        return {"list": [plain_state(entry) for entry in value]}
    if isinstance(value, np.bool_ | bool):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    if value is None or isinstance(value, int | float | str):
        return value
    raise InputError(f"formula: a transform has learned a {type(value).__name__}, which a file cannot keep.")


def learned_state(plain: Any) -> Any:
    """Return the value that was made plain."""
    if not isinstance(plain, Mapping):
        return plain
    if "pairs" in plain:
        return {learned_state(key): learned_state(entry) for key, entry in plain["pairs"]}
    if "array" in plain:
        return np.array(plain["array"], dtype=np.float64)
    return [learned_state(entry) for entry in plain["list"]]


def coded(terms: Sequence[Term], factors: dict[str, Factor], samples: Mapping[str, Any], states: States) -> Design:
    """Return the design of terms, coded as formulaic codes them.

    Parameters
    ----------
    terms : sequence of Term
        The terms.
    factors : dict
        Their factors, with the levels of those that are categorical; codings are added.
    samples : mapping
        What each factor's expression gives on some rows: its kind, names and contrasts are taken from it.
    states : dict
        What transforms have learned.

    Returns
    -------
    Design
        The design.
    """
    from formulaic import ModelSpec
    from formulaic import SimpleFormula as Simple
    from formulaic.errors import FormulaicError
    from formulaic.parser.types import Factor as Named
    from formulaic.parser.types import Term as Product

    rows = max([2, *(len(f.levels) for f in factors.values() if f.levels is not None)])
    context = {text: _prototype(factor, samples[text], rows) for text, factor in factors.items()}
    products = [
        Product([Named(text, eval_method="lookup") for text in term.factors])
        if term.factors
        else Product([Named("1", eval_method="literal")])
        for term in terms
    ]
    scales = {term.name: term.scale for term in terms}
    import pandas as pd

    try:
        spec = ModelSpec(formula=Simple(products, _ordering="none"), output="pandas")
        made = spec.get_model_matrix(pd.DataFrame(index=range(rows)), context=context).model_spec
    except (FormulaicError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"formula: the terms cannot be coded ({str(error).splitlines()[0]}).") from None
    parts = []
    for entry in made.structure:
        name = (
            "Intercept" if not any(f.eval_method.value == "lookup" for f in entry.term.factors) else str(entry.term)
        )
        columns = list(entry.columns)
        for scoped in entry.scoped_terms:
            used = tuple((f.factor.expr, REDUCED if f.reduced else FULL) for f in scoped.factors)
            width = 1
            for text, coding in used:
                width *= _width(factors[text], coding, made)
            parts.append(Part(name, used, scales.get(name, 1.0), tuple(columns[:width])))
            del columns[:width]
        assert not columns, entry
    return Design(factors, tuple(parts), states)


def _prototype(factor: Factor, sample: Any, rows: int) -> Any:
    """Return values that tell formulaic what kind of factor this is."""
    import pandas as pd
    from formulaic.materializers.types import FactorValues
    from formulaic.transforms import TRANSFORMS

    if factor.levels is not None:
        values = pd.Series(pd.Categorical([factor.levels[i % len(factor.levels)] for i in range(rows)]))
        values = pd.Series(pd.Categorical(values, categories=list(factor.levels)))
        contrasts = sample.contrasts if isinstance(sample, Categories) else None
        return TRANSFORMS["C"](values, contrasts, levels=list(factor.levels))
    if isinstance(sample, Several):
        return FactorValues(
            {name: np.ones(rows) for name in sample.columns},
            kind="numerical",
            spans_intercept=sample.spans_intercept,
            drop_field=sample.drop,
            format=sample.pattern,
        )
    return FactorValues(pd.Series(np.ones(rows)), kind="numerical", spans_intercept=False)


def _width(factor: Factor, coding: str, spec: Any) -> int:
    """Return how many columns a factor has in a coding, and keep the coding's matrix."""
    if factor.levels is not None:
        if coding not in factor.codings:
            contrasts = spec.encoder_state[factor.expression.text][1]["contrasts"]
            matrix = contrasts.get_coding_matrix(reduced_rank=coding == REDUCED)
            factor.codings[coding] = np.asarray(matrix, dtype=np.float64).reshape(len(factor.levels), -1)
        return int(factor.codings[coding].shape[1])
    if factor.fields is not None:
        return len([name for name in factor.fields if coding == FULL or name != factor.drop])
    return 1
