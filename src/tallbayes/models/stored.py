"""A regression without its data: what is kept with a result, so that new rows can be predicted from it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from numpy.typing import ArrayLike

from tallbayes import families
from tallbayes.checks import is_count, is_number
from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.families.structure import Output, Structure
from tallbayes.models.altered import AlteredSource
from tallbayes.models.new_rows import for_new_rows, new_rows
from tallbayes.models.predictors import Predictors, predictors_of
from tallbayes.models.variables import Setting, Variable, known
from tallbayes.sources.base import Source

KIND = "regression"


@dataclass(frozen=True)
class StoredRegression:
    """A regression that can predict new rows, and nothing else."""

    family: Family
    columns: list[str]
    """Of the design, those of a design of the scale at the end."""
    further: int
    """How many are for the scale."""
    has_offset: bool
    variables: dict[str, Variable]
    trials_unknown: bool = False
    """Whether the family had a number of trials for each row, which is not kept."""

    @cached_property
    def structure(self) -> Structure:
        """How parameters become predictors."""
        own = len(self.columns) - self.further
        return self.family.structure(self.columns[:own], self.columns[own:])

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return list(self.structure.names)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The parameters as variables of a result."""
        return self.structure.outputs

    @property
    def predictors(self) -> Predictors:
        """How parameters become predictors, for passes."""
        return predictors_of(self.structure.lines, len(self.names))

    @property
    def predicting(self) -> Predictors:
        """The predictors that the distribution of a response is a function of."""
        own = len(self.columns) - self.further
        return predictors_of(self.family.predicting(self.columns[:own], self.columns[own:]), len(self.names))

    def rows_of(
        self,
        new_data: Any = None,
        *,
        offset: ArrayLike | None = None,
        setting: Setting | None = None,
        beside: Sequence[str] = (),
    ) -> Source:
        """Return new rows, as `Regression.rows_of` does."""
        if new_data is None:
            raise InputError(
                "new_data: None was given, and the result has the model without its data. Give the model, or rows to "
                "predict as new_data=..."
            )
        source = new_rows(new_data, self.columns, offset, self.has_offset)
        for name in [*(setting or {}), *beside]:
            known(self.columns, name, "setting" if setting and name in setting else "by")
        return AlteredSource(source, setting or {}, beside) if setting or beside else source

    def family_of(self, new_data: Any) -> Family:
        """Return the family that responses of new rows are drawn from, as `Regression.family_of` does."""
        return for_new_rows(self.family, trials_unknown=self.trials_unknown)


def store(
    family: Family, columns: list[str], further: int, has_offset: bool, facts: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return a regression's family, columns and what is known of them, as JSON."""
    about = {
        "kind": KIND,
        "family": family_to_plain(family),
        "names": columns,
        "further": further,
        "has_offset": has_offset,
        "variables": {name: dict(fact) for name, fact in facts.items()},
    }
    return json.dumps(about)


def restore(text: str) -> StoredRegression:
    """Return the regression that `store` wrote.

    Parameters
    ----------
    text : str
        What is in ``tree.attrs["model"]``.

    Returns
    -------
    StoredRegression
        What predictions of new rows need.
    """
    about = json.loads(text)
    variables = {
        name: Variable(**{**fact, "levels": tuple(fact["levels"])}) for name, fact in about["variables"].items()
    }
    family = family_from_plain(about["family"])
    columns, further = list(about["names"]), int(about.get("further", 0))
    unknown = trials_unknown(about["family"])
    return StoredRegression(family, columns, further, bool(about["has_offset"]), variables, unknown)


def family_to_plain(family: Family) -> dict[str, Any]:
    """Return a family's name and parameters as plain values; unknown ones as None."""
    given: dict[str, Any] = (
        {f.name: getattr(family, f.name) for f in fields(family)} if is_dataclass(family) else {}
    )
    plain = {name: _plain(value) for name, value in given.items()}
    return {"name": type(family).__name__, "text": repr(family), "parameters": plain}


def family_from_plain(about: Mapping[str, Any]) -> Family:
    """Return a built-in family; nothing that a file says is run."""
    kind = getattr(families, about["name"], None) if about["name"] in families.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, Family) and is_dataclass(kind)):
        raise InputError(
            f"model: the result is of {about['text']}, a family that cannot be restored from a file. Give the model."
        )
    taken = {f.name for f in fields(kind)}
    given = {name: value for name, value in about["parameters"].items() if name in taken}
    if trials_unknown(about):
        given.pop("trials", None)
    return kind(**given)


def trials_unknown(about: Mapping[str, Any]) -> bool:
    """Return whether a family had a number of trials for each row, which is not kept."""
    return about["name"] == "Binomial" and about["parameters"].get("trials") is None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if is_count(value, 0):
        return int(value)
    if is_number(value) or getattr(value, "ndim", None) == 0:
        return float(value)
    if isinstance(value, tuple) and all(isinstance(entry, str) for entry in value):  # names of classes
        return list(value)
    return None
