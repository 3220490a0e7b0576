"""Rows of an embedding scaled down to a largest norm, where they are looked up."""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import compare, const, logical_and, op, where
from ocl_inductor.ir.index import loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import as_coordinate, require_index
from ocl_inductor.lowering.core.shapes import full, reused
from ocl_inductor.lowering.core.values import Value, reshape
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.norms.moments import lower_vector_norm
from ocl_inductor.lowering.pointwise.in_float32 import in_float32
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten.embedding_renorm.default)
@in_float32
def lower_embedding_renorm(
    ctx: LoweringContext, x: Value, indices: Value, max_norm: float, norm_type: float
) -> Value:
    """Rows that ``indices`` name and whose norm exceeds ``max_norm`` are scaled down to it."""
    if x.ndim != 2 or x.dtype not in (torch.float32, torch.float64):
        raise CannotLower(f"renormalising {x.dtype}")
    if any(same(s, 0) for s in (*x.size, *indices.size)):
        return x
    flat = reshape(require_index(indices), (prod(indices.size),))
    (i,) = loop_vars(1)
    row = loop_vars(2)[0]
    to = as_coordinate(flat.at([i]), x.size[0], {}, wrap=False)
    named = scatter_points(
        ctx,
        full((x.size[0],), 0, torch.int32),
        flat.size,
        [to],
        const(1, torch.int32),
        [0],
        "set",
    )
    x = reused(ctx, x)
    norm = reused(ctx, lower_vector_norm(ctx, x, norm_type, [1]))
    limit = const(max_norm, x.dtype)
    scale = op("div", limit, op("add", norm.at([row]), const(1e-7, x.dtype)))
    hit = compare("ne", named.at([row]), const(0, torch.int32))
    larger = logical_and(hit, compare("gt", norm.at([row]), limit))
    return Value(x.size, x.dtype, where(larger, op("mul", x.body, scale), x.body))
