"""Counts of elements in bins: histc, histogram, histogramdd."""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, logical_and, masked, op, where
from ocl_inductor.ir.index import loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.shapes import cast_value, full, in_bounds, position_dtype, reused
from ocl_inductor.lowering.core.values import ZERO, Value, reindex, reshape
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.blocking import size_ceil_div

aten = torch.ops.aten

#: Histograms that are counted in parallel and then added up.
HISTOGRAMS = 64


@register(aten.histc.default)
def lower_histc(
    ctx: LoweringContext, x: Value, bins: int = 100, min: float = 0, max: float = 0
) -> Value:
    """Counts in ``bins`` equal intervals of [min, max]; what lies outside, and NaN, counts nowhere.

    Where the two are equal, the range is that of the elements, which is refused if it is infinite.
    Pieces of the input fill histograms of their own: O(n), no two work-items share a counter.
    """
    if not x.dtype.is_floating_point:
        raise CannotLower(f"histc of {x.dtype}")
    if not all(isinstance(v, (int, float)) for v in (bins, min, max)):
        raise CannotLower("histc whose number of bins or range is a tensor")
    count = prod(x.size)
    if same(count, 0):
        return full((bins,), 0, x.dtype)
    flat = reused(ctx, reshape(x, (count,)))
    pieces = HISTOGRAMS if ctx.hint(count) >= 64 * HISTOGRAMS else 1
    length = size_ceil_div(count, pieces)
    piece, step = loop_vars(2)
    position = piece * length + step
    index, wide = position_dtype(count), accumulation_dtype(x.dtype)
    low, high = const(float(min), wide), const(float(max), wide)
    if min == max:
        low, high = _range_of(ctx, cast_value(flat, wide))
    number = cast(flat.at([position]), wide)
    exists = in_bounds(position, 0, count, {piece: pieces, step: length})
    if exists is not None:
        number = masked(exists, number, const(float("nan"), wide))
    scaled = op("mul", op("sub", number, low), const(float(bins), wide))
    place = cast(op("div", scaled, op("sub", high, low)), index)
    inside = logical_and(compare("ge", number, low), compare("le", number, high))
    # The last interval includes its end; one more counter takes what lies outside.
    place = op("maximum", op("minimum", place, const(bins - 1, index)), const(0, index))
    counter = where(inside, place, const(bins, index))
    counts = scatter_points(
        ctx,
        full((pieces, bins + 1), 0, torch.int32),
        (pieces, length),
        [piece, counter],
        const(1, torch.int32),
        [1],
        "sum",
    )
    total = reduce_dims(ctx, cast_value(counts, torch.int64), [0], "sum")
    return cast_value(reindex(total, (bins,), loop_vars(1)), x.dtype)


def _range_of(ctx: LoweringContext, x: Value) -> tuple[Expr, Expr]:
    """The smallest and the largest number of ``x`` (n), or one around it where they are equal."""
    low, high = (reduce_dims(ctx, x, [0], how).body for how in ("min", "max"))
    infinity = float("inf")
    finite = logical_and(
        compare("gt", low, const(-infinity, x.dtype)), compare("lt", high, const(infinity, x.dtype))
    )
    says = "torch.histc: the range of the elements is not finite"
    low = op("add", low, refused_unless(ctx, finite, x.dtype, says))
    one, alone = const(1.0, x.dtype), compare("eq", low, high)
    ends = (
        where(alone, op("sub", low, one), low),
        where(alone, op("add", high, one), high),
    )
    first, last = (ctx.realize(Value((1,), x.dtype, end)).at([ZERO]) for end in ends)
    return first, last
