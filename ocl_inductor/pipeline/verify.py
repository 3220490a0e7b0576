"""Checks of each stage's result; run in tests and with ``verify=True``.

Each raises VerifyError with the stage and the rule that is broken.
"""

from __future__ import annotations

from ocl_inductor.errors import VerifyError
from ocl_inductor.ir.expr import Expr, indices, walk
from ocl_inductor.ir.index import size_symbols
from ocl_inductor.ir.nodes import Buffer, Graph, Loop
from ocl_inductor.ir.ops import PRIMITIVES, STRUCTURAL
from ocl_inductor.memory.liveness import Liveness
from ocl_inductor.memory.planner import MemoryPlan
from ocl_inductor.plan.plan import FAULT, PROGRESS, HostCall, Launch, Plan
from ocl_inductor.schedule.groups import LoopGroup, Member, Schedule


def verify_graph(graph: Graph) -> None:
    """Names are written once and before they are read; bodies use known operations, their own loop
    variables, and the dtype of the buffer they fill."""
    known = {b.name for b in graph.inputs if isinstance(b, Buffer)}
    known |= {name for name in graph.inputs if isinstance(name, str)}
    known |= {name for name, _ in graph.constants}
    for node in graph.nodes:
        missing = node.reads() - known
        if missing:
            raise VerifyError("lowering", f"{sorted(missing)} read before being written")
        for b in node.writes():
            if b.name in known:
                raise VerifyError("lowering", f"{b.name} is written twice")
            known.add(b.name)
        known |= set(getattr(node, "host_results", ()))
        if isinstance(node, Loop):
            _verify_body("lowering", node.buffer.name, node.body)
            allowed = {v.name for v in node.var_ranges}
            _verify_variables("lowering", node.buffer.name, node.body, allowed)
            if node.kind == "pointwise" and node.body.dtype != node.buffer.dtype:
                raise VerifyError("lowering", f"{node.buffer.name} has a body of another dtype")
    for o in graph.results:
        if o.kind == "buffer" and o.name not in known:
            raise VerifyError("lowering", f"output {o.name} is never written")


def verify_schedule(graph: Graph, schedule: Schedule) -> None:
    """Every output is stored; every kernel's inputs are stored by an earlier kernel."""
    ready = {b.name for b in graph.inputs if isinstance(b, Buffer)}
    ready |= {name for name in graph.inputs if isinstance(name, str)}
    ready |= {name for name, _ in graph.constants}
    for group in schedule.groups:
        missing = group.reads() - ready
        if missing:
            raise VerifyError("schedule", f"{sorted(missing)} read before being stored")
        ready |= {b.name for b in group.writes()}
        if isinstance(group, LoopGroup):
            allowed = {v.name for v in group.var_ranges}
            for m in group.members:
                _verify_member(m, allowed, {v.name for v in group.outer_vars})
        ready |= set(getattr(getattr(group, "node", None), "host_results", ()))
    for o in graph.results:
        if o.kind == "buffer" and o.name not in ready:
            raise VerifyError("schedule", f"output {o.name} is not stored")


def verify_memory(live: Liveness, memory: MemoryPlan) -> None:
    """Buffers that are live at the same time do not overlap, unless one overwrites the other in
    the kernel that reads it for the last time."""
    if set(memory.slot_of) != set(live.scratch):
        raise VerifyError("memory", f"slots of {sorted(set(memory.slot_of) ^ set(live.scratch))}")
    for new, name in enumerate(live.scratch):
        for other in live.scratch[:new]:
            if live.last[other] < live.first[name] or not _overlap(memory, name, other):
                continue
            if memory.in_place.get(name) == other and live.last[other] == live.first[name]:
                continue
            raise VerifyError("memory", f"{name} overwrites {other}, which is still needed")
    for slot, total in ((s, memory.arenas[s.arena]) for s in memory.slots if memory.arenas):
        if slot.offset < 0 or slot.offset + int(slot.nbytes) > total:
            raise VerifyError("memory", f"a slot at {slot.offset} leaves its arena")


def _overlap(memory: MemoryPlan, a: str, b: str) -> bool:
    one, other = memory.slot_of[a], memory.slot_of[b]
    x, y = memory.slots[one], memory.slots[other]
    if one == other:
        return True
    if not memory.arenas:  # placed at run time, by these lifetimes
        return x.first > y.last or y.first > x.last
    apart = x.offset + int(x.nbytes) <= y.offset or y.offset + int(y.nbytes) <= x.offset
    return x.arena == y.arena and not apart


def verify_plan(plan: Plan) -> None:
    """Every name a step uses exists, and every launch has a kernel and sizes."""
    names = {s.name for s in plan.inputs} | {name for name, _ in plan.constants}
    names |= {b.name for b in plan.buffers} | {name for name, _ in plan.aliases}
    names |= {FAULT} if plan.checks else set()
    names |= {PROGRESS} if plan.progress_words else set()
    for step in (*plan.prologue, *plan.steps):
        if isinstance(step, HostCall):
            continue
        assert isinstance(step, Launch)
        unknown = set(step.buffers) - names
        if unknown or not 0 <= step.kernel < len(plan.kernels) or not step.global_size:
            raise VerifyError("codegen", f"launch of kernel {step.kernel} names {sorted(unknown)}")


def _verify_member(m: Member, allowed: set[str], outer: set[str]) -> None:
    _verify_body("schedule", m.buffer.name, m.body)
    _verify_variables("schedule", m.buffer.name, m.body, outer if m.row else allowed)


def _verify_body(stage: str, name: str, body: Expr) -> None:
    for e in walk(body):
        if e.op in STRUCTURAL:
            continue
        row = PRIMITIVES.get(e.op)
        if row is None:
            raise VerifyError(stage, f"{name} uses the unknown operation {e.op}")
        if len(e.args) != row.arity:
            raise VerifyError(stage, f"{name} gives {e.op} {len(e.args)} of {row.arity} operands")
        dtype = row.result_dtype(tuple(a.dtype for a in e.args))
        if dtype not in (None, e.dtype):
            raise VerifyError(stage, f"{name} has {e.op} of {dtype} as {e.dtype}")


def _verify_variables(stage: str, name: str, body: Expr, allowed: set[str]) -> None:
    for i in indices(body):
        sizes = {s.name for s in size_symbols([i])}
        used = {s.name for s in i.free_symbols} - sizes  # type: ignore[attr-defined]
        strange = {s for s in used if not s.startswith("ind")} - allowed
        if strange:
            raise VerifyError(stage, f"{name} uses foreign loop variables {sorted(strange)}")
