"""Max pooling with offsets in windows (:mod:`ocl_inductor.operators.max_pool`)."""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.ir.expr import Expr, compare, const, index_value, where
from ocl_inductor.ir.index import Size, contiguous_strides, linear, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pooling.backward import sum_of_windows
from ocl_inductor.lowering.pooling.pool import max_pool
from ocl_inductor.lowering.pooling.window_cover import WindowCovering
from ocl_inductor.lowering.pooling.windows import INT32, Windows, window_vars
from ocl_inductor.operators.max_pool import MAX_POOL, MAX_POOL_BACKWARD
from ocl_inductor.operators.registry import register


@register(MAX_POOL)
def lower_max_pool(
    ctx: LoweringContext,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> tuple[Value, Value]:
    extents = x.size[x.ndim - len(kernel) :]
    windows = Windows.make(ctx, extents, kernel, stride, padding, 1, ceil_mode)
    return max_pool(ctx, x, windows, offsets=True)


@register(MAX_POOL_BACKWARD)
def lower_max_pool_backward(
    ctx: LoweringContext,
    grad: Value,
    offsets: Value,
    size: Sequence[Size],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> Value:
    n = len(kernel)
    windows = Windows.make(ctx, size[len(size) - n :], kernel, stride, padding, 1, ceil_mode)
    if any(same(s, 0) for s in (*size, *grad.size)):
        return full(size, 0, grad.dtype)
    grad, offsets = ctx.realize(grad), ctx.realize(offsets)
    own = window_vars(len(size), n)
    strides = contiguous_strides(windows.kernel)

    def term(read: Sequence[Expr], window: Sequence[object]) -> Expr:
        value, offset = read
        here = [v - windows.origin(k, w) for k, (v, w) in enumerate(zip(own, window, strict=True))]
        chosen = compare("eq", offset, index_value(linear(here, strides), INT32))
        return where(chosen, value, const(0, grad.dtype))

    sources = ((grad, 0), (cast_value(offsets, INT32), -1))
    return sum_of_windows(ctx, size, grad.dtype, WindowCovering(windows), sources, term)
