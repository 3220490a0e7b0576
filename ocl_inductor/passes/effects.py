"""Operators with effects (checks that raise, prints) without the tokens that order them."""

from __future__ import annotations

import operator

import torch
from torch._higher_order_ops.effects import with_effects
from torch._higher_order_ops.print import print as print_
from torch.fx import GraphModule, Node


def remove_effect_tokens(gm: GraphModule) -> GraphModule:
    """``with_effects(token, op, *args)`` becomes ``op(*args)``.

    The tokens make effects depend on each other as data. Here an operator with effects runs on the
    host, and host calls are never dropped, so the tokens would only be memory.
    """
    nodes = gm.graph.find_nodes(op="call_function", target=with_effects)
    if not all(isinstance(n.args[1], torch._ops.OpOverload) or n.args[1] is print_ for n in nodes):
        return gm  # a subgraph with effects: it runs on the host with its tokens
    for node in nodes:
        _call_directly(node)
    for target in (torch.ops.prims._sink_tokens.default, torch.ops.prims._make_token.default):
        for node in gm.graph.find_nodes(op="call_function", target=target):
            gm.graph.erase_node(node)
    gm.recompile()
    return gm


def _call_directly(node: Node) -> None:
    """Replace one ``with_effects`` node, whose results are its token and then the operator's."""
    token, target, *args = node.args
    results = node.meta["val"][1:]
    several = target is not print_ and len(target._schema.returns) > 1  # type: ignore[union-attr]
    graph = node.graph
    with graph.inserting_before(node):
        call = graph.call_function(target, tuple(args), dict(node.kwargs))  # type: ignore[arg-type]
    call.meta = {**node.meta, "val": tuple(results) if several else results[0]}
    for item in list(node.users):
        assert item.target is operator.getitem
        position = item.args[1]
        assert isinstance(position, int)
        if position == 0:
            item.replace_all_uses_with(token)  # type: ignore[arg-type]
        elif several:
            with graph.inserting_before(item):
                picked = graph.call_function(operator.getitem, (call, position - 1))
            picked.meta = item.meta
            item.replace_all_uses_with(picked)
        else:
            item.replace_all_uses_with(call)
        graph.erase_node(item)
    graph.erase_node(node)
