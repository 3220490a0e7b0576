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
from ocl_inductor.resident.places import NAME, is_resident

_CPU = torch.device("cpu")


def is_on_device(gm: GraphModule, inputs: Sequence[object]) -> bool:
    """Whether a Dynamo graph works on ``ocl`` tensors: as inputs, constants or new tensors."""
    tensors = (*inputs, *gm.parameters(), *gm.buffers())
    return any(map(is_resident, tensors)) or any(map(_names_device, gm.graph.nodes))


def _names_device(node: Node) -> bool:
    given = (*node.args, *node.kwargs.values())
    return any(
        (isinstance(x, torch.device) and x.type == NAME)
        or (isinstance(x, str) and x.partition(":")[0] == NAME)
        for x in given
    )


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
