"""Quantiles and tails are those of SciPy."""

import sys

import numpy as np
import pytest
from scipy import special

from tallbayes import quantiles

DEGREES = [1, 2, 3, 4, 7, 10, 51, 200, 1001]


@pytest.mark.parametrize("d", DEGREES)
def test_tails_of_chi_square(d):
    for x in d * np.array([0.0, 1e-6, 0.1, 0.7, 1.0, 1.3, 2.0, 5.0]):
        assert quantiles.chi_square_tail(d, x) == pytest.approx(special.chdtrc(d, x), rel=1e-11, abs=1e-300)
    assert quantiles.chi_square_tail(d, -1.0) == 1.0


@pytest.mark.parametrize("d", DEGREES)
def test_quantiles_of_chi_square(d):
    for above in (1e-15, 1e-12, 1e-6, 0.01, 0.3, 0.9, 0.999):
        assert quantiles.chi_square_quantile(d, above) == pytest.approx(special.chdtri(d, above), rel=1e-11)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("size", [7, quantiles.MANY + 1])
def test_quantiles_of_normal(size, loaded, monkeypatch):
    if not loaded:
        monkeypatch.delitem(sys.modules, "scipy.special")
    p = np.concatenate([[1e-300, 1e-20], (np.arange(size) + 0.5) / size, [1 - 2**-53]])
    np.testing.assert_allclose(quantiles.normal_quantiles(p), special.ndtri(p), rtol=1e-13, atol=1e-15)
