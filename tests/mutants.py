"""Bugs on purpose: does some test notice each of them? Run by `make mutants`, and not collected by pytest.

    python tests/mutants.py [--list] [NAME ...]

Every mutant is a piece of source and what takes its place, in a copy of the package. Of each one line is printed: the
test that caught it, by an assertion, by an `ExactnessError` or by the lack of an error; or that it escaped; or that
tests broke for another reason, which catches nothing. The named tests must pass on the source as it is. A NAME is a
part of a mutant's name; without one all are run.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

REPOSITORY = Path(__file__).parent.parent
SIGNS = ("assert", "AssertionError", "Failed: DID NOT RAISE", "tallbayes.errors.ExactnessError")
"""How the message of a test begins that has noticed something; of other errors nobody knows what they are about."""
LONGEST = 900.0
"""Seconds after which tests are given up."""


class Mutant(NamedTuple):
    """A bug, and who should notice it."""

    name: str
    file: str
    """Below src/tallbayes."""
    text: str
    """Found once in the file."""
    wrong: str
    """What takes its place."""
    tests: tuple[str, ...]
    """Node ids below tests, the cheapest ones that notice."""


class Verdict(NamedTuple):
    """How a run of tests ended."""

    caught: bool
    words: str


# -- the tests, by short names --


def replay(chain: str, way: str = "is") -> str:
    return f"test_replay.py::test_compiled_chain_{way}_the_plain_one[({chain})]"


def constants(case: str, rule: str) -> str:
    return f"test_algebra.py::test_bounds_of_rows_are_the_papers[{case}-{rule}]"


def acceptance(case: str, rule: str, proposal: str = "walk") -> str:
    return f"test_algebra.py::test_acceptance_is_the_papers_and_reversible[{case}-{rule}-{proposal}]"


def tails(chain: str, way: str = "at-hand") -> str:
    return f"test_tails_chains.py::test_compiled_chain_is_the_plain_one[{way}-({chain})]"


def scale_prior(name: str) -> str:
    return f"test_unknown_scale.py::test_priors_are_of_the_scale_itself[{name}]"


STEPS = replay("'student-flat', 'SMH1-local', 'first-order', 30.0, 4.0")
BLOCKS = replay("'logistic-normal', 'SMH3-local', 'independent', 20.0, 4.0")
BLOCKS_GLOBAL = replay("'logistic-ends', 'SMH2-global', 'independent', 2.0, None")
WALKS_BETWEEN = replay("'logistic-normal', 'SMH2-local', 'walks-between', 40.0, 3.0")
SKETCHED = replay("'logistic-normal', 'SMH2-local', 'independent', 100.0, 3.5, 4")
TRIALS = replay("'logistic-normal', 'SMH3-local', 'more-surrogate', inf, 3.0")
PRIORS = replay("'logistic-priors', 'SMH2-local', 'antithetic-walks', 40.0, 3.0")
BATCHES = replay("'logistic-normal', 'SMH2-local', 'independent', inf, 3.0", "in_batches_is")
TABLES = tails("'logit', 2, 'independent', inf, 3.0")
CORE = tails("'logit', 2, 'no-table', inf, 3.0")
MONITOR = "test_bounds.py::test_a_bound_that_is_one_percent_too_small_is_noticed[0.99-False]"
MONITOR_OF_BUNDLES = "test_bounds.py::test_a_bundle_that_is_one_percent_too_small_is_noticed"
MONITOR_OF_SKETCH = "test_bounds.py::test_a_bound_that_is_one_percent_too_small_is_noticed[0.99-True]"
ALLOWANCE = "test_bundles.py::test_the_allowance_for_rounding_is_reached_and_no_more[200]"
REACHED = "test_bundles.py::test_limits_are_reached"
SINGLE = "test_bounds.py::test_trials_of_single_precision_rows_are_those_of_the_same_numbers[single-logistic]"
SLOTS = "test_sources.py::test_slots_hold_rows_in_proportion_to_their_bounds[equal-blocks]"
SLOTS_MERGED = "test_sources.py::test_slots_merge_in_any_tree[balanced]"
REFILLS = "test_sources.py::test_slots_and_refills_are_independent"
ZIGZAG = "test_zigzag.py::test_compiled_process_is_the_plain_one[logistic-normal-whitened]"
ZIGZAG_BATCHES = "test_zigzag.py::test_rows_in_batches_are_the_plain_process[logistic-normal-whitened]"
ZIGZAG_BOUNDS = "test_zigzag.py::test_rates_stay_below_their_bounds[whitened-logistic-normal]"
TABLE_TRIALS = tails("'logit', 3, 'trials', inf, 2.5")
FIREFLY_PRIORS = "test_firefly.py::test_compiled_chain_is_the_plain_one[logistic-priors]"
FIREFLY_WALKS = "test_firefly.py::test_compiled_chain_is_the_plain_one[student-normal]"
FIREFLY = "test_firefly.py::test_compiled_chain_is_the_plain_one[logistic-normal]"
SWEEP = "test_firefly.py::test_sweep_against_enumeration[0.15]"
PARABOLA = "test_firefly.py::test_parabola_lies_above_and_touches[logistic]"
TABLE = "test_tails.py::test_a_table_is_close_to_its_potential_and_its_density_integrates_to_one[normal]"
TABLE_DRAWS = "test_tails.py::test_draws_have_the_density_of_their_table[normal]"


# -- the mutants --


def mutants() -> Iterator[Mutant]:
    """Return all of them: those of the table below, and some that are alike."""
    for name, file, text, wrong, *tests in [*MUTANTS, *halved(), *mixed()]:
        yield Mutant(name, file, text, wrong, tuple(tests))


def halved() -> Iterator[tuple[str, ...]]:
    """Return bounds with half their constant."""
    local, paper = "* size / factorial", "np.max(steepest, axis=0) / math.factorial(m)"
    for order in (1, 2, 3):
        half = f" * (0.5 if m == {order + 1} else 1.0)"
        test = constants("logistic-normal", f"SMH{order}-local")
        yield f"half a local bound of order {order}", "models/passes.py", local, local + half, test
        test = constants("logistic-normal", f"SMH{order}-global")
        yield f"half a global bound of order {order}", "families/rows.py", paper, paper + half, test


def mixed() -> Iterator[tuple[str, ...]]:
    """Return families of two predictors whose mixed derivatives have bounds that are 1 % low."""
    right = "whole += length * both"
    wrong = f"{right} * (0.99 if 0 < b < m else 1.0)"
    for name, file, case in (
        ("location-scale", "location_scale", "scale-student"),
        ("zero-inflated", "atoms", "inflated"),
        ("negative binomial", "atoms", "dispersed"),
        ("gamma", "atoms", "amounts"),
    ):
        yield f"{name}: mixed bound 1 % low", f"families/{file}.py", right, wrong, constants(case, "SMH3-local")


FRESH = "                if count < {}:\n                    now.clock -= now.pending"
WEIGHT_LINE = "    weight = weights[min(i, weights.size - 1)]\n"

MUTANTS: list[tuple[str, ...]] = [
    # families
    (
        "softmax: fourth derivative's bound 1 % low",
        "families/categorical.py",
        "rise, fall = square * min(square / 12.0, total), min(0.125 * square * square, 2.0 * total * total)",
        "rise, fall = 0.99 * square * min(square / 12.0, total), 0.99 * min(0.125 * square**2, 2.0 * total**2)",
        constants("softmax", "SMH3-local"),
    ),
    (
        "ordinal: bound of the gap 1 % low",
        "families/ordinal.py",
        "whole += size * both",
        "whole += size * both * (0.99 if part == 2 else 1.0)",
        constants("ordinal", "SMH3-local"),
    ),
    (
        "cloglog: bound of the other class",
        "families/rows.py",
        "range_at_ends(curve, m, t - half, t + half, piece)",
        "range_at_ends(curve, m, t - half, t + half, 1.0 - piece)",
        constants("cloglog", "SMH1-local"),
    ),
    (
        "grouped cloglog: bound of the other class",
        "families/rows.py",
        "derivative_range(curve, m, t - half, t + half, extremes, piece)",
        "derivative_range(curve, m, t - half, t + half, extremes, 1.0 - piece)",
        "test_families.py::test_bounds_of_mixtures_hold",
    ),
    (
        "second piece: extremes of the first",
        "families/rows.py",
        "value, inside = extremes[1 + int(piece), j]",
        "value, inside = extremes[1, j]",
        constants("cloglog", "SMH1-local"),
    ),
    (
        "second piece: ends of the first",
        "families/rows.py",
        "range_at_ends(curve, m, t - half, t + half, piece)",
        "range_at_ends(curve, m, t - half, t + half, 0.0)",
        constants("cloglog", "SMH1-local"),
    ),
    (
        "firefly: parabola 1 % flat",
        "families/parabola.py",
        "return (jet(curve, t, piece)[0] - slope) / t",
        "return 0.99 * (jet(curve, t, piece)[0] - slope) / t",
        PARABOLA,
    ),
    # sources
    (
        "alias: last row never drawn",
        "sources/alias.py",
        "i = uniform_index(table.shape[0], rng)",
        "i = uniform_index(max(table.shape[0] - 1, 1), rng)",
        "test_components.py::test_alias_table[equal-8]",
    ),
    (
        "alias: a rich row gives 1 % too little",
        "sources/alias.py",
        "table[rows[lacks], 0] = weight[lacks]",
        "table[rows[lacks], 0] = 1.01 * weight[lacks]",
        "test_components.py::test_alias_table[spread-65536]",
    ),
    (
        "single precision: rows off by 1 %",
        "sources/memory.py",
        "            row[j] = read_float32(at)",
        "            row[j] = 1.01 * read_float32(at)",
        SINGLE,
    ),
    # set-up
    (
        "global bound: l2 norm for l1",
        "setup/bounds.py",
        "            total += abs(component)\n    return np.sqrt(total) if local else total",
        "            total += component * component\n    return np.sqrt(total)",
        acceptance("logistic-normal", "SMH1-global"),
    ),
    (
        "truncation by one state",
        "setup/bounds.py",
        "    if far > bound.radius:",
        "    if distance > bound.radius:",
        acceptance("logistic-normal", "SMH1-local"),
    ),
    (
        "local bound: short steps half as long",
        "setup/bounds.py",
        "between = (k + 1) * far**k * length",
        "between = 0.5 * (k + 1) * far**k * length",
        acceptance("logistic-normal", "SMH1-local"),
    ),
    (
        "cylinder: distance over the wrong coordinates",
        "setup/bounds.py",
        "    for i in range(free, z.size):\n        if local:",
        "    for i in range(z.size - free):\n        if local:",
        TABLES,
    ),
    (
        "cylinder: length of a step over the wrong coordinates",
        "setup/bounds.py",
        "    for i in range(bound.free, z.size):",
        "    for i in range(z.size - bound.free):",
        CORE,
    ),
    (
        "sketch: 1 % less for the rounding of rows",
        "setup/sketch.py",
        "return unit, 0.5 * length",
        "return unit, 0.495 * length",
        ALLOWANCE,
    ),
    (
        "sketch: 1 % less for the rounding of states",
        "setup/sketch.py",
        "0.5 * length + 0.5 * LEVELS * (z.size - free) * unit",
        "0.5 * length + 0.495 * LEVELS * (z.size - free) * unit",
        ALLOWANCE,
    ),
    (
        "sketch: limits reckon with 1 % less rounding",
        "setup/sketch.py",
        "off = 0.5 * d**0.5 + ",
        "off = 0.495 * d**0.5 + ",
        ALLOWANCE,
    ),
    (
        "sketch: 1 % less for rows in single precision",
        "setup/sketch.py",
        "* unit + off * np.sqrt(square)",
        "* unit + 0.99 * off * np.sqrt(square)",
        ALLOWANCE,
    ),
    (
        "sketch: limits reckon with 1 % less for rows in single precision",
        "setup/sketch.py",
        "/ fine_levels(d) + lines_off(d)",
        "/ fine_levels(d) + 0.99 * lines_off(d)",
        ALLOWANCE,
    ),
    (
        "sketch: rows 1 % too far off are not computed anew",
        "setup/sketch.py",
        "not off <= most * largest[r]",
        "not off <= 1.01 * most * largest[r]",
        "test_bundles.py::test_rows_that_are_too_far_off_are_computed_anew",
    ),
    (
        "sketch: lengths in single precision taken for exact",
        "setup/sketch.py",
        "(lengths[r] - 2.0 * off)",
        "lengths[r]",
        "test_bundles.py::test_rows_that_are_too_far_off_are_computed_anew",
    ),
    (
        "sketch: rounded states as long as before",
        "setup/sketch.py",
        "1.0 + 0.5 * d**0.5 / fine_levels(d)",
        "1.0",
        "test_bundles.py::test_a_state_may_be_longer_when_it_is_rounded",
    ),
    (
        "lengths: 1 % of what single precision may lose is forgotten",
        "models/products.py",
        "math.expm1((d + 2) * UNIT_ROUNDOFF)",
        "0.99 * math.expm1((d + 2) * UNIT_ROUNDOFF)",
        "test_components.py::test_what_single_precision_may_lose_is_added_to_lengths",
    ),
    (
        "lengths: rows that nearly cancel are not computed anew",
        "models/products.py",
        "close = lost <= SLACK * length and",
        "close =",
        "test_components.py::test_lengths_of_products_are_never_too_small",
    ),
    (
        "trials: the steepest row 1 % less steep",
        "models/passes.py",
        "largest = max(largest, psi[i] / power",
        "largest = max(largest, 0.99 * psi[i] / power",
        "test_bounds.py::test_the_steepest_row_is_the_one_with_the_largest_derivative",
    ),
    (
        "trials: rows settled by one end of the step",
        "kernels/thinning.py",
        "bound_of_both(abs(before), abs(after), abs(after - before), order)",
        "bound_of_both(abs(before), abs(before), abs(after - before), order)",
        "test_bounds.py::test_rows_that_move_little_are_settled_as_their_remainders_would",
    ),
    (
        "sketch: products overflow",
        "setup/sketch.py",
        "FINE_LEVELS, LARGEST_SUM = 32767.0, 2.0**31 - 1.0",
        "FINE_LEVELS, LARGEST_SUM = 32767.0, 2.0**32",
        "test_bundles.py::test_products_of_very_wide_rows_do_not_overflow",
    ),
    (
        "sketch: 1 % of a short step forgotten",
        "setup/sketch.py",
        "0.5 * (order + 1) * (small_power(here, order)",
        "0.495 * (order + 1) * (small_power(here, order)",
        "test_bundles.py::test_the_bound_of_both_ends_holds_and_is_reached[2]",
    ),
    (
        "bundles: limits 1 % low",
        "setup/bundles.py",
        "SLACK * SLACK * limit",
        "0.99 * limit",
        f"{REACHED}[1]",
    ),
    (
        "bundles: eigenvalues 1 % low",
        "setup/bundles.py",
        "    return largest\n\n\n@compiled_within\ndef _put_square",
        "    return 0.99 * largest\n\n\n@compiled_within\ndef _put_square",
        f"{REACHED}[3]",
    ),
    (
        "bundles: order 2 by squares alone",
        "setup/bundles.py",
        "        if order < 3:  # by",
        "        if order < 2:  # by",
        "test_bundles.py::test_limits_hold_in_the_worst_direction[2-2]",
    ),
    (
        "bundles: rounding left out of limits",
        "setup/bundles.py",
        "along**root + off**root",
        "along**root",
        f"{REACHED}[2]",
    ),
    (
        "bundles: shares of rises and falls exchanged",
        "setup/bundles.py",
        "MOST_RISES, MOST_FALLS = range(5)",
        "MOST_FALLS, MOST_RISES = range(5)",
        "test_bundles.py::test_bundles_are_drawn_by_their_limits",
    ),
    (
        "sketched thinning: the row after the one that an event falls on",
        "kernels/sketched_thinning.py",
        "i = places[bundle * size + r]",
        "i = places[min(bundle * size + r + 1, places.size - 1)]",
        SKETCHED,
    ),
    (
        "sketched thinning: level within a row not lowered",
        "kernels/sketched_thinning.py",
        "uniform = (at - passed) / whole",
        "uniform = at / whole",
        SKETCHED,
    ),
    (
        "table: density 1 % low on one side",
        "setup/tables.py",
        "return knots[1, k] + share * (knots[1, k + 1] - knots[1, k])",
        "return knots[1, k] + share * (knots[1, k + 1] - knots[1, k]) + (0.01 if z > 0.0 else 0.0)",
        TABLE,
    ),
    (
        "table: 1 % more draws of the lower half",
        "setup/tables.py",
        "k = segment(knots[2], rng.random())",
        "k = segment(knots[2], rng.random() ** 1.0145)",
        TABLE_DRAWS,
    ),
    (
        "scale prior in chains: Jacobian of a power dropped",
        "setup/exact_prior.py",
        "return location * math.exp(min(scale * theta, 700.0)) - shape * theta",
        "return location * math.exp(min(scale * theta, 700.0))",
        scale_prior("half-normal"),
    ),
    (
        "scale prior in chains: Jacobian of half a Student's t dropped",
        "setup/exact_prior.py",
        "(max(t, 0.0) + math.log1p(math.exp(-abs(t)))) - theta",
        "(max(t, 0.0) + math.log1p(math.exp(-abs(t))))",
        scale_prior("half-student"),
    ),
    (
        "scale prior of the driver: Jacobian of a power dropped",
        "setup/exact_prior.py",
        "power = location * np.exp(np.minimum(scale * theta, 700.0)) - shape * theta",
        "power = location * np.exp(np.minimum(scale * theta, 700.0))",
        scale_prior("half-normal"),
    ),
    (
        "scale prior of the driver: Jacobian of half a Student's t dropped",
        "setup/exact_prior.py",
        "(theta - location) - np.log(shape)) - theta\n",
        "(theta - location) - np.log(shape))\n",
        scale_prior("half-student"),
    ),
    (
        "expansion: stand-ins of exact priors counted as well",
        "setup/expansion.py",
        "gradient = metric.gradient - metric.stand_in_gradient",
        "gradient = metric.gradient",
        acceptance("logistic-priors", "SMH2-local"),
    ),
    # kernels: proposals and the surrogate
    (
        "global bound ahead: l2 norm for l1",
        "kernels/look_ahead.py",
        "distances[b] += abs(component)",
        "distances[b] = np.sqrt(distances[b] ** 2 + component**2)",
        BLOCKS_GLOBAL,
    ),
    (
        "cylinder ahead: distance over the wrong coordinates",
        "kernels/look_ahead.py",
        "for j in range(bound.free, d):",
        "for j in range(d - bound.free):",
        CORE,
    ),
    (
        "surrogate: exact priors dropped",
        "kernels/surrogate_values.py",
        "return value + evaluate_exact(facts, rows, numbers[EXACT_CONSTANT], z) if facts.size > 0 else value",
        "return value",
        PRIORS,
    ),
    (
        "surrogate ahead: exact priors dropped",
        "kernels/surrogate_values.py",
        "        add_exact(facts, rows, numbers[EXACT_CONSTANT], z, values)",
        "        add_exact(facts[:0], rows, numbers[EXACT_CONSTANT], z, values)",
        replay("'logistic-priors', 'SMH3-local', 'surrogate', inf, 3.0"),
    ),
    (
        "all rows: exact priors dropped",
        "kernels/surrogate_values.py",
        "    if facts.size > 0:\n        value += evaluate_exact",
        "    if facts.size < 0:\n        value += evaluate_exact",
        PRIORS,
    ),
    (
        "core row dropped where one state is evaluated",
        "kernels/surrogate_values.py",
        "        for i in range(some.shape[0]):\n            total +=",
        "        for i in range(some.shape[0] - 1):\n            total +=",
        TABLES,
    ),
    (
        "core row dropped ahead",
        "kernels/surrogate_values.py",
        "    for i in range(rows.shape[0]):\n        _put_moves",
        "    for i in range(rows.shape[0] - 1):\n        _put_moves",
        CORE,
    ),
    (
        "tables: a walk's correction dropped",
        "kernels/surrogate_values.py",
        "return correction + table_excess(lines, facts, z) - table_excess(lines, facts, proposed)",
        "return correction",
        TABLES,
    ),
    (
        "walk's correction dropped",
        "kernels/scalable_mh_steps.py",
        "correction += 0.5 * (z[j] - middle) ** 2 - 0.5 * (proposed[j] - middle) ** 2",
        "correction += 0.0",
        WALKS_BETWEEN,
    ),
    (
        "surrogate trials: an even number",
        "kernels/surrogate_trials.py",
        "for trial in range(trials):",
        "for trial in range(trials - 1):",
        TRIALS,
    ),
    (
        "surrogate trials: a start outside moves",
        "kernels/surrogate_trials.py",
        "if inside and allowed and",
        "if allowed and",
        replay("'student-normal', 'SMH2-local', 'more-surrogate', inf, 2.0"),
    ),
    (
        "surrogate trials: a walk along tables 1 % off in its G",
        "kernels/surrogate_trials.py",
        "rise = next_value - value - put_back",
        "rise = next_value - value - 0.99 * put_back",
        "test_stand_ins.py::test_compiled_chain_is_the_plain_one",
    ),
    (
        "stand-ins: their linear part counted twice",
        "setup/stand_ins.py",
        "stand_ins = core_of(model, metric, rows, 1)",
        "stand_ins = core_of(model, metric, rows, 0)",
        "test_stand_ins.py::test_the_surrogate_is_that_of_the_formula[('logit', False)]",
    ),
    (
        "all rows: tables' G dropped",
        "kernels/surrogate_values.py",
        "return value - table_excess(matrix_at(places[TABLE_LINES]), matrix_at(places[TABLE_FACTS]), z)\n\n\ndef _look",
        "return value\n\n\ndef _look",
        TABLES,
    ),
    (
        "all rows: tables' G dropped by the driver",
        "kernels/target.py",
        "return _plain_prior(target.prior, target.exact, z) - float(tables_at",
        "return _plain_prior(target.prior, target.exact, z) - 0.0 * float(tables_at",
        tails("'logit', 2, 'independent', inf, 3.0", "asking"),
    ),
    # kernels: steps and thinning
    (
        "rate 2 % low",
        "kernels/scalable_mh_steps.py",
        "rate = bound.total * (before + after + between)",
        "rate = 0.98 * bound.total * (before + after + between)",
        STEPS,
    ),
    (
        "clock not used up by an accepted step",
        "kernels/scalable_mh_steps.py",
        "            if accept:\n                now.clock -= now.pending",
        "            if accept and now.clock < 0.0:\n                now.clock -= now.pending",
        STEPS,
    ),
    (
        "potential of an earlier state kept",
        "kernels/scalable_mh_steps.py",
        "now.potential = now.proposed_potential if full else np.nan",
        "now.potential = now.proposed_potential if full else now.potential",
        BLOCKS,
    ),
    (
        "all rows: a walk's correction dropped",
        "kernels/scalable_mh_steps.py",
        "accept = rng.standard_exponential() > -(now.answer + now.correction)",
        "accept = rng.standard_exponential() > -now.answer",
        WALKS_BETWEEN,
    ),
    (
        "thinning: last row never drawn",
        "kernels/thinning.py",
        "first = uniform_index(table.shape[0], rng)",
        "first = uniform_index(table.shape[0] - 1, rng)",
        STEPS,
    ),
    (
        "thinning: a uniform used twice",
        "kernels/thinning.py",
        "chances[count, 1] = rng.random()",
        "chances[count, 1] = chances[count, 0] if table.size > 0 else rng.random()",
        STEPS,
    ),
    (
        "thinning: a supplied row used twice",
        "kernels/thinning.py",
        "first = now.slot\n",
        "first = now.slot - now.slot % 2\n",
        BATCHES,
    ),
    (
        "thinning: clock kept after a rejection in a batch that is not full",
        "kernels/thinning.py",
        FRESH.format("batch"),
        FRESH.format("0"),
        STEPS,
    ),
    (
        "thinning: clock changed after a rejection in a full batch",
        "kernels/thinning.py",
        FRESH.format("batch"),
        FRESH.format("batch + 1"),
        STEPS,
    ),
    (
        "sketched thinning: clock kept after a rejection in a batch that is not full",
        "kernels/sketched_thinning.py",
        FRESH.format("BATCH"),
        FRESH.format("0"),
        SKETCHED,
    ),
    (
        "sketched thinning: clock changed after a rejection in a full batch",
        "kernels/sketched_thinning.py",
        FRESH.format("BATCH"),
        FRESH.format("BATCH + 1"),
        SKETCHED,
    ),
    (
        "sketched thinning: a uniform used twice",
        "kernels/thinning.py",
        "chances[count, 1] = rng.random()",
        "chances[count, 1] = chances[count, 0] if table.size > 0 else rng.random()",
        SKETCHED,
    ),
    (
        "events: rises and falls exchanged",
        "kernels/thinning.py",
        "return RISE if pending >= total * before and after > 0.0 else FALL",
        "return FALL if pending >= total * before and after > 0.0 else RISE",
        STEPS,
    ),
    (
        "events: positive part of a rise dropped",
        "kernels/thinning.py",
        "rise = min(intensity, max(0.0, after))",
        "rise = min(intensity, after)",
        STEPS,
    ),
    (
        "events: a fall counts the whole intensity",
        "kernels/thinning.py",
        "return rise if kind == RISE else intensity - rise",
        "return rise if kind == RISE else intensity",
        STEPS,
    ),
    (
        "events: shares 1 % low",
        "kernels/thinning.py",
        "            if uniform >= share:",
        "            if uniform >= 0.99 * share:",
        STEPS,
    ),
    (
        "events: shares of rises for falls",
        "sources/alias.py",
        "shares[min(i, shares.shape[0] - 1), kind]",
        "shares[min(i, shares.shape[0] - 1), 0]",
        STEPS,
    ),
    (
        "single precision: remainders rounded",
        "kernels/thinning.py",
        WEIGHT_LINE,
        WEIGHT_LINE + "    if design[3] == 1:\n        for k in range(2):\n"
        "            pair[k] = 536870913.0 * pair[k] - (536870913.0 * pair[k] - pair[k])\n",
        SINGLE,
    ),
    (
        "single precision: remainders off by 1 %",
        "kernels/thinning.py",
        WEIGHT_LINE,
        WEIGHT_LINE + "    if design[3] == 1:\n        for k in range(2):\n            pair[k] *= 1.01\n",
        SINGLE,
    ),
    (
        "thinning: weights ignored",
        "kernels/thinning.py",
        WEIGHT_LINE,
        "    weight = 1.0\n",
        SINGLE,
    ),
    (
        "thinning: offset ignored",
        "kernels/thinning.py",
        "offset = offsets[min(i, offsets.size - 1)]",
        "offset = 0.0",
        SINGLE,
    ),
    # kernels: the monitor
    (
        "monitor: 1 % tolerated within a chain",
        "kernels/thinning.py",
        "limit * (1.0 + CERTAIN",
        "limit * (1.01 + CERTAIN",
        MONITOR,
    ),
    (
        "monitor: 30 % tolerated within a chain",
        "kernels/thinning.py",
        "limit * (1.0 + CERTAIN",
        "limit * (1.3 + CERTAIN",
        MONITOR,
    ),
    (
        "all rows: a column counts 1 % more",
        "kernels/all_rows.py",
        "eta[r] += coefficient * column[r]",
        "eta[r] += 1.01 * coefficient * column[r]",
        "test_components.py::test_rows_at_hand_are_summed_exactly",
    ),
    (
        "sketch: powers of one more",
        "setup/sketch.py",
        "for _ in range(exponent - 1):",
        "for _ in range(exponent):",
        f"{REACHED}[2]",
    ),
    *(
        (
            f"missed tails: tables are trusted up to {limit}",
            "results/diagnostics.py",
            "AGREES = 0.1\n",
            f"AGREES = {limit}\n",
            "test_tails.py::test_a_tail_that_was_missed_is_told",
        )
        for limit in (0.099, 0.101)
    ),
    (
        "monitor: off with a sketch",
        "kernels/sketched_thinning.py",
        "share = min(share_of(rows.shares, kind, i), pieces[0, r] / whole)",
        "share = np.inf",
        MONITOR_OF_SKETCH,
    ),
    (
        "monitor: pieces of bundles not checked",
        "kernels/sketched_thinning.py",
        "share = min(share_of(rows.shares, kind, i), pieces[0, r] / whole)",
        "share = share_of(rows.shares, kind, i)",
        f"{MONITOR_OF_BUNDLES}[pieces-0.99]",
    ),
    (
        "monitor: limits of bundles not checked",
        "kernels/sketched_thinning.py",
        "total, chances[b, 0] * limit)",
        "total, np.inf)",
        f"{MONITOR_OF_BUNDLES}[limits-0.99]",
    ),
    (
        "monitor of zig-zag: 1 % tolerated",
        "kernels/zigzag_steps.py",
        "limit * (1.0 + 16.0 * (d + 2) * EPSILON)",
        "limit * (1.01 + 16.0 * (d + 2) * EPSILON)",
        "test_zigzag.py::test_a_bound_that_is_one_per_cent_too_small_is_noticed[False]",
    ),
    # kernels: answers over all rows
    (
        "all rows at hand: one missing",
        "kernels/all_rows.py",
        "n, total = rows.responses.shape[0], 0.0",
        "n, total = rows.responses.shape[0] - 1, 0.0",
        BLOCKS,
    ),
    (
        "all rows at hand: weights ignored",
        "kernels/all_rows.py",
        "total += w * out[0, r]",
        "total += out[0, r]",
        BLOCKS,
    ),
    (
        "all rows at hand: offset of one predictor ignored",
        "kernels/all_rows.py",
        "eta[r] = offset[min(first + r, offset.size - 1)]",
        "eta[r] = 0.0",
        BLOCKS,
    ),
    (
        "all rows at hand: offset of several predictors ignored",
        "kernels/all_rows.py",
        "offset = rows.offset[min(first + r, rows.offset.size - 1)]",
        "offset = 0.0",
        replay("'scale-ends', 'MH', 'walks-between', inf, None"),
    ),
    (
        "start: where the likelihood is zero",
        "kernels/base.py",
        "while not self._has_likelihood(z):",
        "while False:",
        "test_sampling.py::test_chains_start_where_the_likelihood_is_not_zero",
    ),
    (
        "amounts: Binet's function of the row before",
        "families/amounts.py",
        "        if eta[1, r] != known:\n",
        "        if r == 0:\n",
        "test_several_predictors.py::test_jets_do_not_depend_on_the_rows_before[amounts]",
    ),
    (
        "dispersed: sums of the row before",
        "families/dispersed.py",
        "            if eta[1, r] != known:\n",
        "            if r == 0:\n",
        "test_several_predictors.py::test_jets_do_not_depend_on_the_rows_before[dispersed]",
    ),
    (
        "all rows at hand: prior counted twice",
        "kernels/all_rows.py",
        "now.answer = here - there - change",
        "now.answer = 2.0 * (here - there) - change",
        BLOCKS,
    ),
    # the other kernels
    (
        "firefly: excess of a row without its weight",
        "kernels/firefly_steps.py",
        "return rows.weight[min(i, rows.weight.size - 1)] * excess",
        "return excess",
        FIREFLY,
    ),
    (
        "firefly: dark rows rise 1 % too often",
        "kernels/firefly_steps.py",
        "if rng.random() * q_db < np.expm1(e):",
        "if 0.99 * rng.random() * q_db < np.expm1(e):",
        SWEEP,
        FIREFLY,
    ),
    (
        "firefly: rows that turned dark are candidates",
        "kernels/firefly_steps.py",
        "    place = bright\n    while True:",
        "    place = max(bright - 1, 0)\n    while True:",
        FIREFLY,
    ),
    (
        "firefly: exact priors dropped",
        "kernels/firefly_steps.py",
        "        if facts.size > 0:\n            value += evaluate_exact",
        "        if facts.size < 0:\n            value += evaluate_exact",
        FIREFLY_PRIORS,
    ),
    (
        "firefly: a walk's correction dropped",
        "kernels/firefly_steps.py",
        "correction += 0.5 * (z[j] - middle) ** 2 - 0.5 * (proposed[j] - middle) ** 2",
        "correction += 0.0",
        FIREFLY_WALKS,
    ),
    (
        "zig-zag: weights ignored",
        "kernels/zigzag_steps.py",
        "change = rows.weight[min(i, rows.weight.size - 1)] * (slopes[0, 1] - slopes[0, 0])",
        "change = slopes[0, 1] - slopes[0, 0]",
        ZIGZAG,
    ),
    (
        "zig-zag: positive part of a row dropped",
        "kernels/zigzag_steps.py",
        "rate += max(0.0, velocity[j] * change * turned[j])",
        "rate += velocity[j] * change * turned[j]",
        ZIGZAG,
    ),
    (
        "zig-zag: positive part of the prior dropped",
        "kernels/zigzag_steps.py",
        "smooth += max(0.0, velocity[j] * slope[j])",
        "smooth += velocity[j] * slope[j]",
        ZIGZAG,
    ),
    (
        "zig-zag: bound does not grow with time",
        "kernels/zigzag_steps.py",
        "now.distance = distance + speed * time",
        "now.distance = distance",
        ZIGZAG,
    ),
    (
        "zig-zag: a supplied row used twice",
        "kernels/zigzag_steps.py",
        "i = now.slot\n",
        "i = now.slot - now.slot % 2\n",
        ZIGZAG_BATCHES,
    ),
    # priors
    (
        "half normal: Jacobian dropped",
        "priors/scales.py",
        "resolved(POWER, 0.5 / float(self.scale) ** 2, 2.0, 1.0, 1)",
        "resolved(POWER, 0.5 / float(self.scale) ** 2, 2.0, 0.0, 1)",
        scale_prior("half-normal"),
    ),
    (
        "half normal: scale 1 % off",
        "priors/scales.py",
        "resolved(POWER, 0.5 / float(self.scale) ** 2",
        "resolved(POWER, 0.5 / (1.01 * float(self.scale)) ** 2",
        scale_prior("half-normal"),
    ),
    (
        "half Student's t: scale 1 % off",
        "priors/scales.py",
        "math.log(self.scale), 1.0, self.df",
        "math.log(1.01 * self.scale), 1.0, self.df",
        scale_prior("half-student"),
    ),
    (
        "half Cauchy: not one degree of freedom",
        "priors/scales.py",
        "HalfStudentT(1.0, self.scale)",
        "HalfStudentT(1.01, self.scale)",
        scale_prior("half-cauchy"),
    ),
    (
        "exponential: rate 1 % off",
        "priors/scales.py",
        "resolved(POWER, float(self.rate)",
        "resolved(POWER, 1.01 * float(self.rate)",
        scale_prior("exponential"),
    ),
    (
        "exponential: Jacobian dropped",
        "priors/scales.py",
        "resolved(POWER, float(self.rate), 1.0, 1.0, 1)",
        "resolved(POWER, float(self.rate), 1.0, 0.0, 1)",
        scale_prior("exponential"),
    ),
    (
        "log normal: sd 1 % off",
        "priors/scales.py",
        "float(self.mean), float(self.sd)",
        "float(self.mean), 1.01 * float(self.sd)",
        scale_prior("log-normal"),
    ),
    (
        "inverse gamma: of the scale, not of its square",
        "priors/scales.py",
        'k = 2.0 if self.of == "square" else 1.0',
        "k = 1.0",
        scale_prior("inverse-gamma-square"),
    ),
    (
        "inverse gamma: Jacobian counted twice",
        "priors/scales.py",
        "-k * float(self.shape), 1)",
        "-k * float(self.shape) + 1.0, 1)",
        scale_prior("inverse-gamma"),
    ),
    # sources
    (
        "reservoir: last row of a block never drawn",
        "sources/supply.py",
        'side="right"), last)',
        'side="right"), max(last - 1, 0))',
        SLOTS,
    ),
    (
        "reservoir: an offer replaces 1 % too often",
        "sources/supply.py",
        "other.key < self.key",
        "other.key < 1.01 * self.key",
        SLOTS_MERGED,
    ),
    (
        "reservoir: totals of blocks ignored",
        "sources/supply.py",
        "key = key / total if",
        "key = key if",
        SLOTS_MERGED,
    ),
    (
        "reservoir: partial results with totals 1 % off",
        "sources/supply.py",
        "key = key / total if",
        "key = key / (total if block.first == 0 else 1.01 * total) if",
        "test_sources.py::test_keys_have_the_rates_of_their_blocks",
    ),
    (
        "reservoir: the same slots after a refill",
        "sources/supply.py",
        "[*stream, refill, block.first]",
        "[*stream, 0, block.first]",
        REFILLS,
    ),
    # passes
    (
        "passes: weights ignored",
        "models/passes.py",
        "if weight.size == 1 and weight[0] == 1.0:",
        "if weight.size > 0:",
        acceptance("logistic-normal", "SMH2-local"),
    ),
    (
        "passes: offset ignored",
        "models/predictors.py",
        "np.asarray((np.dot(block.X, theta) + block.offset)[None])",
        "np.asarray(np.dot(block.X, theta)[None])",
        acceptance("logistic-normal", "SMH2-local"),
    ),
    (
        "third derivatives: weights ignored",
        "models/passes.py",
        "    thirds = weighted(rows.jets(block.responses, predictors.at(block, centre), 3, first=3), block.weight)\n",
        "    thirds = rows.jets(block.responses, predictors.at(block, centre), 3, first=3)\n",
        acceptance("logistic-normal", "SMH3-local"),
    ),
    (
        "local bound: weights ignored",
        "models/passes.py",
        "_psi_and_shares(suprema, lengths, block.weight, m,",
        "_psi_and_shares(suprema, lengths, np.ones(1), m,",
        constants("logistic-normal", "SMH1-local"),
    ),
    (
        "all rows: one missing from a change",
        "models/passes.py",
        "return float(np.sum(after - before)), float(np.sum(after))",
        "return float(np.sum((after - before)[:, 1:])), float(np.sum(after))",
        BLOCKS,
    ),
    (
        "all rows: one missing from a potential",
        "models/passes.py",
        "predictors.at(block, theta), 0), block.weight)))",
        "predictors.at(block, theta), 0), block.weight)[:, 1:]))",
        replay("'logistic-normal', 'MH', 'crank-nicolson', inf, None"),
    ),
    (
        "shares not rounded up in single precision",
        "models/passes.py",
        "ROUNDED_UP = 1.000001",
        "ROUNDED_UP = 1.0",
        "test_bounds.py::test_shares_are_not_rounded_down[student-flat]",
    ),
    (
        "shares of rises 1 % low",
        "models/passes.py",
        "min(1.0, rise / size * ROUNDED_UP)",
        "min(1.0, rise / size * 0.99)",
        STEPS,
    ),
    (
        "shares of falls 1 % low",
        "models/passes.py",
        "min(1.0, fall / size * ROUNDED_UP)",
        "min(1.0, fall / size * 0.99)",
        STEPS,
    ),
    (
        "several predictors: offset ignored in passes",
        "models/predictors.py",
        "            if line.offset_sign:\n                eta[j] +=",
        "            if line.offset_sign == 7:\n                eta[j] +=",
        acceptance("scale-student", "SMH1-local"),
    ),
    (
        "several predictors: offset ignored in chains",
        "models/predictors.py",
        "at_centre += layout[p, OFFSET_SIGN] * offset",
        "at_centre += 0.0 * offset",
        SINGLE,
    ),
    (
        "core row thinned as well: it counts twice",
        "models/passes.py",
        "psi[np.any(block.X[:, ball.core] != 0.0, axis=1)] = 0.0",
        "psi[:0] = 0.0",
        CORE,
    ),
    # set-up
    (
        "core row dropped",
        "setup/core.py",
        "    offset, weight = (np.broadcast_to(part, block.count)[chosen]",
        "    chosen = chosen[1:]\n    offset, weight = (np.broadcast_to(part, block.count)[chosen]",
        CORE,
    ),
    (
        "core row's weight counted twice",
        "setup/core.py",
        "at_centre, found.weight, response, taylor",
        "at_centre, found.weight * np.where(np.arange(len(x)) == 0, 2.0, 1.0), response, taylor",
        CORE,
    ),
    (
        "exact priors: normal ones' contribution lost at order 1",
        "setup/expansion.py",
        "return Expansion(1, prior, polynomial(gradient, quadratic=metric.prior_hessian), exact)",
        "return Expansion(1, prior, polynomial(gradient), exact)",
        acceptance("logistic-normal", "SMH1-local"),
    ),
    # kernels
    (
        "monitor: 1 % tolerated in the closer look",
        "kernels/monitor.py",
        "intensity <= limit + rounding_floor",
        "intensity <= 1.01 * limit + rounding_floor",
        MONITOR,
    ),
    (
        "monitor: 30 % tolerated in the closer look",
        "kernels/monitor.py",
        "intensity <= limit + rounding_floor",
        "intensity <= 1.3 * limit + rounding_floor",
        MONITOR,
    ),
    (
        "all rows: prior counted twice",
        "kernels/all_rows.py",
        "now.answer = at(target, state.z) - at(target, state.proposed) - change",
        "now.answer = 2.0 * (at(target, state.z) - at(target, state.proposed)) - change",
        BLOCKS,
    ),
    (
        "all rows: exact priors dropped by the driver",
        "kernels/target.py",
        "return float(evaluate(normal, z[None])[0] + exact_at(exact, z[None])[0])",
        "return float(evaluate(normal, z[None])[0])",
        PRIORS,
    ),
    (
        "endless scales: one per cent less of the prior",
        "models/endless_scales.py",
        "return fitted - df * (weight - fitted) - 1.0",
        "return fitted - df * (weight - fitted) - 0.99",
        "test_endless_scales.py::test_the_density_rises_as_it_is_said_to",
    ),
    (
        "endless scales: one per cent more of the weights",
        "models/endless_scales.py",
        "rise - fall >= -1e-9 *",
        "rise - fall >= -1e-2 *",
        "test_endless_scales.py::test_weights_count",
    ),
    (
        "zig-zag: l2 norm for l1",
        "kernels/zigzag.py",
        "np.sum(np.abs(turned), axis=1)",
        "np.sqrt(np.sum(turned**2, axis=1))",
        ZIGZAG_BOUNDS,
    ),
    (
        "zig-zag: half a bound",
        "kernels/zigzag.py",
        "block.weight * np.max(steepest, axis=0)",
        "0.5 * block.weight * np.max(steepest, axis=0)",
        ZIGZAG_BOUNDS,
    ),
    (
        "zig-zag: prior counted twice",
        "kernels/zigzag.py",
        "back.T @ metric.prior_hessian @ back",
        "2.0 * back.T @ metric.prior_hessian @ back",
        ZIGZAG,
    ),
    (
        "firefly: weights ignored in the sum of parabolas",
        "kernels/firefly.py",
        "weighted(curvature[None].copy(), block.weight)",
        "curvature[None].copy()",
        FIREFLY,
    ),
]


# -- what a mutant touches --

Names = set[tuple[str, str]]
"""Modules below the package, with names defined there; "*" for all of them, "" for what happens on import."""


def users_of(package: Path, mutant: Mutant) -> Names:
    """Return every definition that a mutant can change, because it uses it or uses what does.

    Compiled code of all others can be used again. Should something be missing here the old code runs, and the mutant
    escapes: nothing is called caught by mistake.
    """
    used_by: dict[tuple[str, str], Names] = {}
    found: Names = set()
    for path in package.rglob("*.py"):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        known = dict[str, tuple[str, str]]()
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)):
            source = (node.module or "").removeprefix("tallbayes").removeprefix(".")
            for alias in node.names:
                whole = (package / source.replace(".", "/") / f"{alias.name}.py").exists()
                known[alias.asname or alias.name] = (
                    (f"{source}.{alias.name}", "*") if whole else (source, alias.name)
                )
        owned = [(statement, _defined(statement)) for statement in tree.body]
        known |= {name: (module, name) for _, names in owned for name in names}
        line = path.read_text().partition(mutant.text)[0].count("\n") + 1
        for statement, names in owned:
            own = {(module, name) for name in names}
            if path == package / mutant.file and statement.lineno <= line <= (statement.end_lineno or 0):
                found |= own
            for part in ast.walk(statement):
                if isinstance(part, ast.Name) and part.id in known:
                    used_by.setdefault(known[part.id], set()).update(own)
            for name in names:
                used_by.setdefault((module, name), set()).add((module, "*"))
    left = list(found)
    while left:
        new = used_by.get(left.pop(), set()) - found
        found |= new
        left.extend(new)
    return found


def _defined(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(statement, ast.Expr):
        return [""]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    return [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


# -- running them --


class Copy:
    """A copy of source and tests, and of what was compiled of it.

    Parameters
    ----------
    root : Path
        An empty directory.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.package = root.resolve(), root.resolve() / "src" / "tallbayes"
        for name in ("src", "tests"):
            shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(REPOSITORY / "pyproject.toml", root)
        sys.path.insert(0, str(root / "src"))
        os.environ |= {
            "PYTHONPATH": str(root / "src"),
            "TALLBAYES_CACHE_DIR": str(root / "cache"),
            "TALLBAYES_COMPILE_ALONE": "1",
        }

    def run(self, tests: tuple[str, ...]) -> Verdict:
        """Run tests until one fails, and say why it did."""
        report = self.root / "report.xml"
        report.unlink(missing_ok=True)
        options = "-x", "-p", "no:xdist", "-p", "no:cacheprovider", f"--junitxml={report}"
        command = [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
        try:
            done = subprocess.run(
                command, check=False, cwd=self.root, capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            return Verdict(False, f"ERROR: no end after {LONGEST:.0f} s")
        for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
            for ending in (*case.findall("failure"), *case.findall("error")):
                message = ending.get("message", "").removeprefix("failed on setup with ").strip('"')
                test = f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}"
                if message.startswith(SIGNS):
                    return Verdict(True, f"caught by {test}")
                return Verdict(False, f"ERROR in {test}: {message.splitlines()[0] if message else ''}")
        if done.returncode == 0:
            return Verdict(False, "ESCAPED")
        return Verdict(
            False, f"ERROR: pytest ended with {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"
        )

    def broken(self, mutant: Mutant) -> Verdict:
        """Run a mutant's tests on its source."""
        path = self.package / mutant.file
        source = path.read_text()
        before, stale = self.compiled(), users_of(self.package, mutant)
        path.write_text(source.replace(mutant.text, mutant.wrong))
        now = self.compiled()
        try:
            if now != before:  # or nothing is compiled of that room
                self.keep_compiled(before, now, stale)
            return self.run(mutant.tests)
        finally:
            path.write_text(source)
            if now != before:
                shutil.rmtree(now)

    def compiled(self) -> Path:
        """Return where compiled code of the source as it is now is kept."""
        from tallbayes import code_cache

        assert Path(code_cache.__file__).parent == self.package
        return code_cache.cache_directory()

    @staticmethod
    def keep_compiled(before: Path, now: Path, stale: Names) -> None:
        """Let a mutant use compiled code that does not contain it; none of a room where it is used on import."""
        rooms = {module.split(".")[0] for module, name in stale if not name}
        now.mkdir()
        for path in before.rglob("*.nb?"):
            room, (module, name) = path.parent.name.rsplit("_", 1)[0], path.name.split(".")[:2]
            if room not in rooms and (f"{room}.{module}", name.split("-")[0]) not in stale:
                (now / path.parent.name).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, now / path.parent.name)


