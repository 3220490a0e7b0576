"""Saved activations keep the layout in which kernels compute them.

What a forward graph saves for its backward graph is seen by nobody else, so it need not have
eager's strides. Kernels keep channels adjacent; storing for eager's order and reading that order
again would be two more passes over nearly every activation of a convolutional network. AOTAutograd
takes the strides that the forward compiler reports into the backward graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule, Node

from ocl_inductor.plan import Plan

aten = torch.ops.aten

#: Operators whose result depends on how their operand lies in memory.
_SEE_STRIDES = frozenset(
    {
        aten.as_strided.default,
        aten.as_strided_copy.default,
        aten.as_strided_scatter.default,
        aten.view.dtype,
        aten.copy_.default,
    }
)


def free_outputs(forward: GraphModule, backward: GraphModule, visible: int) -> frozenset[int]:
    """Positions of the forward graph's outputs whose strides matter to nobody.

    ``visible``: how many of them come before those that are saved. Only tensors of static size.
    """
    outputs = forward.graph.output_node().args[0]
    readers = {n.name: n for n in backward.graph.nodes if n.op == "placeholder"}
    return frozenset(
        n
        for n, x in enumerate(outputs)  # type: ignore[arg-type]
        if n >= visible and isinstance(x, Node) and _is_free(x, readers.get(x.name))
    )


def _is_free(made: Node, read: Node | None) -> bool:
    fake = made.meta.get("val")
    if read is None or made.op == "placeholder" or not isinstance(fake, torch.Tensor):
        return False
    if not all(isinstance(n, int) for n in (*fake.shape, *fake.stride())):
        return False
    return not any(u.op == "output" or u.target in _SEE_STRIDES for u in read.users)


def report_strides(plan: Plan, free: frozenset[int]) -> None:
    """Tell AOTAutograd how the free outputs of a forward plan lie in memory."""
    context = TracingContext.try_get()
    if context is None or context.output_strides is None or not free:
        return
    for n, o in enumerate(plan.outputs):
        known = n in free and o.kind == "tensor"
        context.output_strides.append(tuple(map(int, o.stride)) if known else None)


def take_strides(gm: GraphModule, inputs: Sequence[Any]) -> None:
    """Give the placeholders of a backward graph the strides of what they will receive."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for node, given in zip(placeholders, inputs, strict=False):
        known = node.meta.get("val")
        if not isinstance(known, torch.Tensor) or not isinstance(given, torch.Tensor):
            continue
        static = all(isinstance(n, int) for n in (*known.stride(), *given.stride()))
        if static and known.stride() != given.stride():
            node.meta["val"] = given
