"""A source whose responses are given to kernels in another code: successes as shares of the trials."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tallbayes.sources.base import SUPPLY, Block, Source

Vector = NDArray[np.float64]

Encode = Callable[[Vector, Vector, int], tuple[Vector, Vector]]
"""Returns responses and weights in the new code, of responses, weights and the number of the first row."""


class EncodedSource(Source):
    """Rows of another source, encoded block by block as they pass.

    Parameters
    ----------
    source : Source
        The rows.
    encode : callable
        A function of responses, weights and the number of the first row, which returns the first two anew.
    """

    def __init__(self, source: Source, encode: Encode) -> None:
        self._source, self._encode = source, encode
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
        """Yield the blocks of the other source, encoded."""
        for block in self._source.blocks():
            responses, weight = self._encode(block.responses[:, 0], block.weight, block.first)
            yield block._replace(responses=responses[:, None], weight=np.atleast_1d(weight))
