"""Threads for passes over rows; matrix products inside them use one thread each."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


def available_threads() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def pool(workers: int) -> ThreadPoolExecutor:
    """Return threads that are kept: starting them anew for every pass costs more than a small pass."""
    return ThreadPoolExecutor(workers, thread_name_prefix="tallbayes-rows")


_rooms: dict[int, NDArray[np.float64]] = {}
"""Memory of each thread for a matrix that every block of a pass needs; given back when the pass ends."""


def room(rows: int, columns: int) -> NDArray[np.float64]:
    """Return room for a matrix: during a pass the same memory every time in one thread.

    Fresh memory for every block may cost more than what is computed in it. What is in it is gone with the next call.
    """
    me, size = threading.get_ident(), rows * columns
    mine = _rooms.get(me)
    if mine is None or mine.size < size:
        mine = _rooms[me] = np.empty(size)
    return np.asarray(mine[:size].reshape(rows, columns))


def give_back_rooms() -> None:
    """Forget the memory that threads have kept; a matrix that is still in use keeps its own."""
    _rooms.clear()


class _OneThread:
    """Keeps BLAS at one thread while any pass is under way: results then do not depend on how many it has.

    Passes of several chains may overlap, so the first one in sets the limit and the last one out lifts it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: Any = None
        self._limits: Any = None

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                if self._controller is None:
                    from threadpoolctl import ThreadpoolController

                    self._controller = ThreadpoolController()
                self._limits = self._controller.limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


_one_thread = _OneThread()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Make BLAS use one thread within a block."""
    _one_thread.enter()
    try:
        yield
    finally:
        _one_thread.leave()


def _after_fork() -> None:
    global _one_thread  # noqa: PLW0603
    pool.cache_clear()  # threads do not survive a fork
    _one_thread = _OneThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
