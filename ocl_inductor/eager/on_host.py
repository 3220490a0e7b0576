"""Operators on ``ocl`` tensors that run on the host: in place where it has the memory, by copies
elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

from ocl_inductor.resident import tensors
from ocl_inductor.resident.borrowing import Borrowed
from ocl_inductor.runtime.counters import count


def run_on_host(op: Any, *args: Any, **kwargs: Any) -> Any:
    """One call of an operator that has no kernel of its own for ``ocl``.

    Raises what the CPU's kernel raises.
    """
    count(f"eager on host: {op}")
    borrowed = Borrowed()
    found = op(*tree_map(borrowed.argument, args), **tree_map(borrowed.argument, kwargs))
    borrowed.written(op, args, kwargs)

    def back(y: Any) -> Any:
        if not isinstance(y, torch.Tensor) or y.layout is not torch.strided:
            return y
        own = borrowed.owner(y)
        if own is not None:
            return own
        size, stride = tuple(y.size()), tuple(y.stride())
        made = tensors.empty_strided(size, stride, y.dtype)
        tensors.from_host(made, y)
        return made

    return tree_map(back, found)
