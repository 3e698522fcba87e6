"""Set-ups of several blocks, tiles, panels, groups of blocks and threads, against formulas in plain NumPy.

A row that counts twice, or 1 % too little, in one tile of one block would bias every draw without a word.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.models import passes, products
from tallbayes.setup import bounds
from tallbayes.setup.mode import find_mode
from tallbayes.setup.setup import Setup
from tallbayes.sources import arrays
from tallbayes.sources.base import Block, Source

N = 70_001
PRIOR_SCALE = 2.0
RADIUS = 6.0


class Truth(NamedTuple):
    """A regression, and what its likelihood is made of at any point."""

    data: dict
    family: object
    lines: np.ndarray
    """What parameters are multiplied by, (rows, q, parameters)."""
    weights: np.ndarray
    derivatives: object
    """derivatives(theta): those of a row's potential of orders 1, 2 and 3 in its q predictors, with rows first."""

    def model(self, source=None):
        prior = tb.priors.Normal(0.0, PRIOR_SCALE)
        if source is not None:
            return tb.Regression(source, None, self.family, prior)
        return tb.Regression(family=self.family, prior=prior, **self.data)

    def gradient(self, theta):
        slopes = self.weights[:, None] * self.derivatives(theta)[0]
        return np.einsum("nq,nqd->d", slopes, self.lines) + theta / PRIOR_SCALE**2

    def gradient_size(self, theta):
        """The sum of the absolute values that the gradient is a sum of."""
        slopes = self.weights[:, None] * np.abs(self.derivatives(theta)[0])
        return np.einsum("nq,nqd->d", slopes, np.abs(self.lines))

    def hessian(self, theta):
        curvatures = self.weights[:, None, None] * self.derivatives(theta)[1]
        q, total = self.lines.shape[1], np.eye(theta.size) / PRIOR_SCALE**2
        for j, k in itertools.product(range(q), repeat=2):
            total += (self.lines[:, j] * curvatures[:, j, k, None]).T @ self.lines[:, k]
        return total

    def white(self, theta):
        """Lines in coordinates in which the Hessian is the identity, by its lower triangular root."""
        return self.lines @ self.inverse_root(theta).T

    def inverse_root(self, theta):
        return np.linalg.inv(np.linalg.cholesky(self.hessian(theta)))

    def cubic(self, theta):
        """Coefficients of z_a z_b z_c, a >= b >= c, in the potential's third-order term; and their sizes."""
        white, thirds = self.white(theta), self.derivatives(theta)[2]
        q, d = self.lines.shape[1:]
        tensor, size = np.zeros((d, d, d)), np.zeros((d, d, d))
        for j, k, l in itertools.product(range(q), repeat=3):
            weight = self.weights * thirds[:, j, k, l]
            parts = white[:, j], white[:, k], white[:, l]
            tensor += np.einsum("n,na,nb,nc->abc", weight, *parts, optimize=True)
            size += np.einsum("n,na,nb,nc->abc", np.abs(weight), *map(np.abs, parts), optimize=True)
        packed = [(a, b, c) for a in range(d) for b in range(a + 1) for c in range(b + 1)]
        times = np.array([len(set(itertools.permutations(index))) for index in packed]) / 6.0
        return np.array([[values[index] for index in packed] for values in (tensor, size)]) * times


