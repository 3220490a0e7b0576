"""Pooling. Small windows are written out as masked reads; large ones become reductions.

The input goes to memory first, so that its producers are not computed once for every window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
import torch

from ocl_inductor.ir.expr import (
    Expr,
    cast,
    compare,
    const,
    index_value,
    logical_and,
    masked,
    op,
    where,
)
from ocl_inductor.ir.index import Size, contiguous_strides, linear, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, from_sums, full, lowest, position_dtype
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.pooling.windows import (
    AdaptiveWindows,
    Windows,
    clipped_length,
    more_than,
    window_vars,
)
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.operators.max_pool import MAX_UNROLLED_POINTS, OFFSET
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

#: Reads the input at trailing coordinates; ``None`` guards nothing.
Read = Callable[[Sequence[sympy.Expr]], Expr]


def _reader(x: Value, lead: Sequence[sympy.Expr]) -> Read:
    return lambda coordinates: x.at([*lead, *coordinates])


def masked_read(condition: Expr | None, value: Expr, other: float | int) -> Expr:
    return value if condition is None else masked(condition, value, const(other, value.dtype))


def tidy(size: Sequence[Size], dtype: torch.dtype, body: Expr) -> Value:
    """A value whose indices are simplified with its own extents."""
    return reindex(Value(tuple(size), dtype, body), size, loop_vars(len(size)))


# -- maximum -------------------------------------------------------------------------------


def is_larger(candidate: Expr, best: Expr) -> Expr:
    """ATen's rule: a NaN always wins, so the last one in a window gives the position."""
    larger = compare("gt", candidate, best)
    if not candidate.dtype.is_floating_point:
        return larger
    return op("logical_or", larger, compare("ne", candidate, candidate))


def max_pool(
    ctx: LoweringContext, x: Value, windows: Windows, offsets: bool = False
) -> tuple[Value, Value]:
    """``(values, int64 positions in the flattened spatial dimensions)``.

    ``offsets``: instead of positions, numbers of the points in their windows, as ``OFFSET``; of
    windows of at most ``MAX_UNROLLED_POINTS`` points.
    """
    n = len(windows.kernel)
    x = ctx.realize(x)
    size = (*x.size[: x.ndim - n], *windows.counts)
    if any(same(s, 0) for s in size):
        return full(size, 0, x.dtype), full(size, 0, OFFSET if offsets else torch.int64)
    if windows.points > MAX_UNROLLED_POINTS:
        return _max_pool_loop(ctx, x, windows, size)
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    lead, own = variables[:-n], window_vars(len(size), n)
    read = _reader(x, lead)
    strides = contiguous_strides(windows.kernel if offsets else windows.extents)
    best = const(lowest(x.dtype), x.dtype)
    position = _first_position(windows, own, strides, offsets)
    for point in windows.unrolled():
        at = windows.coordinates(own, point)
        inside = windows.inside(at, ranges)
        # Outside counts as the lowest value, which never beats what was seen.
        candidate = masked_read(inside, read(at), lowest(x.dtype))
        take = is_larger(candidate, best)
        here = linear(point if offsets else at, strides)
        position = where(take, index_value(here, position.dtype), position)
        best = op("maximum", best, candidate)
    wanted = OFFSET if offsets else torch.int64
    return tidy(size, x.dtype, best), tidy(size, wanted, cast(position, wanted))


