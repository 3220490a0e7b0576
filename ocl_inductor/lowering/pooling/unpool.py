"""Max-unpooling: values go back to where a pooling took them from."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.ir.index import Size, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import full
from ocl_inductor.lowering.core.values import Value, reshape
from ocl_inductor.lowering.indexing.scatter import scatter_along
from ocl_inductor.operators.registry import register

aten = torch.ops.aten


def _unpool(
    ctx: LoweringContext, x: Value, indices: Value, output_size: Sequence[Size], n: int
) -> Value:
    """``x`` [*lead, windows] at ``indices`` of each plane of zeros, [*lead, *output_size]."""
    lead = x.size[: x.ndim - n]
    size = (*lead, *output_size)
    if any(same(s, 0) for s in (*x.size, *size)):
        return full(size, 0, x.dtype)
    planes, windows = prod(lead), prod(x.size[x.ndim - n :])
    places, values = (reshape(v, (planes, windows)) for v in (indices, x))
    zeros = full((planes, prod(output_size)), 0, x.dtype)
    return reshape(scatter_along(ctx, zeros, 1, places, values, "set"), size)


@register(aten.max_unpool2d.default)
def lower_max_unpool2d(
    ctx: LoweringContext, x: Value, indices: Value, output_size: Sequence[Size]
) -> Value:
    return _unpool(ctx, x, indices, output_size, 2)


@register(aten.max_unpool3d.default)
def lower_max_unpool3d(
    ctx: LoweringContext,
    x: Value,
    indices: Value,
    output_size: Sequence[Size],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Value:
    return _unpool(ctx, x, indices, output_size, 3)
