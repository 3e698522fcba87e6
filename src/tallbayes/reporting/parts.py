"""What the page says: each part as a title and its HTML."""

import base64
import io
import json
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from tallbayes.errors import InputError, MissingPackageError
from tallbayes.plots import plot_densities, plot_forest, plot_ppc, plot_rank, plot_trace
from tallbayes.results.diagnostics import judged
from tallbayes.results.draws import named_draws
from tallbayes.results.summary import summary
from tallbayes.results.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure
    from xarray import DataTree

DOTS = 110
"""Dots per inch of pictures."""
FOREST = 40
"""Parameters in the picture of intervals."""


class Part(NamedTuple):
    """A part of the page."""

    title: str
    html: str


def verdicts(tree: "DataTree") -> Part:
    """Say whether the draws can be trusted, and whether the Gaussian approximation would have been enough.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.

    Returns
    -------
    Part
        The part.
    """
    _, trust = judged(tree)
    bad = any(word.startswith("no") for word in trust)
    words = f'<p class="verdict{" bad" if bad else ""}" role="status">{escape(verdict(tree))}</p>'
    if tree.attrs.get("interrupted"):
        words += '<p class="verdict bad">The run was interrupted: these are the draws it had made by then.</p>'
    return Part("Verdict", words)


def data_and_model(tree: "DataTree") -> tuple[Part, str]:
    """Say what was asked; and return a heading.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.

    Returns
    -------
    Part
        The part.
    str
        The heading.
    """
    about = tree.attrs
    names, _ = named_draws(tree, "report")
    stored = json.loads(about.get("model", "{}"))
    recipe = stored.get("recipe", {})
    formula = recipe.get("formula")
    facts = {
        "Formula": formula,
        "Formula of the scale": (recipe.get("scale") or [None])[0],
        **{what.capitalize(): text for what, text in (recipe.get("beside") or {}).items()},
        **({"Offset": "an array"} if stored.get("has_offset") else {}),
        "Rows": _count(stored.get("rows", about.get("rows"))),
        "Notes": "; ".join(stored.get("notes", [])) or None,
        "Parameters": f"{len(names):,}: {', '.join(names[:30])}{' ...' if len(names) > 30 else ''}",
        "Family": about.get("family"),
        "Priors": about.get("coefficient_priors"),
    }
    return Part("What was asked", _facts(facts)), formula or f"Posterior of {about.get('family', 'a model')}"


def table(tree: "DataTree") -> Part:
    """Return the summary as a table that can be sorted.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.

    Returns
    -------
    Part
        The part.
    """
    frame = summary(tree)
    heads = "".join(
        f'<th scope="col"{" class=words" if name == "trust" else ""}><button>{escape(str(name))}</button></th>'
        for name in ["parameter", *frame.columns]
    )
    lines = []
    for name, values in zip(frame.index, frame.to_numpy(), strict=True):
        cells = "".join(_cell(str(head), value) for head, value in zip(frame.columns, values, strict=True))
        lines.append(f'<tr><td data-value="{escape(str(name))}">{escape(str(name))}</td>{cells}</tr>')
    note = (
        "Quantiles of the posterior, Monte Carlo standard error of the mean, effective draws in the bulk and in the "
        "tails, R-hat, and whether the draws of the parameter can be trusted. Press a heading to sort."
    )
    return Part(
        "Summary",
        f'<div class="wide" tabindex="0"><table class="sortable"><thead><tr>{heads}</tr></thead>'
        f'<tbody>{"".join(lines)}</tbody></table></div><p class="note">{note}</p>',
    )


