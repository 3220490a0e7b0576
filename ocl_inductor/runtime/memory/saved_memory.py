"""The tensors that a forward plan saves for its backward plan, contiguous in one block of memory.

The backward plan places gradients and scratch memory over saved tensors it has read (``reuse.py``).
The next call of the forward plan reuses the block if nothing in it is alive.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from ocl_inductor.plan.plan import BufferSpec
from ocl_inductor.runtime.memory.block import MIN_PART_BYTES, TensorBlock, bytes_in_block
from ocl_inductor.runtime.memory.recycling import Maker, keeps

#: Smaller totals do not get a block.
MIN_BLOCK_BYTES = 1 << 20
#: Most blocks of one plan: the second one may hold gradients that the user drops only between
#: forward and backward. If results occupy both when a third one is needed, the user keeps results
#: for longer, and each keeps a block alive: from then on they are allocated separately.
_MOST_BLOCKS = 2


def makers_of_saved(specs: Sequence[BufferSpec]) -> dict[str, Maker]:
    """The makers of those of a plan's saved outputs, of static sizes, that lie in a block."""
    large = [s for s in specs if bytes_in_block(s) >= MIN_PART_BYTES]
    nbytes = sum(map(bytes_in_block, large))
    if nbytes < MIN_BLOCK_BYTES:
        return {}
    memory = SavedMemory(nbytes)
    makers: dict[str, Maker] = {}
    offset = 0
    for spec in large:
        makers[spec.name] = SavedPart(memory, offset, spec)
        offset += bytes_in_block(spec)
    return makers


class SavedMemory:
    """The blocks of one forward plan; the first one is that of the latest call."""

    __slots__ = ("__weakref__", "blocks", "lock", "nbytes", "takes_results")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.blocks: list[TensorBlock] = []
        self.takes_results = True
        self.lock = threading.RLock()  # reentrant: creating a block may release others, and these

    def renew(self) -> None:
        """Put a block without live tensors first."""
        free: list[TensorBlock] = []
        used: list[TensorBlock] = []
        for block in self.blocks:
            (used if block.tensors() else free).append(block)
        if free:
            free[0].has_results = False
            self.blocks = [free[0], *used]  # one free block is enough
        else:
            self.takes_results &= sum(b.has_results for b in used) < _MOST_BLOCKS
            self.blocks = used[: _MOST_BLOCKS - 1]
            self.blocks.insert(0, TensorBlock(self.nbytes, self.takes_results))
        keeps(self)

    def release(self) -> int:
        with self.lock:
            freed = sum(b.nbytes for b in self.blocks if not b.tensors())
            self.blocks.clear()
            return freed


class SavedPart:
    """Allocates one of the tensors; the first one of a call provides the block."""

    __slots__ = ("memory", "offset", "spec")

    def __init__(self, memory: SavedMemory, offset: int, spec: BufferSpec) -> None:
        self.memory, self.offset, self.spec = memory, offset, spec

    def make(self) -> torch.Tensor:
        with self.memory.lock:
            # None: released by another thread since the first one was allocated.
            if self.offset == 0 or not self.memory.blocks:
                self.memory.renew()
            return self.memory.blocks[0].tensor(self.offset, self.spec)
