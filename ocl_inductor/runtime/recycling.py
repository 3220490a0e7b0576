"""Results of a call in the memory of the last call's, where nobody holds that any more.

A training step makes and drops the same large tensors each time: saved activations, gradients. The
allocator gives such memory back to the system in between, and then every page is mapped and cleared
anew, which takes longer than writing it. PyTorch still owns the lifetimes: a storage is used again
only when no tensor, view, array or graph but this module refers to it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

#: Smaller results come from memory that the allocator keeps anyway.
MIN_BYTES = 128 << 10

_users = torch._C._storage_Use_Count  # type: ignore[attr-defined]


class Recycler:
    """Makes one result of a plan at each call."""

    __slots__ = ("dtype", "kept", "pointer", "size", "stride", "worthwhile")

    def __init__(
        self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, nbytes: int
    ) -> None:
        self.size, self.stride, self.dtype = tuple(size), tuple(stride), dtype
        self.worthwhile = nbytes >= MIN_BYTES
        self.kept: torch.UntypedStorage | None = None
        self.pointer = 0

    def make(self) -> torch.Tensor:
        """An uninitialised tensor that shares memory with no other."""
        kept = self.kept
        if kept is not None:
            # Memory that was moved (to be shared between processes) or resized is not ours alone.
            if (
                _users(kept._cdata) == 1
                and kept.data_ptr() == self.pointer
                and self.references() == _OUR_REFERENCES
            ):
                return torch.empty(0, dtype=self.dtype).set_(kept, 0, self.size, self.stride)
            self.kept = None
        x = torch.empty_strided(self.size, self.stride, dtype=self.dtype)
        if self.worthwhile:
            self.kept, self.pointer = x.untyped_storage(), x.data_ptr()
        return x

    def references(self) -> int:
        """Python's references to the storage: an object like any other, which anyone may hold."""
        return sys.getrefcount(self.kept)


def _our_references() -> int:
    """What :meth:`Recycler.references` says, asked by ``make``, where nobody else holds it."""
    recycler = Recycler((1,), (1,), torch.uint8, MIN_BYTES)
    recycler.make()
    kept = recycler.kept  # as the local variable of ``make``
    count = recycler.references()
    del kept
    return count


_OUR_REFERENCES = _our_references()
