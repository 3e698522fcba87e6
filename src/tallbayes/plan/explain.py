"""What `sample` would do with a model: numbers, and the words that a person reads."""

import math
import re
import textwrap
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from tallbayes.checks import counted
from tallbayes.kernels.base import Prepared
from tallbayes.models.base import Model
from tallbayes.plan.choose import Chosen
from tallbayes.plan.forecast import Forecast
from tallbayes.plan.memory import peak_bytes
from tallbayes.setup.setup import setup_of
from tallbayes.sources.base import RANDOM_ACCESS

Line = tuple[str, str]

WIDTH = 100
"""Columns of a terminal that text is wrapped to."""
MOST_NAMES = 6
"""Columns of a design that are named."""
HARD_SPACE = "\N{NO-BREAK SPACE}"
PACE = 3.0
"""How much faster or slower than an ordinary core this one can be, when kernels are compared."""
LOOKED_AT = 8e-9
"""Seconds for each number of the result that the last look at how chains have mixed takes."""


@dataclass(frozen=True)
class Explanation:
    """What a run will do, take and give; print it, or let a notebook show it.

    Rows per draw and acceptance are from a rehearsal, a short run of the kernel itself; times and effective draws from
    a trial of a chain on this machine. Compilation, which `tallbayes.explain` waits for, is not counted.
    """

    seconds: float = field(compare=False)
    """Of the whole run: set-up, done or not, warm-up and draws of all chains on the threads available."""
    setup_seconds: float = field(compare=False)
    """Of the set-up, which the model keeps: a run that follows does not take them again."""
    sampling_seconds: float = field(compare=False)
    """Of warm-up and draws."""
    memory_megabytes: float
    """The peak, beside the data: tables, what each chain has of its own, the draws, and what is copied on the way."""
    rows_per_draw: float
    effective_draws: tuple[float, float] | None
    """Expected of all chains together, for the coefficient that mixes worst, as far as the trial's steps can say: low
    and high. More than were drawn if draws are better than independent ones; None if a trial was too short."""
    draws: int
    """To be kept from each chain."""
    chains: int
    threads: int
    model: str
    rows: int
    columns: int
    """Of the design; parameters, where there is none."""
    names: tuple[str, ...]
    """Of the columns."""
    named: str
    """What has these names: a column, or a parameter."""
    family: str
    prior: str
    kernel: str
    proposal: str
    order: int | None
    radius: float | None
    plan: tuple[Line, ...]
    """All that was chosen, by name and in words."""
    passes: int
    """Passes over all rows so far, those that checked the data included, not those of chains: none is left before the
    first draw."""
    trial_passes: int = field(compare=False)
    """Passes that this explanation took beside them, of chains that were tried: where rows come by passes, or steps
    read all rows."""
    drawing_passes: int
    """Passes that steps on all rows will take, of all chains, about; rows drawn in advance may take some more."""
    acceptance: float
    full_passes_per_million: float
    draws_per_second: float = field(compare=False)
    """Of one chain on this machine, beside as many others as there are threads for."""
    alternatives: tuple[str, ...] = field(compare=False)
    """Kernels that were considered and not taken, each with the time expected of it and the reason."""
    verbose: bool = field(default=False, compare=False)
    """Whether alternatives are printed."""

    @property
    def summary(self) -> str:
        """The run in a line: time, memory, rows per draw."""
        return (
            f"This run: {_about(_seconds(self.seconds))}, {_megabytes(self.memory_megabytes)}, "
            f"{counted(_number(self.rows_per_draw), 'row')} per draw"
        )

    def __str__(self) -> str:
        """Return the summary and a table, as plain text."""
        parts = [self.summary]
        for title, lines in self._sections():
            parts.extend(["", title] if title else [""])
            width = max(len(name) for name, _ in lines)
            parts.extend(line for name, text in lines for line in _wrapped(name, text, width))
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        """Return the same for a notebook; colours are the notebook's own."""
        cell = 'style="text-align: left"'  # notebooks put numbers on the right, and text with them
        parts = [f"<div><p><strong>{escape(self.summary)}</strong></p>"]
        for title, lines in self._sections():
            rows = "".join(
                f'<tr><th scope="row" {cell}>{escape(name)}</th><td {cell}>{escape(text)}</td></tr>'
                for name, text in lines
            )
            table = f"<table><tbody>{rows}</tbody></table>"
            parts.append(f"<details><summary>{escape(title)}</summary>{table}</details>" if title else table)
        return "".join([*parts, "</div>"])

    def _sections(self) -> list[tuple[str, list[Line]]]:
        sections = [("", self._about_the_run()), ("Plan", self._about_the_plan())]
        if self.verbose:
            sections.append(("Not taken, and the time for as many effective draws", self._about_the_rest()))
        return sections

    def _about_the_run(self) -> list[Line]:
        chains = f"{counted(self.chains, 'chain')} of {counted(self.draws, 'draw')}"
        names = ", ".join(self.names[:MOST_NAMES]) + (", ..." if len(self.names) > MOST_NAMES else "")
        return [
            ("effective draws", f"{_range(self.effective_draws, self.draws * self.chains)} ({chains})"),
            (
                "time",
                f"set-up {_seconds(self.setup_seconds)}, already done; sampling "
                f"{_seconds(self.sampling_seconds)} on {counted(min(self.threads, self.chains), 'thread')}",
            ),
            ("model", f"{counted(self.rows, 'row')}, {counted(self.columns, self.named)}: {names}"),
            ("family" if self.named == "column" else "each row", self.family),
            ("prior", self.prior),
        ]

    def _about_the_plan(self) -> list[Line]:
        beside = f"; {self.trial_passes} more for this explanation" if self.trial_passes else ""
        to_come = f"; about {self.drawing_passes:,} to come, of steps on all rows" if self.drawing_passes else ""
        return [
            *self.plan,
            ("acceptance", f"{self.acceptance:.3f}"),
            ("steps on all rows", _in_a_million(self.full_passes_per_million)),
            ("passes over the rows", f"{self.passes}, all done{beside}{to_come}"),
        ]

    def _about_the_rest(self) -> list[Line]:
        if not self.alternatives:
            return [("", "nothing: no other kernel was considered")]
        split = [text.partition(": ") for text in self.alternatives]
        return [(name, text) for name, _, text in split]


