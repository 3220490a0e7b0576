"""kthvalue, median, nanmedian and mode: elements picked by their place in the sorted row.

Of equal elements eager gives no particular position; here it is the first or last one.
"""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, masked, op, where
from ocl_inductor.ir.index import is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import element
from ocl_inductor.lowering.core.shapes import full, normalize_dim, position_dtype, reused
from ocl_inductor.lowering.core.values import Value, reshape
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.lowering.reduce.scans import scan_along
from ocl_inductor.lowering.sort.sort import (
    Rows,
    at_positions,
    columns_of,
    first_of_rows,
    is_trivial,
    rows_of,
    sort_rows,
)
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

Pair = tuple[Value, Value]


def _picked(rows: Rows, place: Value, keepdim: bool) -> Pair:
    """Values and positions for one int64 position a row (``[rows]``)."""
    column = reshape(place, (place.size[0], 1))
    results = [rows.restore(v) for v in (at_positions(rows, column), column)]
    if not keepdim:
        results = [reshape(v, rows.lead) for v in results]
    return results[0], results[1]


def _trivial(x: Value, dim: int, keepdim: bool) -> Pair:
    """The only element of each row; CannotLower for rows of none, an error in eager."""
    if x.ndim and same(x.size[dim], 0):
        raise CannotLower("picks an element of none")
    kept = [n for d, n in enumerate(x.size) if d != dim or x.ndim == 0]
    size = tuple(1 if d == dim else n for d, n in enumerate(x.size)) if keepdim else tuple(kept)
    if any(same(n, 0) for n in size):
        return full(size, 0, x.dtype), full(size, 0, torch.int64)
    return reshape(x, size), full(size, 0, torch.int64)


def _is_nan(x: Value) -> Expr:
    return compare("ne", x.body, x.body)


@register(aten.kthvalue.default)
def lower_kthvalue(
    ctx: LoweringContext, x: Value, k: int, dim: int = -1, keepdim: bool = False
) -> Pair:
    """The ``k``-th smallest element, counted from 1."""
    dim = normalize_dim(dim, x.ndim)
    if is_trivial(x, dim):
        return _trivial(x, dim, keepdim)
    if not is_static(k):
        raise CannotLower("kthvalue with a symbolic k")
    rows = rows_of(ctx, x, dim)
    place = columns_of(first_of_rows(ctx, rows, int(k), descending=False), int(k) - 1, 1)
    return _picked(rows, reshape(place, place.size[:1]), keepdim)


@register(aten.median.dim)
def lower_median(ctx: LoweringContext, x: Value, dim: int, keepdim: bool = False) -> Pair:
    """The lower of the middle elements, or the first NaN."""
    dim = normalize_dim(dim, x.ndim)
    if is_trivial(x, dim):
        return _trivial(x, dim, keepdim)
    rows = rows_of(ctx, x, dim)
    return _picked(rows, _median_place(ctx, rows), keepdim)


def _median_place(ctx: LoweringContext, rows: Rows) -> Value:
    n = rows.length
    if not is_static(n):
        raise CannotLower("median of a symbolic number of elements")
    middle = (int(n) - 1) // 2
    place = columns_of(first_of_rows(ctx, rows, middle + 1, descending=False), middle, 1)
    place = reshape(place, place.size[:1])
    if not rows.matrix.dtype.is_floating_point:
        return place
    # The position of the greatest truth value: the first NaN, where there is one.
    nan = Value(rows.matrix.size, torch.int32, cast(_is_nan(rows.matrix), torch.int32))
    first = reduce_dims(ctx, nan, [1], "argmax")
    found = element(rows.matrix, [loop_vars(1)[0], first.body])
    return Value(
        place.size, torch.int64, where(compare("ne", found, found), first.body, place.body)
    )


@register(aten.nanmedian.dim)
def lower_nanmedian(ctx: LoweringContext, x: Value, dim: int, keepdim: bool = False) -> Pair:
    """The lower of the middle elements among those that are not NaN."""
    dim = normalize_dim(dim, x.ndim)
    if is_trivial(x, dim):
        return _trivial(x, dim, keepdim)
    if not x.dtype.is_floating_point:
        return lower_median(ctx, x, dim, keepdim)
    rows = rows_of(ctx, x, dim)
    return _picked(rows, _nanmedian_place(ctx, rows), keepdim)


def _nanmedian_place(ctx: LoweringContext, rows: Rows) -> Value:
    dtype = position_dtype(rows.length)
    numbers = compare("eq", rows.matrix.body, rows.matrix.body)
    counted = Value(rows.matrix.size, dtype, cast(numbers, dtype))
    count = reduce_dims(ctx, counted, [1], "sum")
    middle = op("trunc_div", op("sub", count.body, const(1, dtype)), const(2, dtype))
    order = ctx.realize(sort_rows(ctx, rows, descending=False))
    place = element(order, [loop_vars(1)[0], op("maximum", middle, const(0, dtype))])
    return Value(count.size, torch.int64, place)


def _of_all(ctx: LoweringContext, x: Value) -> Rows:
    if any(same(n, 0) for n in x.size):
        raise CannotLower("the median of no elements")
    return rows_of(ctx, reshape(x, (prod(x.size),)), 0)


@register(aten.median.default)
def lower_median_of_all(ctx: LoweringContext, x: Value) -> Value:
    rows = _of_all(ctx, x)
    return _picked(rows, _median_place(ctx, rows), False)[0]


@register(aten.nanmedian.default)
def lower_nanmedian_of_all(ctx: LoweringContext, x: Value) -> Value:
    rows = _of_all(ctx, x)
    if not x.dtype.is_floating_point:
        return _picked(rows, _median_place(ctx, rows), False)[0]
    return _picked(rows, _nanmedian_place(ctx, rows), False)[0]


@register(aten.mode.default)
def lower_mode(ctx: LoweringContext, x: Value, dim: int = -1, keepdim: bool = False) -> Pair:
    """The smallest of the most frequent elements; NaN equals nothing, itself included.

    (Eager sorts by ``<`` alone, which leaves rows with NaN in no particular order.)
    """
    dim = normalize_dim(dim, x.ndim)
    if is_trivial(x, dim):
        return _trivial(x, dim, keepdim)
    rows = rows_of(ctx, x, dim)
    order = ctx.realize(sort_rows(ctx, rows, descending=False))
    values = reused(ctx, ctx.realize(at_positions(rows, order)))
    dtype = position_dtype(rows.length)
    row, column = loop_vars(2)
    here = index_value(column, dtype)
    first = compare("eq", here, const(0, dtype))
    zero = const(0, values.dtype)
    before = masked(compare("gt", here, const(0, dtype)), values.at([row, column - 1]), zero)
    starts = op("logical_or", first, compare("ne", values.body, before))
    start = Value(values.size, dtype, where(starts, here, const(0, dtype)))
    begun = scan_along(ctx, start, 1, "max")
    length = Value(values.size, dtype, op("sub", here, begun.body))
    # The first of the longest runs has the smallest element; the place is the end of the run's
    # longest prefix, which is the run itself.
    best = reduce_dims(ctx, length, [1], "argmax")
    return _picked(rows, Value(best.size, torch.int64, element(order, [row, best.body])), keepdim)
