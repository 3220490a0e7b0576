"""Scaled dot product attention: two matrix products around a softmax.

The softmax's division comes after the second product, where it costs one operation for each output
instead of one for each score. Rows in which everything is masked out give zeros, as in eager. One
difference is deliberate: for a row whose scores are all NaN eager's fused CPU kernel returns zeros,
and this returns NaN.
"""

from __future__ import annotations

import math
import operator

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, op, where
from ocl_inductor.ir.index import is_static, loop_vars, same
from ocl_inductor.lowering.attention.call import Attention, check_attention
from ocl_inductor.lowering.attention.flash_attention import flash_attention
from ocl_inductor.lowering.attention.operands import row_order
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, from_sums, full
from ocl_inductor.lowering.core.values import Value, expand, reshape, transposed
from ocl_inductor.lowering.matmul.matmul import binary, compute_dtype, matmul
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

_MINUS_INFINITY = -math.inf


def _map(value: Value, body: Expr) -> Value:
    return Value(value.size, body.dtype, body)


def scores(ctx: LoweringContext, a: Attention) -> Value:
    """``query @ key.T * scale + mask`` (\\*batch, m, n) in the compute dtype, in memory."""
    product = matmul(ctx, a.query, transposed(a.key))
    dtype = product.dtype
    body = op("mul", product.body, scale_factor(a, dtype))
    if a.causal:
        row, column = loop_vars(product.ndim)[-2:]
        seen = compare("le", index_value(column), index_value(row))
        body = where(seen, body, const(_MINUS_INFINITY, dtype))
    if a.mask is not None:
        mask = expand(a.mask, product.size)
        if mask.dtype is torch.bool:
            body = where(mask.body, body, const(_MINUS_INFINITY, dtype))
        else:
            body = op("add", body, cast_value(mask, dtype).body)
    return ctx.pointwise(_map(product, body), tuple(range(product.ndim)))


def exponentials(ctx: LoweringContext, s: Value) -> tuple[Value, Value, Value]:
    """``exp(s - top)``, its sum over each row, and the shift ``top``.

    Sum and shift keep the last dimension with extent 1. ``top`` is 0 for rows without a finite
    maximum below +inf, so that a row of -inf gives zeros and not NaN.
    """
    last = s.ndim - 1
    kept = (*s.size[:-1], 1)
    top = reshape(ctx.reduce(s, [last], "max"), kept)
    lowest = const(_MINUS_INFINITY, s.dtype)
    shift = where(compare("eq", top.body, lowest), const(0, s.dtype), top.body)
    shifted = binary("sub", s, _map(top, shift))
    e = ctx.pointwise(_map(s, op("exp", shifted.body)), tuple(range(s.ndim)))
    total = reshape(ctx.reduce(e, [last], "sum"), kept)
    return e, total, _map(top, shift)


def _or_one(total: Value) -> Value:
    """The sum to divide by; it is 0 only where every column is masked out."""
    empty = compare("eq", total.body, const(0, total.dtype))
    return _map(total, where(empty, const(1, total.dtype), total.body))


def attend(ctx: LoweringContext, a: Attention, s: Value) -> tuple[Value, Value, Value]:
    """Softmax of the scores ``s`` times the values; also the row sums and shifts."""
    e, total, shift = exponentials(ctx, s)
    out = matmul(ctx, e, cast_value(a.value, e.dtype), out_order=row_order(ctx, a.query))
    return binary("div", out, total if a.empty_is_nan else _or_one(total)), total, shift


def _is_used(ctx: LoweringContext, position: int) -> bool:
    """Whether the graph reads result number ``position`` of the operator being lowered."""
    if ctx.fx_node is None:
        return True
    items = [u for u in ctx.fx_node.users if u.target is operator.getitem]
    others = len(items) < len(ctx.fx_node.users)
    return others or any(u.args[1] == position and u.users for u in items)


def scale_factor(a: Attention, dtype: torch.dtype) -> Expr:
    """The factor on scores, which may depend on a symbolic width."""
    if a.scale is not None or is_static(a.width):
        return const(a.factor(), dtype)
    return op("rsqrt", cast(index_value(sympy.sympify(a.width)), dtype))


@register(aten._scaled_dot_product_flash_attention_for_cpu.default)
def lower_flash_attention_for_cpu(
    ctx: LoweringContext,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """(batch, heads, rows, width): the output and the logarithm of each row's sum (0 if empty)."""
    check_attention(query, key, value, dropout_p)
    dtype = compute_dtype(query.dtype)
    rows = query.size[:-1]
    size = (*rows, value.size[-1])
    a = Attention(query, key, value, attn_mask, is_causal, scale)
    if a.empty:
        return full(size, 0, query.dtype), full(rows, 0, dtype)
    a = a.grouped()
    flash = flash_attention(ctx, a, logsumexp=_is_used(ctx, 1))
    if flash is None:
        out, total, shift = attend(ctx, a, scores(ctx, a))
        safe = _or_one(total)
        # log(1) is the 0 that eager gives for empty rows.
        logsumexp = binary("add", shift, _map(safe, op("log", safe.body)))
    else:
        out, logsumexp = flash
    return reshape(from_sums(out, query.dtype), size), reshape(logsumexp, rows)


def _math(
    ctx: LoweringContext, a: Attention, enable_gqa: bool, weights_used: bool
) -> tuple[Value, Value]:
    """Output and attention weights (zeros where not ``weights_used``), in the query's dtype."""
    query, key, value = a.query, a.key, a.value
    if query.ndim < 2 or key.ndim != query.ndim or value.ndim != query.ndim:
        raise CannotLower("attention over operands of different dimensions")
    size, weights_size = (*a.batch, a.m, a.v_width), (*a.batch, a.m, a.n)
    if a.empty:
        return full(size, 0, query.dtype), full(weights_size, 0, query.dtype)
    grouped = enable_gqa and not same(query.size[-3], key.size[-3])
    if not grouped and not all(map(same, a.batch, key.size[:-2])):
        raise CannotLower("attention over broadcast batches")
    if grouped:
        a = a.grouped()
    if not weights_used:
        flash = flash_attention(ctx, a, logsumexp=False)
        if flash is not None:
            out = reshape(from_sums(flash[0], query.dtype), size)
            return out, full(weights_size, 0, query.dtype)
    s = scores(ctx, a)
    out, total, shift = attend(ctx, a, s)
    # Recomputed from the scores, and dead unless the caller uses them.
    shifted = binary("sub", s, shift)
    weights = binary("div", _map(s, op("exp", shifted.body)), _or_one(total))
    out, weights = from_sums(out, query.dtype), cast_value(weights, query.dtype)
    return reshape(out, size), reshape(weights, weights_size)


@register(aten._scaled_dot_product_attention_math.default)
def lower_attention_math(
    ctx: LoweringContext,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Value | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value]:
    """A bool mask is added as a number here: eager converts it one operator earlier."""
    check_attention(query, key, value, dropout_p)
    if dropout_mask is not None:
        raise CannotLower("attention with a dropout mask")
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = cast_value(attn_mask, query.dtype)
    a = Attention(query, key, value, attn_mask, is_causal, scale)
    return _math(ctx, a, enable_gqa, _is_used(ctx, 1))


@register(aten.scaled_dot_product_attention.default)
def lower_attention(
    ctx: LoweringContext,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    check_attention(query, key, value, dropout_p)
    a = Attention(query, key, value, attn_mask, is_causal, scale)
    return _math(ctx, a, enable_gqa, False)[0]
