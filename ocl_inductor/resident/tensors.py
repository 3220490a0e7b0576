"""Creation of ``ocl`` tensors, and access to their memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import torch
from torch._C._dynamo.guards import _reinterpret_tensor  # type: ignore[attr-defined]

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.failure import check, failure_of, named
from ocl_inductor.errors import FreedStorageError
from ocl_inductor.resident.allocator import Block, allocator_of
from ocl_inductor.resident.deferred import settle
from ocl_inductor.resident.elsewhere import no_elements
from ocl_inductor.resident.places import place, place_device, place_of
from ocl_inductor.resident.schemas import ON_CPU
from ocl_inductor.runtime.discrete.pinned import pinned_pool_of
from ocl_inductor.runtime.discrete.ranges import DeviceRange
from ocl_inductor.runtime.discrete.transfers import Downloads, Uploads
from ocl_inductor.runtime.host_bytes import bytes_at

aten = torch.ops.aten
_empty_tensor = torch._C._acc.create_empty_tensor  # type: ignore[attr-defined]
#: How many tensors and Python objects refer to a storage, by its ``_cdata``.
_users = torch._C._storage_Use_Count  # type: ignore[attr-defined]
_TENSOR_AND_STORAGE = 2
_NUMPY = {torch.float32: "float32", torch.float64: "float64", torch.int64: "int64"}
#: Up to this size a direct copy is faster than one through pinned memory.
_SMALL_BYTES = 64 << 10

_storage = torch._C._construct_storage_from_data_pointer  # type: ignore[attr-defined]
_set = aten.set_.source_Storage_storage_offset
_cpu = torch.device("cpu")


def empty_strided(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, index: int = 0
) -> torch.Tensor:
    """An uninitialised tensor on ``ocl:index``.

    Raises:
        DeviceMemoryError: not enough memory.
        NoSuchPlaceError: there is no such device.
    """
    nbytes = reach_of(size, stride) * dtype.itemsize
    block = allocator_of(place(index)).allocate(nbytes)
    return over(block, nbytes, size, stride, 0, dtype)


def over(
    block: Block,
    nbytes: int,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """A tensor of ``nbytes`` of a block."""
    index = block.allocator.index
    return on_storage(storage_over(block, nbytes), size, stride, offset, dtype, index)


def on_storage(
    storage: object,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
    dtype: torch.dtype,
    index: int,
) -> torch.Tensor:
    """A tensor in a storage of ``ocl:index``, from element ``offset`` on."""
    tensor = no_elements(dtype, index) if index else _empty_tensor((0,), dtype)
    _set.redispatch(ON_CPU, tensor, storage, offset, size, stride)
    return tensor


def storage_over(block: Block, nbytes: int) -> torch.UntypedStorage:
    """A storage of ``nbytes`` of a block."""
    # The requested bytes, not the block's: users see the size of a storage.
    storage = _storage(block.pointer, place_device(block.allocator.index), nbytes)
    storage.block = block
    return storage


class Number:
    """A tensor of no dimensions on a device whose value the host sets, in order with kernels."""

    def __init__(self, dtype: torch.dtype, index: int = 0) -> None:
        self._index = index
        self.tensor = empty_strided((), (), dtype, index)
        self._pattern = numpy.empty(1, _NUMPY[dtype])

    def write(self, value: float) -> None:
        """Where the device has discrete memory."""
        self._pattern[0] = value
        here = _range(self.tensor, self._pattern.nbytes)
        here.fill(place(self._index).queue, self._pattern)


def adopted(y: torch.Tensor, device: Device) -> torch.Tensor | None:
    """A host result in its own memory, where the device shares that (``in_place``); None where
    there are other references to it."""
    storage = y.untyped_storage()
    nbytes = storage.nbytes()
    if nbytes == 0 or _users(storage._cdata) > _TENSOR_AND_STORAGE:
        return None
    if y.is_conj() or y.is_neg() or y._is_zerotensor():  # of zeros, without memory
        return None
    block = allocator_of(device).adopt(storage.data_ptr(), nbytes, storage)
    x = over(block, nbytes, y.size(), y.stride(), y.storage_offset(), y.dtype)
    if y.storage_offset() == 0 and not y.is_inference():
        x.untyped_storage().hosts = {y.dtype: y}
    return x


def reach_of(size: Sequence[int], stride: Sequence[int]) -> int:
    """Elements from the first to the last one."""
    if 0 in size:
        return 0
    reach = 1
    for n, s in zip(size, stride, strict=True):
        reach += (n - 1) * s
    return reach


def in_place(device: Device) -> bool:
    """Whether the host can use the memory of ``ocl`` tensors there."""
    return allocator_of(device).in_place


def synchronize(device: Device) -> None:
    """Wait for everything that was enqueued on it.

    Raises:
        DeviceFailedError: it has failed.
    """
    if device.failure:
        check(device)
    try:  # not by ``named``, which takes 1 us, and operators on the host come here
        device.queue.finish()
    except Exception as error:
        failed = failure_of(device, error)
        if failed is None:
            raise
        raise failed from error


def note_write(x: torch.Tensor) -> None:
    """Record a write to a tensor's memory: values derived from a parameter are outdated.

    Every write goes through this package, so this includes those for which PyTorch counts no new
    version (``x.data``, fused optimisers).
    """
    block = getattr(x.untyped_storage(), "block", None)
    if block is not None:
        block.writes += 1


def writes(x: torch.Tensor) -> int:
    """A number that changes with each write to the tensor's memory."""
    block = getattr(x.untyped_storage(), "block", None)
    return x._version if block is None else block.writes


