"""Making ``ocl`` tensors, and reading and writing their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.resident.allocator import allocator_of
from ocl_inductor.resident.places import place, place_device
from ocl_inductor.runtime.host_bytes import bytes_at
from ocl_inductor.runtime.pinned import pinned_pool_of
from ocl_inductor.runtime.transfers import Downloads, SharedRange, Uploads

aten = torch.ops.aten
#: Up to here a copy takes less than it costs to go through pinned memory.
_SMALL_BYTES = 64 << 10
#: The CPU's kernels, of operators that only make tensors of memory that is there.
ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

_storage = torch._C._construct_storage_from_data_pointer  # type: ignore[attr-defined]
_set = aten.set_.source_Storage_storage_offset
_cpu = torch.device("cpu")


def empty_strided(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, index: int = 0
) -> torch.Tensor:
    """An uninitialised tensor on ``ocl``.

    Raises:
        DeviceMemoryError: it has not as much memory.
        NoSuchPlaceError: ``index`` is not 0.
    """
    elements = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    nbytes = elements * dtype.itemsize
    block = allocator_of(place(index)).allocate(nbytes)
    # The bytes that were asked for, not the block's: what a user sees of a storage.
    storage = _storage(block.pointer, place_device(), nbytes)
    storage.block = block
    tensor = torch._C._acc.create_empty_tensor((0,), dtype)  # type: ignore[attr-defined]
    _set.redispatch(ON_CPU, tensor, storage, 0, list(size), list(stride))
    return tensor


def in_place() -> bool:
    """Whether the host can use the memory of ``ocl`` tensors."""
    return allocator_of(place()).in_place


def synchronize() -> None:
    """Wait for everything that was enqueued on the device."""
    place().queue.finish()


def note_write(x: torch.Tensor) -> None:
    """Say that a tensor's memory was written: what was computed from a parameter is out of date.

    Every write goes through this package, so this sees also those for which PyTorch counts no new
    version (``x.data``, fused optimisers).
    """
    block = getattr(x.untyped_storage(), "block", None)
    if block is not None:
        block.writes += 1


def writes(x: torch.Tensor) -> int:
    """A number that is another one after each write to the tensor's memory."""
    block = getattr(x.untyped_storage(), "block", None)
    return x._version if block is None else block.writes


def host_view(x: torch.Tensor) -> torch.Tensor:
    """The memory of an ``ocl`` tensor that is the host's (``in_place``) as a CPU tensor.

    The caller sees to it that nothing which was enqueued still uses it.
    """
    storage = x.untyped_storage()
    nbytes = storage.nbytes()
    plain = torch.empty(0, dtype=x.dtype)
    if nbytes:
        there = _storage(storage.data_ptr(), _cpu, nbytes)
        there.block = getattr(storage, "block", None)
        plain.set_(there, x.storage_offset(), x.size(), x.stride())
    else:
        plain = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype)
    return _as_seen(plain, x)


def to_host(x: torch.Tensor) -> torch.Tensor:
    """A copy of an ``ocl`` tensor on the CPU; waits for it."""
    if in_place():
        synchronize()
        return host_view(x).clone()
    # Elements that the tensor leaves out between its own come along.
    nbytes = _reach(x)
    memory = torch.empty(max(nbytes, 1), dtype=torch.uint8)
    _fetch(memory.data_ptr(), x.data_ptr(), nbytes)
    plain = torch.empty(0, dtype=x.dtype)
    return _as_seen(plain.set_(memory.untyped_storage(), 0, x.size(), x.stride()), x)


def _as_seen(memory: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The memory of ``x`` as it is seen: conjugated or negated, where that is only noted."""
    if x.is_conj():
        memory = memory.conj()
    return torch._neg_view(memory) if x.is_neg() else memory


def from_host(x: torch.Tensor, source: torch.Tensor) -> None:
    """Write a CPU tensor, broadcast and converted, into an ``ocl`` tensor; waits until the source
    was read."""
    note_write(x)
    if in_place():
        synchronize()
        host_view(x).copy_(source)
        return
    # What lies between the elements of ``x`` has to stay.
    if _looks_like(x, source):
        image = source
    else:
        image = _as_seen(_like(x), x) if _fills(x) else to_host(x)
        image.copy_(source)
    _send(x.data_ptr(), image.data_ptr(), _reach(x))


def copy_on_device(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Copy between two tensors of one device whose memory looks the same; False if it does not."""
    same = (
        target.dtype == source.dtype
        and target.size() == source.size()
        and target.stride() == source.stride()
        and target.is_conj() == source.is_conj()
        and target.is_neg() == source.is_neg()
        and _fills(target)
    )
    nbytes = _reach(target) if same else 0
    if in_place() or nbytes == 0 or _overlap(target, source, nbytes):
        return same and nbytes == 0
    note_write(target)
    here, there = target.data_ptr(), source.data_ptr()
    cl = load_pyopencl()
    cl.enqueue_copy(place().queue, shared(here, nbytes), shared(there, nbytes), is_blocking=False)
    return True


def _overlap(a: torch.Tensor, b: torch.Tensor, nbytes: int) -> bool:
    return abs(a.data_ptr() - b.data_ptr()) < nbytes


def _looks_like(x: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether the memory of a CPU tensor is what that of ``x``, which fills its own, is to be."""
    return (
        x.dtype == source.dtype
        and x.size() == source.size()
        and x.stride() == source.stride()
        and not (source.is_conj() or source.is_neg() or x.is_conj() or x.is_neg())
        and _fills(x)
    )


def _like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tuple(x.size()), tuple(x.stride()), dtype=x.dtype)


def _fills(x: torch.Tensor) -> bool:
    """Whether each byte between its first and its last element is one of its own, once."""
    return _reach(x) == x.numel() * x.itemsize and not any(
        s == 0 and n > 1 for n, s in zip(x.shape, x.stride(), strict=True)
    )


def _send(pointer: int, source: int, nbytes: int) -> None:
    """From host memory to the device's, in order with kernels; waits for it."""
    cl, queue = load_pyopencl(), place().queue
    pool = pinned_pool_of(place())
    if pool is None or nbytes <= _SMALL_BYTES:
        if nbytes:
            cl.enqueue_copy(queue, shared(pointer, nbytes), bytes_at(source, nbytes))
        return
    uploads = Uploads(pool)
    try:
        uploads.send(cl, queue, SharedRange(pointer, nbytes), source, nbytes)
        queue.finish()
    finally:
        uploads.over()


def _fetch(target: int, pointer: int, nbytes: int) -> None:
    """From the device's memory to the host's, behind all kernels; waits for it."""
    cl, queue = load_pyopencl(), place().queue
    pool = pinned_pool_of(place())
    if pool is None or nbytes <= _SMALL_BYTES:
        if nbytes:
            cl.enqueue_copy(queue, bytes_at(target, nbytes), shared(pointer, nbytes))
        return
    downloads = Downloads(pool)
    try:
        downloads.ask(queue, SharedRange(pointer, nbytes), target, nbytes)
        downloads.land(cl)
    finally:
        downloads.over()


def shared(pointer: int, nbytes: int) -> Any:
    """Memory of the device as pyopencl takes it, as an argument of kernels too."""
    return SharedRange(pointer, nbytes).part(0, nbytes)


def _reach(x: torch.Tensor) -> int:
    if x.numel() == 0:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))) * x.itemsize
