"""Small models, each with its oracle, and every kernel, bound and proposal to try on them."""

import dataclasses
import math
import pickle
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
from numba import njit

import oracle
import tallbayes as tb
from tallbayes.kernels.all_rows import rows_are_at_hand
from tallbayes.kernels.chunks import chunks
from tallbayes.kernels.driver import Driver
from tallbayes.kernels.state import Draws, empty_draws, new_state
from tallbayes.kernels.target import FALL, RISE, shifted, terms_at
from tallbayes.kernels.thinning import intensity_of, kind_of
from tallbayes.models import passes
from tallbayes.setup.bounds import distance_from_centre, event_factors
from tallbayes.setup.bundles import LIMIT, RISES, SCALE, in_bundles
from tallbayes.setup.metric import metric_at
from tallbayes.setup.mode import Mode, find_mode
from tallbayes.setup.setup import Setup
from tallbayes.setup.sketch import rounding_of_states
from tallbayes.sources.alias import draw_row, share_of
from tallbayes.sources.base import Block, Source
from tallbayes.sources.memory import COLUMNS, describe, load_row
from tallbayes.sources.supply import RUN, Drawing, RowBounds, Stream, StreamedSupply


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with its family and prior."""

    X: np.ndarray
    y: np.ndarray
    family: Any
    prior: Any
    weights: np.ndarray | None = None
    offset: np.ndarray | None = None

    @property
    def model(self) -> tb.Regression:
        """The model as a user writes it."""
        return tb.Regression(self.X, self.y, self.family, self.prior, weights=self.weights, offset=self.offset)

    def problem(self, centre) -> oracle.Problem:
        """The same model as the oracle sees it, expanded around a centre."""
        n, d = self.X.shape
        rows = rows_of(self.family)
        mean, precision = np.zeros(d), np.zeros(d)
        if isinstance(self.prior, tb.priors.Normal):
            mean = np.broadcast_to(np.asarray(self.prior.mean, dtype=float), d)
            precision = np.broadcast_to(np.asarray(self.prior.scale, dtype=float), d) ** -2.0
        others = []
        for j, prior in enumerate(self.prior if isinstance(self.prior, list) else []):
            if isinstance(prior, tb.priors.StudentT):
                others.append(oracle.OtherPrior(j, "student", prior.mean, prior.scale, prior.df))
            elif isinstance(prior, tb.priors.Laplace):
                others.append(oracle.OtherPrior(j, "laplace", prior.mean, prior.scale))
            elif isinstance(prior, tb.priors.Uniform):
                others.append(oracle.OtherPrior(j, "uniform", prior.low, prior.high))
            else:
                mean[j], precision[j] = prior.mean, prior.scale**-2.0
        weights = np.ones(n) if self.weights is None else self.weights
        offset = np.zeros(n) if self.offset is None else self.offset
        return oracle.Problem(
            self.X.astype(float), self.y, rows, mean, precision, weights, offset, np.array(centre), tuple(others)
        )


def rows_of(family: Any) -> Any:
    """The oracle's rows of a family."""
    families = tb.families
    if isinstance(family, families.Bernoulli) and family.link == "logit":
        return oracle.Logistic()
    if isinstance(family, families.StudentT):
        return oracle.Student(family.df, family.scale)
    if isinstance(family, families.Bernoulli):
        return oracle.Formula({"probit": oracle.probit, "cloglog": oracle.cloglog}[family.link])
    if isinstance(family, families.Poisson):
        return oracle.Formula(oracle.poisson)
    if isinstance(family, families.Gamma):
        return oracle.Formula(oracle.gamma(family.shape))
    if isinstance(family, families.NegativeBinomial):
        return oracle.Formula(oracle.negative_binomial(family.size))
    if isinstance(family, families.Binomial):
        return oracle.Formula(oracle.binomial(float(family.trials)))
    if isinstance(family, families.PseudoHuber):
        return oracle.Formula(oracle.pseudo_huber(family.delta, family.scale))
    assert isinstance(family, families.Gaussian)
    return oracle.Formula(oracle.normal(family.scale))


def _logistic(seed: int, n: int, d: int, prior: Any, *, extras: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.3
    offset = 0.5 * rng.standard_normal(n) if extras else None
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], n, p=[0.1, 0.3, 0.4, 0.2]) if extras else None
    eta = X @ rng.standard_normal(d) * 0.6 + (0.0 if offset is None else offset)
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return Case(X, y, tb.families.Bernoulli(), prior, weights, offset)


def _heavy_ends(case: Case) -> Case:
    """Give the first and the last row most of the bound: a row that is never drawn is missed."""
    X, weights = case.X.copy(), np.ones(case.y.size)
    weights[[0, -1]] = 3.0
    X[[0, -1]] = [[2.5, -1.5], [1.5, 2.5]]
    return Case(X, case.y, case.family, case.prior, weights, case.offset)


