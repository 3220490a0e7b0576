"""Gradients of pooling, gathered: each input element sums over the windows that cover it.

Scattering each window's gradient, as the formulas are usually written, would have to run in
sequence where windows overlap; gathering runs in parallel and gives the same sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, op, where
from ocl_inductor.ir.index import Ranges, contiguous_strides, linear, loop_vars, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.pool import masked_read, tidy, window_divisor
from ocl_inductor.lowering.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.lowering.registry import register
from ocl_inductor.lowering.shapes import all_of, cast_value, full, in_bounds, position_dtype
from ocl_inductor.lowering.values import Value
from ocl_inductor.lowering.windows import INT32, MAX_UNROLLED_POINTS, AdaptiveWindows, Windows

aten = torch.ops.aten

#: A window that may cover an element: its coordinates, and when it really does.
Cover = tuple[list[sympy.Expr], Expr | None]
Offset: TypeAlias = "sympy.Expr | int"


class Covering(Protocol):
    """The windows that may cover an element: in each dimension a row of neighbours."""

    @property
    def most(self) -> tuple[int, ...]:
        """How many they are in each dimension."""

    def cover(self, own: Sequence[sympy.Symbol], at: Sequence[Offset], ranges: Ranges) -> Cover:
        """The one at offsets ``at < most``, for the element at the coordinates ``own``."""


@dataclass(frozen=True, slots=True)
class _Covering:
    """Windows ``o`` with ``o*stride - padding <= v <= .. + (kernel-1)*dilation``."""

    windows: Windows

    @property
    def most(self) -> tuple[int, ...]:
        steps = zip(self._reach, self.windows.stride, strict=True)
        return tuple(-(-reach // stride) for reach, stride in steps)

    @property
    def _reach(self) -> tuple[int, ...]:
        pairs = zip(self.windows.kernel, self.windows.dilation, strict=True)
        return tuple(dilation * (kernel - 1) + 1 for kernel, dilation in pairs)

    def cover(self, own: Sequence[sympy.Symbol], at: Sequence[Offset], ranges: Ranges) -> Cover:
        found: list[sympy.Expr] = []
        conditions: list[Expr | None] = []
        for k, (v, j) in enumerate(zip(own, at, strict=True)):
            stride, shifted = self.windows.stride[k], v + self.windows.padding[k]
            last = FloorDiv(shifted, sympy.Integer(stride)) if stride > 1 else shifted
            o = last - j
            found.append(o)
            conditions.append(in_bounds(o, 0, self.windows.counts[k], ranges))
            conditions.append(in_bounds(shifted - o * stride, 0, self._reach[k], ranges))
        return found, all_of(conditions)


@dataclass(frozen=True, slots=True)
class _AdaptiveCovering:
    """Windows ``o`` from ``floor(v*out/in)`` to ``ceil((v+1)*out/in) - 1``."""

    windows: AdaptiveWindows

    @property
    def most(self) -> tuple[int, ...]:
        return tuple(max(numbers) for numbers in self._numbers)

    @property
    def _numbers(self) -> list[list[int]]:
        """How many windows cover each coordinate."""
        sizes = zip(self.windows.extents, self.windows.counts, strict=True)
        return [[-(-(i + 1) * c // n) - i * c // n for i in range(n)] for n, c in sizes]

    def cover(self, own: Sequence[sympy.Symbol], at: Sequence[Offset], ranges: Ranges) -> Cover:
        found: list[sympy.Expr] = []
        conditions: list[Expr | None] = []
        for k, (v, j) in enumerate(zip(own, at, strict=True)):
            n, c = self.windows.extents[k], self.windows.counts[k]
            o = FloorDiv(v * c, sympy.Integer(n)) + j
            found.append(o)
            if (j if isinstance(j, int) else self.most[k] - 1) >= min(self._numbers[k]):
                end = FloorDiv((v + 1) * c + n - 1, sympy.Integer(n))
                conditions.append(compare("lt", index_value(o, INT32), index_value(end, INT32)))
        return found, all_of(conditions)


def _sum_of(
    ctx: LoweringContext,
    x: Value,
    covering: Covering,
    term: Callable[[Sequence[sympy.Expr], list[sympy.Expr]], Expr],
) -> Value:
    """Sum ``term(lead, o)`` over the covering windows, into a gradient of ``x``'s size and dtype.

    A few windows are written out; more are a reduction.
    """
    n, dtype = len(covering.most), accumulation_dtype(x.dtype)
    looped = math.prod(covering.most) > MAX_UNROLLED_POINTS
    whole = (*x.size, *covering.most) if looped else x.size
    variables = loop_vars(len(whole))
    ranges = dict(zip(variables, whole, strict=True))
    lead, own = variables[: x.ndim - n], variables[x.ndim - n : x.ndim]

    def part(at: Sequence[Offset]) -> Expr:
        o, condition = covering.cover(own, at, ranges)
        return masked_read(condition, cast(term(lead, o), dtype), 0)

    if looped:
        parts = tidy(whole, dtype, part(variables[x.ndim :]))
        total = reduce_dims(ctx, parts, list(range(x.ndim, len(whole))), "sum")
        return cast_value(total, x.dtype)
    body: Expr = const(0, dtype)
    for at in itertools.product(*map(range, covering.most)):
        body = op("add", body, part(at))
    return cast_value(tidy(x.size, dtype, body), x.dtype)


# -- maximum -------------------------------------------------------------------------------


def max_pool_backward(
    ctx: LoweringContext, grad: Value, x: Value, windows: Windows, indices: Value
) -> Value:
    n = len(windows.kernel)
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    grad, indices = ctx.realize(grad), ctx.realize(indices)
    own = loop_vars(x.ndim)[x.ndim - n :]
    dtype = position_dtype(*windows.extents)
    here = index_value(linear(own, contiguous_strides(windows.extents)), dtype)

    def term(lead: Sequence[sympy.Expr], o: list[sympy.Expr]) -> Expr:
        chosen = compare("eq", cast(indices.at([*lead, *o]), dtype), here)
        value = grad.at([*lead, *o])
        return where(chosen, value, const(0, grad.dtype))

    return _sum_of(ctx, x, _Covering(windows), term)


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
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    dtype = accumulation_dtype(x.dtype)
    grad = ctx.realize(grad)

    def term(lead: Sequence[sympy.Expr], o: list[sympy.Expr]) -> Expr:
        if divisor_override is not None:
            divisor = const(divisor_override, dtype)
        else:
            divisor = window_divisor(windows, o, count_include_pad, dtype)
        return op("div", cast(grad.at([*lead, *o]), dtype), divisor)

    return _sum_of(ctx, x, _Covering(windows), term)


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
    grad = ctx.realize(grad_output)

    def term(lead: Sequence[sympy.Expr], o: list[sympy.Expr]) -> Expr:
        points: Expr = const(1, dtype)
        for k, w in enumerate(o):
            length = cast(index_value(windows.end(k, w) - windows.start(k, w)), dtype)
            points = op("mul", points, length)
        return op("div", cast(grad.at([*lead, *o]), dtype), points)

    return _sum_of(ctx, x, _AdaptiveCovering(windows), term)
