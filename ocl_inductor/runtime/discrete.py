"""Memory of the device's own: explicit transfers, on a queue beside that of the kernels.

Parameters stay on the device and are uploaded again when they changed. Uploads do not block: a
kernel waits for the tensors it reads, so the first kernels run while the rest is still on its way.
A result goes home as soon as the last kernel that touches it is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ocl_inductor.device import Device
from ocl_inductor.drivers import load_pyopencl
from ocl_inductor.errors import DeviceMemoryError
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.memory import MIN_BYTES, Allocation, host_bytes
from ocl_inductor.runtime.residents import residents_of


class DiscreteMemory:
    """The strategy with transfers, for one plan."""

    def __init__(self, device: Device) -> None:
        cl = load_pyopencl()
        self.cl = cl
        self.device = device
        self.context = device.context
        self.queue = device.queue
        self.transfers = cl.CommandQueue(device.context)
        self.residents = residents_of(device)
        self.buffers: dict[str, tuple[int, Any]] = {}
        #: Uploads that no kernel has waited for, by the name of the input.
        self.arriving: dict[str, Any] = {}
        #: Results that have not started on their way home.
        self.pending: dict[str, tuple[Any, torch.Tensor, int]] = {}
        self.leaving: list[Any] = []
        self.in_use = 0

    def _buffer(self, name: str, nbytes: int) -> Any:
        have = self.buffers.get(name)
        if have is not None and have[0] >= nbytes:
            return have[1]
        allocation = self.allocate(nbytes)
        self.in_use += allocation.nbytes - (have[0] if have else 0)
        self.buffers[name] = (allocation.nbytes, allocation.buffer)
        return allocation.buffer

    def allocate(self, nbytes: int) -> Allocation:
        size = max(nbytes, MIN_BYTES)
        if size > self.device.info.global_mem_bytes:
            raise self.out_of_memory(size)  # some drivers crash instead of refusing
        try:
            buffer = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, size)
        except (self.cl.MemoryError, self.cl.LogicError) as error:  # too much, or too much at once
            raise self.out_of_memory(size) from error
        return Allocation(size, None, buffer)

    def window(self, allocation: Allocation, offset: int, nbytes: int) -> Any:
        if nbytes in (0, allocation.nbytes):  # OpenCL knows no empty buffers
            return allocation.buffer
        return allocation.buffer.get_sub_region(offset, nbytes)

    def out_of_memory(self, nbytes: int = 0) -> DeviceMemoryError:
        free = self.device.info.global_mem_bytes - self.in_use
        return DeviceMemoryError(nbytes, self.in_use, max(0, free))

    # -- to the device ---------------------------------------------------------------------

    def input(self, name: str, tensor: torch.Tensor, nbytes: int) -> Any:
        buffer = self._buffer(name, nbytes)
        if nbytes:
            count("bytes_uploaded", nbytes)
            self.arriving[name] = self.cl.enqueue_copy(
                self.transfers, buffer, host_bytes(tensor, nbytes), is_blocking=False
            )
        return buffer

    def arrivals(self, names: Iterable[str]) -> list[Any] | None:
        """What a kernel that reads these buffers has to wait for; later ones queue behind it."""
        if not self.arriving:
            return None
        events = [self.arriving.pop(n) for n in names if n in self.arriving]
        if events:
            self.transfers.flush()
        return events or None

    def write(self, buffer: Any, data: torch.Tensor, nbytes: int) -> None:
        if nbytes:
            count("bytes_uploaded", nbytes)
            self.cl.enqueue_copy(self.queue, buffer, host_bytes(data, nbytes), is_blocking=True)

    def scratch(self, name: str, nbytes: int) -> Any:
        return self._buffer(name, nbytes)

    # -- tensors that stay there -----------------------------------------------------------

    def stay(self, tensor: torch.Tensor, nbytes: int) -> Any:
        """A buffer of its own for a new tensor, whose contents are never brought home."""
        size = max(nbytes, MIN_BYTES)
        buffer = self.residents.spare_buffer(size)
        if buffer is None:
            buffer = self.allocate(size).buffer
        self.residents.keep(tensor, buffer, size)
        count("bytes_kept_on_device", nbytes)
        return buffer

    def resident(self, tensor: torch.Tensor, nbytes: int) -> Any:
        """The buffer that holds a tensor's contents, or None: they are in host memory."""
        found = self.residents.find(tensor)
        if found is None:
            return None
        buffer, size = found
        return buffer if nbytes <= size and tensor.storage_offset() == 0 else None

    def bring_home(self, tensor: torch.Tensor) -> None:
        """Make host memory hold the contents of a tensor that stayed on the device."""
        found = self.residents.find(tensor)
        if found is not None:
            whole = tensor.untyped_storage().nbytes()
            start = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
            count("bytes_downloaded", whole)
            self.cl.enqueue_copy(self.queue, host_bytes(start, whole), found[0], is_blocking=True)

    # -- home ------------------------------------------------------------------------------

    def output(self, name: str, tensor: torch.Tensor, nbytes: int) -> Any:
        buffer = self._buffer(name, nbytes)
        if nbytes:
            self.pending[name] = (buffer, tensor, nbytes)
        return buffer

    def ready(self, names: Iterable[str], event: Any) -> None:
        """Bring these outputs home once ``event``, the last kernel to touch them, is over."""
        for name in names:
            self._download(name, self.transfers, [event])
        self.queue.flush()
        self.transfers.flush()

    def _download(self, name: str, queue: Any, after: list[Any] | None) -> None:
        found = self.pending.pop(name, None)
        if found is None:
            return
        buffer, tensor, nbytes = found
        count("bytes_downloaded", nbytes)
        home = host_bytes(tensor, nbytes)
        self.leaving.append(
            self.cl.enqueue_copy(queue, home, buffer, is_blocking=False, wait_for=after)
        )

    def read(self, buffer: Any, nbytes: int, host: torch.Tensor | None = None) -> torch.Tensor:
        result = torch.empty(nbytes, dtype=torch.uint8)
        if nbytes:
            count("bytes_downloaded", nbytes)
            self.cl.enqueue_copy(self.queue, host_bytes(result, nbytes), buffer, is_blocking=True)
        return result

    def finish(self) -> None:
        for name in list(self.pending):
            self._download(name, self.queue, None)
        self.abandon()

    def abandon(self) -> None:
        self.pending.clear()
        # Each queue may wait for the other, and only what was flushed is sure to start.
        self.queue.flush()
        self.transfers.finish()
        self.queue.finish()
        self.arriving.clear()
        self.leaving.clear()
