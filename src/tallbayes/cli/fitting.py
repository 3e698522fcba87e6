"""Commands that take data and a formula: fit, explain."""

import json
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tallbayes.checks import counted
from tallbayes.cli.options import family_of, free_path, known_families, plain, prior_of
from tallbayes.errors import InputError

Data = Annotated[
    str, typer.Argument(help="A Parquet file, a folder or pattern of them ('trips/*.parquet'), or a CSV file.")
]
FormulaText = Annotated[str, typer.Argument(help="Such as 'late ~ bs(hour, df=5) + C(month) + origin'.")]
FamilyText = Annotated[
    str,
    typer.Option(
        help=f"Likelihood, with its parameters if need be: 'student_t(df=4)', 'student_t(df=4, scale=10)', "
        f"'gaussian(scale=half_normal(10))', 'bernoulli(link=probit)'; a scale that is not given is estimated. "
        f"One of {', '.join(known_families())}."
    ),
]
PriorTexts = Annotated[
    list[str] | None,
    typer.Option(
        help="Prior of all coefficients, 'normal(0, 2.5)', or of some, by coefficient, term or beginning of a name: "
        "'C(month)=normal(0, 1)', 'bs(hour*=normal(0, 5)'; may be given several times.",
        show_default="weakly informative",
    ),
]
Offset = Annotated[str | None, typer.Option(help="Offset: a column, or an expression such as 'log(exposure)'.")]
Weights = Annotated[str | None, typer.Option(help="Frequency weights: a column.")]
Exposure = Annotated[
    str | None,
    typer.Option(help="Of counts, how long or how much each row was at risk: a column, or an expression."),
]
Collapse = Annotated[
    bool,
    typer.Option("--collapse/--no-collapse", help="Whether to put equal rows together into one with a weight."),
]
ScaleFormula = Annotated[
    str | None, typer.Option(help="Formula of the log scale, or of the zeros' log odds, such as '~ hour'.")
]
Missing = Annotated[str, typer.Option(help="Rows in which a value is missing: 'error' or 'drop'.")]
Draws = Annotated[int, typer.Option(min=1, help="Draws to keep from each chain.")]
Chains = Annotated[int, typer.Option(min=1, help="Number of chains.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to use.", show_default="every core")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing on standard error but errors.")]


INTERRUPTED = 130
"""Exit code of a command that was interrupted, as shells have it: 128 and the number of the signal."""


def fit(
    data: Data,
    formula: FormulaText,
    family: FamilyText = "bernoulli",
    prior: PriorTexts = None,
    offset: Offset = None,
    exposure: Exposure = None,
    weights: Weights = None,
    scale_formula: ScaleFormula = None,
    missing: Missing = "error",
    collapse: Collapse = True,
    draws: Draws = 1000,
    chains: Chains = 4,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the run.", show_default="a fresh one")] = None,
    threads: Threads = None,
    out: Annotated[Path | None, typer.Option(help="File for the result: .nc, or .zarr.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw from the posterior of a regression, print its summary, and keep the result in a file.

    Model and progress are told on standard error, the summary on standard output.

    tallbayes fit trips.parquet "late ~ bs(hour, df=5) + C(month) + origin" --family bernoulli --out run.nc
    """
    from tallbayes.api import sample
    from tallbayes.results.files import refuse_ending, save
    from tallbayes.results.summary import summary

    if out is not None:
        refuse_ending("--out", out)
    free_path(out, overwrite)
    model = _model(
        data,
        formula,
        family,
        prior,
        offset=offset,
        exposure=exposure,
        weights=weights,
        scale_formula=scale_formula,
        missing=missing,
        collapse=collapse,
    )
    _tell(repr(model), quiet)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tree = sample(
            model,
            draws=draws,
            chains=chains,
            seed=seed,
            threads=threads,
            progress=False if quiet else None,
        )
    for warning in said:
        _tell(f"tallbayes: {warning.message}", quiet)
    table = summary(tree)
    if out is not None:
        save(tree, out, overwrite=overwrite)
        _tell(f"tallbayes: the result is in {out}", quiet)
    typer.echo(_as_json(model, tree, table, out) if as_json else _as_text(model, tree, table))
    if tree.attrs["interrupted"]:
        _say_interrupted(tree, draws, out)
        raise typer.Exit(INTERRUPTED)


def explain(
    data: Data,
    formula: FormulaText,
    family: FamilyText = "bernoulli",
    prior: PriorTexts = None,
    offset: Offset = None,
    exposure: Exposure = None,
    weights: Weights = None,
    scale_formula: ScaleFormula = None,
    missing: Missing = "error",
    collapse: Collapse = True,
    draws: Draws = 1000,
    chains: Chains = 4,
    threads: Threads = None,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also what else was considered.")] = False,
) -> None:
    """Say what `fit` with the same arguments would take and give: time, memory, effective draws, and how."""
    from tallbayes.api import explain as explained

    model = _model(
        data,
        formula,
        family,
        prior,
        offset=offset,
        exposure=exposure,
        weights=weights,
        scale_formula=scale_formula,
        missing=missing,
        collapse=collapse,
    )
    found = explained(model, draws=draws, chains=chains, threads=threads, verbose=verbose)
    typer.echo(json.dumps(plain(asdict(found)), indent=2) if as_json else f"{model!r}\n\n{found}")


def _model(data: str, formula: str, family: str, prior: list[str] | None, **options: Any) -> Any:
    """Return the model that the arguments of a command stand for; options are those of `glm`."""
    from tallbayes.formulas import glm

    if options["missing"] not in {"error", "drop"}:
        raise InputError(f"--missing: {options['missing']!r} was given; expected error or drop.")
    return glm(formula, data, family_of(family), prior_of(prior or []), **options)


def _as_json(model: Any, tree: Any, table: Any, out: Path | None) -> str:
    about = {
        "formula": model.formula,
        **{what: model.recipe.beside.get(what) for what in ("offset", "exposure", "weights")},
        "rows": model.rows_given,
        "out": None if out is None else str(out),
        "setup_seconds": tree.attrs["setup_seconds"],
        "sampling_seconds": tree.attrs["sampling_seconds"],
        "rows_touched": int(tree["sample_stats"]["rows_touched"].sum()),
        "seed": tree.attrs["seed"],
        "notes": list(model.notes),
        "trust": table.attrs["trust"],
        "summary": table.to_dict(orient="index"),
    }
    return json.dumps(plain(about), indent=2)


def _as_text(model: Any, tree: Any, table: Any) -> str:
    touched = tree["sample_stats"]["rows_touched"]
    different = "" if model.n == model.rows_given else " different"
    return (
        f"{table}\n\nset-up {tree.attrs['setup_seconds']:.1f} s, sampling {tree.attrs['sampling_seconds']:.1f} s; "
        f"{int(touched.sum()):,} rows touched for {touched.size:,} draws, of {model.n:,}{different} rows"
    )


def _say_interrupted(tree: Any, draws: int, out: Path | None) -> None:
    """Say how many draws there are, and where; a run that is quiet says it too."""
    sizes = tree["posterior"].sizes
    where = "lost, since no --out was given" if out is None else f"in {out}"
    typer.echo(
        f"tallbayes: fit was interrupted: {sizes['draw']:,} of {counted(draws, 'draw')} of each of "
        f"{counted(sizes['chain'], 'chain')} were made, and are {where}.",
        err=True,
    )


def _tell(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)