def _student(seed: int, n: int, d: int, prior: Any, *, extras: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) - 0.2
    offset = 0.5 * rng.standard_normal(n) if extras else None
    weights = rng.choice([0.5, 1.0, 2.0], n) if extras else None
    eta = X @ rng.standard_normal(d) + (0.0 if offset is None else offset)
    y = eta + 0.8 * rng.standard_t(5.0, n)
    return Case(X, y, tb.families.StudentT(df=5.0, scale=0.8), prior, weights, offset)


CASES = {
    "logistic-flat": _logistic(1, 60, 2, tb.priors.Flat()),
    "logistic-normal": _logistic(
        2, 40, 4, tb.priors.Normal([0.4, -0.2, 0.0, 0.1], [0.7, 1.5, 1.0, 2.0]), extras=True
    ),
    "student-flat": _student(3, 50, 3, tb.priors.Flat(), extras=True),
    "logistic-priors": _logistic(
        8,
        40,
        4,
        [
            tb.priors.StudentT(3.0, 0.2, 0.5),
            tb.priors.Laplace(0.1, 0.4),
            tb.priors.Normal(0.3, 0.9),
            tb.priors.Uniform(-6.0, 7.0),
        ],
    ),
    "student-normal": _student(4, 30, 1, tb.priors.Normal(0.5, 0.3)),
}


def _wider(family: Any, seed: int, n: int, d: int, *, dtype: Any = np.float64) -> Case:
    """Rows of any family, with weights and offsets, and a design of any precision."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) / np.sqrt(d) + 0.2).astype(dtype)
    offset, weights = 0.3 * rng.standard_normal(n), rng.choice([0.5, 1.0, 2.0], n)
    eta = X.astype(float) @ rng.standard_normal(d) * 0.7 + offset
    uniform = rng.random(n)
    if isinstance(family, tb.families.Bernoulli):
        chances = {"logit": 1 / (1 + np.exp(-eta)), "cloglog": -np.expm1(-np.exp(eta))}
        y = (uniform < chances.get(family.link, 0.5 + 0.3 * np.tanh(eta))).astype(float)
    elif isinstance(family, tb.families.Gamma):
        y = rng.gamma(family.shape, np.exp(eta) / family.shape)
    elif isinstance(family, tb.families.Binomial):
        y = rng.binomial(int(family.trials), 1 / (1 + np.exp(-eta))).astype(float)
    elif isinstance(family, tb.families.Poisson | tb.families.NegativeBinomial):
        y = rng.poisson(np.exp(eta)).astype(float)
    else:
        y = eta + family.scale * rng.standard_normal(n)
    return Case(X, y, family, tb.priors.Normal(0.1, 1.5), weights, offset)


@dataclass(frozen=True)
class LogisticNoise:
    """Noise by formula, whose proof is made when a model asks for it."""

    scale: Any

    def made(self) -> Any:
        """The family."""
        return tb.families.custom("softplus(u) + softplus(-u)", scale=self.scale)


@dataclass(frozen=True, eq=False)
class JointCase(Case):
    """Rows with several predictors."""

    scale_design: np.ndarray | None = None

    @property
    def model(self) -> tb.Regression:
        """The model as a user writes it."""
        given = {"weights": self.weights, "offset": self.offset, "scale_design": self.scale_design}
        family = self.family.made() if isinstance(self.family, LogisticNoise) else self.family
        return tb.Regression(self.X, self.y, family, self.prior, **given)

    def problem(self, centre) -> oracle.Problem:
        """The same model as the oracle sees it."""
        rows, lines, offset, further, others = joint_rows(self)
        d, p = lines.shape[2], self.X.shape[1]
        mean, precision = np.full(d, self.prior.mean), np.full(d, float(self.prior.scale) ** -2.0)
        if further is not None:
            mean[p:], precision[p:] = further
        weights = np.ones(self.y.size) if self.weights is None else self.weights
        X = self.X.astype(float)
        given = (X, self.y, rows, mean, precision, weights, offset, np.array(centre), tuple(others))
        return oracle.JointProblem(*given, lines=lines)


def noise_of(family: Any) -> Any:
    """The potential of noise of scale 1, as a series."""
    if isinstance(family, tb.families.StudentT):
        return lambda u: ((u * u) * (1 / oracle.Real(family.df)) + 1).log() * oracle.Real((family.df + 1) / 2)
    if isinstance(family, tb.families.PseudoHuber):
        plain = oracle.pseudo_huber(family.delta, 1.0)
        return lambda u: plain(0.0, u)
    if isinstance(family, LogisticNoise):
        return lambda u: u.softplus() + (-u).softplus()
    return lambda u: u * u * oracle.Real(0.5)


def further_prior(chosen: Any) -> tuple[float, float]:
    """Mean and precision of parameters after the coefficients, on the scale on which they are sampled."""
    return chosen.mean, float(chosen.sd if isinstance(chosen, tb.priors.LogNormal) else chosen.scale) ** -2.0


def joint_rows(case: JointCase) -> Any:
    """The oracle's rows, lines, offsets; mean and precision of parameters after the coefficients; other priors."""
    n, p = case.X.shape
    offset = np.zeros(n) if case.offset is None else case.offset
    if isinstance(case.family, tb.families.Categorical):
        q = case.family.classes - 1
        lines = np.zeros((n, q, q * p))
        for j in range(q):
            lines[:, j, j * p : (j + 1) * p] = case.X
        return oracle.JointRows(oracle.softmax, oracle.softmax_suprema), lines, np.zeros((n, q)), None, []
    if isinstance(case.family, tb.families.Ordinal):
        levels = case.family.levels
        lines = np.zeros((n, 2, p + levels - 1))
        for i, level in enumerate(case.y.astype(int)):
            for j, cut in enumerate((level, level - 1)):
                if 0 <= cut < levels - 1:
                    lines[i, j, :p], lines[i, j, p + cut] = -case.X[i], 1.0
        present = np.any(lines != 0.0, axis=2)
        logit = case.family.link == "logit"
        potential = oracle.ordinal_logit if logit else oracle.ordinal_probit
        suprema = oracle.ordinal_suprema if logit else oracle.ordinal_probit_suprema
        rows = oracle.JointRows(lambda y, a, b: potential(y, a, b, levels), suprema(levels))
        return rows, lines, -offset[:, None] * present, further_prior(case.family.cuts), []
    Z = np.ones((n, 1)) if case.scale_design is None else case.scale_design
    lines = np.zeros((n, 2, p + Z.shape[1]))
    lines[:, 0, :p], lines[:, 1, p:] = case.X, Z
    offset = np.stack([offset, 0.0 * offset], axis=1)
    formulas = {
        tb.families.ZeroInflatedPoisson: (oracle.zero_inflated, oracle.ZERO_INFLATED),
        tb.families.HurdlePoisson: (oracle.hurdle, oracle.HURDLE),
        tb.families.NegativeBinomial: (oracle.dispersed, oracle.DISPERSED),
        tb.families.Gamma: (oracle.amount, oracle.AMOUNT),
    }
    if type(case.family) in formulas:
        potential, atoms = formulas[type(case.family)]
        chosen = getattr(case.family, getattr(case.family, "second", "zeros"))
        return oracle.JointRows(potential, atoms.suprema), lines, offset, further_prior(chosen), []
    rows = oracle.noise(noise_of(case.family))
    scale = case.family.scale
    kinds = {
        tb.priors.HalfNormal: lambda s: ("power", 0.5 / s.scale**2, 2.0, 1.0),
        tb.priors.Exponential: lambda s: ("power", s.rate, 1.0, 1.0),
        tb.priors.HalfStudentT: lambda s: ("half-student", s.scale, 1.0, s.df),
    }
    if type(scale) not in kinds:
        return rows, lines, offset, further_prior(scale), []
    return rows, lines, offset, (0.0, 0.0), [oracle.OtherPrior(p, *kinds[type(scale)](scale))]


