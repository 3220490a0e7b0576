"""The tensors on ``ocl`` that a forward plan saves for its backward plan: parts of one block.

They are made together and die together. To make a tensor with memory of its own takes the host four
allocations, to make a part of another one: 8 us and 1 us, and a training step of BERT saves 200.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._C._dynamo.guards import _reinterpret_tensor  # type: ignore[attr-defined]

from ocl_inductor.plan.plan import BufferSpec
from ocl_inductor.resident.allocator import ALIGNMENT, Allocator, rounded
from ocl_inductor.resident.tensors import on_storage, reach_of, storage_over
from ocl_inductor.runtime.memory.recycling import Maker


def makers_together(specs: Sequence[BufferSpec], allocator: Allocator) -> dict[str, Maker]:
    """The makers of a plan's saved outputs, of static sizes; a call uses each of them, in this
    order."""
    if len(specs) < 2:
        return {}
    memory = TogetherSaved(allocator)
    makers = {s.name: SavedTogether(memory, s) for s in specs}
    makers[specs[-1].name].last = True
    return dict(makers)


class TogetherSaved:
    """The block of a call, while its tensors are made."""

    __slots__ = ("allocator", "bases", "nbytes", "pointer", "storage")

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self.nbytes = 0
        #: Where the last one lay.
        self.pointer = 0
        self.storage: object = None
        #: A tensor of each type over the whole block.
        self.bases: dict[torch.dtype, torch.Tensor] = {}

    def begin(self) -> None:
        """A new block. Raises DeviceMemoryError."""
        self.end()  # of a call that failed half-way
        block = self.allocator.take(rounded(self.nbytes), self.pointer)
        self.pointer = block.pointer
        self.storage = storage_over(block, self.nbytes)

    def base(self, dtype: torch.dtype) -> torch.Tensor:
        """All of the block as numbers of a type."""
        base = self.bases.get(dtype)
        if base is None:
            elements = self.nbytes // dtype.itemsize
            base = self.bases[dtype] = on_storage(
                self.storage, (elements,), (1,), 0, dtype, self.allocator.index
            )
        return base

    def end(self) -> None:
        """Leave the block to the tensors in it."""
        self.bases.clear()
        self.storage = None


class SavedTogether:
    """Makes one of the tensors."""

    __slots__ = ("dtype", "last", "memory", "offset", "size", "start", "stride")

    def __init__(self, memory: TogetherSaved, spec: BufferSpec) -> None:
        self.memory = memory
        self.size = tuple(int(n) for n in spec.size)
        self.stride = tuple(int(n) for n in spec.stride)
        self.dtype = spec.dtype
        self.start = memory.nbytes == 0
        self.last = False
        #: In elements.
        self.offset = memory.nbytes // spec.dtype.itemsize
        # Never nothing, so that only one of them is the first.
        nbytes = max(1, reach_of(self.size, self.stride) * spec.dtype.itemsize)
        memory.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT

    def make(self) -> torch.Tensor:
        memory = self.memory
        if self.start:
            memory.begin()
        x = _reinterpret_tensor(memory.base(self.dtype), self.size, self.stride, self.offset)
        if self.last:
            memory.end()
        return x  # type: ignore[no-any-return]
