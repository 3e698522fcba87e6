"""Regressions: a response that depends on a design through one linear predictor, or through several."""

# Annotations stay text, so that `help` shows them as they are written here.
from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.checks import counted
from tallbayes.code_cache import silence
from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.families.responses import CountResponse, robust_spread, without_outliers
from tallbayes.models.altered import AlteredSource
from tallbayes.models.base import Model
from tallbayes.models.endless_scales import fitted_exactly, refuse_endless_scale
from tallbayes.models.new_rows import for_new_rows, new_rows
from tallbayes.models.parameters import SomeColumns, add_columns, all_priors, last_columns, refuse_constant
from tallbayes.models.predictors import Predictors, predictors_of
from tallbayes.models.prior_names import parted
from tallbayes.models.starts import ridge_of_parameters, starting_parameters
from tallbayes.models.stored import store
from tallbayes.models.subsamples import FEW_ROWS, START_ROWS, subsample_sizes
from tallbayes.models.variables import LEVELS, Setting, Variable, known
from tallbayes.priors.coefficients import each
from tallbayes.priors.resolved import NORMAL, CoefficientPriors
from tallbayes.sources.arrays import (
    RESPONSE,
    WITHOUT_WEIGHT,
    ArraySource,
    column_names,
    design_matrix,
    frequency_weights,
    log_exposure,
    numeric,
    per_row,
    writable_view,
)
from tallbayes.sources.base import RANDOM_ACCESS, Block, GatheredRows, Source, gather_rows
from tallbayes.sources.clusters import BESIDE, is_dask, of_arrays
from tallbayes.sources.encoded import EncodedSource
from tallbayes.sources.indexes import refuse_other_order
from tallbayes.sources.memory_map import MemoryMapSource, is_mapped, mapped_file
from tallbayes.sources.opening import by_columns, open_source
from tallbayes.sources.profile import LARGEST_COLUMN, Profile, profile_block, refuse_unusable_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallbayes.families.structure import Output
    from tallbayes.priors import Prior

Vector = NDArray[np.float64]


