"""Splits a joint graph into forward and backward, and chooses the tensors to save."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch import partitioners
from torch.fx import GraphModule

from ocl_inductor.capture.decompositions.expand import expand_higher_order
from ocl_inductor.capture.overwritten import keep_overwritten_inputs
from ocl_inductor.capture.saved_layout import free_outputs
from ocl_inductor.passes.masks import read_masks
from ocl_inductor.passes.normalised import split_normalisations
from ocl_inductor.passes.pool_offsets import save_offsets
from ocl_inductor.passes.replace_random import replace_random
from ocl_inductor.patches.pytorch.partitioner_operators import known_as_pointwise

aten = torch.ops.aten

#: In the meta data of a forward graph: how many outputs come before those saved for backward.
VISIBLE = "ocl_inductor_visible_outputs"
#: There, too: positions of outputs whose strides may be chosen.
FREE = "ocl_inductor_free_outputs"

#: Pointwise operators that the partitioner does not know, since Inductor decomposes them: it
#: assumes that they are separate kernels, whose operands all have to be in memory.
_POINTWISE = (
    aten.elu_backward,
    aten.hardshrink_backward,
    aten.hardsigmoid_backward,
    aten.hardswish_backward,
    aten.hardtanh_backward,
    aten.leaky_relu_backward,
    aten.log_sigmoid_backward,
    aten.mish_backward,
    aten.softplus_backward,
    aten.softshrink_backward,
)


def partition(
    joint: GraphModule, inputs: Sequence[Any], **options: Any
) -> tuple[GraphModule, GraphModule]:
    """Forward and backward of a joint graph, with the random numbers of both from one seed.

    The graph is rewritten before, so that the forward saves little: values that are cheap to
    compute from other saved ones are recomputed.
    """
    joint = replace_random(expand_higher_order(joint))
    joint = save_offsets(read_masks(split_normalisations(joint)))
    joint = keep_overwritten_inputs(joint)
    with known_as_pointwise(_POINTWISE):
        forward, backward = partitioners.min_cut_rematerialization_partition(
            joint, inputs, **options
        )
    # What follows these outputs is saved for the backward graph only.
    visible = options.get("num_fwd_outputs")
    forward.meta[VISIBLE] = visible
    if visible is not None:
        forward.meta[FREE] = free_outputs(forward, backward, visible)
    return forward, backward
