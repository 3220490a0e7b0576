"""Running sums, products and extrema along one dimension."""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import compare, const, index_value, op, where
from ocl_inductor.ir.index import loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    full,
    normalize_dim,
    position_dtype,
    reused,
)
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.rows import rounded
from ocl_inductor.lowering.reduce.blocked_scan import scan_in_pieces
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def _running(
    ctx: LoweringContext, x: Value, dim: int, dtype: torch.dtype | None, how: str
) -> Value:
    """Integers accumulate in int64, floats as :func:`_wide` says (rounded once each element)."""
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    if dtype is torch.bool:
        raise CannotLower("eager has no running sum or product in truth values")
    source = cast_value(cast_value(x, dtype), _wide(ctx, dtype))
    return scan_along(ctx, source, dim, how, dtype)


def _wide(ctx: LoweringContext, dtype: torch.dtype) -> torch.dtype:
    """What a running value is kept in, as in eager: float64 for float32, where there is one.

    The error of a running sum grows with its length, and a scan cannot be taken in pieces.
    """
    wide = ctx.device.fp64 and dtype is torch.float32
    return torch.float64 if wide else accumulation_dtype(dtype)


def scan_along(
    ctx: LoweringContext, x: Value, dim: int, how: str, dtype: torch.dtype | None = None
) -> Value:
    """Inclusive scan in the dtype of ``x``; the results are stored as ``dtype``."""
    dtype = dtype or x.dtype
    if x.ndim == 0 or any(same(n, 0) for n in x.size):
        return cast_value(x, dtype)
    dim = normalize_dim(dim, x.ndim)
    if same(x.size[dim], 1):
        return cast_value(x, dtype)
    pieces = scan_in_pieces(ctx, x, dim, how, dtype)
    return ctx.scan(x, dim, how, dtype) if pieces is None else pieces


@register(aten.cumsum.default)
def lower_cumsum(
    ctx: LoweringContext, x: Value, dim: int, *, dtype: torch.dtype | None = None
) -> Value:
    return _running(ctx, x, dim, dtype, "sum")


@register(aten.cumprod.default)
def lower_cumprod(
    ctx: LoweringContext, x: Value, dim: int, *, dtype: torch.dtype | None = None
) -> Value:
    return _running(ctx, x, dim, dtype, "prod")


@register(aten.logcumsumexp.default)
def lower_logcumsumexp(ctx: LoweringContext, x: Value, dim: int) -> Value:
    """Accumulates in float64 where there is one, as eager does."""
    if not x.dtype.is_floating_point:
        raise CannotLower(f"logcumsumexp of {x.dtype}")
    wide = torch.float64 if ctx.device.fp64 else accumulation_dtype(x.dtype)
    return scan_along(ctx, cast_value(x, wide), dim, "logaddexp", x.dtype)


def _extremum(ctx: LoweringContext, x: Value, dim: int, how: str) -> tuple[Value, Value]:
    """``(values, int64 positions)``; of equal elements the latest counts, and NaN stays."""
    if x.ndim == 0 or any(same(n, 0) for n in x.size):
        return x, full(x.size, 0, torch.int64)
    dim = normalize_dim(dim, x.ndim)
    source = cast_value(x, torch.int32) if x.dtype is torch.bool else x
    source = reused(ctx, Value(source.size, source.dtype, rounded(source.body)))
    values = reused(ctx, scan_along(ctx, source, dim, how))
    # An element moves the position when it equals the running extremum, which a NaN never does,
    # or is itself a NaN; the positions so marked only grow, so their running maximum is the latest.
    here = compare("eq", source.body, values.body)
    if source.dtype.is_floating_point:
        here = op("logical_or", here, compare("ne", source.body, source.body))
    dtype = position_dtype(x.size[dim])
    place = where(here, index_value(loop_vars(x.ndim)[dim], dtype), const(0, dtype))
    positions = scan_along(ctx, Value(x.size, dtype, place), dim, "max")
    return cast_value(values, x.dtype), cast_value(positions, torch.int64)


@register(aten.cummax.default)
def lower_cummax(ctx: LoweringContext, x: Value, dim: int) -> tuple[Value, Value]:
    return _extremum(ctx, x, dim, "max")


@register(aten.cummin.default)
def lower_cummin(ctx: LoweringContext, x: Value, dim: int) -> tuple[Value, Value]:
    return _extremum(ctx, x, dim, "min")
