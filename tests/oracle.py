"""The mathematics of the paper in plain NumPy, against which the compiled code is compared.

Nothing here is taken from the package: rows are written as in the paper's supplement, the expansion in theta
coordinates, the proposals as Normal(A theta + b, C). Potentials and their differences are in extended
precision, so that remainders may be taken as plain differences.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from typing import NamedTuple

import numpy as np

Real = np.longdouble
BLOCK = 64


@dataclass(frozen=True)
class Logistic:
    """U(eta) = log(1 + exp(eta)) - y eta."""

    def derivatives(self, y, eta, order=4):
        """U and its derivatives in eta, the first four or none."""
        eta, y = Real(eta), Real(y)
        e = np.exp(-np.abs(eta))
        value = np.maximum(eta, 0) + np.log1p(e) - y * eta
        if order == 0:
            return (value,)
        large, small = 1 / (1 + e), e / (1 + e)
        s = np.where(eta >= 0, large, small)
        c = np.where(eta >= 0, small, large)
        v = s * c
        return value, s - y, v, v * (c - s), v * (1 - 6 * v)

    def constants(self, m):
        """The paper's suprema of |U^(m)|; that of order 4 is at eta = 0."""
        return {1: 1.0, 2: 1 / 4, 3: 1 / (6 * math.sqrt(3)), 4: 1 / 8}[m]


@dataclass(frozen=True)
class Student:
    """U(eta) = (nu + 1) / 2 log(1 + t^2 / nu), t = (y - eta) / scale."""

    nu: float
    scale: float

    def derivatives(self, y, eta, order=4):
        """U and its derivatives in eta, the first four or none."""
        nu, scale = Real(self.nu), Real(self.scale)
        t = (Real(y) - Real(eta)) / scale
        square = t * t
        value = (nu + 1) / 2 * np.log1p(square / nu)
        if order == 0:
            return (value,)
        q = (nu + square) * scale  # powers as products: those of extended precision are slow
        first = -(nu + 1) * t / q
        second = (nu + 1) * (nu - square) / (q * q)
        third = -2 * (nu + 1) * t * (square - 3 * nu) / (q * q * q)
        fourth = 6 * (nu + 1) * (6 * nu * square - square * square - nu * nu) / (q * q * q * q)
        return value, first, second, third, fourth

    def constants(self, m):
        """The paper's suprema of |U^(m)|; that of order 4 is at t = 0."""
        nu = self.nu
        unit = {
            1: (nu + 1) / (2 * math.sqrt(nu)),
            2: (nu + 1) / nu,
            3: (nu + 1) * (3 + 2 * math.sqrt(2)) / (4 * nu**1.5),
            4: 6 * (nu + 1) / nu**2,
        }
        return unit[m] / self.scale**m


ZERO = Real(0)
"""The very object that stands for coefficients which vanish everywhere."""


def _convolved(a, b, first, last, whole=None):
    """The sum of a[j] b[m - j] over j from first to last, with m the last one if it is not given."""
    m, total = last if whole is None else whole, ZERO
    for j in range(first, last + 1):
        if a[j] is not ZERO and b[m - j] is not ZERO:
            product = a[j] * b[m - j]
            total = product if total is ZERO else total + product
    return total


class Series:
    """Taylor coefficients of orders 0 to 4, or to fewer, of a function of eta, in extended precision.

    c[m] is f^(m) / m!; its shape is that of eta, or one that broadcasts to it. Enough arithmetic to differentiate any
    formula: no derivative is written down by hand. Orders that nobody asks for are not computed, nor are products with
    coefficients that are known to be zero.
    """

    def __init__(self, *coefficients):
        self.c = [c if getattr(c, "dtype", None) == Real else Real(c) for c in coefficients]

    @classmethod
    def variable(cls, eta, order=4):
        """The function eta itself."""
        return cls.line(eta, 1, order)

    @classmethod
    def line(cls, start, slope, order=4):
        """The function start + slope s of s."""
        return cls(start, slope, ZERO, ZERO, ZERO).to(order)

    def to(self, order):
        """The same without orders beyond one."""
        return Series(*self.c[: order + 1])

    def __add__(self, other):
        if isinstance(other, Series):
            both = zip(self.c, other.c, strict=True)
            return Series(*(b if a is ZERO else a if b is ZERO else a + b for a, b in both))
        return Series(self.c[0] + other, *self.c[1:])

    def __mul__(self, other):
        if isinstance(other, Series):
            return Series(*(_convolved(self.c, other.c, 0, m) for m in range(len(self.c))))
        return Series(*(ZERO if a is ZERO else a * other for a in self.c))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -other

    def _from_slope(self, value, slope_times):
        """The f with the given value whose coefficients follow from those before, by m f_m = slope_times(f, m)."""
        found = [value]
        for m in range(1, len(self.c)):
            found.append(slope_times(found, m) / m)
        return Series(*found)

    @property
    def slope(self):
        """m c[m]."""
        return [ZERO if m == 0 or c is ZERO else m * c for m, c in enumerate(self.c)]

    def exp(self):
        """f' = f a'."""
        slope = self.slope
        return self._from_slope(np.exp(self.c[0]), lambda f, m: _convolved(slope, f, 1, m))

    def expm1(self):
        """Like exp, without the cancellation of its value."""
        return Series(np.expm1(self.c[0]), *self.exp().c[1:])

    def log(self):
        """f' = a' / a."""
        a, slope = self.c, self.slope
        inverse = 1 / a[0] if len(a) > 1 else ZERO
        f, times = [np.log(a[0])], [ZERO]  # f_m, and m f_m
        for m in range(1, len(a)):
            before = _convolved(times, a, 1, m - 1, m)
            times.append((-before if slope[m] is ZERO else slope[m] - before) * inverse)
            f.append(times[m] / m)
        return Series(*f)

    def softplus(self):
        """log(1 + e^a), whose value does not overflow."""
        a = self.c[0]
        return Series(np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a))), *((self.exp() + 1).log()).c[1:])

    def normal_tail(self):
        """-log Phi(a), from its slope -h: h' = -h (a + h) by definition, as functions of a; then along a."""
        from scipy.special import log_ndtr

        a, order = np.float64(self.c[0]), len(self.c) - 1
        value = -log_ndtr(a)
        # Plain double precision: nothing else in NumPy knows Phi. Errors are of the order of 1e-16.
        h = [np.exp(Real(value) - Real(a) ** 2 / 2) / np.sqrt(2 * Real(math.pi))]
        for m in range(order - 1):
            both = [h[j] + (a if j == 0 else 1 if j == 1 else 0) for j in range(m + 1)]
            h.append(-sum(h[j] * both[m - j] for j in range(m + 1)) / (m + 1))
        outer = [value, *(-h[m - 1] / m for m in range(1, order + 1))]
        step = Series(ZERO, *self.c[1:])
        total = Series(outer[order], *[ZERO] * order)
        for m in reversed(range(order)):
            total = total * step + outer[m]
        return total

    def log_gamma(self):
        """log Gamma(a), by Stirling's formula at a + 20."""
        z, product = self + 20, self
        for j in range(1, 20):
            product = product * (self + j)
        below, log = product.log(), z.log()
        inverse = (-log).exp()
        square, power, total = inverse * inverse, inverse, log * (z - Real(0.5)) - z
        for n, bernoulli in enumerate([1 / Real(6), -1 / Real(30), 1 / Real(42), -1 / Real(30), 5 / Real(66)], 1):
            total = total + power * (bernoulli / (2 * n * (2 * n - 1)))
            power = power * square
        for n, bernoulli in enumerate([-691 / Real(2730), 7 / Real(6), -3617 / Real(510)], 6):
            total = total + power * (bernoulli / (2 * n * (2 * n - 1)))
            power = power * square
        return total - below + np.log(2 * Real(math.pi)) / 2

    def derivatives(self):
        """The function and its derivatives."""
        return tuple(c * math.factorial(m) for m, c in enumerate(np.broadcast_arrays(*self.c)))