WIDE = tb.priors.Normal(0.0, 10.0)
"""Of cut points and of the log odds of zeros."""


def _joint_noise(family: Any, seed: int, n: int, d: int, *, dtype: Any = np.float64, spread: int = 0) -> JointCase:
    """Rows with noise of unknown scale, which may have columns of its own; with weights and offsets."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) / np.sqrt(d) + 0.2).astype(dtype)
    offset, weights = 0.3 * rng.standard_normal(n), rng.choice([0.5, 1.0, 2.0], n)
    y = X.astype(float) @ rng.standard_normal(d) * 0.7 + offset + 0.8 * rng.standard_t(5.0, n)
    Z = np.column_stack([np.ones(n), 0.5 * rng.standard_normal((n, spread - 1))]) if spread else None
    return JointCase(X, y, family, tb.priors.Normal(0.1, 1.5), weights, offset, Z)


def _joint_ends(case: JointCase, y: float | None = None, weight: float = 3.0) -> JointCase:
    """Give the first and the last row most of the bound; for some families a response that has a large one."""
    X, weights, responses = case.X.copy(), np.array(case.weights), case.y.copy()
    responses[[0, -1]] = responses[[0, -1]] if y is None else y
    weights[[0, -1]] = weight
    X[[0, -1]] = [[2.5, -1.5], [1.5, 2.5]]
    return dataclasses.replace(case, X=X, y=responses, weights=weights)


def _softmax(seed: int, n: int, d: int, classes: int) -> JointCase:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / np.sqrt(d) + 0.2
    scores = X @ rng.standard_normal((d, classes)) + rng.gumbel(size=(n, classes))
    weights = rng.choice([0.5, 1.0, 2.0], n)
    y = np.argmax(scores, axis=1).astype(float)
    return JointCase(X, y, tb.families.Categorical(classes), tb.priors.Normal(0.1, 1.5), weights)


def _ordinal(seed: int, n: int, d: int, levels: int, link: str = "logit") -> JointCase:
    rng = np.random.default_rng(seed)
    X, offset = rng.standard_normal((n, d)) / np.sqrt(d) + 0.2, 0.2 * rng.standard_normal(n)
    score = X @ rng.standard_normal(d) + offset + rng.logistic(size=n)
    y = np.searchsorted(np.quantile(score, np.linspace(0, 1, levels + 1)[1:-1]), score).astype(float)
    return JointCase(
        X, y, tb.families.Ordinal(levels, link, WIDE), tb.priors.Normal(0.1, 1.5), rng.choice([0.5, 1.0], n), offset
    )


def _counts(family: Any, seed: int, n: int, d: int) -> JointCase:
    rng = np.random.default_rng(seed)
    X, offset = rng.standard_normal((n, d)) / np.sqrt(d) + 0.2, 0.2 * rng.standard_normal(n)
    y = rng.poisson(rng.gamma(2.0, np.exp(0.5 + X @ np.full(d, 0.4) + offset) / 2.0)).astype(float)
    y[rng.random(n) < 0.25] = 0.0
    return JointCase(X, y, family, tb.priors.Normal(0.1, 1.5), rng.choice([0.5, 1.0, 2.0], n), offset)


def _amounts(family: Any, seed: int, n: int, d: int) -> JointCase:
    rng = np.random.default_rng(seed)
    X, offset = rng.standard_normal((n, d)) / np.sqrt(d) + 0.2, 0.2 * rng.standard_normal(n)
    y = rng.gamma(1.6, np.exp(0.5 + X @ np.full(d, 0.4) + offset) / 1.6)
    return JointCase(X, y, family, tb.priors.Normal(0.1, 1.5), rng.choice([0.5, 1.0, 2.0], n), offset)


JOINT = {
    "amounts": _amounts(tb.families.Gamma(tb.priors.LogNormal(0.0, 10.0)), 49, 60, 2),
    "hurdle": _counts(tb.families.HurdlePoisson(WIDE), 39, 40, 2),
    "scale-design": _joint_noise(tb.families.Gaussian(tb.priors.Normal(0.2, 1.0)), 40, 40, 2, spread=2),
    "inflated": _counts(tb.families.ZeroInflatedPoisson(WIDE), 37, 60, 2),
    "dispersed": _counts(tb.families.NegativeBinomial(tb.priors.LogNormal(0.0, 10.0)), 38, 60, 2),
    "ordinal": _ordinal(36, 150, 2, 4),
    "ordinal-probit": _ordinal(51, 150, 2, 4, "probit"),
    "softmax": _softmax(35, 60, 2, 4),
    "scale-student": _joint_noise(tb.families.StudentT(4.0, tb.priors.HalfNormal(1.5)), 31, 40, 2),
    "scale-gaussian": _joint_noise(tb.families.Gaussian(tb.priors.Exponential(0.7)), 32, 40, 3),
    "scale-huber": _joint_noise(
        tb.families.PseudoHuber(1.2, tb.priors.HalfStudentT(3.0, 2.0)), 33, 40, 2, dtype=np.float32
    ),
    "scale-custom": _joint_noise(LogisticNoise(tb.priors.HalfNormal(1.5)), 49, 40, 2),
    "custom-design": _joint_noise(LogisticNoise(tb.priors.Normal(0.2, 1.0)), 50, 40, 2, spread=2),
}
"""Several predictors for each row."""

JOINT_ENDS = {
    "scale-ends": _joint_ends(_joint_noise(tb.families.StudentT(4.0, tb.priors.HalfNormal(1.5)), 34, 37, 2)),
    "gaussian-ends": _joint_ends(_joint_noise(tb.families.Gaussian(tb.priors.Exponential(0.7)), 41, 37, 2)),
    "huber-ends": _joint_ends(
        _joint_noise(tb.families.PseudoHuber(1.2, tb.priors.HalfStudentT(3.0, 2.0)), 42, 37, 2)
    ),
    "design-ends": _joint_ends(_joint_noise(tb.families.Gaussian(tb.priors.Normal(0.2, 1.0)), 43, 37, 2, spread=2)),
    "custom-ends": _joint_ends(_joint_noise(LogisticNoise(tb.priors.HalfNormal(1.5)), 51, 37, 2)),
    "softmax-ends": _joint_ends(_softmax(44, 37, 2, 3)),
    "ordinal-ends": _joint_ends(_ordinal(45, 60, 2, 3), 1.0, weight=8.0),
    "probit-ends": _joint_ends(_ordinal(52, 60, 2, 3, "probit"), 1.0, weight=8.0),
    "inflated-ends": _joint_ends(_counts(tb.families.ZeroInflatedPoisson(WIDE), 46, 37, 2), 3.0),
    "hurdle-ends": _joint_ends(_counts(tb.families.HurdlePoisson(WIDE), 47, 37, 2), 3.0),
    "dispersed-ends": _joint_ends(_counts(tb.families.NegativeBinomial(tb.priors.LogNormal(0.0, 10.0)), 48, 37, 2)),
    "amounts-ends": _joint_ends(_amounts(tb.families.Gamma(tb.priors.LogNormal(0.0, 10.0)), 50, 37, 2)),
}

WIDER = {
    "poisson": _wider(tb.families.Poisson(), 11, 40, 3),
    "gamma": _wider(tb.families.Gamma(2.5), 12, 40, 2),
    "negative-binomial": _wider(tb.families.NegativeBinomial(1.7), 13, 40, 3),
    "probit": _wider(tb.families.Bernoulli("probit"), 14, 50, 3),
    "cloglog": _wider(tb.families.Bernoulli("cloglog"), 15, 50, 3),
    "binomial": _wider(tb.families.Binomial(4), 22, 40, 3),
    "gaussian": _wider(tb.families.Gaussian(0.9), 16, 40, 3),
    "pseudo-huber": _wider(tb.families.PseudoHuber(1.2, 0.8), 17, 40, 3),
    "single-logistic": _wider(tb.families.Bernoulli(), 18, 50, 5, dtype=np.float32),
    "single-poisson": _wider(tb.families.Poisson(), 19, 50, 4, dtype=np.float32),
    "twelve": _wider(tb.families.Bernoulli(), 20, 150, 12),
    "single-twelve": _wider(tb.families.StudentT(4.0, 0.9), 21, 150, 12, dtype=np.float32),
}
"""Other families by formula, designs in single precision, more columns: for a few rules and proposals each."""

HEAVY_ENDS = {
    "logistic-ends": _heavy_ends(_logistic(5, 37, 2, tb.priors.Normal(0.2, 0.8))),
    "student-ends": _heavy_ends(_student(6, 37, 2, tb.priors.Flat())),
}

ALL_CASES = CASES | HEAVY_ENDS | WIDER | JOINT | JOINT_ENDS

RADIUS = 2.5
"""Of the local bound: small enough for points on both sides of it."""

RULES = {
    "MH": (None, None),
    "FMH-global": (0, None),
    "FMH-local": (0, RADIUS),
    "SMH1-global": (1, None),
    "SMH1-local": (1, RADIUS),
    "SMH2-global": (2, None),
    "SMH2-local": (2, RADIUS),
    "SMH3-global": (3, None),
    "SMH3-local": (3, RADIUS),
}
"""Order (None: plain Metropolis-Hastings) and radius (None: the global bound)."""

PROPOSALS = {
    "walk": (tb.proposals.RandomWalk(1.3), oracle.random_walk, (1.3,)),
    "preconditioned": (tb.proposals.PreconditionedWalk(0.8), oracle.preconditioned_walk, (0.8,)),
    "first-order": (tb.proposals.FirstOrderReversible(1.7), oracle.first_order_reversible, (1.7,)),
    "independent": (tb.proposals.CrankNicolson(0.0), oracle.crank_nicolson, (0.0,)),
    "crank-nicolson": (tb.proposals.CrankNicolson(0.5), oracle.crank_nicolson, (0.5,)),
    "antithetic": (tb.proposals.CrankNicolson(0.4, antithetic=True), oracle.crank_nicolson, (0.4, True)),
}

MIXTURES = {
    name: (move, oracle.crank_nicolson_and_walks, (move.rho, move.antithetic, move.walk_every))
    for name, move in {
        "walks-between": tb.proposals.CrankNicolson(0.3, walk_every=3),
        "antithetic-walks": tb.proposals.CrankNicolson(0.04, antithetic=True, walk_every=4),
        "independent-walks": tb.proposals.CrankNicolson(0.0, walk_every=2),
    }.items()
} | {
    name: (move, oracle.surrogate_steps, (move.steps, move.keep, move.walk_every))
    for name, move in {
        "surrogate": tb.proposals.SurrogateSteps(3, 0.8, walk_every=4),
        "more-surrogate": tb.proposals.SurrogateSteps(7, 0.5, walk_every=2),
    }.items()
}
"""Proposals whose steps differ, in a fixed order."""


def kernel(
    rule: str, proposal: Any, truncation: float = math.inf, radius: float | None = None, sketch: int = 0
) -> Any:
    """Return the package's kernel for the name of a rule."""
    order, default = RULES[rule]
    if order is None:
        return tb.kernels.MetropolisHastings(proposal=proposal)
    bound = tb.bounds.Global() if default is None else tb.bounds.Local(radius or default)
    if order == 0:
        return tb.kernels.FactorisedMH(proposal=proposal, bound=bound, truncation=truncation)
    return tb.kernels.ScalableMH(
        order=order, proposal=proposal, bound=bound, truncation=truncation, sketch=sketch > 0
    )


