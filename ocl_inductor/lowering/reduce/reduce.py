"""Reductions: sums, extrema and their positions, moments, norms of vectors.

Half types accumulate in float32, integers in int64, as eager does. A reduction over no elements
never reaches the loop level: it is a constant here.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.dtypes import HALF_TYPES
from ocl_inductor.ir.expr import op
from ocl_inductor.ir.index import Size, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    full,
    normalize_dim,
    normalize_dims,
    reused,
    size_expr,
    without_broadcast,
)
from ocl_inductor.lowering.core.values import Value, expand, reindex
from ocl_inductor.lowering.pointwise.rows import rounded
from ocl_inductor.lowering.reduce.two_stages import first_stage, identity
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

Dims = int | Sequence[int] | None


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """float32 for half types, the dtype itself otherwise."""
    return torch.float32 if dtype in HALF_TYPES else dtype


#: Reductions that choose among the elements.
_SELECTING = ("max", "min", "argmax", "argmin")


def reduce_dims(ctx: LoweringContext, x: Value, dims: Sequence[int], how: str) -> Value:
    """Reduce in the dtype of ``x``; the dimensions disappear. Empty ones give the identity."""
    if how in _SELECTING:  # one of the elements as eager has them: a comparison may look for it
        x = Value(x.size, x.dtype, rounded(x.body))
    kept = [d for d in range(x.ndim) if d not in dims]
    if any(same(x.size[d], 0) for d in range(x.ndim)):
        if how.startswith("arg"):
            raise CannotLower(f"{how} over no elements")
        return full([x.size[d] for d in kept], identity(how, x.dtype), x.dtype)
    if all(same(x.size[d], 1) for d in dims):
        squeezed = without(x, dims)
        return full(squeezed.size, 0, torch.int64) if how.startswith("arg") else squeezed
    if how.startswith("arg"):
        return ctx.reduce(x, dims, how, torch.int64)
    if how != "prod":
        once, repeated = without_broadcast(x, dims)
        count = prod([n for n, r in zip(x.size, repeated, strict=True) if r])
        if not same(count, 1):
            result = reduce_dims(ctx, once, dims, how)
            return _times(result, count) if how == "sum" else result
    stage = first_stage(ctx, x, dims, how)
    if stage is not None:
        x, dims = stage
    return ctx.reduce(x, dims, how, x.dtype)


def _times(x: Value, count: Size) -> Value:
    return Value(x.size, x.dtype, op("mul", x.body, size_expr(count, x.dtype)))


def without(x: Value, dims: Sequence[int]) -> Value:
    """Drop dimensions of extent 1."""
    kept = [d for d in range(x.ndim) if d not in dims]
    index: list[sympy.Expr] = [sympy.Integer(0)] * x.ndim
    for v, d in zip(loop_vars(len(kept)), kept, strict=True):
        index[d] = v
    return reindex(x, [x.size[d] for d in kept], index)


def keep_dims(x: Value, dims: Sequence[int], size: Sequence[Size], keepdim: bool) -> Value:
    """Put reduced dimensions back with extent 1, where asked for."""
    if not keepdim:
        return x
    variables = loop_vars(len(size))
    index = [v for d, v in enumerate(variables) if d not in dims]
    return reindex(x, [1 if d in dims else s for d, s in enumerate(size)], index)


def unary(name: str, x: Value) -> Value:
    return Value(x.size, x.dtype, op(name, x.body))


def binary(name: str, a: Value, b: Value) -> Value:
    """Elementwise on operands of one dtype; ``b`` broadcasts to ``a``."""
    return Value(a.size, a.dtype, op(name, a.body, expand(b, a.size).body))


# -- sums ----------------------------------------------------------------------------------


def summed(
    ctx: LoweringContext, x: Value, dim: Dims, keepdim: bool, dtype: torch.dtype | None, how: str
) -> Value:
    """Sum or product with eager's result dtype."""
    dims = normalize_dims(dim, x.ndim)
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    source = cast_value(cast_value(x, dtype), accumulation_dtype(dtype))
    if dtype is torch.bool:  # adding truth values is "or", multiplying them is "and"
        how = {"sum": "any", "prod": "all"}[how]
    result = keep_dims(reduce_dims(ctx, source, dims, how), dims, x.size, keepdim)
    return cast_value(result, dtype)


