"""Scratch memory: one arena for all buffers private to kernels, planned from their lifetimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.memory.allocations import Allocations
from ocl_inductor.memory.in_place import in_place_pairs
from ocl_inductor.memory.liveness import Liveness
from ocl_inductor.plan.arena import Layout, Lifetime, Rules, lower_bound
from ocl_inductor.schedule.groups import Schedule


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """``nbytes`` that are needed from group ``first`` to group ``last``; see ``plan.Slot``."""

    nbytes: Size
    first: int
    last: int
    arena: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """``slot_of``: the slot of each scratch buffer; buffers that overwrite each other share one.

    ``arenas``: bytes of the allocations; empty where a size is symbolic. ``in_place``: a result and
    the dying input that it overwrites. ``updated``: a buffer (with all aliases of its memory) and
    the graph's input that it overwrites. The rest is as in ``Allocations``, ``Liveness`` and
    ``plan.Plan``.
    """

    slot_of: dict[str, int]
    slots: tuple[PlannedSlot, ...]
    arenas: tuple[int, ...]
    kept: frozenset[str]
    aliases: dict[str, str]
    in_place: dict[str, str]
    hoisted: frozenset[int]
    peak_bytes: int
    lower_bound_bytes: int
    unplanned_bytes: int
    kept_bytes: int
    updated: Mapping[str, str]


def plan_memory(
    schedule: Schedule,
    allocations: Allocations,
    live: Liveness,
    info: DeviceInfo,
    hint: Callable[[Size], int],
    updated: Mapping[str, str],
) -> MemoryPlan:
    """Place each buffer that is private to kernels in scratch memory.

    A buffer's place is free again after the last group that uses it. Where a kernel can write over
    an input that dies with it, it does so if that reduces the total. ``hint`` gives a typical value
    of a symbolic size, only for the statistics: such plans are placed at run time.
    ``updated``: see :class:`MemoryPlan`.
    """
    rules, buffers = Rules.of(info), allocations.buffers

    def nbytes(b: Buffer) -> int:
        return rules.aligned(hint(prod((b.storage, b.itemsize))))

    sizes = {name: nbytes(buffers[name]) for name in live.scratch}
    best: tuple[Layout, list[list[str]], dict[str, str], list[Lifetime]] | None = None
    for pairs in ({}, in_place_pairs(schedule, allocations, live)):
        blocks = _blocks(live, pairs)
        lifetimes = [
            Lifetime(live.first[names[0]], live.last[names[-1]], max(sizes[n] for n in names))
            for names in blocks
        ]
        layout = rules.place(lifetimes)
        if best is None or layout.nbytes < best[0].nbytes:
            best = layout, blocks, pairs, lifetimes
    assert best is not None
    layout, blocks, pairs, lifetimes = best
    static = all(is_static(buffers[name].storage) for name in live.scratch)
    slots = []
    for names, x, at in zip(blocks, lifetimes, layout.places, strict=True):
        block = buffers[names[0]]
        exact = sympy.sympify(prod((block.storage, block.itemsize)))
        where = (at.arena, at.offset) if static else (-1, -1)
        slots.append(PlannedSlot(int(exact) if static else exact, x.first, x.last, *where))
    return MemoryPlan(
        slot_of={name: n for n, names in enumerate(blocks) for name in names},
        slots=tuple(slots),
        arenas=layout.arenas if static else (),
        kept=allocations.kept,
        aliases=allocations.aliases,
        in_place=dict(pairs),
        hoisted=live.hoisted,
        peak_bytes=layout.nbytes,
        lower_bound_bytes=lower_bound(lifetimes),
        unplanned_bytes=sum(sizes.values()),
        kept_bytes=sum(nbytes(buffers[name]) for name in allocations.kept),
        updated=updated,
    )


def _blocks(live: Liveness, pairs: Mapping[str, str]) -> list[list[str]]:
    """Scratch buffers; those that overwrite one another in one list, in temporal order."""
    block_of: dict[str, list[str]] = {}
    blocks: list[list[str]] = []
    for name in live.scratch:
        block = block_of.get(pairs.get(name, ""))
        if block is None:
            block = []
            blocks.append(block)
        block.append(name)
        block_of[name] = block
    return blocks
