"""Branches and loop bodies that write what they captured return it instead.

AOTAutograd wraps their operator into ``auto_functionalized_v2``, with the tensors that are written
as bases, and leaves copies to arguments in the subgraphs. Here the bases become operands like the
others, the new contents further results, and in a loop they are carried from round to round. Of a
base of which a view is written, the view is the operand, and its new contents are put back into the
base behind the call. So control flow stays what it is: plans that are called one after another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from ocl_inductor.fx.new_nodes import call_before, keep_meta

aten = torch.ops.aten
higher_order = torch.ops.higher_order

#: Of each operator the names of its subgraphs, of plain arguments, and of lists of operands.
_PARTS: dict[
    torch._ops.HigherOrderOperator, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
] = {
    higher_order.while_loop: (("cond_fn", "body_fn"), (), ("carried_input", "additional_input")),
    higher_order.cond: (("true_fn", "false_fn"), ("pred",), ("operand",)),
}
#: How the wrapper tells a view of a base: what makes it, and what puts it back.
_VIEWS: dict[str, tuple[torch._ops.OpOverload, torch._ops.OpOverload]] = {
    "slice": (aten.slice.Tensor, aten.slice_scatter.default),
    "strided": (aten.as_strided.default, aten.as_strided_scatter.default),
}
_VIEW_ARGUMENTS = {
    "slice": ("slice_dim", "slice_start", "slice_end"),
    "strided": ("size", "stride", "storage_offset"),
}


def return_written_captures(gm: GraphModule) -> GraphModule:
    """Unwrap ``while_loop`` and ``cond``; with several views of a base they stay as they are."""
    target = higher_order.auto_functionalized_v2
    for node in gm.graph.find_nodes(op="call_function", target=target):
        if node.args[0] in _PARTS:
            _unwrap(gm, node)
    return gm


def _unwrap(gm: GraphModule, node: Node) -> None:
    how, given = node.args[0], dict(node.kwargs)
    names, plain, lists = _PARTS[how]
    bases, _ = given.pop("_all_bases"), given.pop("_op_schema", None)
    subgraphs = [given.pop(n) for n in names]
    arguments = [given.pop(n) for n in plain]
    operands: list[Any] = []
    at_base: dict[int, int] = {}  # base to the operand that it is
    carried = 0
    for name in lists:
        for operand in _taken(given, name):
            if isinstance(operand, _Base):
                if operand.number in at_base:
                    return
                at_base[operand.number] = len(operands)
            operands.append(operand)
        carried = carried or len(operands)
    if given or sorted(at_base) != list(range(len(bases))):  # type: ignore[arg-type]
        return  # several views of a base
    written = [at_base[b] for b in sorted(at_base)]
    order = list(range(len(operands)))
    if how is higher_order.while_loop:
        if min(written) < carried:
            return
        order = [*order[:carried], *written, *(i for i in order[carried:] if i not in written)]
    parts_of = {i for i in written if operands[i].kind != "whole"}
    bodies = []
    for name, attribute in zip(names, subgraphs, strict=True):
        body = getattr(gm, str(attribute.target))  # type: ignore[union-attr]
        made = _returning(body, order, [] if name == "cond_fn" else written, parts_of)
        if made is None:
            return
        bodies.append(made)
    inputs = [x.of(bases, node) if isinstance(x, _Base) else x for x in operands]  # type: ignore[arg-type]
    contents = [inputs[i] for i in written]
    inputs = [inputs[i] for i in order]
    with node.graph.inserting_before(node):
        parts = [_attribute(gm, node, body) for body in bodies]
        if how is higher_order.while_loop:
            split = carried + len(written)
            call_args = (*parts, tuple(inputs[:split]), tuple(inputs[split:]))
        else:
            call_args = (*arguments, *parts, tuple(inputs))
        call = node.graph.call_function(how, call_args)  # type: ignore[arg-type]
    call.meta = dict(node.meta)
    values = list(node.meta["val"])
    plain_results = len(values) - len(bases)  # type: ignore[arg-type]
    call.meta["val"] = (*values[:plain_results], *(x.meta["val"] for x in contents))
    views = {plain_results + b: operands[at] for b, at in at_base.items()}
    for user in list(node.users):
        view = views.get(user.args[1])  # type: ignore[call-overload]
        user.replace_input_with(node, call)
        if view is not None and view.kind != "whole":
            _put_back(user, view, bases[view.number], contents[view.number].meta["val"])  # type: ignore[index]
    node.graph.erase_node(node)


def _put_back(item: Node, view: _Base, base: Node, part: object) -> None:
    """Result ``item`` of the call is the contents of a view now; who used it wants the base."""
    whole = item.meta["val"]
    item.meta["val"] = part
    with item.graph.inserting_after(item):
        scatter = item.graph.call_function(_VIEWS[view.kind][1], (base, item, *view.arguments))
    keep_meta(scatter, item)
    scatter.meta["val"] = whole
    item.replace_all_uses_with(scatter, delete_user_cb=lambda user: user is not scatter)


class _Base:
    """An operand that is a base, or the view of one that is told by these arguments."""

    def __init__(self, number: int, kind: str, arguments: Sequence[object] = ()) -> None:
        self.number, self.kind, self.arguments = number, kind, tuple(arguments)

    def of(self, bases: Sequence[Node], before: Node) -> Node:
        """The operand, in front of a node."""
        base = bases[self.number]
        if self.kind == "whole":
            return base
        return call_before(before, _VIEWS[self.kind][0], base, *self.arguments)


def _taken(given: dict[str, Any], name: str) -> Sequence[object]:
    """Take operands ``name0``, ``name1``.. out of the arguments of the wrapper."""
    found: list[Any] = []
    while True:
        own, base = f"{name}{len(found)}", f"_{name}{len(found)}_base_index"
        if own in given:
            found.append(given.pop(own))
        elif isinstance(given.get(base), int):
            found.append(_base(given, f"_{name}{len(found)}", given.pop(base)))
        else:
            return found


def _base(given: dict[str, object], name: str, number: int) -> _Base:
    """Take what says which part of the base is the operand."""
    given.pop(f"{name}_alias", None)
    for kind, parts in _VIEW_ARGUMENTS.items():
        if f"{name}_{parts[0]}" in given:
            return _Base(number, kind, [given.pop(f"{name}_{p}") for p in parts])
    return _Base(number, "whole")


def _returning(
    gm: GraphModule, order: Sequence[int], written: Sequence[int], views: Collection[int]
) -> GraphModule | None:
    """The subgraph with its inputs in this order, and with the new contents of inputs ``written``
    as further results. None where it copies to another one, or something else than is there.

    Of those that are ``views``, what is not written is copied: they may lie otherwise than traced.
    """
    inputs = gm.graph.find_nodes(op="placeholder")
    contents: dict[Node, Node] = {inputs[i]: inputs[i] for i in written}
    graph = Graph()
    env = {inputs[i]: graph.node_copy(inputs[i]) for i in order}
    for node in gm.graph.nodes:
        if node.op == "output":
            results = map_arg(node.args[0], lambda n: env[n])
            results = results if isinstance(results, (tuple, list)) else (results,)
            for i in views:
                if i in written and contents[inputs[i]] is inputs[i]:
                    copy = graph.call_function(aten.clone.default, (env[inputs[i]],))
                    copy.meta["val"] = torch.empty_like(inputs[i].meta["val"])
                    env[inputs[i]] = copy
            graph.output((*results, *(env[contents[inputs[i]]] for i in written)))
        elif node.target is aten.copy_.default and node.args[0] in inputs:
            place, value = node.args
            if place not in contents or node.users or not _alike(place, value):
                return None
            contents[place] = value
        elif node.op != "placeholder":
            env[node] = graph.node_copy(node, lambda n: env[n])
    return GraphModule(gm, graph)


def _alike(place: Any, value: Any) -> bool:
    if not isinstance(value, Node):
        return False
    a, b = place.meta["val"], value.meta["val"]
    return bool(a.dtype is b.dtype and a.shape == b.shape)


def _attribute(gm: GraphModule, node: Node, body: GraphModule) -> Node:
    """``body`` as a new attribute of the graph's module."""
    name = f"{node.name}_part"
    while hasattr(gm, name):
        name += "_"
    gm.add_submodule(name, body)
    return node.graph.get_attr(name)
