"""Variance and standard deviation, and norms of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import compare, const, op, where
from ocl_inductor.ir.index import is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    decide,
    is_known,
    normalize_dims,
    reused,
    size_expr,
)
from ocl_inductor.lowering.core.values import ZERO, Value, reindex
from ocl_inductor.lowering.reduce.reduce import (
    Dims,
    accumulation_dtype,
    binary,
    keep_dims,
    mean_of,
    reduce_dims,
    unary,
    without,
)
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def moments(
    ctx: LoweringContext,
    x: Value,
    dims: Sequence[int],
    correction: float,
    start: Value | None = None,
) -> tuple[Value, Value]:
    """``(var, mean)`` with the dimensions kept, in two passes: the difference of large sums that
    one pass takes loses digits.

    ``x`` must be cheap to read twice and of an accumulation dtype. ``var`` divides by
    ``max(0, n - correction)``, as eager does. Where elements are ``start`` on average, the mean is.
    """
    mean = keep_dims(mean_of(ctx, x, dims), dims, x.size, True)
    if start is not None:
        away = keep_dims(mean_of(ctx, binary("sub", x, start), dims), dims, x.size, True)
        near = compare("eq", away.body, const(0, x.dtype))
        mean = Value(mean.size, x.dtype, where(near, start.body, mean.body))
    mean = ctx.realize(mean)
    deviation = binary("sub", x, mean)
    square = Value(x.size, x.dtype, op("mul", deviation.body, deviation.body))
    total = keep_dims(reduce_dims(ctx, square, dims, "sum"), dims, x.size, True)
    count = prod([x.size[d] for d in dims])
    if is_static(count):
        divisor = const(max(0.0, int(count) - correction), x.dtype)
    else:
        difference = op("sub", size_expr(count, x.dtype), const(correction, x.dtype))
        divisor = op("maximum", difference, const(0, x.dtype))
    return Value(total.size, x.dtype, op("div", total.body, divisor)), mean


def _first(ctx: LoweringContext, x: Value, dims: Sequence[int]) -> Value | None:
    """The first of the elements that ``dims`` count; None where there may be none.

    The mean of equal elements is to be that, so that their variance is 0, as in eager by Welford's
    algorithm: programs ask whether it is, before they divide by it. A rounded sum may miss it.
    """
    count = prod([x.size[d] for d in dims])
    if not (is_static(count) or is_known(ctx, count)) or not decide(ctx, sympy.Ge(count, 1)):
        return None
    index = [ZERO if d in dims else v for d, v in enumerate(loop_vars(x.ndim))]
    size = tuple(1 if d in dims else s for d, s in enumerate(x.size))
    return reindex(x, size, index)


def _spread(
    ctx: LoweringContext,
    x: Value,
    dim: Dims,
    correction: float | None,
    keepdim: bool,
    root: bool,
) -> tuple[Value, Value]:
    if not x.dtype.is_floating_point:
        raise CannotLower(f"variance of {x.dtype}")
    dims = normalize_dims(dim, x.ndim)
    source = reused(ctx, cast_value(x, accumulation_dtype(x.dtype)))
    start = _first(ctx, source, dims)
    correction = 1.0 if correction is None else float(correction)
    var, mean = moments(ctx, source, dims, correction, start)
    if root:
        var = unary("sqrt", var)
    if not keepdim:
        var, mean = without(var, dims), without(mean, dims)
    return cast_value(var, x.dtype), cast_value(mean, x.dtype)


@register(aten.var.correction)
def lower_var(
    ctx: LoweringContext,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return _spread(ctx, x, dim, correction, keepdim, root=False)[0]


@register(aten.std.correction)
def lower_std(
    ctx: LoweringContext,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return _spread(ctx, x, dim, correction, keepdim, root=True)[0]


@register(aten.var_mean.correction)
def lower_var_mean(
    ctx: LoweringContext,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    return _spread(ctx, x, dim, correction, keepdim, root=False)


@register(aten.std_mean.correction)
def lower_std_mean(
    ctx: LoweringContext,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    return _spread(ctx, x, dim, correction, keepdim, root=True)


@register(aten.linalg_vector_norm.default)
def lower_vector_norm(
    ctx: LoweringContext,
    x: Value,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    """``sum(|x|**ord)**(1/ord)`` with the limits for 0 and ±inf."""
    result_dtype = x.dtype if dtype is None else dtype
    if not x.dtype.is_floating_point or not result_dtype.is_floating_point:
        raise CannotLower(f"vector norm of {x.dtype} as {result_dtype}")
    if isinstance(ord, sympy.Basic):
        raise CannotLower("vector norm of a symbolic order")
    dims = normalize_dims(dim, x.ndim)
    source = cast_value(cast_value(x, result_dtype), accumulation_dtype(result_dtype))
    wide = source.dtype
    order = float(ord)
    magnitude = unary("abs", source)
    if order == math.inf or order == -math.inf:
        how = "max" if order > 0 else "min"
        if any(same(x.size[d], 0) for d in dims):
            raise CannotLower("infinity norm of no elements")
        result = reduce_dims(ctx, magnitude, dims, how)
    elif order == 0:
        result = reduce_dims(ctx, cast_value(cast_value(source, torch.bool), wide), dims, "sum")
    elif order == 1:
        result = reduce_dims(ctx, magnitude, dims, "sum")
    elif order == 2:
        square = Value(source.size, wide, op("mul", source.body, source.body))
        result = unary("sqrt", reduce_dims(ctx, square, dims, "sum"))
    else:
        power = Value(source.size, wide, op("pow", magnitude.body, const(order, wide)))
        total = reduce_dims(ctx, power, dims, "sum")
        result = Value(total.size, wide, op("pow", total.body, const(1.0 / order, wide)))
    return cast_value(keep_dims(result, dims, x.size, keepdim), result_dtype)
