"""What speaks against the draws of a run: found after every run, and said in words.

A check takes a `Look` and returns findings. To add one, write it and put it into `CHECKS`: warning, summary and verdict
then speak of it.
"""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import SlowMixingWarning
from tallbayes.quantiles import chi_square_quantile
from tallbayes.results.dispersion import overdispersion
from tallbayes.results.draws import named_draws
from tallbayes.results.mixing import Mixing, mixing_of
from tallbayes.results.stays import longest_stays, longest_usual_stay
from tallbayes.results.tail_visits import BEYOND, Visits

if TYPE_CHECKING:
    from xarray import DataTree

FEWEST = 100
"""Draws of a chain below which nothing is said: whoever asks for so few knows it."""
LARGEST_R_HAT = 1.01
"""What R-hat may be, however many draws there are (Vehtari et al., 2021)."""
FALSE_ALARMS, DOUBT, LEAST = 1e-3, 0.6, 5.0
"""Of few effective draws R-hat may be larger: so large that chance exceeds it in one of a thousand runs whose chains
agree, if draws are worth only this share of what they seem to be (estimates of that scatter), though no fewer than 5
of half a chain. From 4 x 1,000 nearly independent draws on that is less than 1.01, up to some hundreds of
coefficients."""
PER_CHAIN, IN_ALL, SHARE = 100, 400, 0.2
"""Effective draws that are wanted: for each chain, in all; and what suffices in a short run, a share of its draws."""
SLOW, MORE_OF_SLOW = 0.1, 4.0
"""Effective draws per draw below which so many times as many are wanted: a chain that stays where it is for long may
not have been everywhere yet, and then its effective draws are overestimated."""
SKEWED, TIED, OF_SKEWED = 0.3, 0.5, 20.0
"""Skewness of a coefficient's draws from which on its longer tail may be missed, where rows are thinned and no table
covers the tail; a table covers no tail that it shares with another table, by a correlation of the two; and how many
times as many effective draws are wanted then. A rate that k events speak of has a skewness of 1 / sqrt(k)."""
ESTIMATED = 50
"""Effective draws from which on it can be said how many more are needed."""
IN_FULL = 4_000_000
"""Draws of a coefficient that are used, if those seen at first speak against it."""
UNVISITED, SEEN = 1.0 / 3.0, 10.0
"""A tail counts as missed if chains were there less than this share of what a table of the coordinate says; judged
if so many effective draws should have been there."""
AGREES = 0.1
"""How far the draws' shares below a table's quartiles may be off for it to be of the coordinate's posterior: the other
coordinates, which the table has at the centre, then matter little. Tails that chains missed move these shares less."""
MORE, MANY = "draw more", "draw about"
EXPLAIN, OPEN = "look at tb.explain(model)", "give a prior that holds what the data leave open"


@dataclass(frozen=True)
class Finding:
    """Something that speaks against the draws."""

    words: str
    """What it is, with the worst coefficient and its numbers: whole sentences."""
    advice: tuple[str, ...]
    """What may be done about it."""
    coefficients: tuple[str, ...]
    """Those it concerns, the worst first."""
    label: str
    """The same in a word or two, for tables."""


@dataclass(frozen=True)
class Look:
    """What checks look at."""

    names: list[str]
    draws: NDArray[np.float64]
    """Chains x draws x coefficients."""
    accepted: NDArray[np.bool_] | None
    """Chains x draws; None if the tree does not say."""
    mixing: Mixing
    tails: dict[str, Visits]
    """Of coefficients with a table, which share of the draws is in its tails, and how the bulk agrees with it."""
    thinned: bool = False
    """Whether steps were accepted by some rows only, around an expansion that says little of tails."""
    jointly: bool = False
    """Whether proposals follow several tabulated coefficients into a tail that they share."""

    @property
    def chains(self) -> int:
        """How many chains there are."""
        return int(self.draws.shape[0])

    @property
    def length(self) -> int:
        """Draws of each chain."""
        return int(self.draws.shape[1])


def findings(tree: "DataTree") -> list[Finding]:
    """Return all that speaks against the draws of a run; nothing for fewer than 100 draws of each chain.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`, or any tree with ``posterior["beta"]``.

    Returns
    -------
    list of Finding
        Empty if nothing was found.
    """
    return _judge(_look(tree))