def host_view(x: torch.Tensor) -> torch.Tensor:
    """The memory of an ``ocl`` tensor that is the host's (``in_place``) as a CPU tensor.

    The caller ensures that no enqueued command still uses it.

    Raises:
        FreedStorageError: it has none any more.
    """
    base = _host_base(x.untyped_storage(), x.dtype)
    if base is None:
        _check_memory(x)
        plain = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="cpu")
    else:
        plain = _reinterpret_tensor(base, x.size(), x.stride(), x.storage_offset())
    return _as_seen(plain, x)


def resize(x: torch.Tensor, size: Sequence[int], stride: Sequence[int]) -> None:
    """Give a tensor for results (``out=``) the size and strides that eager gives it."""
    x.resize_(size)
    if x.stride() != tuple(stride):
        aten.as_strided_.default(x, size, stride)


def _host_base(storage: torch.UntypedStorage, dtype: torch.dtype) -> torch.Tensor | None:
    """A CPU tensor at the start of a storage: created once, as operators need it at each call.

    The storage keeps it alive, and it keeps the memory, but not the storage.
    """
    known: dict[torch.dtype, torch.Tensor] | None = getattr(storage, "hosts", None)
    if known is None:
        known = storage.hosts = {}
    base = known.get(dtype)
    if base is None and storage.nbytes():
        there = _storage(storage.data_ptr(), _cpu, storage.nbytes())
        there.block = getattr(storage, "block", None)
        with torch.inference_mode(False):  # such a tensor could not be written outside of it
            base = known[dtype] = torch.empty(0, dtype=dtype, device="cpu").set_(there)
    return base


def to_host(x: torch.Tensor) -> torch.Tensor:
    """A copy of an ``ocl`` tensor on the CPU; waits for it.

    Raises:
        FreedStorageError: its memory was freed.
    """
    settle((x,))
    device = place_of(x)
    if in_place(device):
        synchronize(device)
        return host_view(x).clone()
    # Includes elements in the gaps of the tensor.
    _check_memory(x)
    nbytes = _reach(x)
    memory = torch.empty(max(nbytes, 1), dtype=torch.uint8, device="cpu")
    if nbytes:
        with named(device):
            _fetch(device, memory.data_ptr(), _range(x, nbytes))
    plain = torch.empty(0, dtype=x.dtype, device="cpu")
    return _as_seen(plain.set_(memory.untyped_storage(), 0, x.size(), x.stride()), x)


def _check_memory(x: torch.Tensor) -> None:
    if x.numel() and not x.untyped_storage().nbytes():
        raise FreedStorageError(tuple(x.shape))


