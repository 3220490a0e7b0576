"""Operators that put tensors next to or into one another: cat, stack, padding, *_scatter views.

Each is one body that chooses its source by the coordinate; ``masked`` guards every read.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.ir.expr import Expr, compare, const, index_value, masked, op
from ocl_inductor.ir.index import Size, as_size, is_static, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, clamp, element, in_memory
from ocl_inductor.lowering.core.shapes import (
    all_of,
    cast_value,
    full,
    in_bounds,
    normalize_dim,
    position_dtype,
    size_expr,
    static_sizes,
)
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.views.views import clamp_slice, diagonal_geometry, lower_unsqueeze
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

#: A join of more inputs than this is written to memory piece by piece: choosing among many sources
#: at each element costs more than the copy.
MAX_INLINE_INPUTS = 2


def guarded(condition: Expr | None, value: Expr, other: Expr) -> Expr:
    """``value`` where the condition holds (None: everywhere)."""
    return value if condition is None else masked(condition, value, other)


def concatenate(ctx: LoweringContext, parts: Sequence[Value], dim: int) -> Value:
    """``parts`` of one dtype and rank, none of them empty along ``dim``, after one another."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if len(parts) > MAX_INLINE_INPUTS:
        return ctx.concatenate(parts, dim)
    starts: list[Size] = [0]
    for p in parts:
        starts.append(as_size(starts[-1] + p.size[dim]))
    size = (*first.size[:dim], starts[-1], *first.size[dim + 1 :])
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    body = const(0, first.dtype)
    for k in range(len(parts) - 1, -1, -1):
        index: list[sympy.Expr] = list(variables)
        index[dim] = variables[dim] - starts[k]
        condition = in_bounds(variables[dim], starts[k], starts[k + 1], ranges)
        body = guarded(condition, parts[k].at(index), body)
    return reindex(Value(size, first.dtype, body), size, variables)


@register(aten.cat.default)
def lower_cat(ctx: LoweringContext, tensors: Sequence[Value], dim: int = 0) -> Value:
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    # A tensor of size (0,) joins with any rank, a relic that eager keeps.
    real = [t for t in tensors if not (t.ndim == 1 and same(t.size[0], 0))]
    if not real:
        return full((0,), 0, dtype)
    dim = normalize_dim(dim, real[0].ndim)
    parts = [cast_value(t, dtype) for t in real if not same(t.size[dim], 0)]
    if not parts:
        return full(real[0].size, 0, dtype)
    return concatenate(ctx, parts, dim)


@register(aten.stack.default)
def lower_stack(ctx: LoweringContext, tensors: Sequence[Value], dim: int = 0) -> Value:
    dim = normalize_dim(dim, tensors[0].ndim + 1)
    return lower_cat(ctx, [lower_unsqueeze(ctx, t, dim) for t in tensors], dim)


# -- padding -------------------------------------------------------------------------------


