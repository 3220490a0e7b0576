"""Reductions of consecutive segments along one dimension (segment_reduce), and their gradients.

Elements of a line are taken in order, as in eager; other dimensions run in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, op, where
from ocl_inductor.ir.index import Size, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, clamp, element, in_memory
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    full,
    highest,
    lowest,
    normalize_dim,
    reused,
    static_sizes,
)
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.pointwise.in_float32 import in_float32
from ocl_inductor.lowering.reduce.scans import scan_along
from ocl_inductor.lowering.sort.searchsorted import bisect
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

#: How a segment's elements combine. A mean is a sum that is divided in the end.
_HOW = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class _Segments:
    r"""``segment`` [\*lead, n]: number of the segment of each element along dimension ``axis``;
    ``inside`` [\*lead, n]: whether it is in one at all; ``lengths`` [\*lead, count]. ``lead`` are
    the dimensions before ``axis``.
    """

    axis: int
    segment: Value
    inside: Value
    lengths: Value

    @property
    def count(self) -> Size:
        return self.lengths.size[-1]

    def of(self, point: list[sympy.Symbol]) -> Expr:
        """Segment of an element of the data."""
        return clamp(self.segment.at(point[: self.axis + 1]), self.count)

    def line(self, point: list[sympy.Symbol]) -> list[Coordinate]:
        """Coordinates in the result of the segment of an element of the data."""
        to: list[Coordinate] = list(point)
        to[self.axis] = self.of(point)
        return to

    def only_inside(self, point: list[sympy.Symbol], body: Expr, otherwise: float | int) -> Expr:
        """``body`` of an element of the data, or a number for one that is in no segment."""
        return where(self.inside.at(point[: self.axis + 1]), body, const(otherwise, body.dtype))

    def length(self, point: list[sympy.Symbol]) -> Expr:
        """Elements of a segment of the result."""
        return self.lengths.at(point[: self.axis + 1])


def _segments(
    ctx: LoweringContext,
    data: Value,
    lengths: Value | None,
    offsets: Value | None,
    axis: int,
    *,
    all_inside: bool,
) -> _Segments:
    """``all_inside``: it is refused where lengths do not add up to the data's."""
    axis = normalize_dim(axis, data.ndim)
    wide = torch.int64
    (n,) = static_sizes([data.size[axis]], "segments")
    first: Expr = const(0, wide)
    if lengths is not None:
        lengths = reused(
            ctx, _not_negative(ctx, cast_value(lengths, wide), "lengths contains negative value!")
        )
        ends = scan_along(ctx, lengths, lengths.ndim - 1, "sum")
    elif offsets is not None:
        offsets = cast_value(offsets, wide)
        *lead, s = loop_vars(offsets.ndim)
        size = (*offsets.size[:-1], static_sizes(offsets.size[-1:], "segments")[0] - 1)
        lengths = Value(size, wide, op("sub", offsets.at([*lead, s + 1]), offsets.at([*lead, s])))
        lengths = _not_negative(ctx, lengths, "Expected segment_length >= 0 to be true")
        # From lengths, so that these are looked at where only the ends are needed.
        ends = Value(size, wide, op("add", offsets.at([*lead, s]), lengths.body))
        first = offsets.at([*lead, sympy.Integer(0)])
    else:
        raise CannotLower("segments by neither lengths nor offsets")
    if lengths.ndim != axis + 1:
        raise CannotLower("segments with other dimensions than the data has before them")
    size = (*lengths.size[:-1], n)
    (count,) = static_sizes(lengths.size[-1:], "segments")
    ends = ctx.realize(ends)
    *lead, at = loop_vars(len(size))
    place = Value(size, wide, index_value(at))
    if all_inside and count:
        total = element(ends, [*lead, sympy.Integer(count - 1)])
        fits = refused_unless(ctx, compare("eq", total, const(n, wide)), wide, _NOT_ALL)
        place = Value(size, wide, op("add", place.body, fits))
    segment = reused(ctx, bisect(ctx, ends, place, right=True, dtype=wide))
    before_end = compare("lt", segment.body, const(count, wide))
    body = op("logical_and", before_end, compare("ge", place.body, first))
    inside = reused(ctx, Value(size, torch.bool, body))
    return _Segments(axis, segment, inside, reused(ctx, lengths))


_NOT_ALL = (
    "segment_reduce(): Expected all rows of lengths along axis to sum to "
    "data.size(lengths.dim()-1) when !unsafe."
)


def _not_negative(ctx: LoweringContext, lengths: Value, says: str) -> Value:
    holds = compare("ge", lengths.body, const(0, lengths.dtype))
    refused = refused_unless(ctx, holds, lengths.dtype, says)
    return Value(lengths.size, lengths.dtype, op("add", lengths.body, refused))


def _start(reduce: str, initial: float | None, dtype: torch.dtype) -> float | int:
    if initial is not None:
        return initial
    return {"sum": 0, "mean": 0, "prod": 1, "max": lowest(dtype), "min": highest(dtype)}[reduce]


