"""Several steps on the surrogate for each step on the data, mixed with walks: for skewed posteriors."""

from dataclasses import dataclass

from tallbayes.checks import is_count, is_number, positive
from tallbayes.errors import InputError
from tallbayes.proposals.affine import AffineProposal
from tallbayes.proposals.base import Plan, Proposal
from tallbayes.proposals.preconditioned_walk import walk_scale
from tallbayes.setup.metric import Metric
from tallbayes.setup.polynomial import polynomial

DEEPEST = 0.4
"""Inner trials stay where the surrogate is at least (1/2 - DEEPEST) |z|^2 above its value at the centre: a
cubic has no minimum, and further out along its falling side it says nothing about the posterior."""


@dataclass(frozen=True)
class SurrogateSteps(Proposal):
    r"""Make some Metropolis-Hastings trials on the surrogate alone, then one data-dependent acceptance.

    The trials take turns: one independent of the state, z' = m + xi, and one that keeps part of it,
    z' = m + keep (z - m) + sqrt(1 - keep^2) xi. Both are reversible for G(z) = |z - m|^2 / 2, so a trial is
    accepted with probability min(1, exp(-(S - G)(z') + (S - G)(z))) and is reversible for the surrogate S. An
    odd number of them reads the same backwards (K1 K2 K1 ... K1), so together they are reversible for S too,
    and that factor of the acceptance is dropped. They are confined to a region within the ball, so in between,
    every ``walk_every``-th step is a symmetric walk, which crosses its border; the order of the two kinds of
    step is fixed and depends on no state.

    Parameters
    ----------
    steps : int
        Trials on the surrogate for each step on the data, an odd number, 3 or more.
    keep : float
        Share of the state that every second trial keeps, 0 <= keep < 1.
    walk_every : int
        Every so many steps is a walk, 2 or more.
    walk_scale : float or None
        Length of the walk's steps in each coordinate, in posterior standard deviations; defaults to
        2 / sqrt(d).
    tabulated : bool
        Whether the independent trials draw coordinates in which the posterior has long tails, if there are any, from
        tables of their own density; the other trials then leave these coordinates as they are.
    """

    steps: int = 7
    keep: float = 0.9
    walk_every: int = 16
    walk_scale: float | None = None
    tabulated: bool = False
    on_surrogate = True

    def __post_init__(self) -> None:
        if not (is_count(self.steps, 3) and self.steps % 2 == 1):
            raise InputError(
                f"SurrogateSteps: steps={self.steps!r} must be 3, 5, 7, ...: two kinds of trial take "
                "turns, and only a sequence that reads the same backwards is reversible."
            )
        if not (is_number(self.keep) and 0.0 <= self.keep < 1.0):
            raise InputError(f"SurrogateSteps: keep={self.keep!r} must satisfy 0 <= keep < 1.")
        if not is_count(self.walk_every, 2):
            raise InputError(
                f"SurrogateSteps: walk_every={self.walk_every!r} must be a whole number, 2 or more: only walks "
                "cross the border of the ball that surrogate steps stay in."
            )
        if self.walk_scale is not None:
            positive("SurrogateSteps", "walk_scale", self.walk_scale)

    def plan(self, metric: Metric, n: int) -> Plan:
        """Return the proposal in z, where the surrogate is gradient . z + |z|^2 / 2 + ... and m = -gradient."""
        scale = walk_scale(metric.d) if self.walk_scale is None else float(self.walk_scale)
        move = AffineProposal(
            0.0,
            -metric.gradient,
            1.0,
            walk_every=int(self.walk_every),
            walk_scale=scale,
            inner=int(self.steps),
            inner_keep=float(self.keep),
            inner_floor=DEEPEST,
        )
        return Plan(move, polynomial(metric.gradient, isotropic=1.0))
