"""Staging memory that the driver has pinned, through which large transfers go.

A device reads host memory by DMA only where the pages are pinned. Of pageable memory the driver
first copies a piece into its own pinned memory, in one thread, and waits for that piece: 3 to 4
GB/s were measured on an NVIDIA H200 (driver 580), whose bus does 55. Chunks are allocated and
mapped once and kept, for all plans of a device.
"""

from __future__ import annotations

import ctypes
import threading
import weakref

import numpy as np

from ocl_inductor.device import fork
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClContext, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.log import logger
from ocl_inductor.patches.process.process_hooks import at_exit
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.host_bytes import bytes_at
from ocl_inductor.runtime.pressure import frees

#: Large enough to hide the start of a transfer (some µs), small enough that the data copied by one
#: thread is still in caches when the device reads it.
CHUNK_BYTES = 4 << 20
#: Limit for one device: pinned system memory is lost to all other processes.
MOST_CHUNKS = 16

_log = logger(__name__)


class Chunk:
    """``CHUNK_BYTES`` of pinned memory at ``pointer``."""

    __slots__ = ("array", "buffer", "pointer")

    def __init__(self, context: ClContext, queue: ClQueue) -> None:
        cl = load_pyopencl()
        flags = cl.mem_flags
        self.buffer = cl.Buffer(context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, CHUNK_BYTES)
        self.array, _ = cl.enqueue_map_buffer(
            queue,
            self.buffer,
            cl.map_flags.READ | cl.map_flags.WRITE,
            0,
            (CHUNK_BYTES,),
            np.uint8,
            is_blocking=True,
        )
        self.pointer = int(self.array.ctypes.data)

    def part(self, start: int, nbytes: int) -> ctypes.Array[ctypes.c_char]:
        """A range of its bytes, as transfers take them."""
        return bytes_at(self.pointer + start, nbytes)

    def release(self, queue: object) -> None:
        """Return it to the driver; it must not be in use any more."""
        self.array.base.release(queue)


class PinnedPool:
    """The chunks of one device: those that no transfer uses, and room for more."""

    def __init__(self, device: Device) -> None:
        self.context = device.context
        # A separate queue: mapping memory waits for what is enqueued before.
        self.queue: ClQueue = None
        self.lock = threading.Lock()
        self.idle: list[Chunk] = []
        self.made = 0
        self.refused = False

    def take(self) -> Chunk | None:
        """A chunk for exclusive use until ``give``; None where there is none: transfers then do
        without."""
        with self.lock:
            if self.idle:
                return self.idle.pop()
            if self.made >= MOST_CHUNKS or self.refused:
                return None
            return self._make()

    def _make(self) -> Chunk | None:
        cl = load_pyopencl()
        try:
            if self.queue is None:
                self.queue = cl.CommandQueue(self.context)
            chunk = Chunk(self.context, self.queue)
        except (cl.Error, RuntimeError, MemoryError) as error:
            _log.info("no pinned memory, transfers go without: %s", error)
            self.refused = True  # until memory was freed
            return None
        self.made += 1
        count("pinned_bytes", CHUNK_BYTES)
        return chunk

    def give(self, chunk: Chunk) -> None:
        """Take back a chunk that no transfer uses any more."""
        with self.lock:
            self.idle.append(chunk)

    def release(self) -> int:
        """Give all idle chunks back to the driver; the bytes."""
        with self.lock:
            idle, self.idle = self.idle, []
            self.made -= len(idle)
            self.refused = False
        for chunk in idle:
            chunk.release(self.queue)
        return CHUNK_BYTES * len(idle)


_pools: weakref.WeakKeyDictionary[Device, PinnedPool] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def pinned_pool_of(device: Device) -> PinnedPool | None:
    """The pool that all plans of a device share; None where it does not help the device."""
    if not device.info.pinned_staging:
        return None
    with _lock:
        pool = _pools.get(device)
        if pool is None:
            pool = _pools[device] = PinnedPool(device)
        return pool


@frees
def release_pinned() -> int:
    """Free the pinned memory of all devices that no transfer uses; the bytes freed."""
    if fork.forked:  # the driver cannot be asked for anything
        return 0
    with _lock:
        pools = list(_pools.values())
    return sum(pool.release() for pool in pools)


# While the driver still works: otherwise a mapping would be undone after its shutdown.
at_exit(release_pinned)
