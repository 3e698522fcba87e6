"""What every kernel promises, with every proposal: the same test for all."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from problems import CASES, MIXTURES, PROPOSALS, RULES, Driver, in_batches, kernel, run, stream

MOVES = {name: entry[0] for name, entry in (PROPOSALS | MIXTURES).items()}
STEPS, BATCHES = 40_000, 40


def quadrature(case):
    """Posterior mean and standard deviation of the one coefficient, on a fine grid."""
    problem = CASES[case].problem(np.zeros(1))
    grid = np.linspace(-3.0, 3.0, 6001)[:, None]
    potential = np.float64(problem.potential(grid))
    mass = np.exp(potential.min() - potential)
    mass /= mass.sum()
    assert mass[0] < 1e-12
    assert mass[-1] < 1e-12
    mean = float(mass @ grid[:, 0])
    return mean, float(np.sqrt(mass @ (grid[:, 0] - mean) ** 2))


TRIALS_NEED = ("surrogate", "more-surrogate")
"""Proposals made of trials on a surrogate, which kernels without one refuse."""
PAIRS = [(rule, move) for rule in RULES for move in MOVES if "SMH" in rule or move not in TRIALS_NEED]
SKETCHED = [(rule, move, True) for rule in ("SMH1-local", "SMH2-local", "SMH3-local") for move in MOVES]


@pytest.mark.parametrize(("rule", "proposal", "sketch"), [(*pair, False) for pair in PAIRS] + SKETCHED)
def test_every_kernel_with_every_proposal(rule, proposal, sketch):
    case = "student-normal"
    model = CASES[case].model
    chosen = kernel(rule, MOVES[proposal], truncation=float(model.n), radius=4.0, sketch=sketch)
    draws = keeps_its_promises(case, chosen)
    if rule == "MH":
        assert np.all(draws.full_pass)


@pytest.mark.parametrize(("rule", "proposal"), [("SMH1-local", "walk"), ("SMH3-global", "surrogate")])
def test_kernels_in_batches(rule, proposal):
    chosen = kernel(rule, MOVES[proposal], truncation=float(CASES["student-normal"].model.n), radius=4.0)
    keeps_its_promises("student-normal", chosen, batches=True)


OTHER_KERNELS = {
    **{
        f"Firefly-{name}": tb.kernels.Firefly(q_db=0.2, proposal=MOVES[name])
        for name in MOVES
        if name not in TRIALS_NEED
    },
    "Firefly": tb.kernels.Firefly(),
    "Firefly-all": tb.kernels.Firefly(q_db=1.0),
    "ZigZag": tb.kernels.ZigZag(),
    "ZigZag-short": tb.kernels.ZigZag(step=0.4),
    "ZigZag-scaled": tb.kernels.ZigZag(whitened=False),
    "ZigZag-uniform": tb.kernels.ZigZag(whitened=False, uniform=True),
}


@pytest.mark.parametrize("rule", ["MH", "FMH-local", "FMH-global"])
@pytest.mark.parametrize("name", TRIALS_NEED)
def test_trials_on_a_surrogate_need_one(rule, name):
    with pytest.raises(tb.errors.InputError, match="steps on a surrogate"):
        kernel(rule, MOVES[name])


@pytest.mark.parametrize("name", OTHER_KERNELS)
def test_every_other_kernel(name):
    draws = keeps_its_promises("student-normal", OTHER_KERNELS[name])
    assert not np.any(draws.full_pass)
    assert np.sum(draws.rows_touched) > 0


def keeps_its_promises(case, chosen, batches=False):
    """Check what every kernel promises on a model with one coefficient; return the draws."""
    model = CASES[case].model
    prepared = whole = chosen.prepare(model, threads=1)
    assert prepared.plan["kernel"] == type(chosen).__name__
    if batches:
        prepared = in_batches(prepared)
    driver = Driver(prepared, stream(21), np.zeros(1))
    # Chains of plain factorisation stay in a tail for a thousand steps: batches must hold several such stays.
    steps = 4 * STEPS if isinstance(chosen, tb.kernels.FactorisedMH) else STEPS
    draws = run(driver, steps)
    assert driver.violations == 0
    assert draws.z.shape == (steps, 1)
    assert np.all(np.isfinite(draws.z))
    # A full pass evaluates every row; a step that was accepted moves, one that was not stays.
    assert np.all(draws.rows_touched[draws.full_pass] == model.n)
    assert np.all(draws.rows_touched >= 0)
    moved = np.any(np.diff(draws.z, axis=0) != 0.0, axis=1)
    np.testing.assert_array_equal(moved, draws.accepted[1:])
    # Same stream, same draws.
    again = run(Driver(in_batches(whole) if batches else whole, stream(21), np.zeros(1)), 2000)
    np.testing.assert_array_equal(again.z, draws.z[:2000])
    np.testing.assert_array_equal(again.rows_touched, draws.rows_touched[:2000])
    # Mean and standard deviation by batch means. False positives: 1e-7 for each of two numbers.
    theta = prepared.metric.theta(draws.z)[:, 0]
    mean, sd = quadrature(case)
    for values, wanted in ((theta, mean), ((theta - mean) ** 2, sd**2)):
        batches = values.reshape(BATCHES, -1).mean(axis=1)
        score = (np.mean(batches) - wanted) / np.std(batches, ddof=1) * math.sqrt(BATCHES)
        assert abs(score) < stats.t.isf(0.5e-7, BATCHES - 1)
        # The run is long enough to mean something.
        assert np.std(batches, ddof=1) / math.sqrt(BATCHES) < 0.1 * sd
    return draws


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "MH"])
def test_steps_without_an_event_touch_no_row(rule):
    model = CASES["logistic-flat"].model
    prepared = kernel(rule, MOVES["preconditioned"]).prepare(model, threads=1)
    short = dataclasses.replace(prepared, move=prepared.move._replace(scale=1e-9))
    draws = run(Driver(short, stream(22), np.full(2, 1e-9)), 200)
    assert np.sum(draws.rows_touched) == 0
    assert not np.any(draws.full_pass)
    assert np.mean(draws.accepted) > 0.9


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "MH"])
def test_without_room_for_thinning_every_step_is_a_full_pass(rule):
    model = CASES["logistic-flat"].model
    prepared = kernel(rule, MOVES["preconditioned"], truncation=0.0).prepare(model, threads=1)
    draws = run(Driver(prepared, stream(23), np.zeros(2)), 500)
    assert np.all(draws.full_pass)
    assert np.all(draws.rows_touched == model.n)
    assert 0.2 < np.mean(draws.accepted) < 1.0
