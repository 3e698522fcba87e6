"""A source whose responses are given to kernels in another code: successes as shares of the trials."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.sources.base import SUPPLY, Block, Part, Source

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
    def passes(self) -> int:  # type: ignore[override]
        """How often the rows were gone through so far."""
        return self._source.passes

    @property
    def listener(self) -> Callable[[int], None] | None:
        """Told during a pass how many rows are done."""
        return self._source.listener

    @listener.setter
    def listener(self, listener: Callable[[int], None] | None) -> None:
        self._source.listener = listener

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the other source, encoded."""
        for block in self._source.blocks():
            yield _encoded(block, self._encode)

    def reduce(self, part: Part, *arguments: Any, threads: int | None = None) -> Any:
        """Add up a function of each encoded block, where the other source does it.

        Parameters
        ----------
        part : callable
            A function of a block and the further arguments.
        *arguments : Any
            What it takes beside the block.
        threads : int or None
            Threads to use; defaults to every core.

        Returns
        -------
        Any
            The sum of what the function returned.
        """
        return self._source.reduce(_of_encoded, self._encode, part, *arguments, threads=threads)


def _encoded(block: Block, encode: Encode) -> Block:
    responses, weight = encode(block.responses[:, 0], block.weight, block.first)
    told = block.responses[:, 1:]  # what stands beside the response
    both = np.column_stack([responses, told]) if told.shape[1] else responses[:, None]
    return block._replace(responses=both, weight=np.atleast_1d(weight))


def _of_encoded(block: Block, encode: Encode, part: Part, *arguments: Any) -> Any:
    return part(_encoded(block, encode).converted(), *arguments)
