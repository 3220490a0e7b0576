"""What to do when memory is short: free everything that is only cached for reuse.

Each owner of such memory registers how to free it: idle arenas of scratch memory, device buffers of
dead tensors, results of the last call.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

from ocl_inductor.errors import NO_CPU_MEMORY, DeviceMemoryError
from ocl_inductor.runtime.counters import count

T = TypeVar("T")

_releases: list[Callable[[], int]] = []
_last: list[Callable[[], int]] = []


def frees(release: Callable[[], int]) -> Callable[[], int]:
    """Registers a function that frees memory not in use at present and returns the bytes."""
    _releases.append(release)
    return release


def frees_in_need(release: Callable[[], int]) -> Callable[[], int]:
    """The same for memory that is most likely used again soon, and so kept if there is enough."""
    _last.append(release)
    return release


def release_idle() -> int:
    """Free the memory of all devices that is only cached and may not be used again; the bytes."""
    return sum(release() for release in _releases)


def release_all() -> int:
    """Free the memory of all devices that is only cached; the bytes freed."""
    return sum(release() for release in (*_releases, *_last))


def is_shortage(error: BaseException) -> bool:
    """Whether it is an out-of-memory error: ours, PyTorch's for the CPU, or Python's."""
    return isinstance(error, DeviceMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and NO_CPU_MEMORY in str(error)
    )


def with_room(allocate: Callable[[], T]) -> T:
    """``allocate()``, retried once after freeing idle memory if there was not enough."""
    try:
        return allocate()
    except DeviceMemoryError:
        gc.collect()  # compiled functions in reference cycles hold packed weights
        release_all()
        count("memory_retries")
        return allocate()
