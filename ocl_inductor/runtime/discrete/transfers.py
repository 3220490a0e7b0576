"""Large transfers in parts, through pinned memory: transfer of one part overlaps copy of the next.

Large parts are copied between a tensor and pinned memory by PyTorch, with all of its threads. Where
there is no pinned memory left, the rest of a transfer bypasses it.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from ocl_inductor.device.driver.handles import ClEvent, ClMemory, ClQueue, PyOpenCL
from ocl_inductor.runtime.discrete.pinned import CHUNK_BYTES, Chunk, PinnedPool
from ocl_inductor.runtime.discrete.ranges import DeviceRange
from ocl_inductor.runtime.host_bytes import bytes_at

#: In each direction: one is transferred, one is copied, one has just been or is about to be.
_CHUNKS_IN_FLIGHT = 4
#: Number of parts to aim at, so that the first and the last, which do not overlap, are small.
_PARTS = 6
#: Least size of a part, unless a chunk is smaller: starting one takes some µs.
_LEAST_PART = 512 << 10
#: From this size on all threads copy a part: one takes 50 us for it, all with waking them about 20.
THREADED_BYTES = 512 << 10

#: Contiguous on one side and scattered on the host: offset in the former, address, and bytes.
Pieces: TypeAlias = Sequence[tuple[int, int, int]]


def parts(nbytes: int) -> Iterator[tuple[int, int]]:
    """The start and bytes of each part of a transfer."""
    step = min(CHUNK_BYTES, max(_LEAST_PART, -(-nbytes // _PARTS // 4096) * 4096))
    for start in range(0, nbytes, step):
        yield start, min(step, nbytes - start)


def copy_bytes(to: int, source: int, nbytes: int) -> None:
    """Copy host memory; the ranges must not overlap."""
    if nbytes < THREADED_BYTES:
        ctypes.memmove(to, source, nbytes)
        return
    # A mode that watches the first call is not to see these.
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
        there, here = (
            torch.frombuffer(bytes_at(p, nbytes), dtype=torch.uint8) for p in (to, source)
        )
        there.copy_(here)


def together(pieces: Pieces, nbytes: int) -> ctypes.Array[ctypes.c_char]:
    """The bytes of the pieces as one transfer takes them: a single one in place, several copied."""
    if len(pieces) == 1:
        return bytes_at(pieces[0][1], nbytes)
    host = (ctypes.c_char * nbytes)()
    put_together(ctypes.addressof(host), pieces)
    return host


def put_together(start: int, pieces: Pieces) -> None:
    """Pack the pieces contiguously, from ``start`` on."""
    for offset, pointer, size in pieces:
        ctypes.memmove(start + offset, pointer, size)


def _write(
    cl: PyOpenCL, queue: ClQueue, target: ClMemory, start: int, source: ClMemory, nbytes: int
) -> ClEvent:
    """Enqueue a copy of host memory to a part of a buffer or of memory by address; its event."""
    if isinstance(target, DeviceRange):
        return target.write(queue, start, source, nbytes)
    return cl.enqueue_copy(queue, target, source, dst_offset=start, is_blocking=False)


def _read(
    cl: PyOpenCL,
    queue: ClQueue,
    target: ClMemory,
    source: ClMemory,
    start: int,
    nbytes: int,
    **waiting: Any,
) -> ClEvent:
    """Enqueue a copy of such a part to host memory; its event."""
    if isinstance(source, DeviceRange):
        return source.read(queue, start, target, nbytes, **waiting)
    return cl.enqueue_copy(queue, target, source, src_offset=start, is_blocking=False, **waiting)


@contextlib.contextmanager
def given_back_on_error(pool: PinnedPool, chunk: Chunk) -> Iterator[None]:
    """A chunk that no transfer uses if an error is raised inside."""
    try:
        yield
    except BaseException:
        pool.give(chunk)
        raise


class Uploads:
    """The uploads of one call: a part is copied out of the caller's memory before its transfer."""

    def __init__(self, pool: PinnedPool) -> None:
        self.pool = pool
        self.flying: deque[tuple[ClEvent, Chunk]] = deque()

    def send(
        self, cl: PyOpenCL, queue: ClQueue, buffer: ClMemory, pointer: int, nbytes: int
    ) -> ClEvent:
        """Enqueue the transfer; the event of its last part, on an in-order queue."""
        event = None
        for start, size in parts(nbytes):
            chunk = self._chunk()
            if chunk is None:
                size = nbytes - start
                return _write(cl, queue, buffer, start, bytes_at(pointer + start, size), size)
            with given_back_on_error(self.pool, chunk):
                copy_bytes(chunk.pointer, pointer + start, size)
                event = _write(cl, queue, buffer, start, chunk.part(0, size), size)
            self.flying.append((event, chunk))
            if start + size < nbytes:
                queue.flush()  # now, beside the next copy
        return event

    def send_pieces(
        self,
        cl: PyOpenCL,
        queue: ClQueue,
        buffer: ClMemory,
        start: int,
        pieces: Pieces,
        nbytes: int,
    ) -> ClEvent:
        """Enqueue a transfer of at most a chunk to ``start`` in the buffer, of scattered pieces of
        host memory; None if there is no pinned memory for it."""
        chunk = self._chunk()
        if chunk is None:
            return None
        with given_back_on_error(self.pool, chunk):
            put_together(chunk.pointer, pieces)
            part = chunk.part(0, nbytes)
            event = cl.enqueue_copy(queue, buffer, part, dst_offset=start, is_blocking=False)
        self.flying.append((event, chunk))
        return event

    def _chunk(self) -> Chunk | None:
        if len(self.flying) < _CHUNKS_IN_FLIGHT:
            chunk = self.pool.take()
            if chunk is not None:
                return chunk
        if not self.flying:
            return None
        event, chunk = self.flying.popleft()
        with given_back_on_error(self.pool, chunk):
            event.wait()
        return chunk

    def over(self) -> None:
        """All transfers have finished: release the chunks."""
        while self.flying:
            self.pool.give(self.flying.popleft()[1])


