"""A caching allocator for the memory of ``ocl`` tensors.

A tensor's ``data_ptr`` has to be an address that is valid as a kernel's argument. Where host and
device share memory, that is host memory, used in place. Elsewhere it is coarse-grained shared
virtual memory (OpenCL 2.0, section 5.6): an address that the driver reserves for device memory,
which the host must not access. On an H200 kernels read and write it as fast as buffers (4.1 TB/s;
``python -m benchmarks.gpu.svm``).

Kernels and copies use one in-order queue, so freed memory can be reused without waiting: pending
reads of it run first.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.errors import DeviceMemoryError, NoSharedMemoryError
from ocl_inductor.resident.places import index_of_place, note_use
from ocl_inductor.settings import Settings

#: Sizes of blocks, and addresses of those in host memory, are multiples of this.
ALIGNMENT = 512
_SMALL_BYTES = 64 << 10


class Block:
    """Memory of one storage. Dropping the last reference returns it to the allocator."""

    __slots__ = ("allocator", "nbytes", "owner", "piece", "pointer", "writes")

    def __init__(self, allocator: Allocator, pointer: int, nbytes: int, owner: object) -> None:
        self.allocator, self.pointer, self.nbytes, self.owner = allocator, pointer, nbytes, owner
        #: Number of writes (tensors.note_write).
        self.writes = 0
        #: What it is among the arguments of recorded operators, if any is (``eager/lazy``).
        self.piece: Any = None

    def __del__(self) -> None:
        self.allocator.take_back(self.pointer, self.nbytes, self.owner)


class Adopted(Block):
    """Memory of PyTorch's CPU allocator, kept alive by ``owner``."""

    __slots__ = ()

    def __del__(self) -> None:
        self.allocator.lose(self.nbytes)


@dataclass(slots=True)
class Statistics:
    """Bytes: in use by tensors, allocated from the driver, and the peaks of both; and events."""

    allocated: int = 0
    reserved: int = 0
    most_allocated: int = 0
    most_reserved: int = 0
    allocations: int = 0
    from_driver: int = 0
    retries: int = 0

    def as_dict(self) -> dict[str, int]:
        """By the names that ``torch.cuda.memory_stats`` has."""
        return {
            "allocated_bytes.all.current": self.allocated,
            "allocated_bytes.all.peak": self.most_allocated,
            "reserved_bytes.all.current": self.reserved,
            "reserved_bytes.all.peak": self.most_reserved,
            "allocation.all.allocated": self.allocations,
            "num_device_alloc": self.from_driver,
            "num_alloc_retries": self.retries,
        }


