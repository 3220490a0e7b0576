"""New nodes in a traced graph, each with its traced value."""

from __future__ import annotations

import contextlib

import torch
from torch._guards import detect_fake_mode
from torch.fx import Node
from torch.fx.node import map_arg

#: Metadata that new nodes inherit from the one they replace.
KEPT_META = frozenset(
    {"stack_trace", "partitioner_tag", "ac_graph_id", "custom", "nn_module_stack"}
)


def call_before(node: Node, target: object, *args: object, **kwargs: object) -> Node:
    """A call in front of ``node``, as a part of what that does."""
    with node.graph.inserting_before(node):
        made = node.graph.call_function(target, args, kwargs)
    keep_meta(made, node)
    made.meta["val"] = evaluate(node, made)
    return made


def keep_meta(made: Node, node: Node) -> None:
    """``made`` replaces ``node``, or does a part of what it does."""
    made.meta |= {k: v for k, v in node.meta.items() if k in KEPT_META}


def evaluate(like: Node, node: Node) -> object:
    """The value of a new node, computed with traced tensors; ``like`` provides their mode."""
    mode = detect_fake_mode([first_result(like)])
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with mode or contextlib.nullcontext():
        return node.target(*args, **kwargs)  # type: ignore[operator]


def first_result(node: Node) -> torch.Tensor:
    """What the call gives, or the first of it where that is several tensors."""
    value = node.meta["val"]
    return value[0] if isinstance(value, (tuple, list)) else value