@register(aten.sum.default)
def lower_sum_all(ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return summed(ctx, x, None, False, dtype, "sum")


@register(aten.sum.dim_IntList)
def lower_sum(
    ctx: LoweringContext,
    x: Value,
    dim: Dims,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    return summed(ctx, x, dim, keepdim, dtype, "sum")


@register(aten.prod.default)
def lower_prod_all(ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return summed(ctx, x, None, False, dtype, "prod")


@register(aten.prod.dim_int)
def lower_prod(
    ctx: LoweringContext,
    x: Value,
    dim: int,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    return summed(ctx, x, dim, keepdim, dtype, "prod")


def mean_of(ctx: LoweringContext, x: Value, dims: Sequence[int]) -> Value:
    """Mean over ``dims`` (which disappear), in the dtype of ``x``; NaN over no elements."""
    count = size_expr(prod([x.size[d] for d in dims]), x.dtype)
    total = reduce_dims(ctx, x, dims, "sum")
    return Value(total.size, total.dtype, op("div", total.body, count))


@register(aten.mean.default)
def lower_mean_all(ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return lower_mean(ctx, x, None, dtype=dtype)


@register(aten.mean.dim)
def lower_mean(
    ctx: LoweringContext,
    x: Value,
    dim: Dims,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    dtype = x.dtype if dtype is None else dtype
    dims = normalize_dims(dim, x.ndim)
    source = cast_value(cast_value(x, dtype), accumulation_dtype(dtype))
    return cast_value(keep_dims(mean_of(ctx, source, dims), dims, x.size, keepdim), dtype)


@register(aten.count_nonzero.default)
def lower_count_nonzero_all(ctx: LoweringContext, x: Value, dim: int | None = None) -> Value:
    return lower_count_nonzero(ctx, x, None if dim is None else [dim])


@register(aten.count_nonzero.dim_IntList)
def lower_count_nonzero(ctx: LoweringContext, x: Value, dim: Dims) -> Value:
    flags = cast_value(cast_value(x, torch.bool), torch.int64)
    return summed(ctx, flags, dim, False, torch.int64, "sum")


# -- truth ---------------------------------------------------------------------------------


def _is_empty(dim: Dims) -> bool:
    return isinstance(dim, Sequence) and len(dim) == 0


def _truth(ctx: LoweringContext, x: Value, dim: Dims, keepdim: bool, how: str) -> Value:
    # Unlike in sums, an empty list of dimensions reduces nothing.
    dims = [] if _is_empty(dim) else normalize_dims(dim, x.ndim)
    result = reduce_dims(ctx, cast_value(x, torch.bool), dims, how)
    result = keep_dims(result, dims, x.size, keepdim)
    # uint8 stays uint8, for compatibility with masks of that type; everything else gives bool.
    return cast_value(result, torch.uint8 if x.dtype is torch.uint8 else torch.bool)


@register(aten.any.default, aten.any.dim, aten.any.dims)
def lower_any(ctx: LoweringContext, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _truth(ctx, x, dim, keepdim, "any")


@register(aten.all.default, aten.all.dim, aten.all.dims)
def lower_all(ctx: LoweringContext, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _truth(ctx, x, dim, keepdim, "all")


# -- extrema -------------------------------------------------------------------------------


def extremum(ctx: LoweringContext, x: Value, dim: Dims, keepdim: bool, how: str) -> Value:
    """Largest or smallest element; NaN wins."""
    dims = normalize_dims(dim, x.ndim)
    if any(same(x.size[d], 0) for d in dims):
        raise CannotLower(f"{how} over no elements")
    if x.dtype is torch.bool:
        how = {"max": "any", "min": "all"}[how]
    return keep_dims(reduce_dims(ctx, x, dims, how), dims, x.size, keepdim)


@register(aten.amax.default)
def lower_amax(ctx: LoweringContext, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return extremum(ctx, x, dim, keepdim, "max")


@register(aten.amin.default)
def lower_amin(ctx: LoweringContext, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return extremum(ctx, x, dim, keepdim, "min")


@register(aten.max.default)
def lower_max_all(ctx: LoweringContext, x: Value) -> Value:
    return extremum(ctx, x, None, False, "max")


@register(aten.min.default)
def lower_min_all(ctx: LoweringContext, x: Value) -> Value:
    return extremum(ctx, x, None, False, "min")


def arg_extremum(ctx: LoweringContext, x: Value, dim: int | None, keepdim: bool, how: str) -> Value:
    """int64 position of the first extremum (NaN wins) along ``dim``, or in the flat tensor."""
    dims = list(range(x.ndim)) if dim is None or not x.ndim else [normalize_dim(dim, x.ndim)]
    if x.dtype is torch.bool:
        x = cast_value(x, torch.int32)
    return keep_dims(reduce_dims(ctx, x, dims, how), dims, x.size, keepdim)


@register(aten.argmax.default)
def lower_argmax(
    ctx: LoweringContext, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value:
    return arg_extremum(ctx, x, dim, keepdim, "argmax")


@register(aten.argmin.default)
def lower_argmin(
    ctx: LoweringContext, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value:
    return arg_extremum(ctx, x, dim, keepdim, "argmin")


def _with_position(
    ctx: LoweringContext, x: Value, dim: int, keepdim: bool, how: str
) -> tuple[Value, Value]:
    x = reused(ctx, x)
    dims = [normalize_dim(dim, x.ndim)]
    values = extremum(ctx, x, dims, keepdim, how)
    return values, arg_extremum(ctx, x, dims[0], keepdim, f"arg{how}")


@register(aten.max.dim)
def lower_max_dim(
    ctx: LoweringContext, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value, Value]:
    return _with_position(ctx, x, dim, keepdim, "max")


@register(aten.min.dim)
def lower_min_dim(
    ctx: LoweringContext, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value, Value]:
    return _with_position(ctx, x, dim, keepdim, "min")


@register(aten.aminmax.default)
def lower_aminmax(
    ctx: LoweringContext, x: Value, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    x = reused(ctx, x)
    low = extremum(ctx, x, dim, keepdim, "min")
    return low, extremum(ctx, x, dim, keepdim, "max")
