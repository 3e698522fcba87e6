"""From a formula and a table to a recipe: one pass over the columns that it needs, and what is learned there."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tallbayes.checks import counted
from tallbayes.errors import InputError
from tallbayes.families import Family, Ordinal
from tallbayes.formulas.columns import LABELS, Labels, Value, is_boolean, kind_of, label_values, plain_level
from tallbayes.formulas.design import FULL, Design, Factor, coded, shortened
from tallbayes.formulas.expressions import Categories, Expression, Several, States, evaluate
from tallbayes.formulas.formula import Formula, unique
from tallbayes.formulas.recipe import Recipe, weights_of
from tallbayes.formulas.response import is_labelled, response_of
from tallbayes.formulas.survey import Survey, refuse_missing, refuse_stray, survey
from tallbayes.models.variables import BOOLEAN, LEVELS, Variable


@dataclass(frozen=True)
class Learned:
    """A recipe, the pass it was learned from, and what is to be said about both."""

    recipe: Recipe
    survey: Survey
    notes: tuple[str, ...]


def needed_columns(
    formula: Formula, offsets: Sequence[Expression], weights: Expression | None, scale: Formula | None = None
) -> tuple[str, ...]:
    """Return the columns that fitting needs, each once."""
    response = formula.response.columns if formula.response is not None else ()
    others = [name for part in (*offsets, *([weights] if weights else [])) for name in part.columns]
    return unique([*response, *formula.columns, *(scale.columns if scale is not None else ()), *others])


def learn(
    formula: Formula,
    table: Any,
    family: Family,
    *,
    offsets: Sequence[Expression] = (),
    weights: Expression | None = None,
    scale: Formula | None = None,
    missing: str = "error",
) -> Learned:
    """Learn levels, knots and means from a table.

    Parameters
    ----------
    formula : Formula
        The formula.
    table : Table
        With ``n``, ``schema`` and ``batches(columns)``.
    family : Family
        The likelihood.
    offsets : sequence of Expression
        Offsets beside those in the formula.
    weights : Expression or None
        Frequency weights.
    scale : Formula or None
        Formula of the log scale.
    missing : str
        "error" or "drop": what becomes of rows in which something is missing.

    Returns
    -------
    Learned
        The recipe.
    """
    response = formula.response
    assert response is not None
    columns = needed_columns(formula, offsets, weights, scale)
    kinds = _kinds(table, columns)
    every = formula.factors | (scale.factors if scale is not None else {})
    categorical = {text: e for text, e in every.items() if _is_categorical(e, kinds)}
    if is_labelled(response, kinds):
        categorical[response.text] = response
    learning = [name for part in (*every.values(), response) if part.learned for name in part.columns]
    weigh = None if weights is None else partial(weights_of, weights)
    found = survey(table, columns, categorical, learning, weigh)
    refuse_missing(found, missing)
    for name in _not_said_to_be_levels([*every.values(), response, *formula.offsets, *offsets], kinds):
        refuse_stray(table, name)
    design, notes = _design(formula, found, levels_anyway=isinstance(family, Ordinal))
    if isinstance(family, Ordinal):  # its cut points are in the place of an intercept
        design.parts = tuple(part for part in design.parts if part.factors)
    if not design.names:
        raise InputError(f"formula: {formula.text!r} gives no column, {_nothing_left(family)}")
    levels = _of_response(response, found, family, table) if response.text in found.levels else None
    own: States = {}
    variables = unique([*formula.columns, *(scale.columns if scale is not None else ())])
    if levels is None and response.learned:
        _sample(response, found, own)
    made, note = response_of(response, levels, family, own)
    of_scale, further = (None, []) if scale is None else _design(scale, found)
    recipe = Recipe(
        formula.text,
        design,
        made,
        (*formula.offsets, *offsets),
        weights,
        {
            name: _variable(name, found, [*every.values(), *formula.offsets], is_boolean(table, name))
            for name in variables
        },
        of_scale,
        None if scale is None else scale.text,
    )
    empty = [] if levels is None else _left_out(response, levels, family, table)
    return Learned(recipe, found, (*_notes(found, design, note), *empty, *notes, *further))


def _nothing_left(family: Family) -> str:
    """Say what becomes of a model without columns."""
    if not isinstance(family, Ordinal):
        return "so there is nothing to estimate."
    return (
        "and cut points alone are not sampled. They say the same as the shares of unordered classes: use "
        "family=tb.families.Categorical(), or add a term."
    )


def _design(formula: Formula, found: Survey, *, levels_anyway: bool = False) -> tuple[Design, list[str]]:
    """Return the design of a formula's terms, after its transforms have learned, and what is to be said of it.

    A family may have levels of its own in the place of an intercept.
    """
    states: States = {}
    samples = {text: _sample(e, found, states) for text, e in formula.factors.items()}
    factors = {text: _factor(e, samples[text], found) for text, e in formula.factors.items()}
    design = coded(formula.terms, factors, samples, states)
    twice = sorted({name for name in design.names if design.names.count(name) > 1})
    if twice:
        raise InputError(
            f"formula: two columns of the design are called {twice[0]!r}. Rename a column of the data."
        )
    return design, _dependent(design, samples, levels_anyway)


def _dependent(design: Design, samples: Mapping[str, Any], levels_anyway: bool) -> list[str]:
    """Say which splines have columns that add up to a constant, as those of other terms do: an intercept, levels."""
    splines, others = [], ["the cut points do"] if levels_anyway else []
    for part in design.parts:
        if not part.factors and not levels_anyway:
            others.append("the intercept does")
        if len(part.factors) != 1 or part.factors[0][1] != FULL:
            continue
        text = part.factors[0][0]
        if design.factors[text].levels is not None:
            others.append(f"the levels of {text} do")
        elif isinstance(samples[text], Several) and _adds_up(samples[text]):
            centred = design.factors[text].expression.call in {"cr", "cs", "cc"}
            splines.append(text) if centred else others.append(f"those of {text} do")
    if not others:
        others, splines = [f"those of {text} do" for text in splines[:1]], splines[1:]
    or_none = ", or 0 + for no intercept" if others[:1] == ["the intercept does"] else ""
    return [
        f"{text}: its columns add up to a constant, as {others[0]}, so that the data tell of both together only, and "
        f"the rest is prior: write {text[:-1]}, constraints='center'){or_none}"
        for text in splines
    ]


def _adds_up(made: Several) -> bool:
    """Return whether columns add up to the same number, not 0, in every row."""
    total = np.sum(list(made.columns.values()), axis=0)
    return bool(np.ptp(total) <= 1e-9 * np.abs(total[0]))


def _kinds(table: Any, columns: Sequence[str]) -> dict[str, str]:
    return {name: kind_of(table.schema.field(name).type, name) for name in columns}


def _is_categorical(expression: Expression, kinds: dict[str, str]) -> bool:
    if expression.call == "C":
        if expression.learned:
            raise InputError(
                f"formula: {expression.text!r} takes levels from a transform that learns from all rows, such as a "
                "spline. Make a column of it first."
            )
        return True
    return expression.name is not None and kinds[expression.name] == LABELS


def _not_said_to_be_levels(parts: Sequence[Expression], kinds: Mapping[str, str]) -> list[str]:
    """Return the columns of labels of which no C(...) and no comparison says that they are levels."""
    used = [name for part in parts if part.call != "C" for name in _as_values(part)]
    return [name for name in unique(used) if kinds.get(name) == LABELS]


def _as_values(part: Expression) -> tuple[str, ...]:
    return () if any(isinstance(node, ast.Compare) for node in ast.walk(part.node)) else part.columns


def _sample(expression: Expression, found: Survey, states: States) -> Any:
    """Return what an expression gives on the rows that were kept; transforms in it learn from them."""
    columns: dict[str, Value] = dict(found.sample(expression.columns))
    rows = len(next(iter(columns.values()))) if columns else 1
    labels = [name for name in expression.columns if name not in columns]
    for name in labels:  # only their levels matter here
        columns[name] = Labels(np.zeros(rows, dtype=np.int64), found.ordered(name))
    made = evaluate(expression, columns, states)
    if among := [name for name in labels if name in expression.learned_from]:
        raise InputError(
            f"formula: {expression.text!r} has a transform that learns from all rows, such as their mean, of labels "
            f"({among[0]!r}). Use the comparison without the transform, or make a column of numbers of it first."
        )
    return made


def _levels(expression: Expression, sample: Any, found: Survey) -> tuple[Any, ...]:
    """Return the levels of a categorical factor: those that the formula gives, or those of the data."""
    if isinstance(sample, Categories) and sample.levels is not None:
        return sample.levels
    return found.ordered(expression.text)


def _of_response(response: Expression, found: Survey, family: Family, table: Any) -> tuple[Any, ...]:
    """Return the levels of a response in the order in which they are numbered."""
    sample = _sample(response, found, {})
    levels = _in_order_of(response, _levels(response, sample, found), family, table)
    coding = sample.contrasts if isinstance(sample, Categories) else None
    return levels if coding is None else _reference_first(response, levels, family, coding)


def _reference_first(response: Expression, levels: tuple[Any, ...], family: Family, coding: Any) -> tuple[Any, ...]:
    """Return the levels of a response with the reference of ``Treatment`` first; raise for other codings.

    These say what is compared with what among columns of a design, of which a response has none.
    """
    from formulaic.transforms.contrasts import TreatmentContrasts
    from formulaic.utils.sentinels import UNSET

    inner = response.argument(0).text
    listed = f"C({inner}, levels=[{', '.join(map(repr, levels))}]) ~ ..."
    if isinstance(family, Ordinal) or type(coding) is not TreatmentContrasts:
        raise InputError(
            f"formula: the response {response.text!r} has a coding, which is for terms after the ~; of a response only "
            f"the order of its levels counts{'' if isinstance(family, Ordinal) else ', the reference first'}. Write "
            f"{listed} with the levels in that order."
        )
    if coding.base is UNSET:
        return levels
    base = plain_level(coding.base)
    if base not in levels:
        raise InputError(
            f"formula: {base!r}, the reference in {response.text!r}, is not among its levels: {shortened(levels)}."
        )
    said = getattr(family, "classes", None)
    if isinstance(said, tuple) and said[0] != str(base):
        raise InputError(
            f"formula: the reference in {response.text!r} is {base!r}, and in {family!r} it is {said[0]!r}, the first "
            f"class. Say it once: leave the coding out, or put {base!r} first."
        )
    return (base, *(level for level in levels if level != base))


def _in_order_of(response: Expression, levels: tuple[Any, ...], family: Family, table: Any) -> tuple[Any, ...]:
    """Return the levels of a response in the order that the family says, or an ordered categorical column has.

    Raises for ordered levels of text whose order nobody has said: that of the alphabet would be a guess.
    """
    said = getattr(family, "levels" if isinstance(family, Ordinal) else "classes", None)
    if isinstance(said, tuple):
        _refuse_other_names(response, levels, family, said)
        return tuple(sorted(levels, key=lambda level: said.index(str(level))))
    if isinstance(family, Ordinal) and len(levels) < 3:
        raise InputError(
            f"formula: the response {response.text!r} has {counted(len(levels), 'level')}, {shortened(levels)}; "
            f"{family!r} takes three or more. Use tb.families.Bernoulli() for two."
        )
    if not isinstance(family, Ordinal) or (response.call == "C" and "levels" in response.text):
        return levels
    order = _ordered_categories(response, table)
    if order is not None and set(levels) <= set(order):
        return tuple(sorted(levels, key=order.index))
    if any(isinstance(level, str) for level in levels):
        raise InputError(
            f"formula: the response {response.text!r} holds text ({', '.join(map(repr, levels))}), whose order is not "
            f"known. Say it: family=tb.families.Ordinal([{', '.join(map(repr, levels))}]) in the right order, or make "
            "it an ordered categorical column."
        )
    return levels


def _refuse_other_names(
    response: Expression, levels: tuple[Any, ...], family: Family, said: tuple[str, ...]
) -> None:
    """Raise unless the names that a family was given are those of the response's levels."""
    unnamed = [level for level in levels if str(level) not in said]
    unused = [name for name in said if name not in set(map(str, levels))]
    if unnamed or unused:
        raise InputError(
            f"family: {family!r} was given, "
            + (
                f"which does not name {shortened(unnamed)}"
                if unnamed
                else f"and no response is {shortened(unused)}"
            )
            + f"; the response {response.text!r} has {len(levels)} levels: {shortened(levels, 20)}. Give the family "
            "these names, in the order you want."
        )


