"""Properties of an operator's arguments and results, from its schema."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ocl_inductor.resident.places import is_resident

#: The CPU's kernels, for operators that only create views of existing memory.
ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


@functools.cache
def returns_a_view(op: torch._ops.OpOverload) -> bool:
    """Whether its results are views of an argument's memory."""
    aliases = [r.alias_info for r in op._schema.returns if r.alias_info is not None]
    return bool(aliases) and not any(a.is_write for a in aliases)


@functools.cache
def written_places(op: torch._ops.OpOverload) -> tuple[tuple[int, str], ...]:
    """Position and name of each argument that it writes."""
    return tuple(
        (n, own.name)
        for n, own in enumerate(op._schema.arguments)
        if own.alias_info is not None and own.alias_info.is_write
    )


#: Running statistics that operators write although their schemas do not say so: their positions,
#: and that of the flag without which they only read them.
_STATISTICS: dict[str, tuple[tuple[int, ...], int | None]] = {
    "aten::batch_norm_update_stats": ((1, 2), None),
    "aten::cudnn_batch_norm": ((3, 4), 5),
    "aten::miopen_batch_norm": ((3, 4), 5),
    "aten::native_batch_norm": ((3, 4), 5),
}


def may_write(op: torch._ops.OpOverload) -> bool:
    """Whether any call of it writes an argument."""
    return op._schema.is_mutable or op._schema.name in _STATISTICS


def _told(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[Any]:
    return [args[n] if n < len(args) else kwargs.get(name) for n, name in written_places(op)]


def _untold(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[Any]:
    places, flag = _STATISTICS.get(op._schema.name, ((), None))

    def argument(n: int) -> Any:
        return args[n] if n < len(args) else kwargs.get(op._schema.arguments[n].name)

    return [argument(n) for n in places] if flag is None or argument(flag) else []


def written(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[Any]:
    """The arguments that a call writes: those that the schema names, then running statistics."""
    return _told(op, args, kwargs) + _untold(op, args, kwargs)


def written_arguments(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[torch.Tensor]:
    """The ``ocl`` tensors that it writes, those in lists too."""
    for x in written(op, args, kwargs):
        yield from filter(is_resident, x if isinstance(x, (list, tuple)) else (x,))


def own_results(op: torch._ops.OpOverload) -> tuple[int, ...]:
    """Which of its results are none of its arguments."""
    return tuple(n for n, r in enumerate(op._schema.returns) if r.alias_info is None)


def result_of_writing(
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    own: Sequence[object] = (),
) -> Any:
    """The result of an operator that writes its arguments: these, or nothing, and ``own``, those
    that are none of its arguments."""
    returns, told, made = op._schema.returns, iter(_told(op, args, kwargs)), iter(own)
    results = [next(made) if r.alias_info is None else next(told) for r in returns]
    match len(results):
        case 0:
            return None
        case 1:
            return results[0]
        case _:
            return tuple(results)


def takes_numbers(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> Any:
    """``op``, or all its overloads where a number is passed for a tensor.

    PyTorch converts ``2`` in ``torch.remainder(x, 2)`` to a tensor and calls ``remainder.Tensor``.
    Backends written in Python get the number instead, which few overloads accept from Python.
    """
    named = {a.name: a for a in op._schema.arguments}
    passed = [*zip(op._schema.arguments, args, strict=False)]
    passed += [(named[k], x) for k, x in kwargs.items()]
    numbers = any(
        isinstance(x, (int, float, complex)) and "Tensor" in str(a.type) for a, x in passed
    )
    return op.overloadpacket if numbers else op
