r"""Bounds on the remainders: how fast a step could be rejected by any row.

A bound gives each row a number psi_i, and each pair of states a number phi, such that the row's intensity
:math:`\lambda_i = \max(0, r_i(\theta') - r_i(\theta))` is at most phi psi_i, with phi symmetric in its
arguments. r_i is what the expansion of order k leaves of row i's potential.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.checks import is_number
from tallbayes.compiled import compiled
from tallbayes.errors import InputError
from tallbayes.models import Model
from tallbayes.surrogate.alias import WHOLE
from tallbayes.surrogate.expansion import Whitening

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


SHRINKINGS = 12
"""How often the radius of a local bound is halved in search of one that holds for every row."""


class Bound(NamedTuple):
    """A bound as compiled code sees it."""

    local: bool
    order: int
    total: float
    """Psi, the sum of psi_i."""
    rising: float
    """Of Psi, what remainders can use by rising."""
    falling: float
    """Of Psi, what remainders can use by falling."""
    radius: float
    """The bound holds while both states are within this distance (in z) of the centre."""
    truncation: float
    """R: pairs with phi Psi >= R take a plain Metropolis-Hastings step on all rows."""


class RowBounds(NamedTuple):
    """The bound of every row, and where it holds."""

    psi: Vector
    shares: NDArray[np.float32]
    """How much of psi_i a remainder can use by rising, and by falling; one line for all rows, or one for each."""
    radius: float


@dataclass(frozen=True)
class Global:
    r"""The paper's bound: suprema over the whole space and the l1 norm ((P), eq:smh-bound).

    For order k = 1, 2, 3

    .. math:: \bar\lambda_i = \frac{\bar U_{k+1,i}}{(k+1)!}
              \left(\|\theta - \hat\theta\|_1^{k+1} + \|\theta' - \hat\theta\|_1^{k+1}\right),
              \qquad \bar U_{k+1,i} = w_i \sup |U_i^{(k+1)}| \max_j |x_{ij}|^{k+1}

    and for the plain factorisation, k = 0, the log-Lipschitz bound :math:`K_i \|\theta' - \theta\|_2` with
    :math:`K_i = w_i \sup |U_i'| \, \|x_i\|_2` ((P), eq:lipschitz-bounds).
    """

    def row_bounds(
        self, model: Model, whitening: Whitening, order: int, *, threads: int | None = None
    ) -> RowBounds:
        """Return psi, which holds everywhere.

        Parameters
        ----------
        model : Model
            The model.
        whitening : Whitening
            Not used: this bound lives in the coordinates of the data.
        order : int
            Order of the expansion, 0 to 3.
        threads : int or None
            Threads for the pass over rows.

        Returns
        -------
        RowBounds
            One number for each row, and an infinite radius.
        """
        psi = model.global_bounds(order + 1, threads)
        return RowBounds(psi, WHOLE, math.inf)

    @property
    def local(self) -> bool:
        """Whether the bound is measured in whitened coordinates."""
        return False


@dataclass(frozen=True)
class Local:
    r"""A tighter bound: whitened norm, suprema over a ball around the centre only.

    With a_i = :math:`|L^{-1} x_i|`, and while :math:`|z|, |z'| \le \rho`, the predictor of row i stays within
    :math:`\hat\eta_i \pm \rho a_i`; C_i is the supremum of its potential's derivative of order k + 1 there, and

    .. math:: \bar\lambda_i = \frac{w_i C_i a_i^{k+1}}{(k+1)!} \,
              \min\left(|z|^{k+1} + |z'|^{k+1}, \; (k + 1) \max(|z|, |z'|)^k \, |z' - z|\right).

    A step with an end outside the ball is a plain Metropolis-Hastings step on all rows.

    Parameters
    ----------
    radius : float or None
        rho, in posterior standard deviations; None lets it be chosen.
    """

    radius: float | None = None

    def __post_init__(self) -> None:
        if self.radius is not None and not (is_number(self.radius) and self.radius > 0.0):
            raise InputError(f"Local: radius={self.radius!r} must be positive, or None to have it chosen.")

    def row_bounds(
        self, model: Model, whitening: Whitening, order: int, *, threads: int | None = None
    ) -> RowBounds:
        """Return psi and the radius within which it holds.

        Parameters
        ----------
        model : Model
            The model.
        whitening : Whitening
            Coordinates in which the ball lives.
        order : int
            Order of the expansion, 0 to 3.
        threads : int or None
            Threads for the pass over rows.

        Returns
        -------
        RowBounds
            One number for each row, and the radius.
        """
        radius = float(self.radius) if self.radius is not None else default_radius(model.n, model.d)
        # A smaller ball helps where a row's interval leaves what is proved of the family, or what a float holds.
        for _ in range(SHRINKINGS):
            psi, shares = model.local_bounds(order + 1, whitening.centre, whitening.inverse_root, radius, threads)
            if np.all(np.isfinite(psi)):
                return RowBounds(psi, shares, radius)
            radius /= 2.0
        # No bound at all: a ball of nothing makes every step a full-data step, which is exact.
        return RowBounds(np.zeros(model.n), WHOLE, 1e-300)

    @property
    def local(self) -> bool:
        """Whether the bound is measured in whitened coordinates."""
        return True


def gaussian_radius(d: int, outside: float) -> float:
    """Return the radius of the ball that a standard normal in d dimensions leaves with probability `outside`."""
    from scipy.special import chdtri

    return math.sqrt(float(chdtri(d, outside)))


def default_radius(n: int, d: int) -> float:
    """Return a radius that a standard normal in d dimensions leaves with probability 1e-6 / n.

    A step outside costs a pass, n rows, and the posterior of few rows leaves the ball some hundred times as often
    as a Gaussian does. Even so passes should cost less than steps inside, whose rows grow slowly with the radius.
    """
    return gaussian_radius(d, 1e-6 / n)


@compiled
def shift(whitening: Matrix, z: Vector, out: Vector) -> None:
    """Put theta - centre = W z into out; W is upper triangular."""
    d = z.size
    for i in range(d):
        total = 0.0
        for j in range(i, d):
            total += whitening[i, j] * z[j]
        out[i] = total


@compiled
def distance_from_centre(bound: Bound, whitening: Matrix, z: Vector) -> float:
    """Return the norm that the bound is a function of: |z|_2 if local, else |theta - centre|_1."""
    d = z.size
    total = 0.0
    if bound.local:
        for j in range(d):
            total += z[j] * z[j]
        return np.sqrt(total)
    for i in range(d):
        component = 0.0
        for j in range(i, d):
            component += whitening[i, j] * z[j]
        total += abs(component)
    return total


@compiled
def distances_of_columns(bound: Bound, whitening: Matrix, z: Matrix, distances: Vector) -> None:
    """Put the distance from the centre of every column of z into distances."""
    d, count = z.shape
    distances[:] = 0.0
    if bound.local:
        for j in range(d):
            for b in range(count):
                distances[b] += z[j, b] * z[j, b]
        for b in range(count):
            distances[b] = np.sqrt(distances[b])
        return
    component = np.empty(count)
    for i in range(d):
        component[:] = 0.0
        for j in range(i, d):
            for b in range(count):
                component[b] += whitening[i, j] * z[j, b]
        for b in range(count):
            distances[b] += abs(component[b])


@compiled
def step_length(bound: Bound, whitening: Matrix, z: Vector, other: Vector) -> float:
    """Return |z' - z|_2 if the bound is local, else |theta' - theta|_2."""
    d = z.size
    total = 0.0
    for i in range(d):
        component = 0.0
        if bound.local:
            component = other[i] - z[i]
        else:
            for j in range(i, d):
                component += whitening[i, j] * (other[j] - z[j])
        total += component * component
    return np.sqrt(total)


@compiled
def state_factor(
    bound: Bound, whitening: Matrix, z: Vector, distance: float, other: Vector, other_distance: float
) -> float:
    """Return phi(z, z'), symmetric in its arguments; infinite where the bound does not hold."""
    before, after, between = event_factors(bound, whitening, z, distance, other, other_distance)
    return before + after + between


@compiled
def event_factors(
    bound: Bound, whitening: Matrix, z: Vector, distance: float, other: Vector, other_distance: float
) -> tuple[float, float, float]:
    """Return the parts of phi: what falls from z and rises to z' can use, or else the step as a whole.

    Either the third is zero, or the first two are; the paper's bound does not tell them apart.
    """
    k = bound.order
    far = max(distance, other_distance)
    if far > bound.radius:
        return 0.0, 0.0, np.inf
    if k == 0:
        return 0.0, 0.0, step_length(bound, whitening, z, other)
    before, after = distance ** (k + 1), other_distance ** (k + 1)
    if not bound.local:
        return 0.0, 0.0, before + after
    between = (k + 1) * far**k * step_length(bound, whitening, z, other)
    if between < before + after:
        return 0.0, 0.0, between
    return before, after, 0.0
