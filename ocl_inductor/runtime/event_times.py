"""How long a command took: by the device's clock, or by the host's where the driver has none.

Rusticl of Mesa 22.3 (Debian 12) says of each event that it was queued, submitted, started and ended
at 0, 1, 2 and 3 ns.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from ocl_inductor.device.driver.handles import ClEvent

#: No command takes less. Real clocks count tens of nanoseconds for an empty one.
_LEAST_NS = 2


def timed_ns(enqueue: Callable[[], ClEvent]) -> int:
    """Enqueue one command on an idle queue with PROFILING_ENABLE, and wait for it: nanoseconds."""
    began = perf_counter_ns()
    event = enqueue()
    event.wait()
    waited = perf_counter_ns() - began
    taken: int = event.profile.end - event.profile.start
    return taken if taken >= _LEAST_NS else waited
