"""Graphs on ``ocl`` tensors, as graphs on CPU tensors with a note of where each tensor lives.

What a kernel computes does not depend on where its tensors live, so the compiler behind this knows
one device, the CPU's, and the runtime the place (``Plan.resident``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map

from ocl_inductor.errors import MixedPlacesError
from ocl_inductor.resident.places import NAME, index_of, is_resident

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Residence:
    """Where the tensors of a graph live: ``resident`` on the device, but for the outputs at the
    positions ``homeward``."""

    resident: bool = False
    homeward: tuple[int, ...] = ()


def place_of_graph(gm: GraphModule, inputs: Sequence[Any]) -> int | None:
    """The N of the ``ocl:N`` that a graph of Dynamo's works on; None: on CPU tensors.

    Raises:
        MixedPlacesError: on several.
    """
    found = {index_of(x.device) for x in inputs if is_resident(x)}
    owned = [*gm.parameters(), *gm.buffers()]
    found |= {index_of(x.device) for x in owned if is_resident(x)}
    for node in gm.graph.nodes:
        found |= {index_of(d) for d in _devices(node) if d.type == NAME}
    if len(found) > 1:
        raise MixedPlacesError(sorted(found))
    return found.pop() if found else None


def _devices(node: Node) -> Iterable[torch.device]:
    for x in (*node.args, *node.kwargs.values()):
        if isinstance(x, torch.device):
            yield x
        elif isinstance(x, str) and x.partition(":")[0] == NAME:
            yield torch.device(x)


def with_cpu_tensors(gm: GraphModule) -> Residence:
    """Change a functional graph so that all its tensors are the CPU's; where they were."""
    nodes = list(gm.graph.nodes)
    if not any(_is_on_device(n) for n in nodes):
        return Residence()
    homeward = tuple(
        position
        for position, x in enumerate(_results(gm))
        if isinstance(x, Node) and _is_on_cpu(x.meta.get("val"))
    )
    for node in nodes:
        node.meta = {k: _moved(v) if k in ("val", "tensor_meta") else v for k, v in node.meta.items()}
        node.args = tree_map(_named, node.args)
        node.kwargs = {k: tree_map(_named, v) for k, v in node.kwargs.items()}
    return Residence(True, homeward)


def _results(gm: GraphModule) -> Sequence[Any]:
    results = gm.graph.output_node().args[0]
    return results if isinstance(results, (tuple, list)) else (results,)


def _is_on_device(node: Node) -> bool:
    values = node.meta.get("val")
    listed = values if isinstance(values, (tuple, list)) else (values,)
    return any(is_resident(x) for x in listed)


def _is_on_cpu(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == "cpu"


def _named(x: Any) -> Any:
    """A device in a call of the graph."""
    return _CPU if isinstance(x, torch.device) and x.type == NAME else x


def _moved(value: Any) -> Any:
    return tree_map(_fake_on_cpu, value)


def _fake_on_cpu(x: Any) -> Any:
    if not isinstance(x, FakeTensor) or not is_resident(x):
        return x
    # The same sizes, strides and storage, so that views are still seen to be views.
    with in_kernel_invocation_manager(x.fake_mode):
        return FakeTensor(x.fake_mode, x, _CPU)