def judged(tree: "DataTree") -> tuple[str, list[str]]:
    """Say whether the draws of a run can be trusted, with the worst coefficients and their numbers.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`, or any tree with ``posterior["beta"]``.

    Returns
    -------
    str
        Some sentences; at the end, what speaks against the family, if something does.
    list of str
        For each coefficient "yes", or in a word or two why not.
    """
    look = _look(tree)
    found, of_family = _judge(look), overdispersion(tree)
    if not found:
        labels = ["yes" if look.length >= FEWEST else "too few draws"] * len(look.names)
        return f"{_no_complaint(look)}{of_family}", labels
    concerned = [(finding.label, set(finding.coefficients)) for finding in found]
    every = [[label for label, names in concerned if name in names] for name in look.names]
    return f"{_complaint(found)}{of_family}", [f"no: {', '.join(each)}" if each else "yes" for each in every]


def warn_of_findings(tree: "DataTree") -> None:
    """Warn of all that speaks against the draws of a run.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    """
    try:
        found = findings(tree)
        message = _complaint(found) if found else ""
    except KeyboardInterrupt:  # every draw is made: a late Ctrl-C must not lose them
        message = "Interrupted before the draws were checked: tb.verdict(tree) says whether they can be trusted."
    if message:
        warnings.warn(message, SlowMixingWarning, stacklevel=3)


def _complaint(found: list[Finding]) -> str:
    every = dict.fromkeys(advice for finding in found for advice in finding.advice)
    if many := [advice for advice in every if advice.startswith(MANY)]:
        every.pop(MORE, None)
        for fewer in sorted(many, key=lambda advice: int(advice.split()[2]))[:-1]:
            every.pop(fewer)
    *first, last = every
    what_to_do = ", ".join([*first, f"or {last}" if first else last])
    sentences = [finding.words for finding in found]
    return " ".join(["The draws cannot be trusted yet.", *sentences, f"{what_to_do[0].upper()}{what_to_do[1:]}."])


def _no_complaint(look: Look) -> str:
    if look.length < FEWEST:
        return (
            f"Too few draws to say whether they can be trusted: {look.length} of each chain, "
            f"and fewer than {FEWEST} say little."
        )
    mixing, name = look.mixing, look.names
    bulk, tail, r_hat = np.argmin(mixing.ess_bulk), np.argmin(mixing.ess_tail), np.argmax(mixing.r_hat)
    at_least = "at least " if mixing.every > 1 else ""
    stays = "" if look.accepted is None else f"; no chain stood still for more than {_steps(look.accepted)}"
    weak = " This is a weak check: it compares the halves of one chain." if look.chains == 1 else ""
    return (
        f"Nothing speaks against the draws: R-hat is at most {mixing.r_hat[r_hat]:.3f} ({name[r_hat]!r}), "
        f"effective draws are {at_least}{mixing.ess_bulk[bulk]:,.0f} in the bulk ({name[bulk]!r}) and "
        f"{at_least}{mixing.ess_tail[tail]:,.0f} in the tails ({name[tail]!r}){stays}.{weak}"
    )


def _steps(accepted: NDArray[np.bool_]) -> str:
    steps = int(longest_stays(accepted).steps.max())
    return f"{steps:,} step{'' if steps == 1 else 's'}"


# -- looking --


def _look(tree: "DataTree") -> Look:
    names, draws = named_draws(tree)
    try:
        accepted = np.asarray(tree["sample_stats"]["accepted"].transpose("chain", "draw"), dtype=np.bool_)
    except (KeyError, ValueError):
        accepted = None
    mixing = mixing_of(draws)
    if mixing.every > 1:
        mixing = _in_full(draws, mixing)
    plan = json.loads(tree.attrs.get("plan", "{}"))
    thinned = bool(plan.get("order")) and plan.get("truncation") != 0.0
    jointly = plan.get("order") == 2 and str(plan.get("proposal")).startswith("SurrogateSteps")
    tails = {name: Visits(*of_it) for name, of_it in json.loads(tree.attrs.get("tails", "{}")).items()}
    return Look(names, draws, accepted, mixing, tails, thinned, jointly)


def _in_full(draws: NDArray[np.float64], mixing: Mixing) -> Mixing:
    """Put in the numbers from all draws, for the worst of the coefficients that would be spoken against."""
    chains = draws.shape[0]
    bad = _few(mixing, chains, mixing.draws * chains) | _differ(mixing, chains)
    worst = {int(np.argmin(mixing.ess_bulk)), int(np.argmin(mixing.ess_tail)), int(np.argmax(mixing.r_hat))}
    for j in worst:
        if bad[j]:
            exact = mixing_of(draws[:, :, j : j + 1], most=IN_FULL)
            for into, value in zip(mixing[:4], exact[:4], strict=True):
                into[j] = value[0]
    return mixing


def _few(mixing: Mixing, chains: int, all_draws: int) -> NDArray[np.bool_]:
    fewest = np.minimum(mixing.ess_bulk, mixing.ess_tail)
    wanted = effective_draws_wanted(chains, all_draws)
    return fewest < np.where(fewest < SLOW * all_draws, MORE_OF_SLOW * wanted, wanted)


