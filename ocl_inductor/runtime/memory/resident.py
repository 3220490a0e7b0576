"""Memory of plans whose tensors live on the device (``ocl``): nothing crosses the bus.

Kernels work in the tensors' own memory. A call returns when everything is enqueued, as all users of
its results are enqueued behind it or wait; only a plan that checks indices waits for the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClMemory
from ocl_inductor.errors import DeviceMemoryError, VerifyError
from ocl_inductor.plan.plan import FAULT, BufferSpec
from ocl_inductor.plan.residence import Residence
from ocl_inductor.resident.allocator import Allocator, allocator_of, rounded
from ocl_inductor.resident.places import is_resident, place_device
from ocl_inductor.resident.segments import BufferSegment
from ocl_inductor.resident.tensors import empty_strided, over, reach_of, writes
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.host_bytes import host_bytes
from ocl_inductor.runtime.memory.recycling import Maker
from ocl_inductor.runtime.memory.resident_saved import makers_together
from ocl_inductor.runtime.memory.strategy import (
    Allocation,
    UnifiedMemory,
    allocated_on_device,
    window_on_device,
)
from ocl_inductor.runtime.stream import CommandStream


class ResidentMaker:
    """Allocates one result of a plan, of static sizes, on the device."""

    __slots__ = ("allocator", "block_bytes", "dtype", "nbytes", "pointer", "size", "stride")

    def __init__(self, spec: BufferSpec, allocator: Allocator) -> None:
        self.size = tuple(int(n) for n in spec.size)
        self.stride = tuple(int(n) for n in spec.stride)
        self.dtype = spec.dtype
        self.nbytes = reach_of(self.size, self.stride) * spec.dtype.itemsize
        self.block_bytes = rounded(self.nbytes)
        self.allocator = allocator
        #: Where it lay last: nothing has to be bound where it lies there again.
        self.pointer = 0

    def make(self) -> torch.Tensor:
        block = self.allocator.take(self.block_bytes, self.pointer)
        self.pointer = block.pointer
        return over(block, self.nbytes, self.size, self.stride, 0, self.dtype)


class ResidentMemory(UnifiedMemory):
    """The strategy of plans on ``ocl`` tensors. ``verify``: refuse foreign addresses in kernels,
    which a CPU's driver would accept."""

    def __init__(self, device: Device, verify: bool = False) -> None:
        super().__init__(device)
        self.verify = verify
        self.allocator = allocator_of(device)
        self.has_addresses = not self.allocator.in_place
        self.unaligned = self.allocator.least_alignment - 1
        self.buffers_by_address = self.allocator.kind is BufferSegment
        #: Of the allocator's buffers, when everything was bound last.
        self.buffers_freed = self.allocator.buffers_freed
        #: Buffers that CPU tensors were uploaded to, by the name of the input.
        self.sent: dict[str, ClMemory] = {}
        #: CPU tensors to download at the end of a call, and their buffers.
        self.homeward: dict[str, tuple[ClMemory, torch.Tensor, int]] = {}
        #: Whether a call has to wait for its kernels. Host memory that they use may be freed by the
        #: host at any time; and on a CPU the host would only compete for the kernels' cores.
        self.waits = self.allocator.in_place or device.kind == "cpu"

    # -- tensors ---------------------------------------------------------------------------

    def empty(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return empty_strided(size, stride, dtype, self.allocator.index)

    def maker(self, spec: BufferSpec) -> ResidentMaker:
        return ResidentMaker(spec, self.allocator)

    def saved_makers(self, specs: Sequence[BufferSpec]) -> dict[str, Maker]:
        return makers_together(specs, self.allocator)

    def version(self, x: torch.Tensor) -> int:
        return writes(x) if is_resident(x) else x._version

    def aligned(self, stream: CommandStream, x: torch.Tensor) -> torch.Tensor:
        """``x``, or a copy of it that is aligned for vector loads."""
        if not is_resident(x) or not x.data_ptr() & self.unaligned:
            return x
        y = empty_strided(x.size(), x.stride(), x.dtype, self.allocator.index)
        nbytes = reach_of(x.size(), x.stride()) * x.itemsize
        source, target = (self.allocator.range(t.data_ptr(), nbytes) for t in (x, y))
        source.copy_to(stream.queue, target)
        return y

    def lost_buffers(self) -> bool:
        """Whether memory that kernels may still point to was returned to the driver since this was
        asked last."""
        before, self.buffers_freed = self.buffers_freed, self.allocator.buffers_freed
        return before != self.buffers_freed

    def at(self, pointer: int, nbytes: int) -> ClMemory:
        if self.allocator.in_place:
            return super().at(pointer, nbytes)
        if self.verify and pointer & self.unaligned:
            raise VerifyError("binding", f"{pointer:#x} is no multiple of {self.unaligned + 1}")
        if self.verify and not self.allocator.holds(pointer):
            raise VerifyError("binding", f"{pointer:#x} is no address of the device's")
        return self.allocator.argument(pointer, nbytes)

    def input(
        self, stream: CommandStream, name: str, tensor: torch.Tensor, nbytes: int
    ) -> ClMemory:
        if name == FAULT:
            self.waits = True
        if nbytes == 0:
            return self.empty_buffer
        if is_resident(tensor) or self.allocator.in_place:
            return self.at(tensor.data_ptr(), nbytes)
        buffer = self.sent[name] = self.allocate(nbytes).buffer
        self.write(stream, buffer, tensor, nbytes)
        count("bytes_uploaded", nbytes)
        if name == FAULT:
            self.homeward[name] = (buffer, tensor, nbytes)
        return buffer

    output = input

    def overwritten(self, name: str, tensor: torch.Tensor, nbytes: int) -> None:
        if nbytes and not is_resident(tensor) and not self.allocator.in_place:
            self.homeward[name] = (self.sent[name], tensor, nbytes)

    # -- memory of the plan ----------------------------------------------------------------

    def scratch(self, name: str, nbytes: int) -> ClMemory:
        if self.allocator.in_place:
            return super().scratch(name, nbytes)
        return self.allocate(nbytes).buffer

    def allocate(self, nbytes: int) -> Allocation:
        if self.allocator.in_place:
            return super().allocate(nbytes)
        return allocated_on_device(self, nbytes)

    def window(self, allocation: Allocation, offset: int, nbytes: int) -> ClMemory:
        if self.allocator.in_place:
            return super().window(allocation, offset, nbytes)
        return window_on_device(allocation, offset, nbytes)

    def out_of_memory(self, nbytes: int = 0) -> DeviceMemoryError:
        return self.allocator.out_of_memory(nbytes)

    # -- host calls ------------------------------------------------------------------------

    def read(
        self, stream: CommandStream, buffer: object, nbytes: int, host: torch.Tensor | None = None
    ) -> torch.Tensor:
        if self.allocator.in_place:
            return super().read(stream, buffer, nbytes, host)
        result = torch.empty(nbytes, dtype=torch.uint8, device="cpu")
        if nbytes:
            stream.cl.enqueue_copy(stream.queue, host_bytes(result, nbytes), buffer)
        return result

    # -- the end of a call -----------------------------------------------------------------

    def finish(self, stream: CommandStream) -> None:
        for buffer, tensor, nbytes in self.homeward.values():
            stream.cl.enqueue_copy(stream.queue, host_bytes(tensor, nbytes), buffer)
        self._keep_only_faults()
        if self.waits:
            stream.queue.finish()
        else:
            stream.queue.flush()

    def abandon(self, stream: CommandStream) -> None:
        self._keep_only_faults()
        stream.queue.finish()

    def _keep_only_faults(self) -> None:
        if len(self.homeward) > (FAULT in self.homeward):
            self.homeward = {k: v for k, v in self.homeward.items() if k == FAULT}


def arrival_of(residence: Residence | None, kinds: Sequence[str], device: Device) -> Arrival | None:
    """Moves results of these kinds to their device; None where nothing has to move."""
    if residence is None or not (residence.to_host or "host" in kinds or "value" in kinds):
        return None
    return Arrival(residence.to_host, place_device(allocator_of(device).index))


@dataclass(frozen=True, slots=True)
class Arrival:
    """Tensors at the positions ``to_host`` go to the CPU, all others to ``place``."""

    to_host: tuple[int, ...]
    place: torch.device

    def __call__(self, results: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(
            x.to("cpu" if n in self.to_host else self.place) if isinstance(x, torch.Tensor) else x
            for n, x in enumerate(results)
        )
