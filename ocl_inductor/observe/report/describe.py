"""From the values that the stages of the compiler hand on to a :class:`GraphReport`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import sympy
import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from ocl_inductor.codegen.plan_builder import stepping_groups
from ocl_inductor.device.device import Device
from ocl_inductor.ir.index import Size
from ocl_inductor.ir.nodes import Buffer, Graph
from ocl_inductor.memory.planner import MemoryPlan
from ocl_inductor.observe.report.values import (
    BufferReport,
    ChoiceReport,
    GraphReport,
    KernelSourceText,
    MemoryReport,
    OperatorReport,
    RefusalReport,
    SourceLine,
    StepReport,
    live_bytes,
)
from ocl_inductor.plan.aliases import root_of
from ocl_inductor.plan.arena import Lifetime, aligned, place
from ocl_inductor.plan.plan import BufferSpec, Launch, Plan, SizeText, Step
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.schedule.groups import ExternGroup, Group, LoopGroup, Schedule, TemplateGroup

Evaluate = Callable[[SizeText], int]

_FRAME = re.compile(r'File "(?P<file>.*?)", line (?P<line>\d+), in (?P<function>\S+)')


def describe(
    gm: GraphModule,
    graph: Graph,
    schedule: Schedule,
    memory: MemoryPlan,
    plan: Plan,
    *,
    device: Device,
    profile: str,
    hint: Callable[[Size], int],
    kind: str = "",
    compile_id: str = "",
) -> GraphReport:
    """What was decided for one graph.

    ``gm`` is the graph as it was lowered; ``hint`` gives typical values of symbolic sizes.
    """
    symbols = {str(s): hint(s) for s in graph.inputs if isinstance(s, sympy.Symbol)}
    sizes = Sizes(plan.symbols)
    sizes.bind(symbols)

    def evaluate(text: SizeText) -> int:
        try:
            return sizes(text)
        except Exception:  # a size that only the data decides
            return 0

    groups = list(stepping_groups(schedule, memory))
    # What runs at each call comes first: its numbers are the ones that people read.
    calls = [g for g, hoisted in groups if not hoisted]
    stepping = [([calls[n] for n in part], False) for part in plan.parts]
    stepping += [([g], True) for g, hoisted in groups if hoisted]
    steps = _steps(stepping, _operator_order(gm), plan, evaluate)
    return GraphReport(
        kind=kind,
        compile_id=compile_id,
        device=device.short_name,
        profile=profile,
        operators=tuple(_operators(gm)),
        steps=steps,
        kernels=tuple(KernelSourceText(k.name, k.source) for k in plan.kernels),
        refusals=_refusals(schedule, [g for g, _ in stepping], _extents(graph, hint)),
        memory=memory_report(plan, steps, evaluate),
        inputs=sum(s.kind == "tensor" and not s.static for s in plan.inputs),
        outputs=len(plan.outputs),
        parameters=sum(s.static for s in plan.inputs),
        symbols=tuple(symbols.items()),
        choices=_choices(graph),
    )


# -- operators ---------------------------------------------------------------------------------


def _operators(gm: GraphModule) -> Iterable[OperatorReport]:
    for node in gm.graph.nodes:
        if node.op == "call_function" and str(node.target) != "<built-in function getitem>":
            yield OperatorReport(
                node.name,
                str(node.target),
                _result_text(node.meta.get("val")),
                source_line(node.meta.get("stack_trace") or ""),
                _module(node),
            )


def _operator_order(gm: GraphModule) -> dict[str, int]:
    """Position of each operator in the graph; what returns the results is none."""
    return {n.name: i for i, n in enumerate(gm.graph.nodes) if n.op == "call_function"}


def source_line(stack_trace: str) -> SourceLine | None:
    """The innermost frame of an FX stack trace."""
    frames = list(_FRAME.finditer(stack_trace))
    if not frames:
        return None
    last = frames[-1]
    rest = stack_trace[last.end() :].strip().splitlines()
    code = rest[0].removeprefix(", code:").strip() if rest else ""
    return SourceLine(last["file"], int(last["line"]), last["function"], code)


def _module(node: FxNode) -> str:
    """Path of the module that called the operator: ``layer1.0.conv1``."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    path = re.sub(r"^[LG]\['\w+'\]\.?", "", path)  # the name that Dynamo knows the model by
    path = re.sub(r"_modules\['(\w+)'\]", r"\1", path)
    return re.sub(r"\['?(\w+)'?\]", r".\1", path).lstrip(".")


