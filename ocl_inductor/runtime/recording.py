"""Times of everything that compiled graphs enqueue, from OpenCL's events.

While an :class:`EventRecorder` is active, each call of an executor enqueues with a stream of the
recorder's (stream.py): to profiling queues (the plan's own do not profile: that costs about 0.1 µs
a kernel), through functions that note the events they return. The plan's objects stay as they are.
Without a recorder a call only checks for one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ocl_inductor.device.driver.handles import ClEvent, ClKernel, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.plan.plan import HostCall, Launch, Plan, SizeText
from ocl_inductor.runtime.device_clock import DeviceClock
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.runtime.stream import CommandStream


@dataclass(frozen=True, slots=True)
class Span:
    """One kernel, transfer or host call. Times in nanoseconds since 1970, on the host's clock.

    ``operators``: what the kernel computes; ``flops`` and ``nbytes``: of this one call;
    ``fallback``: a host call in place of a missing lowering. ``form``: the kernel's cost as its
    plan has it, which distinguishes layers of different sizes, but not the calls of one.
    """

    kind: Literal["kernel", "transfer", "host"]
    name: str
    start_ns: int
    end_ns: int
    flops: int = 0
    nbytes: int = 0
    operators: tuple[str, ...] = ()
    fallback: bool = False
    form: tuple[SizeText, ...] = ()


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of a compiled graph: when it ran on the host, and what it ran."""

    device: str
    thread: int
    start_ns: int
    end_ns: int
    spans: tuple[Span, ...]


class Recordable(Protocol):
    """The interface of an executor for the recorder."""

    plan: Plan
    sizes: Sizes
    device_name: str
    stream: CommandStream

    def kernel_steps(self) -> list[tuple[ClKernel, Launch]]:
        """Each kernel object with the step it belongs to."""


#: The recorder that calls of executors report to, if any.
active: EventRecorder | None = None


class EventRecorder:
    """Collects ``calls`` of all executors in all threads while it is active (``with``).

    ``overhead_ns``: host time spent on reading events, outside of all calls.

    Raises OpenCLInductorError where another one is active.
    """

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []
        self.overhead_ns = 0
        self._lock = threading.Lock()
        self._lanes: dict[int, _Lane] = {}

    def __enter__(self) -> EventRecorder:
        global active
        if active is not None:
            raise OpenCLInductorError(
                "A profile is being taken already, in this thread or another one: end it first."
            )
        active = self
        return self

    def __exit__(self, *error: object) -> None:
        global active
        active = None

    @contextlib.contextmanager
    def call(self, executor: Recordable) -> Iterator[CommandStream]:
        """Record what is enqueued inside with the stream; the caller holds the executor's lock."""
        began = time.time_ns()
        own = executor.stream
        lanes = {queue.int_ptr: self._lane(queue) for queue in (own.queue, own.transfers)}
        notes = CallRecording(executor, all(lane.clock.runs for lane in lanes.values()))
        timed, beside = (lanes[q.int_ptr].timed_queue for q in (own.queue, own.transfers))
        start = time.time_ns()
        try:
            yield CommandStream(timed, beside, notes.library, notes.host_call)
        finally:
            for lane in lanes.values():
                lane.timed_queue.finish()
            end = time.time_ns()
            spans = notes.spans(lanes, start, end)
            for lane in lanes.values():
                lane.clock.refresh()
            record = CallRecord(executor.device_name, threading.get_ident(), start, end, spans)
            with self._lock:
                self.calls.append(record)
                self.overhead_ns += time.time_ns() - end + start - began

    def _lane(self, queue: ClQueue) -> _Lane:
        with self._lock:
            lane = self._lanes.get(queue.int_ptr)
            if lane is None:
                queue.finish()
                lane = self._lanes[queue.int_ptr] = _Lane(queue)
            return lane


class _Lane:
    """A queue, a profiling queue of the same device, and the clock of the device."""

    def __init__(self, queue: ClQueue) -> None:
        cl = load_pyopencl()
        self.queue = queue  # prevents reuse of the address that identifies the lane
        properties = queue.properties | cl.command_queue_properties.PROFILING_ENABLE
        self.timed_queue = cl.CommandQueue(queue.context, queue.device, properties=properties)
        self.clock = DeviceClock(self.timed_queue)


