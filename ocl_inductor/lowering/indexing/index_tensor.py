"""``x[indices]`` with tensors of positions, or with a mask."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.index import as_size, loop_vars
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import element, in_memory
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.indexing.compaction import select_by_mask
from ocl_inductor.lowering.indexing.index import advanced_index
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten.index.Tensor, aten._unsafe_index.Tensor)
def lower_index(ctx: LoweringContext, x: Value, indices: Sequence[Value | None]) -> Value:
    given = [d for d, i in enumerate(indices) if i is not None]
    if not given:
        return x
    if any(i is not None and i.dtype is torch.bool for i in indices):
        return _masked(ctx, x, indices, given)
    where_from = advanced_index(ctx, x, indices)
    if any(isinstance(c, Expr) for c in where_from.coordinates):
        x = in_memory(ctx, x)
    result = Value(where_from.size, x.dtype, element(x, where_from.coordinates))
    return reindex(result, result.size, loop_vars(result.ndim))


def _masked(
    ctx: LoweringContext, x: Value, indices: Sequence[Value | None], given: Sequence[int]
) -> Value:
    """One mask, whose true places were counted before this graph began (passes/stages.py)."""
    result = None if ctx.fx_node is None else ctx.fx_node.meta.get("val")
    mask = indices[given[0]]
    if len(given) > 1 or mask is None or result is None:
        raise CannotLower("a mask among other indices: the result's size depends on data")
    return select_by_mask(ctx, x, given[0], mask, as_size(result.shape[given[0]]))