def _left_out(response: Expression, levels: tuple[Any, ...], family: Family, table: Any) -> list[str]:
    """Say which levels of an ordered categorical column no row has."""
    order = _ordered_categories(response, table) if isinstance(family, Ordinal) else None
    empty = [level for level in order or () if plain_level(level) not in levels]
    return [f"{response.text}: levels that no row has are left out: {shortened(empty)}"] if empty else []


def _ordered_categories(response: Expression, table: Any) -> list[Any] | None:
    """Return the categories of a response in their order, if it is an ordered categorical column."""
    column = response.argument(0).name if response.call == "C" else response.name
    kind = table.schema.field(column).type if column is not None else None
    if kind is None or not getattr(kind, "ordered", False):
        return None
    for batch in table.batches([column]):
        return label_values(batch.column(column).dictionary)
    return None


def _factor(expression: Expression, sample: Any, found: Survey) -> Factor:
    if expression.text in found.levels and isinstance(sample, Categories | Labels):
        levels = _levels(expression, sample, found)
        if len(levels) < 2:
            raise InputError(
                f"formula: {expression.text!r} has one level only, {levels[0]!r}, so its effect is not to be told "
                "from the intercept. Leave it out."
            )
        return Factor(expression, levels)
    if isinstance(sample, Several):
        return Factor(expression, fields=tuple(sample.columns), drop=sample.drop)
    if isinstance(sample, Labels | Categories):
        raise InputError(f"formula: {expression.text!r} gives labels; expected numbers, or C(...) around it.")
    return Factor(expression)


