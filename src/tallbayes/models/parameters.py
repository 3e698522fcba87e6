"""Priors of all parameters of a regression: of coefficients, of a scale or its coefficients, of others."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import counted
from tallbayes.errors import InputError, NoModeError
from tallbayes.models.starts import refuse_certain_scale, refuse_certain_shape
from tallbayes.priors import HalfStudentT, InverseGamma, Prior, ScalePrior, WeaklyInformative
from tallbayes.priors.coefficients import constant_columns, weak_scales
from tallbayes.priors.resolved import FLAT, NORMAL, POWER, UNIFORM, CoefficientPriors, joined, resolved
from tallbayes.sources.arrays import ArraySource, design_matrix
from tallbayes.sources.base import Source

if TYPE_CHECKING:
    from tallbayes.models.regression import Regression

Vector = NDArray[np.float64]

SLOPE, LEVEL = 1.0, 2.5
"""Default prior standard deviations of the log scale: of the effect of a column's spread, and of its level."""
ZERO_SLOPE, ZERO_LEVEL = 2.5, 1.8
"""The same of the log odds of zeros. The level's is that of a logistic distribution, which is uniform as a probability:
rows hardly tell small ones apart, and a wider prior leaves a ridge towards minus infinity that chains miss."""


class SomeColumns(NamedTuple):
    """Where some columns lie, and how far they spread."""

    mean: Vector
    spread: Vector
    level: float = 0.0
    """How far from 0 the responses lie, where they are on the predictor's scale."""

    @classmethod
    def of(cls, profile: Any, first: int, last: int) -> "SomeColumns":
        """Return those of a profile."""
        return cls(profile.mean[first:last], profile.spread[first:last])

    def beside(self, others: "SomeColumns") -> "SomeColumns":
        """Return these columns and others."""
        parts = zip(self[:2], others[:2], strict=True)
        mean, spread = (np.concatenate(both) for both in parts)
        return self._replace(mean=mean, spread=spread)


def last_columns(source: Source, names: Any) -> list[str]:
    """Return the names of a source's last columns, or raise if these are others, or all of them."""
    given = [str(name) for name in names] if isinstance(names, list | tuple) else []
    if not 0 < len(given) < len(source.names) or list(source.names)[-len(given) :] != given:
        raise InputError(
            f"scale_design: {names!r} was given beside a source of rows; expected a list of the names of its last "
            f"columns, which are for the scale; it has {list(source.names)[:20]}."
        )
    return given


def add_columns(source: Source, design: ArrayLike) -> list[str]:
    """Put a second design beside the first one; return the names of its columns."""
    if not isinstance(source, ArraySource):
        raise InputError(
            "scale_design: an array was given beside a design that is read block by block. Give both as columns of one "
            "table: tb.Regression(table, 'y', family, design=[...], scale_design=[...])."
        )
    own = [str(name) for name in design.columns] if hasattr(design, "columns") else None
    matrix = design_matrix(design, "scale_design")
    if matrix.shape[0] != source.n:
        raise InputError(f"scale_design: {matrix.shape[0]} rows were given; X has {source.n}.")
    names = own or [f"z{j}" for j in range(matrix.shape[1])]
    wider = np.result_type(source.X.dtype, matrix.dtype)
    both = np.hstack([source.X, matrix]).astype(wider if wider in (np.float32, np.float64) else np.float64)
    source.__init__(both, source.responses, source.weight, source.offset, [*source.names, *names])  # type: ignore[misc]
    return names


def refuse_constant(
    model: "Regression", prior: Any, priors: CoefficientPriors, some: SomeColumns, names: list[str]
) -> None:
    """Raise for a constant column beside what a family has in the place of an intercept.

    Only their sum is known; a proper prior that the user gave to the column says the rest.

    Parameters
    ----------
    model : Regression
        The model.
    prior : Prior or sequence or mapping or None
        What the user said of the columns.
    priors : CoefficientPriors
        What became of it.
    some : SomeColumns
        The columns.
    names : list of str
        Their names.
    """
    instead = model.family.in_place_of_intercept
    constant = np.flatnonzero(some.spread <= 1e-12 * np.abs(some.mean)).tolist() if instead else []
    for j in constant:
        said = prior
        if isinstance(prior, Mapping | Sequence):
            said = prior.get(names[j]) if isinstance(prior, Mapping) else prior[j]
        if said is None or not priors.proper[j]:
            raise InputError(
                f"X: column {names[j]!r} is {some.mean[j]:g} in every row; {model.family.title} has {instead} in the "
                "place of an intercept, and the data tell of the sum of both only. Drop the column, or give its "
                f"coefficient a proper prior: prior={{{names[j]!r}: tb.priors.Normal(0, 1)}}."
            )


