"""A formula without its data: what a saved result keeps, so that new rows can be predicted from it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.families.structure import Output
from tallbayes.formulas.recipe import Recipe
from tallbayes.formulas.rows import new_family, new_source
from tallbayes.models.predictors import Predictors
from tallbayes.models.stored import StoredRegression, family_from_plain, trials_unknown
from tallbayes.models.variables import Setting, Variable
from tallbayes.sources.base import Source

KIND = "formula"
"""What a model of this kind is called in a result."""


@dataclass(frozen=True)
class RestoredFormula:
    """A regression by formula that can predict new rows, and nothing else."""

    family: Family
    recipe: Recipe
    notes: tuple[str, ...]
    trials_unknown: bool = False
    """Whether the family had a number of trials for each row, which is not kept."""

    @property
    def formula(self) -> str:
        """The formula."""
        return self.recipe.text

    @property
    def variables(self) -> dict[str, Variable]:
        """What is known of each column that the terms need."""
        return self.recipe.variables

    @property
    def _stored(self) -> StoredRegression:
        return StoredRegression(self.family, self.columns, self.further, False, self.variables)

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return self._stored.names

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The parameters as variables of a result."""
        return self._stored.outputs

    @property
    def predictors(self) -> Predictors:
        """How parameters become predictors."""
        return self._stored.predictors

    @property
    def predicting(self) -> Predictors:
        """The predictors that the distribution of a response is a function of."""
        return self._stored.predicting

    @property
    def columns(self) -> list[str]:
        """Columns of the design, those of the scale at the end."""
        return self.recipe.names

    @property
    def further(self) -> int:
        """How many of them are for the scale."""
        return self.recipe.further

    def rows_of(
        self,
        new_data: Any = None,
        *,
        offset: ArrayLike | None = None,
        setting: Setting | None = None,
        beside: Sequence[str] = (),
        each: bool = False,
    ) -> Source:
        """Return new rows, as the model's own `rows_of` does."""
        if new_data is None:
            raise InputError(
                "new_data: None was given, and the result has the formula without its data. Give the model, or rows to "
                "predict as new_data=..."
            )
        return new_source(self.recipe, new_data, offset=offset, setting=setting, beside=beside, each=each)

    def family_of(self, new_data: Any, *, each: bool = False) -> Family:
        """Return the family with the trials of new rows, as the model's own `family_of` does."""
        return new_family(self.family, self.recipe, new_data, trials_unknown=self.trials_unknown)


def restore(text: str) -> RestoredFormula:
    """Return the regression that a result keeps.

    Nothing in it is run: expressions are read and checked as those of a new formula are.

    Parameters
    ----------
    text : str
        What `FormulaRegression.to_json` gave, as in ``tree.attrs["model"]``.

    Returns
    -------
    RestoredFormula
        What predictions of new rows need.
    """
    try:
        about = json.loads(text)
        if about["kind"] != KIND:
            raise InputError(f"model: the result keeps a {about['kind']!r}; expected a formula.")
        recipe = Recipe.from_plain(about["recipe"])
        family, unknown = family_from_plain(about["family"]), trials_unknown(about["family"])
        return RestoredFormula(family, recipe, tuple(about["notes"]), unknown)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"model: what the result keeps of its formula cannot be read ({error!r}).") from None
