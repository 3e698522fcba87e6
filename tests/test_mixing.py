"""The quick look at mixing in rehearsals: about right."""

import numpy as np
import pytest

from tallbayes.kernels.mixing import effective_draws


def autoregressive(keep, chains=4, draws=20_000, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((chains, draws)) * np.sqrt(1.0 - keep**2)
    x = np.empty((chains, draws, 1))
    state = rng.standard_normal(chains)
    for t in range(draws):
        state = keep * state + noise[:, t]
        x[:, t, 0] = state
    return x


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_effective_draws_of_a_known_chain(keep):
    found = effective_draws(autoregressive(keep))[0]
    # 4 x 141 batches: a standard error of 6 %; batches of 141 steps miss a little of the correlation.
    assert found == pytest.approx(80_000 * (1.0 - keep) / (1.0 + keep), rel=0.3)


def test_chains_that_never_meet_have_few_effective_draws():
    """Neighbouring batches are alike then; counted as independent there would be 1,264."""
    walks = np.cumsum(np.random.default_rng(0).standard_normal((4, 100_000, 2)), axis=1)
    assert np.all(effective_draws(walks) < 100.0)
