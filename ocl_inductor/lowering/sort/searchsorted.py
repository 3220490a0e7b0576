"""Places of values in sorted boundaries: searchsorted, bucketize."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, logical_and, op, where
from ocl_inductor.ir.index import Size, is_static, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import (
    Coordinate,
    clamp,
    element,
    in_memory,
    users_index,
)
from ocl_inductor.lowering.core.shapes import (
    decide,
    full,
    is_known,
    position_dtype,
    reused,
    size_expr,
)
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def bisect(
    ctx: LoweringContext,
    boundaries: Value,
    x: Value,
    right: bool,
    dtype: torch.dtype,
    sorter: Value | None = None,
) -> Value:
    """How many of the last dimension's boundaries lie before each element of ``x``.

    The bisection of eager, step by step, so that NaN and unsorted boundaries give the same:
    O(log n) reads. ``boundaries`` has one dimension, or the leading sizes of ``x``.
    """
    n = boundaries.size[-1]
    if same(n, 0) or any(same(s, 0) for s in x.size):
        return full(x.size, 0, dtype)
    source = in_memory(ctx, boundaries)
    order = None if sorter is None else in_memory(ctx, _checked_order(ctx, sorter, n))
    x = reused(ctx, x)
    lead: Sequence[sympy.Expr] = loop_vars(x.ndim)[:-1] if boundaries.ndim > 1 else []
    place = position_dtype(n)
    one, two = const(1, place), const(2, place)
    first, last = const(0, place), size_expr(n, place)
    for _ in range(_steps(ctx, n)):
        middle = op("add", first, op("trunc_div", op("sub", last, first), two))
        at: Expr = clamp(middle, n)  # only an empty interval's middle is out of range
        if order is not None:
            at = element(order, [*lead, at])
        coordinates: list[Coordinate] = [*lead, at]
        stop = compare("gt" if right else "ge", element(source, coordinates), x.body)
        unfinished = compare("lt", first, last)
        forward = logical_and(unfinished, op("logical_not", stop))
        back = logical_and(unfinished, stop)
        first = where(forward, op("add", middle, one), first)
        last = where(back, middle, last)
    return Value(x.size, dtype, cast(first, dtype))


def _checked_order(ctx: LoweringContext, sorter: Value, n: Size) -> Value:
    """Places in ``n`` boundaries; eager looks at all of them, whichever are searched."""
    if sorter.dtype is not torch.int64:
        raise CannotLower(f"eager refuses a sorter of {sorter.dtype}")
    last = sorter.ndim - 1
    place = users_index(ctx, sorter.body, n, sorter.ranges, last, wrap=False)
    body = place if isinstance(place, Expr) else index_value(place, position_dtype(n))
    return Value(sorter.size, body.dtype, body)


#: Lengths that symbolic ones are compared with, so that few sizes need another compilation.
_LIMITS = ((1 << 12) - 1, (1 << 20) - 1, (1 << 31) - 1)


def _steps(ctx: LoweringContext, n: Size) -> int:
    """Halvings that leave nothing of ``n`` boundaries."""
    if is_static(n):
        return int(n).bit_length()
    for limit in _LIMITS[:-1]:
        if ctx.hint(n) <= limit and is_known(ctx, n) and decide(ctx, sympy.Le(n, limit)):
            return limit.bit_length()
    return _LIMITS[-1].bit_length()


def _is_right(right: bool, side: str | None) -> bool:
    return right or side == "right"


def _result_dtype(out_int32: bool) -> torch.dtype:
    return torch.int32 if out_int32 else torch.int64


@register(aten.searchsorted.Tensor)
def lower_searchsorted(
    ctx: LoweringContext,
    sorted_sequence: Value,
    x: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    if sorted_sequence.dtype is not x.dtype or x.dtype is torch.bool:
        raise CannotLower(f"searching {x.dtype} in {sorted_sequence.dtype}")
    right = _is_right(right, side)
    return bisect(ctx, sorted_sequence, x, right, _result_dtype(out_int32), sorter)


@register(aten.searchsorted.Scalar)
def lower_searchsorted_scalar(
    ctx: LoweringContext,
    sorted_sequence: Value,
    number: float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    x = _number(number, sorted_sequence.dtype)
    right = _is_right(right, side)
    return bisect(ctx, sorted_sequence, x, right, _result_dtype(out_int32), sorter)


@register(aten.bucketize.Tensor)
def lower_bucketize(
    ctx: LoweringContext,
    x: Value,
    boundaries: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Value:
    if boundaries.dtype is not x.dtype or x.dtype is torch.bool:
        raise CannotLower(f"searching {x.dtype} in {boundaries.dtype}")
    if boundaries.ndim != 1:
        raise CannotLower(f"eager refuses boundaries of {boundaries.ndim} dimensions")
    return bisect(ctx, boundaries, x, right, _result_dtype(out_int32))


@register(aten.bucketize.Scalar)
def lower_bucketize_scalar(
    ctx: LoweringContext,
    number: float,
    boundaries: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Value:
    x = _number(number, boundaries.dtype)
    return bisect(ctx, boundaries, x, right, _result_dtype(out_int32))


def _number(number: float, dtype: torch.dtype) -> Value:
    whole = isinstance(number, int) or (isinstance(number, float) and dtype.is_floating_point)
    if not whole or dtype is torch.bool:
        raise CannotLower(f"searching {number} in {dtype}")
    return full((), number, dtype)
