"""Rows with some of their columns set to other values, and columns told beside the responses."""

from collections.abc import Iterator, Sequence

import numpy as np

from tallbayes.models.variables import Setting, column_values
from tallbayes.sources.base import SUPPLY, Block, Source


class AlteredSource(Source):
    """Rows of another source, with columns of the design set as they pass.

    Parameters
    ----------
    source : Source
        The rows.
    setting : mapping
        Values by column: one for all rows, one for each, or a `Shift`.
    beside : sequence of str
        Columns whose values, before they are set, are told as further responses.
    """

    def __init__(self, source: Source, setting: Setting, beside: Sequence[str] = ()) -> None:
        self._source, self._setting = source, dict(setting)
        self._beside = [source.names.index(name) for name in beside]
        self.names = source.names
        self.offers = source.offers & {SUPPLY}

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._source.n

    @property
    def together(self) -> int:
        """How many blocks a thread takes at a time."""
        return self._source.together

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the other source, with their columns set."""
        for block in self._source.blocks():
            told = block.responses
            if self._beside:
                told = np.column_stack([told, np.asarray(block.X[:, self._beside], dtype=np.float64)])
            X = block.X
            if self._setting:
                X = np.array(X, dtype=np.float64)
                rows = slice(block.first, block.first + block.count)
                for name, value in self._setting.items():
                    # A column may be there twice: for the location, and for the scale.
                    for j in (j for j, other in enumerate(self.names) if other == name):
                        X[:, j] = column_values(value, X[:, j], rows, self.n, name)
            yield block._replace(X=X, responses=told)
