"""Sizes of the tensors for results (``out=``): PyTorch gives them their size in the call, which a
graph cannot do."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ocl_inductor.resident.schemas import takes_numbers
from ocl_inductor.resident.tensors import resize

#: By name of the argument: the size and the strides.
Sizes: TypeAlias = dict[str, tuple[tuple[int, ...], tuple[int, ...]]]


@functools.cache
def outs_of(op: torch._ops.OpOverload) -> tuple[str, ...]:
    """The names of its arguments for results."""
    return tuple(a.name for a in op._schema.arguments if a.is_out)


def sizes_of_outs(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: dict[str, Any]
) -> Sizes:
    """Those that PyTorch gives to the tensors for results, where they have none of these sizes.

    Raises:
        Exception: unknown, as they depend on data, say; or eager's own error about the arguments.
    """
    mode = FakeTensorMode()
    fakes: dict[int, Tensor] = {}

    def fake(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [fake(y) for y in x]
        if not isinstance(x, Tensor):
            return x
        if id(x) not in fakes:
            fakes[id(x)] = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
        return fakes[id(x)]

    with torch.no_grad(), torch._C._DisableAutocast(), mode:
        there, named = fake(args), {k: fake(x) for k, x in kwargs.items()}
        takes_numbers(op, args, kwargs)(*there, **named)
        made = _results_apart(op, there, named)
    found = {}
    for name in outs_of(op):
        x, like = kwargs.get(name), named.get(name)
        if isinstance(x, Tensor) and isinstance(like, Tensor) and x.size() != like.size():
            own = made.get(name)
            stride = like.stride() if own is None or own.size() != like.size() else own.stride()
            found[name] = tuple(like.size()), tuple(stride)
    return found


def _results_apart(
    op: torch._ops.OpOverload, args: Any, kwargs: dict[str, Any]
) -> dict[str, Tensor]:
    """What the form of the operator returns that has results of its own, by the names of the
    arguments in their place. They have the strides that eager gives to empty ``out=`` tensors;
    fakes of those tensors get plain ones."""
    outs = outs_of(op)
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
    rest = {k: x for k, x in kwargs.items() if k not in outs}
    for overload in op.overloadpacket.overloads():
        other = getattr(op.overloadpacket, overload)
        if [(a.name, str(a.type)) for a in other._schema.arguments] == wanted:
            results = takes_numbers(other, args, rest)(*args, **rest)
            several = results if isinstance(results, tuple) else (results,)
            return {n: x for n, x in zip(outs, several, strict=False) if isinstance(x, Tensor)}
    return {}


def resize_outs(kwargs: dict[str, Any], sizes: Sizes) -> None:
    """Give the tensors for results these sizes."""
    for name, (size, stride) in sizes.items():
        resize(kwargs[name], size, stride)
