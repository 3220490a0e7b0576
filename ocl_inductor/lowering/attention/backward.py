"""Gradients of scaled dot product attention: two kernels, or five matrix products.

The weights are computed again from the scores and the logarithm of each row's sum, as in
FlashAttention-2 (Dao, 2023, section 3.1): with ``P = exp(S - logsumexp)``, ``dP = dO V^T`` and the
row sums ``D = sum(dO * O)``,

    dV = P^T dO,   dS = P * (dP - D),   dQ = scale dS K,   dK = scale dS^T Q.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ocl_inductor.ir.expr import compare, const, op, where
from ocl_inductor.lowering.attention.attention import scale_factor, scores
from ocl_inductor.lowering.attention.call import Attention, check_attention
from ocl_inductor.lowering.attention.flash_attention_backward import flash_attention_backward
from ocl_inductor.lowering.attention.operands import row_order
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import Value, reshape, transposed
from ocl_inductor.lowering.matmul.matmul import binary, compute_dtype, matmul
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def lower_flash_attention_for_cpu_backward(
    ctx: LoweringContext,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    """(batch, heads, rows, width) each, ``logsumexp`` (batch, heads, rows): dQ, dK and dV.

    Rows without a column they may see have logsumexp 0 and scores of -inf: all zeros.
    """
    if not all(isinstance(v, Value) for v in (grad, out, logsumexp)):
        raise CannotLower("an operand of attention lives on the host")
    check_attention(query, key, value, dropout_p)
    dtype = compute_dtype(query.dtype)
    a = Attention(query, key, value, attn_mask, is_causal, scale)
    if a.empty:
        zeros = [full(v.size, 0, v.dtype) for v in (query, key, value)]
        return zeros[0], zeros[1], zeros[2]
    sizes = [v.size for v in (query, key, value)]
    dtypes = (query.dtype, key.dtype, value.dtype)
    a = a.grouped().cast(dtype)
    groups = a.query.ndim > query.ndim
    rows = a.query.size[:-1]
    grad, out = (reshape(cast_value(v, dtype), (*rows, v.size[-1])) for v in (grad, out))
    grad = ctx.realize(grad)
    product = binary("mul", grad, out)
    d = ctx.reduce(product, [product.ndim - 1], "sum")
    shift = reshape(cast_value(logsumexp, dtype), rows)
    summed = [a.query.ndim - 3] if groups else []
    found = flash_attention_backward(ctx, a, grad, shift, d, summed)
    if found is None:
        dq, dk, dv = _by_products(ctx, a, grad, shift, d)
        # A key or value is shared by the repeats of its head.
        dk, dv = (ctx.reduce(v, summed, "sum") if groups else v for v in (dk, dv))
    else:
        dq, dk, dv = found
    results = zip((dq, dk, dv), sizes, dtypes, strict=True)
    dq, dk, dv = (reshape(cast_value(v, d), size) for v, size, d in results)
    return dq, dk, dv


def _by_products(
    ctx: LoweringContext,
    a: Attention,
    grad: Value,
    logsumexp: Value,
    row_products: Value,
) -> tuple[Value, Value, Value]:
    """dQ, dK and dV through matrices of weights in memory."""
    rows = (*a.query.size[:-1], 1)
    dtype = a.query.dtype
    shift, d = reshape(logsumexp, rows), reshape(row_products, rows)
    # An empty row whose sum eager kept as log(0) must not give exp(-inf + inf).
    empty = compare("eq", shift.body, const(float("-inf"), dtype))
    shift = replace(shift, body=where(empty, const(0, dtype), shift.body))
    shifted = binary("sub", scores(ctx, a), shift)
    p = ctx.realize(replace(shifted, body=op("exp", shifted.body)))
    dp = matmul(ctx, grad, transposed(a.value))
    ds = binary("mul", p, binary("sub", dp, d))
    ds = ctx.realize(replace(ds, body=op("mul", ds.body, scale_factor(a, dtype))))
    # As the operands lie: heads side by side, as the layers before them read the gradients.
    return (
        matmul(ctx, ds, a.key, row_order(ctx, a.query)),
        matmul(ctx, transposed(ds), a.query, row_order(ctx, a.key)),
        matmul(ctx, transposed(p), grad, row_order(ctx, a.value)),
    )
