"""Sums with a tensor that an operator scattered into zeros: scatter into the sum instead."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten

#: Operators that add values to places of their first argument, with an argument ``accumulate``.
_PUTS = (aten.index_put.default, aten._unsafe_index_put.default)
_ADDS = (aten.index_add.default, aten.scatter_add.default)
_ZEROS = (aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
#: The argument with the fill value.
_FILLED: dict[torch._ops.OpOverload, int] = {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
}
#: Rounding to a half type after each addition would lose precision that a separate sum keeps.
_DTYPES = (torch.float32, torch.float64)


def scatter_into_sums(gm: GraphModule) -> GraphModule:
    """``y + index_put(zeros, indices, values, accumulate=True)``: put into ``y`` instead.

    An embedding whose weight also is the last layer's gets such a gradient: zeros for the whole
    vocabulary would be written, a few rows added to, and all of it read again for the sum.
    """
    for node in gm.graph.find_nodes(op="call_function", target=aten.add.Tensor):
        if len(node.args) != 2 or node.kwargs.get("alpha", 1) != 1:
            continue
        for put, other in (node.args, node.args[::-1]):
            if _is_sum_in_zeros(put) and _alike(node, put, other):
                _put_into(node, put, other)
                break
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _is_sum_in_zeros(node: object) -> bool:
    """Whether it adds values to places of zeros, and only one other operator reads it."""
    if not isinstance(node, Node) or len(node.users) != 1:
        return False
    if node.target in _PUTS:
        accumulate = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
    else:
        accumulate = node.target in _ADDS
    base = node.args[0] if node.args else None
    return bool(accumulate) and isinstance(base, Node) and _is_zeros(base)


def _is_zeros(node: Node) -> bool:
    at = _FILLED.get(node.target)
    return node.target in _ZEROS or (at is not None and node.args[at] == 0)


def _alike(total: Node, put: object, other: object) -> bool:
    """Whether ``put``, ``other`` and their sum are different tensors of one size and type."""
    if not isinstance(put, Node) or not isinstance(other, Node) or put is other:
        return False
    found = [n.meta.get("val") for n in (total, put, other)]
    if not all(isinstance(t, torch.Tensor) and t.dtype in _DTYPES for t in found):
        return False
    first, *rest = found
    return all(t.dtype is first.dtype and _same_size(t.shape, first.shape) for t in rest)


def _same_size(a: Sequence[int | torch.SymInt], b: Sequence[int | torch.SymInt]) -> bool:
    """Without a guard: symbolic sizes must be one expression."""
    return len(a) == len(b) and all(map(operator.eq, map(str, a), map(str, b)))


def _put_into(total: Node, put: Node, other: Node) -> None:
    with total.graph.inserting_before(total):
        new = total.graph.call_function(put.target, (other, *put.args[1:]), dict(put.kwargs))  # type: ignore[arg-type]
    new.meta = {**put.meta, "val": total.meta["val"]}
    total.replace_all_uses_with(new)
    total.graph.erase_node(total)
