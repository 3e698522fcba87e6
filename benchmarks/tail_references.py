"""Exact posteriors of small shape: moments, quantiles and independent draws by quadrature, without MCMC.

All but a few coefficients of a tall regression are nearly Gaussian, and those few are independent of one another
given the rest. So every posterior here is a product of sums over one-dimensional tables and a small Gauss-Hermite
rule. Each class has `statistics(fine)`, a 4 x d array of mean, sd, 5 % and 95 % quantile, and `draw(rng, size)`,
independent exact draws by rejection; the two share the likelihood and nothing else, so that they check each other.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr

Log = Callable[[np.ndarray], np.ndarray]

DEEP = 45.0
"""Densities are followed to exp(-45) of their largest value."""
WIDER = 1.1
"""Gaussian proposals are so much wider than the likelihood's curvature says, so that weights have a bound."""
REACH = 8.0
"""Standard deviations of a nearly Gaussian coefficient that tables cover."""


def normal(mean: float, scale: float) -> Log:
    """Return a normal log density, without its constant."""
    return lambda x: -0.5 * ((x - mean) / scale) ** 2


def cauchy(scale: float) -> Log:
    return lambda x: -np.log1p((x / scale) ** 2)


def laplace(scale: float) -> Log:
    return lambda x: -np.abs(x) / scale


