"""The response of a formula: numbers, labels of which one is the event, or successes out of trials."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.families import Bernoulli, Binomial, Family
from tallbayes.formulas.columns import Labels, Value, codes_of
from tallbayes.formulas.design import shortened
from tallbayes.formulas.expressions import Categories, Expression, Several, States, evaluate

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Response:
    """How rows get their response."""

    expression: Expression
    levels: tuple[Any, ...] | None = None
    """Of labels."""
    states: Any = None

    @property
    def event(self) -> Any:
        """The level that counts as 1, of labels with two."""
        return self.levels[1] if self.levels is not None and len(self.levels) == 2 else None

    @property
    def successes(self) -> Expression | None:
        """Of ``p(successes, trials)``, the first part."""
        return self.expression.argument(0) if self.expression.call == "p" else None

    @property
    def trials(self) -> Expression | None:
        """Of ``p(successes, trials)``, the second part."""
        return self.expression.argument(1) if self.expression.call == "p" else None

    def values(self, columns: Mapping[str, Value]) -> Vector:
        """Return the responses of some rows as numbers."""
        made = evaluate(self.successes or self.expression, columns, dict(self.states or {}))
        if self.levels is not None:
            labels = made.values if isinstance(made, Categories) else made
            codes = codes_of(labels, self.levels)
            if codes.size and codes.min() < 0:
                raise InputError(
                    f"data: the response {self.expression.text!r} has a level that the model has not seen; it knows "
                    f"{shortened(self.levels)}."
                )
            return codes.astype(np.float64)
        return _numbers(made, self.expression.text)

    def trials_of(self, columns: Mapping[str, Value]) -> Vector:
        """Return the number of trials of some rows, of a formula that has them."""
        assert self.trials is not None
        return _numbers(evaluate(self.trials, columns, {}), self.trials.text)


def _numbers(made: Any, text: str) -> Vector:
    if isinstance(made, Labels | Categories | Several):
        raise InputError(f"formula: the response {text!r} is not a column of numbers.")
    return np.array(made, dtype=np.float64, ndmin=1)


def is_labelled(expression: Expression, kinds: Mapping[str, str]) -> bool:
    """Return whether a response is one of labels."""
    return expression.call == "C" or (expression.name is not None and kinds[expression.name] == "factor")


def response_of(
    expression: Expression, levels: tuple[Any, ...] | None, family: Family, states: States
) -> tuple[Response, str | None]:
    """Return the response for a family, and what is to be said about it.

    Parameters
    ----------
    expression : Expression
        What stands before the ~.
    levels : tuple or None
        Its levels in their order, if it holds labels.
    family : Family
        The likelihood.
    states : dict
        What transforms in it have learned.

    Returns
    -------
    tuple of Response and str or None
        The response, and a line for the model's description.
    """
    text = expression.text
    if expression.call == "p":
        if len(expression.node.args) != 2 or not isinstance(family, Binomial):  # type: ignore[attr-defined]
            raise InputError(
                f"formula: {text!r} stands for successes out of trials: expected p(successes, trials) with "
                f"family=tb.families.Binomial(); the family is {family!r}."
            )
        return Response(expression), None
    if levels is None:
        return Response(expression, None, states), None
    if isinstance(family, Bernoulli):
        if len(levels) != 2:
            raise InputError(
                f"formula: the response {text!r} has {len(levels)} levels ({shortened(levels)}); {family!r} takes two. "
                f"Say which of them is the event, e.g. I({text} == {levels[-1]!r}) ~ ..., or use a family for several "
                "classes."
            )
        return Response(expression, levels), f"{text}: the event is {levels[1]!r}, against {levels[0]!r}"
    if type(family).__name__ in {"Categorical", "Ordinal"}:
        order = ", ".join(f"{number} = {level!r}" for number, level in enumerate(levels))
        return Response(expression, levels), f"{text}: {order}"
    raise InputError(
        f"formula: the response {text!r} holds labels ({shortened(levels)}); {family!r} takes {family.support}. "
        "Convert it to numbers, or use tb.families.Bernoulli() for two levels."
    )