@dataclass(slots=True)
class _Request:
    """A buffer to download; the first of its ``parts`` that were not enqueued yet waits for the
    event ``after``, if any."""

    queue: ClQueue
    buffer: ClMemory
    pointer: int
    parts: deque[tuple[int, int]]
    after: ClEvent


class Downloads:
    """The downloads of one call, in the order of the requests."""

    def __init__(self, pool: PinnedPool) -> None:
        self.pool = pool
        self.waiting: deque[_Request] = deque()
        self.flying: deque[tuple[ClEvent, Chunk, int, int]] = deque()
        #: Parts that are transferred without a chunk.
        self.direct: list[ClEvent] = []

    def ask(
        self, queue: object, buffer: object, pointer: int, nbytes: int, after: object = None
    ) -> None:
        """Request a download of ``nbytes`` of a buffer to ``pointer`` after the event ``after``."""
        self.waiting.append(_Request(queue, buffer, pointer, deque(parts(nbytes)), after))

    @property
    def under_way(self) -> bool:
        """Whether any download has not finished."""
        return bool(self.waiting or self.flying)

    def start(self, cl: object) -> None:
        """Enqueue as many parts as there are chunks for."""
        while self.waiting and len(self.flying) < _CHUNKS_IN_FLIGHT:
            chunk = self.pool.take()
            if chunk is None:
                return
            self._enqueue(cl, chunk)

    def _enqueue(self, cl: object, chunk: Chunk) -> None:
        request = self.waiting[0]
        start, size = request.parts.popleft()
        with given_back_on_error(self.pool, chunk):
            part, waiting = chunk.part(0, size), _waiting_for(request)
            event = _read(cl, request.queue, part, request.buffer, start, size, **waiting)
        self.flying.append((event, chunk, request.pointer + start, size))
        request.queue.flush()
        if not request.parts:
            self.waiting.popleft()

    def land(self, cl: PyOpenCL) -> None:
        """Finish all requested downloads, and wait for them."""
        self.start(cl)
        while self.flying:
            event, chunk, pointer, size = self.flying[0]
            event.wait()
            copy_bytes(pointer, chunk.pointer, size)
            self.flying.popleft()
            if self.waiting:
                self._enqueue(cl, chunk)
            else:
                self.pool.give(chunk)
        while self.waiting:  # no chunk is available
            self._directly(cl, self.waiting.popleft())
        while self.direct:
            self.direct.pop().wait()

    def _directly(self, cl: object, request: _Request) -> None:
        start, _ = request.parts[0]
        nbytes = sum(size for _, size in request.parts)
        home = bytes_at(request.pointer + start, nbytes)
        waiting = _waiting_for(request)
        self.direct.append(_read(cl, request.queue, home, request.buffer, start, nbytes, **waiting))
        request.queue.flush()

    def over(self) -> None:
        """No transfer is in flight any more: drop unfinished downloads."""
        self.waiting.clear()
        self.direct.clear()
        while self.flying:
            self.pool.give(self.flying.popleft()[1])


def _waiting_for(request: _Request) -> dict[str, list[ClEvent]]:
    """The wait list of its next transfer; later ones are ordered behind it."""
    after, request.after = request.after, None
    return {} if after is None else {"wait_for": [after]}