def flat(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


LINKS: dict[str, tuple[Log, Log]] = {  # log P(y = 1) and log P(y = 0) of the predictor
    "logit": (lambda eta: -np.logaddexp(0.0, -eta), lambda eta: -np.logaddexp(0.0, eta)),
    "probit": (log_ndtr, lambda eta: log_ndtr(-eta)),
    "cloglog": (lambda eta: np.log(-np.expm1(-np.exp(eta))), lambda eta: -np.exp(eta)),
}


class Rows:
    """Binary rows: the sum of their log likelihoods; rows that are alike are counted once."""

    def __init__(self, X: np.ndarray, y: np.ndarray, link: str) -> None:
        self.parts = []
        for value, log_probability in zip((1.0, 0.0), LINKS[link], strict=True):
            rows = np.ascontiguousarray(X[y == value])
            count = np.ones(len(rows))
            if X.shape[1] == 1:
                rows, times = np.unique(rows, axis=0, return_counts=True)
                count = times.astype(float)
            if len(rows):
                self.parts.append((rows, count, log_probability))
        self.distinct = sum(len(rows) for rows, _, _ in self.parts)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """Return the log likelihood at each row of V."""
        total = np.zeros(len(V))
        for rows, count, log_probability in self.parts:
            for i, v in enumerate(V):
                total[i] += np.sum(count * log_probability(rows @ v))
        return total

    def shifted(self, V: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the log likelihood of predictors moved by u, V x u; u may have a row for each of V."""
        u = np.broadcast_to(u, (len(V), u.shape[-1]))
        total = np.zeros(u.shape)
        for rows, count, log_probability in self.parts:
            step = max(1, 2_000_000 // (u.shape[1] * len(rows)))
            for at in range(0, len(V), step):
                chunk = slice(at, at + step)
                eta = (V[chunk] @ rows.T)[:, None, :] + u[chunk, :, None]
                total[chunk] += log_probability(eta) @ count
        return total


class Bulk:
    """The log likelihood of many rows, which is nearly quadratic, as a polynomial of degree 6 around its mode.

    Coordinates are whitened. `error` is the largest difference from the sum over rows at points that the fit has not
    seen, out to 7 standard deviations. Few distinct rows are summed as they are.
    """

    DEGREE, RADIUS = 6, 7.0

    def __init__(self, rows: Rows, start: np.ndarray) -> None:
        self.rows, q = rows, start.size
        self.centre: np.ndarray = start
        self.root: np.ndarray = 0.1 * np.eye(q)
        for _ in range(8):  # Newton's method with differences in whitened coordinates: curvature to a few digits
            gradient, hessian = self._differences(0.05)
            self.centre = self.centre + self.root @ np.linalg.solve(hessian, gradient)
            self.root = np.linalg.cholesky(self.root @ np.linalg.inv(hessian) @ self.root.T)
        self.error, self.exact = 0.0, rows.distinct < 1000
        if not self.exact:
            rng = np.random.default_rng(0)
            T = rng.standard_normal((500, q))
            T *= (self.RADIUS * rng.random(500) ** (1.0 / q) / np.linalg.norm(T, axis=1))[:, None]
            self.powers = [p for p in itertools.product(range(self.DEGREE + 1), repeat=q) if sum(p) <= self.DEGREE]
            values = rows(self.centre + T @ self.root.T)
            self.top = float(np.max(values))
            values -= self.top
            fit, test = slice(0, 350), slice(350, None)
            self.coefficients = np.linalg.lstsq(self._monomials(T[fit]), values[fit], rcond=None)[0]
            self.error = float(np.max(np.abs(self._monomials(T[test]) @ self.coefficients - values[test])))

    def _differences(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and negative Hessian in whitened coordinates, by central differences."""
        q = self.centre.size
        steps = [np.zeros(q)]
        unit = h * np.eye(q)
        for i in range(q):
            steps += [unit[i], -unit[i]]
        pairs = list(itertools.combinations(range(q), 2))
        for i, j in pairs:
            steps += [unit[i] + unit[j], -unit[i] - unit[j]]
        values = self.rows(self.centre + np.array(steps) @ self.root.T)
        gradient, hessian = np.empty(q), np.empty((q, q))
        for i in range(q):
            up, down = values[1 + 2 * i], values[2 + 2 * i]
            gradient[i] = (up - down) / (2.0 * h)
            hessian[i, i] = -(up + down - 2.0 * values[0]) / h**2
        for k, (i, j) in enumerate(pairs):
            both = values[1 + 2 * q + 2 * k] + values[2 + 2 * q + 2 * k] - 2.0 * values[0]
            hessian[i, j] = hessian[j, i] = 0.5 * (-both / h**2 - hessian[i, i] - hessian[j, j])
        return gradient, hessian

    def _monomials(self, T: np.ndarray) -> np.ndarray:
        powers = (T / self.RADIUS)[None] ** np.arange(self.DEGREE + 1)[:, None, None]
        return np.stack([np.prod([powers[p, :, j] for j, p in enumerate(each)], axis=0) for each in self.powers], 1)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """Return the log likelihood at each row of V, but for a constant."""
        if self.exact:
            return self.rows(V)
        T = np.linalg.solve(self.root, (V - self.centre).T).T
        total = np.empty(len(T))
        for at in range(0, len(T), 100_000):
            total[at : at + 100_000] = self._monomials(T[at : at + 100_000]) @ self.coefficients
        return total


class Table:
    """A density in one dimension, on grids that are smooth functions of an index, one for each smooth piece.

    Parameters
    ----------
    pieces : list of pairs of arrays
        Places x, increasing, and the density with respect to the index (the Jacobian of x included).
    """

    def __init__(self, pieces: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        self.pieces = [(x, mass) for x, mass in pieces]
        fine_x, fine_cdf, so_far, first, second = [], [], 0.0, 0.0, 0.0
        middle = float(np.mean([np.sum(x * m) / np.sum(m) for x, m in self.pieces]))
        for x, mass in self.pieces:
            index = np.arange(x.size, dtype=float)
            dense = np.linspace(0.0, x.size - 1.0, 16 * (x.size - 1) + 1)
            cumulative = CubicSpline(index, mass).antiderivative()(dense)
            fine_x.append(CubicSpline(index, x)(dense))
            fine_cdf.append(so_far + np.maximum.accumulate(np.maximum(cumulative, 0.0)))
            so_far += float(cumulative[-1])
            first += float(CubicSpline(index, mass * (x - middle)).integrate(0.0, x.size - 1.0))
            second += float(CubicSpline(index, mass * (x - middle) ** 2).integrate(0.0, x.size - 1.0))
        self.total = so_far
        self.x, self.cdf = np.concatenate(fine_x), np.concatenate(fine_cdf) / so_far
        self.mean = middle + first / so_far
        self.sd = math.sqrt(second / so_far - (first / so_far) ** 2)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return quantiles."""
        return np.interp(p, self.cdf, self.x)

    def statistics(self) -> np.ndarray:
        """Return mean, sd, 5 % and 95 % quantile."""
        return np.array([self.mean, self.sd, *self.quantile(np.array([0.05, 0.95]))])

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return independent draws."""
        return self.quantile(rng.random(size))


def stretched(log_density: Log, near: float, low: float, high: float, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places u = mode + w sinh(z), z evenly spaced, that cover a density of one mode, and du/dz.

    Even steps in z are fine about the mode and reach tails a thousand times longer; w is the width of the mode.
    """
    places = np.array([near])
    for width in (high - low, 1.0, 1e-2):
        places = np.union1d(places, np.clip(near + width * np.linspace(-1.0, 1.0, 4001), low, high))
        near = float(places[np.argmax(log_density(places))])
    top = float(log_density(np.array([near]))[0])
    below = [_edge(log_density, near, side, top - 0.5) for side in (-1.0, 1.0)]
    w = float(min(below))
    ends = [math.asinh(_edge(log_density, near, side, top - DEEP) / w) for side in (-1.0, 1.0)]
    z = np.linspace(-ends[0], ends[1], size)
    return near + w * np.sinh(z), w * np.cosh(z) * (z[1] - z[0])


def _edge(log_density: Log, near: float, side: float, level: float) -> float:
    """Return the distance at which a log density of one mode has fallen to a level."""
    low, high = 0.0, 1e-6
    while float(log_density(np.array([near + side * high]))[0]) > level:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if float(log_density(np.array([near + side * middle]))[0]) > level else (low, middle)
        )
    return high


class Line:
    """One coefficient."""

    bulk_error = 0.0

    def __init__(self, log_density: Log, near: float) -> None:
        self.log_density, self.near = log_density, near

    def table(self, size: int) -> Table:
        """Return the density on so many places."""
        u, jacobian = stretched(self.log_density, self.near, self.near - 50.0, self.near + 50.0, size)
        value = self.log_density(u)
        return Table([(u, np.exp(value - value.max()) * jacobian)])

    def statistics(self, fine: bool = True) -> np.ndarray:
        """Return mean, sd and quantiles."""
        return self.table(1600 if fine else 600).statistics()[:, None]

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from the distribution function, from a table of another size."""
        return self.table(1100).draw(rng, size)[:, None]


class _ByRejection:
    """Exact draws from proposals with weights."""

    dimension: int

    def propose(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return independent draws: proposals that a uniform number below weight / largest weight lets through."""
        kept, have = [], 0
        pool = min(2 * size, 200_000)
        highest = float(np.max(self.propose(rng, 200_000)[1])) + 0.05  # the same bound for every batch
        while have < size:
            points, log_weight = self.propose(rng, pool)
            keep = points[np.log(rng.random(pool)) < log_weight - highest]
            kept.append(keep)
            have += len(keep)
        return np.concatenate(kept)[:size]


class Levels(_ByRejection):
    """Nearly Gaussian coefficients v (the first is the intercept) and one for each level, apart given v.

    Parameters
    ----------
    bulk : Bulk
        Rows in no level.
    levels : list of Rows
        Rows of each level, with the columns of v.
    priors_v, priors_u : lists of log densities
        Priors of v and of the levels' coefficients.
    order : list of int
        Where v, then the levels' coefficients, are among the coefficients.
    """

    def __init__(
        self,
        bulk: Bulk,
        levels: Sequence[Rows],
        priors_v: Sequence[Log],
        priors_u: Sequence[Log],
        order: Sequence[int],
    ) -> None:
        self.bulk, self.levels, self.priors_v, self.priors_u = bulk, levels, priors_v, priors_u
        self.order = list(order)
        self.bulk_error = bulk.error

    def _conditional(self, k: int) -> Log:
        """Return the log density of a level's coefficient at the bulk's mode."""
        centre = self.bulk.centre[None]
        return lambda u: self.levels[k].shifted(centre, u)[0] + self.priors_u[k](u)

    def log_likelihood(self, beta: np.ndarray) -> np.ndarray:
        """Return what is used for the log likelihood, but for a constant."""
        q = self.bulk.centre.size
        V, U = beta[:, self.order[:q]], beta[:, self.order[q:]]
        return self.bulk(V) + sum(level.shifted(V, U[:, [k]])[:, 0] for k, level in enumerate(self.levels))

    def _smooth(self, V: np.ndarray) -> np.ndarray:
        return self.bulk(V) + sum(prior(V[:, j]) for j, prior in enumerate(self.priors_v))

    def statistics(self, fine: bool = True) -> np.ndarray:
        """Return mean, sd and quantiles: each v along a line with a small rule across, the levels inside."""
        q, step, across, size = self.bulk.centre.size, *((0.2, 8, 700) if fine else (0.4, 5, 400))
        grids = [stretched(self._conditional(k), 0.0, -60.0, 60.0, size) for k in range(len(self.levels))]
        columns = []
        for j in range(q):
            line, V, log_rule = _line_and_rule(self.bulk.centre, self.bulk.root, j, step, across)
            log_weight = self._smooth(V) + log_rule
            inside = []
            for level, prior, (u, jacobian) in zip(self.levels, self.priors_u, grids, strict=True):
                values = level.shifted(V, u) + prior(u)
                top = values.max(axis=1)
                density = np.exp(values - top[:, None]) * jacobian
                integral = density.sum(axis=1)
                log_weight = log_weight + top + np.log(integral)
                if j == 0:
                    inside.append(density / integral[:, None])
            weight = np.exp(log_weight - log_weight.max())
            columns.append(Table([(line, weight.reshape(line.size, -1).sum(axis=1))]).statistics())
            if j == 0:
                of_levels = [
                    Table([(u, weight @ density)]).statistics()
                    for (u, _), density in zip(grids, inside, strict=True)
                ]
        return self._ordered(np.stack(columns + of_levels, axis=1))

    def _ordered(self, values: np.ndarray) -> np.ndarray:
        ordered = np.empty_like(values)
        ordered[:, self.order] = values
        return ordered

    @cached_property
    def _tables(self) -> list[Table]:
        tables = []
        for k in range(len(self.levels)):
            log_density = self._conditional(k)
            u, jacobian = stretched(log_density, 0.0, -60.0, 60.0, 1500)
            value = log_density(u)
            tables.append(Table([(u, np.exp(value - value.max()) * jacobian)]))
        return tables

    def propose(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Propose v from the Gaussian, and each level's intercept plus coefficient from its table at the mode."""
        T = WIDER * rng.standard_normal((size, self.bulk.centre.size))
        V = self.bulk.centre + T @ self.bulk.root.T
        log_weight = self._smooth(V) + 0.5 * np.sum(T**2, axis=1) / WIDER**2
        moved = V[:, 0] - self.bulk.centre[0]
        columns = [V]
        for k, table in enumerate(self._tables):
            at_mode = table.draw(rng, size)
            u = at_mode - moved
            log_weight += self.levels[k].shifted(V, u[:, None])[:, 0] + self.priors_u[k](u)
            log_weight -= self._conditional(k)(at_mode)
            columns.append(u[:, None])
        return self._ordered(np.hstack(columns)), log_weight


def _line_and_rule(
    centre: np.ndarray, root: np.ndarray, first: int, step: float, across: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return even places of one coefficient, points (places x a Gauss-Hermite rule across), and log weights.

    Weights are for integrals over the other coefficients with respect to Lebesgue's measure, up to a constant.
    """
    q = centre.size
    order = [first, *(j for j in range(q) if j != first)]
    covariance = (root @ root.T)[np.ix_(order, order)]
    lower = np.linalg.cholesky(covariance)
    along = np.arange(-REACH, REACH + step / 2.0, step)
    node, weight = np.polynomial.hermite_e.hermegauss(across)
    rule = np.array(list(itertools.product(node, repeat=q - 1))).reshape(across ** (q - 1), q - 1)
    log_weight = np.array([sum(w) for w in itertools.product(np.log(weight), repeat=q - 1)])
    log_weight = log_weight + 0.5 * np.sum(rule**2, axis=1)
    T = np.hstack([np.repeat(along, len(rule))[:, None], np.tile(rule, (along.size, 1))])
    V = np.empty((len(T), q))
    V[:, order] = centre[order] + T @ lower.T
    return centre[first] + lower[0, 0] * along, V, np.tile(log_weight, along.size)


class Special(_ByRejection):
    """One coefficient with a kink or a wall in its prior, and others, in a likelihood that is nearly Gaussian.

    Parameters
    ----------
    bulk : Bulk
        All rows.
    special : int
        Which coefficient.
    prior : log density
        Of that coefficient.
    pieces : list of pairs
        Intervals on which its prior is smooth.
    priors : list of log densities
        Of all coefficients; the special one's entry is not used.
    """

    def __init__(
        self, bulk: Bulk, special: int, prior: Log, pieces: Sequence[tuple[float, float]], priors: Sequence[Log]
    ) -> None:
        self.bulk, self.special, self.prior, self.pieces, self.priors = bulk, special, prior, pieces, priors
        self.bulk_error = bulk.error
        self.others = [j for j in range(bulk.centre.size) if j != special]

    def log_likelihood(self, beta: np.ndarray) -> np.ndarray:
        """Return what is used for the log likelihood, but for a constant."""
        return self.bulk(beta)

    def _log_density(self, V: np.ndarray) -> np.ndarray:
        total = self.bulk(V) + self.prior(V[:, self.special])
        for j in self.others:
            total += self.priors[j](V[:, j])
        return total

    def _given(self, fixed: list[int]) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Return what is left, its regression on what is fixed, and the root of its conditional covariance."""
        covariance = self.bulk.root @ self.bulk.root.T
        rest = [j for j in range(self.bulk.centre.size) if j not in fixed]
        slope = covariance[np.ix_(rest, fixed)] @ np.linalg.inv(covariance[np.ix_(fixed, fixed)])
        left = covariance[np.ix_(rest, rest)] - slope @ covariance[np.ix_(fixed, rest)]
        return rest, slope, np.linalg.cholesky(left)

    def _integrated(self, fixed: list[int], places: np.ndarray, across: int) -> np.ndarray:
        """Return the log density of some coefficients at places, up to a constant, the others integrated out."""
        rest, slope, lower = self._given(fixed)
        node, weight = np.polynomial.hermite_e.hermegauss(across)
        rule = np.array(list(itertools.product(node, repeat=len(rest))))
        log_weight = np.array([sum(w) for w in itertools.product(np.log(weight), repeat=len(rest))])
        log_weight = log_weight + 0.5 * np.sum(rule**2, axis=1)
        V = np.empty((len(places), len(rule), self.bulk.centre.size))
        V[:, :, fixed] = places[:, None, :]
        mean = self.bulk.centre[rest] + (places - self.bulk.centre[fixed]) @ slope.T
        V[:, :, rest] = mean[:, None, :] + (rule @ lower.T)[None]
        values = self._log_density(V.reshape(-1, V.shape[2])).reshape(len(places), len(rule)) + log_weight
        top = values.max(axis=1)
        return top + np.log(np.exp(values - top[:, None]).sum(axis=1))

    def table(self, size: int, across: int) -> Table:
        """Return the special coefficient's density."""
        grids = [np.linspace(low, high, size) for low, high in self.pieces]
        # The prior at the end of a piece is that of its inside: take places a hair inside.
        inner = [np.clip(u, u[0] + 1e-9 * (u[-1] - u[0]), u[-1] - 1e-9 * (u[-1] - u[0])) for u in grids]
        values = [self._integrated([self.special], u[:, None], across) for u in inner]
        top = max(float(v.max()) for v in values)
        return Table([(u, np.exp(v - top) * (u[1] - u[0])) for u, v in zip(grids, values, strict=True)])

    def statistics(self, fine: bool = True) -> np.ndarray:
        """Return mean, sd and quantiles: the others along lines, the special one by Gauss-Legendre panels."""
        size, across, panels, step = (801, 8, 24, 0.2) if fine else (401, 5, 12, 0.4)
        result = np.empty((4, self.bulk.centre.size))
        result[:, self.special] = self.table(size, across).statistics()
        node, weight = np.polynomial.legendre.leggauss(8)
        u, du = [], []
        for low, high in self.pieces:
            edges = np.linspace(low, high, panels + 1)
            half = 0.5 * np.diff(edges)
            u.append((edges[:-1] + half)[:, None] + half[:, None] * node)
            du.append(half[:, None] * weight)
        special, log_du = np.concatenate(u).ravel(), np.log(np.concatenate(du).ravel())
        sd = np.sqrt(np.sum(self.bulk.root**2, axis=1))
        for j in self.others:
            line = self.bulk.centre[j] + sd[j] * np.arange(-REACH, REACH + step / 2.0, step)
            places = np.column_stack([np.repeat(line, special.size), np.tile(special, line.size)])
            values = self._integrated([j, self.special], places, across) + np.tile(log_du, line.size)
            mass = np.exp(values - values.max()).reshape(line.size, -1).sum(axis=1)
            result[:, j] = Table([(line, mass)]).statistics()
        return result

    @cached_property
    def _proposal(self) -> Table:
        return self.table(1201, 6)

    def propose(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Propose the special coefficient from its table and the others from the Gaussian given it."""
        u = self._proposal.draw(rng, size)
        rest, slope, lower = self._given([self.special])
        T = WIDER * rng.standard_normal((size, len(rest)))
        V = np.empty((size, self.bulk.centre.size))
        V[:, self.special] = u
        V[:, rest] = self.bulk.centre[rest] + (u[:, None] - self.bulk.centre[self.special]) @ slope.T + T @ lower.T
        log_weight = self._log_density(V) + 0.5 * np.sum(T**2, axis=1) / WIDER**2
        for (low, high), (x, mass) in zip(self.pieces, self._proposal.pieces, strict=True):
            here = (u >= low) & (u <= high)
            log_weight[here] -= np.interp(u[here], x, np.log(mass / (x[1] - x[0])))
        return V, log_weight


class Separated:
    """Intercept a and slope b of logistic regression on a covariate that separates the classes at a positive place.

    The place m = -a / b where both classes are equally likely is pinned to the gap between the classes, within
    about 1 / b; so each of a and b is followed on a log scale, with panels about the gap inside.
    """

    bulk_error = 0.0

    def __init__(self, x: np.ndarray, y: np.ndarray, prior: Log, *, heavy: bool) -> None:
        self.x, self.y, self.prior, self.heavy = x, y, prior, heavy
        self.gap = float(np.max(x[y == 0.0])), float(np.min(x[y == 1.0]))
        self.sign = np.where(y == 1.0, 1.0, -1.0)
        if not 0.0 < self.gap[0] < self.gap[1]:
            raise ValueError("the covariate must separate the classes at a positive place")

    def _inside(self, b: float, nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places m and their weights, for a slope of about b."""
        outward = np.concatenate([[0.0], 0.125 * 2.0 ** np.arange(11)]) / b
        low, high = self.gap
        half = 0.5 * (high - low)
        inward = np.append(outward[outward < half], half)
        edges = np.unique(np.concatenate([low - outward, low + inward, high - inward, high + outward]))
        edges = edges[edges > 0.0]
        node, weight = np.polynomial.legendre.leggauss(nodes)
        width = 0.5 * np.diff(edges)
        m = ((edges[:-1] + width)[:, None] + width[:, None] * node).ravel()
        return m, (width[:, None] * weight).ravel()

    def _likelihood(self, b: np.ndarray, m: np.ndarray) -> np.ndarray:
        """Return the log likelihood at pairs; rows far from m on their own side count for nothing."""
        total = np.empty(m.size)
        for at in range(0, m.size, 64):
            chunk = slice(at, at + 64)
            z = self.sign * b[chunk, None] * (self.x - m[chunk, None])
            total[chunk] = -np.logaddexp(0.0, -z).sum(axis=1)
        return total

    def log_likelihood(self, beta: np.ndarray) -> np.ndarray:
        """Return what is used for the log likelihood."""
        return self._likelihood(beta[:, 1], -beta[:, 0] / beta[:, 1])

    def _along(self, scale: float, nodes: int, which: int) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the log density of log |a| (which = 0) or log b at a place, and the places m with shares inside."""
        b_about = scale if which == 1 else scale / self.gap[0]
        m, dm = self._inside(b_about, nodes)
        if which == 1:
            a, b, jacobian = -scale * m, np.full(m.size, scale), np.full(m.size, scale)
        else:
            a, b, jacobian = np.full(m.size, -scale), scale / m, scale / m**2
        values = self._likelihood(b, m) + self.prior(a) + self.prior(b) + np.log(jacobian * dm * scale)
        top = float(values.max())
        share = np.exp(values - top)
        return top + math.log(share.sum()), m, share / share.sum()

    def _range(self, which: int) -> tuple[float, float]:
        """Return the ends of the log scale; a heavy tail is followed until its share of the mean is below 1e-8."""
        coarse = np.arange(-2.0, 12.0, 0.1)
        values = np.array([self._along(math.exp(s), 8, which)[0] for s in coarse])
        inside = coarse[values > values.max() - DEEP]
        high = float(coarse[np.argmax(values)]) + 20.0 if self.heavy else float(inside[-1]) + 0.1
        return float(inside[0]) - 0.1, high

    def _table(self, which: int, size: int, nodes: int) -> Table:
        low, high = self._range(which)
        s = np.linspace(low, high, size)
        values = np.array([self._along(math.exp(t), nodes, which)[0] for t in s])
        mass = np.exp(values - values.max())
        return Table([(np.exp(s), mass)]) if which == 1 else Table([(-np.exp(s)[::-1], mass[::-1])])

    def statistics(self, fine: bool = True) -> np.ndarray:
        """Return mean, sd and quantiles; a heavy tail has no sd: NaN."""
        size, nodes = (400, 12) if fine else (250, 8)
        result = np.stack([self._table(which, size, nodes).statistics() for which in (0, 1)], axis=1)
        if self.heavy:
            result[1] = np.nan
        return result

    @cached_property
    def _inverse(self) -> tuple[Table, np.ndarray, np.ndarray, np.ndarray]:
        """Return the table of b, its log scale, normal scores, and the m that has each score given each b."""
        low, high = self._range(1)
        s = np.linspace(low, high, 500)
        scores = np.linspace(-5.5, 5.5, 221)
        m_of, values = np.empty((s.size, scores.size)), np.empty(s.size)
        for i, t in enumerate(s):
            values[i], m, share = self._along(math.exp(t), 12, 1)
            cumulative = np.cumsum(share) - 0.5 * share
            keep = np.append(True, np.diff(cumulative) > 0.0)
            m_of[i] = np.interp(np.exp(log_ndtr(scores)), cumulative[keep], m[keep])
        return Table([(s, np.exp(values - values.max()))]), s, scores, m_of

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws of b from its table, and of a given b from tables at its neighbours."""
        table, s, scores, m_of = self._inverse
        t, score = table.draw(rng, size), rng.standard_normal(size)
        i = np.clip(((t - s[0]) / (s[1] - s[0])).astype(int), 0, s.size - 2)
        k = np.clip(((score - scores[0]) / (scores[1] - scores[0])).astype(int), 0, scores.size - 2)
        f = (t - s[i]) / (s[1] - s[0])
        g = np.clip((score - scores[k]) / (scores[1] - scores[0]), 0.0, 1.0)
        m = (1 - f) * ((1 - g) * m_of[i, k] + g * m_of[i, k + 1])
        m += f * ((1 - g) * m_of[i + 1, k] + g * m_of[i + 1, k + 1])
        return np.column_stack([-np.exp(t) * m, np.exp(t)])


class Weighted(_ByRejection):
    """A few coefficients with a tail in common: draws of Student's t with weights, in place of quadrature.

    The proposal has the mean and 1.5 times the spread of the posterior, from a first round with a guess of both.
    """

    DEGREES, WIDER, LARGE = 4.0, 1.5, 1_000_000
    bulk_error = 0.0

    def __init__(self, log_density: Log, centre: np.ndarray, root: np.ndarray) -> None:
        self.log_density, self.dimension = log_density, centre.size
        self.centre, self.root = centre, root
        for _ in range(2):
            points, log_weight = self.propose(np.random.default_rng(1), 200_000)
            weight = np.exp(log_weight - log_weight.max())
            weight /= weight.sum()
            self.centre = weight @ points
            apart = points - self.centre
            self.root = self.WIDER * np.linalg.cholesky(apart.T @ (weight[:, None] * apart))

    def propose(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return points and their log weights."""
        nu, d = self.DEGREES, self.dimension
        t = rng.standard_normal((size, d)) / np.sqrt(rng.chisquare(nu, size) / nu)[:, None]
        points = self.centre + t @ self.root.T
        return points, self.log_density(points) + 0.5 * (nu + d) * np.log1p(np.sum(t**2, axis=1) / nu)

    def statistics(self, fine: bool = True) -> np.ndarray:
        """Return mean, sd and quantiles, from so many points that their error is small beside that of 4,000 draws."""
        points, log_weight = self.propose(np.random.default_rng(2 + fine), self.LARGE if fine else self.LARGE // 4)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        mean = weight @ points
        found = [mean, np.sqrt(weight @ (points - mean) ** 2)]
        quantiles = np.empty((2, self.dimension))
        for j in range(self.dimension):
            order = np.argsort(points[:, j])
            below = np.cumsum(weight[order]) - 0.5 * weight[order]
            quantiles[:, j] = np.interp([0.05, 0.95], below, points[order, j])
        return np.array([*found, *quantiles])