def _first_position(
    windows: Windows, own: Sequence[sympy.Expr], strides: Sequence[Size], offsets: bool
) -> Expr:
    """Position of each window's first point inside the input, or its number in the window: the
    answer where all are -inf.
    """
    total: Expr | None = None
    dtype = torch.int32 if offsets else position_dtype(*windows.extents)
    for k, w in enumerate(own):
        start, step = windows.origin(k, w), windows.dilation[k]
        steps = -(-windows.padding[k] // step)  # points of the first window in the left padding

        def answer(i: int, start: sympy.Expr = start, step: int = step) -> Expr:
            return index_value(sympy.Integer(i) if offsets else start + i * step, dtype)

        first = answer(steps)
        for i in range(steps - 1, -1, -1):
            inside = compare("ge", index_value(start + i * step, dtype), const(0, dtype))
            first = where(inside, answer(i), first)
        if not same(strides[k], 1):
            first = op("mul", first, index_value(strides[k], dtype))
        total = first if total is None else op("add", total, first)
    assert total is not None
    return total


def _max_pool_loop(
    ctx: LoweringContext, x: Value, windows: Windows, size: tuple[Size, ...]
) -> tuple[Value, Value]:
    """A reduction over window dimensions, for windows too large to write out."""
    n = len(windows.kernel)
    whole = (*size, *windows.kernel)
    variables = loop_vars(len(whole))
    ranges = dict(zip(variables, whole, strict=True))
    own, offsets = variables[len(size) - n : len(size)], variables[len(size) :]
    at = windows.coordinates(own, offsets)
    inside = windows.inside(at, ranges)
    candidate = masked_read(inside, x.at([*variables[: len(size) - n], *at]), lowest(x.dtype))
    dims = list(range(len(size), len(whole)))
    values = ctx.realize(reduce_dims(ctx, tidy(whole, x.dtype, candidate), dims, "max"))
    # Positions grow in window order, so the first maximum has the smallest of them.
    dtype = position_dtype(*windows.extents)
    position = index_value(linear(at, contiguous_strides(windows.extents)), dtype)
    none = const(torch.iinfo(dtype).max, dtype)
    hit = compare("eq", candidate, values.at(variables[: len(size)]))
    if inside is not None:
        hit = logical_and(inside, hit)
    first = reduce_dims(ctx, tidy(whole, dtype, where(hit, position, none)), dims, "min")
    if not x.dtype.is_floating_point:
        return values, cast_value(first, torch.int64)
    # A NaN wins, and of several the last (see is_larger); elsewhere it equals nothing.
    absent = const(-1, dtype)
    nan = where(compare("ne", candidate, candidate), position, absent)
    last = reduce_dims(ctx, tidy(whole, dtype, nan), dims, "max")
    found = compare("ge", last.body, const(0, dtype))
    chosen = Value(size, dtype, where(found, last.body, first.body))
    return values, cast_value(chosen, torch.int64)


def pool_arguments(x: Value, n: int) -> Sequence[Size]:
    if x.dtype is torch.bool:
        raise CannotLower("pooling of bool")
    return x.size[x.ndim - n :]


@register(aten.max_pool2d_with_indices.default)
def lower_max_pool2d(
    ctx: LoweringContext,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    extents = pool_arguments(x, 2)
    windows = Windows.make(ctx, extents, kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool(ctx, x, windows)


@register(aten.max_pool3d_with_indices.default)
def lower_max_pool3d(
    ctx: LoweringContext,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    extents = pool_arguments(x, 3)
    windows = Windows.make(ctx, extents, kernel_size, stride, padding, dilation, ceil_mode)
    return max_pool(ctx, x, windows)


# -- average -------------------------------------------------------------------------------


def _window_sum(
    ctx: LoweringContext,
    x: Value,
    size: tuple[Size, ...],
    windows: Windows | AdaptiveWindows,
) -> Expr:
    """Sum of each window's points, in the accumulation dtype, over the result's variables."""
    n = len(windows.kernel)
    dtype = accumulation_dtype(x.dtype)
    unroll = not more_than(windows.points, MAX_UNROLLED_POINTS)
    whole = size if unroll else (*size, *windows.kernel)
    variables = loop_vars(len(whole))
    ranges = dict(zip(variables, whole, strict=True))
    lead, own = variables[: len(size) - n], variables[len(size) - n : len(size)]

    def point(offsets: Sequence[sympy.Expr | int]) -> Expr:
        at = windows.coordinates(own, offsets)
        if isinstance(windows, AdaptiveWindows):
            inside: Expr | None = windows.inside(own, offsets)
        else:
            inside = windows.inside(at, ranges)
        return masked_read(inside, cast(x.at([*lead, *at]), dtype), 0)

    if not unroll:
        body = tidy(whole, dtype, point(variables[len(size) :]))
        return reduce_dims(ctx, body, list(range(len(size), len(whole))), "sum").body
    total: Expr | None = None
    for offsets in windows.unrolled():
        value = point(offsets)
        total = value if total is None else op("add", total, value)
    assert total is not None
    return total


def avg_pool(
    ctx: LoweringContext,
    x: Value,
    windows: Windows,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    n = len(windows.kernel)
    x = ctx.realize(x)
    size = (*x.size[: x.ndim - n], *windows.counts)
    if any(same(s, 0) for s in size):
        return full(size, 0, x.dtype)
    dtype = accumulation_dtype(x.dtype)
    total = _window_sum(ctx, x, size, windows)
    if divisor_override is not None:
        divisor = const(divisor_override, dtype)
    else:
        divisor = window_divisor(windows, window_vars(len(size), n), count_include_pad, dtype)
    how = "div" if dtype.is_floating_point else "trunc_div"
    return from_sums(tidy(size, dtype, op(how, total, divisor)), x.dtype)


def window_divisor(
    windows: Windows, own: Sequence[sympy.Expr], count_include_pad: bool, dtype: torch.dtype
) -> Expr:
    """Points of each window in the input, or in the padded input."""
    number, varying = 1, None
    for k, w in enumerate(own):
        padding = windows.padding[k] if count_include_pad else 0
        length = clipped_length(windows, k, w, -padding, windows.extents[k] + padding, dtype)
        if isinstance(length, int):
            number *= length
        else:
            varying = length if varying is None else op("mul", varying, length)
    if varying is None:
        return const(number, dtype)
    return varying if number == 1 else op("mul", varying, const(number, dtype))


@register(aten.avg_pool2d.default)
def lower_avg_pool2d(
    ctx: LoweringContext,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    windows = Windows.make(ctx, pool_arguments(x, 2), kernel_size, stride, padding, 1, ceil_mode)
    return avg_pool(ctx, x, windows, count_include_pad, divisor_override)


@register(aten.avg_pool3d.default)
def lower_avg_pool3d(
    ctx: LoweringContext,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    windows = Windows.make(ctx, pool_arguments(x, 3), kernel_size, stride, padding, 1, ceil_mode)
    return avg_pool(ctx, x, windows, count_include_pad, divisor_override)


# -- adaptive ------------------------------------------------------------------------------


def _adaptive_avg(ctx: LoweringContext, x: Value, output_size: Sequence[Size]) -> Value:
    n = len(output_size)
    if not x.dtype.is_floating_point or any(same(s, 0) for s in x.size[1 - x.ndim :]):
        raise CannotLower(f"eager does not pool {x.dtype}{list(x.size)}")
    windows = AdaptiveWindows.make(pool_arguments(x, n), output_size)
    regular = windows.regular()
    if regular is not None and regular.points:
        return avg_pool(ctx, x, regular, True, None)
    size = (*x.size[: x.ndim - n], *windows.counts)
    if any(same(s, 0) for s in size):
        return full(size, 0, x.dtype)
    x = ctx.realize(x)
    dtype = accumulation_dtype(x.dtype)
    total = _window_sum(ctx, x, size, windows)
    points: Expr | None = None
    for k, w in enumerate(window_vars(len(size), n)):
        length = cast(index_value(windows.end(k, w) - windows.start(k, w)), dtype)
        points = length if points is None else op("mul", points, length)
    assert points is not None
    return from_sums(tidy(size, dtype, op("div", total, points)), x.dtype)


@register(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def lower_adaptive_avg_pool(ctx: LoweringContext, x: Value, output_size: Sequence[Size]) -> Value:
    return _adaptive_avg(ctx, x, output_size)