class Regression(Model):
    """A regression: y depends on X through the linear predictor ``X @ beta + offset``.

    The columns are used as given: none is added (give a column of ones for an intercept), centred or scaled.
    A design of floats, bools or integers, in any memory order, is not copied.

    Parameters
    ----------
    X : array_like or table or Source
        Design, rows x columns; an array or a data frame of numbers. A memory-mapped array is read block by block, as
        are tables (`tallbayes.sources.open_source`): a path of Parquet files or a folder of them, a pyarrow Dataset, a
        polars LazyFrame, a DuckDB relation, a Dask data frame; columns are then given by their names. Or Dask arrays.
        Or a source of rows (`tallbayes.sources.base`), which has design, response, weights, offset and names in one.
    y : array_like or str or None
        Response, one for each row; the name of its column in a table; None for a source.
    family : Family
        Likelihood, from `tallbayes.families`. Further parameters, such as an unknown scale, are part of it.
    prior : Prior or sequence of Prior or mapping or None
        Prior of the coefficients, from `tallbayes.priors`: one for all, a list with one for each column, or a
        dictionary from names to priors. Defaults to ``WeaklyInformative()``, also for columns that a dictionary
        leaves out; `tallbayes.explain` prints what that is for these data. A dictionary may also name coefficients of
        the scale, ``"scale_beta[z]"``, and other parameters of the family as a summary names them, ``"cut[low|high]"``,
        or all of a kind, ``"scale_beta"``, ``"cut"``. Of classes a column stands for its coefficient in each;
        ``"green: x"`` is that of one. Also the beginning of names with a star: ``"green: *"``.
    offset : array_like or str or None
        Known part of each row's predictor; the name of a column in a table.
    weights : array_like or str or None
        Frequency weights: a row of weight 3 counts as three rows; the name of a column in a table.
    exposure : array_like or str or None
        Of counts, how long or how much each row was at risk: ``exp(X @ beta)`` is the rate for one unit of it. The same
        as an offset of its logarithm; the name of a column in a table.
    names : sequence of str or None
        Names of the columns. Defaults to those of a data frame, or x0, x1, ...
    design : sequence of str or None
        Of a table, the columns of the design, in the order of the coefficients; all others by default.
    scale_design : array_like or sequence of str or None
        A design of its own for the log scale of the noise (distributional regression): rows x columns, used as given.
        Of a table, the names of its columns; of a source, those of its last columns, which are for the scale. The
        coefficients have the family's ``scale`` as their prior, e.g. ``Gaussian(scale=tb.priors.Normal(0, 1))``, or a
        weakly informative one: Normal(0, 1) for the effect of a column's spread, and for a constant column
        Normal(log s, 2.5), s the spread of the responses, wider if others are not centred. For zero-inflated and hurdle
        families, the design of the zeros.
    """

    orders = (3, 2)

    def __init__(
        self,
        X: Any,
        y: ArrayLike | str | None,
        family: Family,
        prior: Prior | Sequence[Prior] | Mapping[str, Prior] | None = None,
        *,
        offset: ArrayLike | str | None = None,
        weights: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        names: Sequence[str] | None = None,
        design: Sequence[str] | None = None,
        scale_design: Any = None,
    ) -> None:
        if not isinstance(family, Family):
            raise InputError(f"family: {family!r} was given; expected e.g. tb.families.Bernoulli().")
        if exposure is not None:
            refuse_exposure(family)
        X, y = mapped_file(X), mapped_file(y)
        if by_columns(X, y):
            if names is not None:
                raise InputError(
                    "names: given beside a table, whose columns have names; expected None, or design=[...]."
                )
            X = open_source(
                X,
                response=y,  # type: ignore[arg-type]
                design=design,
                offset=offset,  # type: ignore[arg-type]
                weights=weights,  # type: ignore[arg-type]
                exposure=exposure,  # type: ignore[arg-type]
                scale_design=scale_design,
            )
            y = offset = weights = exposure = design = None
        further: list[str] = []
        beside = {"y": y, "weights": weights, "offset": offset, "exposure": exposure}
        if isinstance(X, Source):
            _refuse_beside_a_source({**beside, "names": names, "design": design})
            source: Source = X
            _refuse_empty(source)
            family.check_rows(source.n)
            family = family.for_responses(_counting_responses(source))
            further = last_columns(source, scale_design) if scale_design is not None else []
        else:
            if design is not None:
                raise InputError("design: given beside an array, of which all columns are used: expected None.")
            refuse_other_order({"X": X, **beside, "scale_design": scale_design})
            source = _source(X, beside, family, names)
            family = family.for_responses(_counting_responses(source))
            further = add_columns(source, scale_design) if scale_design is not None else []
        before = source.passes
        columns = list(source.names)[: len(source.names) - len(further)]
        self.structure, self.further = family.structure(columns, further), len(further)
        self.names = list(self.structure.names)
        self.family, self.rows = family, family.rows
        self.predictors: Predictors = predictors_of(self.structure.lines, self.d)
        self.source = source
        with silence():  # a moment's compilation, which is not worth a word
            self.profile: Profile = self._look_at(source)
        self.checking_passes = source.passes - before
        if self.profile.weight == 0.0:
            raise InputError(WITHOUT_WEIGHT)
        refuse_unusable_columns(self.profile.largest, source.names, self.further)
        self.unit = scale = family.predictor_scale(self.profile.responses, self.profile.weights)
        if isinstance(source, ArraySource):
            coded, weight = family.encode(source.responses[:, 0], source.weight)
            source.responses, source.weight = coded[:, None], np.atleast_1d(weight)
        elif type(family).encode is not Family.encode:
            self.source = EncodedSource(source, family.encode)
            self.source.kept_samples.update(source.kept_samples)
            source.kept_samples.clear()
        own, further_given = parted(prior, columns, self.structure, self._terms())
        self.prior = each(own, columns)
        level = family.predictor_level(self.profile.responses)
        some = SomeColumns.of(self.profile, 0, len(columns))._replace(level=level)
        resolved = self.prior.resolve(some, scale)
        _refuse_without_scale(resolved, columns)
        refuse_constant(self, own, resolved, some, columns)
        self.coefficient_priors = all_priors(self, resolved, some, further_given)
        _refuse_without_scale(self.coefficient_priors, self.names)

    def _terms(self) -> dict[str, list[str]] | None:
        """Return the parameters of each term by which priors may be given; None where there are no terms."""
        return None

    @property
    def columns(self) -> list[str]:
        """Names of the design's columns, those of a design of the scale at the end."""
        return list(self.source.names)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The parameters as variables of a result."""
        return self.structure.outputs

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is called; empty if it has no meaning."""
        return self.family.ratio

    def _look_at(self, source: Source) -> Profile:
        """Return the facts about all rows; where rows come by passes, gather the subsamples in the same one."""
        family, names, n, further = self.family, source.names, source.n, self.further
        takes_offset = any(line.offset_sign for line in self.structure.lines)
        if RANDOM_ACCESS in source.offers:
            return source.reduce(_profile, family, names, n, takes_offset, further)
        sizes = sorted({min(n, size) for size in (*(subsample_sizes(n, self.d)[-1:] or [START_ROWS]), FEW_ROWS)})
        chosen = tuple(source.sampled(size) for size in sizes)
        profile, rows = source.reduce(_profile_and_rows, family, names, n, takes_offset, further, chosen)
        source.keep_samples(dict(zip(sizes, rows, strict=True)))
        return profile

    @property
    def mode_advice(self) -> str:
        """A proper prior, where there is none, and a look at the data."""
        proper = bool(np.all(self.coefficient_priors.proper))
        prior = "" if proper else "Give the coefficients a proper prior, e.g. prior=tb.priors.Normal(0, 2.5). "
        return (
            f"{prior}Look for responses, offsets and weights out of all proportion, and for columns on very "
            "different scales; rescale them so that typical values are near 1."
        )

    def starting_point(self, source: Source) -> Vector:
        """Return least squares on the family's guess of the predictor."""
        block = source.subsample(min(source.n, START_ROWS)).whole.converted()
        target = self.family.starting_predictor(block.responses[:, 0])
        if block.offset.size > 1:  # a start must not be led astray by a few rows whose offsets are extreme
            target = without_outliers(target - block.offset, robust_spread(target, np.ones(1)))
        else:
            target = target - block.offset
        return starting_parameters(self, block, target)

    def refuse_improper(self, threads: int | None) -> None:
        """Raise if rows that are fitted exactly leave the density of an unknown scale without an end."""
        refuse_endless_scale(self, threads)

    def reason_without_mode(self, theta: Vector) -> str:
        """Return that the scale went to 0 because many rows are fitted exactly, if they are."""
        return fitted_exactly(self, theta)

    def holding_ridge(self, source: Source) -> Vector:
        """Return a ridge that keeps a coefficient finite when the rows do not speak of it."""
        spread = np.sqrt(source.reduce(_squares) / source.n)
        ridge = (spread / 5.0) ** 2 + 1e-8 * np.max(spread) ** 2
        return ridge_of_parameters(self, ridge)

    def refuse_bounds(self, m: int, *, local: bool) -> None:
        """Raise if the paper's bound is asked for and the family has none."""
        if not local and not self.predictors.linear:
            raise InputError(
                f"{self.family} has several predictors for each row, and no global bound. Use bound=tb.bounds.Local()."
            )
        if not local and not math.isfinite(self.family.supremum(m)):
            raise InputError(
                f"{self.family} has no global bound of order {m - 1}: its derivative of order {m} is "
                "unbounded. Use bound=tb.bounds.Local()."
            )

    # -- predictions --

    @property
    def predicting(self) -> Predictors:
        """The predictors that the distribution of a response is a function of."""
        own = len(self.columns) - self.further
        return predictors_of(self.family.predicting(self.columns[:own], self.columns[own:]), self.d)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Mean, standard deviation and quantiles of each column, and its values if there are two."""
        size = min(self.n, START_ROWS)
        quantiles = np.quantile(np.asarray(self.source.subsample(size).X, dtype=np.float64), LEVELS, axis=0)
        return {
            name: Variable(**about, quantiles=dict(zip(LEVELS, quantiles[:, j].tolist(), strict=True)))
            for j, (name, about) in enumerate(self._facts().items())
        }

    def rows_of(
        self,
        new_data: Any = None,
        *,
        offset: ArrayLike | None = None,
        setting: Setting | None = None,
        beside: Sequence[str] = (),
    ) -> Source:
        """Return rows to predict: the model's own, or new ones, with some columns set to other values.

        Parameters
        ----------
        new_data : array_like or Source or None
            An array with the model's columns, a frame that has them by name, or a source; None for the model's own
            rows.
        offset : array_like or None
            Known part of each row's predictor, for new rows; needed if the model has one.
        setting : mapping or None
            What to put in the place of columns: a value for all rows, one for each, or a `Shift`.
        beside : sequence of str
            Columns whose values, before they are set, stand beside the response: as further columns of a block's
            responses (of a factor, the numbers of its levels).

        Returns
        -------
        Source
            The rows; responses are zero if there are none.
        """
        if new_data is None:
            if offset is not None:
                raise InputError("offset: an offset was given without new_data; the model's own rows have theirs.")
            source = self.source
        else:
            source = new_rows(new_data, self.columns, offset, self.has_offset)
        for name in [*(setting or {}), *beside]:
            known(self.columns, name, "setting" if setting and name in setting else "by")
        return AlteredSource(source, setting or {}, beside) if setting or beside else source

    def family_of(self, new_data: Any = None) -> Family:
        """Return the family that responses of rows are drawn from; raise if that of new rows is not known.

        Parameters
        ----------
        new_data : array_like or Source or None
            The rows, as for `rows_of`.

        Returns
        -------
        Family
            The model's own.
        """
        return self.family if new_data is None else for_new_rows(self.family)

    @cached_property
    def has_offset(self) -> bool:
        """Whether rows have an offset; of rows that are not in memory, by the first block."""
        source = self.source
        offset = source.offset if isinstance(source, ArraySource) else next(iter(source.blocks())).offset
        return bool(np.any(offset != 0.0))

    def to_json(self) -> str:
        """Return what predictions of new rows need of the model, without its data."""
        return store(self.family, self.columns, self.further, self.has_offset, self._facts())

    def _facts(self) -> dict[str, dict[str, Any]]:
        """Return what the profile tells of each column."""
        low, high = self.profile.values
        return {
            name: {
                "kind": "numeric",
                "levels": (float(low[j]), float(high[j])) if low[j] < high[j] else (),
                "mean": float(self.profile.mean[j]),
                "sd": float(self.profile.sd[j]),
            }
            for j, name in enumerate(self.columns)
        }

    def __repr__(self) -> str:
        """Describe the model in a line."""
        columns = counted(len(self.source.names), "column")
        return f"Regression({counted(self.n, 'row')} x {columns}, {self.family}, {self.prior})"


def _refuse_beside_a_source(given: dict[str, object]) -> None:
    """Raise if something is given that a source has itself."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name}: a {type(value).__name__} was given beside a source of rows; expected None, since a source "
                "has response, offset, weights and names itself. Put it into the source's blocks."
            )


