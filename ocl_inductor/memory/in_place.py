"""Kernels that may write a result over an input that is no longer needed."""

from __future__ import annotations

from ocl_inductor.ir.expr import loads
from ocl_inductor.ir.index import prod, same
from ocl_inductor.memory.allocations import Allocations
from ocl_inductor.memory.liveness import Liveness
from ocl_inductor.schedule.groups import LoopGroup, Schedule


def in_place_pairs(schedule: Schedule, allocations: Allocations, live: Liveness) -> dict[str, str]:
    """Result to the input that it may overwrite, at most one pair in each group.

    None in batches: others that run at the same time may read the input.
    """
    together = {n for b in schedule.batches for n in b}
    scratch = set(live.scratch) - {allocations.root(a) for a in allocations.aliases}
    found: dict[str, str] = {}
    for step, group in enumerate(schedule.groups):
        if not isinstance(group, LoopGroup) or step in together:
            continue
        dying = {n for n in group.reads() & scratch if live.last[n] == step}
        pair = _pair(group, dying, scratch, allocations)
        if pair is not None:
            found[pair[0]] = pair[1]
    return found


def _pair(
    group: LoopGroup, dying: set[str], scratch: set[str], allocations: Allocations
) -> tuple[str, str] | None:
    """The last stored result of a pointwise group, and an input read at its own positions only.

    Correctness: every member is evaluated once at each point of the group's space. The result has
    as many elements as the space has points and every element is written, so each is written at
    one point. The input is read at that same index in all members, so at that same point; and since
    the result is stored last, the point has read the input by then. Codegen guarantees that a point
    is visited once (no overlapping vectors) and does not declare the two pointers ``restrict``.
    """
    if group.inner or any(m.kind != "pointwise" or m.row or m.base for m in group.members):
        return None
    stored = [m for m in group.members if m.buffer.name in group.stored]
    result = stored[-1]
    buffer = result.buffer
    # Members after the last stored one are only evaluated where a stored one needs them.
    if buffer.name not in scratch or not same(prod(list(group.outer)), buffer.storage):
        return None
    if result.store_indirect or len({m.level for m in group.members}) > 1:
        return None
    for name in sorted(dying):
        other = allocations.buffers[name]
        if other.itemsize != buffer.itemsize or not same(other.storage, buffer.storage):
            continue
        reads = [x for m in group.members for x in loads(m.body) if x.payload.buffer == name]
        plain = all(x.payload.index == result.store and not x.args for x in reads)
        if reads and plain:
            return buffer.name, name
    return None
