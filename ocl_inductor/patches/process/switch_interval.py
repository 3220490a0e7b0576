"""Short turns of Python threads while something is made in a thread beside others.

A thread that runs Python lets another wait for 5 ms. A driver that is called a hundred times then
stands still for half a second, since each return is such a wait.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from ocl_inductor.patches.switch import enabled

_SECONDS = 2e-4


class _Turns:
    """How many ask for short turns, and how long they are otherwise."""

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
    """Turns are short in here, whichever thread asked for it last."""
    if not enabled("switch_interval"):
        yield
        return
    _turns.shorten()
    try:
        yield
    finally:
        _turns.restore()
