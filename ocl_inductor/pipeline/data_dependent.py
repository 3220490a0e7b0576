"""Compiles a graph whose sizes depend on data: a plan for each piece, see passes/stages.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx import GraphModule, Node

from ocl_inductor.codegen.plan_specs import size_text
from ocl_inductor.errors import UnsupportedOperatorError
from ocl_inductor.fx.origin import origin_of
from ocl_inductor.fx.uses import writes_input
from ocl_inductor.ir.index import as_size
from ocl_inductor.observe.fallback_log import say_fallback
from ocl_inductor.passes.stages import StageNodes, arguments, cut, is_size, subgraph
from ocl_inductor.plan.plan import HostCall, Plan, SizeRef, TensorRef
from ocl_inductor.plan.staged_plan import (
    HostStage,
    Learned,
    PlanStage,
    Result,
    SizeCheck,
    StagedPlan,
    Step,
)
from ocl_inductor.runtime.counters import count_fallback

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

_WHY = "how large the result is depends on data"

#: Makes the plan of a piece: its graph, and positions of parameters among its inputs.
MakePlan = Callable[[GraphModule, frozenset[int]], Plan]


def plan_stages(
    gm: GraphModule,
    static_inputs: frozenset[int],
    shape_env: ShapeEnv | None,
    fallback: str,
    make_plan: MakePlan,
) -> StagedPlan:
    """
    Raises:
        UnsupportedOperatorError: an operator can only run on the host, and ``fallback`` forbids it.
    """
    pieces = cut(gm, shape_env)
    for node in (p.host for p in pieces if p.host is not None):
        _say_fallback(node, fallback)
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    written = {n.args[0] for n in gm.graph.nodes if writes_input(n)}
    static = {placeholders[i] for i in static_inputs} - written
    returned = gm.graph.output_node().args[0]
    wanted_last = {n for n in returned if isinstance(n, Node) and not is_size(n)}  # type: ignore[union-attr]
    own = [(n.name, n.meta["val"]) for n in placeholders if is_size(n)]
    known: list[tuple[str, object]] = list(own)
    steps: list[Step] = []
    for k, piece in enumerate(pieces):
        later = set(wanted_last)
        for p in pieces[k + 1 :]:
            later |= {a for n in _nodes(p) for a in arguments(n)}
            later |= {n for _, n, _ in p.learned}
        later |= {n for _, n, _ in piece.learned}
        steps.append(_step(gm, piece, later, known, static, make_plan))
        known += [(str(s), _symbol(shape_env, s)) for s, _, _ in piece.learned]
    return StagedPlan(
        tuple(n.name for n in placeholders),
        tuple((n, str(as_size(v))) for n, v in own),
        tuple(steps),
        tuple(map(_result, returned)),  # type: ignore[arg-type]
    )


def _say_fallback(node: Node, fallback: str) -> None:
    if fallback == "error":
        tensors = [n.meta["val"] for n in arguments(node)]
        raise UnsupportedOperatorError(
            str(node.target),
            [str(t.dtype)[6:] for t in tensors],
            [list(t.shape) for t in tensors],
            source=origin_of(node).source,
            reason=_WHY,
        )
    say_fallback(str(node.target), _WHY, origin_of(node).source)
    count_fallback(str(node.target))


def _nodes(piece: StageNodes) -> list[Node]:
    return piece.nodes + ([piece.host] if piece.host is not None else [])


def _step(
    gm: GraphModule,
    piece: StageNodes,
    later: set[Node],
    known: list[tuple[str, object]],
    static: set[Node],
    make_plan: MakePlan,
) -> Step:
    learned = tuple(
        Learned(str(s), n.name, path, item=piece.host is None) for s, n, path in piece.learned
    )
    checks = tuple(_checks(piece))
    if piece.host is not None:
        return Step(_host_stage(piece.host), learned, checks)
    if not piece.nodes:
        return Step(None, learned, checks)
    made = set(piece.nodes)
    needed = {a: None for n in piece.nodes for a in arguments(n) if a not in made}
    inputs = [n for n in needed if n.op != "get_attr"]
    results = [n for n in piece.nodes if n in later]
    graph = subgraph(gm, piece.nodes, inputs, results, known)
    positions = frozenset(len(known) + i for i, n in enumerate(inputs) if n in static)
    plan = make_plan(graph, positions)
    names = (*(name for name, _ in known), *(n.name for n in inputs))
    return Step(PlanStage(plan, names, tuple(n.name for n in results)), learned, checks)


def _checks(piece: StageNodes) -> Iterator[SizeCheck]:
    for value, message in piece.checks:
        condition = value.node.expr if isinstance(value, torch.SymBool) else sympy.sympify(value)
        if condition not in (True, sympy.true):
            yield SizeCheck(size_text(condition), message)


def _host_stage(node: Node) -> HostStage:
    def argument(x: object) -> Any:
        if isinstance(x, Node):
            x = x.meta["val"] if is_size(x) else TensorRef(x.name)
        if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return SizeRef(size_text(as_size(x)), real=not isinstance(x, torch.SymInt))
        return x

    args = torch.fx.node.map_aggregate(node.args, argument)
    kwargs = torch.fx.node.map_aggregate(node.kwargs, argument)
    items = [(u.args[1], u.name) for u in node.users if isinstance(node.meta["val"], (tuple, list))]
    call = HostCall(
        node.target,
        tuple(args),  # type: ignore[arg-type]
        tuple(kwargs.items()),  # type: ignore[union-attr]
        None,
        str(node.target),
        fallback=True,
        reason=f"{_WHY} ({origin_of(node).source})",
    )
    return HostStage(call, ((None, node.name), *items))  # type: ignore[arg-type]


def _symbol(shape_env: ShapeEnv | None, symbol: sympy.Symbol) -> torch.SymInt | torch.SymFloat:
    assert shape_env is not None  # which gave the symbol
    if symbol.is_integer:
        return shape_env.create_symintnode(symbol, hint=None)
    return shape_env.create_symfloatnode(symbol, hint=None)


def _result(x: object) -> Result:
    if isinstance(x, Node):
        if not is_size(x):
            return Result("value", x.name)
        x = x.meta["val"]
    if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        kind = "size" if isinstance(x, torch.SymInt) else "real"
        return Result(kind, size_text(as_size(x)))  # type: ignore[arg-type]
    return Result("constant", x)