def _variable(name: str, found: Survey, parts: Sequence[Expression], boolean: bool) -> Variable:
    """Return what is known of a column; numbers of which the formula only ever takes levels are a factor."""
    if found.kinds[name] == LABELS:
        return Variable("factor", found.ordered(name))
    users = [part for part in parts if name in part.columns]
    if all(e.call == "C" and e.argument(0).name == name for e in users):
        levels = found.ordered(users[0].text)
        return Variable("factor", tuple(map(bool, levels)) if boolean else levels)
    numbers = found.numbers[name]
    kept = np.concatenate(numbers.kept)
    two = tuple(np.unique(kept).tolist()) if np.unique(kept[:1000]).size <= 2 else ()
    quantiles = dict(zip(LEVELS, np.quantile(numbers.copied, LEVELS).tolist(), strict=True))
    if boolean:
        return Variable("numeric", BOOLEAN, numbers.mean, numbers.sd, quantiles)
    return Variable("numeric", two if len(two) == 2 else (), numbers.mean, numbers.sd, quantiles)


def _notes(found: Survey, design: Design, response: str | None) -> list[str]:
    notes = [] if response is None else [response]
    if found.dropped:
        notes.append(f"dropped, since values are missing: {found.describe_missing()}")
    if found.every > 1 and design.states:
        notes.append(f"knots and means of {', '.join(design.states)} are from every {found.every}th row")
    return notes
