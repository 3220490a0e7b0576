"""A caching allocator for the memory of ``ocl`` tensors.

Blocks are parts of segments, which come from the driver (``segments.py``): those of up to 1 MiB of
segments of 2 MiB, larger ones of segments of their own. A block that is freed is kept under its
size, and given out again at its address, so that a plan's results lie where they lay. Only where
there is none of a size, a larger one is split, and free neighbours are joined.

Kernels and copies use one in-order queue, so freed memory can be reused without waiting: pending
reads of it run first.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import psutil

from ocl_inductor.device.device import Device
from ocl_inductor.device.failure import check, named
from ocl_inductor.errors import DeviceMemoryError
from ocl_inductor.resident.places import index_of_place, note_use
from ocl_inductor.resident.segments import (
    ALIGNMENT,
    BufferSegment,
    HostSegment,
    Segment,
    SharedSegment,
)
from ocl_inductor.runtime.discrete.ranges import DeviceRange
from ocl_inductor.runtime.pressure import frees_in_need, with_room
from ocl_inductor.settings import Settings

#: Of blocks up to this size, those that were freed first are used first.
_FEW_BYTES = 64 << 10
#: Blocks up to this size share segments; a larger one is split only if more than this remains.
SMALL_BYTES = 1 << 20
#: Bytes of the segments that small blocks share.
_SHARED_BYTES = 2 << 20

#: Free blocks: by size, segments by address, the latest freed last.
_Pool: TypeAlias = dict[int, dict[int, Segment]]
#: Address, size and segment of one.
_FreeBlock: TypeAlias = tuple[int, int, Segment]


class Block:
    """Memory of one storage. Dropping the last reference returns it to the allocator. ``owner``:
    its segment."""

    __slots__ = ("allocator", "nbytes", "owner", "piece", "pointer", "writes")

    def __init__(self, allocator: Allocator, pointer: int, nbytes: int, owner: Any) -> None:
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
    """Bytes: in use by tensors, allocated from the driver, and the peaks of both; and events.
    ``segments``: what the driver has given and has not got back."""

    allocated: int = 0
    reserved: int = 0
    most_allocated: int = 0
    most_reserved: int = 0
    allocations: int = 0
    from_driver: int = 0
    retries: int = 0
    segments: int = 0
    splits: int = 0
    joins: int = 0

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
            "segment.all.current": self.segments,
            "num_splits": self.splits,
            "num_joins": self.joins,
        }


@dataclass(eq=False)
class Allocator:
    """Of one device, ``ocl:index``. ``kind``: of its segments."""

    device: Device
    kind: type[Segment]
    index: int = 0
    statistics: Statistics = field(default_factory=Statistics)
    #: Buffers that were returned to the driver so far: after that, kernels need other arguments.
    buffers_freed: int = 0
    _small: _Pool = field(default_factory=dict)
    _large: _Pool = field(default_factory=dict)
    #: By address.
    _segments: list[Segment] = field(default_factory=list)
    #: While the pools are walked: blocks that destructors give back meanwhile.
    _late: list[_FreeBlock] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, device: Device, memory: str) -> Allocator:
        """One in host memory where the device shares it, unless ``memory`` (the setting) has it
        otherwise."""
        info = device.info
        kind: type[Segment] = SharedSegment if info.shared_memory else BufferSegment
        if memory == "buffers":
            kind = BufferSegment
        elif memory != "discrete" and info.unified_memory and info.zero_copy:
            kind = HostSegment
        index = index_of_place(device)
        note_use(index)
        return cls(device, kind, index)

    @property
    def in_place(self) -> bool:
        """Whether its memory is the host's."""
        return self.kind is HostSegment

    @property
    def least_alignment(self) -> int:
        """Bytes; the address of a kernel's argument is a multiple of it. 16: that of vectors."""
        if self.kind is BufferSegment:
            return max(16, self.device.info.base_address_align_bytes)
        return 1 if self.in_place else 16

    # -- blocks ----------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Block:
        """A block of at least ``nbytes``, uninitialised.

        Raises:
            DeviceMemoryError: not enough memory, even after freeing all that is only cached.
        """
        return with_room(lambda: self.take(rounded(nbytes)))

    def take(self, size: int, wanted: int = 0) -> Block:
        """A block of a rounded size (``rounded``). ``wanted``: an address that is taken where it is
        free, so that a plan's results lie where they lay at its last call.

        Raises:
            DeviceMemoryError: not enough memory, even after releasing cached blocks.
            DeviceFailedError: the device has failed before.
        """
        if self.device.failure:
            check(self.device)
        with self._lock:
            blocks = (self._small if size <= SMALL_BYTES else self._large).get(size)
            if not blocks:
                pointer, segment = self._carve(size)
            elif wanted in blocks:
                pointer, segment = wanted, blocks.pop(wanted)
            elif size > _FEW_BYTES:
                pointer, segment = blocks.popitem()  # its lines may still be cached
            else:
                pointer = next(iter(blocks))  # the oldest is least likely to be wanted by a plan
                segment = blocks.pop(pointer)
            own = self.statistics
            own.allocations += 1
            own.allocated += size
            if own.allocated > own.most_allocated:
                own.most_allocated = own.allocated
        return Block(self, pointer, size, segment)

    def take_back(self, pointer: int, nbytes: int, segment: Segment) -> None:
        """Keep the memory of a block that is no longer in use."""
        # From a destructor, which may run anywhere: the lock is reentrant.
        with self._lock:
            self.statistics.allocated -= nbytes
            if self._late is not None:
                self._late.append((pointer, nbytes, segment))
                return
            pool = self._small if nbytes <= SMALL_BYTES else self._large
            pool.setdefault(nbytes, {})[pointer] = segment

    def _carve(self, size: int) -> tuple[int, Segment]:
        """A block where there is none of this size: of a larger one, or from the driver."""
        pool = self._small if size <= SMALL_BYTES else self._large
        with self._undisturbed():
            found = self._split(pool, size)
            if found is None and self._join(pool):
                found = self._split(pool, size)
            if found is None:
                segment = self._from_driver(size)
                if segment.nbytes > size:
                    pool.setdefault(segment.nbytes - size, {})[segment.start + size] = segment
                found = segment.start, segment
        return found

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Pools that change only by what is done inside. The lock is held."""
        if self._late is not None:
            yield
            return
        late: list[_FreeBlock] = []
        self._late = late
        try:
            yield
        finally:
            self._late = None
            for pointer, nbytes, segment in late:
                self.statistics.allocated += nbytes  # which it was counted as, and is again
                self.take_back(pointer, nbytes, segment)

    def _split(self, pool: _Pool, size: int) -> tuple[int, Segment] | None:
        """The front of the smallest block that holds this size."""
        least = size if pool is self._small else size + SMALL_BYTES
        fitting = [n for n, blocks in pool.items() if blocks and (n == size or n > least)]
        if not fitting:
            return None
        whole = min(fitting)
        pointer, segment = pool[whole].popitem()
        if whole > size:
            pool.setdefault(whole - size, {})[pointer + size] = segment
            self.statistics.splits += 1
        return pointer, segment

    def _join(self, pool: _Pool) -> bool:
        """Make one block of free neighbours; whether there were any."""
        joins = self.statistics.joins
        free = sorted(
            (
                (pointer, n, segment)
                for n, blocks in pool.items()
                for pointer, segment in blocks.items()
            ),
            key=lambda block: block[0],
        )
        for start, nbytes, parts in _runs(free):
            if len(parts) > 1:
                for pointer, n, _ in parts:
                    del pool[n][pointer]
                pool.setdefault(nbytes, {})[start] = parts[0][2]
                self.statistics.joins += 1
        for n in [n for n, blocks in pool.items() if not blocks]:
            del pool[n]
        return self.statistics.joins > joins

    # -- other memory ----------------------------------------------------------------------

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

    # -- access ----------------------------------------------------------------------------

    def holds(self, pointer: int) -> bool:
        """Whether an address is in memory that came from the driver."""
        segment = self._segment_before(pointer)
        return segment is not None and pointer < segment.start + segment.nbytes

    def range(self, pointer: int, nbytes: int) -> DeviceRange:
        """Device memory as copies take it."""
        return self._on_device(pointer).range(pointer, nbytes)

    def argument(self, pointer: int, nbytes: int) -> Any:
        """Device memory as a kernel takes it. ``pointer``: a multiple of ``least_alignment``."""
        return self._on_device(pointer).argument(pointer, nbytes)

    def _on_device(self, pointer: int) -> SharedSegment | BufferSegment:
        segment = self._segment_before(pointer)
        assert isinstance(segment, SharedSegment | BufferSegment)
        return segment

    def _segment_before(self, pointer: int) -> Segment | None:
        """The last one that begins at an address or before it."""
        with self._lock:
            n = bisect.bisect_right(self._segments, pointer, key=_start)
            return self._segments[n - 1] if n else None

    # -- the driver ------------------------------------------------------------------------

    def release(self) -> int:
        """Return all segments of which nothing is in use to the driver; the bytes. None of those of
        a device that has failed: others, which are short of memory, call this too."""
        if self.device.failure:
            return 0
        with self._lock, self._undisturbed():
            unused: list[Segment] = []
            for pool in (self._small, self._large):
                self._join(pool)
                for n, blocks in pool.items():
                    whole = [s for s in blocks.values() if s.nbytes == n]
                    for segment in whole:
                        del blocks[segment.start]
                    unused += whole
            if not unused:
                return 0
            with named(self.device):
                self.device.queue.finish()  # kernels may still use what was freed
            freed = sum(segment.nbytes for segment in unused)
            gone = {segment.start for segment in unused}
            self._segments = [s for s in self._segments if s.start not in gone]
            if self.kind is BufferSegment:
                self.buffers_freed += len(unused)
            for segment in unused:
                segment.free()
            self.statistics.reserved -= freed
            self.statistics.segments -= len(unused)
        return freed

    def free_bytes(self) -> int:
        """Bytes that can still be allocated on the device."""
        if self.in_place:
            return int(psutil.virtual_memory().available)
        return max(0, self.device.info.global_mem_bytes - self.statistics.reserved)

    def _from_driver(self, size: int) -> Segment:
        """A segment for a block of this size: one that others can share, where there is enough."""
        shared = _SHARED_BYTES if size <= SMALL_BYTES else size
        found = self._new(shared)
        if found is None:
            self.statistics.retries += 1
            if self.release():
                found = self._new(shared)
            if found is None and shared > size:
                found = self._new(size)
            if found is None:
                raise self.out_of_memory(size)
        bisect.insort(self._segments, found, key=_start)
        own = self.statistics
        own.from_driver += 1
        own.segments += 1
        own.reserved += found.nbytes
        own.most_reserved = max(own.most_reserved, own.reserved)
        return found

    def _new(self, size: int) -> Segment | None:
        """One from the driver; None: there is not enough memory."""
        if size <= self.device.info.global_mem_bytes:  # some drivers crash instead of refusing
            try:
                return self.kind(self.device, size)
            except MemoryError:
                return None
        return None

    def out_of_memory(self, nbytes: int) -> DeviceMemoryError:
        """The error with the requested, held and free bytes."""
        return DeviceMemoryError(nbytes, self.statistics.reserved, self.free_bytes())


def rounded(nbytes: int) -> int:
    """The size of the block for so many bytes: one of eight in each power of two."""
    size = max(nbytes, 1)
    unit = max(ALIGNMENT, 1 << max(0, (size - 1).bit_length() - 4))
    return -(-size // unit) * unit


def _start(segment: Segment) -> int:
    return segment.start


def _runs(free: list[_FreeBlock]) -> Iterator[tuple[int, int, list[_FreeBlock]]]:
    """Start, bytes and blocks of each run of neighbours in a segment; ``free`` is in order."""
    run: list[_FreeBlock] = []
    for block in free:
        if run and (block[2] is not run[-1][2] or block[0] != run[-1][0] + run[-1][1]):
            yield run[0][0], sum(n for _, n, _ in run), run
            run = []
        run.append(block)
    if run:
        yield run[0][0], sum(n for _, n, _ in run), run


_all: list[Allocator] = []


@functools.cache
def allocator_of(device: Device) -> Allocator:
    """The allocator of a device: one for the lifetime of the process."""
    _all.append(Allocator.of(device, Settings.resolve().memory))
    return _all[-1]


@frees_in_need
def _release_unused() -> int:
    """Return all memory that tensors do not use to the drivers; the bytes."""
    return sum(allocator.release() for allocator in _all)
