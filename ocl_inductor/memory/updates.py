"""Inputs that kernels may overwrite directly with their new contents (mutated inputs).

An optimiser's step computes new parameters and states. In separate buffers they would have to be
copied over the old ones; here a kernel writes them in place, if the old ones are not read
afterwards.
"""

from __future__ import annotations

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import loads
from ocl_inductor.ir.index import prod, same
from ocl_inductor.ir.nodes import Buffer, Graph, Update
from ocl_inductor.memory.allocations import Allocations
from ocl_inductor.schedule.groups import ExternGroup, Group, LoopGroup, Schedule


def updates_in_place(
    graph: Graph, schedule: Schedule, allocations: Allocations, info: DeviceInfo
) -> dict[str, str]:
    """Buffer to the input whose memory it can have, for groups that run in this order.

    Several groups may write the memory one after another, as a copy and a scatter into it do; the
    buffer is then the first one's. Correctness: every other group that reads the input has run when
    the first writes (batches run concurrently, so none of its batch may read it), and that one
    either does not read the input or reads it as ``_reads_what_it_writes`` requires. Host calls may
    return views of what they read, so inputs that one reads are unchanged until the end, and
    buffers that one reads do not share memory with inputs. Inputs with gaps have to be in the
    host's own memory, since others are transferred as a whole.
    """
    groups = schedule.groups
    dense = not (info.unified_memory and info.zero_copy)
    # Several work-items may visit a row; each has the values that a kernel computes once for it.
    shared_rows = info.profile == "simt"
    inputs = {b.name: b for b in graph.inputs if isinstance(b, Buffer)}
    writers = {b.name: n for n, g in enumerate(groups) for b in g.writes()}
    batch_of = {n: b for b in schedule.batches for n in b}
    on_host = {allocations.root(x) for g in groups if isinstance(g, ExternGroup) for x in g.reads()}
    readers: dict[str, list[int]] = {}
    for n, g in enumerate(groups):
        for name in g.reads() & inputs.keys():
            readers.setdefault(name, []).append(n)
    targets = [u.target for u in graph.updates]

    def possible(u: Update) -> bool:
        own = inputs.get(u.target)
        name = allocations.root(u.source.name)
        writer = writers.get(name)
        if not u.exact or own is None or writer is None or targets.count(u.target) > 1:
            return False
        if name in on_host:
            return False
        if dense and not same(prod(own.size), own.storage):
            return False
        group = groups[writer]
        if isinstance(group, ExternGroup):
            return False
        together = batch_of.get(writer, range(writer, writer + 1))
        for n in readers.get(u.target, ()):
            if isinstance(groups[n], ExternGroup):
                return False
            if n == writer:
                if not _reads_what_it_writes(group, name, own, shared_rows):
                    return False
            elif n >= together.start:
                return False
        return True

    return {allocations.root(u.source.name): u.target for u in graph.updates if possible(u)}


def _reads_what_it_writes(group: Group, name: str, own: Buffer, shared_rows: bool) -> bool:
    """Whether a group reads ``own`` only where it writes ``name``, at one and the same point.

    This holds in a pointwise group with as many points as the buffer has elements: each is written
    at one point, and read only there. Codegen guarantees that a point is visited once and that all
    its values are computed before the first is stored. It also holds where a kernel sweeps over
    rows and the update is done once for a row, by a member that is the only reader of ``own``.
    Of ``shared_rows`` only one work-item may then do it, so no other member may use its result.
    """
    if not isinstance(group, LoopGroup) or not same(prod(list(group.outer)), prod(own.size)):
        return False
    result = next(m for m in group.members if m.buffer.name == name)
    readers = [m for m in group.members if own.name in m.reads()]
    if result.kind != "pointwise" or result.store_indirect:
        return False
    if group.inner:
        if not (result.row and readers == [result]):
            return False
        if shared_rows and any(name in m.reads() for m in group.members):
            return False
    elif any(m.kind != "pointwise" or m.row or m.base or m.level for m in group.members):
        return False
    reads = [x for m in readers for x in loads(m.body) if x.payload.buffer == own.name]
    return all(x.payload.index == result.store and not x.args for x in reads)
