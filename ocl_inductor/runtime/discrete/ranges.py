"""Device memory by address, as the ends of transfers and the arguments of kernels.

A tensor on the device is an address. Where the driver has shared virtual memory, kernels and copies
take it as it is; elsewhere it is a place in a buffer (``resident/segments.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ocl_inductor.device.driver.handles import ClEvent, ClMemory, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.runtime.host_bytes import bytes_at


@dataclass(frozen=True, slots=True)
class DeviceRange:
    """``nbytes`` of device memory from address ``pointer`` on. ``buffer``: what they lie in, from
    its byte ``offset`` on; None: they are shared virtual memory."""

    pointer: int
    nbytes: int
    buffer: ClMemory = None
    offset: int = 0

    def svm(self, start: int, nbytes: int) -> ClMemory:
        """Some of the bytes, as pyopencl takes shared virtual memory."""
        return load_pyopencl().SVM(bytes_at(self.pointer + start, nbytes))

    def write(
        self, queue: ClQueue, start: int, source: ClMemory, nbytes: int, wait: bool = False
    ) -> ClEvent:
        """Enqueue a copy of host memory to some of the bytes; its event."""
        cl = load_pyopencl()
        if self.buffer is None:
            return cl.enqueue_copy(queue, self.svm(start, nbytes), source, is_blocking=wait)
        at = self.offset + start
        return cl.enqueue_copy(queue, self.buffer, source, dst_offset=at, is_blocking=wait)

    def read(
        self,
        queue: ClQueue,
        start: int,
        target: ClMemory,
        nbytes: int,
        wait: bool = False,
        **after: Any,
    ) -> ClEvent:
        """Enqueue a copy of some of the bytes to host memory; its event. ``after``: pyopencl's
        ``wait_for``."""
        cl = load_pyopencl()
        if self.buffer is None:
            source = self.svm(start, nbytes)
            return cl.enqueue_copy(queue, target, source, is_blocking=wait, **after)
        at = self.offset + start
        return cl.enqueue_copy(queue, target, self.buffer, src_offset=at, is_blocking=wait, **after)

    def copy_to(self, queue: ClQueue, target: DeviceRange) -> None:
        """Enqueue a copy of all bytes to another range of the device; they do not overlap."""
        cl = load_pyopencl()
        if self.buffer is None:
            there, here = target.svm(0, self.nbytes), self.svm(0, self.nbytes)
            cl.enqueue_copy(queue, there, here, is_blocking=False)
            return
        places = {"src_offset": self.offset, "dst_offset": target.offset}
        cl.enqueue_copy(queue, target.buffer, self.buffer, byte_count=self.nbytes, **places)

    def fill(self, queue: ClQueue, pattern: object) -> None:
        """Enqueue writing a NumPy array of one element everywhere."""
        cl = load_pyopencl()
        if self.buffer is None:
            cl.enqueue_svm_memfill(queue, self.svm(0, self.nbytes), pattern)
        else:
            cl.enqueue_fill_buffer(queue, self.buffer, pattern, self.offset, self.nbytes)
