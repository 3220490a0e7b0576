"""Strategies for the memory of tensors: in place over host memory, or in device buffers.

Both strategies have the same interface, so the executor does not depend on which one it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import psutil
import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClContext, ClMemory, PyOpenCL
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.errors import DeviceMemoryError
from ocl_inductor.plan.plan import BufferSpec
from ocl_inductor.runtime.host_bytes import bytes_at, host_bytes
from ocl_inductor.runtime.memory.heap import Turnover
from ocl_inductor.runtime.memory.recycling import Maker, recycler_of
from ocl_inductor.runtime.memory.saved_memory import makers_of_saved
from ocl_inductor.runtime.stream import CommandStream

#: OpenCL has no empty buffers; kernels never touch these bytes.
MIN_BYTES = 64


@dataclass(frozen=True, slots=True)
class Allocation:
    """``nbytes`` of memory to divide into windows: the host's, or the device's own."""

    nbytes: int
    host: torch.Tensor | None = None
    buffer: ClMemory = None

    def host_part(self, offset: int, nbytes: int) -> torch.Tensor | None:
        """A range of its bytes as a tensor of uint8, where the host can read them in place."""
        return None if self.host is None else self.host[offset : offset + nbytes]


class Strategy(Protocol):
    """Device memory for one plan. ``nbytes`` of a tensor: from its first element.

    ``stream``: of the plan's own queues; methods that enqueue take the one of the current call.
    """

    stream: CommandStream

    def input(
        self, stream: CommandStream, name: str, tensor: torch.Tensor, nbytes: int
    ) -> ClMemory:
        """A device buffer that holds the tensor's bytes."""

    def output(
        self, stream: CommandStream, name: str, tensor: torch.Tensor, nbytes: int
    ) -> ClMemory:
        """A device buffer whose contents reach ``tensor`` at ``finish``."""

    def empty(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised tensor, as the caller gets it."""

    def overwritten(self, name: str, tensor: torch.Tensor, nbytes: int) -> None:
        """Kernels of this call write the input: ``tensor`` must hold the new contents after it."""

    def scratch(self, name: str, nbytes: int) -> ClMemory:
        """A device buffer that lives as long as the plan."""

    def allocate(self, nbytes: int) -> Allocation:
        """Memory to divide into windows.

        Raises:
            DeviceMemoryError: there is not enough memory.
        """

    def window(self, allocation: Allocation, offset: int, nbytes: int) -> ClMemory:
        """A device buffer over a part of an allocation, which must outlive it."""

    def read(
        self, stream: CommandStream, buffer: object, nbytes: int, host: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The buffer's bytes as a host tensor of uint8, after everything enqueued so far.

        ``host``: the same bytes where the host can read them in place.
        """

    def write(self, stream: CommandStream, buffer: object, data: torch.Tensor, nbytes: int) -> None:
        """Replace the buffer's bytes by those of a host tensor."""

    def finish(self, stream: CommandStream) -> None:
        """Wait for everything, and download outputs."""

    def abandon(self, stream: CommandStream) -> None:
        """After an error: wait for what was enqueued, download nothing."""

    def out_of_memory(self, nbytes: int = 0) -> DeviceMemoryError:
        """The error to raise when ``nbytes`` more (0: unknown) could not be allocated."""


def allocated_on_device(memory: OwnMemory, nbytes: int) -> Allocation:
    """A buffer in the device's own memory.

    Raises:
        DeviceMemoryError: there is not enough memory.
    """
    size = max(nbytes, MIN_BYTES)
    if size > memory.global_mem_bytes:
        raise memory.out_of_memory(size)  # some drivers crash instead of refusing
    cl = memory.cl
    try:
        buffer = cl.Buffer(memory.context, cl.mem_flags.READ_WRITE, size)
    except (cl.MemoryError, cl.LogicError) as error:  # too much in total, or for one allocation
        raise memory.out_of_memory(size) from error
    return Allocation(size, None, buffer)


def window_on_device(allocation: Allocation, offset: int, nbytes: int) -> ClMemory:
    """A part of such a buffer."""
    if nbytes in (0, allocation.nbytes):  # OpenCL knows no empty buffers
        return allocation.buffer
    return allocation.buffer.get_sub_region(offset, nbytes)


class OwnMemory(Protocol):
    """What ``allocated_on_device`` needs of a strategy."""

    cl: PyOpenCL
    context: ClContext
    global_mem_bytes: int

    def out_of_memory(self, nbytes: int = 0) -> DeviceMemoryError:
        """See :class:`Strategy`."""
        ...


class UnifiedMemory:
    """Zero copy: device buffers are windows onto host memory (checked by the self-test)."""

    #: Whether arguments of kernels are device memory by address instead of windows.
    has_addresses = False
    #: Bits that must be 0 in a tensor's address.
    unaligned = 0
    #: Whether such an address stands for a place in a buffer.
    buffers_by_address = False

    def __init__(self, device: Device) -> None:
        cl = load_pyopencl()
        self.cl = cl
        self.context = device.context
        self.stream = CommandStream.on(device.queue)
        self.flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        self.global_mem_bytes = device.info.global_mem_bytes
        self.hosts: dict[int, torch.Tensor] = {}
        self.turnover = Turnover()
        self.empty_buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, MIN_BYTES)

    def empty(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device="cpu")

    def maker(self, spec: BufferSpec) -> Maker:
        """The allocator of a result of static sizes at each call."""
        return recycler_of(spec)

    def saved_makers(self, specs: Sequence[BufferSpec]) -> dict[str, Maker]:
        """The same for results that only the backward plan gets, where they lie together."""
        return makers_of_saved(specs)

    def version(self, x: torch.Tensor) -> int:
        """A number that changes with each write that PyTorch knows of."""
        return x._version

    def at(self, pointer: int, nbytes: int) -> ClMemory:
        """The kernel argument for a tensor's memory."""
        return self.cl.Buffer(self.context, self.flags, hostbuf=bytes_at(pointer, nbytes))

    def input(
        self, stream: CommandStream, name: str, tensor: torch.Tensor, nbytes: int
    ) -> ClMemory:
        return self.at(tensor.data_ptr(), nbytes) if nbytes else self.empty_buffer

    output = input

    def overwritten(self, name: str, tensor: torch.Tensor, nbytes: int) -> None:
        """It is written in place."""

    def scratch(self, name: str, nbytes: int) -> ClMemory:
        allocation = self.allocate(nbytes)
        assert allocation.host is not None
        buffer = self.window(allocation, 0, allocation.nbytes)
        self.hosts[buffer.int_ptr] = allocation.host
        return buffer

    def allocate(self, nbytes: int) -> Allocation:
        size = max(nbytes, MIN_BYTES)
        if size > self.global_mem_bytes:
            raise self.out_of_memory(size)  # a system that overcommits would kill the process later
        try:
            return Allocation(size, torch.empty(size, dtype=torch.uint8, device="cpu"))
        except RuntimeError as error:  # what PyTorch's allocator raises
            raise self.out_of_memory(size) from error

    def window(self, allocation: Allocation, offset: int, nbytes: int) -> ClMemory:
        host = allocation.host_part(offset, nbytes)
        assert host is not None
        return self.at(host.data_ptr(), nbytes) if nbytes else self.empty_buffer

    def out_of_memory(self, nbytes: int = 0) -> DeviceMemoryError:
        in_use = sum(host.numel() for host in self.hosts.values())
        return DeviceMemoryError(nbytes, in_use, psutil.virtual_memory().available)

    def read(
        self, stream: CommandStream, buffer: ClMemory, nbytes: int, host: torch.Tensor | None = None
    ) -> torch.Tensor:
        stream.queue.finish()
        known = host if host is not None else self.hosts.get(buffer.int_ptr)
        if known is not None:
            return known[:nbytes]
        result = torch.empty(nbytes, dtype=torch.uint8, device="cpu")
        if nbytes:
            stream.cl.enqueue_copy(stream.queue, host_bytes(result, nbytes), buffer)
        return result

    def write(self, stream: CommandStream, buffer: object, data: torch.Tensor, nbytes: int) -> None:
        if nbytes:
            stream.cl.enqueue_copy(stream.queue, buffer, host_bytes(data, nbytes))

    def finish(self, stream: CommandStream) -> None:
        stream.queue.finish()

    abandon = finish
