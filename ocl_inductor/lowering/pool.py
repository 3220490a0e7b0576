"""Pooling. Small windows are written out as masked reads; large ones become reductions.

The input goes to memory first, so that its producers are not computed once for every window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from ocl_inductor.ir.expr import (
    Expr,
    cast,
    compare,
    const,
    index_value,
    logical_and,
    masked,
    op,
    where,
)
from ocl_inductor.ir.index import Size, contiguous_strides, linear, loop_vars, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.lowering.registry import CannotLower, register
from ocl_inductor.lowering.shapes import cast_value, full, lowest, static_sizes
from ocl_inductor.lowering.values import Value, reindex
from ocl_inductor.lowering.windows import (
    MAX_UNROLLED_POINTS,
    AdaptiveWindows,
    Windows,
    clipped_length,
    window_vars,
)

aten = torch.ops.aten

#: Reads the input at trailing coordinates; ``None`` guards nothing.
Read = Callable[[Sequence[sympy.Expr]], Expr]


def _reader(x: Value, lead: Sequence[sympy.Expr]) -> Read:
    return lambda coordinates: x.at([*lead, *coordinates])


def _masked_read(condition: Expr | None, value: Expr, other: float | int) -> Expr:
    return value if condition is None else masked(condition, value, const(other, value.dtype))


def _tidy(size: Sequence[Size], dtype: torch.dtype, body: Expr) -> Value:
    """A value whose indices are simplified with its own extents."""
    return reindex(Value(tuple(size), dtype, body), size, loop_vars(len(size)))


# -- maximum -------------------------------------------------------------------------------


def _is_larger(candidate: Expr, best: Expr) -> Expr:
    """ATen's rule: a NaN always wins, so the last one in a window gives the position."""
    larger = compare("gt", candidate, best)
    if not candidate.dtype.is_floating_point:
        return larger
    return op("logical_or", larger, compare("ne", candidate, candidate))


def max_pool(ctx: LoweringContext, x: Value, windows: Windows) -> tuple[Value, Value]:
    """``(values, int64 positions in the flattened spatial dimensions)``."""
    n = len(windows.kernel)
    x = ctx.realize(x)
    size = (*x.size[: x.ndim - n], *windows.counts)
    if any(same(s, 0) for s in size):
        return full(size, 0, x.dtype), full(size, 0, torch.int64)
    if windows.points > MAX_UNROLLED_POINTS:
        return _max_pool_loop(ctx, x, windows, size)
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    lead, own = variables[:-n], window_vars(len(size), n)
    read = _reader(x, lead)
    strides = contiguous_strides(windows.extents)
    best = const(lowest(x.dtype), x.dtype)
    position = _first_position(windows, own, strides, ranges)
    for offsets in windows.unrolled():
        at = windows.coordinates(own, offsets)
        inside = windows.inside(at, ranges)
        # Outside counts as the lowest value, which never beats what was seen.
        candidate = _masked_read(inside, read(at), lowest(x.dtype))
        take = _is_larger(candidate, best)
        position = where(take, index_value(linear(at, strides)), position)
        best = op("maximum", best, candidate)
    return _tidy(size, x.dtype, best), _tidy(size, torch.int64, position)


def _first_position(
    windows: Windows, own: Sequence[sympy.Expr], strides: Sequence[Size], ranges: Any
) -> Expr:
    """Position of each window's first point inside the input: the answer where all are -inf."""
    total: Expr | None = None
    for k, w in enumerate(own):
        start, step = windows.origin(k, w), windows.dilation[k]
        steps = -(-windows.padding[k] // step)  # points of the first window in the left padding
        first = index_value(start + steps * step)
        for i in range(steps - 1, -1, -1):
            here = index_value(start + i * step)
            first = where(compare("ge", here, const(0, torch.int64)), here, first)
        if not same(strides[k], 1):
            first = op("mul", first, index_value(strides[k]))
        total = first if total is None else op("add", total, first)
    assert total is not None
    return total


def _max_pool_loop(
    ctx: LoweringContext, x: Value, windows: Windows, size: tuple[Size, ...]
) -> tuple[Value, Value]:
    """A reduction over window dimensions, for windows too large to write out."""
    n = len(windows.kernel)
    whole = (*size, *windows.kernel)
    variables = loop_vars(len(whole))
    ranges = dict(zip(variables, whole, strict=True))
    own, offsets = variables[len(size) - n : len(size)], variables[len(size) :]
    at = windows.coordinates(own, offsets)
    inside = windows.inside(at, ranges)
    candidate = _masked_read(inside, x.at([*variables[: len(size) - n], *at]), lowest(x.dtype))
    body = _tidy(whole, x.dtype, candidate)
    dims = list(range(len(size), len(whole)))
    values = reduce_dims(ctx, body, dims, "max")
    if inside is not None:
        # The position of an all -inf window at the border would be outside; rather the host.
        return values, _host_positions(x, windows, size)
    order = reduce_dims(ctx, body, dims, "argmax")
    strides = contiguous_strides(windows.extents)
    total: Expr = const(0, torch.int64)
    for k, v in enumerate(loop_vars(len(size))[len(size) - n :]):
        divisor = math.prod(windows.kernel[k + 1 :])
        step = op("floor_div", order.body, const(divisor, torch.int64))
        step = op("remainder", step, const(windows.kernel[k], torch.int64))
        scaled = op("mul", step, const(windows.dilation[k], torch.int64))
        here = op("add", index_value(windows.origin(k, v)), scaled)
        total = op("add", total, op("mul", here, index_value(strides[k])))
    return values, _tidy(size, torch.int64, total)
