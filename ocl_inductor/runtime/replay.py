"""``mode="reduce-overhead"``: how to wait for the kernels of a plan, measured at its first calls.

clFinish lets the thread sleep, and a driver's wake-up can take longer than small kernels do. Asking
for the end instead takes a processor that kernels may need. Which of the two is faster differs from
driver to driver and from plan to plan, so both are tried.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from ocl_inductor.device import Device
from ocl_inductor.drivers import load_pyopencl
from ocl_inductor.runtime.counters import count

#: Calls of each way before one is chosen.
SAMPLES = 7
#: Asking must be this much faster to be taken; less than that may be noise.
WORTH_IT = 0.9
#: It ends in sleep after this time: then the wake-up no longer matters.
POLL_SECONDS = 200e-6

#: A kernel object with its arguments set, global size, local size.
LaunchSite = tuple[Any, tuple[int, ...], tuple[int, ...] | None]


class Replay:
    """Runs the launches of one plan, whose arguments are set, and waits the faster way."""

    def __init__(self, device: Device, launches: Sequence[LaunchSite]) -> None:
        self.cl = load_pyopencl()
        self.queue = device.queue
        self.launches = tuple(launches)
        self.complete = self.cl.command_execution_status.COMPLETE
        self.ways: dict[str, Callable[[], None]] = {"finish": self._finish, "poll": self._poll}
        self.times: dict[str, list[float]] = {name: [] for name in self.ways}
        self.chosen = ""

    def run(self) -> None:
        """Launch everything and wait."""
        if self.chosen:
            self.ways[self.chosen]()
            return
        name = min(self.ways, key=lambda way: len(self.times[way]))
        start = time.perf_counter()
        self.ways[name]()
        self.times[name].append(time.perf_counter() - start)
        if all(len(t) >= SAMPLES for t in self.times.values()):
            self._choose()

    def _choose(self) -> None:
        typical = {name: statistics.median(t) for name, t in self.times.items()}
        self.chosen = "poll" if typical["poll"] < WORTH_IT * typical["finish"] else "finish"
        if self.chosen == "poll":
            count("polled_plans")
        else:
            count("finished_plans")

    def _finish(self) -> None:
        for kernel, global_size, local_size in self.launches:
            self.cl.enqueue_nd_range_kernel(self.queue, kernel, global_size, local_size)
        self.queue.finish()

    def _poll(self) -> None:
        event: Any = None
        for kernel, global_size, local_size in self.launches:
            event = self.cl.enqueue_nd_range_kernel(self.queue, kernel, global_size, local_size)
        self.queue.flush()
        end = time.perf_counter() + POLL_SECONDS
        while event is not None and event.command_execution_status != self.complete:
            if time.perf_counter() > end:
                break
        self.queue.finish()  # at once if nothing is left, and the driver may tidy up
