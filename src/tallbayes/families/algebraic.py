r"""Mixed derivatives in location and log-scale of noise whose potential has the slope v (1 + v^2)^-c.

That is Student's t (c = 1), the pseudo-Huber loss (c = 1/2) and the normal (c = 0). With u = (y - eta) e^-tau the
derivative of g(u), a times by eta and b times by tau, is e^(-a tau) h_ab(u), where

.. math:: h_{a+1,b} = -h_{ab}', \qquad h_{a,b+1} = -(a\, h_{ab} + u\, h_{ab}') .

Every h_ab is v^e P(v^2) (1 + v^2)^-C with a polynomial P of whole numbers, found here exactly; so are the polynomials
whose roots are the extremes of h_ab. Nothing is derived by hand.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

HIGHEST = 4
"""Order of derivatives, at most."""


def index_of(a: int, b: int) -> int:
    """Return the line of a table that has h_ab, 1 <= a + b <= 4."""
    m = a + b
    return m * (m + 1) // 2 - 1 + b


class Term(NamedTuple):
    """v^odd P(v^2) (1 + v^2)^(-twice / 2); the coefficients of P are whole numbers, the constant first."""

    odd: int
    polynomial: tuple[int, ...]
    twice: int

    def slope(self) -> "Term":
        """Return the derivative by v."""
        p, inner = self.polynomial, tuple(2 * k * c for k, c in enumerate(self.polynomial))  # 2 t P'
        if self.odd:
            top = _plus(_times_one_plus_t(_plus(p, inner)), _shifted(tuple(-self.twice * c for c in p)))
            return Term(0, top, self.twice + 2).reduced()
        top = _plus(_times_one_plus_t(inner[1:] or (0,)), tuple(-self.twice * c for c in p))
        return Term(1, top, self.twice + 2).reduced()

    def times_v(self) -> "Term":
        """Return v times this."""
        return Term(0, _shifted(self.polynomial), self.twice) if self.odd else self._replace(odd=1)

    def mixed(self, a: int) -> "Term":
        """Return -(a f + v f')."""
        other = self.slope().times_v()
        one, high = self, max(self.twice, other.twice)
        p, q = one._raised(high), other._raised(high)
        total = tuple(-(a * x + y) for x, y in _paired(p, q))
        return Term(self.odd, total, high).reduced()

    def negative(self) -> "Term":
        """Return -f."""
        return self._replace(polynomial=tuple(-c for c in self.polynomial))

    def _raised(self, twice: int) -> tuple[int, ...]:
        p = self.polynomial
        for _ in range((twice - self.twice) // 2):
            p = _times_one_plus_t(p)
        return p

    def reduced(self) -> "Term":
        """Return the same without common factors 1 + t and leading zeros."""
        p, twice = self.polynomial, self.twice
        while len(p) > 1 and p[-1] == 0:
            p = p[:-1]
        while len(p) > 1 and sum((-1) ** k * c for k, c in enumerate(p)) == 0:
            quotient, carry = [], 0
            for c in reversed(p):
                carry = c - carry
                quotient.append(carry)
            p, twice = tuple(reversed(quotient[:-1])), twice - 2
        return Term(self.odd, p, 0 if p == (0,) else twice)

    def extremes(self) -> Vector:
        """Return every v where it may have a local extreme: the real roots of the derivative's numerator."""
        slope = self.slope()
        roots = np.roots(np.array(slope.polynomial[::-1], dtype=np.float64))
        # One that is complex by rounding alone is kept: more points do no harm.
        real = roots.real[(np.abs(roots.imag) <= 1e-6 * np.abs(roots)) & (roots.real > 0.0)]
        return np.concatenate([-np.sqrt(real), [0.0], np.sqrt(real)])


def _paired(p: tuple[int, ...], q: tuple[int, ...]) -> list[tuple[int, int]]:
    size = max(len(p), len(q))
    return [(p[k] if k < len(p) else 0, q[k] if k < len(q) else 0) for k in range(size)]


def _plus(p: tuple[int, ...], q: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x + y for x, y in _paired(p, q))


def _shifted(p: tuple[int, ...]) -> tuple[int, ...]:
    return (0, *p)


def _times_one_plus_t(p: tuple[int, ...]) -> tuple[int, ...]:
    return _plus(p, _shifted(p))


def terms(twice: int) -> dict[tuple[int, int], Term]:
    """Return every h_ab with 1 <= a + b <= 4, for g' = v (1 + v^2)^(-twice / 2)."""
    slope = Term(1, (1,), twice)
    found = {(1, 0): slope.negative(), (0, 1): slope.times_v().negative()}
    for m in range(1, HIGHEST):
        for b in range(m + 1):
            found[m - b + 1, b] = found[m - b, b].slope().negative()
        found[0, m + 1] = found[0, m].mixed(0)
    return found


ODD, POWER, DEGREE, FIRST = range(4)
"""Columns of a table, before the coefficients: whether there is a factor v, twice the power of 1 / (1 + t) that is
left, and the degree of P."""


def table_of(found: dict[tuple[int, int], Term]) -> Matrix:
    """Return all terms as a table that compiled code reads."""
    width = max(len(term.polynomial) for term in found.values())
    out = np.zeros((len(found), FIRST + width))
    for (a, b), term in found.items():
        degree = len(term.polynomial) - 1
        facts = [term.odd, term.twice - 2 * degree, degree, *term.polynomial]
        out[index_of(a, b), : len(facts)] = facts
    return out


@compiled
def evaluate_term(table: Matrix, line: int, v: float) -> float:
    """Return h_ab(v), without overflow where it is bounded: P is a form in s = t / (1 + t) and r = 1 / (1 + t)."""
    t = v * v
    if t > 1.0:
        w = 1.0 / t
        s = 1.0 / (1.0 + w)
        r = w * s
    else:
        r = 1.0 / (1.0 + t)
        s = t * r
    degree, twice = int(table[line, DEGREE]), int(table[line, POWER])
    total, power = 0.0, 1.0
    for k in range(degree, -1, -1):  # Horner in s, with a power of r more for each step down
        total = total * s + table[line, FIRST + k] * power if k < degree else table[line, FIRST + k]
        power *= r
    if table[line, ODD] == 1.0:
        total *= v
    for _ in range(abs(twice) // 2):
        total = total * r if twice > 0 else total / r
    if twice % 2 != 0:
        total = total * math.sqrt(r) if twice > 0 else total / math.sqrt(r)
    return total


@compiled
def mixed_term(table: Matrix, a: int, b: int, u: float, amplitude: float, reach: float) -> float:
    """Return h_ab(u) of the potential amplitude G(u / reach), G' = v (1 + v^2)^-c."""
    m = a + b
    value = amplitude * evaluate_term(table, m * (m + 1) // 2 - 1 + b, u / reach)
    for _ in range(a):
        value /= reach
    return value


def _weights() -> NDArray[np.float64]:
    """Return c_abj of h_ab = sum_j c_abj u^j g^(a+j), from the recurrences above."""
    out = np.zeros((HIGHEST + 1, HIGHEST + 1, HIGHEST + 1))
    for a in range(HIGHEST + 1):
        out[a, 0, 0] = (-1.0) ** a
        for b in range(HIGHEST - a):
            for j in range(b + 2):
                out[a, b + 1, j] = -((a + j) * out[a, b, j] + (out[a, b, j - 1] if j else 0.0))
    return out


_WEIGHTS = _weights()


@compiled
def mixed_of_jet(g1: float, g2: float, g3: float, g4: float, u: float, a: int, b: int) -> float:
    """Return h_ab(u), 1 <= a + b <= 4, of any noise from the four derivatives of its potential at u."""
    total = 0.0
    for j in range(1 if a == 0 else 0, b + 1):
        order = a + j
        term = _WEIGHTS[a, b, j] * (g1 if order == 1 else g2 if order == 2 else g3 if order == 3 else g4)
        for _ in range(j):
            term *= u
        total += term
    return total


def extremes_of(found: dict[tuple[int, int], Term], m: int, reach: float) -> list[Vector]:
    """Return the points u where h_ab may have a local extreme, for a + b = m and b = 0 to m."""
    return [reach * found[m - b, b].extremes() for b in range(m + 1)]
