"""Streams and events of ``torch.ocl``: a device has one queue, which runs everything in order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TypeAlias

import torch

from ocl_inductor.device.driver.handles import ClEvent
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.resident.deferred import flush
from ocl_inductor.resident.places import NAME, current_index, index_of, place
from ocl_inductor.resident.tensors import synchronize

Where: TypeAlias = torch.device | str | int | None


class Stream:
    """The queue of a device. Every object of this class stands for the same one, so that work of
    one stream never has to wait for another.
    """

    def __init__(self, device: Where = None, priority: int = 0, **_: object) -> None:
        """``priority`` has no effect.

        Raises:
            NoSuchPlaceError: there is no such device.
        """
        self.device_index = index_of(device)
        place(self.device_index)
        self.priority = 0
        self.stream_id = 0

    @property
    def device(self) -> torch.device:
        return torch.device(NAME, self.device_index)

    def synchronize(self) -> None:
        """Wait for everything that was enqueued."""
        flush()
        synchronize(place(self.device_index))

    def query(self) -> bool:
        """Whether everything that was enqueued is done.

        A driver takes a moment to notice that a place in an idle queue is reached: up to 1 ms.
        """
        event, end = self.record_event(), time.perf_counter() + 1e-3
        while not event.query() and time.perf_counter() < end:
            time.sleep(2e-5)
        return event.query()

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What comes later is behind it in the queue already."""

    def wait_stream(self, stream: Stream) -> None:
        """As ``wait_event``."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device_index == self.device_index

    def __hash__(self) -> int:
        return hash((Stream, self.device_index))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<torch.ocl.Stream device={self.device}>"


class Event:
    """A place in the queue."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **_: object) -> None:
        """``enable_timing``: ``record`` waits for what came before, and notes the time: queues of
        the product do not keep the device's own times.
        """
        self.enable_timing = enable_timing
        self._marker: ClEvent | None = None
        self._time = 0

    def record(self, stream: Stream | None = None) -> None:
        flush()
        device = place(current_index() if stream is None else stream.device_index)
        queue = device.queue
        self._marker = load_pyopencl().enqueue_marker(queue)
        queue.flush()
        if self.enable_timing:
            synchronize(device)
            self._time = time.perf_counter_ns()

    def query(self) -> bool:
        """Whether all that was enqueued before it is done; of an event not recorded, yes."""
        complete = load_pyopencl().command_execution_status.COMPLETE
        return self._marker is None or bool(self._marker.command_execution_status == complete)

    def synchronize(self) -> None:
        """Wait for it."""
        if self._marker is not None:
            self._marker.wait()

    def wait(self, stream: Stream | None = None) -> None:
        """What comes later is behind it in the queue already."""

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds to another event.

        Raises:
            ValueError: one of them was made without ``enable_timing``, or not recorded.
        """
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._marker is None or end._marker is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end._time - self._time) / 1e6


def current_stream(device: Where = None) -> Stream:
    return Stream(device)


def default_stream(device: Where = None) -> Stream:
    return Stream(device)


def set_stream(stream: Stream) -> None:
    """Without effect: there is one."""


@contextlib.contextmanager
def stream(chosen: Stream | None) -> Iterator[None]:
    """``with torch.ocl.stream(s):``"""
    yield
