"""How attention's operands lie in memory, for the kernels that read them in place."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ocl_inductor.ir.expr import const, where
from ocl_inductor.ir.index import Size, as_size, loop_vars
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full, without_broadcast
from ocl_inductor.lowering.core.values import Value, expand, reindex, strided_view


@dataclass(frozen=True, slots=True)
class Operand:
    """A realized operand with a stride for each dimension, 0 where it does not depend on one."""

    value: Value
    strides: tuple[Size, ...]
    offset: Size


def row_order(ctx: LoweringContext, query: Value) -> tuple[int, ...]:
    """Memory order of (\\*batch, rows) that follows the query's, as eager's result does."""
    view = strided_view(query)
    if view is None:
        return tuple(d for d in ctx.preferred_order(query) if d < query.ndim - 1)
    return tuple(sorted(range(query.ndim - 1), key=lambda d: -ctx.hint(view.stride[d])))


def operand_in_place(
    ctx: LoweringContext, value: Value, order: tuple[int, ...] | None = None
) -> Operand:
    """``value`` in memory, once for the dimensions that it does not depend on.

    ``order``: the memory order for a value that has to be computed.
    """
    once, free = without_broadcast(value, range(value.ndim))
    if strided_view(once) is None:
        once = ctx.realize(once, order)
    view = strided_view(once)
    assert view is not None
    strides = tuple(0 if f else s for f, s in zip(free, view.stride, strict=True))
    return Operand(once, strides, view.offset)


def additive_mask(
    ctx: LoweringContext,
    mask: Value,
    size: tuple[Size, ...],
    dtype: torch.dtype,
    *,
    rows_adjacent: bool,
) -> Operand:
    """``mask`` broadcast to ``size`` (\\*batch, rows, columns) as numbers of ``dtype`` to add.

    ``rows_adjacent``: whether one that has to be computed lies with its rows adjacent in memory,
    else its columns are.
    """
    mask = expand(mask, size)
    if mask.dtype is torch.bool:
        body = where(mask.body, const(0.0, dtype), const(-math.inf, dtype))
        mask = Value(size, dtype, body)
    else:
        mask = cast_value(mask, dtype)
    rows, columns = len(size) - 2, len(size) - 1
    last = (columns, rows) if rows_adjacent else (rows, columns)
    return operand_in_place(ctx, mask, (*range(rows), *last))


def with_logsumexp(out: Value, logsumexp: bool) -> tuple[Value, Value]:
    """A kernel's result (\\*batch, m, columns) as output and logarithms of sums (\\*batch, m).

    The latter are the last column; zeros, which are unused, where the kernel made none.
    """
    if not logsumexp:
        return out, full(out.size[:-1], 0, out.dtype)
    coordinates = loop_vars(out.ndim)
    columns = as_size(out.size[-1] - 1)
    rest = reindex(out, out.size[:-1], [*coordinates[:-1], columns])
    return reindex(out, (*out.size[:-1], columns), coordinates), rest