def describe(
    chosen: Chosen,
    draws: int,
    chains: int,
    threads: int,
    *,
    setup_seconds: float,
    draw_seconds: float,
    effective: tuple[float, float] | None,
    trial_passes: int = 0,
    verbose: bool = False,
) -> Explanation:
    """Return the explanation of a choice.

    Parameters
    ----------
    chosen : Chosen
        The kernel, with the reasons for it.
    draws : int
        Draws to keep from each chain.
    chains : int
        Number of chains.
    threads : int
        Threads available.
    setup_seconds : float
        What the set-up took.
    draw_seconds : float
        What a draw takes here.
    effective : tuple of float or None
        Effective draws per draw, low and high.
    trial_passes : int
        Passes over all rows that finding these took.
    verbose : bool
        Whether alternatives are to be printed.

    Returns
    -------
    Explanation
        What there is to say.
    """
    prepared, expected = chosen.prepared, chosen.per_draw
    model, plan = prepared.model, prepared.plan
    radius = plan.get("radius", np.inf)
    in_turn = math.ceil(chains / threads)  # chains that a thread runs one after the other
    sampling = (
        in_turn * (prepared.warmup / chosen.steps + draws) * draw_seconds + LOOKED_AT * chains * draws * model.d
    )
    kernel = ", ".join([plan["kernel"], *_features(prepared)])
    total = draws * chains
    seconds = setup_seconds + sampling
    # Forecasts are those of an ordinary core; a trial says roughly how this one compares.
    pace = min(max(1e9 * draw_seconds / chosen.nanoseconds(), 1.0 / PACE), PACE)
    worth = 1.0 if effective is None else min(math.sqrt(effective[0] * effective[1]), 1.0)
    return Explanation(
        seconds=seconds,
        setup_seconds=setup_seconds,
        sampling_seconds=sampling,
        memory_megabytes=peak_bytes(prepared, draws, chains, threads) / 1e6,
        rows_per_draw=expected.rows_per_draw,
        effective_draws=None if effective is None else (total * effective[0], total * effective[1]),
        draws=draws,
        chains=chains,
        threads=threads,
        model=repr(model),
        rows=model.rows_given,
        columns=model.d,
        names=tuple(model.names),
        named="column" if model.predictors.linear else "parameter",
        family=repr(model.family),
        prior=model.coefficient_priors.describe(model.names),
        kernel=kernel,
        proposal=plan["proposal"],
        order=plan.get("order"),
        radius=radius if np.isfinite(radius) else None,
        plan=(
            *(line for key, value in plan.items() for line in _in_words(key, value, kernel, model)),
            *(
                [("steps of a draw", f"{chosen.steps}, because single ones are worth little here")]
                * (chosen.steps > 1)
            ),
        ),
        passes=setup_of(model).passes,
        trial_passes=trial_passes,
        drawing_passes=_passes_to_come(chosen, draws, chains),
        acceptance=expected.acceptance,
        full_passes_per_million=expected.full_per_million,
        draws_per_second=1.0 / draw_seconds,
        alternatives=(
            *([chosen.stuck] if chosen.stuck else []),
            *(
                _alternative(chosen.forecasts[0], other, seconds, pace, threads, worth * draws * in_turn)
                for other in chosen.forecasts[1:]
            ),
        ),
        verbose=verbose,
    )


