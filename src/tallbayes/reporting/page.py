"""The page: a single HTML file that needs no network."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallbayes.errors import InputError
from tallbayes.reporting.parts import Part, computation, data_and_model, pictures, table, verdicts
from tallbayes.reporting.style import SCRIPT, STYLE

if TYPE_CHECKING:
    from xarray import DataTree

CITE = (
    "Cornish, R., Vanetti, P., Bouchard-Côté, A., Deligiannidis, G. and Doucet, A. (2019). Scalable "
    "Metropolis-Hastings for exact Bayesian inference with large datasets. International Conference on Machine "
    "Learning."
)


def report(
    tree: "DataTree",
    model: Any = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a page about a run: model, verdict in words, table, pictures, and how it was computed.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model, if it is at hand: adds a posterior predictive check.
    path : str or path
        Where to.
    title : str or None
        Heading of the page; says what model it is by default.
    overwrite : bool
        Whether a file that is there may be replaced.

    Returns
    -------
    pathlib.Path
        The path: one HTML file, with everything in it.
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise InputError(f"report: {target} is there already. Give another name, or overwrite=True to replace it.")
    if not target.parent.is_dir():
        raise InputError(f"report: there is no directory {target.parent}. Make it first.")
    text = page(tree, model, title)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)
    return target


def page(tree: "DataTree", model: Any = None, title: str | None = None) -> str:
    """Return the page as text.

    Parameters
    ----------
    tree : xarray.DataTree
        A result of `tallbayes.sample`.
    model : Model or None
        The model, if it is at hand.
    title : str or None
        Heading of the page.

    Returns
    -------
    str
        HTML.
    """
    about, heading = data_and_model(tree)
    parts = [verdicts(tree), about, table(tree), *pictures(tree, model), computation(tree)]
    parts.append(Part("How to cite", f"<p>{CITE} Computed with tallbayes.</p>"))
    return _document(title or heading, parts)


def _document(title: str, parts: list[Part]) -> str:
    from html import escape

    links = "".join(f'<a href="#p{k}">{escape(part.title)}</a>' for k, part in enumerate(parts))
    body = "".join(
        f'<section id="p{k}" aria-labelledby="h{k}"><h2 id="h{k}">{escape(part.title)}</h2>{part.html}</section>'
        for k, part in enumerate(parts)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f'<body><header><h1>{escape(title)}</h1><nav aria-label="Parts">{links}</nav></header>'
        f"<main>{body}</main><script>{SCRIPT}</script></body></html>\n"
    )
