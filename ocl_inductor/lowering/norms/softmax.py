"""Softmax and its relatives, shifted by the row's maximum so that no exponential overflows."""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.expr import Expr, compare, const, op, where
from ocl_inductor.ir.index import same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    from_sums,
    full,
    normalize_dim,
    normalize_dims,
    reused,
)
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.reduce.reduce import (
    Dims,
    accumulation_dtype,
    binary,
    keep_dims,
    reduce_dims,
    unary,
    without,
)
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def _finite_or_zero(x: Expr) -> Expr:
    """0 in place of ±inf: the shift of a row whose extremum is infinite."""
    infinite = compare("eq", op("abs", x), const(math.inf, x.dtype))
    return where(infinite, const(0, x.dtype), x)


@register(aten.logsumexp.default)
def lower_logsumexp(ctx: LoweringContext, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    result_dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    dims = normalize_dims(dim, x.ndim)
    wide = accumulation_dtype(result_dtype)
    source = reused(ctx, cast_value(cast_value(x, result_dtype), wide))
    if any(same(x.size[d], 0) for d in range(x.ndim)):
        empty = reduce_dims(ctx, source, dims, "sum")
        empty = full(empty.size, -math.inf, result_dtype)
        return keep_dims(empty, dims, x.size, keepdim)
    top = keep_dims(reduce_dims(ctx, source, dims, "max"), dims, x.size, True)
    shift = ctx.realize(Value(top.size, wide, _finite_or_zero(top.body)))
    total = reduce_dims(ctx, unary("exp", binary("sub", source, shift)), dims, "sum")
    total = keep_dims(total, dims, x.size, True)
    result = Value(total.size, wide, op("add", op("log", total.body), shift.body))
    if not keepdim:
        result = without(result, dims)
    return from_sums(result, result_dtype)


def _softmax_source(
    ctx: LoweringContext, x: Value, half_to_float: bool
) -> tuple[Value, torch.dtype]:
    result_dtype = torch.float32 if half_to_float else x.dtype
    if not x.dtype.is_floating_point:
        raise CannotLower(f"softmax of {x.dtype}")
    return reused(ctx, cast_value(x, accumulation_dtype(x.dtype))), result_dtype


@register(aten._softmax.default)
def lower_softmax(ctx: LoweringContext, x: Value, dim: int, half_to_float: bool) -> Value:
    source, result_dtype = _softmax_source(ctx, x, half_to_float)
    if any(same(s, 0) for s in x.size):
        return full(x.size, 0, result_dtype)
    dims = [normalize_dim(dim, x.ndim)] if x.ndim else []
    top = keep_dims(reduce_dims(ctx, source, dims, "max"), dims, x.size, True)
    # Stored, because exp costs more than reading a row back from the nearest cache.
    weights = ctx.realize(unary("exp_negative", binary("sub", source, top)))
    total = keep_dims(reduce_dims(ctx, weights, dims, "sum"), dims, x.size, True)
    # One division a row. The sum is at least 1, so its reciprocal is no subnormal number.
    share = ctx.realize(unary("reciprocal", total))
    return from_sums(binary("mul", weights, share), result_dtype)


@register(aten._log_softmax.default)
def lower_log_softmax(ctx: LoweringContext, x: Value, dim: int, half_to_float: bool) -> Value:
    source, result_dtype = _softmax_source(ctx, x, half_to_float)
    if any(same(s, 0) for s in x.size):
        return full(x.size, 0, result_dtype)
    dims = [normalize_dim(dim, x.ndim)] if x.ndim else []
    top = keep_dims(reduce_dims(ctx, source, dims, "max"), dims, x.size, True)
    shifted = binary("sub", source, top)
    total = reduce_dims(ctx, unary("exp_negative", shifted), dims, "sum")
    log_total = ctx.realize(unary("log", keep_dims(total, dims, x.size, True)))
    return from_sums(binary("sub", shifted, log_total), result_dtype)