class CallRecording:
    """Everything that one call enqueues. ``timed``: whether events have times; else each command is
    waited for, and has the host's."""

    def __init__(self, executor: Recordable, timed: bool = True) -> None:
        self.timed = timed
        self.plan = executor.plan
        self.sizes = executor.sizes
        self.steps = {k.int_ptr: step for k, step in executor.kernel_steps()}
        self.library = _NotingLibrary(self)
        self.events: list[tuple[ClEvent, int, str, tuple[object, ...]]] = []
        #: By position among the events.
        self.host_times: list[tuple[int, int]] = []
        self.host: list[Span] = []

    def host_call(self, step: HostCall, start_ns: int) -> None:
        """Record a host call that ends now."""
        end = time.time_ns()
        self.host.append(
            Span("host", step.label, start_ns, end, operators=(step.label,), fallback=step.fallback)
        )

    def spans(self, lanes: dict[int, _Lane], start: int, end: int) -> tuple[Span, ...]:
        """All that ran, by time. Clocks agree to microseconds only, hence the clamps."""
        clocks = {lane.timed_queue.int_ptr: lane.clock for lane in lanes.values()}
        found = list(self.host)
        cl = load_pyopencl()
        for n, (event, queue, command, args) in enumerate(self.events):
            clock = clocks.get(queue)
            try:
                first, last = event.profile.start, event.profile.end
            except cl.Error:  # a failed command has no times; its error is raised later
                continue
            if clock is None:
                continue
            if self.timed:
                first, last = clock.to_host(first), clock.to_host(last)
            else:
                first, last = self.host_times[n]
            first = min(max(first, start), end)
            last = min(max(last, first), end)
            if command == "enqueue_nd_range_kernel":
                found.append(self._kernel(args[1], first, last))
            elif command != "enqueue_marker":
                found.append(Span("transfer", command[8:], first, last, nbytes=_moved(args)))
        return tuple(sorted(found, key=lambda s: s.start_ns))

    def _kernel(self, kernel: ClKernel, first: int, last: int) -> Span:
        step = self.steps.get(kernel.int_ptr)
        if step is None:
            return Span("kernel", kernel.function_name, first, last)
        made = self.plan.kernels[step.kernel]
        flops, nbytes = self.sizes(step.flops), self.sizes(step.bytes)
        form = (step.flops, step.bytes)
        return Span("kernel", made.name, first, last, flops, nbytes, made.operators, form=form)


class _NotingLibrary:
    """pyopencl, with enqueuing functions that record the event they return."""

    def __init__(self, recording: CallRecording) -> None:
        self._cl = load_pyopencl()
        self._recording = recording

    def __getattr__(self, name: str) -> object:
        value = getattr(self._cl, name)
        if name.startswith("enqueue_"):
            value = self._noting(name, value)
        setattr(self, name, value)
        return value

    def _noting(self, name: str, enqueue: Callable[..., object]) -> Callable[..., object]:
        recording = self._recording
        events = recording.events

        def noted(queue: ClQueue, *args: object, **kwargs: object) -> object:
            event = enqueue(queue, *args, **kwargs)
            events.append((event, queue.int_ptr, name, (queue, *args)))
            return event

        def waited_for(queue: ClQueue, *args: object, **kwargs: object) -> object:
            queue.finish()
            began = time.time_ns()
            event = noted(queue, *args, **kwargs)
            queue.finish()
            recording.host_times.append((began, time.time_ns()))
            return event

        return noted if recording.timed else waited_for


def _moved(args: tuple[Any, ...]) -> int:
    """Bytes of a transfer: of its host side, or of the smaller buffer."""
    cl = load_pyopencl()
    buffers, hosts = [], []
    for x in args[1:3]:
        if isinstance(x, cl.MemoryObject):
            buffers.append(int(x.size))
        else:
            with contextlib.suppress(TypeError):
                hosts.append(memoryview(x).nbytes)
    return min(hosts or buffers, default=0)
