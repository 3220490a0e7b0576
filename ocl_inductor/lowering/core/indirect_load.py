"""Reading a tensor in memory at computed coordinates: what index and resize lowerings build on.

A kernel must not read outside of a buffer, so every coordinate is brought into range. Where eager
raises for an index out of range, the kernel reports it as well (``checked_index``), and the call
raises when it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import sympy
import torch

from ocl_inductor.ir.dtypes import INDEX_DTYPES
from ocl_inductor.ir.expr import (
    Check,
    Expr,
    cast,
    checked_index,
    compare,
    const,
    indirect_symbol,
    load,
    masked,
    op,
    where,
)
from ocl_inductor.ir.index import Ranges, Size, interval, is_static, linear, may_be_empty, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import position_dtype, size_expr
from ocl_inductor.lowering.core.value_range import value_range
from ocl_inductor.lowering.core.values import Value, strided_view
from ocl_inductor.operators.registry import CannotLower

#: A coordinate is an index expression, or data that is only known when the kernel runs.
Coordinate: TypeAlias = sympy.Expr | Expr


def users_index(
    ctx: LoweringContext,
    index: Expr,
    extent: Size,
    ranges: Ranges,
    dim: int | None,
    *,
    wrap: bool = True,
) -> Coordinate:
    """A coordinate that the user gives, in ``[0, extent)`` of dimension ``dim``; else it is
    reported. ``dim`` None: ``extent`` elements in a row. ``wrap``: see :func:`as_coordinate`.

    Raises:
        CannotLower: there is nothing to index; eager's own error says so.
    """
    if any(same(n, 0) for n in ranges.values()):  # no point, no index
        return as_coordinate(index, extent, ranges, wrap=wrap)
    if same(extent, 0):
        raise CannotLower("an index into a dimension of size 0")
    check = check_of(ctx, index, extent, ranges, dim, wrap=wrap)
    return as_coordinate(index, extent, ranges, wrap=wrap, check=check)


def check_of(
    ctx: LoweringContext,
    index: Expr,
    extent: Size,
    ranges: Ranges,
    dim: int | None,
    *,
    wrap: bool = True,
) -> Check | None:
    """How a kernel is to check an index; None: it need not."""
    if not ctx.settings.check_indices:
        return None
    if is_static(extent):
        least, greatest = value_range(index, ranges, ctx.nodes)
        if least >= (-int(extent) if wrap else 0) and greatest < int(extent):
            return None
    return ctx.check(extent, dim, wrap)


def as_coordinate(
    value: Expr, extent: Size, ranges: Ranges, *, wrap: bool = True, check: Check | None = None
) -> Coordinate:
    """An integer coordinate in ``[0, extent)``; ``wrap`` lets negative ones count from the end.

    Index expressions (from arange and the like) and literals stay index expressions where they
    are certainly in range, so that reads through them remain affine. Others out of range are
    reported if there is a ``check``.
    """
    if value.op in ("const", "index") and is_static(extent):
        position = sympy.sympify(value.payload)
        bounds = interval(position, ranges)
        if bounds is not None and bounds[0] >= 0 and bounds[1] < int(extent):
            return position
    # Narrowing may turn an index that is far out of range into another one. Clamping comes after;
    # a check comes before.
    dtype = position_dtype(extent)
    if check is not None:
        wide = torch.int64 if value.dtype is torch.int64 else dtype
        return checked_index(cast(value, wide), size_expr(extent, dtype), check)
    position_expr = cast(value, dtype)
    bound = size_expr(extent, dtype)
    if wrap and value.dtype is not torch.uint8:
        negative = compare("lt", position_expr, const(0, dtype))
        position_expr = where(negative, op("add", position_expr, bound), position_expr)
    return clamp(position_expr, extent)


def clamp(position: Expr, extent: Size) -> Expr:
    """``min(max(position, 0), extent - 1)``."""
    top = size_expr(extent - 1, position.dtype)
    return op("maximum", op("minimum", position, top), const(0, position.dtype))


def bind(coordinates: Sequence[Coordinate]) -> tuple[list[sympy.Expr], tuple[Expr, ...]]:
    """Split coordinates into index expressions over ``ind*`` and what those stand for."""
    bound: list[Expr] = []
    index: list[sympy.Expr] = []
    for c in coordinates:
        if isinstance(c, Expr):
            if c not in bound:
                bound.append(c)
            index.append(indirect_symbol(bound.index(c)))
        else:
            index.append(sympy.sympify(c))
    return index, tuple(bound)


def element(source: Value, coordinates: Sequence[Coordinate]) -> Expr:
    """``source[coordinates]``; with data among the coordinates ``source`` must be in memory."""
    index, bound = bind(coordinates)
    if not bound:
        return source.at(index)
    view = strided_view(source)
    assert view is not None, "only memory can be read at computed coordinates"
    read = load(view.buffer, linear(index, view.stride, view.offset), source.dtype, bound)
    for c, extent in zip(coordinates, source.size, strict=True):
        if isinstance(c, Expr) and may_be_empty(extent):  # then the coordinate is 0 all the same
            exists = compare("lt", c, size_expr(extent, c.dtype))
            read = masked(exists, read, const(0, source.dtype))
    return read


def in_memory(ctx: LoweringContext, source: Value) -> Value:
    """``source`` as a strided view of a buffer."""
    return ctx.realize(source)


def require_index(value: Value) -> Value:
    """The value, if its dtype can index."""
    if value.dtype not in INDEX_DTYPES:
        raise CannotLower(f"an index of dtype {value.dtype}: the result's size depends on data")
    return value
