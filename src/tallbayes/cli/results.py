"""Commands that take a result: summary, diagnose."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tallbayes.cli.options import plain
from tallbayes.errors import InputError

Run = Annotated[Path, typer.Argument(help="A result that `tallbayes fit` or tb.save wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Probs = Annotated[str, typer.Option(help="Quantiles, separated by commas.")]

NOT_TO_BE_TRUSTED = 3
"""What `diagnose` returns to a script if something speaks against the draws."""


def summary(
    run: Run,
    probs: Probs = "0.05,0.5,0.95",
    exponentiate: Annotated[
        bool, typer.Option("--exponentiate", help="Odds ratios, or rate ratios: exp of each coefficient.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the posterior of each coefficient: mean, standard deviation, quantiles, and whether it can be trusted."""
    from tallbayes.results.files import load
    from tallbayes.results.summary import summary as summarised

    table = summarised(load(run), probs_of(probs), exponentiate=exponentiate)
    if as_json:
        about = {"trust": table.attrs["trust"], "summary": table.to_dict(orient="index")}
        typer.echo(json.dumps(plain(about), indent=2))
    else:
        typer.echo(str(table))


def diagnose(run: Run, as_json: AsJson = False) -> None:
    """Say whether the draws of a result can be trusted.

    The exit code is 0 if they can, 3 if something speaks against them, and 1 if the file cannot be read.
    """
    from tallbayes.results.diagnostics import findings
    from tallbayes.results.files import load
    from tallbayes.results.verdict import verdict

    tree = load(run)
    found, words = findings(tree), verdict(tree)
    if as_json:
        parts = [
            {"what": each.label, "words": each.words, "advice": each.advice, "coefficients": each.coefficients}
            for each in found
        ]
        typer.echo(json.dumps(plain({"trusted": not found, "verdict": words, "findings": parts}), indent=2))
    else:
        typer.echo(words)
    if found:
        raise typer.Exit(NOT_TO_BE_TRUSTED)


def probs_of(text: str) -> tuple[float, ...]:
    """Return probabilities that are separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--probs: {text!r} was given; expected numbers such as 0.05,0.5,0.95.") from None
