"""``mode="reduce-overhead"``: how to launch kernels and wait for them, measured at the first calls.

Three ways. Launch all and let clFinish put the thread to sleep; but a driver's wake-up can take
longer than small kernels do. Poll for the end instead; but that occupies a processor that kernels
may need. Replay a command buffer, which holds all launches, with one call; but drivers for CPUs may
take longer for that than for the launches. Which is fastest depends on the driver and the plan, so
all are tried.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ocl_inductor.device.command_buffer import (
    EXTENSION,
    NotRecordedError,
    RecordedLaunch,
    Recording,
)
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClEvent, ClMemory, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.probe import command_buffers_work
from ocl_inductor.log import logger
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.stream import CommandStream

_log = logger(__name__)
#: Calls of each way before one is chosen.
SAMPLES = 7
#: Calls after which one is chosen in any case: tensors may move too often to record anything.
MOST_CALLS = 6 * SAMPLES
#: Another way must be this much faster than clFinish to be taken; less than that may be noise.
WORTH_IT = 0.9
#: Polling ends in sleep after this time: then the wake-up no longer matters.
POLL_SECONDS = 200e-6
#: Most recordings kept, one for each set of addresses of inputs and outputs.
MAX_RECORDINGS = 8

#: The counter of each way.
COUNTERS = {"finish": "finished_plans", "poll": "polled_plans", "record": "recorded_plans"}


class Movable(Protocol):
    """A tensor whose address may change with each call: its address, and buffers over it."""

    pointer: int
    windows: dict[int, ClMemory]


#: ``launches(queue, enqueue)`` enqueues all kernels of a plan; the event of the last one.
Launches = Callable[[ClQueue, Callable[..., Any]], ClEvent]


def _listed(launches: Launches) -> list[RecordedLaunch]:
    found: list[RecordedLaunch] = []
    launches(None, lambda queue, *launch: found.append(launch))
    return found


class Replay:
    """Runs the launches of one plan, whose arguments are set, and waits: the fastest way."""

    def __init__(self, device: Device, launch: Launches) -> None:
        self.launch = launch
        self.complete = load_pyopencl().command_execution_status.COMPLETE
        self.recordings = Recordings(device, _listed(launch))
        self.times: dict[str, list[float]] = {name: [] for name in COUNTERS}
        self.calls = 0
        self.chosen = ""

    def run(self, stream: CommandStream, arguments: Sequence[Movable]) -> None:
        """Launch everything and wait. ``arguments``: what may have moved since the last call."""
        recording = None
        if self.recordings.possible and self.chosen in ("", "record"):
            recording = self.recordings.of(stream.queue, arguments)
        if self.chosen:
            self._run(stream, self.chosen, recording)
            return
        self.calls += 1
        ways = ("finish", "poll") if recording is None else ("record", "finish", "poll")
        name = min(ways, key=lambda way: len(self.times[way]))
        start = time.perf_counter()
        self._run(stream, name, recording)
        self.times[name].append(time.perf_counter() - start)
        wanted = [n for n in COUNTERS if n != "record" or self.recordings.possible]
        if self.calls >= MOST_CALLS or all(len(self.times[n]) >= SAMPLES for n in wanted):
            self._choose()

    def moved(self) -> None:
        """Something other than ``arguments`` was moved: all recordings are invalid."""
        self.recordings.forget()

    def _choose(self) -> None:
        typical = {n: statistics.median(t) for n, t in self.times.items() if len(t) >= SAMPLES}
        best = min(typical, key=lambda name: typical[name])
        self.chosen = best if typical[best] < WORTH_IT * typical["finish"] else "finish"
        count(COUNTERS[self.chosen])
        _log.debug("chosen: %s; median seconds of each way: %s", self.chosen, typical)

    def _run(self, stream: CommandStream, way: str, recording: Recording | None) -> None:
        if way == "poll":
            self._poll(stream)
        elif way == "finish" or recording is None or not self._replay(stream, recording):
            self._finish(stream)

    def _replay(self, stream: CommandStream, recording: Recording) -> bool:
        try:
            recording.enqueue()
        except NotRecordedError as error:
            self.recordings.give_up(error)
            return False
        stream.queue.finish()
        return True

    def _finish(self, stream: CommandStream) -> None:
        self.launch(stream.queue, stream.cl.enqueue_nd_range_kernel)
        stream.queue.finish()

    def _poll(self, stream: CommandStream) -> None:
        event = self.launch(stream.queue, stream.cl.enqueue_nd_range_kernel)
        stream.queue.flush()
        end = time.perf_counter() + POLL_SECONDS
        while event.command_execution_status != self.complete:
            if time.perf_counter() > end:
                break
        stream.queue.finish()  # returns at once if idle, and lets the driver clean up


class Recordings:
    """Recordings of the same launches, one for each set of addresses that was seen twice."""

    def __init__(self, device: Device, launches: Sequence[RecordedLaunch]) -> None:
        self.launches = launches
        self.home = (device.queue,)
        self.possible = EXTENSION in device.info.extensions and command_buffers_work(
            device.info.key, device.names
        )
        self.known: dict[tuple[int, ...], tuple[Recording, list[Any]]] = {}
        self.seen: set[tuple[int, ...]] = set()

    def of(self, queue: object, arguments: Sequence[Movable]) -> Recording | None:
        """The recording for the arguments' current addresses; None if there is none yet."""
        if queue is not self.home[0]:  # a profile is being taken, on a queue of its own
            return None
        key = tuple([x.pointer for x in arguments])
        found = self.known.get(key)
        if found is not None:
            return found[0]
        if key not in self.seen:
            if len(self.seen) >= 4 * MAX_RECORDINGS:
                self.seen.clear()
            self.seen.add(key)
            return None
        if len(self.known) >= MAX_RECORDINGS:
            self.forget()
        try:
            recording = Recording(queue, self.launches)
        except NotRecordedError as error:
            self.give_up(error)
            return None
        # The buffers live as long as the recording.
        self.known[key] = recording, [x.windows[x.pointer] for x in arguments]
        return recording

    def forget(self) -> None:
        self.known.clear()
        self.seen.clear()

    def give_up(self, error: NotRecordedError) -> None:
        """Record nothing more."""
        _log.info("no command buffer: %s", error)
        self.possible = False
        self.forget()
