"""Python's random numbers as arguments: Dynamo traces them as float32 and passes float64.

``random.uniform(a, b)`` in a compiled function becomes an argument of the graph. The caller of the
graph passes it as a tensor of full precision, but the graph was traced with one of float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._dynamo.source import RandomValueSource
from torch.fx import GraphModule, Node


def take_as_passed(gm: GraphModule, inputs: Sequence[object]) -> list[object]:
    """``inputs`` with such numbers as they will be passed; ``gm`` then rounds them itself."""
    taken = list(inputs)
    placeholders = gm.graph.find_nodes(op="placeholder")
    found = False
    for position, (node, x) in enumerate(zip(placeholders, inputs, strict=False)):
        if _is_random(node) and isinstance(x, torch.Tensor) and x.dtype is torch.float32:
            taken[position] = torch.zeros((), dtype=torch.float64)
            _round(gm, node, placeholders[-1])
            found = True
    if found:
        gm.recompile()
    return taken


def _is_random(node: Node) -> bool:
    return isinstance(getattr(node.meta.get("grapharg"), "source", None), RandomValueSource)


def _round(gm: GraphModule, node: Node, last: Node) -> None:
    with gm.graph.inserting_after(last):
        rounded = gm.graph.call_method("to", (node, torch.float32))
    rounded.meta["example_value"] = node.meta["example_value"]
    node.replace_all_uses_with(rounded, delete_user_cb=lambda user: user is not rounded)