@dataclass(frozen=True)
class Formula:
    """Rows from a formula: potential(y, eta) as a series in eta."""

    potential: Callable

    def derivatives(self, y, eta, order=4):
        """U and its derivatives in eta, the first four or fewer."""
        y, eta = np.broadcast_arrays(Real(y), Real(eta))
        return self.potential(y, Series.variable(eta, order)).derivatives()


def poisson(y, eta):
    """e^eta - y eta."""
    return eta.exp() - eta * y


def gamma(shape):
    """shape (y e^-eta + eta)."""
    return lambda y, eta: ((-eta).exp() * y + eta) * Real(shape)


def negative_binomial(size):
    """(y + size) log(size + e^eta) - y eta, up to a constant."""
    return lambda y, eta: (eta + -np.log(Real(size))).softplus() * (y + size) - eta * y


def binomial(trials):
    """trials log(1 + e^eta) - y eta."""
    return lambda y, eta: eta.softplus() * Real(trials) - eta * y


def probit(y, eta):
    """-log Phi(eta) for y = 1, -log Phi(-eta) for y = 0."""
    return (eta * (2 * y - 1)).normal_tail()


def cloglog(y, eta):
    """e^eta for y = 0, -log(1 - exp(-e^eta)) for y = 1."""
    x = eta.exp()
    success = -(-(-x).expm1()).log()
    return Series(*(np.where(y == 1, a, b) for a, b in zip(success.c, x.c, strict=True)))


def normal(scale):
    """((y - eta) / scale)^2 / 2."""

    def potential(y, eta):
        t = (eta - y) * (1 / Real(scale))
        return t * t * Real(0.5)

    return potential


def pseudo_huber(delta, scale):
    """delta^2 (sqrt(1 + (t / delta)^2) - 1), t = (y - eta) / scale."""

    def potential(y, eta):
        t = (eta - y) * (1 / (Real(scale) * Real(delta)))
        root = ((t * t + 1).log() * Real(0.5)).exp()
        return (root + -1) * Real(delta) ** 2

    return potential


class OtherPrior(NamedTuple):
    """A prior of coefficient j that is not normal; a smooth one stands in for it where coordinates are chosen."""

    j: int
    kind: str
    a: float
    b: float
    df: float = math.nan

    def potential(self, theta):
        """Minus the log density, up to a constant."""
        t = (Real(theta) - Real(self.a)) / Real(self.b)
        if self.kind == "student":
            return (Real(self.df) + 1) / 2 * np.log1p(t * t / self.df)
        if self.kind == "laplace":
            return np.abs(t)
        if self.kind == "power":
            return Real(self.a) * np.exp(Real(self.b) * Real(theta)) - Real(self.df) * Real(theta)
        if self.kind == "half-student":
            scale = np.exp(Real(theta)) / Real(self.a)
            return (Real(self.df) + 1) / 2 * np.log1p(scale * scale / Real(self.df)) - Real(theta)
        return np.where((theta >= self.a) & (theta <= self.b), Real(0), np.inf)

    def stand_in(self, theta):
        """Slope and curvature of the stand-in: t itself, sqrt(t^2 + 4), walls -log(distance)."""
        if self.kind in ("power", "half-student"):  # they stand for themselves
            h = 1e-4  # differences in extended precision: off by some 1e-12
            low, here, high = (self.potential(theta + step) for step in (-h, 0.0, h))
            fine = [self.potential(theta + step) for step in (-2 * h, 2 * h)]
            slope = (8 * (high - low) - (fine[1] - fine[0])) / (12 * h)
            return float(slope), float((16 * (high + low) - (fine[0] + fine[1]) - 30 * here) / (12 * h * h))
        t = (theta - self.a) / self.b
        if self.kind == "student":
            q = self.df + t * t
            curvature = (self.df - t * t) / q**2 if t * t < self.df / 2 else 1 / q  # never negative
            return (self.df + 1) * t / q / self.b, (self.df + 1) * curvature / self.b**2
        if self.kind == "laplace":
            return t / math.sqrt(t * t + 4) / self.b, 4 / (t * t + 4) ** 1.5 / self.b**2
        left, right = theta - self.a, self.b - theta
        return 1 / right - 1 / left, 1 / right**2 + 1 / left**2


def remembered(method):
    """Keep what a method found at the last few points: a chain asks for each of its points several times."""

    @wraps(method)
    def at(problem, theta, *rest):
        theta = theta[None] if theta.ndim == 1 else theta
        key, recent = (method, theta.shape, theta.tobytes(), *rest), problem.recent
        known = recent.get(key)
        if known is None:
            if len(recent) >= 40:
                del recent[next(iter(recent))]
            known = recent[key] = method(problem, theta, *rest)
            known.flags.writeable = False
        return known

    return at


@dataclass(frozen=True)
class Problem:
    """A posterior and the centre of its expansion."""

    X: np.ndarray
    y: np.ndarray
    rows: Logistic | Student | Formula
    prior_mean: np.ndarray
    prior_precision: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    centre: np.ndarray
    other_priors: tuple[OtherPrior, ...] = ()
    core: tuple[int, ...] = ()
    """Rows that the surrogate has exactly."""
    order: tuple[int, ...] = ()
    """Coefficients in the order of their coordinates, if it is not their own."""
    free: int = 0
    """The first so many coordinates move core rows only."""
    stand_ins: tuple[tuple[int, float], ...] = ()
    """Rows, with weights, whose potentials stand in the surrogate for those of all that are not in the core."""
    memo: dict = field(default_factory=dict, compare=False)
    recent: dict = field(default_factory=dict, compare=False)

    @property
    def n(self):
        """Rows."""
        return self.X.shape[0]

    def predictor(self, theta):
        """Linear predictors, (points, rows)."""
        return np.atleast_2d(theta).astype(Real) @ self.precise.T + self.offset

    @cached_property
    def precise(self):
        """X in extended precision."""
        return self.X.astype(Real)

    @cached_property
    def jet(self):
        """U_i and its derivatives at the centre."""
        return self.rows.derivatives(self.y, self.predictor(self.centre)[0])

    @remembered
    def row_potentials(self, theta):
        """U_i at each point, (points, rows)."""
        return self.weights * self.rows.derivatives(self.y, self.predictor(theta), 0)[0]

    @remembered
    def row_expansions(self, theta, order):
        """Taylor expansions of order 1 to 3 around the centre, without the constant; (points, rows).

        Order 0 is the plain factorisation: no expansion at all.
        """
        step = (theta.astype(Real) - self.centre) @ self.precise.T
        total = np.zeros_like(step)
        for m in reversed(range(1, order + 1)):
            total = (total + self.weighted_jet[m]) * step
        return total

    @cached_property
    def weighted_jet(self):
        """Taylor coefficients of the rows at the centre, times their weights."""
        return [self.weights * value / math.factorial(m) for m, value in enumerate(self.jet)]

    @remembered
    def remainders(self, theta, order):
        """r_i at each point, (points, rows): what the expansion leaves of rows that are not in the core."""
        left = self.row_potentials(theta) - self.row_expansions(theta, order) - self.weighted_jet[0]
        return self.without_core(left) if self.core else left

    @remembered
    def prior(self, theta):
        """Minus the log prior density, up to a constant."""
        theta = theta.astype(Real)
        distance = theta - self.prior_mean
        normal = (self.prior_precision * (distance * distance)).sum(axis=1) / 2
        return normal + sum(other.potential(theta[:, other.j]) for other in self.other_priors)

    @remembered
    def potential(self, theta):
        """Minus the log posterior density, up to a constant."""
        return self.row_potentials(theta).sum(axis=1) + self.prior(theta)

    @remembered
    def surrogate(self, theta, order):
        """Minus the log of the surrogate: the exact prior, core rows as they are, the expansion of the others."""
        expansions = self.row_expansions(theta, 1 if self.stand_ins else order)
        stand_in = 0.0
        if self.stand_ins:
            rows, weights = (np.array(part) for part in zip(*self.stand_ins, strict=True))
            above = (self.row_potentials(theta) - expansions)[:, rows] / self.weights[rows]
            stand_in = (above - self.jet[0][rows]) @ weights
        if self.core:
            core, expansions = list(self.core), expansions.copy()
            expansions[:, core] = (self.row_potentials(theta) - self.weighted_jet[0])[:, core]
        return expansions.sum(axis=1) + stand_in + self.prior(theta)

    @cached_property
    def gradient(self):
        """Of the whole potential, at the centre."""
        slope = self.weights * self.jet[1]
        total = np.float64(slope @ self.X.astype(Real) + self.prior_precision * (self.centre - self.prior_mean))
        for other in self.other_priors:
            total[other.j] += other.stand_in(self.centre[other.j])[0]
        return total

    @cached_property
    def hessian(self):
        """Of the whole potential, at the centre."""
        curvature = self.weights * self.jet[2]
        X = self.X.astype(Real)
        total = np.float64((X.T * curvature) @ X) + np.diag(self.prior_precision)
        for other in self.other_priors:
            total[other.j, other.j] += other.stand_in(self.centre[other.j])[1]
        return total

    @cached_property
    def root(self):
        """L, with H = L L', lower triangular in the order of the coefficients."""
        if not self.order:
            return np.linalg.cholesky(self.hessian)
        order, root = np.array(self.order), np.empty_like(self.hessian)
        root[order] = np.linalg.cholesky(self.hessian[np.ix_(order, order)])
        return root

    @cached_property
    def unwhiten(self):
        """W = L^-T: theta = centre + W z."""
        return np.linalg.inv(self.root).T

    def theta(self, z):
        """The point with whitened coordinates z."""
        return self.centre + np.atleast_2d(z) @ self.unwhiten.T

    def z(self, theta):
        """Whitened coordinates of a point."""
        return (np.atleast_2d(theta) - self.centre) @ self.root

    def bounded(self, theta):
        """Those of them that rows with a bound depend on."""
        return self.z(theta)[:, self.free :]

    def without_core(self, values):
        """Zero for core rows, which leave nothing to be thinned; rows are last."""
        values = np.array(values)
        values[..., list(self.core)] = 0.0
        return values


