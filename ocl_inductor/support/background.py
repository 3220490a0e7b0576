"""Something is made in a thread of its own, while this one goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ocl_inductor.patches.process.switch_interval import short_turns

_Made = TypeVar("_Made")


def make_in_background(make: Callable[[], _Made]) -> Future[_Made]:
    """What ``make`` returns or raises.

    No mode that is on in this thread (fake tensors) is on in the other one.
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