def covariates(d, seed):
    """A design with an intercept and correlated columns, weights, some of them zero, and an offset."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d))
    X[:, 1:] += 0.3 * X[:, :-1]
    X[:, 0] = 1.0
    weights = rng.integers(0, 4, N).astype(float)
    return rng, X, weights, rng.normal(0.0, 0.5, N)


def logistic(d):
    rng, X, weights, offset = covariates(d, 1)
    true = rng.normal(0.2, 0.6, d) / math.sqrt(d)
    y = (rng.random(N) < 1.0 / (1.0 + np.exp(-X @ true - offset))).astype(float)

    def derivatives(theta):
        p = 1.0 / (1.0 + np.exp(-X @ theta - offset))
        v = p * (1.0 - p)
        return (p - y)[:, None], v[:, None, None], (v * (1.0 - 2.0 * p))[:, None, None, None]

    data = {"X": X, "y": y, "weights": weights, "offset": offset}
    return Truth(data, tb.families.Bernoulli(), X[:, None], weights, derivatives)


def categorical():
    rng, X, weights, _ = covariates(3, 2)
    eta = X @ rng.normal(0.0, 0.7, (3, 2))
    y = np.argmax(np.column_stack([np.zeros(N), eta]) + rng.gumbel(size=(N, 3)), axis=1).astype(float)
    lines = np.zeros((N, 2, 6))
    lines[:, 0, :3] = lines[:, 1, 3:] = X

    def derivatives(theta):
        e = np.exp(lines @ theta)
        p = e / (1.0 + e.sum(axis=1, keepdims=True))
        first = p - np.column_stack([y == 1, y == 2])
        second, third = np.empty((N, 2, 2)), np.empty((N, 2, 2, 2))
        for j, k in itertools.product(range(2), repeat=2):
            second[:, j, k] = (j == k) * p[:, j] - p[:, j] * p[:, k]
        for j, k, l in itertools.product(range(2), repeat=3):
            a, b, c = p[:, j], p[:, k], p[:, l]
            third[:, j, k, l] = (
                (j == k == l) * a - (j == k) * a * c - (j == l) * a * b - (k == l) * b * a + 2.0 * a * b * c
            )
        return first, second, third

    return Truth({"X": X, "y": y, "weights": weights}, tb.families.Categorical(3), lines, weights, derivatives)


def unknown_scale():
    """Normal noise whose log-scale has a design of its own."""
    rng, X, weights, offset = covariates(3, 3)
    Z = np.column_stack([np.ones(N), rng.standard_normal(N)])
    y = X @ [0.5, -1.0, 2.0] + offset + np.exp(Z @ [0.3, -0.4]) * rng.standard_normal(N)
    lines = np.zeros((N, 2, 5))
    lines[:, 0, :3], lines[:, 1, 3:] = X, Z

    def derivatives(theta):
        eta, tau = (lines @ theta).T
        shrink = np.exp(-tau)
        u = (y - eta - offset) * shrink
        first, second, third = np.empty((N, 2)), np.empty((N, 2, 2)), np.empty((N, 2, 2, 2))
        first[:, 0], first[:, 1] = -u * shrink, 1.0 - u**2
        second[:, 0, 0], second[:, 1, 1] = shrink**2, 2.0 * u**2
        second[:, 0, 1] = second[:, 1, 0] = 2.0 * u * shrink
        third[:, 0, 0, 0], third[:, 1, 1, 1] = 0.0, -4.0 * u**2
        for j, k, l in itertools.product(range(2), repeat=3):
            if j + k + l in (1, 2):
                third[:, j, k, l] = -2.0 * shrink**2 if j + k + l == 1 else -4.0 * u * shrink
        return first, second, third

    data = {"X": X, "y": y, "weights": weights, "offset": offset, "scale_design": Z}
    family = tb.families.Gaussian(scale=tb.priors.Normal(0.0, PRIOR_SCALE))
    return Truth(data, family, lines, weights, derivatives)


TRUTHS = {
    "logistic": lambda: logistic(6),
    "logistic of many columns": lambda: logistic(40),
    "categorical": categorical,
    "unknown scale": unknown_scale,
}


@pytest.fixture(scope="module")
def truths():
    made = {}

    def get(name):
        if name not in made:
            made[name] = TRUTHS[name]()
        return made[name]

    return get


@pytest.fixture(autouse=True)
def in_two_groups(monkeypatch):
    """Threads take several blocks at a time, as they do of very many rows, and products several tiles of a block."""
    monkeypatch.setattr(arrays, "GROUPS", 2)
    monkeypatch.setattr(products, "SCALED", 2**16)


def assert_is_large(source, columns):
    """See to it that there are several groups, blocks in a group, and tiles in a block; the last ones not full."""
    tile = products.SCALED // columns
    assert 2 <= source.together < -(-source.n // source.block_rows)
    assert tile < source.block_rows < source.n
    assert source.n % source.block_rows


class Uneven(Source):
    """The same rows as they come in a stream, in blocks of different sizes."""

    def __init__(self, source):
        self.names, self.source = source.names, source

    @property
    def n(self):
        return self.source.n

    def blocks(self):
        borders = [0, 1, 17_000, 17_100, 41_000, 63_333, self.n]
        X, responses, weight, offset = self.source.whole[1:]
        for first, last in itertools.pairwise(borders):
            rows = slice(first, last)
            yield Block(first, X[rows], responses[rows], weight[rows], offset[rows])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", TRUTHS)
def test_gradient_and_hessian_at_the_mode(truths, name, threads):
    truth = truths(name)
    model = truth.model()
    assert_is_large(model.source, truth.data["X"].shape[1])
    mode = find_mode(model, threads=threads)
    hessian = truth.hessian(mode.theta)
    scale = np.sqrt(np.diag(hessian))
    assert np.max(np.abs(mode.hessian - hessian) / np.outer(scale, scale)) < 1e-11
    error = np.abs(mode.gradient - truth.gradient(mode.theta))
    assert np.max(error / truth.gradient_size(mode.theta)) < 1e-11
    assert np.max(np.abs(np.linalg.solve(hessian, truth.gradient(mode.theta))) * scale) < 1e-6


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", [name for name in TRUTHS if name != "logistic of many columns"])
def test_cubic(truths, name, threads):
    truth = truths(name)
    setup = Setup(truth.model(), threads)
    assert setup.metric.triangular
    wanted, size = truth.cubic(setup.mode.theta)
    assert np.max(np.abs(setup.cubic - wanted) / np.maximum(size, 1e-300)) < 1e-10


def logistic_suprema(eta, reach, m):
    """Largest rise, fall and absolute value of the derivative of order m, 3 or 4, within reach of eta."""

    def at(points):
        p = 1.0 / (1.0 + np.exp(-points))
        v = p * (1.0 - p)
        return v * (1.0 - 2.0 * p) if m == 3 else v * (1.0 - 6.0 * v)

    def turning(v):
        """Where p (1 - p) is v."""
        p = 0.5 + math.sqrt(0.25 - v)
        return math.log(p / (1.0 - p))

    # (1 - 2p) v turns at v = 1/6; v - 6 v^2 at v = 1/12, and where v itself does.
    inner = [turning(1.0 / 6.0)] if m == 3 else [turning(1.0 / 12.0), 0.0]
    points = [eta - reach, eta + reach]
    points += [np.clip(sign * point, eta - reach, eta + reach) for point in inner for sign in (-1.0, 1.0)]
    values = np.array([at(each) for each in points])
    rise, fall = np.maximum(values.max(axis=0), 0.0), np.maximum(-values.min(axis=0), 0.0)
    return rise, fall, np.maximum(rise, fall)


def local_psi(truth, theta, order):
    X, offset = truth.data["X"], truth.data["offset"]
    lengths = np.linalg.norm(truth.white(theta)[:, 0], axis=1)
    m = order + 1
    if X.shape[1] > products.FEW_COLUMNS:  # then computed in single precision, with what may be lost
        columns = np.linalg.norm(truth.inverse_root(theta), axis=0)
        lengths = lengths + (X.shape[1] + 3) * 2.0**-24 * (np.abs(X) @ columns)
    suprema = np.array(logistic_suprema(X @ theta + offset, RADIUS * lengths, m))
    return truth.weights * suprema * lengths**m / math.factorial(m)


SINGLE = 1e-5
"""What single precision changes in a bound."""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("order", [2, 3])
def test_local_bounds_of_many_columns(truths, order, threads):
    truth = truths("logistic of many columns")
    model = truth.model()
    setup = Setup(model, threads)
    assert model.d > products.PANELS[0] > products.FEW_COLUMNS
    assert setup.metric.triangular
    rise, fall, psi = local_psi(truth, setup.mode.theta, order)
    found = setup.bounds(tb.bounds.Local(RADIUS), order)
    np.testing.assert_allclose(found.drawing.psi, psi, rtol=SINGLE, atol=0)
    used = [psi.sum(), rise.sum(), fall.sum()] if order == 3 else [psi.sum()] * 3
    np.testing.assert_allclose(found.sums[:3], used, rtol=SINGLE)
    assert found.sums.total == pytest.approx(found.drawing.psi.sum(), rel=1e-10)
    psi = found.drawing.psi
    supplied = setup.supply(tb.bounds.Local(RADIUS), order).rows
    drawn = supplied.table[:, 0].copy()
    np.add.at(drawn, supplied.table[:, 1].astype(np.int64), 1.0 - supplied.table[:, 0])
    np.testing.assert_allclose(drawn / model.n, psi / psi.sum(), rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("order", [2, 3])
def test_global_bounds_of_many_columns(truths, order, threads):
    truth = truths("logistic of many columns")
    m = order + 1
    supremum = {3: 1.0 / (6.0 * math.sqrt(3.0)), 4: 1.0 / 8.0}[m]
    psi = truth.weights * supremum * np.abs(truth.data["X"]).max(axis=1) ** m / math.factorial(m)
    found = Setup(truth.model(), threads).bounds(tb.bounds.Global(), order)
    np.testing.assert_allclose(found.drawing.psi, psi, rtol=1e-12, atol=0)
    assert found.sums.total == pytest.approx(psi.sum(), rel=1e-11)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("name", "order"), [("logistic", 3), ("logistic of many columns", 2)])
def test_a_stream_finds_the_same_in_one_pass(truths, name, order, threads):
    """Bounds and the cubic are made of the same whitened rows there."""
    truth = truths(name)
    model = truth.model(Uneven(truth.model().source))
    setup = Setup(model, threads)
    hessian = truth.hessian(setup.mode.theta)
    scale = np.sqrt(np.diag(hessian))
    assert np.max(np.abs(setup.mode.hessian - hessian) / np.outer(scale, scale)) < 1e-11
    error = np.abs(setup.mode.gradient - truth.gradient(setup.mode.theta))
    assert np.max(error / truth.gradient_size(setup.mode.theta)) < 1e-11
    found = setup.bounds(tb.bounds.Local(RADIUS), order)
    assert found.sums.total == pytest.approx(
        local_psi(truth, setup.mode.theta, order)[2].sum(), rel=SINGLE if order == 2 else 1e-9
    )
    if order == 3:
        assert "cubic" in setup.__dict__
        wanted, size = truth.cubic(setup.mode.theta)
        assert np.max(np.abs(setup.cubic - wanted) / size) < 1e-10


@pytest.mark.parametrize("d", [10, products.FEW_COLUMNS + 1])
@pytest.mark.parametrize("thirds", [False, True])
def test_bounds_of_a_pass_for_all_are_those_of_later_passes(d, thirds):
    """To the last bit: rows are drawn in proportion to the latter, at a rate that is the sum of the former."""
    rng = np.random.default_rng(d)
    model = tb.Regression(rng.standard_normal((300, d)), rng.random(300) < 0.5, tb.families.Bernoulli())
    metric = Setup(model).metric
    (block,) = model.source.blocks()
    part, arguments = tb.bounds.Local(RADIUS).part(model, metric, 2, RADIUS)
    likelihood = model.rows, model.predictors, metric.centre, metric.inverse_root
    together = bounds._everything(block, part, arguments, likelihood, thirds, (), np.empty(0))
    assert together[0] == passes.sums_of(part(block, *arguments))
