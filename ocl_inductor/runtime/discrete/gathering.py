"""Small results on their way home: through memory that one transfer fills, and from there on.

A transfer to memory that is not pinned waits for its end, however it is asked for.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ocl_inductor.runtime.discrete.pinned import CHUNK_BYTES, Chunk, PinnedPool
from ocl_inductor.runtime.discrete.transfers import Pieces
from ocl_inductor.runtime.memory.strategy import MIN_BYTES


class Gathering:
    """Of one call. ``pool``: where pinned memory comes from; None where there is none."""

    def __init__(self, pool: PinnedPool | None) -> None:
        self.pool = pool
        self.chunks: list[Chunk] = []
        self.used = CHUNK_BYTES
        #: The memory that a transfer fills, and what goes where from there.
        self.expected: list[tuple[Any, Pieces]] = []

    def pinned(self, nbytes: int) -> Any:
        """Room in pinned memory, none of which is left over where the answer is None."""
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

    def room(self, nbytes: int) -> Any:
        """Room in pinned memory if there is some, else in other."""
        return self.pinned(nbytes) or (ctypes.c_char * nbytes)()

    def expect(self, room: Any, pieces: Pieces) -> None:
        """A transfer will fill ``room``, and then the pieces go where they belong."""
        self.expected.append((room, pieces))

    def deliver(self) -> None:
        """Take what has arrived by now to where it belongs."""
        for room, pieces in self.expected:
            start = ctypes.addressof(room)
            for offset, pointer, nbytes in pieces:
                ctypes.memmove(pointer, start + offset, nbytes)
        self.expected.clear()

    def over(self) -> None:
        """Nothing travels any more: what was not delivered stays away."""
        self.expected.clear()
        self.used = CHUNK_BYTES
        while self.chunks:
            assert self.pool is not None
            self.pool.give(self.chunks.pop())