def pictures(tree: "DataTree", model: Any) -> list[Part]:
    """Return the pictures; a part that says why, if there is no matplotlib.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model, if it is at hand.

    Returns
    -------
    list of Part
        The parts.
    """
    names, _ = named_draws(tree, "report")
    wanted: list[tuple[str, Callable[[], Figure], str]] = [
        ("Intervals", lambda: plot_forest(tree, count=FOREST), _shown(FOREST, len(names), "first")),
        (
            "Densities against the Gaussian approximation",
            lambda: plot_densities(tree),
            "Bars are the exact draws, the line is the Gaussian (Laplace) approximation at the mode. "
            + _shown(6, len(names), "most skewed"),
        ),
        ("Traces", lambda: plot_trace(tree), "Each colour is a chain. " + _shown(6, len(names), "first")),
        (
            "Ranks",
            lambda: plot_rank(tree),
            "Ranks of each chain's draws among all: even, within the grey band, if chains agree. "
            + _shown(6, len(names), "first"),
        ),
    ]
    if model is not None:
        words = "Grey bars are observed responses; dots and lines are responses drawn from the posterior."
        wanted.append(("Posterior predictive check", lambda: plot_ppc(tree, model), words))
    parts = []
    for title, draw, words in wanted:
        try:
            shown = f'<figure><img alt="{escape(title)}" src="{_embedded(draw())}"></figure>'
        except MissingPackageError as error:
            return [Part("Pictures", f"<p>There are no pictures: {escape(str(error))}</p>")]
        except (
            InputError
        ) as error:  # a family of which no responses can be drawn, or a tree without an approximation
            shown = f"<p>Not drawn: {escape(str(error))}</p>"
        parts.append(Part(title, f'{shown}<p class="note">{escape(words)}</p>'))
    return parts


def computation(tree: "DataTree") -> Part:
    """Say how it was computed: plan, rows touched, time, seed and versions.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.

    Returns
    -------
    Part
        The part.
    """
    about = tree.attrs
    plan = json.loads(about.get("plan", "{}"))
    sizes = tree["posterior"].sizes
    facts: dict[str, Any] = {"Draws": f"{sizes['chain']} chains of {sizes['draw']:,} draws"}
    rows = about.get("rows")
    if "sample_stats" in tree.children:
        statistics = tree["sample_stats"]
        touched = float(statistics["rows_touched"].mean())
        facts["Rows touched per draw"] = f"{touched:.3g}" + (f" of {rows:,}" if rows else "")
        facts["Acceptance"] = f"{float(statistics['accepted'].mean()):.3f}"
        facts["Draws on all rows"] = f"{int(statistics['full_pass'].sum()):,}"
    facts["Broken bounds"] = _count(about.get("bound_violations"))
    for name, key in (("Set-up", "setup_seconds"), ("Sampling", "sampling_seconds")):
        facts[name] = f"{float(about[key]):.2f} s" if key in about else None
    predicted = {"acceptance", "rows_per_draw", "full_passes_per_million"}
    for key, value in plan.items():
        if key not in predicted and value is not None:
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
            facts[f"Plan: {key.replace('_', ' ')}"] = text
    facts["Seed"] = about.get("seed")
    facts["Warm-up steps of each chain"] = _count(about.get("warmup"))
    versions = json.loads(about.get("versions", "{}"))
    facts["Versions"] = ", ".join(f"{name} {number}" for name, number in versions.items()) or None
    return Part("How it was computed", _facts(facts))


def _facts(facts: dict[str, Any]) -> str:
    known = [(name, value) for name, value in facts.items() if value not in {None, ""}]
    return "<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{escape(str(v))}</dd>" for n, v in known) + "</dl>"


def _count(value: Any) -> str | None:
    return None if value is None else f"{int(value):,}"


def _cell(head: str, value: Any) -> str:
    if isinstance(value, str):
        mark = ' bad-word"' if value.startswith("no") else '"'
        return f'<td class="words{mark} data-value="{escape(value)}">{escape(value)}</td>'
    form = ",.0f" if head.startswith("ess") else ".3f" if head == "r_hat" else ".4g"
    return f'<td data-value="{value!r}">{value:{form}}</td>'


def _shown(most: int, count: int, which: str) -> str:
    return "" if count <= most else f"The {most} {which} of {count:,} parameters are shown."


def _embedded(figure: "Figure") -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