def chosen_by(names: list[str]) -> list[Mutant]:
    """Return the mutants in whose names one of these is; refuse a list with an entry whose source is gone."""
    every = list(mutants())
    found = [mutant for mutant in every if not names or any(name in mutant.name for name in names)]
    if len({mutant.name for mutant in every}) < len(every) or not found:
        raise SystemExit("no mutant has such a name" if not found else "two mutants have the same name")
    for mutant in every:
        times = (REPOSITORY / "src" / "tallbayes" / mutant.file).read_text().count(mutant.text)
        if times != 1:
            raise SystemExit(f"{mutant.name}: {mutant.text!r} is {times} times in {mutant.file}; expected once.")
    return found


def main(arguments: list[str]) -> int:
    """Run mutants; return 1 unless all of them were caught."""
    chosen = chosen_by([argument for argument in arguments if argument != "--list"])
    if "--list" in arguments:
        print(*(f"{mutant.name}  ({mutant.file})" for mutant in chosen), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="tallbayes-mutants-") as root:
        copy = Copy(Path(root))
        started = time.monotonic()
        tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
        print(f"{len(chosen)} mutants; first their {len(tests)} tests on the source as it is ...", flush=True)
        whole = copy.run(tests)
        if whole.words != "ESCAPED":
            print(f"These tests fail without any mutant: {whole.words}")
            return 1
        print(f"pass ({time.monotonic() - started:.0f} s)", flush=True)
        missed = 0
        for mutant in chosen:
            begun = time.monotonic()
            verdict = copy.broken(mutant)
            missed += not verdict.caught
            print(f"{mutant.name}: {verdict.words} ({time.monotonic() - begun:.0f} s)", flush=True)
        print(f"{len(chosen) - missed} of {len(chosen)} caught ({time.monotonic() - started:.0f} s)")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
