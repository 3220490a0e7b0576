"""Maximum pooling into windows that are not evenly spaced: adaptive and fractional.

Backward, a window may share elements with any other, so each plane's windows add their gradients
one after another; planes run in parallel.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, logical_and, op, where
from ocl_inductor.ir.index import Size, as_size, contiguous_strides, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import clamp, element
from ocl_inductor.lowering.core.shapes import (
    all_of,
    cast_value,
    full,
    lowest,
    position_dtype,
    size_expr,
)
from ocl_inductor.lowering.core.values import Value, reshape
from ocl_inductor.lowering.indexing.scatter import scatter_along
from ocl_inductor.lowering.pooling.pool import is_larger, masked_read, max_pool, pool_arguments
from ocl_inductor.lowering.pooling.windows import (
    AdaptiveWindows,
    more_than,
    window_vars,
)
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.operators.arguments import per_dim
from ocl_inductor.operators.max_pool import MAX_UNROLLED_POINTS
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

Pair = tuple[Value, Value]


@dataclass(frozen=True, slots=True)
class _Points:
    """What each window reads: for every dimension its first coordinate, and its longest length.

    ``lengths``: for each dimension the length of a window as data, or None where all are full.
    """

    extents: Sequence[Size]
    starts: Sequence[Expr]
    kernel: Sequence[Size]
    lengths: Sequence[Expr | None]

    def at(self, offsets: Sequence[Expr]) -> tuple[list[Expr], Expr | None]:
        """Coordinates of a point, and whether the window has it."""
        where_to, conditions = [], []
        for start, i, n, length in zip(self.starts, offsets, self.extents, self.lengths):
            where_to.append(clamp(op("add", start, i), n))
            conditions.append(None if length is None else compare("lt", i, length))
        return where_to, all_of(conditions)

    def position(self, coordinates: Sequence[Expr]) -> Expr:
        """In the flattened extents."""
        total: Expr | None = None
        for c, stride in zip(coordinates, contiguous_strides(self.extents), strict=True):
            term = c if same(stride, 1) else op("mul", c, size_expr(stride, c.dtype))
            total = term if total is None else op("add", total, term)
        assert total is not None
        return total


def _pooled(ctx: LoweringContext, x: Value, size: tuple[Size, ...], points: _Points) -> Pair:
    """``(values, int64 positions in the flattened extents)``; ``x`` is in memory."""
    n = len(points.kernel)
    if more_than(prod(points.kernel), MAX_UNROLLED_POINTS):
        return _pooled_in_a_loop(ctx, x, size, points)
    lead = loop_vars(len(size))[:-n]
    dtype = points.starts[0].dtype
    best = const(lowest(x.dtype), x.dtype)
    first = [clamp(s, e) for s, e in zip(points.starts, points.extents, strict=True)]
    position = points.position(first)
    for offsets in itertools.product(*(range(int(k)) for k in points.kernel)):
        at, inside = points.at([const(i, dtype) for i in offsets])
        candidate = masked_read(inside, element(x, [*lead, *at]), lowest(x.dtype))
        take = is_larger(candidate, best)
        position = where(take, points.position(at), position)
        best = op("maximum", best, candidate)
    return Value(size, x.dtype, best), Value(size, torch.int64, cast(position, torch.int64))


def _pooled_in_a_loop(
    ctx: LoweringContext, x: Value, size: tuple[Size, ...], points: _Points
) -> Pair:
    """Reductions over the points of a window, for windows too large to write out."""
    n = len(points.kernel)
    whole = (*size, *points.kernel)
    variables = loop_vars(len(whole))
    dtype = points.starts[0].dtype
    at, inside = points.at([index_value(v, dtype) for v in variables[len(size) :]])
    lead = variables[: len(size) - n]
    candidate = masked_read(inside, element(x, [*lead, *at]), lowest(x.dtype))
    dims = list(range(len(size), len(whole)))
    values = ctx.realize(reduce_dims(ctx, Value(whole, x.dtype, candidate), dims, "max"))
    # Positions grow in window order, so the first maximum has the smallest of them.
    position, none = points.position(at), const(torch.iinfo(dtype).max, dtype)
    hit = compare("eq", candidate, values.at(variables[: len(size)]))
    if inside is not None:
        hit = logical_and(inside, hit)
    first = reduce_dims(ctx, Value(whole, dtype, where(hit, position, none)), dims, "min")
    if not x.dtype.is_floating_point:
        return values, cast_value(first, torch.int64)
    # A NaN wins, and of several the last, as in is_larger.
    nan = where(compare("ne", candidate, candidate), position, const(-1, dtype))
    last = reduce_dims(ctx, Value(whole, dtype, nan), dims, "max")
    found = compare("ge", last.body, const(0, dtype))
    chosen = Value(size, dtype, where(found, last.body, first.body))
    return values, cast_value(chosen, torch.int64)


def _empty(size: Sequence[Size], dtype: torch.dtype) -> Pair:
    return full(size, 0, dtype), full(size, 0, torch.int64)


@register(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def lower_adaptive_max_pool(ctx: LoweringContext, x: Value, output_size: Sequence[Size]) -> Pair:
    n = len(output_size)
    windows = AdaptiveWindows.make(pool_arguments(x, n), output_size)
    regular = windows.regular()
    if regular is not None and regular.points:
        return max_pool(ctx, x, regular)
    size = (*x.size[: x.ndim - n], *windows.counts)
    if any(same(s, 0) for s in (*size, *x.size)):
        return _empty(size, x.dtype)
    dtype = position_dtype(*windows.extents)
    own = window_vars(len(size), n)
    starts = [index_value(windows.start(k, w), dtype) for k, w in enumerate(own)]
    ends = [index_value(windows.end(k, w), dtype) for k, w in enumerate(own)]
    lengths = [op("sub", e, s) for s, e in zip(starts, ends, strict=True)]
    points = _Points(windows.extents, starts, windows.kernel, lengths)
    return _pooled(ctx, ctx.realize(x), size, points)


# -- fractional ----------------------------------------------------------------------------


def _fractional_starts(
    sample: Expr, window: sympy.Expr, extent: Size, count: Size, kernel: int, dtype: torch.dtype
) -> Expr:
    """First coordinate of each window (``generate_intervals`` of ATen, in the sample's dtype)."""
    gap, last_window = (as_size(sympy.sympify(n) - k) for n, k in ((extent, kernel), (count, 1)))
    last = size_expr(gap, dtype)
    if same(count, 1):
        return last
    wide = sample.dtype
    # A single window, where that is not known before, is the last one: no matter what this gives.
    alpha = op("div", size_expr(gap, wide), size_expr(last_window, wide))
    shifted = op("add", cast(index_value(window, dtype), wide), sample)
    begin = op("sub", cast(op("mul", shifted, alpha), dtype), cast(op("mul", sample, alpha), dtype))
    is_last = compare("eq", index_value(window, dtype), size_expr(last_window, dtype))
    return where(is_last, last, begin)


def _fractional(
    ctx: LoweringContext,
    x: Value,
    kernel_size: Sequence[int],
    output_size: Sequence[Size],
    random_samples: Value,
    order: Sequence[int],
) -> Pair:
    """``random_samples`` [n, c, dims]; ``order``: which of them each dimension takes."""
    n = len(output_size)
    if x.dtype not in (torch.float32, torch.float64) or random_samples.dtype is not x.dtype:
        raise CannotLower(f"fractional pooling of {x.dtype}")
    kernel = per_dim(kernel_size, n)
    extents, counts = pool_arguments(x, n), [as_size(s) for s in output_size]
    size = (*x.size[: x.ndim - n], *counts)
    if any(same(s, 0) for s in (*size, *x.size)):
        return _empty(size, x.dtype)
    variables = loop_vars(len(size))
    plane = [sympy.Integer(0)] * (2 - len(variables[:-n])) + list(variables[:-n])
    dtype = position_dtype(*extents)
    starts = [
        _fractional_starts(
            random_samples.at([*plane, which]), w, extents[k], counts[k], kernel[k], dtype
        )
        for k, (which, w) in enumerate(zip(order, variables[-n:], strict=True))
    ]
    points = _Points(extents, starts, kernel, [None] * n)
    return _pooled(ctx, ctx.realize(x), size, points)


@register(aten.fractional_max_pool2d.default)
def lower_fractional_max_pool2d(
    ctx: LoweringContext,
    x: Value,
    kernel_size: Sequence[int],
    output_size: Sequence[Size],
    random_samples: Value,
) -> Pair:
    return _fractional(ctx, x, kernel_size, output_size, random_samples, (1, 0))


@register(aten.fractional_max_pool3d.default)
def lower_fractional_max_pool3d(
    ctx: LoweringContext,
    x: Value,
    kernel_size: Sequence[int],
    output_size: Sequence[Size],
    random_samples: Value,
) -> Pair:
    return _fractional(ctx, x, kernel_size, output_size, random_samples, (0, 1, 2))


# -- gradients -----------------------------------------------------------------------------


def _to_positions(ctx: LoweringContext, grad: Value, x: Value, indices: Value, n: int) -> Value:
    """Each window's gradient added at the position that it took its value from."""
    lead = x.size[: x.ndim - n]
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    wide = torch.float32 if x.dtype.itemsize < 4 else x.dtype
    planes, inner = prod(lead), prod(x.size[x.ndim - n :])
    windows = prod(grad.size[grad.ndim - n :])
    flat = [reshape(v, (planes, windows)) for v in (indices, cast_value(grad, wide))]
    base = full((planes, inner), 0, wide)
    summed = scatter_along(ctx, base, 1, flat[0], flat[1], "sum")
    return cast_value(reshape(summed, x.size), x.dtype)


@register(aten.adaptive_max_pool2d_backward.default)
def lower_adaptive_max_pool2d_backward(
    ctx: LoweringContext, grad_output: Value, x: Value, indices: Value
) -> Value:
    return _to_positions(ctx, grad_output, x, indices, 2)


@register(aten.adaptive_max_pool3d_backward.default)
def lower_adaptive_max_pool3d_backward(
    ctx: LoweringContext, grad_output: Value, x: Value, indices: Value
) -> Value:
    return _to_positions(ctx, grad_output, x, indices, 3)


@register(aten.fractional_max_pool2d_backward.default)
def lower_fractional_max_pool2d_backward(
    ctx: LoweringContext,
    grad_output: Value,
    x: Value,
    kernel_size: Sequence[int],
    output_size: Sequence[Size],
    indices: Value,
) -> Value:
    return _to_positions(ctx, grad_output, x, indices, 2)


@register(aten.fractional_max_pool3d_backward.default)
def lower_fractional_max_pool3d_backward(
    ctx: LoweringContext,
    grad_output: Value,
    x: Value,
    kernel_size: Sequence[int],
    output_size: Sequence[Size],
    indices: Value,
) -> Value:
    return _to_positions(ctx, grad_output, x, indices, 3)
