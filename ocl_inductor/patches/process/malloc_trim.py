"""Freed memory, given back to the system.

The C library keeps what a thread frees for that thread. A driver frees 2 to 5 MiB after it has
loaded a program, in the thread that loads it: of the 55 kernels of mobilenet_v2, 25 MiB were kept
so.
"""

from __future__ import annotations

import contextlib
import ctypes

from ocl_inductor.patches.switch import enabled


def give_back_freed() -> None:
    """Give it back, in 2 to 10 ms in which other threads run. Nothing where there is no glibc."""
    if enabled("malloc_trim"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
