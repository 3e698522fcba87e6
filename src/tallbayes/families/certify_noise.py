r"""Proofs about noise of unknown scale: where its mixed derivatives have their extremes, and that it has a density.

With u = (y - eta) e^-tau the derivative of g(u), a times by eta and b times by tau, is e^(-a tau) h_ab(u) with

.. math:: h_{a+1,b} = -h_{ab}', \qquad h_{a,b+1} = -(a\, h_{ab} + u\, h_{ab}') .

h_ab can only turn where h_{a+1,b} changes sign: all sign changes are isolated as in `families/certify.py`. Far out,
where powers of u meet exponentials, a half-line is seldom one interval: then intervals [T, 2 T] are tried, one after
the other, up to 2^40. The first that resists ends the range of the proof.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from tallbayes.errors import CertificationError
from tallbayes.families.certify import PATIENCE, Prover, Tail, half_line, proved_tail, sign_changes, tidy
from tallbayes.families.formula import load_sympy
from tallbayes.families.intervals import interval, precisely

NEAR, FARTHEST = 64.0, 2.0**40
"""Where intervals that double begin, and end."""
PIECES = 64
"""Into how many parts one of them is divided, at most."""
LONGEST = 1000
"""Operations of a mixed derivative beyond which SymPy would take minutes to find its factors."""
FASTER = 1e-3
"""By how much a tail's power is proved to be beyond 1."""


class MixedCertificate(NamedTuple):
    """What was proved of noise of unknown scale."""

    critical: dict[str, list[float]]
    """Points where h_ab has its local extremes, 1 <= a + b <= 4, by a and b written side by side."""
    low: float
    high: float
    """The range of u for which that holds."""


@lru_cache(maxsize=16)
def mixed_derivatives(g: Any, t: Any) -> dict[tuple[int, int], list[Any]]:
    """Return h_ab with its first two derivatives, for 1 <= a + b <= 4, factored."""
    sympy = load_sympy()
    chains, base = [], g
    for b in range(5):
        base = tidy(-t * sympy.diff(base, t), LONGEST) if b else g
        chain = [base]
        for _ in range(6 - b):
            chain.append(tidy(sympy.diff(chain[-1], t), LONGEST))
        chains.append(chain)
    return {
        (m - b, b): [(-1) ** (m - b) * e for e in chains[b][m - b : m - b + 3]]
        for m in range(1, 5)
        for b in range(m + 1)
    }


def certify_mixed(g: Any, t: Any, values: dict[str, float], name: str) -> MixedCertificate:
    """Prove where every h_ab with 1 <= a + b <= 4 has its extremes, and that exp(-g) has a finite integral.

    Parameters
    ----------
    g : sympy.Expr
        The noise's potential, of scale 1.
    t : sympy.Symbol
        Its variable.
    values : dict of str to float
        Values of its parameters.
    name : str
        The formula, for error messages.

    Returns
    -------
    MixedCertificate
        What was proved.

    Raises
    ------
    CertificationError
        If extremes cannot be isolated, or the integral is not proved to be finite.
    """
    until = time.monotonic() + PATIENCE
    with precisely():
        found = mixed_derivatives(g, t)
        _refuse_improper(found[0, 1][0], t, values, name)
        critical, low, high = {}, -float("inf"), float("inf")
        for (a, b), forms in found.items():
            prover = Prover(forms, t, values, monotone=True)
            left, right = _end(prover, -1, until), _end(prover, 1, until)
            what = f"h_{a}{b} of {name} (a derivatives by the location, b by the log scale)"
            critical[f"{a}{b}"], _ = sign_changes(prover, 2, left, right, what, until=until, unit=NEAR)
            low = low if left.signs[0] else max(low, -left.start)
            high = high if right.signs[0] else min(high, right.start)
    return MixedCertificate(critical, low, high)


def _end(prover: Prover, side: int, until: float) -> Tail:
    """Return a tail in which h' does not change sign; if there is none, how far intervals can be decided."""
    tail = proved_tail(prover, side, (2,), NEAR)
    if tail.signs[0]:
        return tail
    start = NEAR
    while start < FARTHEST and _decided(prover, start, 2.0 * start, side, until):
        start *= 2.0
    return Tail(start, (0,))


def _decided(prover: Prover, near: float, far: float, side: int, until: float) -> bool:
    """Return whether the sign of h' is known everywhere between two distances."""
    boxes, tried = [(near, far)], 0
    while boxes:
        a, b = boxes.pop()
        tried += 1
        if tried > PIECES or time.monotonic() > until:
            return False
        ends = (a, b) if side > 0 else (-b, -a)
        if prover.sign(2, interval(*ends), prover.near[1]) == 0:
            boxes += [(0.5 * (a + b), b), (a, 0.5 * (a + b))]
    return True


def _refuse_improper(first: Any, t: Any, values: dict[str, float], name: str) -> None:
    """Raise unless u g'(u) = -h_01 is proved to stay above 1 far out: then exp(-g) falls faster than 1 / |u|."""
    sympy = load_sympy()
    excess = tidy(-first - 1 - sympy.Rational(FASTER), LONGEST)
    prover = Prover([excess, sympy.diff(excess, t)], t, values)
    for side in (1, -1):
        if not any(prover.sign(1, half_line(4.0**k, side), prover.tails[side][0]) == 1 for k in range(24)):
            raise CertificationError(
                f"custom: {name} is not proved to be noise: exp(-g) must have a finite integral, and u g'(u) was not "
                f"proved to exceed {1 + FASTER:g} as u goes to {'+' if side > 0 else '-'}infinity. Without that, "
                "responses have no density, and an unknown scale no posterior. Write minus the log density of noise, "
                "e.g. 'softplus(u) + softplus(-u)'; or give the scale, e.g. scale=1.0."
            )


Exact = Callable[[float, int, int], tuple[float, float]]


def exact_mixed(g: Any, t: Any, values: dict[str, float]) -> Exact:
    """Return a function from u, a and b to an enclosure of h_ab(u), for tests of compiled code."""
    provers = {key: Prover(forms[:2], t, values) for key, forms in mixed_derivatives(g, t).items()}

    def evaluate(at: float, a: int, b: int) -> tuple[float, float]:
        with precisely():
            return provers[a, b].enclosure(0, at)

    return evaluate
