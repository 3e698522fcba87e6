"""The command `tallbayes`."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from tallbayes.cli.fitting import INTERRUPTED, explain, fit
from tallbayes.cli.results import diagnose, predict, report, summary
from tallbayes.errors import TallbayesError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tallbayes import __version__

        typer.echo(f"tallbayes {__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Exact Bayesian posteriors of models with very many rows.

    Fit a regression to a Parquet or CSV file, look at the result, predict from it:

    tallbayes fit trips.parquet "late ~ bs(hour, df=5) + C(month) + origin" --family bernoulli --out run.nc
    """


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function; one that is interrupted says so, and has the exit code that shells know."""

    @wraps(function)
    def interruptible(*given: Any, **named: Any) -> None:
        try:
            function(*given, **named)
        except KeyboardInterrupt:
            typer.echo(f"tallbayes: {function.__name__} was interrupted; nothing was kept.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    app.command()(interruptible)
    return function


for _function in (fit, explain, summary, diagnose, predict, report):
    _command(_function)


@_command
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="Rows of the data it makes.")] = 1_000_000,
    draws: Annotated[int, typer.Option(min=10, help="Draws to keep from each of four chains.")] = 25_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of the run.")] = 1,
    out: Annotated[Path, typer.Option(help="File for the picture.", dir_okay=False)] = Path("tallbayes-demo.png"),
) -> None:
    """Fit a logistic regression with a million rows, on data made up on the spot."""
    from rich.console import Console

    from tallbayes.demo import run_demo

    run_demo(Console(highlight=False), rows=rows, draws=draws, seed=seed, out=out)


@_command
def warmup(
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="Family to compile, e.g. poisson, or all; may be given several times.", show_default="bernoulli"
        ),
    ] = None,
) -> None:
    """Compile ahead what a first call needs, and keep it on disk."""
    from tallbayes.warmup import warm_up

    for name, seconds in warm_up(family or ["bernoulli"]):
        typer.echo(f"{name}: {seconds:.1f} s")


def main() -> None:
    """Run the command; an expected error prints its message, without a traceback."""
    try:
        app()
    except TallbayesError as error:
        typer.echo(f"tallbayes: {error}", err=True)
        raise SystemExit(1) from None
