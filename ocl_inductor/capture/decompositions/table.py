"""Which aten operators AOTAutograd replaces by simpler ones before we see the graph.

The table is PyTorch's core table, plus ``EXTRA``, minus operators that we lower whole: an operator
would never reach its own lowering otherwise. ``REMOVED`` lists the removals that have a
further reason, so that they are not put back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

import torch
from torch._decomp import core_aten_decompositions
from torch._decomp import decomposition_table as _all_decompositions
from torch._decomp.decompositions import one_layer_lstm

from ocl_inductor.capture.decompositions.quantised import (
    FAKE_QUANTISATION,
    export_quantisation,
    exported_operators_exist,
)
from ocl_inductor.capture.decompositions.rewrites import REWRITES
from ocl_inductor.capture.decompositions.sampling import decompose_grid_sampler_2d
from ocl_inductor.capture.decompositions.transformer import WHOLE_LAYERS
from ocl_inductor.capture.decompositions.windows import WINDOWS
from ocl_inductor.operators.registry import LOWERINGS

aten = torch.ops.aten

Decomposition = Callable[..., object]

#: Entries of the core table that must not come back even if their lowering went away.
REMOVED: dict[torch._ops.OpOverload, str] = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: (
        "its decomposition returns another log-sum-exp than the opaque backward expects: "
        "gradients are silently wrong"
    ),
    aten.scaled_dot_product_attention.default: (
        "decomposes into the score matrix in memory before autograd could choose a fused kernel"
    ),
    aten.baddbmm.default: "becomes bmm, mul and add, which the product's epilogue does in one",
    aten._fused_rms_norm.default: "written in one pass over each row here",
    aten.roll.default: "becomes index_select with computed indices; it is an affine view here",
    aten.reflection_pad2d.default: "becomes masked gathers of every border; one gather here",
    aten.replication_pad2d.default: "becomes masked gathers of every border; one gather here",
    aten.upsample_nearest2d.default: "becomes index tensors in memory; one kernel here",
    aten.upsample_bicubic2d.vec: "becomes sixteen gathers of int64 index tensors; one kernel here",
    aten.index_add.default: "becomes index_put, which loses that slices cannot collide inside",
    aten.logsumexp.default: "the same two reductions, with the shift kept in memory",
    aten.bernoulli.default: "compares with numbers of the dtype of p, too coarse for half types",
    aten.silu.default: "a row of the pointwise table, as are the other activations",
    aten.lerp.Scalar: "a row of the pointwise table, with eager's rounding",
}

#: Decompositions outside the core table. Those that end in ``prims`` are omitted on purpose: no
#: lowering exists for them, and aten on the host is better.
EXTRA: tuple[torch._ops.OpOverload, ...] = (
    aten._addmm_activation.default,
    aten._batch_norm_no_update.default,
    aten._batch_norm_with_update.default,
    aten._batch_norm_with_update_functional.default,
    aten._native_batch_norm_legit.default,
    aten.batch_norm_backward.default,
    aten.dist.default,
    aten.ldexp.Tensor,
    aten.lift.default,
    aten.narrow_copy.default,
    aten.native_batch_norm.default,
    aten.permute_copy.default,
    aten.rrelu_with_noise_backward.default,
    aten.tril_indices.default,
    aten.triu_indices.default,
    aten.unbind_copy.int,
    aten.view_copy.default,
)


def decompose_mkldnn_rnn_layer(
    input: torch.Tensor,
    weight0: torch.Tensor,
    weight1: torch.Tensor,
    weight2: torch.Tensor,
    weight3: torch.Tensor,
    hx: torch.Tensor,
    cx: torch.Tensor,
    reverse: bool,
    batch_sizes: list[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> object:
    """One direction of an LSTM layer that oneDNN would run, as products and pointwise operators.

    Returns ``(output, h, c, workspace)``. Only the inference form that PyTorch's own LSTM
    decomposition emits is covered; others give NotImplemented and stay one node.
    """
    lstm = 2  # ideep::rnn_kind::LSTM
    if mode != lstm or train or bidirectional or batch_first or batch_sizes or num_layers != 1:
        return NotImplemented
    weights = [weight0, weight1] + ([weight2, weight3] if has_biases else [])
    # The layer iterates backwards itself, and returns the steps in forward order.
    out, (h, c) = one_layer_lstm(
        input, (hx.squeeze(0), cx.squeeze(0)), weights, has_biases, reverse=reverse
    )
    # Versions of PyTorch differ in the dimension that the states lack.
    return out, h.view(hx.shape), c.view(cx.shape), input.new_empty((0,), dtype=torch.uint8)


def decompose_as_strided(
    x: torch.Tensor, size: list[int], stride: list[int], storage_offset: int | None = None
) -> object:
    """Strides equal to the tensor's own (except in extent-1 dimensions) need no view. That can be
    checked only here, where eager's strides are known; every other call stays one node.
    """
    if storage_offset is not None and storage_offset != x.storage_offset():
        return NotImplemented
    if len(size) != x.ndim or any(a != b for a, b in zip(size, x.shape, strict=True)):
        return NotImplemented
    strides = zip(stride, x.stride(), size, strict=True)
    if any(a != b for a, b, n in strides if n != 1):
        return NotImplemented
    return aten.alias.default(x)


#: Our own decompositions; each may decline with NotImplemented.
OWN: dict[torch._ops.OpOverload, Decomposition] = {
    aten.as_strided.default: decompose_as_strided,
    aten.grid_sampler_2d.default: decompose_grid_sampler_2d,
    aten.mkldnn_rnn_layer.default: decompose_mkldnn_rnn_layer,
}


def decomposition_table() -> dict[object, Decomposition]:
    """Operator overload to decomposition, as ``aot_autograd(decompositions=)`` takes it."""
    return _table(exported_operators_exist())


@functools.cache
def _table(with_exported: bool) -> dict[object, Decomposition]:
    assert LOWERINGS, "lowering/ registers what it lowers when compile.py imports it"
    table: dict[object, Decomposition] = dict(core_aten_decompositions())
    for target in EXTRA:
        table[target] = _all_decompositions[target]
    for target in (*REMOVED, *LOWERINGS):
        table.pop(target, None)
    table |= OWN | REWRITES | WINDOWS | WHOLE_LAYERS | FAKE_QUANTISATION
    return table | export_quantisation() if with_exported else table


class LazyDecompositions(Mapping[torch._ops.OpOverload, Decomposition]):
    """``decomposition_table()``, built at the first access.

    Building it takes 0.3 s, and it is not read where a graph's plan is found on disk.
    """

    def __getitem__(self, target: object) -> Decomposition:
        return decomposition_table()[target]

    def __iter__(self) -> Iterator[torch._ops.OpOverload]:
        return iter(decomposition_table())

    def __len__(self) -> int:
        return len(decomposition_table())

    def __contains__(self, target: object) -> bool:
        return target in decomposition_table()
