"""Computes a value in a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ocl_inductor.patches.process.switch_interval import short_turns

_Made = TypeVar("_Made")


def make_in_background(make: Callable[[], _Made]) -> Future[_Made]:
    """A future of what ``make`` returns or raises.

    Modes of this thread (fake tensors) are not active in the background thread.
    """
    made: Future[_Made] = Future()

    def work() -> None:
        try:
            with short_turns():
                result = make()
        except BaseException as error:
            made.set_exception(error)
        else:
            made.set_result(result)

    threading.Thread(target=work, name="ocl_inductor executor").start()
    return made
