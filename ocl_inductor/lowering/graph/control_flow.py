"""Control flow: the subgraphs of an operator become plans of their own.

The operator is a host call that runs them (control.py): which branch, and how often, is
decided there from results of kernels. All that a branch or loop body computes is in kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx import Graph, GraphModule
from torch.fx import Node as FxNode

from ocl_inductor.ir.index import as_size
from ocl_inductor.operators.registry import CannotLower
from ocl_inductor.plan.plan import Plan, RegionKind

higher_order = torch.ops.higher_order

#: Compiles a subgraph; the set holds the positions of operands that are parameters.
CompileBody = Callable[[GraphModule, frozenset[int]], Plan]

_LOOPS: dict[Any, RegionKind] = {
    higher_order.while_loop: "while_loop",
    higher_order.while_loop_stack_output: "while_loop_stack_output",
}


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """``bodies`` take ``operands`` in this order, a scan's or map's ``xs`` row by row; ``args`` are
    what the runtime gets.
    """

    how: RegionKind
    bodies: tuple[Any, ...]
    operands: tuple[Any, ...]
    args: tuple[Any, ...]


def control_flow(node: FxNode) -> ControlFlow | None:
    """The parts of a node that is a control flow operator, else None."""
    args: list[Any] = list(node.args)
    if node.target is higher_order.cond:
        pred, yes, no, operands = args
        return ControlFlow("cond", (yes, no), tuple(operands), (pred, operands))
    if node.target in _LOOPS:
        condition, body, carried, others = args[:4]
        bodies = (condition, body)
        return ControlFlow(_LOOPS[node.target], bodies, (*carried, *others), (carried, others))
    if node.target is higher_order.scan:
        body, carried, xs, others = args
        operands = (*carried, *xs, *others)
        return ControlFlow("scan", (body,), operands, (carried, xs, others))
    if node.target is higher_order.map_impl:
        body, xs, others = args
        return ControlFlow("map_impl", (body,), (*xs, *others), (xs, others))
    return None


def compile_body(gm: GraphModule, static: frozenset[int], compile_plan: CompileBody) -> Plan:
    """Plan of a subgraph; the runtime finds size symbols that no operand is in their shapes.

    Raises:
        CannotLower: they are not there.
    """
    body = _copy(gm)
    inputs = body.graph.find_nodes(op="placeholder")
    if any("val" not in n.meta for n in inputs):
        raise CannotLower("a subgraph was not traced")
    values = [n.meta["val"] for n in inputs]
    sizes = [as_size(s) for x in values if isinstance(x, torch.Tensor) for s in x.shape]
    sizes += [as_size(x) for x in values if isinstance(x, torch.SymInt)]
    known = {s for s in sizes if isinstance(s, sympy.Symbol)}
    missing = {x for s in sizes if isinstance(s, sympy.Expr) for x in s.free_symbols} - known
    if missing:
        raise CannotLower(f"a subgraph with the sizes {sorted(map(str, missing))}")
    return compile_plan(body, static)


def _copy(gm: GraphModule) -> GraphModule:
    """Passes change graphs in place, and two calls may share a subgraph."""
    graph = Graph()
    env: dict[FxNode, FxNode] = {}
    results = graph.graph_copy(gm.graph, env)
    graph.output(_tuple(results))
    return GraphModule(gm, graph)


def _tuple(results: object) -> Sequence[object]:
    return results if isinstance(results, (tuple, list)) else (results,)