def _check(data: Value, reduce: str, initial: object) -> None:
    if data.dtype not in (torch.float32, torch.float64) or reduce not in _HOW:
        raise CannotLower(f"segments of {data.dtype} by {reduce}")
    if not (initial is None or isinstance(initial, (int, float))):
        raise CannotLower("a symbolic initial value")


@register(aten.segment_reduce.default)
@in_float32
def lower_segment_reduce(
    ctx: LoweringContext,
    data: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    indices: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Value:
    _check(data, reduce, initial)
    all_inside = lengths is not None and not unsafe
    segments = _segments(ctx, data, lengths, offsets, axis, all_inside=all_inside)
    axis = segments.axis
    size = (*data.size[:axis], segments.count, *data.size[axis + 1 :])
    start = full(size, _start(reduce, initial, data.dtype), data.dtype)
    point = loop_vars(data.ndim)
    total = start
    if not any(same(s, 0) for s in (*size, *data.size)):
        to = segments.line(point)
        body = segments.only_inside(point, data.body, _start(reduce, None, data.dtype))
        total = scatter_points(ctx, start, data.size, to, body, [axis], _HOW[reduce])
    if reduce != "mean":
        return total
    length = segments.length(point)
    number = cast(op("maximum", length, const(1, length.dtype)), data.dtype)
    mean = op("div", total.body, number)
    if initial is None:  # the mean of nothing
        some = compare("gt", length, const(0, length.dtype))
        mean = where(some, mean, const(float("nan"), data.dtype))
    return Value(size, data.dtype, mean)


@register(aten._segment_reduce_backward.default)
@in_float32
def lower_segment_reduce_backward(
    ctx: LoweringContext,
    grad: Value,
    output: Value,
    data: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Value:
    """Extrema share their gradient among equal elements; products take those of the others."""
    _check(data, reduce, initial)
    if any(same(s, 0) for s in (*grad.size, *data.size)):
        return full(data.size, 0, data.dtype)
    segments = _segments(ctx, data, lengths, offsets, axis, all_inside=False)
    point = loop_vars(data.ndim)
    to = segments.line(point)
    grad, data = in_memory(ctx, grad), reused(ctx, data)
    given = segments.only_inside(point, element(grad, to), 0)
    if reduce == "sum":
        return Value(data.size, data.dtype, given)
    if reduce == "mean":
        of = in_memory(ctx, segments.lengths)
        length = element(of, [*point[: segments.axis], segments.of(point)])
        number = cast(op("maximum", length, const(1, length.dtype)), data.dtype)
        return Value(data.size, data.dtype, op("div", given, number))
    if reduce == "prod":
        others = _product_of_others(ctx, segments, data, grad.size, initial)
        body = segments.only_inside(point, op("mul", given, others), 0)
        return Value(data.size, data.dtype, body)
    best = element(in_memory(ctx, output), to)
    equal = compare("eq", data.body, best)
    nan = compare("ne", data.body, data.body)
    chosen = op("logical_or", equal, nan)
    one = where(chosen, const(1.0, data.dtype), const(0.0, data.dtype))
    count = element(_summed(ctx, segments, one, data, grad.size, "sum", 0), to)
    # Eager divides among equal elements only where the gradient is positive.
    count = op("maximum", count, const(1.0, data.dtype))
    positive = compare("gt", given, const(0.0, data.dtype))
    shared = where(positive, op("div", given, count), given)
    return Value(data.size, data.dtype, where(chosen, shared, const(0.0, data.dtype)))


def _summed(
    ctx: LoweringContext,
    segments: _Segments,
    body: Expr,
    data: Value,
    size: tuple[Size, ...],
    how: str,
    start: float,
) -> Value:
    point = loop_vars(data.ndim)
    to = segments.line(point)
    body = segments.only_inside(point, body, 1 if how == "prod" else 0)
    base = full(size, start, data.dtype)
    return scatter_points(ctx, base, data.size, to, body, [segments.axis], how)


def _product_of_others(
    ctx: LoweringContext,
    segments: _Segments,
    data: Value,
    size: tuple[Size, ...],
    initial: float | None,
) -> Expr:
    """The product of a segment without each of its elements: zeros and NaN are counted apart."""
    dtype = data.dtype
    zero, one, x = const(0.0, dtype), const(1.0, dtype), data.body
    is_zero, is_nan = compare("eq", x, zero), compare("ne", x, x)
    special = op("logical_or", is_zero, is_nan)
    to = segments.line(loop_vars(data.ndim))
    start = 1.0 if initial is None else float(initial)
    plain = _summed(ctx, segments, where(special, one, x), data, size, "prod", start)
    zeros = _summed(ctx, segments, where(is_zero, one, zero), data, size, "sum", 0)
    nans = _summed(ctx, segments, where(is_nan, one, zero), data, size, "sum", 0)
    product = element(plain, to)
    own_zero, own_nan = where(is_zero, one, zero), where(is_nan, one, zero)
    other_zeros = compare("gt", op("sub", element(zeros, to), own_zero), zero)
    other_nans = compare("gt", op("sub", element(nans, to), own_nan), zero)
    without = where(special, product, op("div", product, where(special, one, x)))
    without = where(other_zeros, zero, without)
    return where(other_nans, const(float("nan"), dtype), without)
