"""How the documentation is built: `make docs`."""

from importlib.metadata import version as installed

project = "tallbayes"
copyright = "the tallbayes authors"
release = version = installed("tallbayes")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "tallbayes"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
napoleon_google_docstring = False
nitpicky = False

SHOWN = {"variables", "rows_of"}
"""Methods that users call; of other classes the reference shows how to make them."""


def setup(app):
    """Say what the reference leaves out, and how docstrings are read."""
    app.connect("autodoc-skip-member", lambda app, what, name, item, skip, options: skip or _is_inner(what, name))
    app.connect("autodoc-process-docstring", _keep_bars)


def _is_inner(what, name):
    return True if what == "class" and name not in SHOWN else None


def _keep_bars(app, what, name, item, options, lines):
    """Write |x| as it is: to Sphinx it would be a substitution."""
    if not any("math:" in line for line in lines):
        lines[:] = [line.replace("|", "\\|") for line in lines]
