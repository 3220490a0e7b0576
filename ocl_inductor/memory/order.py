"""Reordering of kernels where that lowers the peak of scratch memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from ocl_inductor.ir.index import Size, prod
from ocl_inductor.memory.allocations import Allocations
from ocl_inductor.schedule.groups import ExternGroup, Group, LoopGroup, Schedule

#: Least share of the peak that a new order must save: graph order has better cache locality.
WORTH_IT = 0.02


def lower_peak(
    schedule: Schedule, allocations: Allocations, hint: Callable[[Size], int]
) -> Schedule:
    """The schedule in the candidate order with the lowest peak; unchanged unless one is better.

    Dependencies are preserved: readers of a buffer run after its writer, an update of a buffer
    after all readers of its old contents, and host calls in their order.
    """
    groups = schedule.groups
    private = [(n, b) for n, b in allocations.buffers.items() if n in allocations.private]
    bytes_of = {n: hint(prod((b.storage, b.itemsize))) for n, b in private}
    uses = [_uses(g, allocations, bytes_of) for g in groups]
    needs = dependencies(groups)
    best, best_peak = list(range(len(groups))), _peak(range(len(groups)), uses, bytes_of)
    for order in _candidates(uses, needs, bytes_of):
        peak = _peak(order, uses, bytes_of)
        if peak < best_peak * (1 - WORTH_IT):
            best, best_peak = order, peak
    if best == list(range(len(groups))):
        return schedule
    return dataclasses.replace(schedule, groups=tuple(groups[n] for n in best))


def _uses(g: Group, allocations: Allocations, bytes_of: dict[str, int]) -> frozenset[str]:
    names = g.reads() | {b.name for b in g.writes()}
    return frozenset(map(allocations.root, names)) & bytes_of.keys()


def dependencies(groups: Sequence[Group]) -> list[set[int]]:
    """For each group, those that must run before it."""
    writer: dict[str, int] = {}
    for n, g in enumerate(groups):
        for b in g.writes():
            writer[b.name] = n
        if isinstance(g, ExternGroup):
            writer |= dict.fromkeys(g.node.host_results, n)
    needs = [{writer[r] for r in g.reads() if r in writer} - {n} for n, g in enumerate(groups)]
    readers: dict[str, set[int]] = {}
    for n, g in enumerate(groups):
        for name in g.reads():
            readers.setdefault(name, set()).add(n)
    before = None
    for n, g in enumerate(groups):
        if isinstance(g, ExternGroup):
            if before is not None:
                needs[n].add(before)
            before = n
            continue
        for m in g.members if isinstance(g, LoopGroup) else g.epilogue:
            if m.base:  # earlier readers of what it updates
                needs[n] |= {k for k in readers.get(m.base, ()) if k < n}
    return needs


def _peak(order: Sequence[int], uses: Sequence[frozenset[str]], bytes_of: dict[str, int]) -> int:
    last = {name: n for n in order for name in uses[n]}
    live: set[str] = set()
    now = peak = 0
    for n in order:
        for name in uses[n] - live:
            live.add(name)
            now += bytes_of[name]
        peak = max(peak, now)
        for name in uses[n]:
            if last[name] == n:
                now -= bytes_of[name]
    return peak


def _candidates(
    uses: Sequence[frozenset[str]], needs: Sequence[set[int]], bytes_of: dict[str, int]
) -> Iterator[list[int]]:
    """Greedy orders: the ready group that leaves the fewest live bytes; the same from the end;
    the one whose inputs are the newest."""
    after: list[set[int]] = [set() for _ in needs]
    for n, before in enumerate(needs):
        for k in before:
            after[k].add(n)
    yield _greedy(uses, needs, after, bytes_of)
    yield list(reversed(_greedy(uses, after, needs, bytes_of)))
    yield _depth_first(needs, after)


def _greedy(
    uses: Sequence[frozenset[str]],
    needs: Sequence[set[int]],
    after: Sequence[set[int]],
    bytes_of: dict[str, int],
) -> list[int]:
    waiting = [len(x) for x in needs]
    users: dict[str, int] = {}
    for names in uses:
        for name in names:
            users[name] = users.get(name, 0) + 1
    live: set[str] = set()
    ready = {n for n, count in enumerate(waiting) if count == 0}
    order: list[int] = []

    def change(n: int) -> tuple[int, int, int]:
        made = sum(bytes_of[x] for x in uses[n] if x not in live)
        gone = sum(bytes_of[x] for x in uses[n] if users[x] == 1)
        return made - gone, made, n

    while ready:
        n = min(ready, key=change)
        ready.remove(n)
        order.append(n)
        live |= uses[n]
        for name in uses[n]:
            users[name] -= 1
        for k in after[n]:
            waiting[k] -= 1
            if waiting[k] == 0:
                ready.add(k)
    return order


def _depth_first(needs: Sequence[set[int]], after: Sequence[set[int]]) -> list[int]:
    waiting = [len(x) for x in needs]
    stack = [n for n in reversed(range(len(needs))) if waiting[n] == 0]
    order: list[int] = []
    while stack:
        n = stack.pop()
        order.append(n)
        opened = []
        for k in sorted(after[n], reverse=True):
            waiting[k] -= 1
            if waiting[k] == 0:
                opened.append(k)
        stack += opened
    return order
