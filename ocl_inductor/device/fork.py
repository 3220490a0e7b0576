"""After a fork the child has the parent's OpenCL handles, but none of the driver's threads.

A kernel enqueued there waits for ever (PoCL) or runs on a broken pool of threads, and a driver
cannot be loaded a second time. So the child is told what to do instead. Everything else works in
it: the handles are never touched, and data-loading workers never come here.
"""

from __future__ import annotations

from ocl_inductor.errors import ForkedProcessError
from ocl_inductor.patches.process.process_hooks import after_fork_in_child

#: Whether this process was forked from one that had loaded the OpenCL drivers. Read it directly in
#: paths where a function call counts.
forked = False
_loaded = False


def drivers_loaded() -> None:
    """Say that from now on a forked child cannot use OpenCL."""
    global _loaded
    _loaded = True


def check() -> None:
    """Raise ForkedProcessError in a child that cannot use OpenCL."""
    if forked:
        raise ForkedProcessError()


def _in_child() -> None:
    global forked
    forked = _loaded


after_fork_in_child(_in_child)
