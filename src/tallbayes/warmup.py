"""Compile ahead what a first call needs, for families by name: for images of containers, and before a lecture."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tallbayes import families
from tallbayes.api import explain, sample
from tallbayes.errors import InputError
from tallbayes.families import Family
from tallbayes.kernels import Kernel, MetropolisHastings, ScalableMH
from tallbayes.models.regression import Regression
from tallbayes.proposals import SurrogateSteps

Vector = NDArray[np.float64]

ROWS, COLUMNS = 400, 3

Responses = Callable[[np.random.Generator, Vector], Vector]
"""Makes up responses for predictors."""


def _binary(rng: np.random.Generator, eta: Vector) -> Vector:
    return (rng.random(eta.size) < 1.0 / (1.0 + np.exp(-eta))).astype(np.float64)


def _successes(rng: np.random.Generator, eta: Vector) -> Vector:
    return rng.binomial(5, 1.0 / (1.0 + np.exp(-eta))).astype(np.float64)


def _counts(rng: np.random.Generator, eta: Vector) -> Vector:
    return rng.poisson(np.exp(0.3 * eta)).astype(np.float64)


def _amounts(rng: np.random.Generator, eta: Vector) -> Vector:
    return rng.gamma(2.0, np.exp(0.3 * eta))


def _classes(rng: np.random.Generator, eta: Vector) -> Vector:
    return np.digitize(eta + rng.logistic(size=eta.size), [-1.0, 1.0]).astype(np.float64)


def _real(rng: np.random.Generator, eta: Vector) -> Vector:
    return eta + rng.standard_normal(eta.size)


FAMILIES: dict[str, tuple[Callable[[], Family], Responses]] = {
    "bernoulli": (families.Bernoulli, _binary),
    "probit": (lambda: families.Bernoulli("probit"), _binary),
    "cloglog": (lambda: families.Bernoulli("cloglog"), _binary),
    "binomial": (lambda: families.Binomial(5), _successes),
    "poisson": (families.Poisson, _counts),
    "negative_binomial": (families.NegativeBinomial, _counts),
    "gamma": (families.Gamma, _amounts),
    "gaussian": (families.Gaussian, _real),
    "student_t": (families.StudentT, _real),
    "pseudo_huber": (families.PseudoHuber, _real),
    "categorical": (families.Categorical, _classes),
    "ordinal": (families.Ordinal, _classes),
    "ordinal_probit": (lambda: families.Ordinal(link="probit"), _classes),
    "zero_inflated_poisson": (families.ZeroInflatedPoisson, _counts),
    "hurdle_poisson": (families.HurdlePoisson, _counts),
}
"""What can be compiled ahead, by name, with made-up responses."""

KERNELS: tuple[Kernel | None, ...] = (
    ScalableMH(order=2),
    ScalableMH(order=3),
    ScalableMH(order=3, proposal=SurrogateSteps(), sketch=True),
    MetropolisHastings(),
    None,
)
"""What the planner may choose."""


def warm_up(names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Compile what a first call needs for each family, and keep it on disk.

    Parameters
    ----------
    names : sequence of str
        Keys of `FAMILIES`, or "all".

    Yields
    ------
    (str, float)
        The family, and the seconds it took, as each is done.
    """
    unknown = [name for name in names if name not in FAMILIES and name != "all"]
    if unknown:
        raise InputError(f"warmup: family {unknown[0]!r} is not known; use one of {', '.join(FAMILIES)}, or all.")
    for name in FAMILIES if "all" in names else dict.fromkeys(names):
        started = time.perf_counter()
        _compile(*FAMILIES[name])
        yield name, time.perf_counter() - started


def _compile(family: Callable[[], Family], responses: Responses) -> None:
    """Run every kernel that the planner may choose on a tiny model."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, COLUMNS))
    model = Regression(X, responses(rng, X.sum(axis=1)), family())
    for kernel in KERNELS:
        if isinstance(kernel, ScalableMH) and kernel.sketch and not model.predictors.linear:
            continue
        explain(model, kernel)  # says if it compiles
        sample(model, kernel, draws=20, chains=1, seed=0, warmup=0, progress=False)
