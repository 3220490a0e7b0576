"""Splits a graph at data-dependent sizes.

Before an operator such as ``nonzero``, its number of results is counted on the device; the host
reads it; the operator itself and all that follows is another graph, in which the count is a size
like any other. Operators without a known count run on their own between two graphs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv, resolve_unbacked_bindings

from ocl_inductor.fx.new_nodes import call_before
from ocl_inductor.ir.index import as_size

aten = torch.ops.aten

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
#: Assertions about sizes, which the runtime checks when it knows them.
_ASSERTS = frozenset({aten._assert_scalar.default})
#: Hints from Dynamo to the tracer; nothing to run.
_HINTS = frozenset({aten.sym_constrain_range_for_size.default, aten.sym_constrain_range.default})

#: Adds a call to the graph, in front of the operator in question.
Call = Callable[..., Node]
#: From ``Call`` and an operator's arguments, a node that is its number of results; None where that
#: cannot be counted.
Counting = Callable[..., Node | None]


def _count_true(call: Call, x: Node) -> Node:
    return call(aten.count_nonzero.default, x)


def _count_masked(call: Call, x: Node, mask: Node) -> Node:
    # Both have the other's dimensions: where the mask is true, and x is or is not.
    either = call(aten.logical_or.default, mask, x)
    return _count_true(call, call(aten.logical_and.default, mask, either))


def _count_indexed(call: Call, x: Node, indices: Sequence[Node | None]) -> Node | None:
    given = [i for i in indices if i is not None]
    if len(given) != 1 or given[0].meta["val"].dtype is not torch.bool:
        return None
    return _count_true(call, given[0])


def _count_repeated(call: Call, repeats: Node, *, output_size: object = None) -> Node | None:
    return call(aten.sum.default, repeats) if output_size is None else None


COUNTED: dict[torch._ops.OpOverload, Counting] = {
    aten.nonzero.default: _count_true,
    aten.masked_select.default: _count_masked,
    aten.index.Tensor: _count_indexed,
    aten.repeat_interleave.Tensor: _count_repeated,
}


@dataclass(slots=True)
class StageNodes:
    """A part of the graph, then the sizes that become known after it.

    ``nodes`` are compiled; or ``host`` is called. ``learned``: symbol, node and path of each size
    that becomes known; ``checks``: conditions and messages.
    """

    nodes: list[Node] = field(default_factory=list)
    host: Node | None = None
    learned: list[tuple[sympy.Symbol, Node, tuple[Any, ...]]] = field(default_factory=list)
    checks: list[tuple[Any, str]] = field(default_factory=list)


def depends_on_data(gm: GraphModule) -> bool:
    """Whether a size of the graph is only known after a part of it has run.

    The graph is not split at sizes from control flow: operators with them run on the host.
    """
    nodes = [n for n in gm.graph.nodes if n.meta.get("unbacked_bindings")]
    return bool(nodes) and all(isinstance(n.target, torch._ops.OpOverload) for n in nodes)


def _bindings(
    node: Node, shape_env: ShapeEnv | None, known: Set[sympy.Symbol]
) -> dict[sympy.Symbol, object]:
    """The sizes that are known once ``node`` has run, each with where its result has it."""
    # Tracing a graph again gives symbols other names, and those of before no longer exist.
    found = resolve_unbacked_bindings(shape_env, node.meta.get("unbacked_bindings")) or {}
    if node.target is aten._local_scalar_dense.default:
        # Inside some operators tracing does not note it; a number that is an input has two names.
        symbol = node.meta["val"].node.expr
        if symbol.is_Symbol and symbol not in known:
            return {**found, symbol: found.get(symbol, ())}
    return found


def is_size(node: Node) -> bool:
    return isinstance(node.meta.get("val"), _SYMBOLIC)


def cut(gm: GraphModule, shape_env: ShapeEnv | None) -> list[StageNodes]:
    """The graph's nodes in order, without inputs, results and arithmetic of sizes."""
    pieces = [StageNodes()]
    taken: set[Node] = set()
    known: set[sympy.Symbol] = set()
    for node in list(gm.graph.nodes):
        if node.op == "placeholder" and is_size(node):
            known |= sympy.sympify(as_size(node.meta["val"])).free_symbols
        if node.op != "call_function" or node in taken or node.target in _HINTS:
            continue
        if node.target in _ASSERTS:
            condition = node.args[0]
            value = condition.meta["val"] if isinstance(condition, Node) else condition
            # Every size so far is known once the piece before this one has run.
            pieces[max(len(pieces) - 2, 0)].checks.append((value, str(node.args[1])))
            continue
        bindings = _bindings(node, shape_env, known)
        if bindings:
            known |= bindings.keys()
            _cut_at(gm, pieces, node, bindings)
        elif not is_size(node):
            pieces[-1].nodes.append(node)
        items = [u for u in node.users if u.target is operator.getitem]
        if isinstance(node.meta.get("val"), (tuple, list)):
            # Right after what they take from, in front of the next cut.
            taken |= set(items)
            if node in pieces[-1].nodes:
                pieces[-1].nodes += [i for i in items if not is_size(i)]
    if shape_env is not None:
        _check_equalities(pieces, shape_env)
    return pieces


