"""Attention that a model writes out, as passes/attention.py finds it."""

from __future__ import annotations

from ocl_inductor.lowering.attention.attention import attend, scores
from ocl_inductor.lowering.attention.call import Attention, check_attention
from ocl_inductor.lowering.attention.flash_attention import flash_attention
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import from_sums, full
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.operators.registry import register
from ocl_inductor.operators.written_attention import written_attention


@register(written_attention)
def lower_written_attention(
    ctx: LoweringContext, query: Value, key: Value, value: Value, mask: Value | None, scale: float
) -> Value:
    """(\\*batch, rows, width), all of one dtype."""
    check_attention(query, key, value, 0.0)
    a = Attention(query, key, value, mask, scale=scale, empty_is_nan=True)
    if a.empty:
        # An empty sum of keys is an empty softmax, whose product with no values is zero.
        return full((*query.size[:-1], value.size[-1]), 0, query.dtype)
    flash = flash_attention(ctx, a, logsumexp=False)
    out = attend(ctx, a, scores(ctx, a))[0] if flash is None else flash[0]
    return from_sums(out, query.dtype)
