"""AOTAutograd: a Dynamo graph to functional forward, backward and inference graphs of aten."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule

from ocl_inductor.capture.decompositions import decomposition_table
from ocl_inductor.passes.replace_random import replace_random

#: In the meta data of a forward graph: how many outputs come before those saved for backward.
_VISIBLE = "ocl_inductor_visible_outputs"

GraphCompiler = Callable[..., Callable[[list[Any]], tuple[Any, ...]]]


def capture(
    gm: GraphModule, example_inputs: Sequence[Any], compile_graph: GraphCompiler
) -> Callable[..., Any]:
    """Trace ``gm`` and compile each resulting graph with ``compile_graph``."""
    compiler = aot_autograd(
        fw_compiler=_compiler(compile_graph, static=True),
        bw_compiler=_compiler(compile_graph, static=False),
        inference_compiler=_compiler(compile_graph, static=True),
        decompositions=decomposition_table(),
        partition_fn=_partition,
    )
    # Tokens that order operators with effects are made inside the graph, where a pass removes them,
    # instead of being inputs and results of it.
    with portable_operators(), torch._functorch.config.patch(unlift_effect_tokens=True):
        return compiler(gm, example_inputs)


def _partition(
    joint: GraphModule, inputs: Sequence[Any], **options: Any
) -> tuple[GraphModule, GraphModule]:
    """Forward and backward of a joint graph, with the random numbers of both from one seed."""
    forward, backward = min_cut_rematerialization_partition(
        replace_random(joint), inputs, **options
    )
    # What follows these outputs is saved for the backward graph, and nobody else sees it.
    forward.meta[_VISIBLE] = options.get("num_fwd_outputs")
    return forward, backward


def _compiler(compile_graph: GraphCompiler, *, static: bool) -> Callable[..., Any]:
    def run(gm: GraphModule, inputs: Sequence[Any]) -> Any:
        fake_mode = detect_fake_mode(inputs)
        # The compiler makes real tensors (scratch memory, rounded constants).
        with unset_fake_temporarily():
            compiled = compile_graph(
                gm,
                static_inputs=_static_inputs(len(inputs)) if static else frozenset(),
                shape_env=fake_mode.shape_env if fake_mode is not None else None,
                visible_outputs=gm.meta.get(_VISIBLE),
            )
        compiled._boxed_call = True  # type: ignore[attr-defined]
        return compiled

    return run


def _static_inputs(count: int) -> frozenset[int]:
    """Positions of parameters and buffers, whose storage stays put between calls."""
    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    indices = getattr(metadata, "static_input_indices", None) or ()
    return frozenset(i for i in indices if i < count)


@contextlib.contextmanager
def portable_operators() -> Iterator[None]:
    """Trace without operators that exist only for one CPU library.

    oneDNN's fused LSTM and the transformer fast path are opaque single nodes; without them the
    same modules trace to matrix products and pointwise operators, which we fuse ourselves.
    """
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    # Not torch.backends.mkldnn.flags: it also sets TF32, which warns on builds without a GPU.
    mkldnn = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(mkldnn)
        torch.backends.mha.set_fastpath_enabled(fastpath)