def _counting_responses(source: Source) -> NDArray[np.float64] | None:
    """Return the responses of rows that have a weight, if they are in memory."""
    if not isinstance(source, ArraySource):
        return None
    responses = source.responses[:, 0]
    return responses if np.all(source.weight) else responses[source.weight > 0.0]


def _refuse_empty(source: Source) -> None:
    """Raise unless a source has rows, and names for its columns."""
    if isinstance(source.n, bool) or not isinstance(source.n, int | np.integer):
        raise InputError(f"X: {type(source).__name__} has n = {source.n!r}; expected a whole number of rows.")
    if source.n < 1 or not hasattr(source, "names"):
        raise InputError(
            f"X: {type(source).__name__} has n = {source.n} and "
            f"{'names' if hasattr(source, 'names') else 'no names'}; expected at least one row, and a list of "
            "the columns' names."
        )


def _refuse_without_scale(priors: CoefficientPriors, names: list[str]) -> None:
    """Raise if the default prior of a column is infinitely wide: there is nothing to scale it by."""
    without = np.flatnonzero((priors.kind == NORMAL) & np.isinf(priors.scale))
    if without.size:
        raise InputError(
            f"prior: column {names[without[0]]!r} is zero in every row with a weight, so the default prior has no "
            "scale for its coefficient. Drop the column, or give its coefficient a prior."
        )


