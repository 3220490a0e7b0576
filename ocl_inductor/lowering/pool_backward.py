"""Gradients of pooling, gathered: each input element sums over the windows that cover it.

Scattering each window's gradient, as the formulas are usually written, would have to run in
sequence where windows overlap; gathering runs in parallel and gives the same sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, masked, op, where
from ocl_inductor.ir.index import Ranges, contiguous_strides, linear, loop_vars, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.pool import window_divisor
from ocl_inductor.lowering.reduce import accumulation_dtype
from ocl_inductor.lowering.registry import CannotLower, register
from ocl_inductor.lowering.shapes import all_of, cast_value, full, in_bounds, position_dtype
from ocl_inductor.lowering.values import Value, reindex
from ocl_inductor.lowering.windows import INT32, MAX_UNROLLED_POINTS, AdaptiveWindows, Windows

aten = torch.ops.aten

#: The windows that may cover an element: their coordinates, and when they really do.
Cover = tuple[list[sympy.Expr], Expr | None]


def _covers(windows: Windows, own: Sequence[sympy.Symbol], ranges: Ranges) -> Iterator[Cover]:
    """Windows ``o`` with ``o*stride - padding <= v <= .. + (kernel-1)*dilation``."""
    choices: list[list[tuple[sympy.Expr, Expr | None]]] = []
    for k, v in enumerate(own):
        reach = windows.dilation[k] * (windows.kernel[k] - 1) + 1
        stride, shifted = windows.stride[k], v + windows.padding[k]
        last = FloorDiv(shifted, sympy.Integer(stride)) if stride > 1 else shifted
        options = []
        for j in range(-(-reach // stride)):
            o = last - j
            covered = in_bounds(shifted - o * stride, 0, reach, ranges)
            options.append((o, all_of((in_bounds(o, 0, windows.counts[k], ranges), covered))))
        choices.append(options)
    return _combinations(choices)


def _combinations(choices: list[list[tuple[sympy.Expr, Expr | None]]]) -> Iterator[Cover]:
    total = 1
    for options in choices:
        total *= len(options)
    if total > MAX_UNROLLED_POINTS:
        raise CannotLower(f"an element lies in up to {total} windows")
    for picked in itertools.product(*choices):
        yield [o for o, _ in picked], all_of(c for _, c in picked)


def _sum_of(x: Value, covers: Iterator[Cover], term: Callable[[list[sympy.Expr]], Expr]) -> Value:
    """Sum ``term`` over the covering windows, into a gradient of ``x``'s size and dtype."""
    dtype = accumulation_dtype(x.dtype)
    total: Expr = const(0, dtype)
    for o, condition in covers:
        value = cast(term(o), dtype)
        value = value if condition is None else masked(condition, value, const(0, dtype))
        total = op("add", total, value)
    result = reindex(Value(x.size, dtype, total), x.size, loop_vars(x.ndim))
    return cast_value(result, x.dtype)


def _split_vars(x: Value, n: int) -> tuple[list[sympy.Symbol], list[sympy.Symbol]]:
    variables = loop_vars(x.ndim)
    return variables[: x.ndim - n], variables[x.ndim - n :]


# -- maximum -------------------------------------------------------------------------------


def max_pool_backward(
    ctx: LoweringContext, grad: Value, x: Value, windows: Windows, indices: Value
) -> Value:
    n = len(windows.kernel)
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    grad, indices = ctx.realize(grad), ctx.realize(indices)
    lead, own = _split_vars(x, n)
    dtype = position_dtype(*windows.extents)
    here = index_value(linear(own, contiguous_strides(windows.extents)), dtype)

    def term(o: list[sympy.Expr]) -> Expr:
        chosen = compare("eq", cast(indices.at([*lead, *o]), dtype), here)
        value = grad.at([*lead, *o])
        return where(chosen, value, const(0, grad.dtype))

    return _sum_of(x, _covers(windows, own, x.ranges), term)


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
    windows = Windows.make(extents, kernel_size, stride, padding, dilation, ceil_mode)
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
    windows = Windows.make(extents, kernel_size, stride, padding, 1, ceil_mode)
    return avg_pool_backward(ctx, grad_output, x, windows, count_include_pad, divisor_override)


def avg_pool_backward(
    ctx: LoweringContext,
    grad: Value,
    x: Value,
    windows: Windows,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    n = len(windows.kernel)
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    dtype = accumulation_dtype(x.dtype)
    grad = ctx.realize(grad)
    lead, own = _split_vars(x, n)

    def term(o: list[sympy.Expr]) -> Expr:
        if divisor_override is not None:
            divisor = const(divisor_override, dtype)
        else:
            divisor = window_divisor(windows, o, count_include_pad, dtype)
        return op("div", cast(grad.at([*lead, *o]), dtype), divisor)

    return _sum_of(x, _covers(windows, own, x.ranges), term)


@register(aten.avg_pool2d_backward.default)
def lower_avg_pool2d_backward(ctx: LoweringContext, *args: Any) -> Value:
    return _lower_avg_backward(ctx, 2, *args)


@register(aten.avg_pool3d_backward.default)
def lower_avg_pool3d_backward(ctx: LoweringContext, *args: Any) -> Value:
    return _lower_avg_backward(ctx, 3, *args)


# -- adaptive ------------------------------------------------------------------------------


def _adaptive_covers(windows: AdaptiveWindows, own: Sequence[sympy.Symbol]) -> Iterator[Cover]:
    """Windows ``o`` from ``floor(v*out/in)`` to ``ceil((v+1)*out/in) - 1``."""
    choices: list[list[tuple[sympy.Expr, Expr | None]]] = []
    for k, v in enumerate(own):
        n, c = windows.extents[k], windows.counts[k]
        first = FloorDiv(v * c, sympy.Integer(n))
        end = FloorDiv((v + 1) * c + n - 1, sympy.Integer(n))
        most = max(-(-(i + 1) * c // n) - i * c // n for i in range(n))
        least = min(-(-(i + 1) * c // n) - i * c // n for i in range(n))
        options: list[tuple[sympy.Expr, Expr | None]] = []
        for j in range(most):
            o = first + j
            always = j < least
            inside = (
                None if always else compare("lt", index_value(o, INT32), index_value(end, INT32))
            )
            options.append((o, inside))
        choices.append(options)
    return _combinations(choices)


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
    grad = ctx.realize(grad_output)
    lead, own = _split_vars(x, n)

    def term(o: list[sympy.Expr]) -> Expr:
        points: Expr = const(1, dtype)
        for k, w in enumerate(o):
            length = cast(index_value(windows.end(k, w) - windows.start(k, w)), dtype)
            points = op("mul", points, length)
        return op("div", cast(grad.at([*lead, *o]), dtype), points)

    return _sum_of(x, _adaptive_covers(windows, own), term)
