"""What a run shows of itself: a live table in a terminal, a line now and then elsewhere, or nothing."""

import sys
import time
from types import TracebackType
from typing import Any

from tallbayes.models import Regression
from tallbayes.run.chain import Status

LINE_EVERY = 5.0
"""Seconds between lines where there is no terminal; shorter runs print nothing."""


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

    def setting_up(self, model: Regression) -> None:
        """Say that the passes before the first step are under way."""

    def update(self, chains: list[Status]) -> None:
        """Show the state of every chain."""


class LineProgress(Progress):
    """Prints a line to standard error every few seconds."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()

    def setting_up(self, model: Regression) -> None:
        """Start the clock; short set-ups are not worth a line."""
        self._started = self._last = time.perf_counter()

    def update(self, chains: list[Status]) -> None:
        """Print one line for all chains, if the last is old enough."""
        now = time.perf_counter()
        if now - self._last < LINE_EVERY:
            return
        self._last = now
        done, total = sum(c.steps for c in chains), sum(c.total for c in chains)
        rows = sum(c.rows_per_step * c.steps for c in chains) / max(done, 1)
        accepted = sum(c.acceptance * c.steps for c in chains) / max(done, 1)
        left = (now - self._started) * (total - done) / max(done, 1)
        print(
            f"tallbayes: {done:,} of {total:,} steps ({100 * done // total} %), acceptance {accepted:.3f}, "
            f"{rows:.3g} rows per step, {sum(c.full_passes for c in chains):,} full passes, "
            f"{_duration(left)} left",
            file=sys.stderr,
            flush=True,
        )


class LiveProgress(Progress):
    """Keeps a table of the chains up to date in a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), refresh_per_second=10)
        self._started = time.perf_counter()

    def __enter__(self) -> "LiveProgress":
        """Start the display."""
        self._live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop the display; its last state stays."""
        self._live.stop()

    def setting_up(self, model: Regression) -> None:
        """Show a line until the first chunk is done."""
        self._live.update(f"Setting up: mode, expansion and bounds of {model.n:,} rows ...")

    def update(self, chains: list[Status]) -> None:
        """Redraw the table."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        seconds = time.perf_counter() - self._started
        table = Table(box=None, pad_edge=False)
        columns = ("chain", "", "steps", "acceptance", "rows per step", "full passes", "time left")
        for title in columns:
            table.add_column(title, justify="left" if title in {"chain", ""} else "right")
        for index, chain in enumerate(chains):
            left = seconds * (chain.total - chain.steps) / max(chain.steps, 1)
            table.add_row(
                str(index),
                ProgressBar(total=chain.total, completed=chain.steps, width=24),
                f"{chain.steps:,} / {chain.total:,}",
                f"{chain.acceptance:.3f}",
                f"{chain.rows_per_step:.3g}",
                f"{chain.full_passes:,}",
                _duration(left),
            )
        self._live.update(table)


def choose_progress(progress: bool | None) -> Progress:
    """Return the display that suits the wish and the place."""
    if progress is False:
        return Progress()
    if sys.stderr is not None and sys.stderr.isatty():
        return LiveProgress()
    return LineProgress()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
