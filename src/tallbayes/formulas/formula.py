"""A formula as text, read by formulaic: its response, its terms and its offsets."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tallbayes.errors import InputError
from tallbayes.formulas.expressions import Expression, column, read


@dataclass(frozen=True)
class Term:
    """A product of factors; the intercept has none."""

    factors: tuple[str, ...]
    """Texts of the factors."""
    scale: float = 1.0
    """A number that multiplies it, as in ``2:x``."""

    @property
    def name(self) -> str:
        """How priors refer to it."""
        return ":".join(self.factors) if self.factors else "Intercept"


@dataclass(frozen=True)
class Formula:
    """A formula, read and found harmless."""

    text: str
    response: Expression | None
    terms: tuple[Term, ...]
    factors: dict[str, Expression]
    """Every factor of the terms, by its text."""
    offsets: tuple[Expression, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the terms and offsets need, without those of the response."""
        return unique([name for part in (*self.factors.values(), *self.offsets) for name in part.columns])


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return names, each once, in their order."""
    return tuple(dict.fromkeys(names))


def read_formula(text: Any, available: Sequence[str] = (), *, response: bool = True) -> Formula:
    """Return a formula, or say what is wrong with it.

    Parameters
    ----------
    text : str
        Such as ``"y ~ a + C(b)"``.
    available : sequence of str
        Columns of the data, for which ``.`` stands.
    response : bool
        Whether there must be one; a formula for the scale has none.

    Returns
    -------
    Formula
        What it says.
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"formula: {text!r} was given; expected text such as 'y ~ a + C(b)'.")
    _refuse_groups(text)
    left, right = _parsed(text, available)
    if response and len(left) != 1:
        found = "no response" if not left else f"{len(left)} responses"
        raise InputError(f"formula: {text!r} has {found}; expected one before the ~, as in 'y ~ a + C(b)'.")
    if not response and left:
        raise InputError(f"formula: {text!r} has a response; a formula for the scale has none, as in '~ a'.")
    if left and len(left[0].factors) != 1:
        raise InputError(f"formula: the response of {text!r} is a product of columns; expected one column.")
    answer = _expression(left[0].factors[0]) if left else None
    terms, factors, offsets = [], {}, []
    for term in right:
        read_term, parts = _read_term(term)
        calls = [part for part in parts if part.call == "offset"]
        if calls:
            if len(parts) > 1 or len(calls[0].node.args) != 1:  # type: ignore[attr-defined]
                raise InputError(f"formula: {term} cannot be an offset; expected offset(...) as a term of its own.")
            offsets.append(calls[0].argument(0))
            continue
        if answer is not None and answer.text in read_term.factors:
            raise InputError(
                f"formula: the response {answer.text!r} is a term of {text!r} too. Leave it out there."
            )
        terms.append(read_term)
        factors.update({part.text: part for part in parts})
    if not terms:
        raise InputError(f"formula: {text!r} has no term, so there is nothing to estimate. Add a column, or 1.")
    return Formula(text.strip(), answer, tuple(terms), factors, tuple(offsets))


def _parsed(text: str, available: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Return the terms on both sides of a formula, as formulaic reads it; nothing in it is evaluated."""
    from formulaic import Formula as Parsed
    from formulaic.errors import FormulaicError

    context = {"__formulaic_variables_available__": list(available)}
    try:
        parsed = Parsed.from_spec(text, context=context)
    except (FormulaicError, SyntaxError, AttributeError, ValueError, TypeError, KeyError, IndexError) as error:
        reason = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error)).strip().splitlines()
        raise InputError(
            f"formula: {text!r} cannot be read ({reason[0] if reason else type(error).__name__}). Expected e.g. "
            "'y ~ a + C(b) + a:b'; put comparisons and arithmetic into braces or I(...): 'I(y > 3) ~ {a + b}'."
        ) from None
    sides = parsed._to_dict() if hasattr(parsed, "lhs") else {"rhs": parsed}
    for side in sides.values():
        if isinstance(side, tuple) or not all(hasattr(term, "factors") for term in side):
            raise InputError(f"formula: {text!r} has several parts, split by |; expected one: 'y ~ a + b'.")
    return list(sides.get("lhs", [])), list(sides["rhs"])


def _read_term(term: Any) -> tuple[Term, list[Expression]]:
    scale, parts = 1.0, []
    for factor in term.factors:
        if factor.eval_method.value == "literal":
            scale *= float(factor.expr)
        else:
            parts.append(_expression(factor))
    return Term(tuple(part.text for part in parts), scale), parts


def _expression(factor: Any) -> Expression:
    return column(factor.expr) if factor.eval_method.value == "lookup" else read(factor.expr)


def _refuse_groups(text: str) -> None:
    """Raise for a term like ``(1 | g)``: a ``|`` in brackets that are not a function's."""
    open_brackets: list[bool] = []
    quote = ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter in "([{":
            before = text[:at].rstrip()[-1:]
            open_brackets.append(letter != "(" or before.isalnum() or before in {"_", "."})
        elif letter in ")]}" and open_brackets:
            open_brackets.pop()
        elif letter == "|" and open_brackets and not any(open_brackets):
            raise InputError(
                f"formula: {text!r} has a group-level term such as (1|g); random effects are not supported. Use "
                "C(g) for an effect of each level, with a prior of its own: prior={'C(g)': tb.priors.Normal(0, 1)}."
            )
