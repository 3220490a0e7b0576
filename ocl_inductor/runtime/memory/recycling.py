"""Results of a call in the memory of the last call's, where that is no longer referenced.

A training step makes and drops the same large tensors each time: saved activations, gradients. The
allocator returns such memory to the system in between, and then every page is mapped and cleared
anew, which takes longer than writing it. Smaller tensors get another address each time, and a
kernel needs a buffer object for each: 8 µs, for 40 tensors as long as a small model's step.
PyTorch still owns the lifetimes: a storage is reused only when this module holds the only reference
to it, with no tensor, view, array or graph left. When memory is short, and at
``torch.compiler.reset()``, everything is released.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from ocl_inductor.plan.plan import BufferSpec
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.pressure import frees, release_idle

#: Smaller results mostly get the address of the last ones from the allocator: 0.4 µs, not 1.7.
MIN_BYTES = 4 << 10

#: Reference count of a storage, by its ``_cdata``: tensors and Python objects.
users = torch._C._storage_Use_Count  # type: ignore[attr-defined]
#: ``torch.empty_strided`` for the CPU, without the parsing of its arguments (1 µs).
allocate = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]


class Maker(Protocol):
    """Allocates one result of a plan at each call."""

    def make(self) -> torch.Tensor:
        """An uninitialised tensor; RuntimeError where there is no memory."""


class MemoryKeeper(Protocol):
    """Keeps memory of the last call for the next one."""

    def release(self) -> int:
        """Drop what is kept; the bytes that had no other reference."""


#: Keepers that have something to release.
_keeping: weakref.WeakSet[MemoryKeeper] = weakref.WeakSet()
_lock = threading.Lock()


def keeps(keeper: MemoryKeeper) -> None:
    """Note that a keeper has something to release."""
    with _lock:
        _keeping.add(keeper)


@frees
def release_results() -> int:
    """Free the results of last calls that are not referenced; the bytes freed."""
    with _lock:
        keepers = list(_keeping)
        _keeping.clear()
    return sum(keeper.release() for keeper in keepers)


def allocated(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """``make()``, retried once after freeing idle memory if PyTorch is out of memory."""
    try:
        return make()
    except RuntimeError:  # what PyTorch's allocator raises
        if release_idle() == 0:
            raise
        count("memory_retries")
        return make()


class Recycler:
    """Makes one result of a plan at each call."""

    __slots__ = ("__weakref__", "dtype", "kept", "pointer", "size", "stride", "worthwhile")

    def __init__(
        self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, nbytes: int
    ) -> None:
        self.size, self.stride, self.dtype = tuple(size), tuple(stride), dtype
        self.worthwhile = nbytes >= MIN_BYTES
        self.kept: torch.UntypedStorage | None = None
        self.pointer = 0

    def make(self) -> torch.Tensor:
        """An uninitialised tensor that shares memory with no other.

        Raises:
            RuntimeError: PyTorch has no memory for it, not even after everything idle was freed.
        """
        kept = self.kept
        if kept is not None:
            # Memory that was moved (to be shared between processes) or resized is not private.
            if (
                users(kept._cdata) == 1
                and kept.data_ptr() == self.pointer
                and self.references() == _OUR_REFERENCES
            ):
                return torch.empty(0, dtype=self.dtype, device="cpu").set_(
                    kept, 0, self.size, self.stride
                )
            self.kept = None
        if not self.worthwhile:
            return allocate(self.size, self.stride, self.dtype)
        x = allocated(lambda: allocate(self.size, self.stride, self.dtype))
        self.kept, self.pointer = x.untyped_storage(), x.data_ptr()
        keeps(self)
        return x

    def release(self) -> int:
        """Drop what is kept; the bytes that had no other reference."""
        kept, self.kept = self.kept, None
        return 0 if kept is None or users(kept._cdata) > 1 else kept.nbytes()

    def references(self) -> int:
        """Python's references to the storage object, which any code may hold."""
        return sys.getrefcount(self.kept)


def recycler_of(spec: BufferSpec) -> Recycler:
    """For a result of static sizes."""
    size, stride = (tuple(int(n) for n in numbers) for numbers in (spec.size, spec.stride))
    return Recycler(size, stride, spec.dtype, int(spec.extent) * spec.dtype.itemsize)


def _our_references() -> int:
    """What :meth:`Recycler.references` says within ``make`` if there is no other reference."""
    recycler = Recycler((1,), (1,), torch.uint8, MIN_BYTES)
    recycler.make()
    kept = recycler.kept  # like the local variable of ``make``
    count = recycler.references()
    del kept
    return count


_OUR_REFERENCES = _our_references()
