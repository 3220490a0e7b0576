"""Gradients of pooling, gathered: each input element sums over the windows that cover it.

Scattering each window's gradient, as the formulas are usually written, would have to run in
sequence where windows overlap; gathering runs in parallel and gives the same sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, op, where
from ocl_inductor.ir.index import (
    Size,
    contiguous_strides,
    linear,
    loop_vars,
    prod,
    same,
)
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, cast_value, full, in_bounds, position_dtype
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pooling.pool import masked_read, tidy, window_divisor
from ocl_inductor.lowering.pooling.window_cover import (
    AdaptiveCovering,
    Covering,
    Offset,
    WindowCovering,
)
from ocl_inductor.lowering.pooling.windows import (
    AdaptiveWindows,
    Windows,
    more_than,
    window_vars,
)
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.operators.max_pool import MAX_UNROLLED_POINTS
from ocl_inductor.operators.registry import register

aten = torch.ops.aten


def sum_of_windows(
    ctx: LoweringContext,
    size: Sequence[Size],
    result: torch.dtype,
    covering: Covering,
    sources: Sequence[tuple[Value, int]],
    term: Callable[[Sequence[Expr], Sequence[sympy.Expr]], Expr],
) -> Value:
    """Sum ``term`` over the covering windows, into a gradient of this size and dtype.

    A few windows are written out; more are a reduction.

    Args:
        sources: what ``term`` gets of each window, beside its coordinates, and what makes it 0.
    """
    n, ndim, dtype = len(covering.most), len(size), accumulation_dtype(result)
    looped = more_than(prod(covering.most), MAX_UNROLLED_POINTS)
    reached = covering.reached if looped else ((0, 0),) * n
    read = [_framed(ctx, *s, reached) if looped else s[0] for s in sources]
    whole = (*size, *covering.most) if looped else tuple(size)
    variables = loop_vars(len(whole))
    ranges = dict(zip(variables, whole, strict=True))
    lead, own = variables[: ndim - n], variables[ndim - n : ndim]

    def part(at: Sequence[Offset]) -> Expr:
        windows, condition = covering.cover(own, at, ranges, looped)
        o = [w - first for w, (first, _) in zip(windows, reached, strict=True)]
        value = term([source.at([*lead, *o]) for source in read], windows)
        return masked_read(condition, cast(value, dtype), 0)

    if looped:
        parts = tidy(whole, dtype, part(variables[ndim:]))
        total = reduce_dims(ctx, parts, list(range(ndim, len(whole))), "sum")
        return cast_value(total, result)
    body: Expr = const(0, dtype)
    for at in itertools.product(*(range(int(n)) for n in covering.most)):
        body = op("add", body, part(at))
    return cast_value(tidy(size, dtype, body), result)


def _framed(
    ctx: LoweringContext, source: Value, fill: int, reached: Sequence[tuple[int, Size]]
) -> Value:
    """``source`` with ``fill`` around it wherever windows are ``reached`` that do not exist.

    So the loop over windows has no condition, which would have it go through them one by one.
    """
    lead, counts = source.ndim - len(reached), source.size[source.ndim - len(reached) :]
    size = (*source.size[:lead], *(number for _, number in reached))
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    o = [v + first for v, (first, _) in zip(variables[lead:], reached, strict=True)]
    inside = all_of(in_bounds(w, 0, c, ranges) for w, c in zip(o, counts, strict=True))
    body = masked_read(inside, source.at([*variables[:lead], *o]), fill)
    return ctx.realize(tidy(size, source.dtype, body))


# -- maximum -------------------------------------------------------------------------------


def max_pool_backward(
    ctx: LoweringContext, grad: Value, x: Value, windows: Windows, indices: Value
) -> Value:
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    grad, indices = ctx.realize(grad), ctx.realize(indices)
    own = window_vars(x.ndim, len(windows.kernel))
    dtype = position_dtype(*windows.extents)
    here = index_value(linear(own, contiguous_strides(windows.extents)), dtype)

    def term(read: Sequence[Expr], window: Sequence[sympy.Expr]) -> Expr:
        value, position = read
        return where(compare("eq", position, here), value, const(0, grad.dtype))

    sources = ((grad, 0), (cast_value(indices, dtype), -1))
    return sum_of_windows(ctx, x.size, x.dtype, WindowCovering(windows), sources, term)


def _lower_max_backward(
    ctx: LoweringContext,
    n: int,
    grad_output: Value,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Value,
) -> Value:
    extents = x.size[x.ndim - n :]
    windows = Windows.make(ctx, extents, kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool_backward(ctx, grad_output, x, windows, indices)


@register(aten.max_pool2d_with_indices_backward.default)
def lower_max_pool2d_backward(ctx: LoweringContext, *args: Any) -> Value:
    return _lower_max_backward(ctx, 2, *args)


@register(aten.max_pool3d_with_indices_backward.default)
def lower_max_pool3d_backward(ctx: LoweringContext, *args: Any) -> Value:
    return _lower_max_backward(ctx, 3, *args)


# -- average -------------------------------------------------------------------------------


def _lower_avg_backward(
    ctx: LoweringContext,
    n: int,
    grad_output: Value,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    extents = x.size[x.ndim - n :]
    windows = Windows.make(ctx, extents, kernel_size, stride, padding, 1, ceil_mode)
    return avg_pool_backward(ctx, grad_output, x, windows, count_include_pad, divisor_override)


def avg_pool_backward(
    ctx: LoweringContext,
    grad: Value,
    x: Value,
    windows: Windows,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    dtype = accumulation_dtype(x.dtype)
    if divisor_override is not None:
        divisor = const(divisor_override, dtype)
    else:
        own = window_vars(grad.ndim, len(windows.kernel))
        divisor = window_divisor(windows, own, count_include_pad, dtype)
    return _sum_of_shares(ctx, x, WindowCovering(windows), grad, divisor)


def _sum_of_shares(
    ctx: LoweringContext, x: Value, covering: Covering, grad: Value, points: Expr
) -> Value:
    """Sum over the covering windows of their gradient over the number of their points."""
    grad = ctx.realize(grad)
    body = op("div", cast(grad.body, points.dtype), points)
    shares = Value(grad.size, points.dtype, body)
    return sum_of_windows(ctx, x.size, x.dtype, covering, [(shares, 0)], lambda read, _: read[0])


@register(aten.avg_pool2d_backward.default)
def lower_avg_pool2d_backward(ctx: LoweringContext, *args: Any) -> Value:
    return _lower_avg_backward(ctx, 2, *args)


@register(aten.avg_pool3d_backward.default)
def lower_avg_pool3d_backward(ctx: LoweringContext, *args: Any) -> Value:
    return _lower_avg_backward(ctx, 3, *args)


# -- adaptive ------------------------------------------------------------------------------


@register(aten._adaptive_avg_pool2d_backward.default)
def lower_adaptive_avg_pool2d_backward(ctx: LoweringContext, grad_output: Value, x: Value) -> Value:
    return _adaptive_backward(ctx, grad_output, x, 2)


@register(aten._adaptive_avg_pool3d_backward.default)
def lower_adaptive_avg_pool3d_backward(ctx: LoweringContext, grad_output: Value, x: Value) -> Value:
    return _adaptive_backward(ctx, grad_output, x, 3)


def _adaptive_backward(ctx: LoweringContext, grad_output: Value, x: Value, n: int) -> Value:
    extents, counts = x.size[x.ndim - n :], grad_output.size[x.ndim - n :]
    windows = AdaptiveWindows.make(extents, counts)
    regular = windows.regular()
    if regular is not None and regular.points:
        return avg_pool_backward(ctx, grad_output, x, regular, True, None)
    if any(same(s, 0) for s in (*x.size, *grad_output.size)):
        return full(x.size, 0, x.dtype)
    dtype = accumulation_dtype(x.dtype)
    points: Expr = const(1, dtype)
    for k, w in enumerate(window_vars(grad_output.ndim, n)):
        length = cast(index_value(windows.end(k, w) - windows.start(k, w)), dtype)
        points = op("mul", points, length)
    return _sum_of_shares(ctx, x, AdaptiveCovering.make(ctx, windows), grad_output, points)
