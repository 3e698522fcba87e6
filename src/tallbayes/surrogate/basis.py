"""Mode and whitened coordinates together: what every kernel starts from, found once for a model."""

from typing import NamedTuple

from tallbayes.models import Model
from tallbayes.surrogate.expansion import Whitening, whiten
from tallbayes.surrogate.mode import Mode, find_mode


class Basis(NamedTuple):
    """The mode of a posterior, and coordinates in which it is close to a standard normal."""

    mode: Mode
    whitening: Whitening


def find_basis(model: Model, *, threads: int | None = None) -> Basis:
    """Find the mode of a model and whiten there; takes a handful of passes over the rows."""
    mode = find_mode(model, threads=threads)
    return Basis(mode, whiten(model, mode, threads=threads))
