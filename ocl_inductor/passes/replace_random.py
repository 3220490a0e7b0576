"""Replace ATen's random operators by pure functions of one seed that the graph draws.

Runs on the joint graph, before it is split into forward and backward: then the forward saves the
seed, eight bytes, and the backward recomputes the same numbers, such as a dropout's mask. An
inference graph gets its seed in the same way.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from ocl_inductor.fx.new_nodes import evaluate, first_result, keep_meta
from ocl_inductor.ir.dtypes import SUPPORTED_DTYPES
from ocl_inductor.operators.arguments import bind
from ocl_inductor.operators.random_numbers import UNIFORM_BITS, ops
from ocl_inductor.passes.random_formulas import FORMULAS, KeepOnHost

aten = torch.ops.aten


def replace_random(gm: GraphModule) -> GraphModule:
    """Rewrite ``gm`` in place. Calls that no formula covers stay and run on the host."""
    calls = [n for n in gm.graph.nodes if n.op == "call_function" and n.target in FORMULAS]
    if not calls:
        return gm
    seeds = _Seeds(gm)
    for stream, node in enumerate(calls):
        if _is_plain(node):
            _replace(node, _Draw(node, seeds, stream))
    gm.recompile()
    return gm


def _is_plain(node: Node) -> bool:
    """Whether the call draws from the default generator, into an ordinary CPU tensor."""
    arguments = bind(node.target, node.args, node.kwargs)
    if arguments.get("generator") is not None or arguments.get("pin_memory"):
        return False
    fake = first_result(node)
    plain = fake.device.type == "cpu" and fake.layout is torch.strided
    return plain and fake.dtype in SUPPORTED_DTYPES


def _replace(node: Node, draw: _Draw) -> None:
    arguments = bind(node.target, node.args, node.kwargs)
    graph = node.graph
    try:
        with graph.inserting_before(node):
            made = FORMULAS[node.target](draw, **arguments)
    except KeepOnHost:
        for unused in reversed(draw.made):
            graph.erase_node(unused)
        return
    if not isinstance(made, tuple):
        _take_over(made, node)
        return
    for user in list(node.users):
        assert user.target is operator.getitem
        position = user.args[1]
        assert isinstance(position, int)
        _take_over(made[position], user)
    graph.erase_node(node)


def _take_over(made: Node, node: Node) -> None:
    """``made`` in place of ``node``, with the strides that eager gives the result."""
    made.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(made)
    node.graph.erase_node(node)


class _Seeds:
    """The seed of the forward, and one of the backward for what is random only there.

    If the backward shared the forward's, running it twice would give the same numbers twice.
    """

    def __init__(self, gm: GraphModule) -> None:
        self.graph = gm.graph
        self.seeds: dict[str, Node] = {}
        inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.sizes = [n for n in inputs if isinstance(n.meta.get("val"), torch.SymInt)]
        #: Nodes of the backward; there are none unless this is a joint graph.
        self.backward: set[Node] = set()
        for n in gm.graph.nodes:
            if is_tagged_backward(n) or self.backward.intersection(n.all_input_nodes):
                self.backward.add(n)

    def of(self, node: Node) -> Node:
        """The seed that ``node`` draws from, made at the first call."""
        backward = node in self.backward
        place = "backward" if backward else "forward"
        if place not in self.seeds:
            at = node if backward else next(n for n in self.graph.nodes if n.op != "placeholder")
            with self.graph.inserting_before(at):
                seed = self.graph.call_function(ops.draw_seed.default, (place,))
            seed.meta["val"] = evaluate(node, seed)
            # It has no inputs: nothing else tells the partitioner where it belongs, and drawn again
            # in the backward it would be another seed.
            seed.meta["partitioner_tag"] = f"must_be_in_{place}"
            seed.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            self.seeds[place] = seed
        return self.seeds[place]


def is_tagged_backward(node: Node) -> bool:
    """What autograd says of a node; it tags no nodes of a custom function's own backward."""
    if node.op == "placeholder":
        return "tangents" in str(node.target)
    return node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")


class _Draw:
    """See :class:`ocl_inductor.passes.random_formulas.Draw`."""

    def __init__(self, node: Node, seeds: _Seeds, stream: int) -> None:
        self.node = node
        self.fake = first_result(node)
        self.dtype = self.fake.dtype
        self.seeds = seeds
        self.stream = stream
        self.made: list[Node] = []
        self.random: set[Node] = set()

    # -- numbers ---------------------------------------------------------------------------

    def uniform(self, dtype: torch.dtype) -> Node:
        return self._random("uniform", dtype)

    def open(self) -> Node:
        return self._random("open", self.wide())

    def open_like(self, x: Node) -> Node:
        fake = x.meta["val"]
        return self._random("open", fake.dtype, fake.shape)

    def normal(self, dtype: torch.dtype) -> Node:
        return self._random("normal", dtype)

    def integers(self, low: object, high: object) -> Node:
        seed, size = self.seeds.of(self.node), self._size()
        return self.call(ops.random_integers.default, seed, self.stream, size, low, high)

    def _random(self, kind: str, dtype: torch.dtype, shape: Sequence[object] | None = None) -> Node:
        if dtype not in UNIFORM_BITS:
            raise KeepOnHost
        seed, size = self.seeds.of(self.node), self._size(shape)
        return self.call(ops.random.default, seed, self.stream, size, kind, dtype)

    def wide(self) -> torch.dtype:
        return torch.float64 if self.dtype is torch.float64 else torch.float32

    def result(self, x: Node) -> Node:
        if x.meta["val"].dtype == self.dtype:
            return x
        return self.call(aten._to_copy.default, x, dtype=self.dtype)

    def saved(self, x: Node) -> Node:
        if self.seeds.backward:
            x.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return x

    # -- nodes -----------------------------------------------------------------------------

    def call(self, target: object, *args: object, **kwargs: object) -> Node:
        made = self.node.graph.call_function(target, args, kwargs)
        self.made.append(made)
        keep_meta(made, self.node)
        made.meta["val"] = evaluate(self.node, made)
        tensors = [n for n in made.all_input_nodes if isinstance(n.meta["val"], torch.Tensor)]
        if set(tensors) <= self.random | set(self.seeds.seeds.values()):
            self.random.add(made)
            if self.seeds.backward and self.node not in self.seeds.backward:
                # Computed again from the seed rather than kept in memory for the backward.
                made.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
        return made

    def _size(self, shape: Sequence[object] | None = None) -> list[object]:
        """A shape, the result's if none is given, with nodes for what is symbolic."""
        extents = self.fake.shape if shape is None else shape
        return [n if isinstance(n, int) else self._symbolic(n) for n in extents]

    def _symbolic(self, size: torch.SymInt) -> Node:
        given = self.node.all_input_nodes
        for n in (*given, *self.seeds.sizes):
            if isinstance(n.meta.get("val"), torch.SymInt) and _same(n.meta["val"], size):
                return n
        for n in given:
            fake = n.meta.get("val")
            for d, s in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
                if isinstance(s, torch.SymInt) and _same(s, size):
                    made = self.node.graph.call_function(aten.sym_size.int, (n, d))
                    self.made.append(made)
                    made.meta["val"] = s
                    return made
        raise KeepOnHost


def _same(a: torch.SymInt, b: torch.SymInt) -> bool:
    return bool(a.node.expr == b.node.expr)
