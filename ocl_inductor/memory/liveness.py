"""Lifetimes of buffers, which ones are computed once, and which are in another's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocl_inductor.ir.expr import indices
from ocl_inductor.ir.index import size_symbols
from ocl_inductor.ir.nodes import Buffer, Graph
from ocl_inductor.plan.aliases import root_of
from ocl_inductor.schedule.groups import ExternGroup, Group, LoopGroup


@dataclass(frozen=True, slots=True)
class Liveness:
    """``first`` and ``last``: the groups that write and last use each allocation.

    ``buffers``: the allocations, by the name of the buffer that makes them. ``aliases``: a buffer
    that lives in the memory of another (scatter results). ``hoisted``: indices of the groups that
    depend only on static inputs and constants; ``kept``: what they write and other groups read.
    ``scratch``: names of the allocations private to the graph, by time of their first write.
    Buffers that hoisted groups write for each other are scratch too: these groups run in order
    before all others, so lifetimes tell which buffers may share memory, conservatively for sharing
    with the others.
    """

    first: dict[str, int]
    last: dict[str, int]
    buffers: dict[str, Buffer]
    aliases: dict[str, str]
    hoisted: frozenset[int]
    kept: frozenset[str]
    scratch: tuple[str, ...]

    def root(self, name: str) -> str:
        """The buffer that owns the memory of ``name``."""
        return root_of(name, self.aliases)


def analyse(graph: Graph, groups: Sequence[Group], batches: Sequence[range] = ()) -> Liveness:
    """Lifetimes of everything that the groups, in this order, write.

    ``batches``: groups that may run at the same time; what one of them uses lives for all of them.
    """
    begin, end = list(range(len(groups))), list(range(len(groups)))
    for batch in batches:
        for n in batch:
            begin[n], end[n] = batch[0], batch[-1]
    outputs = {o.name for o in graph.results if o.kind == "buffer"}
    hoisted = _hoistable(graph, groups, outputs)
    aliases = _aliases(groups)
    read_in_calls = {name for n, g in enumerate(groups) if n not in hoisted for name in g.reads()}
    kept = frozenset(b.name for n in hoisted for b in groups[n].writes()) & read_in_calls
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    buffers: dict[str, Buffer] = {}
    for step, g in enumerate(groups):
        for b in g.writes():
            name = root_of(b.name, aliases)
            first.setdefault(name, begin[step])
            last[name] = end[step]
            buffers.setdefault(name, b)
        for name in g.reads():
            if root_of(name, aliases) in first:
                last[root_of(name, aliases)] = end[step]
    output_roots = {root_of(o, aliases) for o in outputs}
    scratch = tuple(name for name in first if name not in output_roots and name not in kept)
    return Liveness(first, last, buffers, aliases, hoisted, kept, scratch)


def _aliases(groups: Sequence[Group]) -> dict[str, str]:
    found: dict[str, str] = {}
    for g in groups:
        if isinstance(g, ExternGroup):
            continue
        for m in g.members if isinstance(g, LoopGroup) else g.epilogue:
            if m.base:
                found[m.buffer.name] = m.base
    return found


def _hoistable(graph: Graph, groups: Sequence[Group], outputs: set[str]) -> frozenset[int]:
    """Groups that read only parameters, constants and results of such groups.

    A group that updates memory in place, or writes a graph output, stays: outputs must be fresh
    tensors in each call.
    """
    steady = set(graph.constant_inputs) | {name for name, _ in graph.constants}
    chosen: set[int] = set()
    updated = set(_aliases(groups).values())
    for n, g in enumerate(groups):
        if not isinstance(g, LoopGroup):
            continue  # host calls may be random; products of two parameters are rare
        writes = {b.name for b in g.writes()}
        if not g.reads() <= steady or writes & (outputs | updated):
            continue
        if any(m.base for m in g.members) or _depends_on_sizes(g):
            continue  # results that depend on a size change with each call
        chosen.add(n)
        steady |= writes
    return frozenset(chosen)


def _depends_on_sizes(g: LoopGroup) -> bool:
    expressions: list[object] = [*g.outer, *g.inner, *(b.storage for b in g.writes())]
    for m in g.members:
        expressions += [m.store, *indices(m.body)]
        for e in m.store_indirect:
            expressions += list(indices(e))
    return bool(size_symbols(expressions))