@dataclass(frozen=True)
class JointRows:
    """Rows of several predictors: potential(y, eta_1, ..., eta_q) as a series, and suprema over a box."""

    potential: Callable
    suprema: Callable
    """suprema(problem, order, radius): largest rise, fall and absolute value of the derivative of order k + 1 along a
    unit step in whitened coordinates, (3, rows)."""

    def along(self, y, eta, move, order=4):
        """Taylor coefficients up to an order of s -> U(eta + s move); eta and move are (..., rows, q)."""
        y = np.broadcast_to(Real(y), eta.shape[:-1])
        steps = [Series.line(eta[..., j], move[..., j], order) for j in range(eta.shape[-1])]
        return self.potential(y, *steps).c


@dataclass(frozen=True)
class JointProblem(Problem):
    """A posterior whose rows have several predictors, eta_i = lines_i theta + offset_i."""

    lines: np.ndarray = None
    """(rows, q, parameters)."""

    def predictor(self, theta):
        """Predictors, (points, rows, q); the offset is (rows, q)."""
        return np.einsum("nqd,pd->pnq", self.precise, np.atleast_2d(theta).astype(Real)) + self.offset

    @cached_property
    def precise(self):
        """Lines in extended precision."""
        return self.lines.astype(Real)

    @cached_property
    def at_centre(self):
        """Predictors at the centre, (1, rows, q)."""
        return self.predictor(self.centre)

    @cached_property
    def jet(self):
        """U_i at the centre, in the place of all derivatives."""
        at = self.predictor(self.centre)[0]
        return (self.rows.along(self.y, at, np.zeros_like(at), 0)[0],)

    @remembered
    def row_potentials(self, theta):
        """U_i at each point, (points, rows)."""
        at = self.predictor(theta)
        return self.weights * self.rows.along(self.y, at, np.zeros_like(at), 0)[0]

    @remembered
    def row_expansions(self, theta, order):
        """Taylor expansions along the way from the centre, without the constant; (points, rows)."""
        move = np.einsum("nqd,pd->pnq", self.precise, theta.astype(Real) - self.centre.astype(Real))
        at = np.broadcast_to(self.at_centre, move.shape)
        coefficients = self.rows.along(self.y, at, move, order)
        return self.weights * sum(coefficients[1 : order + 1], np.zeros(move.shape[:2], dtype=Real))

    def _second(self, direction):
        """Slope and curvature of the likelihood along a direction of theta."""
        move = np.einsum("nqd,d->nq", self.precise, direction.astype(Real))
        coefficients = self.rows.along(self.y, self.at_centre[0], move, 2)
        return np.sum(self.weights * coefficients[1]), 2 * np.sum(self.weights * coefficients[2])

    @cached_property
    def gradient(self):
        """Of the whole potential, at the centre."""
        d = self.centre.size
        total = np.array([float(self._second(axis)[0]) for axis in np.eye(d)])
        total += self.prior_precision * (self.centre - self.prior_mean)
        for other in self.other_priors:
            total[other.j] += other.stand_in(self.centre[other.j])[0]
        return total

    @cached_property
    def hessian(self):
        """Of the whole potential, at the centre."""
        axes = np.eye(self.centre.size)
        single = [self._second(axis)[1] for axis in axes]
        total = np.diag([float(value) for value in single])
        for j, k in itertools.combinations(range(len(axes)), 2):
            both = (self._second(axes[j] + axes[k])[1] - single[j] - single[k]) / 2
            total[j, k] = total[k, j] = float(both)
        total += np.diag(self.prior_precision)
        for other in self.other_priors:
            total[other.j, other.j] += other.stand_in(self.centre[other.j])[1]
        return total

    @cached_property
    def norms(self):
        """Length of each whitened line, (rows, q)."""
        return np.linalg.norm(self.lines @ self.unwhiten, axis=2)


def mixed_derivatives(potential, y, eta, second, m):
    """Derivatives of order m by two predictors, m - b times by the first and b times by the second; b = 0 to m.

    From the derivatives along m + 1 lines of different slopes.
    """
    turns = np.arange(-m, m + 1, 2).astype(Real)
    values = []
    for turn in turns:
        steps = Series.line(eta, 1, m), Series.line(second, turn, m)
        values.append(potential(Real(y), *steps).derivatives()[m])
    binomial = np.array([math.comb(m, b) for b in range(m + 1)], dtype=float)
    matrix = np.float64(turns[:, None] ** np.arange(m + 1)) * binomial
    return np.linalg.solve(matrix, np.float64(np.stack(values)).reshape(m + 1, -1))


def along_moves(ends, norms):
    """Largest rise, fall and absolute value along unit moves, from those of each mixed derivative: (up, down) by b."""
    m, found = len(ends) - 1, 0.0
    for b, (up, down) in enumerate(ends):
        factor = math.comb(m, b) * norms[0] ** (m - b) * norms[1] ** b
        whole, even = np.maximum(up, down), b % 2 == 0 and (m - b) % 2 == 0
        found = found + factor * np.stack([up if even else whole, down if even else whole, whole])
    return found


def noise(potential):
    """Rows with a location and a log-scale: U = g(u) + tau, u = (y - eta) e^-tau, with g as a series."""

    def joint(y, eta, tau):
        return potential((-eta + y) * (-tau).exp()) + tau

    def mixed(u, m):
        """Derivatives at tau = 0 and y - eta = u."""
        return mixed_derivatives(joint, u, 0 * u, 0 * u, m)

    def suprema(problem, order, radius):
        m = order + 1
        key = ("joint", order, radius)
        if key not in problem.memo:
            problem.memo[key] = _noise_suprema(problem, mixed, m, radius)
        return problem.memo[key]

    return JointRows(joint, suprema)


