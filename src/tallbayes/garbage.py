"""No garbage collection while packages load and functions compile.

Both make millions of objects, nearly all of which stay or are freed by their reference counts. To look through them for
cycles, again and again, took a sixth of a first call's time, and a tenth of what a further process needs to start
(measured with the collector on and off, in turn).
"""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pause:
    """Who asked for a pause: threads load and compile at the same time, and the last one ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._was_enabled = False

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            if self._holders == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0 and self._was_enabled:
                    gc.enable()

    def after_fork(self) -> None:
        """Forget holders that are threads of the parent."""
        held = self._holders > 0
        self._lock, self._holders = threading.Lock(), 0
        if held and self._was_enabled:
            gc.enable()


_pause = _Pause()
collection_paused = _pause.held
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pause.after_fork)
