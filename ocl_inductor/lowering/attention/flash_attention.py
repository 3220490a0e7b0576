"""When and how attention goes through one kernel (templates/attention/attention.py)."""

from __future__ import annotations

from typing import Any

from ocl_inductor.ir.index import is_static, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.decode_attention import decode_attention
from ocl_inductor.lowering.attention.matrix_attention import blocks_for_unit
from ocl_inductor.lowering.attention.operands import (
    additive_mask,
    operand_in_place,
    row_order,
    with_logsumexp,
)
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.matmul import compute_dtype
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.templates.attention.attention import choose_group
from ocl_inductor.templates.blocking import choose_query_vectors

#: A lane is a query: with fewer of them most lanes would idle.
_MIN_QUERIES = 4
#: Queries, a block's scores and results of a work-item must stay in a second level cache.
_MAX_WIDTH = 512


def flash_attention(
    ctx: LoweringContext, a: Attention, *, logsumexp: bool
) -> tuple[Value, Value] | None:
    """The output (\\*batch, m, v_width), and the logarithm of each row's sum of exponentials.

    Without ``logsumexp`` the second result, which nobody reads then, is zeros. Both have the
    compute dtype. None: the kernel does not suit.
    """
    few = decode_attention(ctx, a, logsumexp=logsumexp)
    if few is not None:
        return few
    batch, m, n, width, v_width = a.batch, a.m, a.n, a.width, a.v_width
    if (
        not (is_static(width) and is_static(v_width))
        or max(int(width), int(v_width)) > _MAX_WIDTH
        or ctx.hint(m) < _MIN_QUERIES
        or not batch
    ):
        return None
    dtype = compute_dtype(a.query.dtype)
    acc = accumulator(dtype)
    params: dict[str, Any] = {}
    spec = "attention"
    if ctx.device.profile == "simt":
        group = choose_group(ctx.device, acc, ctx.hint(m), int(width), int(v_width))
        if group is None:
            return None
        params |= group
    elif high := blocks_for_unit(ctx, acc, a):
        spec = "matrix_attention"
        params["mb"] = high
    else:
        lanes, vectors = choose_query_vectors(ctx.device, acc, ctx.hint(m), ctx.hint(prod(batch)))
        params |= {"lanes": lanes, "nv": vectors}
    wide = a.cast(dtype)
    operands = [operand_in_place(ctx, v) for v in (wide.query, wide.key, wide.value)]
    kind = ""
    if a.mask is not None:
        additive = additive_mask(ctx, a.mask, (*batch, m, n), dtype, rows_adjacent=True)
        stride = additive.strides[len(batch)]
        kind = "row" if same(stride, 0) else ("lanes" if same(stride, 1) else "any")
        operands.append(additive)
    order = row_order(ctx, a.query)
    columns = int(v_width) + logsumexp
    for name, operand in zip(("q", "k", "v", "mask"), operands, strict=False):
        params |= {f"{name}_strides": operand.strides, f"{name}_offset": operand.offset}
    out = ctx.template(
        spec,
        dtype,
        (*batch, m, columns),
        (*order, len(batch) + 1),
        [operand.value for operand in operands],
        m=m,
        n=n,
        width=int(width),
        v_width=int(v_width),
        batch=batch,
        out_order=order,
        mask=kind,
        causal=a.causal,
        scale=a.factor(),
        logsumexp=logsumexp,
        empty_is_nan=a.empty_is_nan,
        acc=acc,
        **params,
    )
    return with_logsumexp(out, logsumexp)