def _noise_suprema(problem, mixed, m, radius):
    """By multi-index: the largest factor e^(-a tau) in the box, times extremes of h over all u in it, by a grid."""
    at, norms = np.float64(problem.predictor(problem.centre)[0]), problem.norms
    residual, shrink = problem.y - at[:, 0], np.exp(-at[:, 1] + radius * norms[:, 1])
    corners = [
        (residual + s * radius * norms[:, 0]) * np.exp(-at[:, 1] + t * radius * norms[:, 1])
        for s in (-1, 1)
        for t in (-1, 1)
    ]
    first, last = np.min(corners, axis=0), np.max(corners, axis=0)
    coarse, every = mixed(_grid(first, last, 201).ravel(), m).reshape(m + 1, 201, problem.n), []
    for b in range(m + 1):

        def derivative(u, b=b):
            return mixed(u.ravel(), m)[b].reshape(u.shape)

        ends = extremes(derivative, first, last, 201, 41, 3, coarse[b])
        every.append([np.maximum(end, 0.0) * shrink ** (m - b) for end in ends])
    return along_moves(every, norms.T)


def softmax(y, *eta):
    """log(1 + sum_j exp(eta_j)) - eta_y."""
    total = eta[0].exp() + 1
    for one in eta[1:]:
        total = total + one.exp()
    value = total.log()
    for j, one in enumerate(eta):
        value = value - one * (y == j + 1)
    return value


def softmax_suprema(problem, order, radius):
    """Cumulants of moves that lie within an interval, or whose probability is small."""
    m, n = order + 1, problem.n
    at = np.column_stack([np.zeros(n), np.float64(problem.predictor(problem.centre)[0])])
    white = np.concatenate([np.zeros((n, 1, problem.centre.size)), problem.lines @ problem.unwhiten], axis=1)
    apart = np.linalg.norm(white[:, :, None] - white[:, None], axis=3)
    found = np.empty((3, n))
    for i in range(n):
        R = apart[i].max()
        k = int(problem.y[i]) if m == 1 else int(np.argmax(at[i]))
        p = 1 / (1 + np.exp(-(at[i] - at[i, k] + radius * apart[i, k])))
        if m == 1:
            rise = fall = min(p @ apart[i, k], apart[i, k].max())
        else:
            variance = min(p @ apart[i, k] ** 2, math.inf)
            rise, fall = {
                2: (min(R**2 / 4, variance), 0.0),
                3: (min(R**3 / (6 * math.sqrt(3)), R * variance),) * 2,
                4: (min(R**4 / 12, R**2 * variance), min(R**4 / 8, 2 * variance**2)),
            }[m]
        found[:, i] = rise, fall, max(rise, fall)
    return found


def zero_inflated(y, eta, zeta):
    """Minus the log of the probability of a count that may be 0 for another reason."""
    mean = eta.exp()
    return zeta.softplus() + mean - eta * y - (zeta + mean).softplus() * (y == 0)


def hurdle(y, eta, zeta):
    """Zero or not is a coin; a count that is not 0 is a Poisson one given that."""
    mean = eta.exp()
    count = zeta.softplus() + mean - eta * y + (-((-mean).expm1())).log()
    return (-zeta).softplus() * (y == 0) + count * (y > 0)


def dispersed(y, eta, tau):
    """(y + f) log(1 + e^(eta - tau)) - y eta - sum over j < y of log(1 + j / f), f = e^tau."""
    f = tau.exp()
    value = (eta - tau).softplus() * (f + y) - eta * y
    for j in range(1, int(np.max(y))):
        value = value - ((-tau).exp() * Real(j) + 1).log() * (y > j)
    return value


def amount(y, eta, tau):
    """Minus the log density of a gamma amount with mean e^eta and shape e^tau, up to a constant."""
    a, s = tau.exp(), eta - np.log(Real(y))
    return a * (s + (-s).exp() - tau) + a.log_gamma()


def interval_ends(polynomials, low, high):
    """Largest value of each polynomial and of minus it, term by term, where each variable lies between two numbers."""
    ends = []
    for polynomial in polynomials:
        least, largest = 0 * low[0], 0 * low[0]
        for powers, factor in polynomial.terms():
            small = large = Real(float(factor)) + 0 * low[0]
            for j, power in enumerate(powers):
                for _ in range(power):
                    every = [end * side[j] for end in (small, large) for side in (low, high)]
                    small, large = np.min(every, axis=0), np.max(every, axis=0)
            least, largest = least + small, largest + large
        ends.append((np.maximum(largest, 0), np.maximum(-least, 0)))
    return ends


@dataclass(frozen=True, eq=False)
class Atoms:
    """Quantities in which derivatives by two predictors are polynomials."""

    values: Callable
    """values(y, eta, second): a dictionary of them; each is monotone in both predictors."""
    slopes: dict[str, tuple[str, str]]
    """Of each of them, by the first and the second predictor; they are constant if missing."""
    kinds: tuple[tuple[Callable, tuple[str, str]], ...]
    """Which responses there are, and the two slopes of the potential."""
    turn: Callable | None = None
    """Of a response: the first predictor at which an atom is not monotone."""

    def suprema(self, problem, order, radius):
        """Ranges of the polynomials term by term, each atom between its values at the corners of the box."""
        if (order, radius) in problem.memo:
            return problem.memo[order, radius]
        at, norms, m = problem.predictor(problem.centre)[0].T, problem.norms.T, order + 1
        firsts = [at[0] + sign * radius * norms[0] for sign in (-1, 1)]
        if self.turn is not None:
            firsts.append(np.clip(self.turn(Real(problem.y)), *firsts))
        seconds = [at[1] + sign * radius * norms[1] for sign in (-1, 1)]
        corners = [self.values(Real(problem.y), s, t) for s, t in itertools.product(firsts, seconds)]
        found = np.zeros((3, problem.n))
        for present, slopes in self.kinds:
            names, polynomials = polynomials_of(self, slopes, m)
            low, high = (
                [end([corner[name] for corner in corners], axis=0) for name in names] for end in (np.min, np.max)
            )
            ends = interval_ends(polynomials, low, high)
            found = np.where(present(problem.y), np.float64(along_moves(ends, norms)), found)
        problem.memo[order, radius] = found
        return found


@cache
def polynomials_of(kind, potential_slopes, m):
    """Derivatives of order m by b, as SymPy's polynomials in the atoms of a kind."""
    names, atoms, slopes = _symbols_of(kind)
    if m == 1:
        return names, [_read(slope, names).as_poly(*atoms) for slope in potential_slopes]
    _, lower = polynomials_of(kind, potential_slopes, m - 1)

    def slope(polynomial, j):
        return sum((polynomial.diff(a) * r for a, r in slopes[j]), 0 * polynomial)

    return names, [slope(lower[0], 0), *(slope(one, 1) for one in lower)]


def _read(expression, names):
    import sympy

    return sympy.sympify(expression, {name: sympy.Symbol(name) for name in names})


@cache
def _symbols_of(kind):
    """Names of the atoms, their symbols, and by either predictor those that change, with their slopes."""
    names = sorted(kind.values(Real(1), Real(0), Real(0)))
    atoms = [_read(name, names) for name in names]
    slopes = [[], []]
    for name, atom in zip(names, atoms, strict=True):
        for j, slope in enumerate(kind.slopes.get(name, ())):
            slopes[j].append((atom, _read(slope, names).as_poly(*atoms)))
    return names, atoms, slopes


def _of_zeros(y, eta, zeta):
    mean = np.exp(eta)
    excess = np.expm1(mean)
    return {
        "y": y + 0 * mean,
        "l": mean,
        "c": 1 / (1 + np.exp(zeta + mean)),
        "s": 1 / (1 + np.exp(zeta)),
        "k": np.where(excess > 0, mean / np.where(excess > 0, excess, 1), 1),
    }


_ZERO_SLOPES = {
    "l": ("l", "0"),
    "c": ("-l * c * (1 - c)", "-c * (1 - c)"),
    "s": ("0", "-s * (1 - s)"),
    "k": ("k * (1 - l - k)", "0"),
}


def _of_size(y, eta, tau):
    f, odds = np.exp(tau), np.exp(eta - tau)
    ratios = [np.where(y > j, j / (f + j), 0) for j in range(1, int(np.max(y)) + 1)]
    sums = {f"a{k}": sum((r**k for r in ratios), 0 * f) for k in range(1, 5)}
    return {"y": y + 0 * f, "f": f, "L": np.log1p(odds), "s": odds / (1 + odds), "c": 1 / (1 + odds), **sums}