def _result_text(value: object) -> str:
    if isinstance(value, torch.Tensor):
        short = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "bool": "b"}
        name = str(value.dtype).removeprefix("torch.")
        kind = name.rstrip("0123456789")
        size = ", ".join(str(s) for s in value.shape)
        return f"{short.get(kind, kind)}{name[len(kind) :]}[{size}]"
    if isinstance(value, (tuple, list)):
        return ", ".join(t for v in value if (t := _result_text(v)))
    return ""


# -- steps -------------------------------------------------------------------------------------


def _steps(
    stepping: Sequence[tuple[Sequence[Group], bool]],
    position: Mapping[str, int],
    plan: Plan,
    evaluate: Evaluate,
) -> tuple[StepReport, ...]:
    planned: Sequence[Step] = (*plan.steps, *plan.prologue)
    found: list[StepReport] = []
    for number, ((groups, hoisted), step) in enumerate(zip(stepping, planned, strict=True)):
        writes = tuple(b.name for g in groups for b in g.writes())
        named = {n for g in groups for n in g.origin.all_nodes if n in position}
        operators = tuple(sorted(named, key=lambda n: position[n]))
        common: dict[str, Any] = {
            "number": number,
            "stage": "prologue" if hoisted else "call",
            "operators": operators,
            "reads": tuple(sorted({n for g in groups for n in g.reads()}, key=_natural)),
        }
        if isinstance(step, Launch):
            found.append(
                StepReport(
                    kind="kernel",
                    name=plan.kernels[step.kernel].name,
                    writes=writes,
                    kernel=step.kernel,
                    global_size=tuple(map(evaluate, step.global_size)),
                    local_size=step.local_size or (),
                    flops=evaluate(step.flops),
                    bytes=evaluate(step.bytes),
                    **common,
                )
            )
        else:
            (group,) = groups
            assert isinstance(group, ExternGroup)
            found.append(
                StepReport(
                    kind="host",
                    name=step.label,
                    writes=(*writes, *group.node.host_results),
                    fallback=step.fallback,
                    reason=group.node.reason,
                    **common,
                )
            )
    return tuple(found)


def _natural(name: str) -> tuple[str, int]:
    digits = re.search(r"\d+", name)
    return name.rstrip("0123456789"), int(digits[0]) if digits else 0


# -- choices ------------------------------------------------------------------------------------


def _choices(graph: Graph) -> tuple[ChoiceReport, ...]:
    """Equal ones together, in the order of their first operators."""
    found: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for s in graph.selections:
        found.setdefault((s.problem, s.chosen, s.declined), []).extend(s.origin.fx_nodes)
    return tuple(ChoiceReport(*what, tuple(dict.fromkeys(names))) for what, names in found.items())


# -- refusals ----------------------------------------------------------------------------------


