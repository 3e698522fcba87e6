"""Commands that take a result: summary, diagnose, predict, report."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tallbayes.cli.options import free_path, plain
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

    The exit code is 0 if they can, 3 if something speaks against them or they are too few to tell, and 1 if the file
    cannot be read.
    """
    from tallbayes.results.diagnostics import FEWEST, findings
    from tallbayes.results.files import load
    from tallbayes.results.verdict import verdict

    tree = load(run)
    found, words = findings(tree), verdict(tree)
    trusted = not found if tree["posterior"].sizes["draw"] >= FEWEST else None
    if as_json:
        parts = [
            {"what": each.label, "words": each.words, "advice": each.advice, "coefficients": each.coefficients}
            for each in found
        ]
        typer.echo(json.dumps(plain({"trusted": trusted, "verdict": words, "findings": parts}), indent=2))
    else:
        typer.echo(words)
    if not trusted:
        raise typer.Exit(NOT_TO_BE_TRUSTED)


def predict(
    run: Run,
    data: Annotated[str, typer.Argument(help="Rows to predict: a Parquet or CSV file.")],
    kind: Annotated[
        str, typer.Option(help="'expected' (a probability, a rate), 'predictive' (with noise) or 'linear'.")
    ] = "expected",
    by: Annotated[
        list[str] | None, typer.Option(help="Average over the rows of each level; may be given several times.")
    ] = None,
    average: Annotated[bool, typer.Option("--average", help="Average over all rows.")] = False,
    probs: Probs = "0.05,0.95",
    seed: Annotated[int, typer.Option(min=0, help="Seed of predictive responses.")] = 0,
    unusable: Annotated[
        str, typer.Option(help="Rows with missing values or unseen levels: 'error' or 'drop'.")
    ] = "error",
    out: Annotated[Path | None, typer.Option(help="File for the predictions: .csv or .parquet.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Predict rows from a result alone: what is expected of them, with intervals."""
    from tallbayes.predictions.predict import predict as predicted
    from tallbayes.results.files import load

    free_path(out, overwrite)
    if out is not None and out.suffix not in {".csv", ".parquet"}:
        raise InputError(f"--out: {out} was given; expected a name that ends in .csv or .parquet.")
    tree = load(run)
    rows, numbers = _usable(tree, data, unusable)
    table: Any = predicted(
        tree, None, rows, kind=kind, by=by or None, average=average, probs=probs_of(probs), seed=seed
    )
    if numbers is not None and "row" in table.columns:  # places in the file, of which some rows were left out
        table["row"] = numbers[table["row"].to_numpy()]
    if out is not None and out.suffix == ".csv":
        table.to_csv(out, index=False)
    elif out is not None:
        table.to_parquet(out, index=False)
    elif as_json:
        typer.echo(json.dumps(plain(table.to_dict(orient="records")), indent=2))
    else:
        typer.echo(table.to_string(index=False))


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="File for the page.", show_default="RUN.html")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
) -> None:
    """Write one page about a run that needs no network: model, verdict, table, pictures, how it was computed."""
    from tallbayes.reporting.page import report as write
    from tallbayes.results.files import load

    target = run.with_suffix(".html") if out is None else out
    free_path(target, overwrite)
    write(load(run), None, target, title=title, overwrite=overwrite)
    typer.echo(str(target))


def _usable(tree: Any, data: str, unusable: str) -> tuple[Any, Any]:
    """Return the rows to predict, all of them or those that can be, and their places in the file if some are not."""
    if unusable == "error":
        return data, None
    if unusable != "drop":
        raise InputError(f"--unusable: {unusable!r} was given; expected error or drop.")
    from tallbayes.formulas import restore
    from tallbayes.formulas.rows import usable_rows

    rows, numbers, notes = usable_rows(restore(tree.attrs.get("model", "")).recipe, data)
    for note in notes:
        typer.echo(f"tallbayes: left out: {note}", err=True)
    return rows, numbers


def probs_of(text: str) -> tuple[float, ...]:
    """Return probabilities that are separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--probs: {text!r} was given; expected numbers such as 0.05,0.5,0.95.") from None
