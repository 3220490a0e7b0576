"""Single aten operators through the whole compiler, without Dynamo: many in one graph."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

from ocl_inductor.compile import compile_graph
from ocl_inductor.device.device import Device
from ocl_inductor.settings import Settings


@dataclass(frozen=True)
class Case:
    """One call of an operator, and how far its result may be from eager's."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    rtol: float = 1e-5
    atol: float = 1e-5


def case(target: Any, *args: Any, rtol: float = 1e-5, atol: float = 1e-5, **kwargs: Any) -> Case:
    return Case(target, args, kwargs, rtol, atol)


class _Builder:
    """Collects calls in one FX graph whose placeholders are the calls' tensors."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.mode = FakeTensorMode()
        self.inputs: list[torch.Tensor] = []

    def placeholder(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        node = self.graph.placeholder(f"x{len(self.inputs)}")
        node.meta["val"] = self.mode.from_tensor(x)
        self.inputs.append(x)
        return node

    def call(self, c: Case) -> list[Node]:
        """The operator's node, or one node for each of its results."""
        args, kwargs = tree_map(self.placeholder, (c.args, c.kwargs))

        def fake(x: Any) -> Any:
            return x.meta["val"] if isinstance(x, Node) else x

        node = self.graph.call_function(c.target, args, kwargs)
        with self.mode:
            node.meta["val"] = c.target(*tree_map(fake, args), **tree_map(fake, kwargs))
        if isinstance(node.meta["val"], torch.Tensor):
            return [node]
        items = []
        for k, value in enumerate(node.meta["val"]):
            items.append(self.graph.call_function(operator.getitem, (node, k)))
            items[-1].meta["val"] = value
        return items


def check_cases(device: Device, settings: Settings, cases: Sequence[Case]) -> None:
    """Compile all ``cases`` as one graph; every result must equal eager's in dtype, size, value."""
    builder = _Builder()
    nodes = [builder.call(c) for c in cases]
    builder.graph.output(tuple(n for group in nodes for n in group))
    gm = GraphModule(torch.nn.Module(), builder.graph)
    compiled = compile_graph(
        gm, static_inputs=frozenset(), shape_env=None, device=device, settings=settings
    )
    results = iter(compiled(list(builder.inputs)))
    for c, group in zip(cases, nodes, strict=True):
        expected = c.target(*c.args, **c.kwargs)
        wanted = [expected] if isinstance(expected, torch.Tensor) else list(expected)
        for want, _ in zip(wanted, group, strict=True):
            torch.testing.assert_close(
                next(results),
                want,
                rtol=c.rtol,
                atol=c.atol,
                equal_nan=True,
                msg=lambda text, c=c: f"{c.target}{_shapes(c.args)}: {text}",
            )


def _shapes(args: Any) -> Any:
    return tree_map(lambda x: list(x.shape) if isinstance(x, torch.Tensor) else x, args)
