"""Gradients of ReLU from a mask, which may be recomputed or saved in a byte.

Runs on the joint graph, before it is split into forward and backward. ATen's gradient reads the
result of the activation through two ``detach``, which are no-ops in a functional graph, but which
the partitioner does not recompute: it would save the result in any case.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.fx.new_nodes import call_before

aten = torch.ops.aten


def read_masks(gm: GraphModule) -> GraphModule:
    """``threshold_backward(gradient, x, 0)`` as a selection, in place."""
    nodes = gm.graph.find_nodes(op="call_function", target=aten.threshold_backward.default)
    found = [n for n in nodes if n.args[2] == 0]
    for node in found:
        gradient, x, threshold = node.args
        mask = call_before(node, aten.le.Scalar, _attached(x), threshold)
        zero = call_before(node, aten.full.default, [], 0, **_like(gradient))
        made = call_before(node, aten.where.self, mask, zero, gradient)
        made.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(made)
        gm.graph.erase_node(node)
    if found:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return gm


def _attached(x: Node) -> Node:
    while x.target is aten.detach.default:
        x = x.args[0]  # type: ignore[assignment]
    return x


def _like(x: Node) -> dict[str, object]:
    value = x.meta["val"]
    return {"dtype": value.dtype, "device": value.device}