def refuse_exposure(family: Family) -> None:
    """Raise if a family has no rate that an exposure could multiply."""
    if not isinstance(family, CountResponse):
        raise InputError(
            f"exposure: one was given with {family!r}; expected a family of counts, such as tb.families.Poisson(). A "
            "known part of another family's predictor is an offset."
        )


def _source(X: Any, beside: dict[str, Any], family: Family, names: Sequence[str] | None) -> Source:
    """Return arrays as a source, after checking their shapes; a pass checks their values."""
    y = beside["y"]
    if y is None:
        raise InputError("y: None was given; expected one response for each row of X.")
    if is_dask(X):
        return of_arrays(X, {"response": y, **{what: beside[what] for what in BESIDE[1:]}}, names)
    mapped = is_mapped(X)
    names = column_names(X) if names is None else names
    design = design_matrix(X)
    n = design.shape[0]
    columns = _names(names, design.shape[1])
    response = numeric(y, RESPONSE)
    if response.shape == (n, 1):
        response = response[:, 0]
    if response.shape != (n,):
        raise InputError(f"y: shape {response.shape} was given; X has {counted(n, 'row')}, so ({n},) was expected.")
    family.check_rows(n)
    weight, known = frequency_weights(beside["weights"], n), per_row(beside["offset"], n, "offset", 0.0)
    if beside["exposure"] is not None:
        known = known + log_exposure(per_row(beside["exposure"], n, "exposure", 1.0))
    if mapped:
        return MemoryMapSource(design, response[:, None], weight, known, columns)
    response = writable_view(np.ascontiguousarray(response, dtype=np.float64))
    source = ArraySource(design, response[:, None], weight, known, columns)
    if isinstance(X, np.ndarray) and not np.may_share_memory(X, design):
        source.copied_bytes = design.nbytes
    return source