def _of_shape(y, eta, tau):
    """Derivatives of log Gamma less what Stirling's formula has of them, by powers of the shape."""
    a, s = np.exp(tau), eta - np.log(y)
    x = Series.variable(a)
    theta = (x.log_gamma() - x.log() * (x - Real(0.5)) + x).derivatives()
    binet = {f"a{m}": (-a) ** m * theta[m] for m in range(1, 5)}
    return {"a": a, "k": s + np.expm1(-s), "v": -np.expm1(-s), "e": np.exp(-s), **binet}


ZERO_INFLATED = Atoms(
    _of_zeros,
    _ZERO_SLOPES,
    ((lambda y: y == 0, ("c * l", "c - s")), (lambda y: y > 0, ("l - y", "1 - s"))),
)
HURDLE = Atoms(
    _of_zeros,
    _ZERO_SLOPES,
    ((lambda y: y == 0, ("0", "-s")), (lambda y: y > 0, ("l + k - y", "1 - s"))),
)
DISPERSED = Atoms(
    _of_size,
    {
        "f": ("0", "f"),
        "L": ("s", "-s"),
        "s": ("s * c", "-s * c"),
        "c": ("-s * c", "s * c"),
        **{f"a{k}": ("0", f"-{k} * (a{k} - a{k + 1})") for k in range(1, 4)},
    },
    ((lambda y: y >= 0, ("f * s - y * c", "a1 + f * L - (y + f) * s")),),
)


AMOUNT = Atoms(
    _of_shape,
    {
        "a": ("0", "a"),
        "k": ("v", "0"),
        "v": ("e", "0"),
        "e": ("-e", "0"),
        **{f"a{k}": ("0", f"{k} * a{k} - a{k + 1}") for k in range(1, 4)},
    },
    ((lambda y: y > 0, ("a * v", "a * k - 1/2 - a1")),),
    turn=np.log,
)


GAUSS = tuple(Real(part) for part in np.polynomial.legendre.leggauss(60))
"""Nodes and weights on -1 to 1."""


def ordinal_probit(y, a, b, levels):
    """-log(Phi(a) - Phi(b)), the difference as an integral; b is absent for level 0, and a for the last."""
    middle = (y > 0) & (y < levels - 1)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = (a - b) * middle + (1.0 - middle)
        node, weight = (part.reshape(-1, *[1] * np.ndim(gap.c[0])) for part in GAUSS)
        x = b * middle + gap * ((1 + node) / 2)
        heights = (x * x * Real(-0.5)).exp() * (weight / 2)
        inside = -((gap * Series(*(np.sum(c, axis=0) for c in heights.c))).log())
        return a.normal_tail() * (y == 0) + (-b).normal_tail() * (y == levels - 1) + inside * middle


def _of_level(y, c, h):
    return dict.fromkeys(("c", "h", "g", *(f"m{j}" for j in range(1, 9))), 0 * c)


LEVEL = Atoms(
    _of_level,
    {
        "c": ("1", "0"),
        "h": ("0", "1"),
        "g": ("0", "-g**2"),
        **{
            f"m{j}": (f"-h * (m{j + 1} - m{j} * m1)", f"-c * (m{j + 1} - m{j} * m1) - h * (m{j + 2} - m{j} * m2)")
            for j in range(1, 7)
        },
    },
    ((lambda y: y > 0, ("c + h * m1", "c * m1 + h * m2 - g")),),
)


def level_moments(p, q, share):
    """Means of max(w, 0)^j and max(-w, 0)^j, w from -share to 1 - share with density exp(-p w - q w^2), for rows."""
    node, weight = (part[:, None] for part in GAUSS)
    found = []
    for length, sign in ((1 - share, 1), (share, -1)):
        w = length * (1 + node) / 2
        density = length * weight / 2 * np.exp(-sign * p * w - q * w * w)
        moments = []
        for _ in range(9):
            moments.append(np.sum(density, axis=0))
            density = density * w
        found.append(moments)
    plus, minus = np.array(found)
    return plus / (plus[0] + minus[0]), minus / (plus[0] + minus[0])


def level_ranges(a, b, share, wide, turn):
    """Low and high ends of c, h, 1 / h and eight moments, in the order of LEVEL's names; each for all rows."""
    h = a - b
    c = b + share * h
    corners = [x * y for x in (c - wide, c + wide) for y in (h - turn, h + turn)]
    (plus, minus), (plus_after, minus_after) = (
        level_moments(end(corners, axis=0), h * h / 2, share) for end in (np.min, np.max)
    )
    factor = np.exp(((h + turn) ** 2 - h * h) / 2 * np.maximum(share, 1 - share) ** 2)
    ends = {"c": (c - wide, c + wide), "h": (h - turn, h + turn), "g": (1 / (h + turn), 1 / (h - turn))}
    for j in range(1, 9):
        positive, negative = (
            (plus_after[j] / factor, plus[j] * factor),
            (minus[j] / factor, minus_after[j] * factor),
        )
        if j % 2 == 0:
            ends[f"m{j}"] = positive[0] + negative[0], positive[1] + negative[1]
        else:
            ends[f"m{j}"] = positive[0] - minus_after[j] * factor, positive[1] - minus[j] / factor
    return [np.array([ends[name][side] for name in sorted(ends)]) for side in (0, 1)]


def ordinal_probit_suprema(levels):
    """Of the lowest and highest level those of the probit's curve; of others intervals around the level's mean."""

    def inner(problem, rows, radius, m):
        """Levels with two cut points: infinite where these may meet."""
        at, white = problem.predictor(problem.centre)[0][rows], (problem.lines @ problem.unwhiten)[rows]
        a, b = at.T
        lengths = np.linalg.norm([white[:, 0], white[:, 1], white[:, 0] - white[:, 1]], axis=2)
        apart = a - b > radius * lengths[2]
        found = np.full((3, rows.size), math.inf)
        (a, b), lengths = (a[apart], b[apart]), lengths[:, apart]
        plus, minus = level_moments(b * (a - b), (a - b) ** 2 / 2, 0 * a)
        share = plus[1] - minus[1]
        wide, turn = share * lengths[0] + (1 - share) * lengths[1], lengths[2]
        _, polynomials = polynomials_of(LEVEL, LEVEL.kinds[0][1], m)
        low, high = level_ranges(a, b, share, radius * wide, radius * turn)
        found[:, apart] = np.float64(along_moves(interval_ends(polynomials, low, high), (wide, turn)))
        return found

    def suprema(problem, order, radius):
        m = order + 1
        if (order, radius) in problem.memo:
            return problem.memo[order, radius]
        at, norms = np.float64(problem.predictor(problem.centre)[0]), problem.norms
        found = np.zeros((3, problem.n))
        for level, j, sign in ((0, 0, 1), (levels - 1, 1, -1)):
            rows = np.flatnonzero(problem.y == level)
            found[:, rows] = curve_suprema(
                lambda x, s=sign: (x * s).normal_tail(), at[rows, j], norms[rows, j], radius, m
            )
        rows = np.flatnonzero((problem.y > 0) & (problem.y < levels - 1))
        found[:, rows] = inner(problem, rows, radius, m)
        problem.memo[order, radius] = found
        return found

    return suprema


def ordinal_logit(y, a, b, levels):
    """-log(F(a) - F(b)); b is absent for level 0, and a for the last."""
    one = (-a).softplus() * (y < levels - 1)
    other = b.softplus() * (y > 0)
    middle = (y > 0) & (y < levels - 1)
    # Where a cut is missing the difference is put at 1, and taken out again.
    gap = (a - b) * middle + (1.0 - middle)
    with np.errstate(invalid="ignore"):  # not a number where cut points have passed each other
        return one + other - (-((-gap).expm1())).log() * middle


