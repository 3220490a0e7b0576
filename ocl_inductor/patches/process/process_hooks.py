"""What the process does for us at a fork and at its end."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[[], Any])


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Call it in each child of a fork; nothing on systems without."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def at_exit(function: _Function) -> _Function:
    """Call it when the interpreter ends, before what was registered earlier."""
    atexit.register(function)
    return function
