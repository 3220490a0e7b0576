"""When and how attention goes through one kernel (templates/attention.py)."""

from __future__ import annotations

import math
from typing import Any

from ocl_inductor.ir.index import is_static, prod, same
from ocl_inductor.lowering.attention_operands import (
    additive_mask,
    operand_in_place,
    row_order,
    with_logsumexp,
)
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.few_queries import few_queries
from ocl_inductor.lowering.matmul import accumulator, compute_dtype
from ocl_inductor.lowering.shapes import cast_value
from ocl_inductor.lowering.values import Value
from ocl_inductor.templates.blocking import choose_query_vectors

#: A lane is a query: with fewer of them most lanes would idle.
_MIN_QUERIES = 4
#: Queries, a block's scores and results of a work-item must stay in a second level cache.
_MAX_WIDTH = 512


def flash_attention(
    ctx: LoweringContext,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    is_causal: bool,
    scale: float | None,
    *,
    logsumexp: bool,
    empty_is_nan: bool = False,
) -> tuple[Value, Value] | None:
    """The output (\\*batch, m, width), and the logarithm of each row's sum of exponentials.

    ``query``, ``key`` and ``value`` have equal batch dimensions; ``mask`` broadcasts to
    (\\*batch, m, n), a bool one keeps where it is True. A row that sees nothing is zero, or NaN if
    ``empty_is_nan``. Without ``logsumexp`` the second result,
    which nobody reads then, is zeros. Both have the compute dtype. None: the kernel does not suit.
    """
    few = few_queries(
        ctx,
        query,
        key,
        value,
        mask,
        is_causal,
        scale,
        logsumexp=logsumexp,
        empty_is_nan=empty_is_nan,
    )
    if few is not None:
        return few
    *batch, m, width = query.size
    n, v_width = key.size[-2], value.size[-1]
    if (
        ctx.device.profile != "vector"
        or not (is_static(width) and is_static(v_width))
        or max(int(width), int(v_width)) > _MAX_WIDTH
        or ctx.hint(m) < _MIN_QUERIES
        or not batch
    ):
        return None
    dtype = compute_dtype(query.dtype)
    operands = [operand_in_place(ctx, cast_value(v, dtype)) for v in (query, key, value)]
    kind = ""
    if mask is not None:
        additive = additive_mask(ctx, mask, (*batch, m, n), dtype, rows_adjacent=True)
        stride = additive.strides[len(batch)]
        kind = "row" if same(stride, 0) else ("lanes" if same(stride, 1) else "any")
        operands.append(additive)
    acc = accumulator(dtype)
    lanes, vectors = choose_query_vectors(ctx.device, acc, ctx.hint(m), ctx.hint(prod(batch)))
    order = row_order(ctx, query)
    columns = int(v_width) + logsumexp
    params: dict[str, Any] = {}
    for name, operand in zip(("q", "k", "v", "mask"), operands, strict=False):
        params |= {f"{name}_strides": operand.strides, f"{name}_offset": operand.offset}
    out = ctx.template(
        "attention",
        dtype,
        (*batch, m, columns),
        (*order, len(batch) + 1),
        [operand.value for operand in operands],
        m=m,
        n=n,
        width=int(width),
        v_width=int(v_width),
        batch=tuple(batch),
        out_order=order,
        mask=kind,
        causal=is_causal,
        scale=1.0 / math.sqrt(int(width)) if scale is None else float(scale),
        logsumexp=logsumexp,
        empty_is_nan=empty_is_nan,
        lanes=lanes,
        nv=vectors,
        acc=acc,
        **params,
    )
    return with_logsumexp(out, logsumexp)
