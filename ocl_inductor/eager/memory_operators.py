"""Operators that allocate, view and copy memory: those that every device must have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ocl_inductor.eager.compiled import run
from ocl_inductor.eager.lazy.operators import Operator
from ocl_inductor.resident import tensors
from ocl_inductor.resident.deferred import UNRECORDED, Deferred, settle
from ocl_inductor.resident.places import index_of, is_resident, place_of
from ocl_inductor.resident.schemas import ON_CPU

aten = torch.ops.aten
_copying = threading.local()
_COPY = Operator(aten.copy_.default)


def empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    return _new(size, _strides(size, memory_format), dtype, device)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    return _new(size, stride, dtype, device)


def _new(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype | None,
    device: torch.device | str | int | None,
) -> torch.Tensor:
    index, kind = index_of(device), dtype or torch.get_default_dtype()
    if Deferred.recorder is not None and index == 0:
        found = Deferred.recorder.empty(size, stride, kind)
        if found is not None:
            return found
    return tensors.empty_strided(size, stride, kind, index)


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> object:
    """``target.copy_(source)`` where one of them, or both, are on ``ocl``."""
    if is_resident(target):
        if is_resident(source):
            if _recorded(target, source):
                return target
            if target.get_device() != source.get_device():
                tensors.copy_between(target, source)
            elif not tensors.copy_on_device(target, source):
                _copy_by_kernel(target, source)
        else:
            tensors.from_host(target, source)
    else:
        target.copy_(tensors.to_host(source))
    return target


def _recorded(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether a copy was recorded (``eager/lazy``), instead of made."""
    recorder = Deferred.recorder
    if recorder is None:
        return False
    if any(x.is_neg() or x.is_conj() for x in (target, source)):
        return False
    return recorder.add(_COPY, (target, source), {}) is not UNRECORDED


def _copy_by_kernel(target: torch.Tensor, source: torch.Tensor) -> None:
    """Between tensors of different memory layouts.

    A plan may leave copying its result into an argument to the runtime, which calls this again;
    that copy is made by the host.
    """
    if getattr(_copying, "now", False):
        tensors.from_host(target, tensors.to_host(source))
        return
    if source.untyped_storage()._cdata == target.untyped_storage()._cdata:
        source = source.clone()  # a graph cannot write a tensor beside another of its memory
    _copying.now = True
    try:
        run(aten.copy_.default, target, source)
    finally:
        _copying.now = False


def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    target.resize_(source.size())
    copy_from(source, target)
    return target


def equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors have the same size and elements; waits for it.

    Raises:
        RuntimeError: they are of different types, or on different devices.
    """
    if x.dtype != y.dtype or not (is_resident(x) and is_resident(y)) or x.dtype.is_complex:
        return bool(run(aten.equal.default, x, y))
    return x.size() == y.size() and bool(x.eq(y).all().item())


def item(x: torch.Tensor) -> object:
    return tensors.to_host(x).item()


def resize(
    x: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """In place; existing elements stay at the start of the memory."""
    settle((x,))
    stride = _strides(size, memory_format)
    needed = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    storage = x.untyped_storage()
    have = storage.nbytes() // x.itemsize - x.storage_offset()
    if needed <= have:
        aten.set_.source_Storage_storage_offset.redispatch(
            ON_CPU, x, storage, x.storage_offset(), list(size), list(stride)
        )
        return x
    flat = tensors.empty_strided((needed,), (1,), x.dtype, x.get_device())
    if have > 0:
        whole = aten.as_strided.default.redispatch(ON_CPU, x, [have], [1], x.storage_offset())
        copy_from(whole, flat[:have])
    aten.set_.source_Storage_storage_offset.redispatch(
        ON_CPU, x, flat.untyped_storage(), 0, list(size), list(stride)
    )
    return x


def index_put_impl(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> torch.Tensor:
    """What the gradient of indexing calls: it has a lowering by its other name."""
    return run(aten.index_put_.default, x, indices, values, accumulate)  # type: ignore[no-any-return]


def random_from(
    x: torch.Tensor, low: int, high: int | None = None, *, generator: object = None
) -> torch.Tensor:
    """Integers from ``low`` to below ``high``, by an operator that has a lowering.

    (A graph cannot have this one: its overload is called ``from``, which is no name in Python.)
    """
    if high is None or generator is not None or tensors.in_place(place_of(x)):
        own = getattr(aten.random_, "from")
        return run(own, x, low, high, generator=generator)  # type: ignore[no-any-return]
    copy_from(run(aten.randint_like.low_dtype, x, low, high), x)
    return x


def random_to(x: torch.Tensor, high: int, *, generator: object = None) -> torch.Tensor:
    return random_from(x, 0, high, generator=generator)


def convolution(*args: object) -> torch.Tensor:
    return run(aten.convolution.default, *args)


def convolution_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> object:
    return run(
        aten.convolution_backward.default,
        gradient,
        x,
        weight,
        [weight.shape[1] * groups if transposed else weight.shape[0]],
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )


def _strides(size: Sequence[int], memory_format: torch.memory_format | None) -> Sequence[int]:
    if memory_format in (None, torch.contiguous_format, torch.preserve_format):
        stride = [1] * len(size)
        for n in range(len(size) - 2, -1, -1):
            stride[n] = stride[n + 1] * max(size[n + 1], 1)
        return stride
    return torch.empty(list(size), device="meta", memory_format=memory_format).stride()


def as_strided(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> torch.Tensor:
    if Deferred.recorder is not None:
        found = Deferred.recorder.view(x, size, stride, offset)
        if found is not None:
            return found
    own = aten.as_strided.default
    return own.redispatch(ON_CPU, x, size, stride, offset)  # type: ignore[no-any-return]


def _by_cpu(overload: torch._ops.OpOverload, *, checks: bool = True) -> Callable[..., object]:
    """The CPU's kernel, which only creates another tensor over the same memory.

    ``checks``: whether it asks for the bytes of the memory, which has to be there then.
    """

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if checks:
            settle(args)
        return overload.redispatch(ON_CPU, *args, **kwargs)

    return kernel


#: By overload of aten.
KERNELS: dict[str, Callable[..., object]] = {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_local_scalar_dense": item,
    "equal": equal,
    "resize_": resize,
    "_index_put_impl_": index_put_impl,
    "random_.from": random_from,
    "random_.to": random_to,
    "convolution_overrideable": convolution,
    "convolution_backward_overrideable": convolution_backward,
    "as_strided": as_strided,
    "as_strided_": _by_cpu(aten.as_strided_.default),
    "view": _by_cpu(aten.view.default, checks=False),
    "_reshape_alias": _by_cpu(aten._reshape_alias.default, checks=False),
    "unfold": _by_cpu(aten.unfold.default),
    "view_as_real": _by_cpu(aten.view_as_real.default),
    "view_as_complex": _by_cpu(aten.view_as_complex.default),
    "set_.source_Storage": _by_cpu(aten.set_.source_Storage),
    "set_.source_Storage_storage_offset": _by_cpu(aten.set_.source_Storage_storage_offset),
    "set_.source_Tensor": _by_cpu(aten.set_.source_Tensor),
}