def extremes(function, low, high, points, finer, rounds, coarse=None):
    """Largest value of a function on each of many intervals, and of minus it, by a grid that is refined.

    `function(x)` takes (points, intervals); `coarse` are its values on the first grid, if they are known.
    """
    first = _grid(low, high, points)
    coarse = function(first) if coarse is None else coarse
    found = []
    for sign in (1.0, -1.0):
        grid, values = first, sign * coarse
        best = np.max(values, axis=0)
        for _ in range(rounds):
            k, column = np.argmax(values, axis=0), np.arange(grid.shape[1])
            grid = _grid(grid[np.maximum(k - 1, 0), column], grid[np.minimum(k + 1, len(grid) - 1), column], finer)
            values = sign * function(grid)
            best = np.maximum(best, np.max(values, axis=0))
        found.append(best)
    return found


def _grid(low, high, points):
    return low + (high - low) * np.linspace(0.0, 1.0, points)[:, None]


def curve_suprema(function, centre, norm, radius, m):
    """Rise, fall and absolute value, (3, rows), of a function of one predictor within radius * norm of a centre."""

    def derivative(x):
        return np.float64(function(Series.variable(x, m)).derivatives()[m])

    ends = extremes(derivative, centre - radius * norm, centre + radius * norm, 301, 301, 2)
    rise, fall = (np.maximum(end, 0.0) * norm**m for end in ends)
    whole = np.maximum(rise, fall)
    return np.stack([rise, fall, whole] if m % 2 == 0 else [whole] * 3)


def ordinal_suprema(levels):
    """Suprema of three functions of one variable: of a, of b, and of their difference."""

    def suprema(problem, order, radius):
        m = order + 1
        if (order, radius) in problem.memo:
            return problem.memo[order, radius]
        at = np.float64(problem.predictor(problem.centre)[0])
        white = problem.lines @ problem.unwhiten
        found = np.zeros((3, problem.n))
        parts = [
            (at[:, 0], white[:, 0], lambda x: (-x).softplus(), problem.y < levels - 1),
            (at[:, 1], white[:, 1], lambda x: x.softplus(), problem.y > 0),
            (
                at[:, 0] - at[:, 1],
                white[:, 0] - white[:, 1],
                lambda x: -(-((-x).expm1())).log(),
                (problem.y > 0) & (problem.y < levels - 1),
            ),
        ]
        for centre, lines, function, present in parts:
            norm = np.linalg.norm(lines[present], axis=1)
            found[:, present] += curve_suprema(function, centre[present], norm, radius, m)
        problem.memo[order, radius] = found
        return found

    return suprema


def global_constants(problem, order):
    """psi of (P) eq:smh-bound (order 1 to 3) or of eq:lipschitz-bounds (order 0)."""
    supremum = problem.rows.constants(order + 1)
    size = np.linalg.norm(problem.X, axis=1) if order == 0 else np.max(np.abs(problem.X), axis=1) ** (order + 1)
    return problem.weights * supremum * size / math.factorial(order + 1)


def local_extremes(problem, order, radius):
    """Largest and least derivative of order k + 1 over the interval of each row, by a grid that is refined."""
    key = (order, radius)
    if key in problem.memo:
        return problem.memo[key]
    a = np.linalg.norm((problem.X @ problem.unwhiten)[:, problem.free :], axis=1)
    eta = np.float64(problem.predictor(problem.centre)[0])

    def derivative(grid):
        return np.float64(problem.rows.derivatives(problem.y, grid, order + 1)[order + 1])

    # The position is known to 1e-8 of the interval, so an inner extreme to its last digit.
    found = np.array(extremes(derivative, eta - radius * a, eta + radius * a, 2001, 101, 3))
    problem.memo[key] = found
    return found


def local_constants(problem, order, radius):
    """w_i C_i a_i^(k+1) / (k+1)!, C_i the largest absolute derivative over the interval of row i."""
    if isinstance(problem.rows, JointRows):
        return problem.weights * problem.rows.suprema(problem, order, radius)[2] / math.factorial(order + 1)
    a = np.linalg.norm((problem.X @ problem.unwhiten)[:, problem.free :], axis=1)
    best = np.max(local_extremes(problem, order, radius), axis=0)
    return problem.without_core(problem.weights * best * a ** (order + 1) / math.factorial(order + 1))


def local_shares(problem, order, radius):
    """What a remainder can use of its constant by rising, and by falling; even derivatives only tell them apart."""
    if order % 2 == 0:
        return np.ones((2, problem.n))
    if isinstance(problem.rows, JointRows):
        suprema = problem.rows.suprema(problem, order, radius)
        return suprema[:2] / np.where(suprema[2] > 0.0, suprema[2], 1.0)
    extremes = local_extremes(problem, order, radius)
    return np.maximum(extremes, 0.0) / np.max(extremes, axis=0)


class Rule(NamedTuple):
    """An acceptance rule: order None is plain Metropolis-Hastings, radius None the paper's global bound."""

    order: int | None
    radius: float | None = None
    truncation: float = math.inf

    def constants(self, problem):
        """psi of every row."""
        if self.radius is None:
            return global_constants(problem, self.order)
        return local_constants(problem, self.order, self.radius)

    def shares(self, problem):
        """Shares of psi for rises and for falls, (2, rows)."""
        if self.radius is None:
            return np.ones((2, problem.n))
        return local_shares(problem, self.order, self.radius)

    def kinds(self, problem, theta, other, whole=None):
        """Parts of phi for one pair: rises, falls, the step as a whole; `whole` is phi, if it is known."""
        k = self.order
        whole = float(self.factor(problem, theta[None], other[None])[0]) if whole is None else whole
        parts = np.linalg.norm(problem.bounded(np.stack([other, theta])), axis=1) ** (k + 1)
        if self.radius is None or k == 0 or whole < parts.sum() * (1 - 1e-13):  # the smaller bound is the second
            return 0.0, 0.0, whole
        return float(parts[0]), float(parts[1]), 0.0

    def factor(self, problem, theta, other):
        """phi(theta, theta') of each pair of points; infinite outside the ball."""
        k = self.order
        if self.radius is None:
            if k == 0:
                return np.linalg.norm(other - theta, axis=1)
            old = np.sum(np.abs(theta - problem.centre), axis=1)
            new = np.sum(np.abs(other - problem.centre), axis=1)
            return old ** (k + 1) + new ** (k + 1)
        old, new = problem.bounded(theta), problem.bounded(other)
        old, new, step = (np.sqrt((part * part).sum(axis=1)) for part in (old, new, new - old))
        far = np.maximum(old, new)
        inside = step if k == 0 else np.minimum(old ** (k + 1) + new ** (k + 1), (k + 1) * far**k * step)
        return np.where(far <= self.radius, inside, math.inf)

    def rate(self, problem, theta, other):
        """bar lambda of each pair."""
        return self.factor(problem, theta, other) * np.sum(self.constants(problem))


@dataclass(frozen=True)
class Table:
    """A density on a coordinate of z whose potential is straight between knots and beyond them."""

    axis: int
    knots: np.ndarray
    potential: np.ndarray
    """At the knots, up to a constant."""
    left: float
    right: float
    """How fast the potential rises beyond the first and the last knot."""

    @cached_property
    def masses(self):
        """The integrals of the density, not normalised: before the knots, between them, and beyond."""
        p, length = Real(self.potential - np.min(self.potential)), np.diff(Real(self.knots))
        slopes = np.diff(p) / np.where(length > 0, length, 1)
        # The integral of exp(-p - slope x) over x from 0 to the length.
        inner = np.exp(-p[:-1]) * np.where(
            slopes == 0, length, -np.expm1(-slopes * length) / (slopes + (slopes == 0))
        )
        return np.concatenate([[np.exp(-p[0]) / self.left], inner, [np.exp(-p[-1]) / self.right]])

    def minus_log_density(self, z):
        """Normalised, at points z."""
        z, x = np.asarray(z), self.knots
        beyond = self.left * np.maximum(x[0] - z, 0) + self.right * np.maximum(z - x[-1], 0)
        return np.interp(z, x, self.potential) + beyond - self.level

    @cached_property
    def level(self):
        """What the potential is short of minus the log density."""
        return float(np.min(self.potential) - np.log(np.sum(self.masses)))

    @cached_property
    def below(self):
        """The probability below each knot."""
        return np.cumsum(self.masses)[:-1] / np.sum(self.masses)

    def draw(self, rng):
        """One number: which piece it is in, and by a second random number where, as inversion says."""
        piece = int(np.sum(self.below <= rng.random()))  # 0: before the first knot
        if piece == 0:
            return self.knots[0] - rng.standard_exponential() / self.left
        if piece == self.knots.size:
            return self.knots[-1] + rng.standard_exponential() / self.right
        low, high = self.knots[piece - 1], self.knots[piece]
        slope = (self.potential[piece] - self.potential[piece - 1]) / (high - low)
        uniform = rng.random()
        if slope == 0.0:
            return low + uniform * (high - low)
        return low - math.log1p(uniform * math.expm1(-slope * (high - low))) / slope


