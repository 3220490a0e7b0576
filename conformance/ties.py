"""Positions of equal elements, in an order that PyTorch leaves open."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

#: Operators whose positions are any of several where elements are equal, and which of the
#: arguments after the tensor is the dimension. (A stable sort is none of these.)
ANY_OF_EQUALS = {
    "argsort": 0,
    "kthvalue": 1,
    "median": 0,
    "mode": 0,
    "nanmedian": 0,
    "sort": 0,
    "topk": 1,
}


def without_positions(op: str, x: Any, sample: Any, result: Any) -> Any:
    """Results with positions replaced by what lies there, and which positions there are at all."""
    place = ANY_OF_EQUALS.get(op)
    if place is None or sample.kwargs.get("stable"):
        return result
    args = [a for a in sample.args if not isinstance(a, torch.Tensor)]
    dim = sample.kwargs.get("dim", args[place] if len(args) > place else -1)

    # Values come first, if there are any; their positions last.
    last = result if isinstance(result, torch.Tensor) else result[-1]

    def there(t: Any) -> Any:
        if t is not last or t.dtype is not torch.int64 or x.ndim == 0:
            return t
        whole = t if t.ndim == x.ndim else t.unsqueeze(dim)
        each_once = whole.sort(dim).values if op.endswith("sort") else whole.ge(0)
        return x.gather(dim, whole), each_once

    return tree_map(there, result)
