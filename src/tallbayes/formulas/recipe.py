"""Everything that a formula makes of a row: design, response, offset and weight; kept with the model as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.formulas.columns import Labels, Value, codes_of
from tallbayes.formulas.design import Design
from tallbayes.formulas.expressions import Expression, column, evaluate, read
from tallbayes.formulas.formula import unique
from tallbayes.formulas.response import Response
from tallbayes.formulas.survey import loaded
from tallbayes.models.variables import Setting, Shift, Variable
from tallbayes.sources.base import Block

if TYPE_CHECKING:
    import pyarrow as pa

Vector = NDArray[np.float64]

OFFSET, WEIGHTS = "(offset)", "(weights)"
"""Names of columns that were given as arrays beside the data."""


@dataclass(frozen=True)
class Recipe:
    """How columns of data become rows of a regression."""

    text: str
    """The formula."""
    design: Design
    response: Response
    offsets: tuple[Expression, ...]
    weights: Expression | None
    variables: dict[str, Variable]
    """What is known of each column that the terms need."""
    scale: Design | None = None
    """Of the log scale, or of what else a family's second predictor is; its columns stand after those of the design."""
    scale_text: str | None = None
    """Its formula."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Offset, exposure and weights that were given beside the formula, as they were given."""

    @property
    def designs(self) -> tuple[Design, ...]:
        """The design, and that of the log scale if there is one."""
        return (self.design,) if self.scale is None else (self.design, self.scale)

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return [name for design in self.designs for name in design.names]

    @property
    def further(self) -> int:
        """How many of them are for the scale."""
        return 0 if self.scale is None else len(self.scale.names)

    @property
    def predicting(self) -> tuple[str, ...]:
        """Columns that the designs need."""
        factors = [factor for design in self.designs for factor in design.factors.values()]
        return unique([name for factor in factors for name in factor.expression.columns])

    @property
    def bounded(self) -> frozenset[str]:
        """Columns in B-splines that are not defined beyond the data they were learned from."""
        factors = [factor for design in self.designs for factor in design.factors.values()]
        return frozenset(name for factor in factors for name in factor.expression.bounded)

    @property
    def offset_columns(self) -> tuple[str, ...]:
        """Columns that the offset needs."""
        return unique([name for offset in self.offsets for name in offset.columns])

    @property
    def fitting(self) -> tuple[str, ...]:
        """Columns that fitting needs."""
        weights = () if self.weights is None else self.weights.columns
        return unique([*self.response.expression.columns, *self.predicting, *self.offset_columns, *weights])

    def offset(self, columns: Mapping[str, Value]) -> Vector:
        """Return the offset of some rows, or a single zero."""
        total = np.zeros(1)
        for offset in self.offsets:
            total = total + _per_row(evaluate(offset, columns, {}), offset.text, "offset")
        return total

    def weight(self, columns: Mapping[str, Value]) -> Vector:
        """Return the weights of some rows, or a single one."""
        return np.ones(1) if self.weights is None else weights_of(self.weights, columns)

    def weight_if_known(self, columns: Mapping[str, Value]) -> Vector:
        """Return how much new rows count in averages: weights and trials where their columns are there."""
        found = np.ones(1)
        if self.weights is not None and set(self.weights.columns) <= set(columns):
            found = found * self.weight(columns)
        if self.response.trials is not None and set(self.response.trials.columns) <= set(columns):
            found = found * self.response.trials_of(columns)
        return found

    def weighing(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the columns, of those that new rows have, which say how much they count in averages."""
        parts = [part.columns for part in (self.weights, self.response.trials) if part is not None]
        return unique([name for part in parts if set(part) <= set(available) for name in part])

    def plain(self) -> dict[str, Any]:
        """Return the recipe in values that JSON has."""
        return {
            "formula": self.text,
            "design": self.design.plain(),
            "response": [self.response.expression.text, self.response.levels],
            "offsets": [offset.text for offset in self.offsets],
            "weights": None if self.weights is None else self.weights.text,
            "variables": {name: _plain_variable(about) for name, about in self.variables.items()},
            "scale": None if self.scale is None else [self.scale_text, self.scale.plain()],
            "beside": dict(self.beside),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Recipe":
        """Return the recipe that was made plain."""
        text, levels = plain["response"]
        weights = plain.get("weights")
        scale_text, scale = plain.get("scale") or (None, None)
        return cls(
            plain["formula"],
            Design.from_plain(plain["design"]),
            Response(_expression(text), None if levels is None else tuple(levels)),
            tuple(_expression(offset) for offset in plain["offsets"]),
            None if weights is None else _expression(weights),
            {name: _variable(about) for name, about in plain["variables"].items()},
            None if scale is None else Design.from_plain(scale),
            scale_text,
            dict(plain.get("beside") or {}),
        )


def weights_of(expression: Expression, columns: Mapping[str, Value]) -> Vector:
    """Return the weights of some rows."""
    found = _per_row(evaluate(expression, columns, {}), expression.text, "weights")
    if found.size and found.min() < 0.0:
        raise InputError(f"weights: {expression.text!r} is negative in a row; expected zero or more.")
    return found


def _expression(text: str) -> Expression:
    return column(text) if text in {OFFSET, WEIGHTS} or not _readable(text) else read(text)


def _readable(text: str) -> bool:
    try:
        read(text)
    except InputError:
        return False
    return True


def _per_row(made: Any, text: str, what: str) -> Vector:
    if isinstance(made, Labels) or not isinstance(made, np.ndarray | float | int | np.number):
        raise InputError(f"{what}: {text!r} is not a column of numbers.")
    found = np.array(made, dtype=np.float64, ndmin=1)
    if not np.all(np.isfinite(found)):
        positive = " An exposure must be positive." if what == "offset" and text.startswith("log(") else ""
        raise InputError(
            f"{what}: {text!r} is {found[~np.isfinite(found)][0]} in a row; expected finite numbers.{positive}"
        )
    return found


def _plain_variable(about: Variable) -> dict[str, Any]:
    quantiles = None if about.quantiles is None else [[p, value] for p, value in about.quantiles.items()]
    return {
        "kind": about.kind,
        "levels": list(about.levels),
        "mean": about.mean,
        "sd": about.sd,
        "quantiles": quantiles,
    }


def _variable(plain: Mapping[str, Any]) -> Variable:
    quantiles = None if plain["quantiles"] is None else {float(p): value for p, value in plain["quantiles"]}
    return Variable(plain["kind"], tuple(plain["levels"]), plain["mean"], plain["sd"], quantiles)


class Together(NamedTuple):
    """What equal rows became when they were put together."""

    weights: Vector
    times: Vector
    """How many rows of the data each stands for, whatever their own weights."""


@dataclass(frozen=True)
class ToBlock:
    """Makes a block of the rows of a batch in which nothing is missing; can be sent elsewhere."""

    recipe: Recipe
    has_response: bool = True
    n: int = 0
    """Rows in all, for settings with one value for each."""
    setting: Setting | None = None
    beside: tuple[str, ...] = ()
    together: Together | None = None
    """Where rows that are equal were put together: of all rows that are left."""
    offset: Vector | None = None
    """Offsets of all rows, or a single one, in the place of the recipe's."""
    new: bool = False
    """Whether these are other rows than those of the model: their weights are used as far as they are known."""
    found: Mapping[str, Variable] = field(default_factory=dict)
    """What is known of columns that stand beside the response and that new rows alone have."""

    def __call__(self, batch: "pa.RecordBatch", first: int) -> Block:
        """Return the block of a batch whose first row has the given number."""
        recipe, rows = self.recipe, batch.num_rows
        columns = loaded(batch)
        responses = recipe.response.values(columns) if self.has_response else np.zeros(rows)
        told = [np.broadcast_to(responses, rows), *(self._told(columns[name], name) for name in self.beside)]
        times = None
        if self.together is not None:
            weight, times = (each[first : first + rows] for each in self.together)
        else:
            weight = recipe.weight_if_known(columns) if self.new else recipe.weight(columns)
        tiny = self._refuse_beyond(columns, first, rows)
        for name, value in (self.setting or {}).items():
            columns[name] = self._set(value, columns[name], first, rows, name)
        offset = recipe.offset(columns) if self.offset is None else self.offset
        if self.offset is not None and self.offset.size > 1:
            offset = self.offset[first : first + rows]
        parts = [design.matrix(columns, rows, beyond=tiny, times=times) for design in recipe.designs]
        X = parts[0] if len(parts) == 1 else np.hstack(parts)
        return Block(first, X, np.column_stack(told), weight, offset)

    def of_columns(self, columns: Mapping[str, Any], first: int) -> Block:
        """Return the block of Arrow arrays by name."""
        import pyarrow as pa

        return self(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), first)

    def _refuse_beyond(self, columns: Mapping[str, Value], first: int, rows: int) -> bool:
        """Return whether variables are moved by the tiny step of a slope; raise if that starts beyond a spline."""
        steps = {k: v for k, v in (self.setting or {}).items() if isinstance(v, Shift) and v.tiny}
        starts = {k: self._set(replace(v, amount=0.0), columns[k], first, rows, k) for k, v in steps.items()}
        for design in self.recipe.designs if steps else ():
            design.refuse_beyond({**columns, **starts}, starts)
        return bool(steps)

    def _told(self, value: Value, name: str) -> Vector:
        about = self.variable(name)
        if about.kind != "factor":
            return np.asarray(value)
        codes = codes_of(value, about.levels)
        if codes.size and codes.min() < 0:
            raise InputError(
                f"by: {name!r} has levels that the model has not seen; it knows {', '.join(map(repr, about.levels))}. "
                "Drop these rows, or give the level that they shall count as."
            )
        return codes.astype(np.float64)

    def variable(self, name: str) -> Variable:
        """Return what is known of a column that stands beside the response."""
        return self.found[name] if name in self.found else self.recipe.variables[name]

    def _set(self, value: Any, old: Value, first: int, rows: int, name: str) -> Value:
        """Return a column as a setting has it."""
        if isinstance(value, Shift):
            if isinstance(old, Labels):
                raise InputError(f"setting: {name!r} holds labels; an amount cannot be added to it.")
            return value.of(old)
        one = np.ndim(value) == 0
        if not one and np.shape(value) != (self.n,):
            put = ", since equal rows are put together (not with collapse=False)" if self.together else ""
            raise InputError(
                f"setting: {name!r} has shape {np.shape(value)}; expected one value, or {self.n:,}{put}."
            )
        if isinstance(old, Labels):
            given = [value] if one else list(value[first : first + rows])
            levels = tuple(dict.fromkeys(str(level) if isinstance(level, np.str_) else level for level in given))
            place = {level: number for number, level in enumerate(levels)}
            codes = np.zeros(rows, dtype=np.int64) if one else np.array([place[level] for level in given])
            return Labels(codes, levels)
        try:
            numbers = np.asarray(value if one else value[first : first + rows], dtype=np.float64)
        except (ValueError, TypeError):
            raise InputError(f"setting: {name!r} is {value!r}; expected a number, or one for each row.") from None
        if not np.all(np.isfinite(numbers)):
            raise InputError(f"setting: {name!r} is {numbers[~np.isfinite(numbers)][0]}; expected finite numbers.")
        return np.array(np.broadcast_to(numbers, rows))


def needed(recipe: Recipe, available: Sequence[str], *, offset_given: bool) -> tuple[list[str], bool]:
    """Return the columns that new rows must have, and whether they have a response too."""
    columns = [*recipe.predicting, *(() if offset_given else recipe.offset_columns)]
    response = recipe.response.expression.columns
    has_response = all(name in available for name in response) and recipe.response.trials is None
    return list(unique([*columns, *(response if has_response else ())])), has_response
