"""From which group to which the memory of each result is needed."""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.memory.allocations import Allocations
from ocl_inductor.schedule.groups import Schedule


@dataclass(frozen=True, slots=True)
class Liveness:
    """``first`` and ``last``: the groups that write and last use each allocation.

    ``scratch``: the private allocations that the groups write, by time of their first write.
    ``hoisted``: the groups that run once.
    """

    first: dict[str, int]
    last: dict[str, int]
    scratch: tuple[str, ...]
    hoisted: frozenset[int]


def find_lifetimes(schedule: Schedule, allocations: Allocations) -> Liveness:
    """Lifetimes with the groups in this order.

    Groups of a batch may run at the same time: what one of them uses lives for all of them.
    """
    groups = schedule.groups
    begin, end = list(range(len(groups))), list(range(len(groups)))
    for batch in schedule.batches:
        for n in batch:
            begin[n], end[n] = batch[0], batch[-1]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, g in enumerate(groups):
        for b in g.writes():
            name = allocations.root(b.name)
            first.setdefault(name, begin[step])
            last[name] = end[step]
        for name in map(allocations.root, g.reads()):
            if name in first:
                last[name] = end[step]
    scratch = tuple(name for name in first if name in allocations.private)
    hoisted = frozenset(n for n, g in enumerate(groups) if allocations.is_hoisted(g))
    return Liveness(first, last, scratch, hoisted)
