"""Scalable Metropolis-Hastings: a surrogate for all rows together, and thinning of what it leaves out."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import instance_or_none, is_count, is_number
from tallbayes.errors import InputError
from tallbayes.kernels import costs
from tallbayes.kernels.all_rows import answer_from
from tallbayes.kernels.base import Behaviour, Kernel, Prepared
from tallbayes.kernels.chunks import chunks
from tallbayes.kernels.monitor import exceeds
from tallbayes.kernels.scalable_mh_steps import initial_state
from tallbayes.kernels.surrogate_values import evaluators
from tallbayes.kernels.target import Surrogate, Target, Terms, likelihood_of, prior_at, terms_at
from tallbayes.models.base import Model
from tallbayes.proposals import CrankNicolson, PreconditionedWalk, Proposal, SurrogateSteps
from tallbayes.proposals.affine import AffineProposal
from tallbayes.setup.bounds import Bound, Global, Local, gaussian_radius
from tallbayes.setup.bundles import no_bundles
from tallbayes.setup.core import Core, core_at, core_of, no_core
from tallbayes.setup.exact_prior import exact_at
from tallbayes.setup.expansion import Expansion
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import Polynomial, evaluate, polynomial, steepest_fall, subtract, without_first
from tallbayes.setup.setup import Setup
from tallbayes.setup.stand_ins import drawn_by_bounds, skewness, with_stand_ins
from tallbayes.setup.tables import Tables, no_tables, put_draws, tables_at, tabulate
from tallbayes.sources.base import RANDOM_ACCESS, SUPPLY

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ScalableMH(Kernel):
    r"""The paper's SMH-k, truncated at R ((P), eq:afmh and eq:tfmh-acc-prob).

    .. math:: \alpha = \left(1 \wedge \frac{\hat\pi_k(\theta') q(\theta', \theta)}
              {\hat\pi_k(\theta) q(\theta, \theta')}\right)
              \prod_i 1 \wedge \exp(r_i(\theta) - r_i(\theta'))

    with r_i the remainder of row i's potential after its Taylor expansion of order k; the prior is exact,
    inside the first factor. Where the rate of the thinning reaches R, or the bound does not hold, the step is
    a plain Metropolis-Hastings step on all rows.

    Parameters
    ----------
    order : int or None
        Order of the expansion, 1, 2 or 3; chosen by the planner by default.
    bound : Global or Local or None
        Bound of the remainders; defaults to the local one, where the model has it.
    proposal : Proposal or None
        Where to go; defaults to one that suits the order and the posterior's skewness.
    truncation : float or None
        R; ``math.inf`` never truncates. Defaults to the number of rows.
    sketch : bool or None
        Whether to keep a byte for each entry of the design, which settles most trials without reading the row
        itself; with local bounds only. By default the number of draws decides.
    core : bool or None
        Whether the rows that speak of coefficients with long tails are evaluated exactly in the surrogate; with local
        bounds only. By default True if the planner chooses the order, else False.
    stand_ins : int
        Rows that stand for all in the surrogate, beside the expansion: some hundred, drawn once, by how much they
        could move. The surrogate then follows a skewed posterior into its tails, and steps are proposed from tables
        of it along every coordinate; every step is accepted on all rows, so ``truncation=0`` is needed. Defaults to
        none.
    """

    order: int | None = None
    bound: Global | Local | None = None
    proposal: Proposal | None = None
    truncation: float | None = None
    sketch: bool | None = None
    core: bool | None = None
    stand_ins: int = 0
    needs = frozenset({SUPPLY})

    def __post_init__(self) -> None:
        if self.order is not None and not (is_count(self.order, 1) and self.order <= 3):
            raise InputError(f"ScalableMH: order={self.order!r} must be 1, 2 or 3 (or None).")
        check_parts("ScalableMH", self.bound, self.proposal, self.truncation)
        for name, part in (("sketch", self.sketch), ("core", self.core)):
            if not (part is None or isinstance(part, bool | np.bool_)):
                raise InputError(f"ScalableMH: {name}={part!r} must be True or False, or None to have it chosen.")
            if part and isinstance(self.bound, Global):
                raise InputError(
                    f"ScalableMH: {name}=True needs local bounds; leave bound=None or use tb.bounds.Local()."
                )
        if not is_count(self.stand_ins, 0):
            raise InputError(f"ScalableMH: stand_ins={self.stand_ins!r} must be a whole number, 0 or more.")
        if self.stand_ins and self.order not in (None, 2):
            raise InputError(
                f"ScalableMH: stand_ins={self.stand_ins} needs order=2, or None; order={self.order} was given."
            )
        if self.stand_ins and (self.truncation != 0.0 or isinstance(self.bound, Global)):
            raise InputError(
                f"ScalableMH: stand_ins={self.stand_ins} needs truncation=0.0 and local bounds: what they propose "
                f"is accepted on all rows. truncation={self.truncation!r} and bound={self.bound!r} were given."
            )

    def refuse_mismatch(self, model: Model) -> None:
        """Raise if the model has no bounds, or a sketch or stand-ins are asked for where there can be none."""
        super().refuse_mismatch(model)
        if self.is_open and not model.orders:
            raise InputError(
                "ScalableMH: the model has no bounds of its rows. Give some, e.g. tb.Factors(..., bounds={3: ...}), or "
                "use tb.kernels.MetropolisHastings()."
            )
        if self.sketch and not model.predictors.linear:
            raise InputError(
                "ScalableMH: sketch=True needs local bounds and one linear predictor, which this model does not have; "
                "leave sketch=None."
            )
        if self.stand_ins and not (model.predictors.linear and model.family.convex):
            raise InputError(
                f"ScalableMH: stand_ins={self.stand_ins} needs one linear predictor and a log-concave likelihood, "
                "which this model does not have; leave it out."
            )
        for name, asked in (("sketch=True", self.sketch), (f"stand_ins={self.stand_ins}", self.stand_ins)):
            if asked and RANDOM_ACCESS not in model.source.offers:
                raise InputError(
                    f"ScalableMH: {name} needs {RANDOM_ACCESS!r} to its rows, which "
                    f"{type(model.source).__name__} does not offer; leave it out."
                )

    @property
    def is_open(self) -> bool:
        """Whether the order is to be chosen."""
        return self.order is None and not self.stand_ins

    def filled(self, best: Kernel) -> Kernel:
        """Return this kernel with order and sketch as in the best, where they were left open."""
        assert isinstance(best, ScalableMH)
        sketch = best.sketch and not isinstance(self.bound, Global) if self.sketch is None else self.sketch
        core = not isinstance(self.bound, Global) if self.core is None else self.core
        return replace(self, order=best.order, sketch=sketch, core=core)

    def widened(self, radius: float) -> Kernel | None:
        """Return this kernel with a larger ball, unless the user chose one or every step is on all rows."""
        free = self.bound in (None, Local()) and self.truncation != 0.0
        return replace(self, bound=Local(radius)) if free else None

    def into_tails(self, model: Model, setup: Setup) -> Kernel | None:
        """Return a kernel with stand-ins, if rows outside the core make a coefficient skewed.

        Of few rows with several predictors, one whose surrogate is of order 3: a scale, a size, rare classes are skewed
        there as a rule, and all rows cost little more than those that thinning reads.
        """
        bound = self.bound or default_bound(model)
        if not model.predictors.linear:
            few = model.n <= FEW_OF_SEVERAL and 3 in model.orders and RANDOM_ACCESS in model.source.offers
            return ScalableMH(order=3, truncation=0.0, proposal=SurrogateSteps()) if few else None
        here = model.family.convex and RANDOM_ACCESS in model.source.offers
        if self.stand_ins or not here or not bound.local or setup.tails.whole:
            return None
        core = bool(self.core) and setup.tails.first.size > 0
        inner = SurrogateSteps().steps
        if core and inner * setup.tails.rows.weight.size > model.n + inner * STAND_INS:  # dearer than all rows
            return ScalableMH(order=2, truncation=0.0, sketch=False, core=False, stand_ins=STAND_INS)
        psi = _psi(setup, bound, int(self.order or model.orders[0]), core)
        if not np.any(psi):
            return None
        found = skewness(model, setup.metric, drawn_by_bounds(model, psi, STAND_INS))
        if not np.max(np.abs(found)) > SKEWED_BY_ALL:
            return None
        return ScalableMH(order=2, truncation=0.0, sketch=False, core=self.core, stand_ins=STAND_INS)

    def _prepare(self, model: Model, setup: Setup) -> Prepared:
        bound = self.bound or default_bound(model)
        order = 2 if self.stand_ins else int(self.order or model.orders[0])
        core = bool(self.core) and bound.local and setup.tails.first.size > 0
        return prepare_thinning(
            self,
            model,
            setup,
            order,
            bound,
            self.proposal,
            self.truncation,
            sketch=bool(self.sketch),
            core=core,
            stand_ins=self.stand_ins,
        )


def check_parts(owner: str, bound: Any, proposal: Any, truncation: Any) -> None:
    """Raise unless each part is None or what it should be; R is a non-negative number."""
    instance_or_none(owner, "bound", bound, (Global, Local), "tb.bounds.Local()")
    instance_or_none(owner, "proposal", proposal, (Proposal,), "tb.proposals.CrankNicolson(rho=0.0)")
    if truncation is not None and not (is_number(truncation) and truncation >= 0.0):
        raise InputError(f"{owner}: truncation={truncation!r} must be a number >= 0, math.inf, or None.")


def default_bound(model: Model) -> Global | Local:
    """Return the tightest kind of bound that a model has."""
    return Local() if model.has_local_bounds else Global()


SELDOM = 1e-3
"""Divided by the number of rows, the probability of states that a proposal need not care about."""
SKEWED = 0.25
"""Spread of the surrogate less its Gaussian under that Gaussian, above which it is sampled with several steps: an
independence sampler then accepts less than about 1 - 0.25 sqrt(2 / pi) = 0.8 of its proposals."""
STAND_INS = 512
"""Stand-ins that the planner takes: their sum is then right to a hundredth in the posterior's bulk."""
FEW_OF_SEVERAL = 1_250
"""Rows with several predictors on all of which a step is accepted: 4,000 draws then take about a second."""
SKEWED_BY_ALL = 0.25
"""Skewness of a coefficient, by rows that are not core rows, from which on they are taken: of about sixteen events."""
SPREAD_POINTS = 512
ANYWHERE = 1e300
"""How deep a convex surrogate may be, less its Gaussian part: trials on it need not be kept in a region."""
TABLE_SLACK = 2.0
"""How far below its value at the centre the surrogate less G may be, because tables are not those of all directions."""


def tables_of(last: int, first: int, metric: Metric, expansion: Expansion, core: Core) -> Tables:
    """Return tables of the first and the last coordinates: of the surrogate along them, the others being at the centre.

    Along the coordinate of a coefficient whose rows are in the core, that is the posterior itself. Where only the prior
    is no normal, at the last coordinates, the cubic is left out: it has no minimum.
    """
    if expansion.order < 2:
        return no_tables()
    d = metric.d
    smooth = expansion.surrogate._replace(cubic=np.zeros(0))

    def along(axis: int, points: Vector) -> Vector:
        z = np.zeros((points.size, d))
        z[:, axis] = points
        polynomial = expansion.surrogate if axis < first else smooth
        values = evaluate(polynomial, z) + exact_at(expansion.exact, z)
        return np.asarray(values + core_at(core, z) if axis < first else values)

    return tabulate([*range(first), *range(d - last, d)], metric.gradient, along)


def default_proposal(
    expansion: Expansion,
    metric: Metric,
    radius: float,
    n: int,
    core: Core,
    tables: Tables,
    core_axes: int,
    *,
    joint: bool = False,
) -> Proposal:
    """Return a proposal that suits an expansion: nearly independent draws, and walks against sticking in tails.

    Along a direction where the cubic falls as -c r^3 the surrogate falls beyond r = 1 / (3 c). If that is within
    the radius, independent draws would stick there; several steps on the surrogate do not. Nor do they in a joint tail
    of several tabulated coordinates, which tables of each do not show.
    """
    # The fewer rows, the heavier may be the tails that no expansion shows; a walk costs a few steps' time.
    walk_every = 64 if n > 20_000 else 8 if n > 500 else 4
    if expansion.order == 1:
        return PreconditionedWalk(1.0)
    spread = _spread(expansion, metric, core, tables)
    tabulated = tables.axes.size > 0
    # Along the first coordinates, if their rows are in the core, the surrogate is no cubic.
    cubic, d = without_first(expansion.surrogate.cubic, metric.d, int(np.sum(tables.axes < core_axes)))
    falls = cubic.size > 0 and 3.0 * steepest_fall(cubic, d) * radius > 1.0
    if falls or joint or not spread <= SKEWED:
        return SurrogateSteps(walk_every=min(walk_every, 16), tabulated=tabulated)
    if expansion.order == 2 and not tabulated:
        # Steps to the other side make up for the draws that a rejection repeats.
        return CrankNicolson(rho=0.04, antithetic=True, walk_every=walk_every)
    nearly_gaussian = n > 20_000 and spread < SKEWED / 2.5
    return CrankNicolson(rho=0.0, walk_every=512 if nearly_gaussian else walk_every, tabulated=tabulated)


def _spread(expansion: Expansion, metric: Metric, core: Core, tables: Tables) -> float:
    """Return the standard deviation of the surrogate less a proposal's G, under that proposal; NaN if infinite."""
    excess = subtract(expansion.surrogate, polynomial(metric.gradient, isotropic=1.0))
    rng = np.random.default_rng(0)
    z = rng.standard_normal((SPREAD_POINTS, metric.d))
    if tables.axes.size:
        put_draws(tables.lines, tables.facts, z, rng)
    values = terms_at(Terms(excess, expansion.exact, core, tables), z)
    return float(np.std(values)) if np.all(np.isfinite(values)) else math.nan


def prepare_thinning(
    kernel: Kernel,
    model: Model,
    setup: Setup,
    order: int,
    kind: Global | Local,
    proposal: Proposal | None,
    truncation: float | None,
    *,
    sketch: bool = False,
    core: bool = False,
    stand_ins: int = 0,
) -> Prepared:
    """Return what every thinning kernel needs, for an expansion of the given order."""
    metric, tails = setup.metric, setup.tails
    # First, because a pass then gives both the sketch and the bounds.
    bundles = setup.bundles(kind, order, core=core) if sketch else no_bundles()
    bounds, expansion = setup.bounds(kind, order, core=core), setup.expansion(order)
    free = tails.first.size if core else 0
    exact = core_of(model, metric, tails.rows, order) if core else no_core(model)
    radius, skewed = bounds.radius, free
    if stand_ins:
        rows = drawn_by_bounds(model, _psi(setup, kind, 1, core), stand_ins)
        expansion, exact = with_stand_ins(model, metric, expansion, exact, rows)
        radius, skewed = math.inf, model.d - tails.last.size  # no bound is used: steps are accepted on all rows
    tables = setup.once(
        ("tables", order, core, stand_ins), lambda: tables_of(tails.last.size, skewed, metric, expansion, exact)
    )
    room = min(bounds.radius, gaussian_radius(model.d, SELDOM / model.n))
    joint = stand_ins > 0 or (core and tails.tied)
    if proposal is None:
        proposal = default_proposal(expansion, metric, room, model.n, exact, tables, free, joint=joint)
    move, reference = proposal.plan(metric, model.n)
    if order == 2 and exact.size and model.family.convex:
        move = move._replace(inner_floor=ANYWHERE)
    limit = float(model.n) if truncation is None else float(truncation)
    supply = setup.supply(kind, order, core=core, table=not sketch)
    sums = bounds.sums._replace(total=bundles.total) if sketch else bounds.sums
    terms = _terms(expansion, reference, exact, tables if proposal.tabulated else no_tables())
    target = Target(
        metric.matrix,
        Bound(kind.local, order, *sums, radius, limit, free),
        supply.rows,
        likelihood_of(model, metric),
        Surrogate(terms, *evaluators(terms)),
        subtract(expansion.prior, reference),
        bundles,
    )
    plan = {
        "kernel": type(kernel).__name__,
        "order": order,
        "bound": repr(kind),
        "radius": radius,
        "truncation": limit,
        "proposal": repr(proposal),
        "sketch": sketch,
        "mode_passes": setup.mode.passes,
    }
    plan |= _plan_of_tails(setup, terms.tables, core=core, stand_ins=stand_ins)
    shared = (*supply.rows[4:], *bundles[:4]) if supply.endless else ()
    return Prepared(
        model,
        metric,
        target,
        move,
        initial_state,
        chunks(model, move, sketch=sketch),
        200,
        plan,
        partial(step_cost, model.n, model.d, order, move, exact.size),
        supply,
        answer_from(model, metric, prior_at),
        partial(exceeds, model.rows),
        table_bytes=sum(array.nbytes for array in shared) + expansion.surrogate.padded.nbytes,
        chain_bytes=0 if supply.endless else supply.chain_bytes,
        radius=radius if kind.local else math.inf,
        tables=terms.tables,
        free=free,
    )


def _terms(expansion: Expansion, reference: Polynomial, core: Core, tables: Tables) -> Terms:
    """Return what the surrogate, less the proposal's G, is the sum of."""
    slack = expansion.exact.slack
    if tables.axes.size:  # they are normalised, so their G is not zero at the centre
        slack += TABLE_SLACK + float(tables_at(tables, np.zeros((1, reference.linear.size)))[0])
    return Terms(subtract(expansion.surrogate, reference), expansion.exact._replace(slack=slack), core, tables)


def _psi(setup: Setup, kind: Global | Local, order: int, core: bool) -> Vector:
    """Return the bounds of all rows, which are in memory."""
    psi = setup.bounds(kind, order, core=core).drawing.psi
    assert psi is not None
    return psi


def _plan_of_tails(setup: Setup, tables: Tables, *, core: bool, stand_ins: int) -> dict[str, Any]:
    """Return what a plan says of tails: of core rows, stand-ins and tables."""
    names, tails, metric = setup.model.names, setup.tails, setup.metric
    found: dict[str, Any] = {"stand_ins": stand_ins} if stand_ins else {}
    if core:
        found |= {"core_rows": tails.rows.weight.size, "core_of": [names[j] for j in tails.first]}
    if tables.axes.size:
        found["tabulated"] = [names[metric.order[t]] for t in tables.axes]
    return found


def step_cost(n: int, d: int, order: int, move: AffineProposal, core: int, seen: Behaviour) -> float:
    """Return the nanoseconds of a step, from what a rehearsal did and the bundles drawn from a sketch."""
    rows = max(seen.rows - seen.full_passes * n - core * move.inner, 0.0)
    sketched = seen.events * costs.bundle(d, seen.bundle) + min(1.0, seen.events) * costs.sketched_step(n, d)
    inner = (move.inner - 1) * (costs.step(d, order) + costs.cubic(d)) if move.inner > 1 else 0.0
    walks = costs.walk(d, order) / move.walk_every if move.walk_every else 0.0
    reading = rows * costs.random_row(n, d) + sketched + seen.full_passes * 2 * n * costs.full_row(d)
    return costs.step(d, order) + inner + walks + reading + core * move.inner * costs.core_row(d)
