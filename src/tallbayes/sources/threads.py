"""Threads for passes over rows; matrix products inside them use one thread each."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
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


def in_threads(function: Callable[[Any], Any], items: Sequence[Any], threads: int | None = None) -> list[Any]:
    """Return the results of a function of each item, in their order; all cores are used unless told otherwise."""
    workers = min(threads or available_threads(), len(items))
    return list(pool(workers).map(function, items) if workers > 1 else map(function, items))


class Shared:
    """Work on a list of items, shared between this thread and others, with results added up in the order of the items.

    Each thread takes the next item when it is done with one: handing every item to another thread, and waiting for
    what it returns, takes longer than a small item does.

    Parameters
    ----------
    items : list
        What there is to do.
    function : callable
        Returns the result of an item.
    add : callable
        Takes the total so far, or None, and the next result; returns the new total.
    """

    def __init__(self, items: list[Any], function: Callable[[Any], Any], add: Callable[[Any, Any], Any]) -> None:
        self._items, self._function, self._add = items, function, add
        self._taken = self._added = 0
        self._done: dict[int, Any] = {}
        self._total: Any = None
        self._errors: dict[int, Exception] = {}
        self._failed = False
        self._changed = threading.Condition()

    def total(self, workers: int) -> Any:
        """Do all of it, in so many threads, and return the total."""
        workers = min(workers, len(self._items))
        others = [pool(workers).submit(self._work, workers) for _ in range(workers - 1)]
        try:
            self._work(workers)
        finally:
            # One that has not begun has nothing left to do. It must not be waited for: this thread may be one that it
            # would have to run in.
            unexpected = [other.exception() for other in others if not other.cancel()]
        for error in (*(self._errors[number] for number in sorted(self._errors)), *unexpected):
            if error is not None:
                raise error
        return self._total

    def _work(self, workers: int) -> None:
        try:
            while (number := self._next(workers)) is not None:
                try:
                    result = self._function(self._items[number])
                except Exception as error:  # of several the first is raised: items are taken in their order
                    self._errors[number] = error
                    break
                with self._changed:
                    self._done[number] = result
                    while self._added in self._done:
                        self._total = self._add(self._total, self._done.pop(self._added))
                        self._added += 1
                    self._changed.notify_all()
            else:
                return
        except BaseException:
            self._fail()
            raise
        self._fail()

    def _fail(self) -> None:
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def _next(self, workers: int) -> int | None:
        """Return the number of an item to be done; None if there is none. Few results wait to be added at a time."""
        with self._changed:
            self._changed.wait_for(lambda: self._failed or self._taken - self._added < 2 * workers)
            if self._failed or self._taken == len(self._items):
                return None
            self._taken += 1
            return self._taken - 1


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