def _features(prepared: Prepared) -> list[str]:
    if "order" not in prepared.plan:
        return []
    if prepared.plan["truncation"] == 0.0:
        return ["accepted on all rows"]
    return [
        "local bounds" if prepared.target.bound.local else "global bounds",
        *(["sketch"] if prepared.plan["sketch"] else []),
    ]


def _passes_to_come(chosen: Chosen, draws: int, chains: int) -> int:
    """Return the passes that steps on all rows will take, where rows are read anew in each."""
    if RANDOM_ACCESS in chosen.prepared.model.source.offers:
        return 0
    steps = chains * (chosen.prepared.warmup + draws * chosen.steps)
    return round(1e-6 * chosen.rehearsal.full_per_million * steps)


SAID_ELSEWHERE = {"bound", "sketch", "mode_passes", "step"}
"""Entries of a plan that others say already."""


def _in_words(key: str, value: Any, kernel: str, model: Model) -> list[Line]:
    """Return an entry of a plan as a line, or none; one that is not known here is shown as it is."""
    if key in SAID_ELSEWHERE:
        return []
    if key == "kernel":
        return [(key, kernel)]
    if key == "order":
        return [("surrogate", f"Taylor expansion of order {value} around the mode" if value else "none")]
    if key == "radius":
        reach = f"{value:.2f} posterior sd around the mode; a step that leaves it reads all rows"
        return [("ball", reach)] if math.isfinite(value) else []
    if key == "truncation":
        usual = value in (0.0, model.n, math.inf)
        return [] if usual else [("truncation", f"a step that would draw {_number(value)} rows reads all of them")]
    if key == "stand_ins":
        return [("stand-ins", f"{value:,} rows, in the surrogate, for what the expansion leaves out of all")]
    if key == "q_db":
        return [("dark rows tried", f"{_number(100.0 * value)} % in a sweep")]
    return [(key.replace("_", " "), _plainly(value))]