def _differ(mixing: Mixing, chains: int) -> NDArray[np.bool_]:
    return mixing.r_hat > largest_r_hat(chains, mixing.within)


def effective_draws_wanted(chains: int, all_draws: int) -> float:
    """Return how many effective draws are wanted: 400, and 100 of each chain; of a short run a fifth of its draws.

    None of a run with fewer than 400 draws in all: there, estimates scatter by as much as themselves.
    """
    return 0.0 if all_draws < IN_ALL else min(max(IN_ALL, PER_CHAIN * chains), SHARE * all_draws)


def largest_r_hat(chains: int, within: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what R-hat of each coefficient may be: 1.01, or what chance makes of few effective draws.

    Means of the 2 x chains halves scatter like those of independent draws. So R-hat^2 - 1 is about (F - 1) / n, where n
    is the number of independent draws that a half is worth, and F is chi-square over its degrees of freedom.
    """
    free = 2 * chains - 1
    # Bulk and spread are two chances for each coefficient.
    excess = chi_square_quantile(free, FALSE_ALARMS / (2 * within.size)) / free - 1.0
    return np.maximum(LARGEST_R_HAT, np.sqrt(1.0 + excess / np.maximum(DOUBT * within, LEAST)))


# -- checks --


def _chains_differ(look: Look) -> list[Finding]:
    limit = largest_r_hat(look.chains, look.mixing.within)
    concerned = _worst_first(_differ(look.mixing, look.chains), -look.mixing.r_hat)
    if not concerned:
        return []
    worst = concerned[0]
    r_hat = look.mixing.r_hat[worst]
    several = look.chains > 1
    who = "Chains disagree" if several else "The two halves of the chain disagree"
    weak = "" if several else " Of one chain R-hat is a weak check: it sees only what changes within it."
    words = (
        f"{who}: R-hat is {'more than 100' if r_hat > 100.0 else f'{r_hat:.3f}'} for {look.names[worst]!r}"
        f"{_others(concerned, 'too large')}, where chance explains {limit[worst]:.3f}.{weak}"
    )
    advice = (MORE, EXPLAIN, OPEN) if several else (MORE, "draw from several chains", EXPLAIN, OPEN)
    return [Finding(words, advice, _named(look, concerned), "chains differ" if several else "halves differ")]


def _few_effective_draws(look: Look) -> list[Finding]:
    mixing, all_draws = look.mixing, look.chains * look.length
    wanted = effective_draws_wanted(look.chains, all_draws)
    fewest = np.minimum(mixing.ess_bulk, mixing.ess_tail)
    concerned = _worst_first(_few(mixing, look.chains, all_draws), fewest)
    if not concerned:
        return []
    worst = concerned[0]
    slow, enough = fewest[worst] >= wanted, float(max(IN_ALL, PER_CHAIN * look.chains))
    if slow:
        wanted = enough = MORE_OF_SLOW * wanted
    words = (
        f"Too few effective draws: of {all_draws:,}, {look.names[worst]!r} has {mixing.ess_bulk[worst]:,.0f} in the "
        f"bulk and {mixing.ess_tail[worst]:,.0f} in the tails{_others(concerned, 'too few')}, where {wanted:,.0f} are "
        f"wanted{' of chains that mix so slowly' if slow else ''}."
    )
    advice: tuple[str, ...] = (MORE, EXPLAIN, OPEN)
    if fewest[worst] >= ESTIMATED:
        times = enough / fewest[worst]
        advice = (f"{MANY} {math.ceil(times + 0.5)} times as many",)
    return [Finding(words, advice, _named(look, concerned), "few effective draws")]


def _nothing_moved(look: Look) -> list[Finding]:
    """Find coefficients whose draws are all the same, of which R-hat and ESS say nothing."""
    concerned = [int(j) for j in np.flatnonzero(np.isnan(look.mixing.r_hat))]
    if not concerned:
        return []
    all_draws = look.chains * look.length
    words = f"All {all_draws:,} draws of {look.names[concerned[0]]!r} are the same{_others(concerned, 'the same')}."
    return [Finding(words, (EXPLAIN, "take another kernel"), _named(look, concerned), "never moved")]


def _long_stays(look: Look) -> list[Finding]:
    if look.accepted is None:
        return []
    if not look.accepted.any():
        words = "Not one step was accepted: every chain stayed where it was."
        return [Finding(words, (EXPLAIN, "take another kernel"), tuple(look.names), "a chain stood still")]
    stays, limit = longest_stays(look.accepted), longest_usual_stay(look.accepted)
    long = _worst_first(stays.steps > limit, -stays.steps)
    if not long:
        return []
    chain = long[0]
    first = int(stays.first[chain])
    seen = look.draws[:, :: look.mixing.every]
    spread = seen.std(axis=(0, 1))
    away = np.abs(look.draws[chain, first] - seen.mean(axis=(0, 1))) / np.where(spread > 0.0, spread, np.inf)
    far = _worst_first(np.ones(away.size, dtype=np.bool_), -away)
    others = "".join(f"; chain {c} for {stays.steps[c]:,}" for c in long[1:])
    name = look.names[far[0]]
    words = (
        f"Chain {chain} stood still for {stays.steps[chain]:,} steps in a row (draws {first:,} to "
        f"{first + stays.steps[chain] - 1:,}), with {name!r} {away[far[0]]:.1f} standard deviations from its "
        f"mean{others}. Up to {limit:,.0f} steps would be usual."
    )
    advice = (MORE, f"give {name!r} a prior that holds its tail")
    return [Finding(words, advice, _named(look, far), "a chain stood still")]


def _missed_tails(look: Look) -> list[Finding]:
    """Find tails that chains hardly visited, though a table of the coordinate says that they are there."""
    found = []
    for name, (*shares, apart) in look.tails.items():
        if apart > AGREES:
            continue
        effective = float(look.mixing.ess_bulk[look.names.index(name)])
        low = int(np.argmin(shares))
        if effective * BEYOND >= SEEN and shares[low] < UNVISITED * BEYOND:
            words = (
                f"The {('lower', 'upper')[low]} tail of {name!r} has about {BEYOND:.1%} of the posterior by a table of "
                f"its density, and {shares[low]:.2%} of the draws are there."
            )
            found.append(Finding(words, (MORE, OPEN), (name,), "a tail was missed"))
    return found


def _skewed(look: Look) -> list[Finding]:
    """Find skewed coefficients whose longer tail no table covers: chains are there seldom, and then for long."""
    if not look.thinned:
        return []
    seen = look.draws[:, :: look.mixing.every].reshape(-1, look.draws.shape[2])
    apart = seen - seen.mean(axis=0)
    square = np.mean(apart * apart, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = np.mean(apart * apart * apart, axis=0) / square**1.5
    fewest = np.minimum(look.mixing.ess_bulk, look.mixing.ess_tail)
    wanted = OF_SKEWED * effective_draws_wanted(look.chains, look.chains * look.length)
    doubtful = (np.abs(skewness) > SKEWED) & (fewest < wanted)
    if not np.any(doubtful):
        return []
    tabulated = np.flatnonzero([name in look.tails for name in look.names])
    with np.errstate(divide="ignore", invalid="ignore"):
        tied = np.abs(apart[:, tabulated].T @ apart[:, tabulated]) / len(apart)
        tied /= np.sqrt(np.outer(square[tabulated], square[tabulated]))
    np.fill_diagonal(tied, 0.0)
    doubtful[tabulated[look.jointly | ~np.any(tied > TIED, axis=1)]] = False
    concerned = _worst_first(doubtful, -np.abs(skewness))
    if not concerned:
        return []
    worst = concerned[0]
    words = (
        f"The posterior of {look.names[worst]!r} is skewed (skewness {skewness[worst]:.2f}"
        f"{_others(concerned, 'skewed')}): few events or rows speak of it. Chains visit the longer tail of such a "
        f"coefficient seldom, and then stay, so that its {fewest[worst]:,.0f} effective draws may be far fewer; "
        f"{wanted:,.0f} are wanted."
    )
    advice = (f"{MANY} {math.ceil(wanted / fewest[worst] + 0.5)} times as many", OPEN)
    return [Finding(words, advice, _named(look, concerned), "skewed")]


CHECKS: list[Callable[[Look], list[Finding]]] = [
    _nothing_moved,
    _chains_differ,
    _few_effective_draws,
    _long_stays,
    _missed_tails,
    _skewed,
]
"""Every check, in the order in which findings are told."""


def _judge(look: Look) -> list[Finding]:
    if look.length < FEWEST:
        return []
    return [finding for check in CHECKS for finding in check(look)]


def _worst_first(concerned: NDArray[np.bool_], order: NDArray[Any]) -> list[int]:
    return [int(j) for j in np.argsort(order, kind="stable") if concerned[j]]


def _named(look: Look, columns: list[int]) -> tuple[str, ...]:
    return tuple(look.names[j] for j in columns)


def _others(concerned: list[int], what: str) -> str:
    more = len(concerned) - 1
    return "" if more == 0 else f" (and {what} for {more} more)"
