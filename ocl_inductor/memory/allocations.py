"""In which memory each result lies: what does not depend on the order of the groups.

Known once the schedule is, before its groups are put in order (order.py, batches.py) and before
their lifetimes are (liveness.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocl_inductor.ir.expr import indices
from ocl_inductor.ir.index import size_symbols
from ocl_inductor.ir.nodes import Buffer, Graph
from ocl_inductor.plan.aliases import root_of
from ocl_inductor.schedule.groups import ExternGroup, Group, LoopGroup


@dataclass(frozen=True, slots=True)
class Allocations:
    """``buffers``: the allocations, by the name of the buffer that makes them.

    ``aliases``: a buffer that lives in the memory of another (scatter results). ``steady``: names
    of the results that depend only on static inputs and constants, so that they are computed once;
    ``kept``: those of them that other groups read. ``private``: names of the allocations that
    neither the caller nor another call sees. What groups that run once write for each other is
    private too: these groups run in order before all others, so lifetimes tell which buffers may
    share memory, conservatively for sharing with the others.
    """

    buffers: dict[str, Buffer]
    aliases: dict[str, str]
    steady: frozenset[str]
    kept: frozenset[str]
    private: frozenset[str]

    def root(self, name: str) -> str:
        """The buffer that owns the memory of ``name``."""
        return root_of(name, self.aliases)

    def is_hoisted(self, group: Group) -> bool:
        """Whether a group runs once, not in each call."""
        return any(b.name in self.steady for b in group.writes())


def find_allocations(graph: Graph, groups: Sequence[Group]) -> Allocations:
    """Those of everything that the groups write."""
    aliases = _aliases(groups)
    outputs = {o.name for o in graph.results if o.kind == "buffer"}
    steady = _steady(graph, groups, outputs, set(aliases.values()))
    read = {n for g in groups if not any(b.name in steady for b in g.writes()) for n in g.reads()}
    buffers: dict[str, Buffer] = {}
    for g in groups:
        for b in g.writes():
            buffers.setdefault(root_of(b.name, aliases), b)
    kept = steady & read
    visible = {root_of(o, aliases) for o in outputs} | kept
    return Allocations(buffers, aliases, steady, kept, frozenset(buffers) - visible)


def _aliases(groups: Sequence[Group]) -> dict[str, str]:
    found: dict[str, str] = {}
    for g in groups:
        if isinstance(g, ExternGroup):
            continue
        for m in g.members if isinstance(g, LoopGroup) else g.epilogue:
            if m.base:
                found[m.buffer.name] = m.base
    return found


def _steady(
    graph: Graph, groups: Sequence[Group], outputs: set[str], updated: set[str]
) -> frozenset[str]:
    """Results of groups that read only parameters, constants and results of such groups.

    A group that updates memory in place, or writes a graph output, is not one: outputs must be
    fresh tensors in each call.
    """
    inputs = set(graph.constant_inputs) | {name for name, _ in graph.constants}
    found: set[str] = set()
    for g in groups:
        if not isinstance(g, LoopGroup):
            continue  # host calls may be random; products of two parameters are rare
        writes = {b.name for b in g.writes()}
        if not g.reads() <= inputs | found or writes & (outputs | updated):
            continue
        if any(m.base for m in g.members) or _depends_on_sizes(g):
            continue  # results that depend on a size change with each call
        found |= writes
    return frozenset(found)


def _depends_on_sizes(g: LoopGroup) -> bool:
    expressions: list[object] = [*g.outer, *g.inner, *(b.storage for b in g.writes())]
    for m in g.members:
        expressions += [m.store, *indices(m.body)]
        for e in m.store_indirect:
            expressions += list(indices(e))
    return bool(size_symbols(expressions))
