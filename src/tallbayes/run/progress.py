"""What a run shows of itself: a live table in a terminal, a line now and then elsewhere, or nothing."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tallbayes.checks import counted
from tallbayes.models.base import Model
from tallbayes.run.chain import Status
from tallbayes.sources.base import RANDOM_ACCESS, Source

if TYPE_CHECKING:
    from rich.console import Console

READ_EVERY = 0.2
"""Seconds between looks at a pass over rows that are read anew."""
LINE_EVERY = 5.0
"""Seconds between lines where there is no terminal; shorter runs print nothing unless asked to."""


class Progress:
    """Shows nothing; the base of those that do."""

    def __enter__(self) -> "Progress":
        """Start showing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the last state on the screen."""

    def setting_up(self, model: Model) -> None:
        """Say that the passes before the first step are under way."""

    def reading(self, text: str) -> None:
        """Show how far a pass over rows that are read anew has come."""

    def update(self, chains: list[Status]) -> None:
        """Show the state of every chain."""


class PassMeter:
    """Listens to the passes over a source, and says of each how far it is, how fast, and how long it will take.

    Parameters
    ----------
    source : Source
        The rows.
    display : Progress
        Where to say it.
    """

    def __init__(self, source: Source, display: Progress) -> None:
        self._source, self._display = source, display
        self._number, self._since, self._before, self._said = -1, 0.0, 0, 0.0

    def __call__(self, done: int) -> None:
        """Take note of the rows that are done."""
        now = time.perf_counter()
        if self._source.passes != self._number:
            self._number, self._since, self._before = self._source.passes, now, done
        if now - self._said < READ_EVERY or done == self._before:
            return
        self._said = now
        speed = (done - self._before) / max(now - self._since, 1e-9)
        n = self._source.n
        self._display.reading(
            f"pass {self._number} over {counted(n, 'row')}: {100 * done // n} %, {speed:,.3g} rows/s, "
            f"{_duration((n - done) / speed)} left"
        )


@contextmanager
def listening(source: Source, display: Progress) -> Iterator[None]:
    """Show the passes over a source within a block, where rows are read anew in each."""
    if RANDOM_ACCESS not in source.offers:
        source.listener = PassMeter(source, display)
    try:
        yield
    finally:
        source.listener = None


class Pace:
    """Predicts the time left, from steps made since the first look at the chains.

    Set-up, and the compilation that the first chunk of a first run waits for, are over by then.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._before: list[int] = []

    def left(self, chains: list[Status]) -> list[float | None]:
        """Return the seconds each chain still needs, None while that is not known."""
        now = time.perf_counter()
        if self._since is None:
            self._since, self._before = now, [chain.steps for chain in chains]
        return [
            _seconds_left(chain, before, now - self._since)
            for chain, before in zip(chains, self._before, strict=True)
        ]


class LineProgress(Progress):
    """Prints a line to standard error every few seconds.

    Parameters
    ----------
    eager : bool
        Whether to print the set-up and the end as well, however short the run.
    """

    def __init__(self, eager: bool = False) -> None:
        self._eager = eager
        self._pace = Pace()
        self._last = time.perf_counter()
        self._unsaid: str | None = None

    def __exit__(self, *error: Any) -> None:
        """Print how the run ended, if anything was to be said of it."""
        if self._eager and self._unsaid is not None:
            self._say(self._unsaid)

    def setting_up(self, model: Model) -> None:
        """Start the clock; short set-ups are not worth a line."""
        self._last = time.perf_counter()
        if self._eager:
            self._say(_setting_up(model))

    def reading(self, text: str) -> None:
        """Print a line, if the last is old enough."""
        now = time.perf_counter()
        if now - self._last >= LINE_EVERY:
            self._last = now
            self._say(text)

    def update(self, chains: list[Status]) -> None:
        """Print one line for all chains, if the last is old enough."""
        now = time.perf_counter()
        self._unsaid = _line(chains, self._pace.left(chains))
        if now - self._last >= LINE_EVERY:
            self._last = now
            self._eager = True  # a run long enough for one line gets its last one too
            self._say(self._unsaid)
            self._unsaid = None

    @staticmethod
    def _say(text: str) -> None:
        print(f"tallbayes: {text}", file=sys.stderr, flush=True)


class LiveProgress(Progress):
    """Keeps a table of the chains up to date in a terminal.

    Parameters
    ----------
    console : rich.console.Console or None
        Where to draw; defaults to standard error.
    """

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=console or Console(stderr=True), refresh_per_second=10)
        self._pace = Pace()

    def __enter__(self) -> "LiveProgress":
        """Start the display."""
        self._live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop the display; its last state stays."""
        self._live.stop()

    def setting_up(self, model: Model) -> None:
        """Show a line until the first chunk is done."""
        self._live.update(_setting_up(model))

    def reading(self, text: str) -> None:
        """Show a line instead of the table, which the next chunk brings back."""
        self._live.update(text)

    def update(self, chains: list[Status]) -> None:
        """Redraw the table."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1))
        columns = ("chain", "", "draws", "acceptance", "rows/step", "full passes", "time left")
        for title in columns:
            table.add_column(title, justify="left" if title in {"chain", ""} else "right", no_wrap=True)
        for index, (chain, left) in enumerate(zip(chains, self._pace.left(chains), strict=True)):
            table.add_row(
                str(index),
                ProgressBar(total=chain.total, completed=chain.steps, width=12),
                _draws(chain),
                f"{chain.acceptance:.3f}",
                f"{chain.rows_per_step:,.3g}",
                f"{chain.full_passes:,}",
                _duration(left),
            )
        self._live.update(table)


def choose_progress(progress: bool | None) -> Progress:
    """Return the display that suits the wish and the place."""
    if progress is False or sys.stderr is None:
        return Progress()
    if sys.stderr.isatty():
        return LiveProgress()
    return LineProgress(eager=progress is True)


def _seconds_left(chain: Status, before: int, seconds: float) -> float | None:
    if chain.steps >= chain.total:
        return 0.0
    if chain.steps == before:
        return None
    return seconds * (chain.total - chain.steps) / (chain.steps - before)


def _setting_up(model: Model) -> str:
    return f"setting up: mode, expansion and bounds of {counted(model.rows_given, 'row')} ..."


def _line(chains: list[Status], left: list[float | None]) -> str:
    steps = max(sum(c.steps for c in chains), 1)
    rows = sum(c.rows_per_step * c.steps for c in chains) / steps
    accepted = sum(c.acceptance * c.steps for c in chains) / steps
    known = [seconds for seconds in left if seconds is not None]
    draws, total = (sum(values) for values in zip(*(_kept(c) for c in chains), strict=True))
    passes = sum(c.full_passes for c in chains)
    return (
        f"{draws:,} of {total:,} draws, acceptance {accepted:.3f}, {rows:,.3g} rows per step, "
        f"{passes:,} full {'pass' if passes == 1 else 'passes'}, "
        f"{_duration(max(known) if len(known) == len(left) else None)} left"
    )


def _kept(chain: Status) -> tuple[int, int]:
    return max(0, chain.steps - chain.warmup) // chain.every, (chain.total - chain.warmup) // chain.every


def _draws(chain: Status) -> str:
    if chain.steps < chain.warmup:
        return f"warm-up ({100 * chain.steps // chain.warmup} %)"
    kept, total = _kept(chain)
    return f"{kept:,} ({100 * kept // total} %)"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
