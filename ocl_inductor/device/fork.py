"""After a fork the child has the parent's OpenCL handles, but none of the driver's threads.

A kernel enqueued there hangs (PoCL) or runs on a broken thread pool, and a driver cannot be loaded
a second time. So an error tells the child what to do instead. Everything else works there: the
handles are never used, and data-loading workers never come here.
"""

from __future__ import annotations

from ocl_inductor.errors import ForkedProcessError
from ocl_inductor.patches.process.process_hooks import after_fork_in_child

#: Whether this process was forked from one that had loaded the OpenCL drivers. Read it directly in
#: paths where a function call counts.
forked = False
#: Whether it was, or one of its devices has failed (failure.py).
stopped = False
_loaded = False


def drivers_loaded() -> None:
    """Record that from now on a forked child cannot use OpenCL."""
    global _loaded
    _loaded = True


def check() -> None:
    """Raise ForkedProcessError in a child that cannot use OpenCL."""
    if forked:
        raise ForkedProcessError()


def _in_child() -> None:
    global forked, stopped
    forked = _loaded
    stopped |= forked


after_fork_in_child(_in_child)
