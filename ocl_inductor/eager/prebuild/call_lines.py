"""Calls of operators as lines of text, and back: JSON, with tensors by their forms.

``{"operator": "aten.add.Tensor", "args": [{"tensor": [[64, 64], [64, 1], "float32"]}, 2.5]}``: a
tensor has sizes, strides and a dtype, or is ``{"same": n}``, the n-th tensor of the call once more.
Its numbers are zeros where a call is read: valid indices.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ocl_inductor.errors import CallLineError
from ocl_inductor.resident.tensors import reach_of

#: Arguments that are named constants of PyTorch: by the key that their JSON object has.
_CONSTANTS: dict[str, type] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
    "device": torch.device,
}


def line_of(op: torch._ops.OpOverload, args: Sequence[object], kwargs: dict[str, object]) -> str:
    """The call as a line; "" where an argument is of no kind that has a form here."""
    seen: list[torch.Tensor] = []
    try:
        call: dict[str, object] = {"operator": str(op), "args": [_written(x, seen) for x in args]}
        if kwargs:
            call["kwargs"] = {k: _written(x, seen) for k, x in kwargs.items()}
    except TypeError:
        return ""
    return json.dumps(call)


def _written(x: object, seen: list[torch.Tensor]) -> object:
    if isinstance(x, torch.Tensor):
        for n, y in enumerate(seen):
            if x is y:
                return {"same": n}
        seen.append(x)
        form = [list(x.size()), list(x.stride()), str(x.dtype).removeprefix("torch.")]
        return {"tensor": form}
    if isinstance(x, (list, tuple)):
        return [_written(y, seen) for y in x]
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    for key, kind in _CONSTANTS.items():
        if isinstance(x, kind):
            return {key: str(x).removeprefix("torch.")}
    raise TypeError(type(x).__name__)


def call_of_line(line: str, device: torch.device) -> Callable[[], object]:
    """What makes the call on tensors of zeros there.

    Raises:
        CallLineError: the line is none, or names what this PyTorch does not have.
    """
    try:
        call = json.loads(line)
        library, name, overload = call["operator"].split(".")
        op = getattr(getattr(getattr(torch.ops, library), name), overload)
        made: list[torch.Tensor] = []
        args = [_read(x, device, made) for x in call.get("args", [])]
        kwargs = {k: _read(x, device, made) for k, x in call.get("kwargs", {}).items()}
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise CallLineError(line, str(error)) from None
    return lambda: op(*args, **kwargs)


def _read(x: Any, device: torch.device, made: list[torch.Tensor]) -> object:
    if isinstance(x, list):
        return [_read(y, device, made) for y in x]
    if not isinstance(x, dict):
        return x
    ((key, value),) = x.items()
    if key == "tensor":
        size, stride, name = value
        dtype: Any = _constant(name, torch.dtype)
        # A copy and a view: no operator that would be built as well.
        memory = torch.zeros(reach_of(size, stride), dtype=dtype, device="cpu").to(device)
        made.append(memory.as_strided(size, stride))
        return made[-1]
    if key == "same":
        return made[value]
    if key == "device":
        # "ocl" or the CPU; which of several devices a number means is this process's matter.
        return device if value.partition(":")[0] == device.type else torch.device(value)
    return _constant(value, _CONSTANTS[key])


def _constant(name: str, kind: type) -> object:
    found = getattr(torch, name)
    if not isinstance(found, kind):
        raise ValueError(f"torch.{name} is no {kind.__name__}")
    return found
