"""Saved activations keep the layout in which kernels compute them.

What a forward graph saves for its backward graph has no other reader, so it need not have
eager's strides. Kernels keep channels adjacent; storing for eager's order and reading that order
again would be two more passes over nearly every activation of a convolutional network. AOTAutograd
takes the strides that the forward compiler reports into the backward graph.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch._guards import TracingContext
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from ocl_inductor.plan.plan import Plan

aten = torch.ops.aten

#: Operators of PyTorch whose result depends on the memory layout of their operand.
_SEE_STRIDES = frozenset(
    {
        aten.as_strided.default,
        aten.as_strided_copy.default,
        aten.as_strided_scatter.default,
        aten.view.dtype,
        aten.copy_.default,
    }
)

#: Effectively views: their operand has no other use.
_RESHAPES = frozenset({aten._unsafe_view.default, aten.reshape.default})

#: Operators of these namespaces, except those above, give the same numbers for any strides.
_BLIND_NAMESPACES = frozenset({"aten", "prims"})


def free_outputs(forward: GraphModule, backward: GraphModule, visible: int) -> frozenset[int]:
    """Positions of the forward graph's outputs whose strides may be chosen freely.

    ``visible``: how many of them come before those that are saved. Only tensors of static size.
    """
    outputs = forward.graph.output_node().args[0]
    readers = {n.name: n for n in backward.graph.nodes if n.op == "placeholder"}
    seen = _seen(backward)
    return frozenset(
        n
        for n, x in enumerate(outputs)  # type: ignore[arg-type]
        if n >= visible and isinstance(x, Node) and _is_free(x, readers.get(x.name), seen)
    )


def _seen(graph: GraphModule) -> frozenset[Node]:
    """Values whose strides are observed: by an operator, or by the caller, also through a view."""
    seen: set[Node] = set()
    for node in reversed(graph.graph.nodes):
        if any(_sees(u) or (u in seen and _is_view(u)) for u in node.users):
            seen.add(node)
    return frozenset(seen)


def _sees(user: Node) -> bool:
    """True for a graph's outputs, and for all operators not known to ignore strides."""
    if user.op == "output":
        return True
    if not isinstance(user.target, OpOverload):  # higher-order operators, Python functions
        return user.target is not operator.getitem
    return user.target in _SEE_STRIDES or user.target.namespace not in _BLIND_NAMESPACES


def _is_view(node: Node) -> bool:
    """True where a result shares memory with an operand (aten.split returns a list of such)."""
    if node.target is operator.getitem:
        return True
    aliases = (a.alias_info for a in node.target._schema.arguments)  # type: ignore[union-attr]
    return any(a is not None for a in aliases) or node.target in _RESHAPES


def _is_free(made: Node, read: Node | None, seen: frozenset[Node]) -> bool:
    fake = made.meta.get("val")
    if read is None or made.op == "placeholder" or not isinstance(fake, torch.Tensor):
        return False
    if not all(isinstance(n, int) for n in (*fake.shape, *fake.stride())):
        return False
    return read not in seen


def report_strides(plan: Plan, free: frozenset[int]) -> None:
    """Tell AOTAutograd the strides of the free outputs of a forward plan."""
    context = TracingContext.try_get()
    if context is None or context.output_strides is None or not free:
        return
    for n, o in enumerate(plan.outputs):
        known = n in free and o.kind == "tensor"
        stride = tuple(map(int, o.stride)) if known else ()
        if o.form in ("complex", "conjugate"):  # in real numbers, with a dimension for the parts
            stride = tuple(s // 2 for s in stride[:-1])
        context.output_strides.append(stride if known else None)


def take_strides(gm: GraphModule, inputs: Sequence[object]) -> None:
    """Give the placeholders of a backward graph the strides of the tensors they will receive."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for node, given in zip(placeholders, inputs, strict=False):
        known = node.meta.get("val")
        if not isinstance(known, torch.Tensor) or not isinstance(given, torch.Tensor):
            continue
        static = all(isinstance(n, int) for n in (*known.stride(), *given.stride()))
        if static and known.stride() != given.stride():
            node.meta["val"] = given