def beside_the_mode(model: tb.Regression, by: float) -> Setup:
    """Return a set-up for kernels `by` posterior standard deviations from the mode, in each coordinate."""
    mode = find_mode(model, threads=1)
    sign = np.where(np.arange(model.d) % 2 == 0, 1.0, -1.0)
    theta = mode.theta + np.linalg.solve(np.linalg.cholesky(mode.hessian).T, by * sign)
    return setup_at(model, mode, theta)


def setup_at(model: tb.Regression, mode: Mode, theta: np.ndarray) -> Setup:
    """Return a set-up that pretends the mode is at theta."""
    value, gradient, hessian = model.source.reduce(
        passes.derivatives, model.rows, model.predictors, theta, threads=1
    )
    potential, slope, curvature = model.coefficient_priors.stand_in(theta)
    moved = mode._replace(
        theta=theta,
        potential=value + potential,
        gradient=gradient + slope,
        hessian=hessian + np.diag(curvature),
    )
    setup = Setup(model, threads=1)
    setup.__dict__["mode"], setup.__dict__["metric"] = moved, metric_at(model, moved, threads=1)
    return setup


@dataclass(frozen=True, eq=False)
class Bench:
    """A kernel of the package prepared for a case, beside its oracle."""

    prepared: Any
    problem: oracle.Problem
    rule: oracle.Rule
    proposal: oracle.Gaussian


