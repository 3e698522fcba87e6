"""Exponential and logarithm of loops over rows are as accurate as the C library's; undefined ranges are noticed."""

import mpmath
import numpy as np
import pytest

import tallbayes as tb
from tallbayes.compiled import compiled_within
from tallbayes.families import straight_line
from tallbayes.families.ranges import range_at_ends


@compiled_within
def exponentials(x, out):
    for i in range(x.size):
        out[i] = straight_line.exp(x[i])


@compiled_within
def logarithms(x, out):
    for i in range(x.size):
        out[i] = straight_line.log1p(x[i])


def units_off(found, exact):
    """How many units in the last place each number is off."""
    return max(
        abs(float((mpmath.mpf(f) - e) / float(np.spacing(float(e))))) for f, e in zip(found, exact, strict=True)
    )


def test_exponentials_in_loops_are_accurate():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-744.0, 709.7, 2000), rng.uniform(-1.0, 1.0, 2000), 1e-9 * rng.standard_normal(500)]
    )
    found = np.empty_like(x)
    exponentials(x, found)
    with mpmath.workprec(120):
        assert units_off(found.tolist(), [mpmath.exp(mpmath.mpf(v)) for v in x.tolist()]) < 1.25
    ends = np.array([-np.inf, np.inf, np.nan, 0.0, -1e300, 1e300])
    found = np.empty_like(ends)
    exponentials(ends, found)
    np.testing.assert_array_equal(found, [0.0, np.inf, np.nan, 1.0, 0.0, np.inf])
    assert [straight_line.exp(v) for v in (-np.inf, 0.0, 1e300)] == [0.0, 1.0, np.inf]


def test_logarithms_in_loops_are_accurate():
    rng = np.random.default_rng(1)
    exponents = np.concatenate(
        [rng.uniform(-300.0, 0.0, 1500), rng.uniform(-3.0, 3.0, 1500), rng.uniform(3.0, 308.0, 500)]
    )
    x = np.concatenate([10.0**exponents, rng.random(2000)])
    found = np.empty_like(x)
    logarithms(x, found)
    with mpmath.workprec(120):
        assert units_off(found.tolist(), [mpmath.log1p(mpmath.mpf(v)) for v in x.tolist()]) < 2.0
    ends = np.array([np.inf, np.nan, 0.0, 5e-324])
    found = np.empty_like(ends)
    logarithms(ends, found)
    np.testing.assert_array_equal(found, [np.inf, np.nan, 0.0, 5e-324])


@pytest.mark.parametrize("ends", [(np.nan, 0.0), (0.0, np.nan)])
def test_a_range_with_an_undefined_end_is_undefined(ends):
    """Whoever adds up bounds then notices; the other end alone would look like a proved range."""
    assert np.all(np.isnan(range_at_ends(tb.families.Bernoulli().curve, 3, *ends, 0.0)))
