"""Graphs on ``ocl`` tensors, as graphs on CPU tensors with the recorded device of each tensor.

A kernel's computation does not depend on the device of its tensors, so the compiler behind this
knows one device, the CPU, and the runtime the actual one (``Plan.residence``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map

from ocl_inductor.plan.residence import Residence
from ocl_inductor.resident.places import NAME, index_of, is_resident, place_device

_CPU = torch.device("cpu")


def devices_of(gm: GraphModule, inputs: Sequence[object]) -> list[torch.device]:
    """The ``ocl`` devices of a Dynamo graph's tensors: inputs, constants and new ones."""
    tensors = (*inputs, *gm.parameters(), *gm.buffers())
    found = [x.device for x in tensors if isinstance(x, torch.Tensor) and is_resident(x)]
    for node in gm.graph.nodes:
        found += _named_by(node)
    return list(dict.fromkeys(found))


def node_of(gm: GraphModule, device: torch.device) -> Node:
    """A node that has to do with a device: the first that names it, or else the graph's first."""
    nodes = gm.graph.nodes
    return next((n for n in nodes if device in _named_by(n)), next(iter(nodes)))


def _named_by(node: Node) -> list[torch.device]:
    """The ``ocl`` devices among a node's arguments."""
    return [
        place_device(index_of(x))
        for x in (*node.args, *node.kwargs.values())
        if (isinstance(x, torch.device) and x.type == NAME)
        or (isinstance(x, str) and x.partition(":")[0] == NAME)
    ]


def with_cpu_tensors(gm: GraphModule) -> Residence | None:
    """Change a functional graph so that all its tensors are on the CPU; their former devices."""
    nodes = list(gm.graph.nodes)
    if not any(_is_on_device(n) for n in nodes):
        return None
    inputs = gm.graph.find_nodes(op="placeholder")
    from_host = tuple(n for n, x in enumerate(inputs) if _is_on_cpu(x.meta.get("val")))
    to_host = tuple(
        position
        for position, x in enumerate(_results(gm))
        if isinstance(x, Node) and _is_on_cpu(x.meta.get("val"))
    )
    for node in nodes:
        if "val" in node.meta:
            node.meta["val"] = tree_map(_fake_on_cpu, node.meta["val"])
        node.args = tree_map(_named, node.args)
        node.kwargs = {k: tree_map(_named, v) for k, v in node.kwargs.items()}
    return Residence(from_host, to_host)


def _results(gm: GraphModule) -> Sequence[Any]:
    results = gm.graph.output_node().args[0]
    return results if isinstance(results, (tuple, list)) else (results,)


def _is_on_device(node: Node) -> bool:
    values = node.meta.get("val")
    listed = values if isinstance(values, (tuple, list)) else (values,)
    return any(is_resident(x) for x in listed)


def _is_on_cpu(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == "cpu"


def _named(x: object) -> object:
    """A device in a call of the graph."""
    return _CPU if isinstance(x, torch.device) and x.type == NAME else x


def _fake_on_cpu(x: object) -> object:
    if not isinstance(x, FakeTensor) or not is_resident(x):
        return x
    # The same sizes, strides and storage, so that views are still recognised as views.
    with in_kernel_invocation_manager(x.fake_mode):
        return FakeTensor(x.fake_mode, x, _CPU)
