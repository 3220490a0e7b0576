"""Reading a tensor in memory at computed coordinates: what index and resize lowerings build on.

Eager raises IndexError for an index out of range. A kernel cannot, and must not read outside the
buffer, so indices are clamped into range: a wrong index gives an element of the tensor instead of
an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, indirect_symbol, load, op, where
from ocl_inductor.ir.index import Ranges, Size, interval, is_static, linear
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.registry import CannotLower
from ocl_inductor.lowering.shapes import position_dtype, size_expr
from ocl_inductor.lowering.values import Value, strided_view

#: A coordinate is an index expression, or data that is only known when the kernel runs.
Coordinate: TypeAlias = sympy.Expr | Expr

INDEX_DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def as_coordinate(value: Expr, extent: Size, ranges: Ranges, *, wrap: bool = True) -> Coordinate:
    """An integer coordinate in ``[0, extent)``; ``wrap`` lets negative ones count from the end.

    Index expressions (from arange and the like) and literals stay index expressions where they
    are certainly in range, so that reads through them remain affine.
    """
    if value.op in ("const", "index") and is_static(extent):
        position = sympy.sympify(value.payload)
        bounds = interval(position, ranges)
        if bounds is not None and bounds[0] >= 0 and bounds[1] < int(extent):
            return position
    # Narrowing may turn an index that is far out of range into another one; clamping comes after.
    dtype = position_dtype(extent)
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
    return load(view.buffer, linear(index, view.stride, view.offset), source.dtype, bound)


def in_memory(ctx: LoweringContext, source: Value) -> Value:
    """``source`` as a strided view of a buffer."""
    return ctx.realize(source)


def require_index(value: Value) -> Value:
    """The value, if its dtype can index."""
    if value.dtype not in INDEX_DTYPES:
        raise CannotLower(f"an index of dtype {value.dtype}: the result's size depends on data")
    return value
