"""Inputs that a forward graph overwrites and whose old values its backward graph needs.

The partitioner saves inputs for free and recomputes other values from them, in the backward graph.
By then the forward graph has written those it updates, such as running statistics: the gradient of
``x * (running_var + eps).rsqrt()`` would use the variance of the next step. Here the old values are
saved.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten

_SIZES = (
    aten.sym_size.int,
    aten.sym_stride.int,
    aten.sym_storage_offset.default,
    aten.sym_numel.default,
)


def keep_overwritten_inputs(joint: GraphModule) -> GraphModule:
    """``joint`` with a copy of each such input, which the partitioner saves if it needs one."""
    placeholders = joint.graph.find_nodes(op="placeholder")
    tangents = [p for p in placeholders if "tangents" in str(p.target)]
    backward = _descendants(tangents)
    for primal in _overwritten(joint, placeholders):
        if backward.isdisjoint(_descendants([primal])):
            continue
        readers = [u for u in primal.users if _computes(u) and u.target not in _SIZES]
        with joint.graph.inserting_after(placeholders[-1]):
            old = joint.graph.call_function(aten.clone.default, (primal,))
        value = primal.meta["val"].detach().clone()  # with memory of its own
        old.meta = {**primal.meta, "val": value, "recompute": CheckpointPolicy.MUST_SAVE}
        for reader in readers:
            reader.replace_input_with(primal, old)
    joint.recompile()
    return joint


def _overwritten(joint: GraphModule, placeholders: Iterable[Node]) -> list[Node]:
    """Inputs that the graph writes to, or its caller after it has run."""
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    infos = list(getattr(metadata, "input_info", ()))
    primals = [p for p in placeholders if "tangents" not in str(p.target)]
    later = {p for p, info in zip(primals, infos, strict=False) if info.mutates_data}
    return [p for p in primals if p in later or any(_writes(u, p) for u in p.users)]


def _writes(node: Node, to: Node) -> bool:
    return node.target is aten.copy_.default and node.args[0] is to


def _computes(node: Node) -> bool:
    """Whether a node computes: it is no write to an input, nor the graph's output."""
    return node.target is not aten.copy_.default and node.op != "output"


def _descendants(nodes: Iterable[Node]) -> set[Node]:
    """Nodes computed from them; writes to inputs do not count."""
    found: set[Node] = set()
    todo = list(nodes)
    while todo:
        for user in todo.pop().users:
            if _computes(user) and user not in found:
                found.add(user)
                todo.append(user)
    return found
