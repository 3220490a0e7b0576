"""Something is made in a thread of its own, while this one goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Made = TypeVar("_Made")

#: How long a thread that runs Python lets another wait, in seconds. By default 5 ms: a driver that
#: is called a hundred times then stands still for half a second, since each return is such a wait.
_PATIENCE_SECONDS = 2e-4


def made_meanwhile(make: Callable[[], _Made]) -> Future[_Made]:
    """What ``make`` returns or raises.

    No mode that is on in this thread (fake tensors) is on in the other one.
    """
    made: Future[_Made] = Future()

    def work() -> None:
        try:
            with _patience:
                result = make()
        except BaseException as error:
            made.set_exception(error)
        else:
            made.set_result(result)

    threading.Thread(target=work, name="ocl_inductor executor").start()
    return made


class _Patience:
    """Turns of Python threads are short while somebody holds this."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.usual = 0.0

    def __enter__(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self.usual, _PATIENCE_SECONDS))
            self.holders += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                sys.setswitchinterval(self.usual)


_patience = _Patience()