@register(aten.constant_pad_nd.default)
def lower_constant_pad(
    ctx: LoweringContext, x: Value, pad: Sequence[Size], value: float = 0
) -> Value:
    """``pad`` holds (left, right) pairs from the last dimension on; negative ones crop."""
    if isinstance(value, sympy.Basic):
        raise CannotLower("padding with a symbolic value")
    amounts = [as_size(p) for p in pad]
    size = list(x.size)
    variables = loop_vars(x.ndim)
    index: list[sympy.Expr] = list(variables)
    padded = []
    for k in range(len(amounts) // 2):
        d = x.ndim - 1 - k
        left, right = amounts[2 * k], amounts[2 * k + 1]
        size[d] = as_size(size[d] + left + right)
        index[d] = variables[d] - left
        padded.append(d)
    ranges = dict(zip(variables, size, strict=True))
    condition = all_of(in_bounds(index[d], 0, x.size[d], ranges) for d in sorted(padded))
    if any(same(n, 0) for n in x.size):  # nothing to read, and nothing that could be guarded
        return full(size, value, x.dtype)
    body = guarded(condition, x.at(index), const(value, x.dtype))
    return reindex(Value(tuple(size), x.dtype, body), size, variables)


def _reflect(v: sympy.Symbol, left: Size, n: Size) -> Expr:
    """Coordinate of a mirror without repeating the border: ``n-1-|n-1-|v-left||``."""
    dtype = position_dtype(n)
    last = size_expr(n - 1, dtype)
    distance = op("abs", index_value(v - left, dtype))
    return op("sub", last, op("abs", op("sub", last, distance)))


def _replicate(v: sympy.Symbol, left: Size, n: Size) -> Expr:
    return clamp(index_value(v - left, position_dtype(n)), n)


def _border_pad(ctx: LoweringContext, x: Value, padding: Sequence[Size], how: str) -> Value:
    amounts = [as_size(p) for p in padding]
    source = in_memory(ctx, x)
    size = list(x.size)
    coordinates: list[Coordinate] = list(loop_vars(x.ndim))
    for k in range(len(amounts) // 2):
        d = x.ndim - 1 - k
        left, right = amounts[2 * k], amounts[2 * k + 1]
        n = x.size[d]
        size[d] = as_size(n + left + right)
        v = loop_vars(x.ndim)[d]
        if all(is_static(p) and int(p) <= 0 for p in (left, right)):
            coordinates[d] = v - left
        elif how == "reflection":
            coordinates[d] = _reflect(v, left, n)
        else:
            coordinates[d] = _replicate(v, left, n)
    return Value(tuple(size), x.dtype, element(source, coordinates))


@register(
    aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default
)
def lower_reflection_pad(ctx: LoweringContext, x: Value, padding: Sequence[Size]) -> Value:
    return _border_pad(ctx, x, padding, "reflection")


@register(
    aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default
)
def lower_replication_pad(ctx: LoweringContext, x: Value, padding: Sequence[Size]) -> Value:
    return _border_pad(ctx, x, padding, "replication")


# -- writing into a view of a copy ---------------------------------------------------------


@register(aten.slice_scatter.default)
def lower_slice_scatter(
    ctx: LoweringContext,
    x: Value,
    src: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Value:
    """A copy of ``x`` whose ``[start:end:step]`` along ``dim`` is ``src``."""
    dim = normalize_dim(dim, x.ndim)
    first, last = clamp_slice(ctx, x.size[dim], start, end)
    if same(first, 0) and same(last, x.size[dim]) and step == 1:
        return cast_value(src, x.dtype)
    if same(src.size[dim], 0):
        return x
    variables = loop_vars(x.ndim)
    v = variables[dim]
    conditions = [in_bounds(v, first, last, x.ranges)]
    offset = v - first
    if step != 1:
        # The sum keeps the dividend non-negative; its remainder only counts within the bounds.
        phase = ModularIndexing(v + (step - 1) * first, sympy.Integer(1), sympy.Integer(step))
        zero = const(0, torch.int32)
        conditions.append(compare("eq", index_value(phase, torch.int32), zero))
        offset = FloorDiv(offset, sympy.Integer(step))
    index = [*variables[:dim], offset, *variables[dim + 1 :]]
    source = cast_value(src, x.dtype)
    body = guarded(all_of(conditions), source.at(index), x.body)
    return reindex(Value(x.size, x.dtype, body), x.size, variables)


@register(aten.select_scatter.default)
def lower_select_scatter(
    ctx: LoweringContext, x: Value, src: Value, dim: int, index: Size
) -> Value:
    dim = normalize_dim(dim, x.ndim)
    (position,) = static_sizes((as_size(index),), "select_scatter")
    return lower_slice_scatter(
        ctx,
        x,
        lower_unsqueeze(ctx, src, dim),
        dim,
        position,
        None if position == -1 else position + 1,
    )


@register(aten.diagonal_scatter.default)
def lower_diagonal_scatter(
    ctx: LoweringContext, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    d1, d2, length, offset = diagonal_geometry(x, offset, dim1, dim2)
    if same(length, 0):
        return x
    variables = loop_vars(x.ndim)
    row, column = variables[d1], variables[d2]
    dtype = position_dtype(x.size[d1], x.size[d2])
    on = compare("eq", index_value(row + offset, dtype), index_value(column, dtype))
    kept = [v for d, v in enumerate(variables) if d not in (d1, d2)]
    along = row if offset >= 0 else column
    body = masked(on, cast_value(src, x.dtype).at([*kept, along]), x.body)
    return reindex(Value(x.size, x.dtype, body), x.size, variables)