@cache
def _set_up(case: str) -> tuple[tb.Regression, Setup]:
    """The model of a case with its set-up, which all kernels share, as a user's do."""
    model = ALL_CASES[case].model
    return model, beside_the_mode(model, 0.4)


@cache
def bench(
    case: str,
    rule: str,
    proposal: str,
    truncation: float = math.inf,
    radius: float | None = None,
    sketch: int = 0,
) -> Bench:
    """Prepare a kernel 0.4 standard deviations beside the mode, so that gradients matter; bundles have such a size."""
    move, density, arguments = (PROPOSALS | MIXTURES)[proposal]
    model, setup = _set_up(case)
    prepared = kernel(rule, move, truncation, radius, sketch).prepare(model, setup=setup)
    if sketch:
        prepared = in_bundles_of(prepared, sketch)
    problem = _problem(case, prepared.metric.centre.tobytes())
    order, default = RULES[rule]
    local = None if default is None else (radius or default)
    return Bench(prepared, problem, oracle.Rule(order, local, truncation), density(problem, *arguments))


def in_bundles_of(prepared: Any, size: int, *, times: float = 1.0) -> Any:
    """Put the rows of a sketch into bundles of a given size, with bounds so many times as large."""
    target = prepared.target
    codes, rows, facts, _, _ = target.bundles
    order, rounding = target.bound.order, rounding_of_states(target.centre.size)
    facts = facts.copy()
    facts[:, SCALE] = np.nextafter(facts[:, SCALE] * np.float32(times ** (1.0 / (order + 1))), np.float32(np.inf))
    bundles = in_bundles(codes, rows, facts, size, order, rounding)
    bound = target.bound._replace(total=bundles.total)
    return dataclasses.replace(prepared, target=target._replace(bundles=bundles, bound=bound))


