"""Lifetimes of intermediate buffers, and slots that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from ocl_inductor.ir.expr import indices
from ocl_inductor.ir.index import Size, is_static, prod, size_symbols
from ocl_inductor.ir.nodes import Buffer, Graph
from ocl_inductor.schedule.groups import ExternGroup, Group, LoopGroup

ALIGNMENT = 128


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """``slot_of`` gives each scratch buffer a slot; ``slots`` their sizes in bytes.

    ``kept``: buffers computed from static inputs and constants alone, which live as long as the
    plan. ``aliases``: a buffer that lives in the memory of another (scatter results).
    ``hoisted``: indices of the groups that compute kept buffers.
    """

    slot_of: dict[str, int]
    slots: tuple[Size, ...]
    kept: frozenset[str]
    aliases: dict[str, str]
    hoisted: frozenset[int]
    peak_bytes: int
    lower_bound_bytes: int


def plan_memory(graph: Graph, groups: Sequence[Group]) -> MemoryPlan:
    """Assign slots greedily in execution order: the smallest free slot that fits, else the
    largest free one grown, else a new one (best fit; lifetimes end at the last reader).
    """
    outputs = {o.name for o in graph.outputs if o.kind == "buffer"}
    hoisted = _hoistable(graph, groups, outputs)
    aliases = _aliases(groups)
    kept: set[str] = set()
    for n in hoisted:
        kept |= {b.name for b in groups[n].writes()}
    root = {name: _root(name, aliases) for g in groups for name in _names(g)}
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    buffer_of: dict[str, Buffer] = {}
    output_roots = {root.get(o, o) for o in outputs}
    for step, g in enumerate(groups):
        for b in g.writes():
            r = root[b.name]
            first.setdefault(r, step)
            last[r] = step
            buffer_of.setdefault(r, b)
        for name in g.reads():
            if root.get(name, name) in first:
                last[root.get(name, name)] = step
    scratch = [
        r for r in first if r not in output_roots and r not in kept and first[r] not in hoisted
    ]
    starts: dict[int, list[str]] = {}
    for r in scratch:
        starts.setdefault(first[r], []).append(r)
    slot_of: dict[str, int] = {}
    slots: list[Size] = []
    free: list[int] = []
    live_bytes = peak_live = 0
    ends: dict[int, list[str]] = {}
    for r in scratch:
        ends.setdefault(last[r], []).append(r)
    for step in range(len(groups)):
        for r in starts.get(step, []):
            need = _bytes(buffer_of[r])
            slot = _best_fit(need, slots, free)
            if slot is None:
                slot = len(slots)
                slots.append(need)
            else:
                free.remove(slot)
                if is_static(need) and is_static(slots[slot]):
                    slots[slot] = max(int(need), int(slots[slot]))
            slot_of[r] = slot
            live_bytes += int(need) if is_static(need) else 0
        peak_live = max(peak_live, live_bytes)
        for r in ends.get(step, []):
            free.append(slot_of[r])
            need = _bytes(buffer_of[r])
            live_bytes -= int(need) if is_static(need) else 0
    peak = sum(int(s) for s in slots if is_static(s))
    return MemoryPlan(slot_of, tuple(slots), frozenset(kept), aliases, hoisted, peak, peak_live)


def _best_fit(need: Size, slots: Sequence[Size], free: Sequence[int]) -> int | None:
    if not is_static(need):
        return next((f for f in free if slots[f] == need), None)
    static = [f for f in free if is_static(slots[f])]
    fitting = [f for f in static if int(slots[f]) >= int(need)]
    if fitting:
        return min(fitting, key=lambda f: int(slots[f]))
    return max(static, key=lambda f: int(slots[f]), default=None)


def _bytes(b: Buffer) -> Size:
    size = prod((b.storage, b.itemsize))
    if is_static(size):
        return -(-max(int(size), 1) // ALIGNMENT) * ALIGNMENT
    return sympy.sympify(size)


def _names(g: Group) -> set[str]:
    return {b.name for b in g.writes()} | g.reads()


def _aliases(groups: Sequence[Group]) -> dict[str, str]:
    found: dict[str, str] = {}
    for g in groups:
        if isinstance(g, ExternGroup):
            continue
        for m in g.members if isinstance(g, LoopGroup) else g.epilogue:
            if m.base:
                found[m.buffer.name] = m.base
    return found


def _root(name: str, aliases: dict[str, str]) -> str:
    while name in aliases:
        name = aliases[name]
    return name


def _hoistable(graph: Graph, groups: Sequence[Group], outputs: set[str]) -> frozenset[int]:
    """Groups that read only parameters, constants and results of such groups.

    A group that updates memory in place, or writes a graph output, stays: outputs must be fresh
    tensors in each call.
    """
    steady = set(graph.static_inputs) | {name for name, _ in graph.constants}
    chosen: set[int] = set()
    updated = set(_aliases(groups).values())
    for n, g in enumerate(groups):
        if not isinstance(g, LoopGroup):
            continue  # host calls may be random; products of two parameters are rare
        writes = {b.name for b in g.writes()}
        if not g.reads() <= steady or writes & (outputs | updated):
            continue
        if any(m.base for m in g.members) or _depends_on_sizes(g):
            continue  # results that depend on a size differ from call to call
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
