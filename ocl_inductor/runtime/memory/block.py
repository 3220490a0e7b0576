"""One allocation that holds several tensors, each with its own storage."""

from __future__ import annotations

import sys
import weakref

import torch

from ocl_inductor.plan.arena import aligned
from ocl_inductor.plan.plan import BufferSpec
from ocl_inductor.runtime.memory.recycling import allocated

#: Smaller tensors are not placed in a block.
MIN_PART_BYTES = 128 << 10

#: Those that exist, by address.
_blocks: weakref.WeakValueDictionary[int, TensorBlock] = weakref.WeakValueDictionary()


class TensorBlock:
    """``nbytes`` of memory, alive as long as any tensor in it.

    To PyTorch each tensor has a separate storage, of exactly the tensor's bytes. Callers ensure
    that no two live tensors overlap.

    Raises:
        RuntimeError: PyTorch has no memory for it, even after everything idle was freed.
    """

    __slots__ = ("__weakref__", "array", "has_results", "nbytes", "pointer", "takes_results")

    def __init__(self, nbytes: int, takes_results: bool) -> None:
        memory = allocated(lambda: torch.empty(nbytes, dtype=torch.uint8, device="cpu"))
        self.nbytes, self.pointer = nbytes, memory.data_ptr()
        self.array = memory.numpy()
        #: Whether results returned to the user may be placed in it, and whether any was.
        self.takes_results, self.has_results = takes_results, False
        _blocks[self.pointer] = self

    def tensor(self, offset: int, spec: BufferSpec) -> torch.Tensor:
        """An uninitialised tensor of static size, from ``offset`` (bytes) on."""
        n = int(spec.extent)
        x = torch.frombuffer(self.array, dtype=spec.dtype, count=n, offset=offset)
        return x.set_(x.untyped_storage(), 0, spec.size, spec.stride)  # type: ignore[call-overload,no-any-return]

    def tensors(self) -> int:
        """The number of storages in it that are still referenced, in any way."""
        return sys.getrefcount(self.array) - _NOBODY


def bytes_in_block(spec: BufferSpec) -> int:
    """The bytes of a tensor of static size there, up to the next one's offset."""
    return aligned(int(spec.extent) * spec.dtype.itemsize)


def block_at(pointer: int) -> TensorBlock | None:
    """The block that begins at an address."""
    return _blocks.get(pointer)


def block_around(pointer: int) -> TensorBlock | None:
    """The block that contains an address."""
    for block in list(_blocks.values()):
        if block.pointer <= pointer < block.pointer + block.nbytes:
            return block
    return None


_NOBODY = 0
_NOBODY = TensorBlock(1, takes_results=False).tensors()