@cache
def _inverse(matrix, size):
    return np.linalg.inv(np.frombuffer(matrix).reshape(size, size))


class Gaussian(NamedTuple):
    """theta' ~ Normal(A theta + b, root root'); in a mixture, some steps are something else."""

    A: float
    b: np.ndarray
    root: np.ndarray
    walk_every: int = 0
    """Every so many steps, the first among them, is a walk theta' ~ Normal(theta, walk_scale^2 H^-1)."""
    walk_scale: float = 0.0
    trials: int = 1
    """More than one: trials on the surrogate alone, independent ones and others in turn, are the proposal."""
    keep: float = 0.0
    """What every second trial keeps of the distance from the Newton point."""
    tables: tuple[Table, ...] = ()
    """Coordinates that are not normal; with A = 0 and root = W, so that root^-1 (theta' - b) = z - m, only."""
    centre: np.ndarray | None = None
    """Where z = 0, if there are tables."""

    def log_density(self, theta, other):
        """log q(theta, theta') of each pair, up to a constant."""
        inverse = _inverse(self.root.tobytes(), len(self.root))
        noise = (other - self.A * theta - self.b) @ inverse.T
        total = -(noise * noise).sum(axis=1) / 2
        for table in self.tables:
            z = (other - self.centre) @ inverse[table.axis]
            total += noise[:, table.axis] ** 2 / 2 - table.minus_log_density(z)
        return total


def random_walk(problem, scale):
    """(P) eq:scaled-random-walk-prop."""
    d = problem.centre.size
    return Gaussian(1.0, np.zeros(d), scale / math.sqrt(problem.n) * np.eye(d))


def preconditioned_walk(problem, scale):
    """(P) proposalpreconditionedRW: covariance scale^2 H^-1 = scale^2 W W'."""
    return Gaussian(1.0, np.zeros(problem.centre.size), scale * problem.unwhiten)


def first_order_reversible(problem, scale):
    """(P) eq:scaled-first-order-prop."""
    d, n = problem.centre.size, problem.n
    return Gaussian(1.0, -scale / (2 * n) * problem.gradient, math.sqrt(scale / n) * np.eye(d))


def crank_nicolson(problem, rho, antithetic=False):
    """pCN of (P) section 3.2; the root of rho may be negative."""
    A = -math.sqrt(rho) if antithetic else math.sqrt(rho)
    newton = problem.centre - np.linalg.solve(problem.hessian, problem.gradient)
    return Gaussian(A, (1 - A) * newton, math.sqrt(1 - rho) * problem.unwhiten)


def surrogate_steps(problem, trials, keep, walk_every):
    """Trials on the surrogate, mixed with walks of the default length."""
    plain = crank_nicolson(problem, 0.0)
    return plain._replace(
        trials=trials, keep=keep, walk_every=walk_every, walk_scale=2 / math.sqrt(problem.centre.size)
    )


def crank_nicolson_and_walks(problem, rho, antithetic, walk_every):
    """pCN mixed with walks of the default length."""
    plain = crank_nicolson(problem, rho, antithetic)
    return plain._replace(walk_every=walk_every, walk_scale=2 / math.sqrt(problem.centre.size))


class Acceptance(NamedTuple):
    """log alpha of pairs of points under plain and under factorised acceptance, and the rate that chooses."""

    plain: np.ndarray
    factorised: np.ndarray
    rate: np.ndarray

    def log(self, truncation):
        """log alpha, truncated: (P) eq:tfmh-acc-prob."""
        return np.float64(np.where(self.rate < truncation, self.factorised, self.plain))


def acceptance(problem, rule, proposal, theta, other):
    """The acceptance probability of each pair from its definition, (P) eq:afmh."""
    theta, other = np.atleast_2d(theta), np.atleast_2d(other)
    ratio = proposal.log_density(other, theta) - proposal.log_density(theta, other)
    plain = np.minimum(problem.potential(theta) - problem.potential(other) + ratio, 0)
    if rule.order is None:
        return Acceptance(plain, plain, np.full(plain.size, math.inf))
    first = np.minimum(problem.surrogate(theta, rule.order) - problem.surrogate(other, rule.order) + ratio, 0)
    rest = intensities(problem, rule.order, theta, other).sum(axis=1)
    return Acceptance(plain, first - rest, rule.rate(problem, theta, other))


def remainders(problem, order, theta):
    """r_i at each point, (points, rows)."""
    return problem.remainders(theta, order)


def intensities(problem, order, theta, other):
    """lambda_i of each pair, (pairs, rows)."""
    return np.maximum(remainders(problem, order, other) - remainders(problem, order, theta), 0)


def intensities_by_kind(problem, order, theta, other):
    """lambda_i of one pair as rises, as falls, and whole: (3, rows)."""
    whole = intensities(problem, order, theta, other)[0]
    rises = np.minimum(whole, np.maximum(remainders(problem, order, other)[0], 0))
    return np.stack([rises, whole - rises, whole])


def uniform_index(n, rng):
    """Lemire's method on 32 random bits."""
    while True:
        product = int(rng.random() * 2**32) * n
        low = product % 2**32
        if low >= (2**32 - n) % n:
            return product // 2**32


ROUNDED = 1e-5
"""Shares of a bound are kept in single precision, rounded up."""


class Chain(NamedTuple):
    """What a replayed chain did."""

    z: np.ndarray
    accepted: np.ndarray
    rows_touched: np.ndarray
    full_pass: np.ndarray
    unsure: np.ndarray | int = 0
    """Events for which it is a matter of rounding whether they read their row: it cannot reject then."""


class _Noise:
    """What proposals are made of, drawn a block at a time: standard normal vectors, and a number of each table."""

    def __init__(self, rng, problem, proposal):
        self.rng, self.problem, self.proposal, self.left = rng, problem, proposal, []

    def next(self):
        """A standard normal vector and the tables' numbers."""
        if not self.left:
            normal = self.rng.standard_normal((BLOCK, self.problem.centre.size))
            drawn = [[table.draw(self.rng) for _ in range(BLOCK)] for table in self.proposal.tables]
            self.left = [(xi, [line[b] for line in drawn]) for b, xi in enumerate(normal)]
        return self.left.pop(0)

    def walk(self):
        """A standard normal vector for a walk: anew where there are tables, as the others' is drawn already."""
        xi = self.next()[0].copy()
        for table in self.proposal.tables:
            xi[table.axis] = self.rng.standard_normal()
        return xi

    def put(self, theta, values):
        """Theta with tabulated coordinates as given."""
        if not self.proposal.tables:
            return theta
        z = self.problem.z(theta)[0]
        for table, value in zip(self.proposal.tables, values, strict=True):
            z[table.axis] = value
        return self.problem.theta(z)[0]