def _check_equalities(pieces: list[StageNodes], shape_env: ShapeEnv) -> None:
    """Tracing takes a size for another one (``x[mask] + y`` needs it to be that of ``y``) and then
    has nothing left to check: both go by one name. So what is learned is compared with that."""
    later = {s for p in pieces for s, _, _ in p.learned}
    equal: list[tuple[sympy.Symbol, sympy.Expr]] = []
    for piece in pieces:
        for symbol, _, _ in piece.learned:
            later.discard(symbol)
            equal.append((symbol, shape_env.replace(symbol)))
        for symbol, other in [e for e in equal if not e[1].free_symbols & later]:
            equal.remove((symbol, other))
            if other != symbol:
                says = f"Runtime assertion failed for expression Eq({symbol}, {other})"
                piece.checks.append((sympy.Eq(symbol, other), says))


def _cut_at(
    gm: GraphModule, pieces: list[StageNodes], node: Node, bindings: dict[Any, Any]
) -> None:
    if node.target is aten._local_scalar_dense.default:
        pieces[-1].learned += [(s, node.args[0], tuple(path)) for s, path in bindings.items()]
        pieces.append(StageNodes())
        return
    added: list[Node] = []

    def call(target: object, *args: Node) -> Node:
        new = call_before(node, target, *args)
        added.append(new)
        return new

    counting = COUNTED.get(node.target) if len(bindings) == 1 else None
    count = counting(call, *node.args, **node.kwargs) if counting is not None else None
    if count is None:
        host = StageNodes(host=node)
        host.learned = [(s, node, tuple(path)) for s, path in bindings.items()]
        pieces += [host, StageNodes()]
        return
    (symbol,) = bindings
    pieces[-1].nodes += added
    pieces[-1].learned.append((symbol, count, ()))
    pieces.append(StageNodes(nodes=[node]))


def arguments(node: Node) -> list[Node]:
    return [n for n in node.all_input_nodes if not is_size(n)]


def subgraph(
    gm: GraphModule,
    nodes: Sequence[Node],
    inputs: Sequence[Node],
    results: Sequence[Node],
    sizes: Sequence[tuple[str, object]],
) -> GraphModule:
    """A graph of ``nodes`` that takes ``sizes`` (name and value), then ``inputs``."""
    graph = Graph()
    new: dict[Node, Node] = {}
    for name, value in sizes:
        graph.placeholder(name).meta["val"] = value
    for node in inputs:
        new[node] = graph.placeholder(node.name)
        new[node].meta = dict(node.meta)

    def moved(x: object) -> object:
        if not isinstance(x, Node):
            return x
        if x not in new:
            # The value of a size is in the meta data, and its node stands for that; what else has
            # not been seen is a constant of the module.
            target = str(x.target)
            new[x] = graph.call_function(operator.index) if is_size(x) else graph.get_attr(target)
            new[x].meta = dict(x.meta)
        return new[x]

    for node in nodes:
        args = torch.fx.node.map_aggregate(node.args, moved)
        kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
        new[node] = graph.create_node(node.op, node.target, args, kwargs, node.name)  # type: ignore[arg-type]
        new[node].meta = dict(node.meta)
    graph.output(tuple(new[r] for r in results))
    return GraphModule(gm, graph)
