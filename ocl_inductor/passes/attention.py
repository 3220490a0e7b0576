"""Attention that a model writes out by hand: product, scale, mask, softmax, product.

The chain becomes one `written_attention`, for which there is one kernel. Only a chain whose
intermediate results have no other use is taken, so graphs with a backward keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.operators.written_attention import written_attention

aten = torch.ops.aten

#: Operators that change a tensor's shape or layout, not its elements' order within rows.
_RESHAPING = frozenset(
    {aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.clone.default}
)


@dataclass(frozen=True, slots=True)
class _Scores:
    """The softmax's operand: ``product`` (a bmm) times ``scale`` plus ``mask``."""

    product: Node
    scale: float
    mask: Node | None


def fuse_attention(gm: GraphModule) -> GraphModule:
    """Replace every such chain; a chain that does not match completely is unchanged."""
    changed = False
    for softmax in gm.graph.find_nodes(op="call_function", target=aten._softmax.default):
        changed |= _fuse(gm, softmax)
    if changed:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return gm


def _fuse(gm: GraphModule, softmax: Node) -> bool:
    x, dim, _ = softmax.args
    shape = _shape(softmax)
    if not isinstance(x, Node) or len(shape) < 3 or dim not in (-1, len(shape) - 1):
        return False
    scores = _scores(x, softmax, shape)
    second = _reader(softmax)
    if scores is None or second is None or second.target is not aten.bmm.default:
        return False
    weights, values = second.args
    if not isinstance(weights, Node) or _origin(weights) is not softmax:
        return False
    batch = shape[:-2]
    query = _operand(scores.product.args[0], batch)
    transposed = _operand(scores.product.args[1], batch)
    value = _operand(values, batch)
    if query is None or transposed is None or value is None:
        return False
    if len({_value(n).dtype for n in (query, transposed, value, softmax, x)}) != 1:
        return False
    graph = gm.graph
    with graph.inserting_before(second):
        key = graph.call_function(aten.transpose.int, (transposed, -2, -1))
        key.meta = {"val": _value(transposed).transpose(-2, -1)}
        fused = graph.call_function(
            written_attention, (query, key, value, scores.mask, scores.scale)
        )
        rows = _value(query).new_empty((*batch, shape[-2], _shape(value)[-1]))
        fused.meta = {**softmax.meta, "val": rows}
        # Not a view: its sizes may be expressions, which no node of the graph holds.
        flat = graph.call_function(aten.flatten.using_ints, (fused, 0, len(batch) - 1))
        flat.meta = {**second.meta, "val": rows.flatten(0, len(batch) - 1)}
    second.replace_all_uses_with(flat)
    return True


def _value(node: Node) -> torch.Tensor:
    return node.meta["val"]


def _shape(node: Node) -> tuple[object, ...]:
    return tuple(_value(node).shape)


def _same(a: Sequence[object], b: Sequence[object]) -> bool:
    """Sizes equal without a new guard: static ones, or the same symbol."""
    return len(a) == len(b) and all(
        x == y if isinstance(x, int) and isinstance(y, int) else str(x) == str(y)
        for x, y in zip(a, b, strict=True)
    )


def _reader(node: Node) -> Node | None:
    """The only operator that reads ``node``, through views."""
    while len(node.users) == 1:
        node = next(iter(node.users))
        if node.target not in _RESHAPING:
            return node
    return None


def _origin(node: Node) -> Node:
    while node.target in _RESHAPING:
        node = node.args[0]  # type: ignore[assignment]
    return node


def _operand(node: Any, batch: tuple[object, ...]) -> Node | None:
    """What a bmm's operand (batch, rows, columns) is with the batch dimensions of the scores."""
    if not isinstance(node, Node):
        return None
    tail = _shape(node)[-2:]
    found = None
    while True:
        if _same(_shape(node), (*batch, *tail)):
            found = node
        if node.target not in _RESHAPING or not isinstance(node.args[0], Node):
            return found
        node = node.args[0]


def _scores(node: Node, reader: Node, shape: tuple[object, ...]) -> _Scores | None:
    """Follow the chain upwards from ``node``, which only ``reader`` may read."""
    scale, mask = 1.0, None
    while set(node.users) == {reader}:
        if node.target is aten.bmm.default:
            return _Scores(node, scale, mask)
        if node.target in _RESHAPING:
            pass
        elif node.target in (aten.mul.Tensor, aten.div.Tensor):
            factor = node.args[1]
            if not isinstance(factor, (int, float)) or factor == 0:
                return None
            scale = scale / factor if node.target is aten.div.Tensor else scale * factor
        elif node.target is aten.add.Tensor and mask is None and scale == 1.0 and not node.kwargs:
            # The product is the operand of the result's full shape that leads to a bmm.
            mask = node.args[1]
            if not isinstance(mask, Node) or not _same(_shape(node), shape):
                return None
        else:
            return None
        reader, node = node, node.args[0]  # type: ignore[assignment]
    return None
