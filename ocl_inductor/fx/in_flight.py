"""Tensors that are still being written: results of collectives before their ``wait_tensor``.

A collective returns at once, and ``wait_tensor`` finds what to wait for by the storage of the
tensor it is given. So the very tensor that the collective made has to reach it, through views at
most, and until then it may neither be copied nor be read by a kernel: it lives on the host.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from ocl_inductor.fx.auto_functionalized import AUTO_FUNCTIONALIZED

#: Collectives as functions. Custom operators may start work of that kind, too.
NAMESPACE = "_c10d_functional"


def waits(node: Node) -> bool:
    """Whether it is a ``wait_tensor``."""
    return _name(node) == f"{NAMESPACE}::wait_tensor"


def receives(node: Node) -> bool:
    """Whether it fills its argument with what another process sends, though its schema hides it."""
    return _name(node) == f"{NAMESPACE}::irecv"


def is_collective(node: Node) -> bool:
    """Whether it starts communication whose results are to be waited for."""
    return _name(node).startswith(f"{NAMESPACE}::") and not waits(node)


def in_flight(graph: Graph) -> frozenset[Node]:
    """The nodes whose tensors may be incomplete: what collectives return, what is waited for, and
    views of either.

    Kernels are over when something reads what they made, so what an operator of aten computes is
    complete, even where it is waited for.
    """
    found = {made for node in graph.nodes if waits(node) for made in _unfinished(node.args[0])}
    for node in graph.nodes:
        if is_collective(node) or (is_view(node) and not found.isdisjoint(node.all_input_nodes)):
            found.add(node)
    return frozenset(found)


def is_view(node: Node) -> bool:
    """Whether its result lies in the memory of its argument."""
    if node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(
        r.alias_info is not None and not r.alias_info.is_write for r in schema.returns
    )


def _unfinished(taken: object) -> list[Node]:
    """What ``wait_tensor`` takes and all that it is a view of, if that may be in flight."""
    path: list[Node] = []
    while isinstance(taken, Node):
        path.append(taken)
        if not is_view(taken):
            break
        taken = taken.args[0]
    return [] if not path or _completes(path[-1]) else path


def _completes(made: Node) -> bool:
    computes = _name(made).startswith(("aten::", "prims::"))
    return computes or waits(made) or made.op == "get_attr"


def _name(node: Node) -> str:
    target = node.args[0] if node.target in AUTO_FUNCTIONALIZED else node.target
    return target.name() if isinstance(target, torch._ops.OpOverload) else ""
