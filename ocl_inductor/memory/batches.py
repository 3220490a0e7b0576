"""Small kernels of one form next to each other, so that code generation can combine them.

An optimiser's step updates each parameter separately: the same loop over other memory, each shorter
than a launch takes. Here such kernels move to the earliest one of their form that they do not
depend on; codegen/launches/combo_kernel.py makes one launch of a batch.

Kernels of a batch run concurrently, so buffers that any of them uses stay live for all of them. For
that reason, and because data just written is still in cache, only small kernels move if they use
scratch memory.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Hashable, Sequence

from ocl_inductor.ir.expr import walk
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.memory.allocations import Allocations
from ocl_inductor.memory.liveness import find_lifetimes
from ocl_inductor.memory.order import dependencies
from ocl_inductor.plan.arena import Lifetime, lower_bound
from ocl_inductor.schedule.groups import Group, LoopGroup, Schedule

#: Fewer launches of a form do not justify a separate program.
MIN_BATCH = 4
#: Most scratch memory that a kernel may touch to be moved.
_SMALL_BYTES = 1 << 16
#: Kernels with no more scratch memory than this may raise the peak.
_TINY_BYTES = 64


def batch_launches(
    schedule: Schedule, allocations: Allocations, hint: Callable[[Size], int]
) -> Schedule:
    """The schedule with independent kernels of one form adjacent to each other.

    Unless they use hardly any scratch memory, only where its peak does not rise. ``hint`` gives a
    typical value of a symbolic size.
    """
    bytes_of = {n: hint(prod((b.storage, b.itemsize))) for n, b in allocations.buffers.items()}
    needs = dependencies(schedule.groups)
    forms = [None if allocations.is_hoisted(g) else form(g) for g in schedule.groups]
    used = [
        sum(bytes_of[x] for x in set(map(allocations.root, _uses(g))) & allocations.private)
        for g in schedule.groups
    ]

    def peak(candidate: Schedule) -> int:
        live = find_lifetimes(candidate, allocations)
        return lower_bound(
            [Lifetime(live.first[n], live.last[n], bytes_of[n]) for n in live.scratch]
        )

    def batched(most: int) -> Schedule:
        chosen = [f if u <= most else None for f, u in zip(forms, used, strict=True)]
        return _batched(schedule, chosen, needs)

    found = batched(_SMALL_BYTES)
    return found if peak(found) <= peak(schedule) else batched(_TINY_BYTES)


def _batched(
    schedule: Schedule, forms: Sequence[Hashable | None], needs: Sequence[set[int]]
) -> Schedule:
    many = {n for b in _gather(forms, needs) if len(b) >= MIN_BATCH for n in b}
    # Once more without kernels that found no batch, which then keep their places.
    batches = _gather([f if n in many else None for n, f in enumerate(forms)], needs)
    order = [n for b in batches for n in b]
    spans: list[range] = []
    done = 0
    for b in batches:
        if len(b) > 1:
            spans.append(range(done, done + len(b)))
        done += len(b)
    if not spans:
        return schedule
    groups = tuple(schedule.groups[n] for n in order)
    return dataclasses.replace(schedule, groups=groups, batches=tuple(spans))


def form(group: Group) -> Hashable | None:
    """Equal for kernels whose texts may turn out equal; None for those that are never batched."""
    if not isinstance(group, LoopGroup) or any(m.base for m in group.members):
        return None
    members = tuple(
        (m.kind, m.how, m.row, m.level, m.buffer.dtype, tuple(e.op for e in walk(m.body)))
        for m in group.members
    )
    return len(group.inner), members


def _uses(group: Group) -> set[str]:
    return group.reads() | {b.name for b in group.writes()}


def _gather(forms: Sequence[Hashable | None], needs: Sequence[set[int]]) -> list[list[int]]:
    """Group numbers in their new order, those of a batch together."""
    order: list[list[int]] = []
    places: dict[Hashable, list[int]] = {}
    place: dict[int, int] = {}
    for n, own in enumerate(forms):
        known = places.setdefault(own, []) if own is not None else []
        # The earliest batch of its form after everything it needs.
        first = bisect.bisect_right(known, max((place[k] for k in needs[n]), default=-1))
        if first < len(known):
            at = known[first]
            order[at].append(n)
        else:
            at = len(order)
            order.append([n])
            known.append(at)
        place[n] = at
    return order