def _plainly(value: Any) -> str:
    """Return any value of a plan as text."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.number):
        return _number(float(value))
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(_plainly, value)) or "none"
    return "none" if value is None else str(value)


def _alternative(best: Forecast, other: Forecast, seconds: float, pace: float, threads: int, draws: float) -> str:
    """Return what else was considered, the time it would take for as many effective draws, and why it was not taken.

    `pace` is how much slower than in a forecast things are here, `draws` the effective draws that a thread makes.
    """
    setting_up = (other.setup - best.setup) / threads
    drawing = draws * (other.per_draw - best.per_draw)
    expected = max(seconds + 1e-9 * pace * (setting_up + drawing), 0.0)
    if setting_up + drawing < 0.0:
        reason = "no slower once, but slower as soon as you sample again"
    elif drawing < 0.0:
        reason = "its set-up takes longer than its draws save"
    elif setting_up > drawing:
        reason = "a longer set-up, and draws that cost no less"
    elif other.rows > 2.0 * best.rows:
        reason = "its draws read more rows"
    elif other.acceptance < 0.8 * best.acceptance:
        reason = "fewer of its proposals are accepted"
    else:
        reason = "its steps cost more"
    return (
        f"{other.name}: {_about(_seconds(expected))}; {reason} "
        f"({counted(_number(other.rows), 'row')} per draw, acceptance {other.acceptance:.2f})"
    )


def _wrapped(name: str, text: str, width: int) -> list[str]:
    """Return a line of a table, and more below it if it is too long; what is in parentheses stays together."""
    room = WIDTH - width - 2

    def together(found: re.Match[str]) -> str:
        return found[0].replace(" ", HARD_SPACE) if len(found[0]) <= room else found[0]

    kept = re.sub(r"\S*\([^()]*\)| ~ ", together, text)
    lines = textwrap.wrap(kept, room, break_on_hyphens=False) or [""]
    return [f"{name if i == 0 else '':<{width}}  {line}".replace(HARD_SPACE, " ") for i, line in enumerate(lines)]


def _range(effective: tuple[float, float] | None, draws: int) -> str:
    """Return the effective draws that can be expected, in words."""
    if effective is None:
        return f"not known of {draws:,}: a trial was too short to say"
    if effective[0] >= draws:
        return f"{draws:,} or more of {draws:,}"
    low, high = _two_digits(effective[0]), _two_digits(effective[1]) if effective[1] < draws else f"{draws:,}"
    if effective[0] < 1.0:
        return f"fewer than {high} of {draws:,}"
    return f"about {low} of {draws:,}" if low == high else f"{low} to {high} of {draws:,}"


def _number(value: float) -> str:
    """Return a whole number as it is, and others with two digits that count."""
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e15
    return f"{int(value):,}" if whole else _two_digits(value)


def _two_digits(value: float) -> str:
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = round(value, 1 - math.floor(math.log10(abs(value))))
    return f"{rounded:,.0f}" if abs(rounded) >= 10.0 else f"{rounded:g}"


def _in_a_million(count: float) -> str:
    if count >= 1e6:
        return "every one"
    return "fewer than 1 in a million" if 0.0 < count < 1.0 else f"{_number(count)} in a million"


def _about(text: str) -> str:
    return text if text.startswith("under") else f"about {text}"


def _seconds(seconds: float) -> str:
    """Return a time with as many digits as a forecast deserves."""
    units = ((90.0, 1.0, "s"), (5400.0, 60.0, "min"), (129_600.0, 3600.0, "h"), (math.inf, 86_400.0, "days"))
    size, unit = next((size, unit) for limit, size, unit in units if seconds < limit)
    if seconds < 0.05:
        return "under 0.1 s"
    amount = seconds / size
    return f"{amount:.1g} {unit}" if amount < 9.5 else f"{float(f'{amount:.2g}'):,.0f} {unit}"


def _megabytes(megabytes: float) -> str:
    if megabytes < 0.95:
        return "under 1 MB"
    if megabytes < 9.5:
        return f"{megabytes:.0f} MB"
    if megabytes < 995.0:
        return f"{float(f'{megabytes:.2g}'):.0f} MB"
    return f"{megabytes / 1000.0:,.1f} GB"