def _surrogate_trials(problem, rule, proposal, theta, noise, rng):
    """Return where trials on the surrogate lead, within the ball and where it is not too deep.

    Of a convex surrogate that is no polynomial nothing is too deep.
    """
    exact = getattr(problem, "core", ()) or getattr(problem, "stand_ins", ())
    deepest = 1e300 if rule.order == 2 and exact else 0.4
    newton = proposal.b  # A = 0
    variance = np.diag(np.linalg.inv(problem.hessian))
    hard = [other for other in problem.other_priors if other.kind != "student"]
    slack = sum(2.0 * other.stand_in(problem.centre[other.j])[1] * variance[other.j] for other in hard)
    axes = [table.axis for table in proposal.tables]
    slack += 2.0 if axes else 0.0

    def level(point):
        return problem.surrogate(point, rule.order)[0] + proposal.log_density(theta[None], point[None])[0]

    at_centre = level(problem.centre)

    def excess(point):
        """The surrogate less G, zero at the centre."""
        return float(level(point) - at_centre)

    def allowed(point, value):
        far = float(np.sum(np.abs(point - problem.centre)))
        if rule.radius is not None:
            far = float(np.linalg.norm(problem.bounded(point)))
            if far > rule.radius:
                return False
        return value >= -deepest * far * far - slack - 1e-11

    value = excess(theta)
    inside = allowed(theta, value)
    for trial in range(proposal.trials):
        normal, drawn = noise.next()
        xi = proposal.root @ normal
        candidate, put_back = noise.put(newton + xi, drawn), 0.0
        if trial % 2 == 1:
            candidate = newton + proposal.keep * (theta - newton) + math.sqrt(1 - proposal.keep**2) * xi
            if axes:  # tabulated coordinates walk, so that their G does not cancel
                before = problem.z(theta)[0][axes]
                length = 2.0 / math.sqrt(len(axes)) * math.exp(rng.standard_normal())
                after = before + length * rng.standard_normal(len(axes))
                candidate = noise.put(candidate, after)
                pairs = zip(proposal.tables, before, after, strict=True)
                put_back = sum(t.minus_log_density(a) - t.minus_log_density(b) for t, a, b in pairs)
        height = excess(candidate)
        if inside and allowed(candidate, height):
            rise = height - value - put_back
            if rise < 1e-11 or rng.standard_exponential() > rise:
                theta, value = candidate, height
    return theta


def from_table(table, rng):
    """Draw a row from an alias table, (keep, alias)."""
    i = uniform_index(table[0].size, rng)
    return i if rng.random() < table[0][i] else int(table[1][i])


class Bundled:
    """Rows of a sketch in bundles: which of its rows an event of a bundle falls on, by (S), section 5.

    `codes`, `scales` and `shares` are in the order of `rows`; bundle g has `size` of them, from g * size on, and the
    limit `limits[g]`.
    """

    def __init__(self, codes, rows, scales, shares, limits, size):
        self.codes, self.rows = codes.astype(np.int64), rows
        self.scales, self.shares, self.limits, self.size = scales.astype(float), shares.astype(float), limits, size

    def pieces(self, order, z, other):
        """Upper bounds of every row's rise, fall and intensity, in the order of the sketch; a line for each."""
        b = [self.distances(point) for point in (other, z, other - z)]
        p = order + 1
        step = np.minimum(b[0] ** p + b[1] ** p, p / 2 * (b[0] ** order + b[1] ** order) * b[2])
        return (1.0 + 1e-6) * np.array([b[0] ** p * self.shares[:, 0], b[1] ** p * self.shares[:, 1], step])

    def distances(self, z):
        """Upper bounds of psi_i^(1/p) |L^-1 x_i . z| / a_i."""
        d = z.size
        unit = np.max(np.abs(z)) / min(32767, (2**31 - 1) // (127 * d))
        product = np.abs(self.codes[:, :d] @ np.rint(z / unit).astype(np.int64)) * unit if unit > 0 else 0.0
        single = 127.0 * d * (d + 3) * 2.0**-24 if d > 15 else 0.0  # of rows in single precision
        return self.scales * (product + 0.5 * np.sum(np.abs(z)) + 63.5 * d * unit + single * np.linalg.norm(z))

    def trial(self, bundle, level, pieces, intensity):
        """Whether an event at this level, between 0 and the bundle's limit, reads a row, and whether that rejects."""
        for place in range(bundle * self.size, min((bundle + 1) * self.size, self.rows.size)):
            if level < pieces[place]:
                return True, level < intensity[self.rows[place]]
            level -= pieces[place]
        return False, False


def replay(problem, rule, proposal, draw, z, rng, steps, batch=1, bundled=None):
    """Run the chain step by step in theta, with random numbers in the order of the compiled kernel.

    `draw(rng)` is the next row to be tried, or the next bundle of `bundled`; the chain begins at z. Events are drawn
    `batch` at a time; those after a rejection are dropped.
    """
    n, d = problem.n, problem.centre.size
    out = Chain(
        *(np.empty((steps, d)), np.zeros(steps, bool), np.zeros(steps, int), np.zeros(steps, bool)),
        np.zeros(steps, int),
    )
    plain = rule.order is None
    clock = rng.standard_exponential()  # drawn for plain Metropolis-Hastings too, which never looks at it
    psi = np.zeros(n) if plain else rule.constants(problem)
    shares = np.ones((3, n))
    if not plain:
        shares[:2] = rule.shares(problem)
    total = float(np.sum(psi if bundled is None else bundled.limits))
    theta = problem.theta(z)[0]
    z = problem.z(theta)[0]
    noise = _Noise(rng, problem, proposal)
    for step in range(steps):
        walks = proposal.walk_every > 0 and step % proposal.walk_every == 0
        ratio, accept, looked, full = 0.0, True, 0, False
        if walks:
            other = theta + proposal.walk_scale * problem.unwhiten @ noise.walk()
        elif proposal.trials > 1 and not plain:
            other = _surrogate_trials(problem, rule, proposal, theta, noise, rng)
            accept = other is not theta
            # Reversible for the surrogate, so that is what the proposal's ratio is.
            ratio = float((problem.surrogate(other, rule.order) - problem.surrogate(theta, rule.order))[0])
        else:
            xi, drawn = noise.next()
            other = noise.put(proposal.A * theta + proposal.b + proposal.root @ xi, drawn)
            ends = np.stack([other, theta])
            back, forth = proposal.log_density(ends, ends[::-1])
            ratio = float(back - forth)
        pair = theta[None], other[None]
        factor = math.inf if plain else float(rule.factor(problem, *pair)[0])
        if accept and not factor * total < rule.truncation:
            full, looked = True, n
            change = float((problem.potential(pair[1]) - problem.potential(pair[0]))[0]) - ratio
            accept = rng.standard_exponential() > change
        elif accept:
            order = rule.order
            change = float((problem.surrogate(pair[1], order) - problem.surrogate(pair[0], order))[0]) - ratio
            # A factor that is identically one takes no random number.
            accept = change < 1e-11 or rng.standard_exponential() > change
            left = factor * total
            if accept and clock < left:
                intensity = intensities_by_kind(problem, order, *pair)
                parts = rule.kinds(problem, theta, other, factor)
                if bundled is not None:
                    pieces = bundled.pieces(order, problem.z(theta)[0], problem.z(other)[0])
                while accept and clock < left:
                    events, seen = [], []
                    while len(events) < batch and clock < left:
                        left -= clock
                        clock = rng.standard_exponential()
                        i = draw(rng)
                        uniform = rng.random()
                        kind = 2 if parts[2] > 0 else 0 if left >= total * parts[1] else 1
                        if bundled is None:
                            seen.append(uniform < shares[kind, i])
                            out.unsure[step] += abs(uniform - shares[kind, i]) < ROUNDED * shares[kind, i] < ROUNDED
                            events.append(uniform * parts[kind] * psi[i] < intensity[kind, i])
                        else:
                            level = uniform * parts[kind] * bundled.limits[i]
                            read, rejects = bundled.trial(i, level, pieces[kind], intensity[kind])
                            seen.append(read)
                            events.append(rejects)
                    accept = not any(events)
                    looked += sum(seen[: events.index(True) + 1] if any(events) else seen)
                    if any(events) and len(events) < batch:
                        clock -= left  # the clock was seen to outlast the step
            if accept:
                clock -= left
        if accept:
            theta, z = other, problem.z(other)[0]
        out.z[step] = z
        out.accepted[step], out.rows_touched[step], out.full_pass[step] = accept, looked, full
    return out