def _as_seen(memory: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The memory of ``x`` with its lazy conjugation or negation applied."""
    if x.is_conj():
        memory = memory.conj()
    return torch._neg_view(memory) if x.is_neg() else memory


def from_host(x: torch.Tensor, source: torch.Tensor) -> None:
    """Write a CPU tensor, broadcast and converted, into an ``ocl`` tensor; waits until the source
    was read."""
    note_write(x)
    device = place_of(x)
    if in_place(device):
        synchronize(device)
        host_view(x).copy_(source)
        return
    # Elements in the gaps of ``x`` must not change.
    if _looks_like(x, source):
        image = source
    else:
        image = _as_seen(_like(x), x) if _fills(x) else to_host(x)
        image.copy_(source)
    if x.numel():
        with named(device):
            _send(device, _range(x, _reach(x)), image.data_ptr())


def copy_between(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy, converted and broadcast, to a tensor of another ``ocl`` device: through the host, which
    waits for it."""
    settle((target, source))
    if not in_place(place_of(source)):
        from_host(target, to_host(source))
        return
    synchronize(place_of(source))
    from_host(target, host_view(source))


def copy_on_device(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Copy between two tensors of one device with the same memory layout, or in host memory; False
    in other cases."""
    settle((target, source))
    device = place_of(target)
    if in_place(device):
        synchronize(device)
        note_write(target)
        host_view(target).copy_(host_view(source))
        return True
    same = (
        target.dtype == source.dtype
        and target.size() == source.size()
        and target.stride() == source.stride()
        and target.is_conj() == source.is_conj()
        and target.is_neg() == source.is_neg()
        and _fills(target)
    )
    nbytes = _reach(target) if same else 0
    if nbytes == 0 or _overlap(target, source, nbytes):
        return same and nbytes == 0
    note_write(target)
    with named(device):
        _range(source, nbytes).copy_to(device.queue, _range(target, nbytes))
    return True


def _overlap(a: torch.Tensor, b: torch.Tensor, nbytes: int) -> bool:
    return abs(a.data_ptr() - b.data_ptr()) < nbytes


def _looks_like(x: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether a CPU tensor can be copied to the gapless memory of ``x`` byte for byte."""
    return (
        x.dtype == source.dtype
        and x.size() == source.size()
        and x.stride() == source.stride()
        and not (source.is_conj() or source.is_neg() or x.is_conj() or x.is_neg())
        and _fills(x)
    )


def _like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tuple(x.size()), tuple(x.stride()), dtype=x.dtype, device="cpu")


def _fills(x: torch.Tensor) -> bool:
    """Whether it has neither gaps nor overlaps between its first and its last element."""
    return _reach(x) == x.numel() * x.itemsize and not any(
        s == 0 and n > 1 for n, s in zip(x.shape, x.stride(), strict=True)
    )


def _send(device: Device, target: DeviceRange, source: int) -> None:
    """From host memory to the device's, in order with kernels; waits for it."""
    queue, nbytes = device.queue, target.nbytes
    pool = pinned_pool_of(device)
    if pool is None or nbytes <= _SMALL_BYTES:
        target.write(queue, 0, bytes_at(source, nbytes), nbytes, wait=True)
        return
    uploads = Uploads(pool)
    try:
        uploads.send(load_pyopencl(), queue, target, source, nbytes)
        queue.finish()
    finally:
        uploads.over()


def _fetch(device: Device, target: int, source: DeviceRange) -> None:
    """From the device's memory to the host's, behind all kernels; waits for it."""
    queue, nbytes = device.queue, source.nbytes
    pool = pinned_pool_of(device)
    if pool is None or nbytes <= _SMALL_BYTES:
        source.read(queue, 0, bytes_at(target, nbytes), nbytes, wait=True)
        return
    downloads = Downloads(pool)
    try:
        downloads.ask(queue, source, target, nbytes)
        downloads.land(load_pyopencl())
    finally:
        downloads.over()


def _range(x: torch.Tensor, nbytes: int) -> DeviceRange:
    """The device's memory from a tensor's first element on."""
    return allocator_of(place_of(x)).range(x.data_ptr(), nbytes)


def _reach(x: torch.Tensor) -> int:
    return reach_of(x.size(), x.stride()) * x.itemsize
