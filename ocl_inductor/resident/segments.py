"""Memory from the driver: each segment is divided into the blocks of tensors.

A tensor's ``data_ptr`` has to be an address, whose bytes kernels and copies find:

- ``HostSegment``: where host and device share memory, host memory, used in place.
- ``SharedSegment``: elsewhere coarse-grained shared virtual memory (OpenCL 2.0, section 5.6): an
  address that the driver reserves for device memory, which the host must not access. On an H200
  kernels read and write it as fast as buffers (4.1 TB/s; ``python -m benchmarks.gpu.svm``).
- ``BufferSegment``: where the driver has none (OpenCL 1.2, Mesa before 25), a buffer, and as many
  addresses of the process that nothing can access: an address stands for a place in the buffer, and
  a stray access of the host's ends the process instead of spoiling other memory.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy
import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClMemory
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.runtime.discrete.ranges import DeviceRange

#: Sizes of blocks are multiples of this, and their places in a segment; their addresses, too, but
#: those of shared virtual memory, which the driver aligns.
ALIGNMENT = 512
#: Arguments of kernels that a buffer keeps ready. One takes 2 µs to make.
_MOST_PARTS = 512


def _refusals() -> tuple[type[Exception], ...]:
    """What a driver raises where there is not enough memory, and the system for addresses."""
    cl = load_pyopencl()
    return cl.MemoryError, cl.LogicError, cl.RuntimeError, OSError


class HostSegment:
    """``nbytes`` of host memory from ``start`` on.

    Raises:
        MemoryError: there is not enough.
    """

    __slots__ = ("_memory", "nbytes", "start")

    def __init__(self, device: Device, nbytes: int) -> None:
        self.nbytes = nbytes
        try:
            self._memory = torch.empty(nbytes + ALIGNMENT, dtype=torch.uint8, device="cpu")
        except RuntimeError as error:  # what PyTorch's allocator raises
            raise MemoryError from error
        self.start = -(-self._memory.data_ptr() // ALIGNMENT) * ALIGNMENT

    def free(self) -> None:
        """Return it. No command uses it any more."""
        del self._memory


class SharedSegment:
    """``nbytes`` of shared virtual memory from ``start`` on.

    Raises:
        MemoryError: there is not enough.
    """

    __slots__ = ("_memory", "nbytes", "start")

    def __init__(self, device: Device, nbytes: int) -> None:
        cl, self.nbytes = load_pyopencl(), nbytes
        flags = cl.svm_mem_flags.READ_WRITE
        try:
            # Alignment 0: that of the largest type. Without a queue, so that it is freed at once
            # and not by a command: PoCL 3.0 frees memory of the caller's then (clEnqueueSVMFree).
            self._memory = cl.SVMAllocation(device.context, nbytes, 0, flags)
        except _refusals() as error:
            raise MemoryError from error
        self.start: int = self._memory.svm_ptr

    def free(self) -> None:
        """Return it. No command uses it any more."""
        self._memory.release()

    def range(self, pointer: int, nbytes: int) -> DeviceRange:
        """Bytes of it, from an address on."""
        return DeviceRange(pointer, nbytes)

    def argument(self, pointer: int, nbytes: int) -> ClMemory:
        """The same as kernels take it."""
        return DeviceRange(pointer, nbytes).svm(0, nbytes)


class BufferSegment:
    """``nbytes`` of a buffer, for which addresses from ``start`` on stand.

    Raises:
        MemoryError: there is not enough.
    """

    __slots__ = ("_buffer", "_parts", "_reserved", "nbytes", "start")

    def __init__(self, device: Device, nbytes: int) -> None:
        cl, self.nbytes = load_pyopencl(), nbytes
        try:
            self._buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, nbytes)
            self._reserved = _reserved(nbytes)
        except _refusals() as error:
            raise MemoryError from error
        self.start = int(self._reserved.ctypes.data)
        self._parts: dict[tuple[int, int], Any] = {}

    def free(self) -> None:
        """Return it. No command uses it any more, and no kernel is to run before it has got other
        arguments."""
        parts, self._parts = self._parts, {}
        for part in parts.values():  # others may refer to them, which would keep all the memory
            part.release()
        self._buffer.release()
        del self._reserved

    def range(self, pointer: int, nbytes: int) -> DeviceRange:
        """Bytes of it, from an address on."""
        return DeviceRange(pointer, nbytes, self._buffer, pointer - self.start)

    def argument(self, pointer: int, nbytes: int) -> ClMemory:
        """The same as kernels take it. The address is aligned as the device asks of buffers."""
        key = pointer, nbytes
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= _MOST_PARTS:
                del self._parts[next(iter(self._parts))]
            found = self._buffer.get_sub_region(pointer - self.start, nbytes)
            self._parts[key] = found
        return found


#: Where the memory of tensors is.
Segment = HostSegment | SharedSegment | BufferSegment


def _reserved(nbytes: int) -> numpy.ndarray[Any, Any]:
    """Addresses without memory; where the system cannot say so, with memory that nothing uses."""
    inaccessible: dict[str, int] = {}
    if hasattr(mmap, "MAP_PRIVATE"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        inaccessible = {"flags": flags, "prot": 0}
    return numpy.frombuffer(mmap.mmap(-1, nbytes, **inaccessible), dtype=numpy.uint8)