def bundled_rows(prepared: Any) -> oracle.Bundled:
    """Return the bundles of a kernel as the oracle takes them."""
    codes, rows, facts, table, size = prepared.target.bundles
    return oracle.Bundled(codes, rows, facts[:, SCALE], facts[:, RISES:], table[:, LIMIT], size)


@cache
def _problem(case: str, centre: bytes) -> oracle.Problem:
    return ALL_CASES[case].problem(np.frombuffer(centre))


class Enumeration:
    """The log of the probability that steps from z to other are accepted, by enumeration of all rows; one in each line.

    The kernel's own parts, in expectation: log a0 - rate * sum_i p_i min(share_i, lambda_i / bar lambda_i) for each
    kind of event, with p_i what the alias table really draws. All steps are in one call of compiled code, where Numba
    need not find the types of its arguments for each. What was found is kept: the same steps are asked for again, with
    another R, and what depends on rows only with other kernels of the model.
    """

    def __init__(self, prepared: Any) -> None:
        self.prepared, self._rows = prepared, _rows_of(prepared.model)
        self._both: dict[bytes, Any] = {}

    def log_acceptance(self, z: np.ndarray, other: np.ndarray, truncation: float) -> np.ndarray:
        """With the given R."""
        key = z.tobytes() + other.tobytes()
        rate = self.rate(z, other)
        thin = (rate < truncation) & np.isfinite(rate)
        if key not in self._both:
            self._both[key] = np.full(rate.size, np.nan), np.full(rate.size, np.nan)
        thinned, plain = self._both[key]
        for known, wanted, find in ((thinned, thin, self._by_thinning), (plain, ~thin, self._by_all_rows)):
            new = wanted & np.isnan(known)
            if np.any(new):
                known[new] = find(z[new], other[new])
        return np.where(thin, thinned, plain)

    def rate(self, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Rates at which rows are tried."""
        before, after, between = self._factors(z, other).T
        return self.prepared.target.bound.total * (before + after + between)

    def _factors(self, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        target, out = self.prepared.target, np.empty((len(z), 3))
        _state_factors(target.bound, target.whitening, z, other, out)
        return out

    def _by_all_rows(self, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.minimum(0.0, self._rows.log_ratios(self.prepared, z, other))

    def _by_thinning(self, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        target = self.prepared.target
        terms, rows = target.surrogate.terms, target.rows
        total = np.minimum(0.0, terms_at(terms, z) - terms_at(terms, other))
        left = rows.weight * self._rows.remainders(target, z, other)
        _thin(target.bound.total, self._factors(z, other), left, _drawn(rows.table), rows.psi, rows.shares, total)
        return total


class RowsAtPoints:
    """What the rows of a model give at points and for steps, each found once for all of its kernels."""

    def __init__(self, model: Any) -> None:
        self.model, self._pass = model, model.source.reduce
        self._block = model.source.whole.converted()
        self._sums: dict[Any, Any] = {}
        self._moves: dict[bytes, np.ndarray] = {}
        self._left: dict[Any, np.ndarray] = {}
        self._ratios: dict[Any, float] = {}
        self._answers: list[Any] = []

    def log_ratios(self, prepared: Any, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        """What `log_ratios` finds, once for all kernels that answer by the same function of equal parts."""
        answer, target = prepared.answer, prepared.target
        within = tuple(id(cell.cell_contents) for cell in answer.__closure__)
        parts = pickle.dumps((target.prior, target.exact, target.surrogate.terms.tables))
        keys = [(answer.__code__, within, parts, step.tobytes()) for step in np.hstack([z, other])]
        new = [line for line, key in enumerate(keys) if key not in self._ratios]
        if new:
            self._answers.append(answer)  # as long as it is kept, no other object has the numbers of its parts
            with mock.patch.object(self.model.source, "reduce", self.reduce):
                found = log_ratios(prepared, z[new], other[new])
            self._ratios.update((keys[line], ratio) for line, ratio in zip(new, found, strict=True))
        return np.array([self._ratios[key] for key in keys])

    def reduce(self, part: Any, rows: Any, predictors: Any, *points: np.ndarray, threads: int) -> Any:
        """The source's sum over rows, in the place of which this is put."""
        key = (part, *(point.tobytes() for point in points))
        if key not in self._sums:
            self._sums[key] = self._pass(part, rows, predictors, *points, threads=threads)
        return self._sums[key]

    def remainders(self, target: Any, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        """What the expansion leaves of each row before and after each step, (steps, 2, rows)."""
        around = target.bound.order, target.centre.tobytes(), target.whitening.tobytes()
        keys = [(*around, step.tobytes()) for step in np.hstack([z, other])]
        new = [line for line, key in enumerate(keys) if key not in self._left]
        if new:
            found = self._remainders(target, z[new], other[new])
            self._left.update((keys[line], values) for line, values in zip(new, found, strict=True))
        return np.array([self._left[key] for key in keys])

    def _remainders(self, target: Any, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        """All steps in one call, as if their rows were those of one larger model."""
        block, steps, n = self._block, len(z), self.model.n
        eta = self.model.predictors.at(block, target.centre)
        old, new = (np.hstack([self._moved(target, point) for point in points]) for points in (z, other))
        responses, eta = np.tile(block.responses, (steps, 1)), np.tile(eta, (1, steps))
        left = self.model.rows.remainders(responses, eta, old, new, target.bound.order)
        return left.reshape(2, steps, n).swapaxes(0, 1)

    def _moved(self, target: Any, z: np.ndarray) -> np.ndarray:
        """How far predictors have moved at a point."""
        move = shifted(target, z)
        key = move.tobytes()
        if key not in self._moves:
            self._moves[key] = self.model.predictors.moves(self._block, move)
        return self._moves[key]


_rows_of = cache(RowsAtPoints)


def log_acceptance(prepared: Any, z: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The same with the kernel's own R."""
    return Enumeration(prepared).log_acceptance(z, other, prepared.target.bound.truncation)


@njit
def _state_factors(bound, W, z, other, out):
    """What falls, rises, and steps as a whole can use of every psi_i, for each step."""
    for s in range(out.shape[0]):
        distance = distance_from_centre(bound.local, bound.free, W, z[s])
        other_distance = distance_from_centre(bound.local, bound.free, W, other[s])
        out[s, 0], out[s, 1], out[s, 2] = event_factors(bound, W, z[s], distance, other[s], other_distance)


@njit
def _drawn(table):
    """The probability of each row to be drawn from an alias table."""
    n = table.shape[0]
    drawn = np.zeros(n)
    for i in range(n):
        drawn[i] += table[i, 0] / n
        drawn[int(table[i, 1])] += (1.0 - table[i, 0]) / n
    return drawn


@njit
def _thin(total, factors, left, drawn, psi, shares, out):
    """Take from each step's log acceptance what its events do.

    Which kind of event is where on the clock, the kernel itself says in the middle of each stretch.
    """
    for s in range(out.size):
        before, after, between = factors[s]
        rate, border = total * (before + after + between), total * before
        low = 0.0
        for high in (border, rate) if before > 0.0 and after > 0.0 else (rate, rate):
            if high > low:
                kind = kind_of(0.5 * (low + high), total, before, after)
                factor = after if kind == RISE else before if kind == FALL else between
                out[s] -= (high - low) * _chance(kind, left[s], drawn, factor * psi, shares)
            low = high


@njit
def _chance(kind, left, drawn, limits, shares):
    """The probability that an event of a kind rejects."""
    total = 0.0
    for i in range(drawn.size):
        if drawn[i] > 0.0 and limits[i] > 0.0:
            intensity = intensity_of(kind, left[0, i], left[1, i])
            total += drawn[i] * min(share_of(shares, kind, i), intensity / limits[i])
    return total


def log_ratios(prepared: Any, z: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The log acceptance ratio of each step over all rows, as the driver puts it into a chain's state."""
    state, found = new_state(z[0]), np.empty(len(z))
    for line in range(len(z)):
        state.z[:], state.proposed[:] = z[line], other[line]
        prepared.answer(prepared.target, state, 1)  # leaves open what is known of z
        found[line] = state.numbers["answer"][0]
    return found


class Batches:
    """A supply of few rows at a time, drawn from all of them by a random stream of its own, as from a file.

    `drawn` has the numbers of all rows so far, in the order in which chains use them.
    """

    endless = False

    def __init__(self, prepared: Any, size: int, seed: int) -> None:
        self.whole, self.size, self.rng = prepared.target.rows, size, stream(seed)
        self.columns = int(self.whole.design[COLUMNS])
        self.drawn: list[int] = []
        self.rows = self.whole._replace(psi=np.empty(0), table=np.empty((0, 2)))

    def for_chain(self, stream: Any) -> "Batches":
        return self

    def refill(self) -> Any:
        """Gather the next rows: copies, so that a chain that looked elsewhere would be found out."""
        whole = self.whole
        chosen = np.array([draw_row(whole.table, self.rng) for _ in range(self.size)])
        self.drawn.extend(chosen.tolist())
        self._X = np.empty((self.size, self.columns))
        for line, i in zip(self._X, chosen, strict=True):
            load_row(whole.design, int(i), line)

        def some(values):
            return values if values.shape[0] == 1 else np.ascontiguousarray(values[chosen])

        self.rows = whole._replace(
            design=describe(self._X),
            responses=np.ascontiguousarray(whole.responses[chosen]),
            weight=some(whole.weight),
            offset=some(whole.offset),
            psi=whole.psi[chosen],
            shares=some(whole.shares),
            table=np.empty((0, 2)),
        )
        return self.rows


class KnownRows(Source):
    """The rows of a kernel that has all of them at hand, as a stream of a few blocks; offsets are the rows' numbers."""

    watched = False  # a test may change the responses

    def __init__(self, prepared: Any) -> None:
        self.whole, self.X = prepared.target.rows, prepared.model.source.X
        self.names = prepared.model.names

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    def blocks(self):
        weight = np.broadcast_to(self.whole.weight, self.n)
        for some in np.array_split(np.arange(self.n), 3):
            if some.size:
                rows = slice(some[0], some[-1] + 1)
                yield Block(
                    int(some[0]), self.X[rows], self.whole.responses[rows], weight[rows], some.astype(float)
                )


def known_bounds(block: Block, psi: np.ndarray, shares: np.ndarray) -> RowBounds:
    rows = slice(block.first, block.first + block.count)
    return RowBounds(psi[rows], shares if shares.shape[0] == 1 else shares[rows])


class Reservoirs(Batches):
    """The same few rows at a time, from the supply that chains have of files: drawn in a pass over blocks."""

    def __init__(self, prepared: Any, size: int, seed: int) -> None:
        super().__init__(prepared, size, seed)
        drawing = Drawing(known_bounds, (self.whole.psi, self.whole.shares), None, self.whole.shares)
        supply = StreamedSupply(KnownRows(prepared), drawing, threads=1, slots=size, most=size)
        self.slots = supply.for_chain(Stream(RUN, seed, 0))

    def refill(self) -> Any:
        """Take the next slots, and put the rows' own offsets in place of their numbers."""
        rows = self.slots.refill()
        chosen = rows.offset.astype(int)
        self.drawn.extend(chosen.tolist())
        offset = np.broadcast_to(self.whole.offset, self.whole.psi.shape)[chosen]
        self.rows = rows._replace(offset=np.ascontiguousarray(offset))
        return self.rows


def in_reservoirs(prepared: Any, size: int = 7, seed: int = 0) -> Any:
    """Return the same kernel with a supply as of a file, so small that it is refilled often."""
    return in_batches(prepared, size, seed, Reservoirs)


def in_batches(prepared: Any, size: int = 7, seed: int = 0, kind: Any = Batches) -> Any:
    """Return the same kernel with a supply of batches, and requests in between."""
    supply = kind(prepared, size, seed)
    return dataclasses.replace(
        prepared,
        supply=supply,
        target=prepared.target._replace(rows=supply.rows),
        run_chunk=chunks(prepared.model, prepared.move, at_hand=False),
    )


def directly(prepared: Any) -> Any:
    """Return the same kernel with all rows at hand, for very many very short runs."""
    assert rows_are_at_hand(prepared.model)
    return dataclasses.replace(prepared, run_chunk=chunks(prepared.model, prepared.move, at_hand=True))


def asking(prepared: Any) -> Any:
    """Return the same kernel, which asks the driver for all rows, though they are at hand."""
    sketched = prepared.target.bundles.rows.size > 0
    return dataclasses.replace(
        prepared, run_chunk=chunks(prepared.model, prepared.move, sketch=sketched, at_hand=False)
    )


def run(driver: Driver, steps: int, budget: int = 2**62) -> Draws:
    """Make steps with the compiled kernel, through the driver that answers it."""
    draws = empty_draws(steps, driver.prepared.metric.d)
    assert driver.advance(draws, budget) == steps
    return draws


def stream(seed: int) -> np.random.Generator:
    """Return a random stream of the kind the sampler uses."""
    return np.random.Generator(np.random.SFC64(seed))
