"""Functions that are called after a fork and at interpreter exit."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[[], Any])


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Call ``function`` in each forked child. No effect on systems without fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def at_exit(function: _Function) -> _Function:
    """Call ``function`` at interpreter exit, before those that were registered earlier."""
    atexit.register(function)
    return function
