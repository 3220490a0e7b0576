"""Operators on ``ocl`` tensors that run on the host: in place where it has the memory, by copies
elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.errors import NotStridedError
from ocl_inductor.resident import tensors
from ocl_inductor.resident.borrowing import Borrowed
from ocl_inductor.resident.places import index_of_place
from ocl_inductor.resident.schemas import may_write, takes_numbers

#: Operators of which an argument may be on the CPU: indices, lengths, and what is copied.
_FROM_CPU = frozenset((
    "_foreach_copy", "_index_put_impl", "_pack_padded_sequence", "_pack_padded_sequence_backward",
    "copy", "index", "index_put", "set",
))  # fmt: skip


#: Takes the arguments of a call, and the device of its tensors and results.
OnHost: TypeAlias = Callable[[tuple[object, ...], dict[str, object], Device], object]


@functools.cache
def on_host_of(op: torch._ops.OpOverload) -> OnHost:
    """A function that calls an operator without an ``ocl`` kernel.

    It raises the errors of the CPU's kernel; RuntimeError where tensors with dimensions are on the
    CPU beside those on ``ocl``, as PyTorch does for two devices of which neither is Python's; and
    NotStridedError for results that ``ocl`` cannot have.
    """
    writes = may_write(op)
    name = op._schema.name.partition("::")[2].removesuffix("_")
    apart = op.namespace == "aten" and name not in _FROM_CPU

    def call(args: tuple[object, ...], kwargs: dict[str, object], device: Device) -> Any:
        borrowed = Borrowed(device)
        argument = borrowed.argument
        given = {k: _each(argument, x) for k, x in kwargs.items()} if kwargs else kwargs
        there = [_each(argument, x) for x in args]
        if apart and borrowed.elsewhere is not None and borrowed.all():
            raise two_devices(op, borrowed.all()[0].device, borrowed.elsewhere.device)
        try:
            found = op(*there, **given)
        except RuntimeError:
            other = takes_numbers(op, args, kwargs)
            if other is op:
                raise
            found = other(*there, **given)
        if writes:
            borrowed.written(op, args, kwargs)

        def back(y: object) -> Any:
            if not isinstance(y, torch.Tensor):
                return y
            if y.layout is not torch.strided or y.is_quantized:
                what = "Quantized" if y.is_quantized else f"{y.layout}".removeprefix("torch.")
                raise NotStridedError(what, op)
            own = borrowed.owner(y)
            if own is not None:
                return own
            made = tensors.adopted(y, device) if borrowed.in_place else None
            if made is None:
                size, stride, index = tuple(y.size()), tuple(y.stride()), index_of_place(device)
                made = tensors.empty_strided(size, stride, y.dtype, index)
                tensors.from_host(made, y)
            return made

        return _each(back, found)

    return call


def two_devices(
    op: torch._ops.OpOverload, here: torch.device, elsewhere: torch.device
) -> RuntimeError:
    """Eager's error for tensors on both."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{here} and {elsewhere}! (when calling {op})"
    )


def _each(function: Callable[[object], object], x: object) -> object:
    """An argument or result with the function applied to each leaf."""
    if isinstance(x, (list, tuple)):
        return type(x)([_each(function, y) for y in x])
    return function(x)