@dataclass(eq=False)
class Allocator:
    """Of one device, ``ocl:index``. ``in_place``: its memory is the host's."""

    device: Device
    in_place: bool
    index: int = 0
    statistics: Statistics = field(default_factory=Statistics)
    #: By size: owners by address, the latest freed last.
    _free: dict[int, dict[int, Any]] = field(default_factory=dict)
    #: Bytes at each address that came from the driver.
    _reserved: dict[int, int] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, device: Device, memory: str) -> Allocator:
        """One in host memory where the device shares it, unless ``memory`` is ``discrete``.

        Raises:
            NoSharedMemoryError: a device with memory of its own whose driver has no shared virtual
                memory.
        """
        info = device.info
        in_place = memory != "discrete" and info.unified_memory and info.zero_copy
        if not in_place and not info.shared_memory:
            raise NoSharedMemoryError(str(device))
        index = index_of_place(device)
        note_use(index)
        return cls(device, in_place, index)

    def allocate(self, nbytes: int) -> Block:
        """A block of at least ``nbytes``, uninitialised.

        Raises:
            DeviceMemoryError: not enough memory, even after releasing cached blocks.
        """
        return self.take(rounded(nbytes))

    def take(self, size: int, wanted: int = 0) -> Block:
        """``allocate`` for a rounded block size (``rounded``). ``wanted``: an address that is taken
        where it is free, so that a plan's results lie where they lay at its last call.
        """
        with self._lock:
            blocks = self._free.get(size)
            if not blocks:
                pointer, owner = self._from_driver(size)
            elif wanted in blocks:
                pointer, owner = wanted, blocks.pop(wanted)
            elif size > _SMALL_BYTES:
                pointer, owner = blocks.popitem()  # its lines may still be cached
            else:
                pointer = next(iter(blocks))  # the oldest is least likely to be wanted by a plan
                owner = blocks.pop(pointer)
            own = self.statistics
            own.allocations += 1
            own.allocated += size
            if own.allocated > own.most_allocated:
                own.most_allocated = own.allocated
        return Block(self, pointer, size, owner)

    def take_back(self, pointer: int, nbytes: int, owner: object) -> None:
        """Keep the memory of a block that is no longer in use."""
        # From a destructor, which may run anywhere: the lock is reentrant.
        with self._lock:
            self.statistics.allocated -= nbytes
            self._free.setdefault(nbytes, {})[pointer] = owner

    def adopt(self, pointer: int, nbytes: int, owner: object) -> Block:
        """Host memory, shared with the device, as a block: it is freed with its owner."""
        with self._lock:
            own = self.statistics
            own.allocated += nbytes
            own.reserved += nbytes
            own.most_allocated = max(own.most_allocated, own.allocated)
            own.most_reserved = max(own.most_reserved, own.reserved)
        return Adopted(self, pointer, nbytes, owner)

    def lose(self, nbytes: int) -> None:
        """Record that an adopted block was freed."""
        with self._lock:
            self.statistics.allocated -= nbytes
            self.statistics.reserved -= nbytes

    def release(self) -> int:
        """Return all cached blocks to the driver; the bytes."""
        with self._lock:
            kept, self._free = self._free, {}
            for blocks in kept.values():
                for pointer in blocks:
                    del self._reserved[pointer]
            freed = sum(size * len(blocks) for size, blocks in kept.items())
            if freed:
                self.device.queue.finish()  # kernels may still use what was freed
            for blocks in kept.values():
                if not self.in_place:
                    for owner in blocks.values():
                        owner.release()
            self.statistics.reserved -= freed
        return freed

    def holds(self, pointer: int) -> bool:
        """Whether an address is in memory that came from the driver."""
        with self._lock:
            return any(start <= pointer < start + n for start, n in self._reserved.items())

    def free_bytes(self) -> int:
        """Bytes that can still be allocated on the device."""
        if self.in_place:
            return int(psutil.virtual_memory().available)
        return max(0, self.device.info.global_mem_bytes - self.statistics.reserved)

    def _from_driver(self, size: int) -> tuple[int, object]:
        try:
            found = self._new(size)
        except (DeviceMemoryError, MemoryError):
            self.statistics.retries += 1
            if self.release() == 0:
                raise
            found = self._new(size)
        self._reserved[found[0]] = size
        own = self.statistics
        own.from_driver += 1
        own.reserved += size
        own.most_reserved = max(own.most_reserved, own.reserved)
        return found

    def _new(self, size: int) -> tuple[int, Any]:
        cl, info = load_pyopencl(), self.device.info
        if size > info.global_mem_bytes:
            raise self.out_of_memory(size)  # some drivers crash instead of refusing
        if self.in_place:
            try:
                host = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device="cpu")
            except RuntimeError as error:  # what PyTorch's allocator raises
                raise self.out_of_memory(size) from error
            return -(-host.data_ptr() // ALIGNMENT) * ALIGNMENT, host
        try:
            flags = cl.svm_mem_flags.READ_WRITE
            # Alignment 0: that of the largest type. Without a queue, so that it is freed at once
            # and not by a command: PoCL 3.0 frees memory of the caller's then (clEnqueueSVMFree).
            owner = cl.SVMAllocation(self.device.context, size, 0, flags)
        except (cl.MemoryError, cl.LogicError, cl.RuntimeError) as error:
            raise self.out_of_memory(size) from error
        return owner.svm_ptr, owner

    def out_of_memory(self, nbytes: int) -> DeviceMemoryError:
        """The error with the requested, held and free bytes."""
        return DeviceMemoryError(nbytes, self.statistics.reserved, self.free_bytes())


def rounded(nbytes: int) -> int:
    """The size of the block for so many bytes: one of eight in each power of two."""
    size = max(nbytes, 1)
    unit = max(ALIGNMENT, 1 << max(0, (size - 1).bit_length() - 4))
    return -(-size // unit) * unit


@functools.cache
def allocator_of(device: Device) -> Allocator:
    """The allocator of a device: one for the lifetime of the process.

    Raises:
        NoSharedMemoryError: see ``Allocator.of``.
    """
    return Allocator.of(device, Settings.resolve().memory)
