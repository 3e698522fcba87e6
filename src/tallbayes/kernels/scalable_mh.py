"""Scalable Metropolis-Hastings: a surrogate for all rows together, and thinning of what it leaves out."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallbayes.checks import instance_or_none, is_count, is_number
from tallbayes.errors import InputError
from tallbayes.kernels import thinning
from tallbayes.kernels.base import Kernel, Prepared
from tallbayes.kernels.target import Target
from tallbayes.models import Model
from tallbayes.proposals import CrankNicolson, PreconditionedWalk, Proposal, SurrogateSteps
from tallbayes.surrogate.alias import row_sampler
from tallbayes.surrogate.basis import Basis, find_basis
from tallbayes.surrogate.bounds import Bound, Global, Local, gaussian_radius
from tallbayes.surrogate.exact_prior import add_exact
from tallbayes.surrogate.expansion import Expansion, Whitening, expand
from tallbayes.surrogate.polynomial import WIDTH, evaluate_columns, polynomial, steepest_fall, subtract
from tallbayes.surrogate.sketch import draw_sketch, no_sketch


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
        Order of the expansion, 1, 2 or 3; `tallbayes.sample` chooses one if None.
    bound : Global or Local or None
        Bound of the remainders; None takes the local one, where the model has it.
    proposal : Proposal or None
        Where to go; None takes one that suits the order and the posterior's skewness.
    truncation : float or None
        R; ``math.inf`` never truncates, None takes the number of rows.
    sketch : bool or None
        Whether to keep a byte for each entry of the design, which settles most trials without looking at the row
        itself; with local bounds only. None decides by the number of draws.
    """

    order: int | None = None
    bound: Global | Local | None = None
    proposal: Proposal | None = None
    truncation: float | None = None
    sketch: bool | None = None

    def __post_init__(self) -> None:
        if self.order is not None and not (is_count(self.order, 1) and self.order <= 3):
            raise InputError(f"ScalableMH: order={self.order!r} must be 1, 2 or 3 (or None).")
        check_parts("ScalableMH", self.bound, self.proposal, self.truncation)
        if self.sketch and isinstance(self.bound, Global):
            raise InputError(
                "ScalableMH: sketch=True needs local bounds; leave bound=None or use tb.bounds.Local()."
            )

    def prepare(self, model: Model, *, threads: int | None = None, basis: Basis | None = None) -> Prepared:
        """Find the mode, expand around it, bound the remainders, and build the alias table."""
        if self.order is None and not model.orders:
            raise InputError("ScalableMH: the model has no bounds; give it some, or use MetropolisHastings().")
        bound = self.bound or default_bound(model)
        if self.sketch and not bound.local:
            raise InputError(
                "ScalableMH: sketch=True needs local bounds, which this model does not have; leave sketch=None."
            )
        return prepare_thinning(
            model,
            "ScalableMH",
            int(self.order or model.orders[0]),
            bound,
            self.proposal,
            self.truncation,
            threads,
            basis,
            sketch=bool(self.sketch),
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
"""Spread of the surrogate less its Gaussian under that Gaussian, above which it is sampled with several steps."""


def default_proposal(expansion: Expansion, whitening: Whitening, radius: float, n: int) -> Proposal:
    """Return a proposal that suits an expansion: nearly independent draws, and walks against sticking in tails.

    Along a direction where the cubic falls as -c r^3 the surrogate falls beyond r = 1 / (3 c). If that is within
    the radius, independent draws would stick there; several steps on the surrogate do not.
    """
    # The fewer rows, the heavier may be the tails that no expansion shows.
    walk_every = 64 if n > 20_000 else 8 if n > 500 else 4
    if expansion.order == 1:
        return PreconditionedWalk(1.0)
    spread = _spread(expansion, whitening)
    d, cubic = whitening.centre.size, expansion.surrogate.cubic
    falls = expansion.surrogate.has_cubic and 3.0 * steepest_fall(cubic, d) * radius > 1.0
    if falls or not spread <= SKEWED:
        return SurrogateSteps(walk_every=min(walk_every, 16))
    if expansion.order == 2:
        # Steps to the other side make up for the draws that a rejection repeats.
        return CrankNicolson(rho=0.04, antithetic=True, walk_every=walk_every)
    nearly_gaussian = n > 20_000 and spread < SKEWED / 2.5
    return CrankNicolson(rho=0.0, walk_every=512 if nearly_gaussian else walk_every)


def _spread(expansion: Expansion, whitening: Whitening) -> float:
    """Return the standard deviation, under the Gaussian, of the surrogate less that Gaussian; NaN if infinite."""
    gaussian = polynomial(whitening.gradient, isotropic=1.0)
    excess = subtract(expansion.surrogate, gaussian)
    values = np.zeros((8, WIDTH))
    rng = np.random.default_rng(0)
    for part in values:
        z = rng.standard_normal((whitening.centre.size, WIDTH))
        evaluate_columns(excess, z, part)
        add_exact(expansion.exact, z, part)
    return float(np.std(values)) if np.all(np.isfinite(values)) else math.nan


def prepare_thinning(
    model: Model,
    name: str,
    order: int,
    bound: Global | Local,
    proposal: Proposal | None,
    truncation: float | None,
    threads: int | None,
    basis: Basis | None,
    *,
    sketch: bool = False,
) -> Prepared:
    """Return what every thinning kernel needs, for an expansion of the given order."""
    mode, whitening = basis or find_basis(model, threads=threads)
    psi, shares, radius = bound.row_bounds(model, whitening, order, threads=threads)
    expansion = expand(model, whitening, order, threads=threads)
    room = min(radius, gaussian_radius(model.d, SELDOM / model.n))
    proposal = proposal or default_proposal(expansion, whitening, room, model.n)
    move, reference = proposal.plan(whitening, model.n)
    limit = float(model.n) if truncation is None else float(truncation)
    used = np.sum(psi) * shares[0] if shares.shape[0] == 1 else psi @ shares
    target = Target(
        model.source.rows,
        model.family.curve,
        whitening.centre,
        whitening.matrix,
        subtract(expansion.surrogate, reference),
        subtract(expansion.prior, reference),
        Bound(bound.local, order, float(np.sum(psi)), float(used[0]), float(used[1]), radius, limit),
        expansion.exact,
        row_sampler(psi, shares),
        draw_sketch(model, whitening, shares, threads=threads) if sketch else no_sketch(),
    )
    plan = {
        "kernel": name,
        "order": order,
        "bound": repr(bound),
        "radius": radius,
        "truncation": limit,
        "proposal": repr(proposal),
        "sketch": sketch,
        "mode_passes": mode.passes,
    }
    return Prepared(mode, whitening, target, move, thinning.initial_state, thinning.run_chunk, 200, plan)
