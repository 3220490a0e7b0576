"""Normalised tensors as pointwise operators on their statistics.

Runs on the joint graph, before it is split into forward and backward. For a normalisation as one
operator the backward graph would get both the input, for the normalisation's own gradient, and the
result, for that of the activation behind it. The partitioner may recompute pointwise operators: the
result is recomputed from the input, where that is read anyhow, and need not be saved. Mobile
networks save a third less.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.fx.new_nodes import call_before
from ocl_inductor.operators.arguments import bind

aten = torch.ops.aten

#: Sizes in which input, statistics and weights line up.
_Aligned = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]


def split_normalisations(gm: GraphModule) -> GraphModule:
    """Rewrite, in place, the first result of each normalisation by statistics of its input."""
    found = [
        node
        for target in _SHAPES
        for node in gm.graph.find_nodes(op="call_function", target=target)
        if _is_plain(node)
    ]
    for node in found:
        _split(node)
    if found:
        gm.recompile()
    return gm


def _results(node: Node) -> dict[object, Node]:
    return {u.args[1]: u for u in node.users if u.target is operator.getitem}


def _is_plain(node: Node) -> bool:
    """Whether the statistics are those of the input, and exact enough to compute with."""
    arguments = bind(node.target, node.args, node.kwargs)
    x, results = arguments["input"].meta["val"], _results(node)
    dtype = x.dtype
    # Views that line groups up are written for numbers.
    known = all(isinstance(n, int) for n in x.shape)
    return (
        arguments.get("training", True)
        and (known or "group" not in arguments)
        and dtype in (torch.float32, torch.float64)
        and all(value.dtype is dtype for value in node.meta["val"])
        and 0 in results
        and len(results) == len(node.users)
    )


def _batch_shapes(x: torch.Tensor, arguments: dict[str, object]) -> _Aligned:
    channels = [-1, *[1] * (x.dim() - 2)]
    return list(x.shape), channels, channels


def _group_shapes(x: torch.Tensor, arguments: dict[str, object]) -> _Aligned:
    n, groups, rest = x.shape[0], arguments["group"], x.shape[2:]
    ones = [1] * len(rest)
    inner = x.shape[1] // groups
    return [n, groups, inner, *rest], [n, groups, 1, *ones], [groups, inner, *ones]


#: Normalisations, and how their operands line up.
_SHAPES: dict[torch._ops.OpOverload, Callable[[torch.Tensor, dict[str, Any]], _Aligned]] = {
    aten._native_batch_norm_legit_functional.default: _batch_shapes,
    aten.native_group_norm.default: _group_shapes,
}


def _split(node: Node) -> None:
    """``(input - mean) * rstd * weight + bias`` in place of the first result."""
    arguments = bind(node.target, node.args, node.kwargs)
    results, x = _results(node), arguments["input"]
    out = results[0]
    size, statistics, channels = _SHAPES[node.target](x.meta["val"], arguments)

    def aligned(value: Node, shape: Sequence[object]) -> Node:
        return call_before(out, aten.view.default, value, list(shape))

    def result(number: int) -> Node:
        made = call_before(out, operator.getitem, node, number)
        if number in results:  # which may come later
            results[number].replace_all_uses_with(made)
            node.graph.erase_node(results[number])
        return made

    whole = list(x.meta["val"].shape)
    value = x if size == whole else aligned(x, size)
    value = call_before(out, aten.sub.Tensor, value, aligned(result(1), statistics))
    value = call_before(out, aten.mul.Tensor, value, aligned(result(2), statistics))
    for name, how in (("weight", aten.mul.Tensor), ("bias", aten.add.Tensor)):
        if arguments[name] is not None:
            value = call_before(out, how, value, aligned(arguments[name], channels))
    if size != whole:
        value = aligned(value, whole)
    value.meta["val"] = out.meta["val"]
    out.replace_all_uses_with(value)
    node.graph.erase_node(out)
