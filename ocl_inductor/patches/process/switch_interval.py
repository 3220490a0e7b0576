"""A shorter switch interval of the interpreter while a background thread works.

A thread that runs Python holds the GIL for 5 ms while others wait for it. A background thread waits
for the GIL after each call of a driver: a hundred calls take half a second longer.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from ocl_inductor.patches.switch import enabled

_SECONDS = 2e-4


class _Turns:
    """How many threads need the short interval, and the interval to restore."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.usual = 0.0

    def shorten(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self.usual, _SECONDS))
            self.holders += 1

    def restore(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                sys.setswitchinterval(self.usual)


_turns = _Turns()


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Set the short interval; it is restored when the last of concurrent blocks ends."""
    if not enabled("switch_interval"):
        yield
        return
    _turns.shorten()
    try:
        yield
    finally:
        _turns.restore()
