"""Elements picked out in order: where a mask is true, or as often as a count says.

How many there are before a place is a running sum; the place of the k-th is found by bisection in
it. Work is linear, results are written in parallel, and no size depends on data but that of the
result, which the caller knows.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, masked, op, where
from ocl_inductor.ir.index import Size, as_size, contiguous_strides, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, clamp, element, in_memory
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.shapes import (
    broadcast_sizes,
    cast_value,
    full,
    position_dtype,
    size_expr,
)
from ocl_inductor.lowering.core.values import Value, expand, reshape
from ocl_inductor.lowering.reduce.scans import scan_along
from ocl_inductor.lowering.sort.searchsorted import bisect
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def running_count(ctx: LoweringContext, flags: Value) -> Value:
    """How many of the flattened ``flags`` are true up to and including each, ``[n]``."""
    n = prod(flags.size)
    flat = cast_value(cast_value(flags, torch.bool), position_dtype(n))
    return scan_along(ctx, reshape(flat, (n,)), 0, "sum")


def places_of(ctx: LoweringContext, running: Value, size: Size) -> Value:
    """``[size]``: the place of the first, second, ... true flag; ``n`` where there is none."""
    (k,) = loop_vars(1)
    wanted = op("add", cast(index_value(k), running.dtype), const(1, running.dtype))
    number = Value((size,), running.dtype, wanted)
    return bisect(ctx, running, number, right=False, dtype=position_dtype(running.size[0]))


def coordinate(place: Expr, sizes: Sequence[Size], dim: int) -> Expr:
    """Coordinate ``dim`` of a place in the flattened ``sizes``."""
    stride = contiguous_strides(sizes)[dim]
    if not same(stride, 1):
        place = op("trunc_div", place, size_expr(stride, place.dtype))
    return place if dim == 0 else op("fmod", place, size_expr(sizes[dim], place.dtype))


def nonzero_places(ctx: LoweringContext, x: Value, size: Size, fill: int = -1) -> Value:
    """``[size, x.ndim]`` int64: coordinates of elements that are not 0, then rows of ``fill``."""
    shape = (size, x.ndim)
    if any(same(s, 0) for s in shape):
        return full(shape, 0, torch.int64)
    if any(same(s, 0) for s in x.size):
        return full(shape, fill, torch.int64)
    n = prod(x.size)
    places = ctx.realize(places_of(ctx, running_count(ctx, x), size))
    row, column = loop_vars(2)
    place = places.at([row])
    result = coordinate(place, x.size, x.ndim - 1)
    for d in range(x.ndim - 2, -1, -1):
        here = compare("eq", index_value(column, torch.int32), const(d, torch.int32))
        result = where(here, coordinate(place, x.size, d), result)
    found = compare("lt", place, size_expr(n, place.dtype))
    body = where(found, cast(result, torch.int64), const(fill, torch.int64))
    return Value(shape, torch.int64, body)


@register(aten.nonzero_static.default)
def lower_nonzero_static(
    ctx: LoweringContext, x: Value, *, size: Size, fill_value: int = -1
) -> Value:
    return nonzero_places(ctx, x, as_size(size), fill_value)


def selected(
    ctx: LoweringContext, x: Value, mask: Value, size: Size, missing: float | None = None
) -> Value:
    """``[size]``: elements of ``x`` where ``mask`` (of its size) is true, then ``missing``."""
    n = prod(x.size)
    if same(n, 0) or same(size, 0):
        return full((size,), missing or 0, x.dtype)
    flat = in_memory(ctx, reshape(ctx.realize(x, tuple(range(x.ndim))), (n,)))
    place = places_of(ctx, running_count(ctx, mask), size).body
    taken = element(flat, [clamp(place, n)])
    if missing is not None:
        found = compare("lt", place, size_expr(n, place.dtype))
        taken = masked(found, taken, const(missing, x.dtype))
    return Value((size,), x.dtype, taken)


def size_of_result(ctx: LoweringContext) -> Size:
    """The first size of the operator's result, which depends on data. It has been counted before
    this graph begins (passes/stages.py).
    """
    value = None if ctx.fx_node is None else ctx.fx_node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.ndim == 0:
        raise CannotLower("the result's size depends on data")
    return as_size(value.shape[0])


@register(aten.nonzero.default)
def lower_nonzero(ctx: LoweringContext, x: Value) -> Value:
    return nonzero_places(ctx, x, size_of_result(ctx))


@register(aten.masked_select.default)
def lower_masked_select(ctx: LoweringContext, x: Value, mask: Value) -> Value:
    size = broadcast_sizes([x.size, mask.size])
    return selected(ctx, expand(x, size), expand(mask, size), size_of_result(ctx))


def select_by_mask(ctx: LoweringContext, x: Value, dim: int, mask: Value, size: Size) -> Value:
    """``x[:, mask]``: ``mask`` stands for dimensions from ``dim`` on; ``size`` of it is true."""
    result = (*x.size[:dim], size, *x.size[dim + mask.ndim :])
    if any(same(s, 0) for s in (*x.size, *result)):
        return full(result, 0, x.dtype)
    source = in_memory(ctx, x)
    places = ctx.realize(places_of(ctx, running_count(ctx, mask), size))
    variables = loop_vars(len(result))
    place = clamp(places.at([variables[dim]]), prod(mask.size))
    at: list[Coordinate] = list(variables[:dim])
    at += [coordinate(place, mask.size, d) for d in range(mask.ndim)]
    at += variables[dim + 1 :]
    return Value(result, x.dtype, element(source, at))


@register(aten.masked_scatter_backward.default)
def lower_masked_scatter_backward(
    ctx: LoweringContext, grad: Value, mask: Value, sizes: Sequence[Size]
) -> Value:
    """Gradient of the source: what the mask took of it, in order, then zeros."""
    size = [as_size(s) for s in sizes]
    taken = selected(ctx, grad, expand(mask, grad.size), prod(size), missing=0)
    return reshape(taken, size)


@register(aten.repeat_interleave.Tensor)
def lower_repeat_interleave(
    ctx: LoweringContext, repeats: Value, *, output_size: Size | None = None
) -> Value:
    """``k`` as often as ``repeats[k]`` says: positions for an index_select."""
    size = size_of_result(ctx) if output_size is None else as_size(output_size)
    n = repeats.size[0]
    if same(size, 0) or same(n, 0):
        return full((size,), 0, repeats.dtype)
    wide = cast_value(repeats, torch.int64)
    counts = compare("ge", wide.body, const(0, torch.int64))
    negative = refused_unless(ctx, counts, torch.int64, "repeats can not be negative")
    wide = Value(wide.size, torch.int64, op("add", wide.body, negative))
    running = ctx.realize(scan_along(ctx, wide, 0, "sum"))
    (k,) = loop_vars(1)
    wanted: Expr = index_value(k)
    if output_size is not None:
        total = element(running, [as_size(n - 1)])
        as_many = compare("eq", total, size_expr(size, torch.int64))
        says = "allocated size does not match required size"
        wanted = op("add", wanted, refused_unless(ctx, as_many, torch.int64, says))
    number = Value((size,), torch.int64, wanted)
    return bisect(ctx, running, number, right=True, dtype=repeats.dtype)


_NOT_AS_MANY = "shape mismatch: value tensor cannot be broadcast to indexing result"


def put_in_order(
    ctx: LoweringContext, x: Value, dim: int, mask: Value, values: Value, accumulate: bool
) -> Value:
    """The places of ``x`` where ``mask`` (over dimensions from ``dim`` on) is true take slices of
    ``values`` in order; ``values`` has one dimension, at ``dim``, in place of the mask's.
    """
    variables = loop_vars(x.ndim)
    size = (*x.size[:dim], values.size[dim], *x.size[dim + mask.ndim :])
    own, given = variables[dim : dim + mask.ndim], values.size[dim]
    if any(same(s, 0) for s in (*x.size, *size)):
        if any(same(s, 0) for s in x.size):
            return x
        none = op("logical_not", cast(mask.at(own), torch.bool))
        return Value(
            x.size, x.dtype, where(none, x.body, refused_unless(ctx, none, x.dtype, _NOT_AS_MANY))
        )
    rest: list[sympy.Expr] = [*variables[:dim], *variables[dim + mask.ndim :]]
    counted = ctx.realize(running_count(ctx, mask))
    running = reshape(counted, mask.size)
    total = element(counted, [as_size(counted.size[0] - 1)])
    as_many = compare("eq", total, size_expr(given, total.dtype))
    before = op("sub", running.at(own), const(1, running.dtype))
    source = in_memory(ctx, expand(values, size))
    place = op(
        "add", clamp(before, given), refused_unless(ctx, as_many, before.dtype, _NOT_AS_MANY)
    )
    taken = element(source, [*rest[:dim], place, *rest[dim:]])
    new = cast(taken, x.dtype)
    if accumulate:
        new = op("add", x.body, new)
    condition = cast(mask.at(own), torch.bool)
    return Value(x.size, x.dtype, where(condition, new, x.body))