def _profile(block: Block, family: Family, names: list[str], n: int, takes_offset: bool, further: int) -> Profile:
    """Return the facts about a block of a regression, or raise if a value of X or y cannot be used."""
    if block.X.shape != (block.count, len(names)):
        raise InputError(
            f"X: the block that begins at row {block.first} has shape {block.X.shape}; expected {block.count} rows, "
            f"one for each response, and {len(names)} columns, one for each name of the source."
        )
    _refuse_beside_rows(block)
    if not takes_offset and np.any(block.offset):
        raise InputError(
            f"offset: one was given, and {family!r} has no predictor that it belongs to; leave it out."
        )
    profile = profile_block(block, names, n, further)
    y = block.responses[:, 0]
    bad = np.flatnonzero(~(np.abs(y) <= LARGEST_COLUMN))
    if bad.size:
        i, value = block.first + bad[0], y[bad[0]]
        if not math.isfinite(value):
            raise InputError(f"y: row {i} is {value}; every response must be finite. Drop such rows first.", row=i)
        raise InputError(f"y: row {i} is {value:.3g}, whose powers no float64 holds. Rescale the response.", row=i)
    outside = np.flatnonzero(family.unsupported(y, block.first))
    if outside.size:
        i, last = int(outside[0]), block.first + block.count - 1
        where = "" if block.count == n else f" among rows {block.first} to {last}"
        count = "1 such row" if outside.size == 1 else f"{outside.size:,} such rows"
        raise InputError(
            f"y: row {block.first + i} is {y[i]:g} ({count}{where}); {family} takes {family.support}.",
            row=block.first + i,
        )
    return profile


def _refuse_beside_rows(block: Block) -> None:
    """Raise unless a row has one response, a finite offset, and a weight that is zero or positive.

    Arrays and tables have been found out before; rows of somebody's own source have not.
    """
    if block.responses.shape[1] != 1:
        raise InputError(
            f"y: the block that begins at row {block.first} has responses of shape {block.responses.shape}; expected "
            f"({block.count}, 1), one response for each row."
        )
    usable = np.isfinite(block.offset), np.isfinite(block.weight) & (block.weight >= 0.0)
    for what, values, good in zip(("offset", "weights"), (block.offset, block.weight), usable, strict=True):
        if not np.all(good):
            i = int(np.argmin(good))
            wanted = "finite" if what == "offset" else "finite, and zero or positive"
            raise InputError(
                f"{what}: row {block.first + i} has {values[i]:g}; every value must be {wanted}.",
                row=block.first + i,
            )


def _profile_and_rows(
    block: Block,
    family: Family,
    names: list[str],
    n: int,
    takes_offset: bool,
    further: int,
    chosen: tuple[NDArray[np.int64], ...],
) -> tuple[Profile, tuple[GatheredRows, ...]]:
    """Return the facts about a block, and those of its rows that are in subsamples, coded as kernels take them."""
    profile = _profile(block, family, names, n, takes_offset, further)
    coded, weight = family.encode(block.responses[:, 0], block.weight, block.first)
    block = block._replace(responses=coded[:, None], weight=np.atleast_1d(weight))
    return profile, tuple(gather_rows(block, rows) for rows in chosen)


def _squares(block: Block) -> Vector:
    return np.asarray(np.einsum("ij,ij->j", block.X, block.X))


def _names(names: Sequence[str] | None, d: int) -> list[str]:
    if isinstance(names, str):
        raise InputError(f"names: {names!r} was given; expected a list with one name for each of the {d} columns.")
    result = [str(name) for name in names] if names is not None else [f"x{j}" for j in range(d)]
    if len(result) != d:
        raise InputError(f"names: {len(result)} were given; X has {counted(d, 'column')}.")
    repeated = sorted({name for name in result if result.count(name) > 1})
    if repeated:
        raise InputError(f"names: {repeated[0]!r} stands for more than one column; names must differ.")
    return result