def all_priors(
    model: "Regression", coefficients: CoefficientPriors, some: SomeColumns, given: Mapping[str, Prior]
) -> CoefficientPriors:
    """Return the priors of all parameters, in their order, from those of the columns' coefficients."""
    columns, beta = some.mean.size, model.structure.outputs[0].count
    parts = [coefficients] * (beta // columns)
    particular = {j: given[name] for j, name in enumerate(model.structure.names[:beta]) if name in given}
    if particular and len(parts) > 1:  # of a coefficient in one class
        every = joined(*parts)
        own = {j: prior.resolve(some, model.unit).part(j % columns) for j, prior in particular.items()}
        parts = [own.get(j, every.part(j)) for j in range(beta)]
    for output in model.structure.outputs[1:]:
        if output.log and output.labels is None:
            parts.append(_of_positive(model, output.name))
            continue
        if output.name == "scale_beta":
            part = _of_scale_columns(model, columns)
        else:
            part = _of_others(model, output.count, columns)
        names = model.structure.names[output.first : output.first + output.count]
        one = SomeColumns(np.ones(1), np.ones(1))
        parts += [given[n].resolve(one, 1.0) if n in given else part.part(j) for j, n in enumerate(names)]
    every = joined(*parts)
    _refuse_endless(model, every, columns)
    _refuse_too_few_for_a_flat_scale(model, every)
    return every


def _refuse_endless(model: "Regression", priors: CoefficientPriors, columns: int) -> None:
    """Raise for a flat prior of a parameter that no data keep from its limit: the posterior does not exist."""
    name, limit = model.family.endless
    for output in model.structure.outputs[1:]:
        if output.name not in (name, f"{name}_beta"):
            continue
        own = SomeColumns.of(model.profile, columns, model.profile.mean.size)
        levels = constant_columns(own) if output.name != name else np.ones(output.count, dtype=np.bool_)
        for j in np.flatnonzero(levels) + output.first:
            unbounded = priors.kind[j] == UNIFORM and priors.location[j] == -math.inf
            if priors.kind[j] == FLAT or unbounded or (priors.kind[j] == POWER and priors.location[j] == 0.0):
                raise NoModeError(
                    f"{model.family.title}: {model.structure.names[j]!r} has a flat prior, and {limit}, which data "
                    "never rule out: the posterior does not exist. Give it a proper prior, or leave it to the default."
                )


def _refuse_too_few_for_a_flat_scale(model: "Regression", priors: CoefficientPriors) -> None:
    """Raise where the density of a scale with a flat prior falls too slowly to have a finite integral.

    Of w rows, with their weights, and c coefficients with flat priors it falls like the power c - w.
    """
    at = [output.first for output in model.structure.outputs[1:] if output.name == "scale"]
    if not at or priors.proper[at[0]]:
        return
    flat, weight = int(np.count_nonzero(~np.delete(priors.proper, at[0]))), model.profile.weight
    if not weight - flat > 1.0:
        raise NoModeError(
            f"{model.family.title}: under a flat prior of the scale and of {counted(flat, 'coefficient')}, rows with a "
            f"total weight of {weight:g} leave the density of the scale without a finite integral: the posterior does "
            f"not exist. Expected a total above {flat + 1}; or give the scale a proper prior, e.g. "
            "scale=tb.priors.HalfNormal(10)."
        )


def _of_positive(model: "Regression", name: str) -> CoefficientPriors:
    """Return the prior of the logarithm of a scale or size."""
    default: ScalePrior = InverseGamma(0.4, 0.3, of="value")
    if name == "scale":
        refuse_certain_scale(model, model.unit)
        default = HalfStudentT(3.0, 2.5 * model.unit)
    given = getattr(model.family, name)
    if name == "shape" and given is None:
        refuse_certain_shape(model)
    chosen = default if given is None else given
    if not isinstance(chosen, ScalePrior):
        raise InputError(
            f"{model.family.title}: {name}={chosen!r} was given; expected a prior of a positive number, e.g. "
            f"tb.priors.HalfNormal(10), a number if the {name} is known, or None for the default prior."
        )
    return chosen.of_scale()


def _of_scale_columns(model: "Regression", columns: int) -> CoefficientPriors:
    refuse_certain_scale(model, model.unit)
    some = SomeColumns.of(model.profile, columns, model.profile.mean.size)
    chosen: Any = getattr(model.family, "scale", None)
    if chosen is None:
        level = np.where(constant_columns(some) & (some.mean != 0.0), some.mean, np.inf)
        return resolved(NORMAL, math.log(model.unit) / level, weak_scales(some, SLOPE, LEVEL), 0.0, level.size)
    if not isinstance(chosen, Prior):
        raise InputError(
            f"{model.family.title}: scale={chosen!r} was given beside a scale_design; expected a prior of the "
            "coefficients of the log scale, e.g. tb.priors.Normal(0, 1), or None for the default prior."
        )
    return chosen.resolve(some, 1.0)


def _of_others(model: "Regression", count: int, columns: int) -> CoefficientPriors:
    """Return the priors of cut points, of the log odds of zeros or of their coefficients."""
    chosen = model.family.further_priors()
    profile, own = model.profile, SomeColumns(np.ones(count), np.zeros(count))
    if profile.mean.size > columns:  # columns of their own
        own = SomeColumns.of(profile, columns, profile.mean.size)
    if chosen is None and model.structure.lines[0].own_count:  # constants of the coefficients' own predictor
        rule = model.prior if isinstance(model.prior, WeaklyInformative) else WeaklyInformative()
        whole = SomeColumns.of(profile, 0, columns).beside(own)
        return rule.of_predictor(whole, model.unit, count).part(columns, count)
    if chosen is None:
        return resolved(NORMAL, 0.0, weak_scales(own, ZERO_SLOPE, ZERO_LEVEL), 0.0, own.mean.size)
    if not isinstance(chosen, Prior):
        raise InputError(
            f"{model.family!r}: expected a prior such as tb.priors.Normal(0, 10), or None for the default."
        )
    return chosen.resolve(own, 1.0)
