"""Resizing with antialiasing: each output pixel is a weighted mean over the input's pixels below
it, one dimension after the other (``UpSampleKernel.cpp`` of ATen).

The weights of a dimension are a small table in memory, [output, taps], whose rows begin at a
computed input pixel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, op, where
from ocl_inductor.ir.index import Size, as_size, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, clamp, element, in_memory
from ocl_inductor.lowering.core.shapes import cast_value, full, reused, static_sizes
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

INT32 = torch.int32

#: Keys' kernel with the parameter of antialiased resizing (that of Pillow, not of ATen's other).
_CUBIC_A = -0.5


def _triangle(x: Expr) -> Expr:
    """1 - |x| within [-1, 1]."""
    one, size = const(1.0, x.dtype), op("abs", x)
    return where(compare("lt", size, one), op("sub", one, size), const(0.0, x.dtype))


def _cubic(x: Expr) -> Expr:
    dtype = x.dtype
    one, two = const(1.0, dtype), const(2.0, dtype)
    size = op("abs", x)

    def polynomial(*coefficients: float) -> Expr:
        result = const(coefficients[0], dtype)
        for c in coefficients[1:]:
            result = op("add", op("mul", result, size), const(c, dtype))
        return result

    a = _CUBIC_A
    near, far = polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)
    outer = where(compare("lt", size, two), far, const(0.0, dtype))
    return where(compare("lt", size, one), near, outer)


@dataclass(frozen=True, slots=True)
class _Filter:
    """``half``: how far the kernel reaches, in pixels of the coarser grid."""

    half: float
    kernel: Callable[[Expr], Expr]


_LINEAR, _KEYS = _Filter(1.0, _triangle), _Filter(2.0, _cubic)


@dataclass(frozen=True, slots=True)
class _Table:
    """``weights`` [output, taps], and for each output the first input pixel and how many count."""

    weights: Value
    first: Value
    count: Value
    old: int

    @property
    def taps(self) -> Size:
        return self.weights.size[1]

    def pixel(self, o: sympy.Expr, tap: sympy.Expr) -> Expr:
        """The input pixel of a tap, inside the input."""
        return clamp(op("add", self.first.at([o]), index_value(tap, INT32)), self.old)

    def term(self, value: Expr, o: sympy.Expr, tap: sympy.Expr) -> Expr:
        """``value`` times the weight of a tap, and 0 past the last one, whatever ``value`` is."""
        counts = compare("lt", index_value(tap, INT32), self.count.at([o]))
        product = op("mul", value, self.weights.at([o, tap]))
        return where(counts, product, const(0.0, product.dtype))


def _table(
    ctx: LoweringContext,
    old: int,
    new: int,
    scale: float | None,
    align_corners: bool,
    how: _Filter,
    dtype: torch.dtype,
) -> _Table:
    """Weights of one dimension, computed as ATen does, in ``dtype``."""
    if align_corners:
        step = (old - 1) / (new - 1) if new > 1 else 0.0
    else:
        step = 1.0 / scale if scale else old / new
    support = how.half * step if step >= 1.0 else how.half
    taps = min(math.ceil(support) * 2 + 1, old)
    o, tap = loop_vars(2)

    def number(x: float) -> Expr:
        return const(x, dtype)

    half = number(0.5)
    place = cast(index_value(o, INT32), dtype)
    center = op("mul", number(step), op("add", place, half))
    low = cast(op("add", op("sub", center, number(support)), half), INT32)
    high = cast(op("add", op("add", center, number(support)), half), INT32)
    first = op("maximum", low, const(0, INT32))
    length = op("sub", op("minimum", high, const(old, INT32)), first)
    length = op("minimum", op("maximum", length, const(0, INT32)), const(taps, INT32))
    pixel = op("add", index_value(tap, INT32), first)
    distance = op("add", op("sub", cast(pixel, dtype), center), half)
    if step >= 1.0:
        distance = op("mul", distance, number(1.0 / step))
    inside = compare("lt", index_value(tap, INT32), length)
    raw = Value((new, taps), dtype, where(inside, how.kernel(distance), number(0.0)))
    raw = ctx.realize(raw)
    total = ctx.realize(reduce_dims(ctx, raw, [1], "sum")).at([o])
    some = compare("ne", total, number(0.0))
    weights = where(some, op("div", raw.body, where(some, total, number(1.0))), raw.body)
    return _Table(
        ctx.realize(Value((new, taps), dtype, weights)),
        ctx.realize(Value((new,), INT32, first)),
        ctx.realize(Value((new,), INT32, length)),
        old,
    )


def _tables(
    ctx: LoweringContext,
    x: Value,
    old: Sequence[int],
    new: Sequence[int],
    align_corners: bool,
    scales: Sequence[float | None],
    how: _Filter,
) -> list[_Table | None]:
    """One for each dimension; None where it keeps its size and so its pixels."""
    dtype = accumulation_dtype(x.dtype)
    if not x.dtype.is_floating_point:
        raise CannotLower(f"antialiasing of {x.dtype}")
    return [
        None if n == m and not s else _table(ctx, n, m, s, align_corners, how, dtype)
        for n, m, s in zip(old, new, scales, strict=True)
    ]


def _antialiased(
    ctx: LoweringContext,
    x: Value,
    output_size: Sequence[Size],
    align_corners: bool,
    scales: Sequence[float | None],
    how: _Filter,
) -> Value:
    new = static_sizes([as_size(s) for s in output_size], "resizing")
    old = static_sizes(x.size[2:], "resizing")
    size = (*x.size[:2], *new)
    if any(same(s, 0) for s in size):
        return full(size, 0, x.dtype)
    tables = _tables(ctx, x, old, new, align_corners, scales, how)
    result = cast_value(x, accumulation_dtype(x.dtype))
    for d in (3, 2):  # the innermost first, as in eager
        table = tables[d - 2]
        if table is None:
            continue
        source = in_memory(ctx, result)
        whole = (*source.size[:d], new[d - 2], *source.size[d + 1 :], table.taps)
        *point, tap = loop_vars(len(whole))
        at: list[Coordinate] = list(point)
        at[d] = table.pixel(point[d], tap)
        term = table.term(element(source, at), point[d], tap)
        terms = Value(whole, result.dtype, term)
        result = ctx.realize(reduce_dims(ctx, terms, [len(whole) - 1], "sum"))
    return cast_value(result, x.dtype)


def _antialiased_backward(
    ctx: LoweringContext,
    grad: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    align_corners: bool,
    scales: Sequence[float | None],
    how: _Filter,
) -> Value:
    """Each output pixel gives its gradient back to its taps, one after another in each line."""
    whole = static_sizes([as_size(s) for s in input_size], "resizing")
    new = static_sizes([as_size(s) for s in output_size], "resizing")
    if any(same(s, 0) for s in (*whole, *grad.size)):
        return full(whole, 0, grad.dtype)
    tables = _tables(ctx, grad, whole[2:], new, align_corners, scales, how)
    result = cast_value(grad, accumulation_dtype(grad.dtype))
    for d in (2, 3):
        table = tables[d - 2]
        if table is None:
            continue
        result = reused(ctx, result)
        size = (*result.size, table.taps)
        *point, tap = loop_vars(len(size))
        to: list[Coordinate] = list(point)
        to[d] = table.pixel(point[d], tap)
        term = table.term(result.at(point), point[d], tap)
        base = full((*result.size[:d], whole[d], *result.size[d + 1 :]), 0, result.dtype)
        result = scatter_points(ctx, base, size, to, term, [d, len(size) - 1], "sum")
    return cast_value(result, grad.dtype)


@register(aten._upsample_bilinear2d_aa.default)
def lower_bilinear_antialiased(
    ctx: LoweringContext,
    x: Value,
    output_size: Sequence[Size],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    return _antialiased(ctx, x, output_size, align_corners, (scales_h, scales_w), _LINEAR)


@register(aten._upsample_bicubic2d_aa.default)
def lower_bicubic_antialiased(
    ctx: LoweringContext,
    x: Value,
    output_size: Sequence[Size],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    return _antialiased(ctx, x, output_size, align_corners, (scales_h, scales_w), _KEYS)


@register(aten._upsample_bilinear2d_aa_backward.default)
def lower_bilinear_antialiased_backward(
    ctx: LoweringContext,
    grad: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    scales = (scales_h, scales_w)
    return _antialiased_backward(ctx, grad, output_size, input_size, align_corners, scales, _LINEAR)


@register(aten._upsample_bicubic2d_aa_backward.default)
def lower_bicubic_antialiased_backward(
    ctx: LoweringContext,
    grad: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    scales = (scales_h, scales_w)
    return _antialiased_backward(ctx, grad, output_size, input_size, align_corners, scales, _KEYS)
