"""The backend's whole pipeline, top to bottom."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.fx import GraphModule, Node

from ocl_inductor.capture.autograd import capture
from ocl_inductor.capture.checked import add_checks
from ocl_inductor.capture.refused import why_refused
from ocl_inductor.capture.residence import devices_of, node_of, with_cpu_tensors
from ocl_inductor.codegen.plan_builder import build_plan
from ocl_inductor.device.device import Device
from ocl_inductor.device.select import select_device
from ocl_inductor.errors import (
    OtherDeviceError,
    UnsupportedLayoutError,
    UnsupportedMinifierError,
    UnsupportedOperatorError,
)
from ocl_inductor.fx.origin import origin_of
from ocl_inductor.ir.size_hint import size_hint
from ocl_inductor.log import artifact, logger
from ocl_inductor.lowering.interpret import lower_graph
from ocl_inductor.memory.allocations import find_allocations
from ocl_inductor.memory.batches import batch_launches
from ocl_inductor.memory.changes import only_changes
from ocl_inductor.memory.liveness import find_lifetimes
from ocl_inductor.memory.order import lower_peak
from ocl_inductor.memory.planner import plan_memory
from ocl_inductor.memory.updates import updates_in_place
from ocl_inductor.observe.debug_folder import DebugFolder
from ocl_inductor.observe.fallback_log import say_fallback
from ocl_inductor.observe.report.describe import describe
from ocl_inductor.observe.report.report import Report
from ocl_inductor.observe.report.text import memory_text
from ocl_inductor.observe.report.trace import compile_id, trace_plan
from ocl_inductor.observe.report.values import GraphReport
from ocl_inductor.passes import run_passes
from ocl_inductor.passes.stages import depends_on_data
from ocl_inductor.pipeline.data_dependent import plan_stages
from ocl_inductor.pipeline.retry import WHOLE, Form, in_simplest_needed
from ocl_inductor.pipeline.verify import verify_graph, verify_memory, verify_plan, verify_schedule
from ocl_inductor.plan.plan import Plan
from ocl_inductor.plan.residence import Residence
from ocl_inductor.resident.places import place
from ocl_inductor.runtime.build.programs import (
    forget_programs,
    start_builders,
    start_first_builder,
)
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.call.staged import StagedExecutor
from ocl_inductor.runtime.counters import count_plan
from ocl_inductor.runtime.pressure import release_idle
from ocl_inductor.schedule.fuse import schedule_graph
from ocl_inductor.settings import Settings
from ocl_inductor.templates.contributed import contributed_choices
from ocl_inductor.tune.tuner import Tuner

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

_log = logger(__name__)
_memory_log = artifact(__name__, "memory")

#: Is told of each graph that was compiled.
Observer: TypeAlias = Callable[[GraphReport], None]


def opencl_backend(
    gm: GraphModule,
    example_inputs: Sequence[object],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """``torch.compile(model, backend="opencl")``: Dynamo calls this with each captured graph.

    Raises:
        UnknownOptionError: an option, mode or value that does not exist.
        UnsupportedMinifierError: TORCHDYNAMO_REPRO_AFTER=aot.
        UnsupportedLayoutError: a tensor in a layout of oneDNN's.
        NoDeviceError, DeviceNotFoundError: no OpenCL device, or not the one asked for.
    """
    return compile_with(gm, example_inputs, mode=mode, options=options)


def compile_with(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    observe: Observer | None = None,
    unwrapped: bool = False,
) -> Callable[..., Any]:
    """The backend, with an observer that is told of each graph; no plan comes from the cache then.

    ``unwrapped``: see ``capture``.
    """
    if torch._dynamo.config.repro_after == "aot":
        raise UnsupportedMinifierError
    for x in example_inputs:
        if isinstance(x, torch.Tensor) and x.layout is torch._mkldnn:
            raise UnsupportedLayoutError(x.shape)
    settings = Settings.resolve(mode, options)
    for node, reason in why_refused(gm):
        _leave_to_eager(node, reason, settings)
        return gm.forward
    add_checks(gm)
    residents = devices_of(gm, example_inputs)
    if len(residents) > 1:
        names = " and ".join(map(str, residents))
        _leave_to_eager(
            node_of(gm, residents[1]), f"a graph runs on one device, not on {names}", settings
        )
        return gm.forward
    device = _device_for(residents, settings)
    compiler = partial(compile_graph, device=device, settings=settings, observe=observe)
    return capture(
        gm,
        example_inputs,
        compiler,
        device,
        settings,
        # Who asks for the executor keeps its plan under a key of its own (eager/kept_plans.py).
        keep_plans=observe is None and not unwrapped,
        unwrapped=unwrapped,
    )


def _device_for(residents: Sequence[torch.device], settings: Settings) -> Device:
    """The device for a graph on ``ocl`` tensors, which is theirs, or for one on CPU tensors.

    Raises:
        OtherDeviceError: the settings name another one than the tensors are on.
    """
    started = partial(start_first_builder, settings=settings)
    if not residents:
        return select_device(settings.device, started)
    found = place(residents[0].index)
    # The environment's is ocl:0, whatever device the tensors are on.
    asked = None if settings.device == Settings.resolve().device else settings.device
    if asked is not None and select_device(asked) is not found:
        raise OtherDeviceError(asked, str(found))
    started(found)
    return found


def _leave_to_eager(node: Node, reason: str, settings: Settings) -> None:
    name, source = getattr(node.target, "__name__", str(node.target)), origin_of(node).source
    if settings.fallback == "error":
        raise UnsupportedOperatorError(name, source=source, reason=reason)
    say_fallback(name, reason, source)


def compile_graph(
    gm: GraphModule,
    *,
    static_inputs: frozenset[int],
    shape_env: ShapeEnv | None,
    device: Device,
    settings: Settings,
    kind: str = "inference",
    visible_outputs: int | None = None,
    free_outputs: frozenset[int] = frozenset(),
    observe: Observer | None = None,
) -> Executor | StagedExecutor:
    """One functional graph of aten operators to a function that takes its inputs as a list.

    ``kind``: forward, backward or inference; ``visible_outputs``: see :class:`Plan`;
    ``free_outputs``: positions of those that may have any strides.
    """
    start_builders(device, settings, kernels=1 + len(_operators(gm)) // 2)
    residence = with_cpu_tensors(gm)
    build = partial(
        _build_graph,
        gm,
        residence=residence,
        static_inputs=static_inputs,
        shape_env=shape_env,
        device=device,
        settings=settings,
        kind=kind,
        visible_outputs=visible_outputs,
        free_outputs=free_outputs,
        observe=observe,
    )
    return in_simplest_needed(build, device, settings)


def _build_graph(
    gm: GraphModule,
    form: Form,
    *,
    residence: Residence | None,
    static_inputs: frozenset[int],
    shape_env: ShapeEnv | None,
    device: Device,
    settings: Settings,
    kind: str,
    visible_outputs: int | None,
    free_outputs: frozenset[int],
    observe: Observer | None,
) -> Executor | StagedExecutor:
    """The same in one form. Raises CompilerFailedError: the driver does not build it so."""
    plan_for = partial(
        make_plan,
        shape_env=shape_env,
        device=device,
        settings=settings,
        kind=kind,
        observe=observe,
        form=form,
    )
    if depends_on_data(gm):

        def plan_of(piece: GraphModule, static: frozenset[int]) -> Plan:
            plan = plan_for(piece, static_inputs=static)
            if residence is not None:  # what stages hand on to each other is anywhere
                plan = dataclasses.replace(plan, residence=Residence())
            count_plan(plan)
            return plan

        staged = plan_stages(gm, static_inputs, shape_env, settings.fallback, plan_of)
        return StagedExecutor(dataclasses.replace(staged, residence=residence), device, settings)
    plan = plan_for(
        gm,
        static_inputs=static_inputs,
        visible_outputs=visible_outputs,
        free_outputs=free_outputs,
    )
    plan = dataclasses.replace(
        plan,
        backward=kind == "backward",
        residence=residence,
    )
    executor = Executor(plan, device, settings)
    count_plan(plan)
    _log.info(
        "%s graph: %d kernels, %d more when parameters change, %d operators on the host",
        kind,
        plan.statistics["kernels"],
        plan.statistics["prologue_kernels"],
        plan.statistics["fallbacks"],
    )
    return executor


def make_plan(
    gm: GraphModule,
    *,
    static_inputs: frozenset[int],
    shape_env: ShapeEnv | None,
    device: Device,
    settings: Settings,
    kind: str = "inference",
    visible_outputs: int | None = None,
    free_outputs: frozenset[int] = frozenset(),
    observe: Observer | None = None,
    form: Form = WHOLE,
) -> Plan:
    """The compiler proper: FX graph in, plan out."""
    info = form.of(device.info.for_settings(settings))
    debug = DebugFolder.for_settings(settings)

    def check(verify: Callable[..., None], *stage: object) -> None:
        if settings.verify:
            verify(*stage)

    debug.dump("captured", lambda: gm.print_readable(print_output=False))
    gm = run_passes(gm)
    debug.dump("passes", lambda: gm.print_readable(print_output=False))
    measured = settings.mode == "max-autotune"
    tune = Tuner(device, info, settings) if measured else contributed_choices(info)

    def make_body(body: GraphModule, static: frozenset[int]) -> Plan:
        return make_plan(
            body,
            static_inputs=static,
            shape_env=shape_env,
            device=device,
            settings=settings,
            kind=f"{kind} body",
            observe=observe,
            form=form,
        )

    graph = lower_graph(
        gm,
        info,
        settings,
        static_inputs=static_inputs,
        shape_env=shape_env,
        tune=tune,
        compile_plan=make_body,
        free_outputs=free_outputs,
        on_host=form.on_host,
    )
    check(verify_graph, graph)
    debug.dump("lowered", lambda: "\n".join(map(str, graph.nodes)))
    hint = partial(size_hint, shape_env)
    schedule = schedule_graph(graph, info, hint)
    allocations = find_allocations(graph, schedule.groups)
    schedule = lower_peak(schedule, allocations, hint)
    schedule = batch_launches(schedule, allocations, hint)
    check(verify_schedule, graph, schedule)
    updated = updates_in_place(graph, schedule, allocations, info)
    schedule = only_changes(schedule, updated)
    debug.dump("scheduled", lambda: "\n\n".join(map(str, schedule.groups)))
    live = find_lifetimes(schedule, allocations)
    memory = plan_memory(schedule, allocations, live, info, hint, updated)
    check(verify_memory, live, memory)
    debug.dump("memory", lambda: str(memory))
    plan = build_plan(
        graph,
        schedule,
        memory,
        info,
        hint,
        _operators(gm),
        visible_outputs,
        # Who wants to see what was fused wants to see kernels, not what shares a launch.
        chained=settings.chain and observe is None,
        verify=settings.verify,
    )
    check(verify_plan, plan)
    debug.dump("kernels.cl", lambda: "\n".join(k.source for k in plan.kernels))

    @functools.cache
    def report() -> GraphReport:
        return describe(
            gm,
            graph,
            schedule,
            memory,
            plan,
            device=device,
            profile=info.profile,
            hint=hint,
            kind=kind,
            compile_id=compile_id(),
        )

    if _memory_log.isEnabledFor(logging.INFO):
        _memory_log.info("%s", memory_text(report()))
    debug.dump("report.txt", lambda: Report((report(),)).text())
    debug.dump("report.html", lambda: Report((report(),)).html())
    trace_plan(plan, report)
    if observe is not None:
        observe(report())
    return plan


def _operators(gm: GraphModule) -> dict[str, str]:
    """FX node -> operator."""
    return {n.name: str(n.target) for n in gm.graph.nodes if n.op == "call_function"}


def reset() -> None:
    """``torch.compiler.reset()``: nothing outlives the compiled functions themselves."""
    forget_programs()
    release_idle()
    torch._dynamo.utils.counters["opencl"].clear()


opencl_backend.reset = reset  # type: ignore[attr-defined]