def _refusals(
    schedule: Schedule, stepping: Sequence[Sequence[Group]], extents: dict[str, int]
) -> tuple[RefusalReport, ...]:
    """Those between two steps that are still apart in the end; the most expensive first."""
    computed = [{name for g in groups for name in _computed(g)} for groups in stepping]
    read = [{name for g in groups for name in g.reads()} for groups in stepping]
    step_of = {name: n for n, names in enumerate(computed) for name in names}
    found: dict[tuple[int, int, str], RefusalReport] = {}
    for r in schedule.refusals:
        first, second = step_of.get(r.kernel_buffer), step_of.get(r.node_buffer)
        if first is None or second is None or first == second:
            continue
        shared = (read[first] | computed[first]) & (read[second] | computed[second])
        saved = sum(extents.get(name, 0) for name in shared)
        report = RefusalReport(first, second, r.node, r.reason, saved)
        found.setdefault((first, second, r.reason), report)
    return tuple(sorted(found.values(), key=lambda r: (-r.saved_bytes, r.first, r.second)))


def _computed(group: Group) -> set[str]:
    """Every buffer a group computes, stored or not."""
    if isinstance(group, LoopGroup):
        return {m.buffer.name for m in group.members}
    if isinstance(group, TemplateGroup):
        return {group.template.buffer.name, *(m.buffer.name for m in group.epilogue)}
    return {b.name for b in group.writes()} | set(group.node.host_results)


def _extents(graph: Graph, hint: Callable[[Size], int]) -> dict[str, int]:
    """Bytes of every buffer of the graph."""
    buffers = [b for b in graph.inputs if isinstance(b, Buffer)]
    buffers += [b for node in graph.nodes for b in node.writes()]
    return {b.name: hint(b.storage) * b.itemsize for b in buffers}


# -- memory ------------------------------------------------------------------------------------


def memory_report(plan: Plan, steps: Sequence[StepReport], evaluate: Evaluate) -> MemoryReport:
    """When each buffer of a plan is alive, and where it lies."""
    root = partial(root_of, aliases=dict(plan.aliases))
    used: dict[str, list[int]] = {}
    for step in steps:
        for name in (*step.reads, *step.writes):
            used.setdefault(root(name), []).append(step.number)
    starts, planned = _places(plan, evaluate)
    calls = sum(s.stage == "call" for s in steps)
    end = max(calls - 1, 0)
    buffers: list[BufferReport] = []
    for spec in plan.buffers:
        times = used.get(spec.name, [0])
        in_prologue = spec.where == "slot" and min(times) > end
        buffers.append(
            BufferReport(
                spec.name,
                str(spec.dtype).removeprefix("torch."),
                tuple(map(evaluate, spec.size)),
                _bytes(spec, evaluate),
                "prologue" if in_prologue else spec.where,
                0 if spec.where == "kept" else min(times),
                max(times) if spec.where == "slot" else end,
                spec.slot,
                starts[spec.slot] if spec.where == "slot" else 0,
            )
        )

    def total(where: str) -> int:
        return sum(b.bytes for b in buffers if b.where == where)

    scratch = [b for b in buffers if b.where == "slot"]
    live = [live_bytes(scratch, n) for n in range(calls)]
    return MemoryReport(
        tuple(buffers),
        planned=planned,
        # Buffers of a chain of kernels, which is one step, need not be alive together.
        lower_bound=min(max(live, default=0), planned),
        unplanned=total("slot"),
        kept=total("kept"),
        outputs=total("output"),
    )


def _places(plan: Plan, evaluate: Evaluate) -> tuple[list[int], int]:
    """Where each slot begins, arenas side by side, and the bytes of all arenas.

    Slots of symbolic size are placed as the runtime would for sizes that ``evaluate`` gives.
    """
    if plan.arenas:
        begins = [sum(plan.arenas[:n]) for n in range(len(plan.arenas))]
        return [begins[s.arena] + s.offset for s in plan.slots], sum(plan.arenas)
    lifetimes = [Lifetime(s.first, s.last, aligned(evaluate(s.nbytes))) for s in plan.slots]
    layout = place(lifetimes, None)
    return [p.offset for p in layout.places], layout.nbytes


def _bytes(spec: BufferSpec, evaluate: Evaluate) -> int:
    return evaluate(spec.extent) * spec.dtype.itemsize


__all__ = ["describe", "memory_report", "source_line"]
