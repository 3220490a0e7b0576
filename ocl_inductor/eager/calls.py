"""The signature of an operator call: its tensors, their form, and its numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ocl_inductor.resident.schemas import may_write, written

_default_dtype = torch.get_default_dtype
_deterministic = torch._C._get_deterministic_algorithms


class Call(NamedTuple):
    """``where``: the device. ``tensors``: each once, all there. ``form``: the operator, which of
    these each argument is and what they are, how arguments are nested, all arguments that are no
    numbers, and PyTorch's settings. ``numbers``: the integers and real numbers among the arguments,
    in their order."""

    where: torch.device
    tensors: list[torch.Tensor]
    form: tuple[Hashable, ...]
    numbers: tuple[Hashable, ...]


def call_of(
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: dict[str, object],
    where: torch.device,
) -> Call | None:
    """None where such arguments are not supported in graphs."""
    # The default dtype affects numbers among integers; the deterministic mode affects results.
    form: list[object] = [op, _default_dtype(), _deterministic()]
    tensors: list[torch.Tensor] = []
    numbers: list[Hashable] = []
    if not _add(args, form, tensors, numbers, where):
        return None
    for name in sorted(kwargs) if len(kwargs) > 1 else kwargs:
        form.append(name)
        if not _add((kwargs[name],), form, tensors, numbers, where):
            return None
    if len(tensors) > 1 and may_write(op) and not _apart(tensors, op, args, kwargs):
        return None
    return Call(where, tensors, tuple(form), tuple(numbers))


def with_numbers_here(
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: dict[str, object],
    where: torch.device,
) -> tuple[tuple[object, ...], dict[str, object]] | None:
    """The arguments with tensors of no dimensions on the CPU copied to the device, which every
    operator may have beside tensors of a device; None where there are none of them to be read."""
    targets = {id(x) for x in tree_leaves(written(op, args, kwargs))}

    def is_number(x: object) -> bool:
        on_cpu = isinstance(x, torch.Tensor) and x.is_cpu and x.dim() == 0
        return on_cpu and id(x) not in targets

    if not any(map(is_number, tree_leaves((args, kwargs)))):
        return None

    def here(x: Any) -> Any:
        return x.to(where) if is_number(x) else x

    return tree_map(here, tuple(args)), tree_map(here, kwargs)


def why_not(args: Sequence[object], kwargs: dict[str, object], where: torch.device) -> str:
    """Why ``call_of`` gives None, for the log."""
    for x in tree_leaves((args, kwargs)):
        if isinstance(x, complex) or (isinstance(x, torch.Tensor) and x.is_complex()):
            return "complex numbers"
        if isinstance(x, torch.Generator):
            return "a generator of random numbers"
        if isinstance(x, torch.Tensor) and x.layout is not torch.strided:
            return f"a sparse tensor ({x.layout})"
        if isinstance(x, torch.Tensor) and x.device != where:
            return f"a tensor on {x.device}"
    return "an argument that is written shares memory with another"


def _add(
    args: Sequence[Any],
    form: list[Any],
    tensors: list[torch.Tensor],
    numbers: list[Hashable],
    where: torch.device,
) -> bool:
    """Add arguments; False where one is unsupported."""
    for x in args:
        if isinstance(x, torch.Tensor):
            if x.device != where or x.layout is not torch.strided:
                return False
            size, stride, dtype, pointer = x.size(), x.stride(), x.dtype, x.data_ptr()
            negative = x.is_neg()
            for n, y in enumerate(tensors):
                if y is x or (
                    y.data_ptr() == pointer
                    and y.dtype is dtype
                    and y.size() == size
                    and y.stride() == stride
                    and y.is_neg() == negative
                ):
                    form.append(n)
                    break
            else:
                if dtype.is_complex:
                    return False
                tensors.append(x)
                form += (dtype, size, stride, negative)
            continue
        kind = type(x)
        if kind is float:
            form.append(float)
            # 0.0 and -0.0 are equal, and no NaN equals itself.
            numbers.append(x if x and x == x else x.hex())
        elif kind is int:
            form.append(int)
            numbers.append(x)
        elif kind is list or kind is tuple:
            form.append(len(x))
            if not _add(x, form, tensors, numbers, where):
                return False
        elif kind is complex or isinstance(x, torch.Generator):
            return False
        else:
            form += (kind, x)
    return True


def _apart(
    tensors: Sequence[torch.Tensor],
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: dict[str, object],
) -> bool:
    """Whether none that is written shares memory with another tensor: such ones would have to be
    traced as views."""
    storages = [x.untyped_storage()._cdata for x in tensors if x.numel()]
    if len(set(storages)) == len(storages):
        return True
    return not any(
        isinstance(x, torch.Tensor) and x.numel() and storages.count(x.untyped_storage()._cdata) > 1
        for x in tree_leaves(written(op, args, kwargs))
    )
