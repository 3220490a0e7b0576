"""Conversion between the clock of a device's events and the host's.

Devices count nanoseconds from an arbitrary origin. A marker that is enqueued and waited for ends
between two readings of the host's clock, which bounds the offset of the clocks; the bounds of
several markers together are tight to microseconds. Only end times are used: a driver was observed
that leaves the queueing time of markers at 0.
"""

from __future__ import annotations

import time

from ocl_inductor.device.driver.handles import ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

_MARKERS = 12
#: After this time the drift of the clocks may exceed the precision of a marker.
_REFRESH_NS = 1_000_000_000


class DeviceClock:
    """Converts the times of events on a queue to nanoseconds since 1970 (``time.time_ns``)."""

    def __init__(self, queue: ClQueue) -> None:
        self._queue = queue
        self._distance = 0
        #: Whether it runs at all (event_times.py has a driver whose clock does not).
        self.runs = True
        self._taken = 0
        self._compare()

    def to_host(self, device_ns: int) -> int:
        """The host's time of a device time near the last comparison."""
        return device_ns + self._distance

    def refresh(self) -> None:
        """Compare again if the last comparison is too old."""
        if time.time_ns() - self._taken > _REFRESH_NS:
            self._compare()

    def _compare(self) -> None:
        cl = load_pyopencl()
        low, high = None, None
        ends: set[int] = set()
        for _ in range(_MARKERS):
            before = time.time_ns()
            marker = cl.enqueue_marker(self._queue)
            marker.wait()
            after = time.time_ns()
            end = marker.profile.end
            ends.add(end)
            low = before - end if low is None else max(low, before - end)
            high = after - end if high is None else min(high, after - end)
        assert low is not None and high is not None
        self._distance = (low + high) // 2
        self.runs = len(ends) > 1
        self._taken = time.time_ns()
