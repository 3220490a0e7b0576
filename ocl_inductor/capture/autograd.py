"""AOTAutograd: a Dynamo graph to functional forward, backward and inference graphs of aten."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import GmWrapper
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import is_fake, unset_fake_temporarily
from torch.fx import GraphModule

from ocl_inductor.capture.decompositions.ctc import trace_ctc_loss
from ocl_inductor.capture.decompositions.expand import expand_higher_order
from ocl_inductor.capture.decompositions.recurrent import trace_recurrent_modules
from ocl_inductor.capture.decompositions.rewrites import BEFORE_AUTOGRAD
from ocl_inductor.capture.decompositions.table import LazyDecompositions
from ocl_inductor.capture.direct import calls_directly, without_wrappers
from ocl_inductor.capture.partition import FREE, VISIBLE, partition
from ocl_inductor.capture.random_arguments import take_as_passed
from ocl_inductor.capture.saved_layout import report_strides, take_strides
from ocl_inductor.capture.tangents import may_overlap
from ocl_inductor.capture.warm.warm_start import keeping_plans
from ocl_inductor.device.device import Device
from ocl_inductor.fx.marks import RENEWED, TRAINED, VIEWED
from ocl_inductor.patches.process.garbage_collector import leave_old_objects_alone
from ocl_inductor.patches.pytorch.autograd_config import tracing_config
from ocl_inductor.patches.pytorch.autograd_kernels import replaced
from ocl_inductor.patches.pytorch.impure_operators import keep_checks
from ocl_inductor.patches.pytorch.onednn_operators import without_onednn
from ocl_inductor.patches.pytorch.overlapping_gradients import dense_gradients
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.call.staged import StagedExecutor
from ocl_inductor.settings import Settings

#: What Dynamo, AOTAutograd and pyopencl would import in the first call.
_IMPORTED_LATE = (
    "torch._inductor.codegen.wrapper",
    "torch._inductor.debug",
    "torch.distributed._functional_collectives",
    "torch.distributed.tensor.experimental._func_map",
    "torch.export._trace",
    "pytools.persistent_dict",
    "pytools.py_codegen",
)
for _module in _IMPORTED_LATE:
    with contextlib.suppress(Exception):  # a build of PyTorch without it
        import_module(_module)
leave_old_objects_alone()
trace_ctc_loss()
trace_recurrent_modules()

GraphCompiler = Callable[..., Executor | StagedExecutor]


def capture(
    gm: GraphModule,
    example_inputs: Sequence[object],
    compile_graph: GraphCompiler,
    device: Device,
    settings: Settings,
    *,
    keep_plans: bool = True,
    unwrapped: bool = False,
) -> Callable[..., object]:
    """Trace ``gm`` and compile each resulting graph with ``compile_graph``; or take their plans
    from the cache, unless ``keep_plans`` is off.

    ``unwrapped``: for a graph without gradients, return the executor itself where AOTAutograd's
    wrappers have no effect.
    """
    if not isinstance(gm, GmWrapper):
        example_inputs = take_as_passed(gm, example_inputs)
    keep_checks()
    leave_old_objects_alone()  # in the next compilation, where this one follows a reset
    # The minifier, which passes real tensors, calls backward() while Dynamo compiles, when no other
    # compilation is possible.
    minified = any(isinstance(x, torch.Tensor) and not is_fake(x) for x in example_inputs)
    with (
        without_onednn(),
        replaced(BEFORE_AUTOGRAD),
        dense_gradients(may_overlap),
        tracing_config(backward_now=minified),
        keeping_plans(gm, example_inputs, device, settings, wanted=keep_plans) as graphs,
    ):
        compiler = aot_autograd(
            fw_compiler=graphs.compiler(_compiler(compile_graph, "forward")),
            bw_compiler=graphs.compiler(_compiler(compile_graph, "backward")),
            inference_compiler=graphs.compiler(_compiler(compile_graph, "inference")),
            decompositions=LazyDecompositions(),
            partition_fn=partition,
            # Otherwise each tensor written in place would be returned as a new one, to be copied.
            keep_inference_input_mutations=True,
        )
        compiled = compiler(gm, _fixed_sizes(example_inputs))
    if isinstance(gm, GmWrapper):
        return compiled
    if unwrapped:
        results = gm.graph.output_node().args[0]
        assert isinstance(results, tuple)
        executor = graphs.only()
        if executor is not None and calls_directly(executor, len(example_inputs), len(results)):
            return executor
    # AOTAutograd marks this as boxed, but it takes plain arguments; the minifier trusts the mark.
    compiled._boxed_call = False
    return without_wrappers(compiled, gm, example_inputs, graphs.only)


def _fixed_sizes(example_inputs: Sequence[object]) -> list[object]:
    """Real tensors unknown to Dynamo, as fake ones of static size.

    Dynamo passes fake tensors. The minifier passes real ones, which would get symbolic sizes that
    no input of the graph carries.
    """
    context = TracingContext.try_get()
    mode = None if context is None else context.fake_mode
    if context is None or mode is None:
        return list(example_inputs)

    def fixed(x: object) -> Any:
        known = not isinstance(x, torch.Tensor) or is_fake(x) or x in context.tensor_to_context
        return x if known else mode.from_tensor(x, static_shapes=True)

    return [fixed(x) for x in example_inputs]


def _keep_saved_tensors() -> None:
    """Tell AOTAutograd that nothing overwrites tensors saved for the backward graph.

    It would refuse a second backward() (retain_graph) of graphs that are compiled together with
    their forward, when it is not known yet whether there will be one.
    """
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []


def _compiler(compile_graph: GraphCompiler, kind: str) -> GraphCompiler:
    # Parameters reach a backward graph among the saved tensors, at positions that are not reported.
    static = kind != "backward"

    def run(gm: GraphModule, inputs: Sequence[object]) -> Executor | StagedExecutor:
        if kind == "backward":
            _keep_saved_tensors()
            take_strides(gm, inputs)
        else:
            _mark_views(gm)
        if kind == "forward":
            _mark_trained(gm)
        free = gm.meta.get(FREE, frozenset())
        fake_mode = detect_fake_mode(inputs)
        # The compiler creates real tensors (scratch memory, rounded constants).
        with unset_fake_temporarily():
            compiled = compile_graph(
                expand_higher_order(gm),
                static_inputs=_static_inputs(len(inputs)) if static else frozenset(),
                shape_env=fake_mode.shape_env if fake_mode is not None else None,
                kind=kind,
                visible_outputs=gm.meta.get(VISIBLE),
                free_outputs=free,
            )
        if isinstance(compiled, Executor):
            report_strides(compiled.plan, free)
        compiled._boxed_call = True  # type: ignore[union-attr]
        return compiled

    return run


def _mark_trained(gm: GraphModule) -> None:
    """Mark which of a forward graph's inputs get gradients."""
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    placeholders = gm.graph.find_nodes(op="placeholder")
    for node, info in zip(placeholders, getattr(metadata, "input_info", ()), strict=False):
        node.meta[TRAINED] = info.requires_grad


def _mark_views(gm: GraphModule) -> None:
    """Mark which results are views of inputs, and which are new contents of inputs."""
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    placeholders = gm.graph.find_nodes(op="placeholder")
    # For inputs that share memory or are subclasses, AOTAutograd's metadata counts differently.
    if metadata is None or len(placeholders) != len(metadata.input_info):
        return
    first = metadata.num_mutated_inp_runtime_indices
    meta = gm.graph.output_node().meta
    meta[RENEWED] = {i: n for n, i in enumerate(metadata.mutated_inp_runtime_indices)}
    meta[VIEWED] = {
        first + n: info.base_idx
        for n, info in enumerate(metadata.output_info)
        if info.output_type in (OutputType.alias_of_input, OutputType.is_input)
    }


def _static_inputs(count: int) -> frozenset[int]:
    """Positions of parameters and buffers, whose storage does not move between calls."""
    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    indices = getattr(metadata, "static_input_indices", None) or ()
    return frozenset(i for i in indices if i < count)
