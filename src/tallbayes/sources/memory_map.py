"""Rows in memory-mapped arrays: gone through block by block, and given back to the system as they pass."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from tallbayes.errors import InputError
from tallbayes.sources.arrays import rows_of_a_block
from tallbayes.sources.base import Block, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

BEHIND = 16
"""Blocks after which pages are given back: threads are through with them by then, or read them again."""


def is_mapped(X: Any) -> bool:
    """Return whether an array is memory-mapped, and not the result of a computation with one that is."""
    return isinstance(X, np.memmap) and getattr(X, "_mmap", None) is not None


def mapped_file(data: Any) -> Any:
    """Return the array in a ``.npy`` file, memory-mapped; anything else as it is."""
    if not (isinstance(data, str | os.PathLike) and os.fspath(data).endswith(".npy")):
        return data
    try:
        return np.load(data, mmap_mode="r")
    except FileNotFoundError:
        raise InputError(f"{os.fspath(data)}: there is no such file.") from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{os.fspath(data)}: this could not be read as an array ({error}). It is no .npy file, or cut off: "
            "write it anew, with numpy.save."
        ) from None


class MemoryMapSource(Source):
    """Rows of a memory-mapped design, which are never drawn at random: that would read the disk page by page.

    Parameters
    ----------
    X : numpy.memmap
        Design, rows x columns.
    responses : array
        One for each row; memory-mapped or not.
    weight : array
        Frequency weight of each row, or a single one for all.
    offset : array
        Known part of each row's predictor, or a single one for all.
    names : list of str
        Names of the columns.
    """

    def __init__(
        self, X: NDArray[Any], responses: NDArray[Any], weight: NDArray[Any], offset: NDArray[Any], names: list[str]
    ) -> None:
        self.X, self.responses, self.weight, self.offset, self.names = X, responses, weight, offset, names
        self.block_rows = rows_of_a_block(X.shape[1])

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def blocks(self) -> Iterator[Block]:
        """Yield views of the arrays."""
        for first in range(0, self.n, self.block_rows):
            rows = slice(first, min(first + self.block_rows, self.n))
            yield Block(
                first,
                self.X[rows],
                self.responses[rows],
                self.weight if self.weight.size == 1 else self.weight[rows],
                self.offset if self.offset.size == 1 else self.offset[rows],
            )
            if first // self.block_rows % BEHIND == BEHIND - 1:
                self._give_back()
        self._give_back()

    def _give_back(self) -> None:
        """Tell the system that pages read so far need not stay in this process; they stay in its cache."""
        for array in (self.X, self.responses, self.weight, self.offset):
            held = getattr(array, "base", None) if not isinstance(array, np.memmap) else array
            pages = getattr(held, "_mmap", None)
            if pages is not None and getattr(held, "mode", "c") != "c" and hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)
