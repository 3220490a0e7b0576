"""Downloads of small results: one transfer to staging memory, from which they are copied.

A transfer to memory that is not pinned blocks until its end, even where it is asynchronous.
"""

from __future__ import annotations

import ctypes

from ocl_inductor.runtime.discrete.pinned import CHUNK_BYTES, Chunk, PinnedPool
from ocl_inductor.runtime.discrete.transfers import Pieces
from ocl_inductor.runtime.memory.strategy import MIN_BYTES


class Gathering:
    """The small downloads of one call. ``pool``: of pinned memory; None where there is none."""

    def __init__(self, pool: PinnedPool | None) -> None:
        self.pool = pool
        self.chunks: list[Chunk] = []
        self.used = CHUNK_BYTES
        #: The memory that a transfer fills, and the destinations of its pieces.
        self.expected: list[tuple[ctypes.Array[ctypes.c_char], Pieces]] = []

    def pinned(self, nbytes: int) -> ctypes.Array[ctypes.c_char] | None:
        """Room in pinned memory; None if there is not enough left."""
        if self.pool is None:
            return None
        if self.used + nbytes > CHUNK_BYTES:
            chunk = self.pool.take()
            if chunk is None:
                return None
            self.chunks.append(chunk)
            self.used = 0
        room = self.chunks[-1].part(self.used, nbytes)
        self.used += -(-nbytes // MIN_BYTES) * MIN_BYTES
        return room

    def room(self, nbytes: int) -> ctypes.Array[ctypes.c_char]:
        """Room in pinned memory if there is some, else in pageable memory."""
        return self.pinned(nbytes) or (ctypes.c_char * nbytes)()

    def expect(self, room: ctypes.Array[ctypes.c_char], pieces: Pieces) -> None:
        """A transfer will fill ``room``; the pieces are to be copied to their destinations then."""
        self.expected.append((room, pieces))

    def deliver(self) -> None:
        """Copy what has arrived by now to its destinations."""
        for room, pieces in self.expected:
            start = ctypes.addressof(room)
            for offset, pointer, nbytes in pieces:
                ctypes.memmove(pointer, start + offset, nbytes)
        self.expected.clear()

    def over(self) -> None:
        """No transfer is in flight any more: drop what was not delivered."""
        self.expected.clear()
        self.used = CHUNK_BYTES
        while self.chunks:
            assert self.pool is not None
            self.pool.give(self.chunks.pop())
