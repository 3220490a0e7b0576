"""Inlines higher-order operators that are functions of their operands.

A region that Dynamo traced once and calls several times (``nested_compile_region``) is inlined at
each call: kernels of equal calls share a program anyway, and operators between two calls can fuse.
``flex_attention`` becomes products, the score and mask functions, and a softmax.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map

from ocl_inductor.capture.decompositions.table import decomposition_table
from ocl_inductor.fx.new_nodes import KEPT_META


def expand_higher_order(gm: GraphModule) -> GraphModule:
    """Rewrite ``gm``, and the subgraphs of remaining operators, in place."""
    for module in [m for m in gm.modules() if isinstance(m, GraphModule)]:
        changed = False
        while calls := list(_calls(module)):
            for node in calls:
                EXPANSIONS[node.target](module, node)
            changed = True
        if changed:
            module.graph.eliminate_dead_code()
            module.recompile()
    return gm


def _calls(gm: GraphModule) -> Iterator[Node]:
    for target in EXPANSIONS:
        yield from gm.graph.find_nodes(op="call_function", target=target)


def _expand_region(gm: GraphModule, node: Node) -> None:
    region, _, *operands = node.args
    _replace(gm, node, _attribute(gm, region), operands)


def _expand_attention(gm: GraphModule, node: Node) -> None:
    """Trace PyTorch's own definition, with the operators that this backend lowers whole."""
    operands = [n for n in node.all_input_nodes if n.op != "get_attr" or _is_tensor(gm, n)]
    number = {n: i for i, n in enumerate(operands)}

    def attention(*values: object) -> object:
        def given(n: Node) -> object:
            return values[number[n]] if n in number else _attribute(gm, n)

        args, kwargs = map_arg((node.args, node.kwargs), given)
        return math_attention(*args, **kwargs)

    fakes = [_value(gm, n) for n in operands]
    mode = detect_fake_mode(fakes)
    with mode or contextlib.nullcontext():
        traced = make_fx(attention, decomposition_table=decomposition_table())(*fakes)
    _replace(gm, node, traced, operands)


EXPANSIONS: dict[torch._ops.HigherOrderOperator, Callable[[GraphModule, Node], None]] = {
    invoke_subgraph: _expand_region,
    flex_attention: _expand_attention,
}


def _attribute(gm: GraphModule, node: Node) -> object:
    owner: Any = gm
    for part in str(node.target).split("."):
        owner = getattr(owner, part)
    return owner


def _is_tensor(gm: GraphModule, node: Node) -> bool:
    return isinstance(_attribute(gm, node), torch.Tensor)


def _value(gm: GraphModule, node: Node) -> object:
    """The value of a node while graphs are traced."""
    if "val" in node.meta or node.op != "get_attr":
        return node.meta["val"]
    return _attribute(gm, node)


def _replace(gm: GraphModule, node: Node, body: GraphModule, operands: Sequence[object]) -> None:
    """Replace ``node``, whose results are a tuple, by a copy of ``body``'s nodes.

    Traced values are recreated: two copies of one body must not seem to share memory.
    """
    graph = gm.graph
    mode = detect_fake_mode([_value(gm, n) for n in node.all_input_nodes])
    kept = {k: node.meta[k] for k in KEPT_META if k in node.meta}
    env: dict[Node, Any] = {}
    given = iter(operands)
    results: Any = ()
    for inner in body.graph.nodes:
        if inner.op == "placeholder":
            env[inner] = next(given)
        elif inner.op == "output":
            results = map_arg(inner.args[0], lambda n: env[n])
        else:
            with graph.inserting_before(node):
                if inner.op == "get_attr":
                    made = graph.get_attr(_adopt(gm, _attribute(body, inner)))
                else:
                    made = graph.node_copy(inner, lambda n: env[n])
            made.meta = {**inner.meta, **kept}
            with mode or contextlib.nullcontext():
                made.meta["val"] = _traced(gm, made, inner, mode)
            env[inner] = made
    for user in list(node.users):
        position = user.args[1]
        assert isinstance(position, int)
        user.replace_all_uses_with(results[position])
        graph.erase_node(user)
    graph.erase_node(node)


def _traced(gm: GraphModule, made: Node, inner: Node, mode: Any) -> object:
    if made.op == "get_attr":
        held = _attribute(gm, made)
        return mode.from_tensor(held) if mode and isinstance(held, torch.Tensor) else held
    if isinstance(made.target, HigherOrderOperator):
        return tree_map(_apart, inner.meta["val"])
    args, kwargs = map_arg((made.args, made.kwargs), lambda n: _value(gm, n))
    if any(isinstance(x, GraphModule) for x in tree_leaves((args, kwargs))):
        return inner.meta["val"]
    return made.target(*args, **kwargs)  # type: ignore[operator]


def _apart(x: object) -> object:
    return x.clone() if isinstance(x, torch.Tensor) else x


def _adopt(gm: GraphModule, held: object) -> str:
    """A name under which ``gm`` holds the object."""
    names = (f"_pasted{n}" for n in range(len(gm.__dict__) + len(gm._modules) + 10**6))
    name = next(n for n in names if not hasattr(gm, n))
    setattr(gm, name, held)
    return name
